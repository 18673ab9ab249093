#include "cli/beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "network/tune/side_by_side.h"

namespace convoy::cli {
namespace {

constexpr std::string_view kHeuristic = "heuristic", kStored = "stored";

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
  if (beside != kStored) other.kept_plans.clear();
  if (beside == kHeuristic) {
    other.selection.store = nullptr;
  } else if (beside != kStored) {
    CONVOY_TRY(other.selection.rules, program.rules_of_file("--beside", beside));
  }
  return other;
}

Result<Beside> compare_sides(const Network& network, std::span<const TensorDesc> descs, const std::string& what,
                             const NetworkOptions& own, const NetworkOptions& other, std::span<const HostTensor> inputs,
                             int rounds) {
  const network::Variant both[] = {{"", own}, {what, other}};
  CONVOY_TRY(std::vector<network::Timed> timed, network::time_side_by_side(network, descs, both, inputs, rounds));
  Beside beside;
  beside.what = what;
  beside.ratio = timed[1].over_first;
  beside.own = std::move(timed[0]);
  beside.other = std::move(timed[1]);
  count_differing(beside.own.steps, beside.other.steps, beside);
  return beside;
}

std::string certainty_of(const selection::Summary& ratio) {
  const double uncertainty = ratio.relative_uncertainty();
  const bool shown = std::abs(ratio.median - 1) > uncertainty * std::max(ratio.median, 1.0);  // either way around
  return fmt::format("+-{:.1f}% ({} runs of each, interleaved in one process){}", 100 * uncertainty, ratio.samples,
                     shown ? "" : ", so no difference is shown");
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
  program.say(fmt::format("{} take {:.3f} times as long, {}{}", side, beside.ratio.median, certainty_of(beside.ratio),
                          differing));
  return {{"select", beside.what},
          {"over_this", beside.ratio.median},
          {"relative_uncertainty", beside.ratio.relative_uncertainty()},
          {"turns", beside.ratio.samples},
          {"convolutions", beside.convolutions},
          {"differing", beside.differing}};
}

}  // namespace convoy::cli
