#include "convoy/network_tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/clock.h"
#include "base/log.h"
#include "network/placement.h"
#include "network/trial.h"
#include "select/screening.h"

namespace convoy {
namespace {

using network::Contest;
using network::Duel;
using network::Placement;
using network::TrialOptions;
using network::TrialResult;
using network::Verdict;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double screening_share = 0.3;    // of the time, for candidates alone
constexpr double preparing_share = 0.3;    // of what is then left, for plans
constexpr double first_round_share = 0.2;  // of what is then left
constexpr double most_confirmation = 0.6;  // of what is then left
constexpr int confirmation_rounds = 3;
constexpr double worth_while = 0.003;  // of the network's time: smaller gains are where memory lies
constexpr int most_stages = 3;         // of confirmation, in other memory each
constexpr double promising = 1.25;     // times the fastest alone, which may be the slower one in the network
constexpr double memory_share = 0.5;
constexpr double seconds_per_packed_byte = 2e-9;
constexpr double long_run_seconds = 0.04;  // of a network that leaves nothing of the run before in the caches

double free_memory() {
  return static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

// A store in which nothing is found.
class Forgetful final : public MeasurementStore {
 public:
  explicit Forgetful(MeasurementStore& store) : store_(store) {}
  Result<std::vector<Measurement>> find(const MeasurementKey&) override { return std::vector<Measurement>(); }
  Result<void> store(const MeasurementKey& key, const Measurement& m) override { return store_.store(key, m); }

 private:
  MeasurementStore& store_;
};

// A convolution with several promising candidates.
struct Entry {
  TunedConvolution* tuned = nullptr;
  MeasurementKey key;
  std::vector<Measurement> candidates;  // as they were measured alone, the reference first
  Contest contest = {};
  std::size_t chosen = 0;
  bool left_out = false;  // more candidates are promising than there was time for
  bool timed = false;     // `candidates` are of the network
};

class NetworkTuner {
 public:
  NetworkTuner(const Network& network, std::span<const HostTensor> inputs, const NetworkOptions& options,
               const NetworkTuningProgress& progress, bool again)
      : network_(network),
        inputs_(inputs),
        options_(options),
        store_(*options.selection.store),
        forgetful_(store_),
        again_(again),
        progress_(progress),
        start_(monotonic_seconds()) {
    options_.selection.mode = SelectionMode::heuristic;
  }

  Result<NetworkTuning> run(std::span<const NetworkConvolution> convolutions) {
    for (const NetworkConvolution& convolution : convolutions) result_.convolutions.push_back({convolution});
    CONVOY_CHECK(screen(left() * (1 - screening_share)));
    for (TunedConvolution& tuned : result_.convolutions) CONVOY_CHECK(enter(tuned));
    const bool partial = std::any_of(result_.convolutions.begin(), result_.convolutions.end(),
                                     [](const TunedConvolution& tuned) { return tuned.partial; });
    if (partial && left() > 0) {
      if (entries_.empty()) {
        CONVOY_CHECK(screen(0));
      } else if (auto compared = compare(); !compared.ok()) {  // inputs that a network can't take, no memory ...
        result_.remarks.push_back("candidates were timed alone only: " + compared.error().message);
      }
    }
    for (Entry& entry : entries_) CONVOY_CHECK(store(entry));
    for (const TunedConvolution& tuned : result_.convolutions) result_.partial = result_.partial || tuned.partial;
    return std::move(result_);
  }

 private:
  double left() const {
    const SelectionOptions& selection = options_.selection;
    if (selection.stop != nullptr && *selection.stop) return 0;
    return selection.budget_seconds > 0 ? selection.budget_seconds - (monotonic_seconds() - start_) : infinity;
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
        if (again_ && tuned.measured == 0) selection.store = &forgetful_;  // then it goes on
        if (selection.budget_seconds > 0) {
          selection.budget_seconds = std::max((left() - end) * weights[i] / rest, 1e-9);
        }
        rest -= weights[i];
        CONVOY_CHECK(screen(tuned, selection));
      }
    }
    return {};
  }

  Result<void> screen(TunedConvolution& tuned, const SelectionOptions& selection) {
    CONVOY_TRY(auto screening, selection::screen(tuned.convolution.problem, all_engines(), selection,
                                                 request_for(tuned.convolution), [&](const Measurement& m, int, int) {
                                                   show(print(m.candidate));
                                                   return true;
                                                 }));
    tuned.alone = std::move(screening.right);
    tuned.wrong = std::move(screening.wrong);
    tuned.partial = screening.partial;
    tuned.measured += screening.measured;
    return {};
  }

