#include "engines/cpu/bf16/bf16.h"

#include <fmt/format.h>

#include "base/cpu.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/bf16/gemm.h"
#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

EngineInfo make_info(const char* name, int revision, const char* summary) {
  EngineInfo info = own_engine(name, revision, summary);
  info.passes = {Pass::fprop};
  info.types = {{DataType::bf16, DataType::bf16, DataType::bf16, DataType::f32}};
  info.layouts = {{Layout::nhwc, Layout::nhwc}};
  info.min_isa = Isa::avx512;
  info.groups = info.strided = info.dilated = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  return info;
}

class Bf16Engine final : public cost::FittedEngine {
 public:
  Bf16Engine(const char* name, int revision, const char* summary, const bf16::Kernel& kernel, bool amx)
      : FittedEngine(make_info(name, revision, summary)), kernel_(kernel), amx_(amx) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    const auto lacks = [&](const char* what) {
      return Refusal{RefusalCode::instruction_set,
                     fmt::format("instruction set={} here: {}", name_of(request.cpu.isa), what)};
    };
    if (!request.cpu.avx512_bf16) return lacks("this engine needs AVX512_BF16, too");
    if (amx_ && !request.cpu.amx_bf16) return lacks("this engine needs AMX-BF16, too");
    if (amx_ && !amx_permitted()) return lacks("Linux does not let this process use AMX");
    if (problem.in_channels() == problem.groups) {
      return Refusal{RefusalCode::groups,
                     fmt::format("groups={}: cpu.depthwise takes depthwise problems", problem.groups)};
    }
    if (problem.epilogue.narrow_bias) {
      return Refusal{RefusalCode::epilogue, "bias=out: this engine needs an f32 bias"};
    }
    return std::nullopt;
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    auto plan = bf16::make_gemm_plan(problem, {info_.name, {}}, request.threads, kernel_);
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    const std::int64_t positions = problem.y.elements() / problem.out_channels();
    const bf16::Work work = bf16::work_of(problem, kernel_);
    return {static_cast<double>(positions) * work.cycles / 3e9, 0, work.again};
  }

  const bf16::Kernel& kernel_;
  bool amx_;
};

}  // namespace

// Never destroyed: they may run while the process ends.
const Engine& bf16_engine() {
  static const auto& engine = *new Bf16Engine("cpu.bf16", 1, "bf16 fprop in nhwc by GEMM over lines of x, AVX512_BF16",
                                              bf16::avx512_kernel, false);
  return engine;
}

const Engine& bf16_amx_engine() {
  static const auto& engine = *new Bf16Engine(
      "cpu.bf16_amx", 2, "bf16 fprop in nhwc by GEMM over lines of x in AMX's tiles", bf16::amx_kernel, true);
  return engine;
}

}  // namespace convoy::cpu
