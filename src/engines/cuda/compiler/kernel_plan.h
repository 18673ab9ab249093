// A plan that launches kernels compiled for its problem: what all own engines of a GPU share.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

struct KernelLaunch {
  KernelRequest request;
  std::string entry;  // the kernel's name
  Launch shape;
  std::string stage = "products";  // what it does, for people; the plan adds the epilogue to the last one's
};

// A tensor as the copy engine is told of it, dims from the innermost on, and a box of it, whose rows are swizzled as
// long as they are: 32, 64 or 128 bytes. Elements outside are read as zeros and not written.
enum class KernelTensor { in, w, out, z, gate };
struct KernelBox {
  KernelTensor tensor;
  DataType type;  // f16 or bf16
  Dims sizes;
  Dims strides;  // in elements, of all dims but the first
  Dims box;
  // Of windows (im2col): the box is of channels and pixels of the result, one tap of each one's window; the spatial
  // dims have the windows' stride, and the places of their first pixels, from `lower` to the sizes plus `upper`.
  struct Windows {
    Dims stride, lower, upper;
  };
  std::optional<Windows> windows = std::nullopt;
};

// One kernel, of (in, w, out, EpilogueArgs), wgrad's of (x, dy, out, EpilogueArgs); or two, of which the first writes
// sums to the workspace, (in, w, workspace), and the second adds them up, (workspace, out, EpilogueArgs).
// With boxes, one kernel of them, out where none is of it, and EpilogueArgs.
struct PlannedKernels {
  std::vector<KernelLaunch> kernels;  // none: there is nothing to compute
  std::int64_t workspace_bytes = 0;
  std::vector<std::byte> sizes;  // one kernel's last parameter; empty: it has none
  std::vector<KernelBox> boxes;
};

template <class Sizes>
std::vector<std::byte> bytes_of(const Sizes& sizes) {
  const auto* const first = reinterpret_cast<const std::byte*>(&sizes);
  return {first, first + sizeof(Sizes)};
}

// Compiled and loaded. With request.target_sms kernels do their work with any grid (work_blocks.cuh), and get a smaller
// one. Errors name the candidate's engine.
Result<std::unique_ptr<ConvPlan>> kernel_plan(const ConvProblem& problem, Candidate candidate,
                                              std::vector<std::string> notes, PlannedKernels planned,
                                              const PlanRequest& request);

}  // namespace convoy::cuda
