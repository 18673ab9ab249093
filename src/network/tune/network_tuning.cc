#include "convoy/network_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "network/tune/candidate_comparison.h"
#include "select/tune/screening.h"

namespace convoy {
namespace {

using network::Entry;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kScreeningShare = 0.3;  // of the time, for candidates alone
constexpr double kPromising = 1.25;      // times the fastest alone, which may be the slower one in the network

// A store in which nothing is found.
class OnlyFresh final : public MeasurementStore {
 public:
  explicit OnlyFresh(MeasurementStore& store) : store_(store) {}
  Result<std::vector<Measurement>> find(const MeasurementKey&) override { return std::vector<Measurement>(); }
  Result<void> store(const MeasurementKey& key, const Measurement& m) override { return store_.store(key, m); }

 private:
  MeasurementStore& store_;
};

class NetworkTuner {
 public:
  NetworkTuner(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
               const NetworkTuningProgress& progress, bool again)
      : network_(network),
        inputs_(inputs),
        options_(options),
        store_(*options.selection.store),
        only_fresh_(store_),
        again_(again),
        progress_(progress),
        start_(monotonic_seconds()) {
    options_.selection.mode = SelectionMode::heuristic;
  }

  Result<NetworkTuning> run(std::span<const NetworkConvolution> convolutions) {
    for (const NetworkConvolution& convolution : convolutions) result_.convolutions.push_back({convolution});
    CONVOY_CHECK(screen(left() * (1 - kScreeningShare)));
    CONVOY_CHECK(enter());
    if (entries_.empty() && partial() && left() > 0) {
      CONVOY_CHECK(screen(0));
      CONVOY_CHECK(enter());
    }
    if (entries_.empty() && partial()) {
      result_.remarks.push_back("candidates were timed alone only: in that time no problem had two that are fast");
    } else if (partial() && left() > 0) {
      if (auto compared = compare(); !compared.ok()) {  // inputs that a network can't take, no memory ...
        result_.remarks.push_back("candidates were timed alone only: " + compared.error().message);
      }
    }
    for (Entry& entry : entries_) CONVOY_CHECK(store(entry));
    result_.partial = partial();
    return std::move(result_);
  }

 private:
  double left() const {
    const SelectionOptions& selection = options_.selection;
    if (selection.stop != nullptr && *selection.stop) return 0;
    return selection.budget_seconds > 0 ? selection.budget_seconds - (monotonic_seconds() - start_) : kInfinity;
  }
  bool partial() const {
    return std::any_of(result_.convolutions.begin(), result_.convolutions.end(),
                       [](const TunedConvolution& tuned) { return tuned.partial; });
  }
  void show(std::string_view what) const {
    const double budget = options_.selection.budget_seconds;
    if (progress_) progress_(budget > 0 ? std::clamp(1 - left() / budget, 0.0, 1.0) : 0, what);
  }

  PlanRequest request_for(const NetworkConvolution& convolution) const {
    static const float constant = 0;  // stands for constant weights, which nobody reads here
    PlanRequest request;
    request.threads = options_.threads;
    request.cpu = options_.cpu;
    request.cuda = options_.cuda;
    request.constant_weights = convolution.constant_weights ? &constant : nullptr;
    return request;
  }

  // Until only `end` seconds are left. Half of the time goes to all alike, half by what they are predicted to take in
  // the network.
  Result<void> screen(double end) {
    const std::size_t count = result_.convolutions.size();
    std::vector<double> weights;
    double sum = 0;
    for (const TunedConvolution& tuned : result_.convolutions) {
      const auto best = predict_best(tuned.convolution.problem, all_engines(), options_.selection.filter,
                                     request_for(tuned.convolution));
      weights.push_back(best ? best->seconds * static_cast<double>(tuned.convolution.count) : 0);
      sum += weights.back();
    }
    for (double& weight : weights) weight = 0.5 / static_cast<double>(count) + (sum > 0 ? 0.5 * weight / sum : 0);
    for (const bool second : {false, true}) {  // what the first left over is for those who had too little
      double rest = 0;
      for (std::size_t i = 0; i < count; ++i) rest += !second || result_.convolutions[i].partial ? weights[i] : 0;
      for (std::size_t i = 0; i < count; ++i) {
        TunedConvolution& tuned = result_.convolutions[i];
        if (second && (!tuned.partial || left() <= end)) continue;
        SelectionOptions selection = options_.selection;
        selection.caches = tuned.convolution.caches;
        if (again_ && tuned.measured == 0) selection.store = &only_fresh_;  // then it goes on
        if (selection.budget_seconds > 0) {
          const double share = (left() - end) * weights[i] / rest;
          // Until something was measured: a budget that loading the network has used up still gives one an answer.
          const bool measured = std::any_of(result_.convolutions.begin(), result_.convolutions.end(),
                                            [](const TunedConvolution& each) { return each.measured > 0; });
          selection.budget_seconds = share > 0 ? share : measured ? -1 : 1e-9;
        }
        rest -= weights[i];
        CONVOY_CHECK(screen(tuned, selection));
      }
    }
    return {};
  }

