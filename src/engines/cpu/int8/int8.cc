#include "engines/cpu/int8/int8.h"

#include <fmt/format.h>

#include "base/cpu.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/depthwise.h"
#include "engines/cpu/int8/gemm.h"
#include "engines/cpu/int8/kernels.h"
#include "engines/cpu/int8/panels.h"

namespace convoy::cpu {
namespace {

using int8::Kernel;

const Kernel& kernel_for(const CpuFeatures& cpu) {
  if (cpu.isa >= Isa::avx512) return cpu.avx512_vnni ? int8::avx512_vnni_kernel : int8::avx512_kernel;
  return int8::avx2_kernel;
}

EngineInfo make_info(const char* name, int revision, const char* summary, Isa isa) {
  EngineInfo info = own_engine(name, revision, summary);
  info.passes = {Pass::fprop};
  for (DataType x : {DataType::u8, DataType::s8}) {
    for (DataType w : {DataType::s8, DataType::u8}) {
      for (DataType y : {DataType::u8, DataType::s8, DataType::s32, DataType::f32}) {
        info.types.push_back({x, w, y, DataType::s32});
      }
    }
  }
  info.layouts = {{Layout::nhwc, Layout::nhwc}, {Layout::nchw, Layout::nchw}};
  info.activations = {ActivationKind::relu, ActivationKind::clip, ActivationKind::leaky_relu};
  info.requantize = info.quantized_residual = true;
  info.zero_points = true;
  info.given_zero_points = true;
  info.min_isa = isa;
  info.groups = info.strided = info.dilated = true;
  info.bias = info.float_bias = true;
  return info;
}

class Int8Engine : public cost::FittedEngine {
 public:
  Int8Engine(const char* name, int revision, const char* summary, Isa isa)
      : FittedEngine(make_info(name, revision, summary, isa)) {}

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    const Kernel& kernel = kernel_of(request);
    const Candidate candidate{info_.name, {}};
    std::unique_ptr<PackedPlan> plan;
    if (int8::is_depthwise(problem)) {
      plan = int8::make_depthwise_plan(problem, candidate, request.threads, kernel);
    } else {
      plan = int8::make_gemm_plan(problem, candidate, request.threads, kernel);
    }
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  virtual const Kernel& kernel_of(const PlanRequest& request) const { return kernel_for(request.cpu); }

  // Multiply-adds at the kernel's rate, each row of a group's tile padded to the panel's width, plus a pass over
  // what is copied of x and over the outputs. The rates are estimates from an AVX-512 core's ceilings, not fitted: 400,
  // 150 and 75 G multiply-adds/s for VNNI, AVX-512 and AVX2, 1500 for AMX, 30 for depthwise (100 with VNNI); 2 G copied
  // bytes/s and 1 G outputs/s, half of that where channels lie apart.
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const Kernel& kernel = kernel_of(request);
    const ConvGeometry g = flat_geometry(problem);
    const auto pixels = static_cast<double>(g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]);
    const double outputs = pixels * static_cast<double>(g.filters);
    if (int8::is_depthwise(problem)) {
      const bool in_quads = kernel.channels_to_bytes != nullptr && size_of(problem.y.type) == 1 &&
                            problem.w.type == DataType::s8 && problem.w_zero_point == 0 && !problem.epilogue.residual;
      if (!in_quads) return {outputs * static_cast<double>(g.taps) / 30e9 + outputs / 4e9};
      const auto quads = static_cast<double>(ceil_div(g.taps, 4));
      const auto panels = static_cast<double>(ceil_div(g.filters, kernel.tile.columns));
      return {pixels * (1.6e-9 + panels * (2.2e-9 + 1.1e-9 * quads))};
    }
    const double rate = kernel.tile.steps_together > 1 ? 1500e9
                        : !kernel.pairs_in_16_bits     ? 400e9
                        : kernel.tile.columns == 32    ? 150e9
                                                       : 75e9;
    const int8::Panels panels(problem, kernel);
    const double terms = static_cast<double>(g.groups * panels.lines().steps() * kStepBytes);
    const double macs = pixels / panels.lines().filled() * terms * static_cast<double>(panels.computed_columns());
    const double copied = pixels * static_cast<double>(g.groups) * panels.lines().copied_bytes();
    const double apart = problem.x.is_packed(Layout::nhwc) ? 1 : 2;
    const double again =
        static_cast<double>(g.groups) * panels.lines().again_seconds(static_cast<std::int64_t>(pixels));
    return {macs / rate + apart * (copied / 2e9 + outputs / 1e9), 0, again};
  }
};

class Int8AmxEngine final : public Int8Engine {
 public:
  using Int8Engine::Int8Engine;

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (!request.cpu.amx_int8 || !request.cpu.avx512_vnni) {
      return Refusal{RefusalCode::instruction_set,
                     fmt::format("instruction set={} here: this engine needs AMX-INT8 and AVX512_VNNI, too",
                                 name_of(request.cpu.isa))};
    }
    if (!amx_permitted()) {
      return Refusal{
          RefusalCode::instruction_set,
          fmt::format("instruction set={} here: Linux does not let this process use AMX", name_of(request.cpu.isa))};
    }
    if (int8::is_depthwise(problem)) {
      return Refusal{RefusalCode::groups, fmt::format("groups={}: cpu.int8 takes depthwise problems", problem.groups)};
    }
    return std::nullopt;
  }

 private:
  const Kernel& kernel_of(const PlanRequest&) const override { return int8::amx_kernel; }
};

}  // namespace

// Never destroyed: they may run while the process ends.
const Engine& int8_engine() {
  static const auto& engine = *new Int8Engine(
      "cpu.int8", 7, "s8 and u8 fprop by GEMM over implicit im2col tiles, VNNI where the processor has it", Isa::avx2);
  return engine;
}

const Engine& int8_amx_engine() {
  static const auto& engine =
      *new Int8AmxEngine("cpu.int8_amx", 4, "s8 and u8 fprop by GEMM over implicit im2col in AMX's tiles", Isa::avx512);
  return engine;
}

}  // namespace convoy::cpu
