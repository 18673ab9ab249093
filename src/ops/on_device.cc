#include "ops/on_device.h"

#include "device/cuda/nvrtc.h"
#include "device/cuda/rates.h"
#include "engines/cuda/layout/layout.h"
#include "ops/generated/describe.h"
#include "ops/generated/device_plan.h"

namespace convoy::ops {
namespace {

constexpr double kLaunchSeconds = 2e-6;  // a kernel in a graph, with the grid's start and end; measured on an H200

class ConversionPlan final : public OpPlan {
 public:
  explicit ConversionPlan(cuda::LayoutConversion conversion) : conversion_(std::move(conversion)) {}
  Candidate candidate() const override { return {"cuda.convert", {}}; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return conversion_.code_bytes(); }
  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    return conversion_.enqueue(inputs[0], outputs[0], static_cast<CUstream>(context.stream()));
  }

 private:
  cuda::LayoutConversion conversion_;
};

// By cuBLASLt; null where that is not to be had or doesn't take it.
std::unique_ptr<OpPlan> library_product(const NodeDesc& node, std::span<const Input> inputs,
                                        std::span<const TensorDesc> outputs, const PlanRequest& request) {
  if (!node.domain.empty() || (node.op != "MatMul" && node.op != "Gemm")) return nullptr;
  auto plan = product_on_device(node, inputs, outputs, request);
  return plan.ok() ? *std::move(plan) : nullptr;
}

// What profilers show.
std::string function_name(const NodeDesc& node) { return "convoy_" + node.op; }

}  // namespace

Result<void> check_on_device(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                             std::span<const TensorDesc> outputs, const PlanRequest& request) {
  const auto kernel = describe({op, node, inputs, outputs}, function_name(node), request.cuda->architecture);
  if (kernel.ok() || library_product(node, inputs, outputs, request)) return {};
  return kernel.error();
}

Result<std::unique_ptr<OpPlan>> plan_on_device(const Operator& op, const NodeDesc& node, std::span<const Input> inputs,
                                               std::span<const TensorDesc> outputs, const PlanRequest& request) {
  if (auto plan = library_product(node, inputs, outputs, request)) return plan;
  CONVOY_TRY(const generate::Kernel kernel,
             describe({op, node, inputs, outputs}, function_name(node), request.cuda->architecture));
  return device_plan(kernel, request);
}

// What the engines' conversions don't take, a generated kernel may.
Result<std::unique_ptr<OpPlan>> conversion_on_device(const TensorDesc& from, const TensorDesc& to,
                                                     const PlanRequest& request) {
  auto conversion = cuda::LayoutConversion::make(from, to, *request.cuda, request.target_sms);
  if (conversion.ok()) return std::unique_ptr<OpPlan>(std::make_unique<ConversionPlan>(*std::move(conversion)));
  if (conversion.error().code != ErrorCode::unsupported) return conversion.error();
  const auto kernel = describe_conversion(from, to, "convoy_convert");
  if (!kernel.ok()) return conversion.error();
  return device_plan(*kernel, request);
}

Result<void> check_compiler_on_device(const PlanRequest&) {
  const auto compiler = cuda::nvrtc();
  return compiler.ok() ? Result<void>() : Result<void>(compiler.error());
}

double predict_seconds_on_device(double bytes, const PlanRequest& request) {
  // What an H200 took in networks, of what convolutions are predicted with: part of it comes from the L2 cache, where
  // the step before has left it (gpu-network-plans-h200-2026-11-30: maps, windows and norms of 1 to 600 MB).
  constexpr double kShare = 1.1;
  return kLaunchSeconds + bytes / (kShare * cuda::memory_bytes_per_second(*request.cuda));
}

}  // namespace convoy::ops
