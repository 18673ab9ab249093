#include "select/explain/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "convoy/host_tensor.h"
#include "select/testing/faulty_engine.h"

namespace convoy::selection {
namespace {

using testing::EngineFault;
using testing::FaultyEngine;

PlanRequest on_two_threads() {
  PlanRequest request;
  request.threads = 2;
  request.cpu = cpu_features();
  return request;
}

Result<FusionReport> measure(const char* problem, std::span<const Engine* const> engines = all_engines()) {
  SelectionOptions options;
  options.filter.engines = "*,!onednn.*";
  options.budget_seconds = 6;  // of which little is used where nothing else runs
  auto parsed = parse_problem(problem);
  if (!parsed.ok()) return parsed.error();
  return measure_fusion(*parsed, engines, options, on_two_threads());
}

TEST(Fusion, ThreeWaysOfOneResult) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "the passes need avx2";
  for (const char* layout : {"nchw", "nhwc", "nchw8c"}) {
    const std::string problem = std::string("fprop:x=f32,2x12x9x9,") + layout + ":w=f32,20x12x3x3:pad=1x1:";
    const auto report = measure((problem + "alpha=0.5:bias=1:gamma=2:act=swish,1").c_str());
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_EQ(report->variants.size(), 3u);
    EXPECT_TRUE(std::is_sorted(report->variants.begin(), report->variants.end(),
                               [](const auto& a, const auto& b) { return a.time.median < b.time.median; }));
    for (const FusionVariant& variant : report->variants) {
      EXPECT_LE(variant.max_error, 1) << variant.name;
      EXPECT_GT(variant.time.samples, 0) << variant.name;
      std::vector<std::string> last(variant.stages.end() - (variant.name == "separate steps" ? 4 : 1),
                                    variant.stages.end());
      if (variant.name == "one plan") {
        EXPECT_TRUE(std::ranges::any_of(variant.stages, [](const std::string& stage) {
          return stage.ends_with(" + alpha + bias + residual + swish");
        })) << last[0];
      } else if (variant.name == "convolution, then one pass") {
        EXPECT_EQ(last[0], "alpha + bias + residual + swish");
      } else {
        EXPECT_EQ(last, (std::vector<std::string>{"alpha", "bias", "residual", "swish"}));
      }
    }
  }
}

TEST(Fusion, OneStepIsNotMeasuredTwice) {
  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "the passes need avx2";
  const auto report = measure("fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x1x1:act=relu");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->variants.size(), 2u);
}

TEST(Fusion, WhatCannotBeComparedSaysWhy) {
  const auto bare = measure("fprop:x=f32,1x8x6x6:w=f32,8x8x1x1");
  ASSERT_FALSE(bare.ok());
  EXPECT_NE(bare.error().message.find("no epilogue"), std::string::npos);
  const auto half = measure("fprop:x=bf16,1x8x6x6:w=bf16,8x8x1x1:bias=1");
  ASSERT_FALSE(half.ok());
  EXPECT_NE(half.error().message.find("out=bf16"), std::string::npos) << half.error().message;

  if (cpu_features().isa < Isa::avx2) GTEST_SKIP() << "the passes need avx2";
  const FaultyEngine wrong(EngineFault::wrong);
  const Engine* engines[] = {&wrong};
  const auto caught = measure("fprop:x=f32,1x8x6x6:w=f32,8x8x1x1:bias=1", engines);
  ASSERT_FALSE(caught.ok());
  EXPECT_EQ(caught.error().code, ErrorCode::wrong_result);
}

}  // namespace
}  // namespace convoy::selection
