#include "engines/cpu/winograd/winograd.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/declared_names.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/winograd/plan.h"

namespace convoy::cpu {
namespace {

// Below this many channels a group the transforms cost more than the products they save.
constexpr std::int64_t kLeastGroupChannels = 8;
constexpr double kActivationBytes = 22e9;  // a second, a thread; two saturate the memory
// Transforming the weights at each execution, seconds a weight and point, of a Zen 5 core: 64 to 256 channels take 0.05
// to 0.08e-9, 512 whose points lie in memory 0.35e-9.
constexpr double kPackSeconds = 0.1e-9;

EngineInfo make_info() {
  // Revision 3: special values stay in their windows.
  EngineInfo info =
      own_engine("cpu.winograd", 3, "Winograd F(4,3) and F(2,3) for 3-wide filters of stride 1, f32 and f64");
  info.passes = {Pass::fprop, Pass::dgrad};
  info.types = {kAllF32, kAllF64};
  for (const Layout x : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    for (const Layout y : {Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) info.layouts.push_back({x, y});
  }
  info.groups = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  info.notes = {"WINOGRAD", "TRANSFORMED_WEIGHTS"};
  return info;
}

class WinogradEngine final : public cost::FittedEngine, public DeclaresNames {
 public:
  WinogradEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    const Dims& w = problem.w.dims;
    const int spatial = problem.spatial_dims();
    const bool wide = w.back() == 3 && (spatial == 1 || w[w.size() - 2] == 3 || w[w.size() - 2] == 1);
    if (!wide) {
      return Refusal{RefusalCode::filter,
                     fmt::format("w.dims={}: this engine needs a filter of 3x3 or 1x3 (and any depth)", to_string(w))};
    }
    if (problem.groups == 1) return std::nullopt;
    const std::int64_t channels = problem.in_channels() / problem.groups;
    const std::int64_t filters = problem.out_channels() / problem.groups;
    if (channels < kLeastGroupChannels || filters < kLeastGroupChannels) {
      return Refusal{
          RefusalCode::groups,
          fmt::format("groups={}: this engine needs C/groups and K/groups of at least {}, they are {} and {}",
                      problem.groups, kLeastGroupChannels, channels, filters)};
    }
    const std::int64_t x_block = problem.x.channel_block;
    const std::int64_t y_block = problem.y.channel_block;
    if (channels % x_block != 0 || filters % y_block != 0) {
      return Refusal{RefusalCode::groups,
                     fmt::format("groups={}: in these layouts this engine needs C/groups={} to be a multiple of {} and "
                                 "K/groups={} of {}",
                                 problem.groups, channels, x_block, filters, y_block)};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return {{"m"}}; }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    const int first = better_m(problem, request);
    return {{{"m",
              {first, 6 - first},
              "outputs of a tile along each dim: 4 multiplies least, 2 loses fewer digits and reads fewer weights"}},
            {}};
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    const int m = chosen_m(problem, knobs, request);
    return make_winograd_plan(problem, Candidate{info_.name, {{"m", m}}}, request, m);
  }

 private:
  Work work(const ConvProblem& problem, const KnobValues& knobs, const PlanRequest& request) const override {
    return {seconds(problem, chosen_m(problem, knobs, request), request) * std::max(request.threads, 1)};
  }

  int chosen_m(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) const {
    const std::int64_t m = knob_or(values, "m", 0);
    return m != 0 ? static_cast<int>(m) : better_m(problem, request);
  }

  static int better_m(const ConvProblem& problem, const PlanRequest& asked) {
    const PlanRequest request{1, asked.cpu, nullptr};
    const auto cost = [&](int m) { return choose_blocking(winograd_shape(problem, m, request).size).seconds; };
    return cost(4) <= cost(2) ? 4 : 2;
  }

  static double seconds(const ConvProblem& problem, int m, const PlanRequest& request) {
    const WinogradShape shape = winograd_shape(problem, m, request);
    // Maps larger than L2 are read and written at what the blocks' own streams leave of a core's bandwidth.
    const double activations = static_cast<double>(problem.x.bytes() + problem.y.bytes());
    double seconds =
        choose_blocking(shape.size).seconds + activations / (kActivationBytes * std::min(shape.size.threads, 2));
    if (request.constant_weights == nullptr) {
      seconds += kPackSeconds * static_cast<double>(problem.w.elements()) * static_cast<double>(shape.size.points) /
                 shape.size.threads;
    }
    return seconds;
  }
};

}  // namespace

const Engine& winograd_engine() {
  static const WinogradEngine& engine = *new WinogradEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
