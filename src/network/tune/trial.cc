#include "network/tune/trial.h"

#include <algorithm>

namespace convoy::network {
namespace {

using selection::summarize;

// With fewer pairs than a confidence interval needs, a challenger leaves where all of them are this bad.
constexpr double kClearlySlower = 1.08;

struct Lane {
  std::vector<double> ratios;
  bool alive = true;
};

struct Runs {
  std::vector<double> whole;                  // by run
  std::vector<std::vector<double>> contests;  // by contest and run
};

class Trial {
 public:
  Trial(std::span<const Contest> contests, const TrialOptions& options, RunNetwork run, Seconds clock,
        FunctionRef<bool()> keep_going)
      : contests_(contests), options_(options), run_(run), clock_(clock), keep_going_(keep_going), start_(clock()) {
    for (const Contest& contest : contests) {
      lanes_.emplace_back(contest.challengers);
      result_.duels.emplace_back(contest.challengers);
    }
    references_.resize(contests.size());
  }

  Result<TrialResult> run() {
    while (result_.rounds < options_.max_rounds && open()) {
      CONVOY_TRY(const bool whole, run_round());
      if (!whole) break;
      ++result_.rounds;
      judge();
    }
    result_.settled = result_.rounds == options_.max_rounds || !open();
    result_.whole = summarize(whole_ratios_);
    for (const auto& seconds : references_) result_.reference.push_back(summarize(seconds));
    return std::move(result_);
  }

 private:
  std::vector<std::size_t> alive(std::size_t contest) const {
    std::vector<std::size_t> challengers;
    for (std::size_t i = 0; i < lanes_[contest].size(); ++i) {
      if (lanes_[contest][i].alive) challengers.push_back(i);
    }
    return challengers;
  }

  bool open() const {
    for (std::size_t c = 0; c < contests_.size(); ++c) {
      const auto challengers = alive(c);
      if (challengers.size() > 1 && result_.rounds < options_.tie_rounds) return true;
      for (const std::size_t i : challengers) {
        if (result_.duels[c][i].verdict == Verdict::open) return true;
      }
    }
    return false;
  }

  bool may_take(double seconds) { return keep_going_() && clock_() - start_ + seconds <= options_.budget_seconds; }

  // False: cut short.
  Result<bool> run_round() {
    std::vector<std::vector<std::size_t>> alive_in;
    std::size_t others = 0;
    for (std::size_t c = 0; c < contests_.size(); ++c) {
      alive_in.push_back(alive(c));
      others = std::max(others, alive_in.back().size());
    }
    if (!may_take(run_seconds_ * (options_.unread_runs + options_.runs) * static_cast<double>(others + 1)))
      return false;
    // Lineup 0 has the references. The direction alternates, so that a machine that becomes slower favours nobody.
    std::vector<std::vector<std::size_t>> lineups(others + 1, std::vector<std::size_t>(contests_.size(), 0));
    for (std::size_t t = 0; t < others; ++t) {
      for (std::size_t c = 0; c < contests_.size(); ++c) {
        if (!alive_in[c].empty()) lineups[t + 1][c] = 1 + alive_in[c][t % alive_in[c].size()];
      }
    }
    if (result_.rounds % 2 == 1) std::reverse(lineups.begin(), lineups.end());
    std::vector<Runs> done;
    for (const auto& lineup : lineups) {
      CONVOY_TRY(auto runs, run_lineup(lineup));
      if (runs.whole.size() < static_cast<std::size_t>(options_.runs)) return false;
      done.push_back(std::move(runs));
    }
    const Runs& reference = result_.rounds % 2 == 1 ? done.back() : done.front();
    for (std::size_t t = 0; t < done.size(); ++t) {
      if (&done[t] != &reference) add(lineups[t], done[t], reference);
    }
    for (std::size_t c = 0; c < contests_.size(); ++c) {
      references_[c].insert(references_[c].end(), reference.contests[c].begin(), reference.contests[c].end());
    }
    reference_whole_.insert(reference_whole_.end(), reference.whole.begin(), reference.whole.end());
    return true;
  }

  // Without all of its runs where it is told to end.
  Result<Runs> run_lineup(std::span<const std::size_t> lineup) {
    Runs runs;
    runs.contests.resize(contests_.size());
    for (int i = -options_.unread_runs; i < options_.runs; ++i) {
      if (!may_take(run_seconds_)) return runs;
      CONVOY_TRY(const RunStatistics statistics, run_(lineup));
      run_seconds_ = statistics.seconds;
      if (i < 0) continue;
      runs.whole.push_back(statistics.device_seconds.value_or(statistics.seconds));  // of a GPU without copies
      for (std::size_t c = 0; c < contests_.size(); ++c) {
        double sum = 0;
        for (const std::size_t step : contests_[c].steps) sum += statistics.step_seconds[step];
        runs.contests[c].push_back(sum);
      }
    }
    return runs;
  }

  void add(std::span<const std::size_t> lineup, const Runs& runs, const Runs& reference) {
    for (std::size_t i = 0; i < runs.whole.size(); ++i) {
      whole_ratios_.push_back(runs.whole[i] / reference.whole[i]);
      for (std::size_t c = 0; c < contests_.size(); ++c) {
        if (lineup[c] == 0) continue;
        lanes_[c][lineup[c] - 1].ratios.push_back(runs.contests[c][i] / reference.contests[c][i]);
      }
    }
  }

  void judge() {
    const double network = summarize(reference_whole_).median;
    for (std::size_t c = 0; c < contests_.size(); ++c) {
      const double share = summarize(references_[c]).median / network;
      double best = 1;  // the least that the best challenger's ratio may yet runs out to be, from above
      for (const std::size_t i : alive(c)) {
        Duel& duel = result_.duels[c][i];
        duel.ratio = summarize(lanes_[c][i].ratios);
        best = std::min(best, duel.ratio.median * (1 + duel.ratio.relative_uncertainty()));
      }
      for (const std::size_t i : alive(c)) {
        Duel& duel = result_.duels[c][i];
        const double doubt = duel.ratio.relative_uncertainty();
        const double least = duel.ratio.median * (1 - doubt);
        const std::vector<double>& ratios = lanes_[c][i].ratios;
        const bool hopeless = *std::min_element(ratios.begin(), ratios.end()) > kClearlySlower;
        if (hopeless || (1 - least) * share < options_.worth || least > best) {
          duel.verdict = Verdict::not_faster;
          lanes_[c][i].alive = false;
        } else {
          const bool faster = result_.rounds >= options_.min_rounds && duel.ratio.is_below(1);
          duel.verdict = faster ? Verdict::faster : Verdict::open;
        }
      }
    }
  }

  std::span<const Contest> contests_;
  TrialOptions options_;
  RunNetwork run_;
  Seconds clock_;
  FunctionRef<bool()> keep_going_;
  double start_;
  double run_seconds_ = 0;  // of the last run
  std::vector<std::vector<Lane>> lanes_;
  std::vector<std::vector<double>> references_;  // by contest
  std::vector<double> reference_whole_, whole_ratios_;
  TrialResult result_;
};

}  // namespace

Result<TrialResult> run_trial(std::span<const Contest> contests, const TrialOptions& options, RunNetwork run,
                              Seconds clock, FunctionRef<bool()> keep_going) {
  return Trial(contests, options, run, clock, keep_going).run();
}

}  // namespace convoy::network
