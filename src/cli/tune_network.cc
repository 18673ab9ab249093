#include "cli/tune_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "cli/inputs.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/choose/candidates.h"
#include "select/measure/step_measurement.h"

namespace convoy::cli {
namespace {

// What convoy run takes from now on.
void choose(const Program& program, const NetworkOptions& options, Tuned& tuned) {
  static const float packed = 0;  // stands for constant weights: choosing doesn't read them
  PlanRequest request;
  request.threads = options.threads;
  request.cpu = options.cpu;
  request.cuda = options.cuda;
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
  if (only_fresh) std::erase_if(known, [&](const Measurement& m) { return !own_.contains({key, print(m.candidate)}); });
  return known;
}

Result<void> WatchedStore::store(const MeasurementKey& key, const Measurement& measurement) {
  CONVOY_CHECK(database_.store(key, measurement));
  ++stored;
  const std::string candidate = print(measurement.candidate);
  if (measured_[key.problem].insert(candidate).second) {
    ++(selection::is_step_problem(key.problem) ? steps_ : candidates_);
  }
  if (only_fresh) own_.emplace(key, candidate);
  watcher_(key, measurement);
  return {};
}

std::int64_t WatchedStore::measured(const ConvProblem& problem) const {
  const auto found = measured_.find(print(problem));
  return found == measured_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

Result<TunedNetwork> tune_network(const Program& program, const Network& network, std::span<const TensorDesc> inputs,
                                  std::span<const NetworkConvolution> convolutions, const NetworkOptions& options,
                                  bool again) {
  CONVOY_TRY(const std::vector<HostTensor> tensors, random_tensors(inputs));
  report::Progress bar("tuning");
  auto whole = convoy::tune_network(network, convolutions, tensors, options, progress_on(bar, options), again);
  bar.finish();
  if (!whole.ok()) return whole.error();
  TunedNetwork result{{}, *std::move(whole)};
  for (TunedConvolution& convolution : result.whole.tuning.convolutions) {
    Tuned tuned;
    tuned.convolution = convolution.convolution;
    tuned.alone = convolution.alone;
    tuned.alone.insert(tuned.alone.end(), convolution.wrong.begin(), convolution.wrong.end());
    tuned.in_network = convolution.in_network;
    tuned.partial = convolution.partial;
    choose(program, options, tuned);
    for (const Measurement& m : convolution.wrong) {
      tuned.selection.warnings.push_back(selection::failure_text(m));
    }
    result.convolutions.push_back(std::move(tuned));
  }
  return result;
}

}  // namespace convoy::cli
