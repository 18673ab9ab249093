// Everything that makes a network fast where it runs: plans by several rules, its convolutions, then whole plans,
// interleaved.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "convoy/network_plan.h"
#include "convoy/network_tuning.h"

namespace convoy {
namespace {

// Where the budget's parts end: what the lines of plans cost, then convolutions. Whole plans have the rest.
constexpr double kOfCosts = 0.2, kOfConvolutions = 0.6;

// In the order in which they are made as long as there is time.
std::vector<std::string> rules_to_plan_by(const NetworkOptions& options) {
  std::vector<std::string> rules = {"greedy", "global", "uniform:nhwc", "uniform:nchw", "local"};
  if (!options.cuda) rules.push_back(options.cpu.isa == Isa::avx512 ? "uniform:nchw16c" : "uniform:nchw8c");
  return rules;
}

class WholeTuner {
 public:
  WholeTuner(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
             const NetworkTuningProgress& progress)
      : network_(network), inputs_(inputs), options_(options), progress_(progress), hows_(rules_to_plan_by(options)) {
    for (const HostTensor& tensor : inputs) descs_.push_back(tensor.desc);
  }

  Result<WholeTuning> run(std::span<const NetworkConvolution> convolutions, bool again) {
    const bool keeps = !options_.kept_plans.empty();
    bool anew = false;
    if (keeps) {
      CONVOY_TRY(const std::string path, path_of_kept());
      std::error_code error;
      anew = again || !std::filesystem::exists(path, error);
    }
    if (anew) CONVOY_CHECK(measure_costs());
    const double end = keeps ? kOfConvolutions : 1;
    NetworkOptions alone = within(end);
    alone.kept_plans.clear();
    WholeTuning result;
    CONVOY_TRY(result.tuning,
               tune_in_network(network_, convolutions, inputs_, alone, part(anew ? kOfCosts : 0, end), again));
    const bool measured =
        std::ranges::any_of(result.tuning.convolutions, [](const auto& each) { return each.measured > 0; });
    if (!keeps || stopped() || !(anew || measured)) return result;
    auto chosen = choose_plan(network_, inputs_, within(1), hows_, part(kOfConvolutions, 1));
    if (chosen.ok()) {
      result.plans = *std::move(chosen);
    } else {
      result.tuning.remarks.push_back("whole plans were not compared: " + chosen.error().message);
    }
    return result;
  }

 private:
  bool stopped() const { return options_.selection.stop != nullptr && *options_.selection.stop; }

  // The options with what is left of a share of the budget; zero would mean no limit.
  NetworkOptions within(double share) const {
    NetworkOptions options = options_;
    double& budget = options.selection.budget_seconds;
    if (budget > 0) budget = std::max(share * budget - (monotonic_seconds() - start_), 1e-9);
    return options;
  }

  NetworkTuningProgress part(double from, double to) const {
    if (!progress_) return {};
    return [this, from, to](double fraction, std::string_view what) { progress_(from + fraction * (to - from), what); };
  }

  Result<std::string> path_of_kept() const {
    NetworkOptions greedy = options_;
    greedy.kept_plans.clear();
    greedy.selection.mode = SelectionMode::heuristic;
    CONVOY_TRY(const NetworkPlan plan, network_.plan(descs_, greedy));
    return kept_plan_path(options_.kept_plans, plan.header, options_.cpu);
  }

  // What the lines of plans made for each variant cost. "local" goes by all that is known then: it would have
  // everything measured that any node could run on.
  Result<void> measure_costs() const {
    struct Variant {
      std::string how;
      std::optional<BatchParts> parts;
    };
    std::vector<Variant> variants;
    for (const std::string& how : hows_) {
      if (how != "local") variants.push_back({how, options_.parts.value_or(BatchParts{})});
    }
    const bool has_batch =
        std::ranges::any_of(descs_, [](const TensorDesc& desc) { return !desc.dims.empty() && desc.dims.front() > 1; });
    if (has_batch && !options_.parts && !options_.cuda) {
      variants.push_back({"greedy", std::nullopt});
      variants.push_back({"global", std::nullopt});
    }
    NetworkOptions options = within(kOfCosts);
    const bool limited = options.selection.budget_seconds > 0;
    const double end = monotonic_seconds() + options.selection.budget_seconds;
    options.kept_plans.clear();
    options.selection.mode = SelectionMode::measured;
    options.selection.likely_only = true;  // of each convolution; what that leaves of the time goes to those behind
    for (std::size_t i = 0; i < variants.size() && !stopped(); ++i) {
      const double left = end - monotonic_seconds();
      if (limited && left <= 0) break;
      options.how = variants[i].how;
      options.parts = variants[i].parts;
      if (limited) options.selection.budget_seconds = left / static_cast<double>(variants.size() - i);
      const double fraction = static_cast<double>(i) / static_cast<double>(variants.size());
      const std::string_view of_parts = variants[i].parts ? "" : " in parts";
      if (progress_)
        progress_(kOfCosts * fraction, fmt::format("what the lines of {}{} cost", variants[i].how, of_parts));
      CONVOY_CHECK(network_.plan(descs_, options));
    }
    return {};
  }

  const Network& network_;
  std::span<const HostTensor> inputs_;
  const NetworkOptions& options_;
  const NetworkTuningProgress& progress_;
  const double start_ = monotonic_seconds();
  std::vector<std::string> hows_;
  std::vector<TensorDesc> descs_;
};

}  // namespace

Result<WholeTuning> tune_network(const Network& network, std::span<const NetworkConvolution> convolutions,
                                 std::span<const HostTensor> inputs, const NetworkOptions& options,
                                 const NetworkTuningProgress& progress, bool again) {
  return WholeTuner(network, inputs, options, progress).run(convolutions, again);
}

}  // namespace convoy
