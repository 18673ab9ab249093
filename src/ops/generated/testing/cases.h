// For tests of generated kernels: nodes whose kernels run on the processor (generate/testing/walk.h) beside the
// operators themselves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "generate/testing/walk.h"
#include "ops/generated/describe.h"
#include "ops/testing/operators.h"

namespace convoy::ops {

struct Tolerance {
  double absolute = 1e-5, relative = 1e-5;  // of f32; 16-bit floats may be off by a step more
};

class GeneratedCases {
 public:
  explicit GeneratedCases(int architecture = 90) : architecture_(architecture) {}
  int architecture() const { return architecture_; }

  // All inputs are constants, activations in the layout. Outputs are compared with `expected`, or with what the
  // operator gives. False where there is no kernel: why not is counted by its words.
  bool add(const NodeDesc& node, const std::vector<HostTensor>& inputs, Layout layout = Layout::nchw,
           const Tolerance& tolerance = {}, const std::vector<HostTensor>& expected = {});
  // A conversion from one description to another.
  void add_conversion(const HostTensor& from, const TensorDesc& to);

  // Compiles all kernels and runs each twice, from the first thread to the last and back, with NaNs around all memory,
  // and in place where the operator allows it.
  void run() const;

  int count() const { return static_cast<int>(cases_.size()); }
  const std::map<std::string, int>& refusals() const { return refusals_; }
  const std::vector<generate::Kernel>& kernels() const { return kernels_; }
  // "map", "rows" ..: how many have that schedule.
  int with_schedule(std::string_view schedule) const;

 private:
  struct Case {
    std::string title;
    std::vector<HostTensor> inputs, expected;  // laid out; packed
    std::vector<TensorDesc> outputs;
    Tolerance tolerance;
    int in_place = -1;  // the input whose memory the first output may share
  };
  static void run_case(const Case& each, const generate::Kernel& kernel, const generate::Walk& walk);
  std::string next_name() const { return "kernel" + std::to_string(kernels_.size()); }

  int architecture_;  // of the GPUs that the kernels are for
  std::vector<Case> cases_;
  std::vector<generate::Kernel> kernels_;
  std::map<std::string, int> refusals_;
};

}  // namespace convoy::ops
