#include "cli/tune_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/clock.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "convoy/network_plan.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/candidates.h"

namespace convoy::cli {
namespace {

// What convoy run takes from now on.
void choose(const Program& program, const NetworkOptions& options, Tuned& tuned) {
  static const float packed = 0;  // stands for constant weights: choosing doesn't read them
  PlanRequest request;
  request.threads = options.threads;
  request.cpu = options.cpu;
  request.constant_weights = tuned.convolution.constant_weights ? &packed : nullptr;
  SelectionOptions selection = options.selection;
  selection.mode = SelectionMode::heuristic;
  selection.caches = tuned.convolution.caches;
  selection.in_network = true;
  auto chosen = select(tuned.convolution.problem, program.engines(), selection, request, tuned.convolution.nodes);
  if (chosen.ok()) {
    tuned.selection = *std::move(chosen);
  } else {
    tuned.failure = chosen.error();
  }
}

Result<std::vector<HostTensor>> random_tensors(std::span<const TensorDesc> descs) {
  std::vector<HostTensor> tensors;
  for (const TensorDesc& desc : descs) {
    CONVOY_TRY(HostTensor tensor, random_tensor(desc, tensors.size() + 1));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

NetworkTuningProgress progress_on(report::Progress& bar, const NetworkOptions& options) {
  return [&bar, budget = options.selection.budget_seconds](double fraction, std::string_view what) {
    const double left = budget * (1 - fraction);
    bar.update(fraction, left > 0 ? fmt::format("{} left  {}", report::seconds(left), what) : std::string(what));
  };
}

}  // namespace

Result<std::vector<Measurement>> WatchedStore::find(const MeasurementKey& key) {
  CONVOY_TRY(std::vector<Measurement> known, database_.find(key));
  if (forgetful) std::erase_if(known, [&](const Measurement& m) { return !own_.contains({key, print(m.candidate)}); });
  return known;
}

Result<void> WatchedStore::store(const MeasurementKey& key, const Measurement& measurement) {
  CONVOY_CHECK(database_.store(key, measurement));
  ++stored;
  if (forgetful) own_.emplace(key, print(measurement.candidate));
  watcher_(key, measurement);
  return {};
}

Result<WholePlans> WholePlans::make(const Network& network, std::span<const TensorDesc> inputs,
                                    const NetworkOptions& options) {
  WholePlans plans{&network, inputs, {}, {}};
  const std::string blocks = options.cpu.isa == Isa::avx512 ? "uniform:nchw16c" : "uniform:nchw8c";
  plans.hows = {"greedy", "uniform:nhwc", "uniform:nchw", blocks, "global"};
  NetworkOptions greedy = options;
  greedy.selection.mode = SelectionMode::heuristic;
  CONVOY_TRY(const std::string text, network.plan(inputs, greedy));
  CONVOY_TRY(const NetworkPlanHeader header, read_plan_header(text));
  plans.path = kept_plan_path(options.kept_plans, header, options.cpu);
  return plans;
}

bool WholePlans::kept() const {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Result<void> WholePlans::measure(NetworkOptions options) const {
  report::Progress bar("costs");
  const double end = monotonic_seconds() + options.selection.budget_seconds;
  const bool limited = options.selection.budget_seconds > 0;
  options.kept_plans.clear();
  options.selection.mode = SelectionMode::measured;
  options.selection.likely_only = true;  // of each convolution; what that leaves of the time goes to those behind
  for (std::size_t i = 0; i < hows.size() && !interrupted(); ++i) {
    const double left = end - monotonic_seconds();
    if (limited && left <= 0) break;
    options.how = hows[i];
    if (limited) options.selection.budget_seconds = left / static_cast<double>(hows.size() - i);
    bar.update(static_cast<double>(i) / static_cast<double>(hows.size()), "what the lines of " + hows[i] + " cost");
    CONVOY_TRY([[maybe_unused]] const std::string text, network->plan(inputs, options));
  }
  bar.finish();
  return {};
}

Result<PlanChoice> WholePlans::choose(const NetworkOptions& options) const {
  CONVOY_TRY(const std::vector<HostTensor> tensors, random_tensors(inputs));
  report::Progress bar("plans");
  auto choice = choose_plan(*network, tensors, options, hows, progress_on(bar, options));
  bar.finish();
  return choice;
}

Result<TunedNetwork> tune_network(const Program& program, const Network& network, std::span<const TensorDesc> inputs,
                                  std::vector<NetworkConvolution> convolutions, const NetworkOptions& options,
                                  bool again) {
  CONVOY_TRY(const std::vector<HostTensor> tensors, random_tensors(inputs));
  report::Progress bar("tuning");
  auto tuning = tune_in_network(network, convolutions, tensors, options, progress_on(bar, options), again);
  bar.finish();
  if (!tuning.ok()) return tuning.error();
  TunedNetwork result{{}, *std::move(tuning)};
  for (TunedConvolution& convolution : result.tuning.convolutions) {
    Tuned tuned;
    tuned.convolution = convolution.convolution;
    tuned.alone = convolution.alone;
    tuned.alone.insert(tuned.alone.end(), convolution.wrong.begin(), convolution.wrong.end());
    tuned.in_network = convolution.in_network;
    tuned.partial = convolution.partial;
    tuned.measured = convolution.measured;
    choose(program, options, tuned);
    for (const Measurement& m : convolution.wrong) {
      tuned.selection.warnings.push_back(selection::failure_text(m));
    }
    result.convolutions.push_back(std::move(tuned));
  }
  return result;
}

}  // namespace convoy::cli
