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

void count_differing(const std::vector<NetworkStep>& own, const std::vector<NetworkStep>& other, Beside& beside) {
  const auto convolutions = [](const std::vector<NetworkStep>& steps) {
    std::vector<std::string_view> run_on;
    for (const NetworkStep& step : steps) {
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

// The turns change their order, so the machine's drift is in no side. Where their memory lies makes two sessions of the
// same choices differ by a few percent, so all are prepared anew for each group of turns, each of them first in turn.
Result<std::vector<Side>> time_sides(const Network& network, std::span<const TensorDesc> descs,
                                     std::span<const NamedOptions> given, std::span<const HostTensor> inputs,
                                     int rounds) {
  constexpr int kMostGroups = 4;
  constexpr double kPatience = 0.25;  // seconds, from one turn at full speed to the next
  const int groups = std::min(rounds, kMostGroups);
  const auto count = static_cast<int>(given.size());
  const auto team = make_cpu_team(given.front().options.threads);
  selection::FullSpeed full_speed(*team, kPatience);
  std::vector<Side> sides(given.size());
  std::vector<Turns> turns(given.size());
  std::vector<std::vector<double>> ratios(given.size());
  for (int group = 0; group < groups; ++group) {
    std::vector<std::unique_ptr<Session>> sessions(given.size());
    for (int turn = 0; turn < count; ++turn) {
      const auto which = static_cast<std::size_t>((turn + group) % count);
      auto session = network.prepare(descs, given[which].options);
      const std::string& name = given[which].name;
      if (!session.ok()) return name.empty() ? session.error() : session.error().within(name);
      sessions[which] = *std::move(session);
    }
    for (int round = group; round < rounds; round += groups) {
      std::vector<double> seconds(given.size());
      for (int turn = 0; turn < count; ++turn) {
        const auto which = static_cast<std::size_t>((turn + round / groups) % count);
        full_speed(true);
        CONVOY_TRY(seconds[which], turns[which].take(*sessions[which], inputs));
      }
      for (std::size_t i = 0; i < given.size(); ++i) ratios[i].push_back(seconds[i] / seconds[0]);
    }
    if (group > 0) continue;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Session& session = *sessions[i];
      sides[i].steps = session.steps();
      sides[i].remarks = session.remarks();
      sides[i].activations = session.activations();
      sides[i].activation_bytes = session.activation_bytes();
      sides[i].weight_bytes = session.weight_bytes();
      sides[i].workspace_bytes = session.workspace_bytes();
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    turns[i].finish(sides[i]);
    sides[i].ratio = selection::summarize(ratios[i]);
  }
  return sides;
}

Result<Beside> compare_sides(const Network& network, std::span<const TensorDesc> descs, const std::string& what,
                             const NetworkOptions& own, const NetworkOptions& other, std::span<const HostTensor> inputs,
                             int rounds, const std::string& own_name) {
  const NamedOptions named[] = {{own_name, own}, {what, other}};
  CONVOY_TRY(std::vector<Side> sides, time_sides(network, descs, named, inputs, rounds));
  Beside beside;
  beside.what = what;
  beside.ratio = sides[1].ratio;
  beside.own = std::move(sides[0]);
  beside.other = std::move(sides[1]);
  count_differing(beside.own.steps, beside.other.steps, beside);
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