  // Those who lost in the network before are left out.
  Result<void> enter(TunedConvolution& tuned) {
    if (tuned.alone.empty()) return {};
    Entry entry{
        &tuned, measurement_key(tuned.convolution.problem, request_for(tuned.convolution), CacheState::network), {}};
    MeasurementStore& store = again_ ? static_cast<MeasurementStore&>(forgetful_) : store_;
    CONVOY_TRY(const std::vector<Measurement> known, store.find(entry.key));
    double fastest = infinity;
    for (const Measurement& m : tuned.alone) fastest = std::min(fastest, m.median_seconds);
    bool open = false;
    for (const Measurement& m : tuned.alone) {
      const bool reference = &m == tuned.alone.data();
      const auto row = std::find_if(known.begin(), known.end(), [&](const Measurement& row) {
        return row.candidate == m.candidate && is_current(row, all_engines());
      });
      if (row != known.end()) tuned.in_network.push_back(*row);
      const bool lost = row != known.end() && row->state == MeasurementState::cut_off;
      if (!reference && (lost || m.median_seconds > promising * fastest)) continue;
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
    if (!leave_what_takes_too_long()) {  // rough times have to do
      CONVOY_CHECK(screen(0));
      for (const Entry& entry : entries_) entry.tuned->partial = true;
      return {};
    }
    std::vector<std::vector<std::size_t>> everybody;
    for (const Entry& entry : entries_) {
      everybody.emplace_back(entry.candidates.size());
      std::iota(everybody.back().begin(), everybody.back().end(), std::size_t{0});
    }
    CONVOY_CHECK(place(everybody));
    for (Entry& entry : entries_) {
      if (entry.contest.steps.empty()) {  // a rule decides
        entry.tuned->partial = false;
      } else {
        entry.contest.challengers = entry.candidates.size() - 1;
      }
    }
    CONVOY_CHECK(compete());
    return confirm();
  }

  // The network with these of each entry's candidates, in other memory than before.
  Result<void> place(std::vector<std::vector<std::size_t>> lineups) {
    show("preparing the network");
    std::vector<ConvolutionCandidates> candidates;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      candidates.push_back({entries_[e].tuned->convolution.problem, {}});
      for (const std::size_t c : lineups[e]) {
        candidates.back().candidates.push_back(entries_[e].candidates[c].candidate);
      }
    }
    CONVOY_TRY(Placement made, Placement::make(network_, inputs_, options_, candidates));
    placement_ = std::move(made);  // the one before was there until now: its memory was not free for this one
    lineups_ = std::move(lineups);
    for (std::size_t e = 0; e < entries_.size(); ++e) entries_[e].contest.steps = placement_->steps(e);
    return {};
  }

  double preparing_seconds() const {
    double bytes = 0;
    for (const Entry& entry : entries_) {
      bytes += static_cast<double>(entry.tuned->convolution.problem.w.bytes() * entry.tuned->convolution.count) *
               static_cast<double>(entry.candidates.size());
    }
    return bytes * seconds_per_packed_byte;
  }

  // Challengers, the slowest alone first, for whom there is no time or memory. False: not even for one of each.
  bool leave_what_takes_too_long() {
    run_seconds_ = 0;
    for (const TunedConvolution& tuned : result_.convolutions) {
      if (tuned.alone.empty()) continue;
      run_seconds_ += tuned.alone[0].median_seconds * static_cast<double>(tuned.convolution.count);
    }
    trial_.unread_runs = run_seconds_ < long_run_seconds ? 1 : 0;
    trial_.runs = run_seconds_ < long_run_seconds ? 3 : 2;
    const double turn = run_seconds_ * (trial_.unread_runs + trial_.runs);
    const double memory = free_memory() * memory_share;
    std::size_t most = 0;
    for (const Entry& entry : entries_) most = std::max(most, entry.candidates.size());
    for (; most > 1; --most) {
      for (Entry& entry : entries_) {
        entry.left_out = entry.left_out || entry.candidates.size() > most;
        entry.candidates.resize(std::min(entry.candidates.size(), most));
      }
      const double preparing = preparing_seconds();
      const double rest = left() - preparing;
      const double trial = rest * (1 - most_confirmation);
      const double rounds = 2 * turn * (trial_.min_rounds + 2 * confirmation_rounds);
      const bool quick = most == 2 || (turn * static_cast<double>(most) <= first_round_share * trial &&
                                       preparing <= preparing_share * left());
      if (quick && rounds <= rest && preparing / seconds_per_packed_byte * 2 <= memory) return true;
    }
    return false;
  }

