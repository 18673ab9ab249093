// The oracle's verdict on an output that lies on a device, with data that lies there: the sums are computed on the
// device, in double precision by a naive kernel, and judged on the host by core/tolerance.h.
#pragma once

#include <cstdint>
#include <vector>

#include "convoy/engine.h"
#include "device/cuda/memory.h"
#include "engines/reference/reference.h"

namespace convoy::cuda {

class ReferenceKernels;

// What VerifyOptions' counts are on a device, where products are cheap and what comes back to the host is not: every
// output where there are few, else at least 4,096 of them, corners and edges included.
VerifyOptions device_verify_options();

// Expectation's like on a device: what the oracle says of a problem with its data, computed once and compared with any
// number of outputs. Both functions wait for the stream.
class DeviceExpectation {
 public:
  // The pointers of args are the device's; args.out is the prior contents of out and is read only where beta != 0. What
  // args points to must stay until the last compare(). `stream` is a CUstream. Errors: no NVRTC, the device's.
  static Result<DeviceExpectation> make(const ConvProblem& problem, const ConvArgs& args, const VerifyOptions& options,
                                        const CudaDevice& device, void* stream);

  bool full() const { return full_; }

  // `actual` lies on the device and is laid out as problem.out().
  Result<Verification> compare(const void* actual, Arithmetic arithmetic, bool exact, void* stream) const;

  // As Expectation::tolerances.
  std::vector<double> tolerances(Arithmetic arithmetic) const;

 private:
  struct Element {
    double exact, stored, bound, spreading_bound;
  };
  DeviceExpectation() = default;

  ConvProblem problem_;
  ConvArgs args_;
  int ordinal_ = 0;
  bool full_ = false;
  std::vector<std::int64_t> indices_;  // row-major in out's five dims; empty: all
  std::vector<Element> elements_;
  DeviceMemory device_indices_;
  std::shared_ptr<const ReferenceKernels> kernels_;
};

// Two outputs of a problem beside each other: every stored element, with its padding.
struct WholeDifference {
  double largest = 0;     // finite |expected|
  double difference = 0;  // |actual - expected|; infinite where only one is a NaN
};
Result<WholeDifference> whole_difference(const ConvProblem& problem, const void* expected, const void* actual,
                                         const CudaDevice& device, void* stream);

// make and compare at once.
Result<Verification> verify_on_device(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                      const VerifyOptions& options, const CudaDevice& device, void* stream);

}  // namespace convoy::cuda
