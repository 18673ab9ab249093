#include "cli/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "select/measure/full_speed.h"

namespace convoy::cli {
namespace {

constexpr std::string_view kHeuristic = "heuristic", kStored = "stored";

// What one side takes, turn by turn.
class Turns {
 public:
  // Runs of a session in a row; the first of a turn, which finds the other's data in the caches, isn't counted.
  Result<double> take(Session& session, std::span<const HostTensor> inputs) {
    constexpr std::size_t kRuns = 3;
    std::vector<double> times;
    for (std::size_t i = 0; i <= kRuns; ++i) {
      RunStatistics statistics;
      CONVOY_CHECK(session.run(inputs, &statistics));
      if (i == 0) continue;
      times.push_back(statistics.seconds);
      steps_.resize(statistics.step_seconds.size());
      for (std::size_t s = 0; s < steps_.size(); ++s) steps_[s].push_back(statistics.step_seconds[s]);
    }
    std::sort(times.begin(), times.end());
    medians_.push_back(times[kRuns / 2]);
    return medians_.back();
  }

  void finish(Side& side) {
    side.seconds = selection::summarize(medians_);
    for (std::vector<double>& step : steps_) {
      std::sort(step.begin(), step.end());
      side.step_seconds.push_back(selection::quantile(step, 0.5));
      side.undisturbed_seconds += selection::quantile(step, 0.1);
    }
  }

 private:
  std::vector<double> medians_;
  std::vector<std::vector<double>> steps_;  // of each step what it took, run by run
};

void count_differing(const Session& own, const Session& other, Beside& beside) {
  const auto convolutions = [](const Session& session) {
    std::vector<std::string_view> run_on;
    for (const NetworkStep& step : session.steps()) {
      if (step.kind == "conv") run_on.push_back(step.implementation);
    }
    return run_on;
  };
  const auto here = convolutions(own), there = convolutions(other);
  beside.convolutions = static_cast<std::int64_t>(std::min(here.size(), there.size()));
  for (std::size_t i = 0; i < std::min(here.size(), there.size()); ++i) beside.differing += here[i] != there[i];
}

}  // namespace

Result<NetworkOptions> other_side(const Program& program, const std::string& beside, const NetworkOptions& own) {
  NetworkOptions other = own;
  other.selection.rules.clear();
  if (beside == kHeuristic) {
    other.selection.store = nullptr;
  } else if (beside != kStored) {
    CONVOY_TRY(other.selection.rules, program.rules_of_file("--beside", beside));
  }
  return other;
}

// The turns alternate in order, so the machine's drift is in neither side. Where their memory lies makes two sessions
// of the same choices differ by a few percent, so both are prepared anew for each pair, each of them first in every
// second one.
Result<Beside> compare_sides(const Network& network, std::span<const TensorDesc> descs, const std::string& what,
                             const NetworkOptions& own, const NetworkOptions& other, std::span<const HostTensor> inputs,
                             int rounds, const std::string& own_name) {
  constexpr int kMostPairs = 4;
  constexpr double kPatience = 0.25;  // seconds, from one turn at full speed to the next
  const int pairs = std::min(rounds, kMostPairs);
  const auto team = make_cpu_team(own.threads);
  selection::FullSpeed full_speed(*team, kPatience);
  Beside beside;
  beside.what = what;
  std::vector<double> ratios;
  Turns turns[2];
  for (int pair = 0; pair < pairs; ++pair) {
    std::unique_ptr<Session> sessions[2];  // with the network's own options, with the other ones
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (turn + pair) % 2;
      auto session = network.prepare(descs, which == 0 ? own : other);
      const std::string& name = which == 0 ? own_name : what;
      if (!session.ok()) return name.empty() ? session.error() : session.error().within(name);
      sessions[which] = *std::move(session);
    }
    for (int round = pair; round < rounds; round += pairs) {
      double seconds[2];
      for (int turn = 0; turn < 2; ++turn) {
        const int which = (turn + round / pairs) % 2;
        full_speed(true);
        CONVOY_TRY(seconds[which], turns[which].take(*sessions[which], inputs));
      }
      ratios.push_back(seconds[1] / seconds[0]);
    }
    if (pair > 0) continue;
    count_differing(*sessions[0], *sessions[1], beside);
    beside.own.steps = sessions[0]->steps();
    beside.other.steps = sessions[1]->steps();
    beside.own.remarks = sessions[0]->remarks();
    beside.other.remarks = sessions[1]->remarks();
  }
  beside.ratio = selection::summarize(ratios);
  turns[0].finish(beside.own);
  turns[1].finish(beside.other);
  return beside;
}

Json say_beside(const Program& program, const Beside& beside) {
  const std::string side = beside.what == kHeuristic ? "the heuristic's choices"
                           : beside.what == kStored  ? "the stored choices"
                                                     : "the choices with " + beside.what;
  const std::string differing =
      beside.differing == 0
          ? fmt::format("; both sides chose the same for all {} convolutions, so any difference is noise",
                        beside.convolutions)
          : fmt::format("; {} of {} convolutions run on something else", beside.differing, beside.convolutions);
  program.say(fmt::format("{} take {:.3f} times as long, +-{:.1f}% ({} turns of each in one process){}", side,
                          beside.ratio.median, 100 * beside.ratio.relative_uncertainty(), beside.ratio.samples,
                          differing));
  return {{"select", beside.what},
          {"over_this", beside.ratio.median},
          {"relative_uncertainty", beside.ratio.relative_uncertainty()},
          {"turns", beside.ratio.samples},
          {"convolutions", beside.convolutions},
          {"differing", beside.differing}};
}

}  // namespace convoy::cli
