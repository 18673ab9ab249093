// An engine of the program's own beside Convoy's: it declares what it takes, is refused the rest with a sentence, is
// compared with the oracle, timed and chosen as the others are. docs/own-engine.md goes through it.
#include <algorithm>
#include <vector>

#include "example.h"

using namespace convoy;
using namespace example;

namespace {

// Filters of 1x1 on channels-last activations in f32: a matrix product, pixels by filters. Weights are transposed once,
// so that the innermost loop runs along filters, which compilers make vectors of.
class PointwisePlan final : public ConvPlan {
 public:
  PointwisePlan(const ConvProblem& problem, const void* constant_weights)
      : filters_(problem.out_channels()),
        channels_(problem.in_channels()),
        pixels_(problem.y.elements() / problem.out_channels()),
        bias_(problem.epilogue.bias),
        relu_(problem.epilogue.activation.kind == ActivationKind::relu) {
    if (constant_weights == nullptr) return;
    packed_.resize(static_cast<std::size_t>(filters_ * channels_));
    pack(static_cast<const float*>(constant_weights), packed_.data());
  }

  Candidate candidate() const override { return {"example.pointwise", {}}; }
  // What an execution changes is in its workspace: any number of threads may execute one plan.
  std::size_t workspace_bytes() const override {
    return packed_.empty() ? static_cast<std::size_t>(filters_ * channels_) * sizeof(float) : 0;
  }
  std::size_t retained_bytes() const override { return packed_.size() * sizeof(float); }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    const float* w = packed_.data();
    if (packed_.empty()) {
      auto* made = static_cast<float*>(context.workspace);
      pack(static_cast<const float*>(args.w), made);
      w = made;
    }
    const auto* x = static_cast<const float*>(args.x);
    const auto* bias = static_cast<const float*>(args.bias);
    auto* y = static_cast<float*>(args.out);
    // Each pixel is computed by one thread in one order: the results have the same bits for any thread count.
    parallel_ranges(context.team(), pixels_, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t pixel = begin; pixel < end; ++pixel) {
        float* sums = y + pixel * filters_;
        for (std::int64_t k = 0; k < filters_; ++k) sums[k] = bias_ ? bias[k] : 0;
        for (std::int64_t c = 0; c < channels_; ++c) {
          const float value = x[pixel * channels_ + c];
          for (std::int64_t k = 0; k < filters_; ++k) sums[k] += value * w[c * filters_ + k];
        }
        // Not std::max, which would make 0 of a NaN.
        for (std::int64_t k = 0; relu_ && k < filters_; ++k) sums[k] = sums[k] < 0 ? 0 : sums[k];
      }
    });
    return {};
  }

 private:
  void pack(const float* w, float* to) const {
    for (std::int64_t k = 0; k < filters_; ++k) {
      for (std::int64_t c = 0; c < channels_; ++c) to[c * filters_ + k] = w[k * channels_ + c];
    }
  }

  std::int64_t filters_, channels_, pixels_;
  bool bias_, relu_;
  std::vector<float> packed_;
};

class Pointwise final : public Engine {
 public:
  Pointwise() {
    info_.name = "example.pointwise";
    info_.summary = "filters of 1x1, channels last, plain C++";
    info_.min_isa = Isa::portable;
    info_.passes = {Pass::fprop};
    info_.types = {{DataType::f32, DataType::f32, DataType::f32, DataType::f32}};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.max_spatial_dims = 3;
    info_.bias = true;
    info_.activations = {ActivationKind::relu};
    info_.deterministic = info_.thread_invariant = true;
  }
  const EngineInfo& info() const override { return info_; }

  // What the declaration can't say. Strides, dilations and groups are refused by it already.
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    for (int d = 0; d < problem.spatial_dims(); ++d) {
      if (problem.w.dims[d + 2] != 1) {
        return Refusal{RefusalCode::filter, "w.dims[" + std::to_string(d + 2) + "]=" +
                                                std::to_string(problem.w.dims[d + 2]) + ": this engine takes 1 only"};
      }
      if (problem.pre_padding[d] != 0 || problem.post_padding[d] != 0) {
        return Refusal{RefusalCode::padding, "pad: this engine takes none"};
      }
    }
    return std::nullopt;
  }

  // Seconds, in the currency of the others: a heuristic takes the least.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    constexpr double kFlopsPerSecond = 5e9;  // of one thread
    return 1e-6 + flops(problem) / (kFlopsPerSecond * std::max(1, request.threads));
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    return std::unique_ptr<ConvPlan>(std::make_unique<PointwisePlan>(problem, request.constant_weights));
  }

 private:
  EngineInfo info_;
};

}  // namespace

int main() {
  // Never destroyed, as Convoy's: plans may outlive main.
  static const Engine& own = *new Pointwise;
  std::vector<const Engine*> engines = all_engines();
  engines.push_back(&own);

  const ConvProblem problem =
      or_stop(parse_problem("fprop:x=f32,1x32x20x20,nhwc:w=f32,48x32x1x1:y=f32,1x48x20x20,nhwc:bias=1:act=relu"));
  const HostTensor x = ramp(problem.x), w = ramp(problem.w, 5, -2), y = ramp(problem.y), expected = ramp(problem.y);
  const HostTensor bias = ramp(TensorDesc::packed(DataType::f32, {48}), 3, -1);
  const PlanRequest request{.threads = 2, .constant_weights = w.data.get()};

  // It stands among the others, or says why not.
  const auto other = or_stop(parse_problem("fprop:x=f32,1x32x20x20,nhwc:w=f32,48x32x3x3:y=f32,1x48x18x18,nhwc"));
  const auto refusal = refuse(own, other, request);
  if (!refusal) stop("a filter of 3x3 was taken");
  std::printf("3x3: %s\n", refusal->reason.c_str());
  if (const auto reason = refuse(own, problem, request)) stop(reason->reason.c_str());

  // Measured selection compares it with the oracle before its time counts. Here it may win against one other.
  SelectionOptions measured;
  measured.mode = SelectionMode::measured;
  measured.budget_seconds = 2;
  measured.filter.engines = "example.*,cpu.direct";
  const Selection best = or_stop(select(problem, engines, measured, request));
  bool timed = false;
  for (const Measurement& m : best.measurements) {
    if (m.failure) stop(m.failure->message.c_str());
    std::printf("%-40s %8.1f us, error %.2f of the tolerance\n", print(m.candidate).c_str(), m.median_seconds * 1e6,
                m.max_error);
    timed = timed || m.candidate.engine == own.info().name;
  }
  if (!timed) stop("the engine was not measured");

  // By name, through a rule, a plan and an execution. Without constant weights it packs them each time.
  SelectionOptions named;
  named.rules = or_stop(parse_rules("* -> example.pointwise\n"));
  const Selection chosen = or_stop(select(problem, engines, named, request));
  for (const bool constant : {true, false}) {
    const PlanRequest asked{.threads = 2, .constant_weights = constant ? w.data.get() : nullptr};
    const auto plan = or_stop(make_plan(problem, chosen.candidate, engines, asked));
    const auto team = make_cpu_team(asked.threads);
    const auto workspace = allocate_aligned(plan->workspace_bytes());
    or_stop(plan->execute({.x = x.data.get(), .w = w.data.get(), .out = y.data.get(), .bias = bias.data.get()},
                          {*team, workspace.get(), plan->workspace_bytes()}));
    run(problem, {"reference", {}},
        {.x = x.data.get(), .w = w.data.get(), .out = expected.data.get(), .bias = bias.data.get()});
    agree(y, expected, 0, constant ? "weights packed once" : "weights with the execution");
  }
  return 0;
}