  Result<void> screen(TunedConvolution& tuned, const SelectionOptions& selection) {
    const auto screened = [&](const SelectionOptions& how) {
      return selection::screen(tuned.convolution.problem, all_engines(), how, request_for(tuned.convolution),
                               [&](const Measurement& m, int, int) {
                                 show(print(m.candidate));
                                 return true;
                               });
    };
    CONVOY_TRY(auto screening, screened(selection));
    if (selection.store == &only_fresh_) {  // what else is known, since a plan's costs were measured, say, enters too
      SelectionOptions known = selection;
      known.store = &store_;
      known.budget_seconds = -1;
      CONVOY_TRY(auto all, screened(known));
      screening.right = std::move(all.right);
      screening.wrong = std::move(all.wrong);
    }
    tuned.alone = std::move(screening.right);
    tuned.wrong = std::move(screening.wrong);
    tuned.partial = screening.partial;
    tuned.measured += screening.measured;
    return {};
  }

  Result<void> enter() {
    for (TunedConvolution& tuned : result_.convolutions) CONVOY_CHECK(enter(tuned));
    return {};
  }

  // Those who lost in the network before are left out.
  Result<void> enter(TunedConvolution& tuned) {
    tuned.in_network.clear();
    if (tuned.alone.empty()) return {};
    Entry entry{
        &tuned, measurement_key(tuned.convolution.problem, request_for(tuned.convolution), CacheState::network), {}};
    MeasurementStore& store = again_ ? static_cast<MeasurementStore&>(only_fresh_) : store_;
    CONVOY_TRY(const std::vector<Measurement> known, store.find(entry.key));
    double fastest = kInfinity;
    for (const Measurement& m : tuned.alone) fastest = std::min(fastest, m.median_seconds);
    bool open = false;
    for (const Measurement& m : tuned.alone) {
      const bool reference = &m == tuned.alone.data();
      const auto row = std::find_if(known.begin(), known.end(), [&](const Measurement& row) {
        return row.candidate == m.candidate && is_current(row, all_engines());
      });
      if (row != known.end()) tuned.in_network.push_back(*row);
      const bool lost = row != known.end() && row->state == MeasurementState::cut_off;
      if (!reference && (lost || m.median_seconds > kPromising * fastest)) continue;
      open = open || row == known.end() || row->state == MeasurementState::partial;
      entry.candidates.push_back(m);
    }
    if (!open || entry.candidates.size() < 2) return {};
    entry.left_out = tuned.partial;
    tuned.partial = true;
    entries_.push_back(std::move(entry));
    return {};
  }

  Result<void> compare() {
    double run_seconds = 0;
    for (const TunedConvolution& tuned : result_.convolutions) {
      if (tuned.alone.empty()) continue;
      run_seconds += tuned.alone[0].median_seconds * static_cast<double>(tuned.convolution.count);
    }
    network::CandidateComparison comparison(network_, inputs_, options_, entries_, run_seconds,
                                            {[this] { return left(); }, [this](std::string_view what) { show(what); }});
    if (!comparison.leave_what_takes_too_long()) {  // rough times have to do
      CONVOY_CHECK(screen(0));
      for (const Entry& entry : entries_) entry.tuned->partial = true;
      return {};
    }
    CONVOY_CHECK(comparison.run());
    result_.speedup = comparison.speedup();
    const std::vector<std::string>& remarks = comparison.remarks();
    result_.remarks.insert(result_.remarks.end(), remarks.begin(), remarks.end());
    return {};
  }

  Result<void> store(Entry& entry) {
    if (!entry.timed) return {};
    if (entry.chosen > 0) entry.candidates[0].state = MeasurementState::cut_off;
    entry.candidates[entry.chosen].state = MeasurementState::complete;
    TunedConvolution& tuned = *entry.tuned;
    CONVOY_TRY(const std::vector<Measurement> before, store_.find(entry.key));
    for (Measurement m : before) {  // a verdict that this one replaces
      if (m.state != MeasurementState::complete) continue;
      m.state = MeasurementState::cut_off;
      CONVOY_CHECK(store_.store(entry.key, m));
    }
    for (const Measurement& m : entry.candidates) {
      CONVOY_CHECK(store_.store(entry.key, m));
      const auto known = std::find_if(tuned.in_network.begin(), tuned.in_network.end(),
                                      [&](const Measurement& row) { return row.candidate == m.candidate; });
      if (known != tuned.in_network.end()) tuned.in_network.erase(known);
    }
    tuned.in_network.insert(tuned.in_network.begin(), entry.candidates.begin(), entry.candidates.end());
    tuned.partial =
        entry.left_out || std::any_of(entry.candidates.begin(), entry.candidates.end(),
                                      [](const Measurement& m) { return m.state == MeasurementState::partial; });
    tuned.measured += static_cast<int>(entry.candidates.size());
    return {};
  }

  const Network& network_;
  std::span<const HostTensor> inputs_;
  NetworkOptions options_;
  MeasurementStore& store_;
  OnlyFresh only_fresh_;
  const bool again_;
  const NetworkTuningProgress& progress_;
  const double start_;
  std::vector<Entry> entries_;
  NetworkTuning result_;
};

}  // namespace

Result<NetworkTuning> tune_in_network(const Network& network, std::span<const NetworkConvolution> convolutions,
                                      std::span<const HostTensor> inputs, const NetworkOptions& options,
                                      const NetworkTuningProgress& progress, bool again) {
  const SelectionOptions& selection = options.selection;
  if (selection.store == nullptr) {
    return Error{ErrorCode::invalid_argument, "tune_in_network needs a store of measurements"};
  }
  if (selection.caches != CacheState::cold || selection.objective.workspace != 0 || selection.objective.energy != 0) {
    return Error{ErrorCode::unsupported, "in a network only times are compared, with the caches as they are there"};
  }
  return NetworkTuner(network, inputs, options, progress, again).run(convolutions);
}

}  // namespace convoy