  Result<TrialResult> hold_trial(std::span<const Contest> contests, const TrialOptions& options,
                                 FunctionRef<std::size_t(std::size_t e, std::size_t challenger)> candidate_of,
                                 std::string_view what) {
    const auto run = [&](std::span<const std::size_t> lineup) -> Result<RunStatistics> {
      std::vector<std::size_t> placed;
      for (std::size_t e = 0; e < entries_.size(); ++e) {
        const auto at = std::find(lineups_[e].begin(), lineups_[e].end(), candidate_of(e, lineup[e]));
        placed.push_back(static_cast<std::size_t>(at - lineups_[e].begin()));
      }
      return placement_->run(placed);
    };
    return network::run_trial(
        contests, options, run, [] { return monotonic_seconds(); },
        [&] {
          show(what);
          return left() > 0;
        });
  }

  Result<void> compete() {
    std::vector<Contest> contests;
    for (const Entry& entry : entries_) contests.push_back(entry.contest);
    const double time = left();
    trial_.budget_seconds = time;
    if (std::isfinite(time)) {
      trial_.budget_seconds -= std::clamp(most_stages * stage_seconds(), 0.3 * time, most_confirmation * time);
    }
    CONVOY_TRY(const TrialResult result,
               hold_trial(
                   contests, trial_, [](std::size_t, std::size_t challenger) { return challenger; },
                   "timing candidates in the network"));
    if (result.rounds == 0) return {};
    log(LogLevel::info, "compared in the network", {{"rounds", fmt::format("{}", result.rounds)}});
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      settle(entries_[e], result.reference[e], result.duels[e], result.settled);
    }
    return {};
  }

  // Times are of one execution; a challenger's is the reference's times their ratio, so that the machine's drift is not
  // in it.
  void settle(Entry& entry, const selection::Summary& reference, std::span<const Duel> duels, bool all_settled) {
    if (duels.empty()) return;
    const double seconds = reference.median / static_cast<double>(entry.contest.steps.size());
    const auto set = [&](Measurement& m, double median, const selection::Summary& summary, MeasurementState state) {
      m.median_seconds = median;
      m.spread = summary.spread();
      m.samples = summary.samples;
      m.state = state;
      m.energy_joules.reset();
    };
    entry.timed = true;
    double least = 1;
    for (std::size_t i = 0; i < duels.size(); ++i) {
      const Duel& duel = duels[i];
      log_duel(entry, i + 1, duel);
      const bool open = duel.verdict == Verdict::open && !all_settled;
      set(entry.candidates[i + 1], seconds * duel.ratio.median, duel.ratio,
          open ? MeasurementState::partial : MeasurementState::cut_off);
      if (duel.verdict != Verdict::faster || duel.ratio.median >= least) continue;
      least = duel.ratio.median;
      entry.chosen = i + 1;
    }
    set(entry.candidates[0], seconds, reference, MeasurementState::complete);
  }

  static void log_duel(const Entry& entry, std::size_t challenger, const Duel& duel) {
    if (!log_enabled(LogLevel::info)) return;
    log(LogLevel::info, "compared in the network",
        {{"problem", entry.key.problem},
         {"reference", print(entry.candidates[0].candidate)},
         {"challenger", print(entry.candidates[challenger].candidate)},
         {"ratio", fmt::format("{:.4f}", duel.ratio.median)},
         {"uncertainty", fmt::format("{:.4f}", duel.ratio.relative_uncertainty())},
         {"pairs", fmt::format("{}", duel.ratio.samples)}});
  }

  // Less than one by `worth`, beyond doubt: that of the times, or what the ratios differ by from placement to
  // placement.
  static bool below_one(std::span<const selection::Summary> ratios, double worth) {
    const auto count = static_cast<double>(ratios.size());
    double mean = 0, doubt = 0, squares = 0;
    for (const selection::Summary& ratio : ratios) {
      mean += ratio.median / count;
      doubt += ratio.median * ratio.relative_uncertainty() / count;
    }
    for (const selection::Summary& ratio : ratios) squares += (ratio.median - mean) * (ratio.median - mean);
    if (ratios.size() > 1) doubt = std::max(doubt / std::sqrt(count), std::sqrt(squares / (count - 1) / count));
    return !ratios.empty() && mean + doubt < 1 - worth;
  }

