// The kernels of kernels/reference.cu, compiled for a problem's types.
#pragma once

#include <memory>
#include <span>

#include "convoy/engine.h"
#include "device/cuda/module.h"
#include "engines/cuda/compiler/compiler.h"
#include "engines/cuda/kernels/reference_args.h"

namespace convoy::cuda {

// What a kernel is called with. Pointers of args are the device's.
ReferenceArgs reference_args(const ConvProblem& problem, const ConvArgs& args);

// The kernel for a problem's pass, types and length of sums.
KernelRequest reference_request(const ConvProblem& problem, int architecture);

// Compiles what verdicts on these problems need, each once and all side by side, so that it is in the disk cache.
Result<void> compile_references(std::span<const ConvProblem> problems, int architecture);

// Products in one output's sum, padding included.
std::int64_t reference_terms(const ConvProblem& problem);

class ReferenceKernels {
 public:
  // Compiled, or found in the cache; kept for the life of the process: types, pass and device are all that they depend
  // on, besides whether sums are long.
  static Result<std::shared_ptr<const ReferenceKernels>> get(const ConvProblem& problem, const CudaDevice& device);

  // With `target_sms` (0: all) on no more blocks than so many SMs run at once.
  Result<void> reference(const ReferenceArgs& args, std::int64_t outputs, void* out, void* stream,
                         int target_sms = 0) const;
  Result<void> evaluate(const ReferenceArgs& args, const std::int64_t* indices, std::int64_t count,
                        ReferenceRecord* records, void* stream) const;
  Result<void> gather(const ReferenceArgs& args, const void* out, const std::int64_t* indices, std::int64_t count,
                      double* values, double* padding, void* stream) const;
  Result<void> largest(const ReferenceArgs& args, std::uint64_t* result, void* stream) const;
  Result<void> difference(const void* expected, const void* actual, std::int64_t count, std::uint64_t* results,
                          void* stream) const;

 private:
  ReferenceKernels(Module module, int team) : module_(std::move(module)), team_(team) {}
  Launch shape(std::int64_t elements, int team) const;
  Module module_;
  int team_;
  int ordinal_ = 0;
  int sms_ = 1;
  Kernel reference_, evaluate_, gather_, largest_, difference_;
};

}  // namespace convoy::cuda
