#include "engines/cuda/reference/reference.h"

#include "core/epilogue.h"
#include "core/stages.h"
#include "device/cuda/device.h"
#include "engines/cuda/reference/reference_kernels.h"

namespace convoy::cuda {
namespace {

constexpr const char* kName = "cuda.reference";

class ReferencePlan final : public ConvPlan, public HasStages {
 public:
  ReferencePlan(ConvProblem problem, const PlanRequest& request, std::shared_ptr<const ReferenceKernels> kernels)
      : problem_(std::move(problem)),
        ordinal_(request.cuda->ordinal),
        target_sms_(request.target_sms),
        kernels_(std::move(kernels)) {}

  Candidate candidate() const override { return {kName, {}}; }
  std::size_t workspace_bytes() const override { return 0; }
  std::vector<std::string> stages() const override { return {"products" + epilogue_text(problem_)}; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    if (problem_.out().elements() == 0) return {};
    CONVOY_CHECK(make_current(ordinal_));
    return kernels_->reference(reference_args(problem_, args), problem_.out().elements(), args.out, context.stream(),
                               target_sms_);
  }

 private:
  ConvProblem problem_;
  int ordinal_;
  int target_sms_;
  std::shared_ptr<const ReferenceKernels> kernels_;
};

class ReferenceEngine final : public Engine {
 public:
  ReferenceEngine() {
    info_.name = kName;
    info_.summary = "the oracle on the GPU: plain loops, double accumulation, every problem";
    info_.device = DeviceKind::cuda;
    declare_everything(info_);
    info_.min_architecture = 80;
    info_.oracle = true;
    info_.notes = {std::string(note::runtime_compilation)};
  }
  const EngineInfo& info() const override { return info_; }

  // About 4 ps a product on an H200, measured on dense 3x3 layers; the launch's own time.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    return 5e-6 + flops(problem) / 2 * 4e-12;
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    CONVOY_TRY(auto kernels, ReferenceKernels::get(problem, *request.cuda));
    return std::unique_ptr<ConvPlan>(std::make_unique<ReferencePlan>(problem, request, std::move(kernels)));
  }

 private:
  EngineInfo info_;
};

}  // namespace

const Engine& reference_engine() {
  static const ReferenceEngine& engine = *new ReferenceEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