  // Of a network prepared anew, with enough runs to say something.
  double stage_seconds() const {
    const double runs = 2 * (trial_.unread_runs + trial_.runs) * confirmation_rounds;
    return placement_->preparing_seconds() + 1.2 * runs * run_seconds_;
  }

  // All that were chosen beside the references, in other places in memory: they were chosen among many for their times,
  // some of them for the luck in these or for where their memory lay. Then those that were faster there, together.
  Result<void> confirm() {
    const int stages = static_cast<int>(std::min(left() / stage_seconds(), double{most_stages}));
    std::vector<std::vector<selection::Summary>> ratios(entries_.size());  // by stage
    std::optional<TrialResult> together;
    for (int stage = 0; stage < stages; ++stage) {
      if (stage == stages - 1) withdraw_slower(ratios);
      CONVOY_TRY(together, time_chosen(stage % 2 == 1, left() / (stages - stage)));
      if (!together) break;
      for (std::size_t e = 0; e < entries_.size(); ++e) {
        if (entries_[e].chosen > 0) ratios[e].push_back(together->duels[e][0].ratio);
      }
    }
    if (stages < 2 || !together) {  // no time to be sure
      for (Entry& entry : entries_) withdraw(entry, MeasurementState::partial);
      return {};
    }
    if (below_one({&together->whole, 1}, worth_while)) {
      result_.speedup = 1 / together->whole.median;
      return {};
    }
    for (Entry& entry : entries_) withdraw(entry, MeasurementState::cut_off);
    result_.remarks.push_back(
        fmt::format("with other candidates the network as a whole took {:.3f} times as long, which is not less beyond "
                    "doubt: the heuristic's choices were kept",
                    together->whole.median));
    return {};
  }

  void withdraw_slower(const std::vector<std::vector<selection::Summary>>& ratios) {
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (!ratios[e].empty() && !below_one(ratios[e], 0)) withdraw(entries_[e], MeasurementState::cut_off);
    }
  }

  // The network with what was chosen, beside it with the references, within `seconds` and where its memory has not lain
  // before. Nothing: too little time, or nothing is chosen.
  Result<std::optional<TrialResult>> time_chosen(bool references_first, double seconds) {
    const double start = monotonic_seconds();
    std::vector<Contest> contests;
    std::vector<std::vector<std::size_t>> lineups;
    for (const Entry& entry : entries_) {
      lineups.push_back(entry.chosen > 0 ? std::vector<std::size_t>{entry.chosen, 0} : std::vector<std::size_t>{0});
      if (references_first) std::reverse(lineups.back().begin(), lineups.back().end());
    }
    const bool any = std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.chosen > 0; });
    if (!any || left() < stage_seconds()) return std::nullopt;
    CONVOY_CHECK(place(std::move(lineups)));
    for (const Entry& entry : entries_) contests.push_back({entry.contest.steps, entry.chosen > 0 ? 1U : 0U});
    TrialOptions options = trial_;
    options.worth = 0;
    options.min_rounds = confirmation_rounds;
    options.max_rounds = 8 * confirmation_rounds;
    options.budget_seconds = seconds - (monotonic_seconds() - start);
    const auto chosen = [&](std::size_t e, std::size_t challenger) { return challenger == 0 ? 0 : entries_[e].chosen; };
    CONVOY_TRY(TrialResult result, hold_trial(contests, options, chosen, "timing what was chosen"));
    if (result.rounds == 0) return std::nullopt;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (entries_[e].chosen > 0) log_duel(entries_[e], entries_[e].chosen, result.duels[e][0]);
    }
    return result;
  }

  static void withdraw(Entry& entry, MeasurementState state) {
    if (entry.chosen == 0) return;
    entry.candidates[entry.chosen].state = state;
    entry.chosen = 0;
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
  Forgetful forgetful_;
  const bool again_;
  const NetworkTuningProgress& progress_;
  const double start_;
  std::vector<Entry> entries_;
  std::optional<Placement> placement_;
  std::vector<std::vector<std::size_t>> lineups_;  // by entry: which of its candidates that has
  double run_seconds_ = 0;                         // of the network, as those of its convolutions let expect
  TrialOptions trial_;
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
