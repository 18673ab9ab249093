// For tests of own engines on the first GPU.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/environment.h"
#include "engines/cuda/compiler/product_engine.h"
#include "engines/cuda/testing/device_data.h"

namespace convoy::cuda::testing {

inline bool full() { return environment(Variable::test_full).has_value(); }

// Skips its tests where there is no GPU, or no compiler.
class OnAGpu : public ::testing::Test {
 protected:
  void SetUp() override;

  PlanRequest request_;
};

// The same for tests of random problems, whose kernels may be compiled elsewhere before: without a GPU, with
// CONVOY_TEST_FULL=kernels, they make the plans of an H100 or H200 as far as what is compiled would be loaded. It lies
// in CONVOY_KERNEL_CACHE then.
class CompilesElsewhere : public OnAGpu {
 protected:
  void SetUp() override;
  // "" where the plan was made as far as that, and what compares its results is compiled, too.
  std::string compiled(const ConvProblem& problem, const Result<std::unique_ptr<ConvPlan>>& plan) const;

  bool only_compiles_ = false;
};

// Of tests with random problems: 5,000 with CONVOY_TEST_FULL. For machines that are lent for minutes they have parts
// (--gtest_filter=*Part/3, or GTEST_TOTAL_SHARDS).
constexpr int kParts = 10;
class PartOnAGpu : public CompilesElsewhere, public ::testing::WithParamInterface<int> {
 protected:
  // Problems that text_of(kind, sizes, type) makes, f16 and bf16, each with one of its configurations, some with
  // special values or on a part of the device, against the oracle there. The engine takes half of them at least.
  //
  // Compiling a kernel takes a hundred times as long as running it. So a part draws from few kinds, which decide what
  // is compiled, each with many sizes, and passes over problems that would need one more kernel than it may compile.
  using Random = convoy::testing::Random;
  void check_random(const ProductEngine& engine, int count,
                    const std::function<std::string(Random& kind, Random& sizes, const char* type)>& text_of);
};

}  // namespace convoy::cuda::testing
