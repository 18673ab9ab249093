#include "explain/limited_engines.h"

#include <algorithm>

#include "core/text.h"
#include "engines/reference/reference.h"

namespace convoy::testing {
namespace {

class LimitedEngine : public Engine {
 public:
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    return reference_engine().plan(problem, {}, request);
  }

 protected:
  EngineInfo info_;
};

class NarrowEngine final : public LimitedEngine {
 public:
  NarrowEngine() {
    info_.name = "test.narrow";
    info_.passes = {Pass::fprop, Pass::dgrad};
    info_.types = {{DataType::f32, DataType::f32, DataType::f32, DataType::f32},
                   {DataType::s8, DataType::s8, DataType::s8, DataType::s32},
                   {DataType::u8, DataType::s8, DataType::s32, DataType::s32}};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.min_spatial_dims = info_.max_spatial_dims = 2;
    info_.activations = {ActivationKind::relu};
    info_.max_elements = std::int64_t{1} << 31;
    info_.min_isa = Isa::avx2;
  }
};

class PickyEngine final : public LimitedEngine {
 public:
  PickyEngine() {
    info_.name = "test.picky";
    declare_everything(info_);
    info_.requantize = info_.zero_points = info_.given_zero_points = false;
    info_.deterministic = info_.thread_invariant = false;
  }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.in_channels() % 8 != 0) {
      return Refusal{RefusalCode::channels,
                     "C=" + std::to_string(problem.in_channels()) + ": this engine takes multiples of 8"};
    }
    if (problem.pre_padding != problem.post_padding) {
      return Refusal{RefusalCode::padding, "pad=" + to_string(problem.pre_padding) + "/" +
                                               to_string(problem.post_padding) + ": this engine pads both ends alike"};
    }
    if (problem.x.alignment < 16 && problem.x.type == DataType::f32) {
      return Refusal{RefusalCode::alignment,
                     "x.align=" + std::to_string(problem.x.alignment) + ": this engine needs 16"};
    }
    return std::nullopt;
  }
};

}  // namespace

const Engine& narrow_engine() {
  static const NarrowEngine engine;
  return engine;
}

const Engine& picky_engine() {
  static const PickyEngine engine;
  return engine;
}

}  // namespace convoy::testing
