// Copies of a tensor on the device from one placement to another: NCHW to NHWC and back, strided views, of any rank up
// to 5 and any size, the element type converted on the way by the rules of convoy/data_type.h. The kernel is compiled
// for the two descriptions, through the disk cache, and moves every element once each way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/device.h"
#include "convoy/tensor.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"

namespace convoy::cuda {

// How the elements are moved: the dims of both tensors merged where they can be, split into tiles and vectors.
struct LayoutDesign {
  struct Dim {
    std::int64_t size = 1, from = 0, to = 0;  // strides in elements
  };
  bool transposed = false;  // a and b differ: through shared memory
  Dim a, b;                 // closest together in the target, in the source; b is a where not transposed
  std::vector<Dim> outer;   // slowest in the target first; at most 3, 4 where not transposed
  int tile_a = 1, tile_b = 1;
  int from_vector = 1, to_vector = 1;         // elements of an access
  bool from_dense = false, to_dense = false;  // a tile is one run in the source, in the target
  std::int64_t blocks = 0;
  std::int64_t count = 0;  // of vectors, where not transposed
};

class LayoutConversion {
 public:
  // Same dims; `target_sms` as PlanRequest's. Errors: descriptions that don't go together, blocked channels, types
  // without a conversion on the device (any type is copied as it is), what the compiler and the driver say.
  static Result<LayoutConversion> make(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device,
                                       int target_sms = 0);

  // Several, in the order of `placements`, their kernels compiled side by side.
  struct Placements {
    TensorDesc from, to;
  };
  static Result<std::vector<LayoutConversion>> make_all(std::span<const Placements> placements,
                                                        const CudaDevice& device, int target_sms = 0);

  // Enqueues on the stream of the device, current or not. `from` and `to` are aligned as described and don't overlap.
  Result<void> enqueue(const void* from, void* to, CUstream stream) const;
  std::size_t code_bytes() const { return code_bytes_; }

 private:
  LayoutConversion() = default;
  int ordinal_ = 0;
  std::shared_ptr<const Module> module_;  // null: there is nothing to move
  Kernel kernel_;
  Launch shape_;
  std::uint64_t count_ = 0;
  std::size_t code_bytes_ = 0;
};

// Parts of make(), which need no device to be there.
Result<LayoutDesign> layout_design(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device);
KernelRequest layout_request(const TensorDesc& from, const TensorDesc& to, const LayoutDesign& design, int architecture,
                             int target_sms = 0);

// What a conversion is expected to take: a launch, and the bytes at the device's rate.
double predicted_layout_seconds(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device);

}  // namespace convoy::cuda
