#include "network/tune/candidate_comparison.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/measuring_lock.h"

namespace convoy::network {
namespace {

constexpr double kPreparingShare = 0.3;    // of the time, for plans
constexpr double kFirstRoundShare = 0.2;   // of what is then left without confirmation
constexpr double kMostConfirmation = 0.6;  // of what is left with plans made
constexpr int kConfirmationRounds = 3;
constexpr double kWorthWhile = 0.003;  // of the network's time: smaller gains are where memory lies
constexpr int kMostStages = 3;         // of confirmation, in other memory each
constexpr double kMemoryShare = 0.5;
constexpr double kSecondsPerPackedByte = 2e-9;
constexpr double kLongRunSeconds = 0.04;  // of a network that leaves nothing of the run before in the caches

double free_memory() {
  return static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

void log_duel(const Entry& entry, std::size_t challenger, const Duel& duel) {
  if (!log_enabled(LogLevel::info)) return;
  log(LogLevel::info, "compared in the network",
      {{"problem", entry.key.problem},
       {"reference", print(entry.candidates[0].candidate)},
       {"challenger", print(entry.candidates[challenger].candidate)},
       {"ratio", fmt::format("{:.4f}", duel.ratio.median)},
       {"uncertainty", fmt::format("{:.4f}", duel.ratio.relative_uncertainty())},
       {"pairs", fmt::format("{}", duel.ratio.samples)}});
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

// Less than one by `worth`, beyond doubt: that of the times, or what the ratios differ by from placement to
// placement.
bool below_one(std::span<const selection::Summary> ratios, double worth) {
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

void withdraw(Entry& entry, MeasurementState state) {
  if (entry.chosen == 0) return;
  entry.candidates[entry.chosen].state = state;
  entry.chosen = 0;
}

}  // namespace

CandidateComparison::CandidateComparison(const Network& network, std::span<const HostTensor> inputs,
                                         const NetworkOptions& options, std::vector<Entry>& entries, double run_seconds,
                                         Clock clock)
    : network_(network),
      inputs_(inputs),
      options_(options),
      entries_(entries),
      run_seconds_(run_seconds),
      clock_(std::move(clock)) {
  trial_.unread_runs = run_seconds_ < kLongRunSeconds ? 1 : 0;
  trial_.runs = run_seconds_ < kLongRunSeconds ? 3 : 2;
}

bool CandidateComparison::leave_what_takes_too_long() {
  const double lineup_seconds = run_seconds_ * (trial_.unread_runs + trial_.runs);
  const double memory = free_memory() * kMemoryShare;
  std::size_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.candidates.size());
  for (; most > 1; --most) {
    for (Entry& entry : entries_) {
      entry.left_out = entry.left_out || entry.candidates.size() > most;
      entry.candidates.resize(std::min(entry.candidates.size(), most));
    }
    const double preparing = preparing_seconds();
    const double rest = clock_.left() - preparing;
    const double trial = rest * (1 - kMostConfirmation);
    const double rounds = 2 * lineup_seconds * (trial_.min_rounds + 2 * kConfirmationRounds);
    const bool quick = most == 2 || (lineup_seconds * static_cast<double>(most) <= kFirstRoundShare * trial &&
                                     preparing <= kPreparingShare * clock_.left());
    if (quick && rounds <= rest && preparing / kSecondsPerPackedByte * 2 <= memory) return true;
  }
  return false;
}

double CandidateComparison::preparing_seconds() const {
  double bytes = 0;
  for (const Entry& entry : entries_) {
    bytes += static_cast<double>(entry.tuned->convolution.problem.w.bytes() * entry.tuned->convolution.count) *
             static_cast<double>(entry.candidates.size());
  }
  return bytes * kSecondsPerPackedByte;
}

Result<void> CandidateComparison::run() {
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
Result<void> CandidateComparison::place(std::vector<std::vector<std::size_t>> lineups) {
  clock_.doing("preparing the network");
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

Result<TrialResult> CandidateComparison::hold_trial(
    std::span<const Contest> contests, const TrialOptions& options,
    FunctionRef<std::size_t(std::size_t e, std::size_t challenger)> candidate_of, std::string_view what) {
  const auto run = [&](std::span<const std::size_t> lineup) -> Result<RunStatistics> {
    std::vector<std::size_t> placed;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      const auto at = std::find(lineups_[e].begin(), lineups_[e].end(), candidate_of(e, lineup[e]));
      placed.push_back(static_cast<std::size_t>(at - lineups_[e].begin()));
    }
    std::optional<cuda::MeasuringLock> lock;
    if (options_.cuda) lock.emplace(options_.cuda->ordinal);
    return placement_->run(placed);
  };
  return run_trial(
      contests, options, run, [] { return monotonic_seconds(); },
      [&] {
        clock_.doing(what);
        return clock_.left() > 0;
      });
}

Result<void> CandidateComparison::compete() {
  std::vector<Contest> contests;
  for (const Entry& entry : entries_) contests.push_back(entry.contest);
  const double time = clock_.left();
  trial_.budget_seconds = time;
  if (std::isfinite(time)) {
    trial_.budget_seconds -= std::clamp(kMostStages * stage_seconds(), 0.3 * time, kMostConfirmation * time);
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

// Of a network prepared anew, with enough runs to say something.
double CandidateComparison::stage_seconds() const {
  const double runs = 2 * (trial_.unread_runs + trial_.runs) * kConfirmationRounds;
  return placement_->preparing_seconds() + 1.2 * runs * run_seconds_;
}

// All that were chosen beside the references, in other places in memory: they were chosen among many for their times,
// some of them for the luck in these or for where their memory lay. Then those that were faster there, together.
Result<void> CandidateComparison::confirm() {
  const int stages = static_cast<int>(std::min(clock_.left() / stage_seconds(), double{kMostStages}));
  std::vector<std::vector<selection::Summary>> ratios(entries_.size());  // by stage
  std::optional<TrialResult> together;
  for (int stage = 0; stage < stages; ++stage) {
    if (stage == stages - 1) withdraw_slower(ratios);
    CONVOY_TRY(together, time_chosen(stage % 2 == 1, clock_.left() / (stages - stage)));
    if (!together) break;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      if (entries_[e].chosen > 0) ratios[e].push_back(together->duels[e][0].ratio);
    }
  }
  if (stages < 2 || !together) {  // no time to be sure
    for (Entry& entry : entries_) withdraw(entry, MeasurementState::partial);
    return {};
  }
  if (below_one({&together->whole, 1}, kWorthWhile)) {
    speedup_ = 1 / together->whole.median;
    return {};
  }
  for (Entry& entry : entries_) withdraw(entry, MeasurementState::cut_off);
  remarks_.push_back(
      fmt::format("with other candidates the network as a whole took {:.3f} times as long, which is not less beyond "
                  "doubt: the heuristic's choices were kept",
                  together->whole.median));
  return {};
}

void CandidateComparison::withdraw_slower(const std::vector<std::vector<selection::Summary>>& ratios) {
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (!ratios[e].empty() && !below_one(ratios[e], 0)) withdraw(entries_[e], MeasurementState::cut_off);
  }
}

// The network with what was chosen, beside it with the references, within `seconds` and where its memory has not lain
// before. Nothing: too little time, or nothing is chosen.
Result<std::optional<TrialResult>> CandidateComparison::time_chosen(bool references_first, double seconds) {
  const double start = monotonic_seconds();
  std::vector<Contest> contests;
  std::vector<std::vector<std::size_t>> lineups;
  for (const Entry& entry : entries_) {
    lineups.push_back(entry.chosen > 0 ? std::vector<std::size_t>{entry.chosen, 0} : std::vector<std::size_t>{0});
    if (references_first) std::reverse(lineups.back().begin(), lineups.back().end());
  }
  const bool any = std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.chosen > 0; });
  if (!any || clock_.left() < stage_seconds()) return std::nullopt;
  CONVOY_CHECK(place(std::move(lineups)));
  for (const Entry& entry : entries_) contests.push_back({entry.contest.steps, entry.chosen > 0 ? 1U : 0U});
  TrialOptions options = trial_;
  options.worth = 0;
  options.min_rounds = kConfirmationRounds;
  options.max_rounds = 8 * kConfirmationRounds;
  options.budget_seconds = seconds - (monotonic_seconds() - start);
  const auto chosen = [&](std::size_t e, std::size_t challenger) { return challenger == 0 ? 0 : entries_[e].chosen; };
  CONVOY_TRY(TrialResult result, hold_trial(contests, options, chosen, "timing what was chosen"));
  if (result.rounds == 0) return std::nullopt;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (entries_[e].chosen > 0) log_duel(entries_[e], entries_[e].chosen, result.duels[e][0]);
  }
  return result;
}

}  // namespace convoy::network
