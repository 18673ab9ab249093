#include "report/program_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/format.h"

namespace convoy::report {
namespace {

template <class Value>
std::string plural(Value count, std::string_view what) {
  return fmt::format("{} {}{}", thousands(static_cast<std::int64_t>(count)), what, count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& parts, std::string_view between = "; ") {
  return fmt::format("{}", fmt::join(parts, between));
}

// "12.3 us, 0.81 times as long"
std::string compared(const Algorithm& other, const Algorithm& with) {
  if (!other.seconds || !with.seconds) return time_text(other.seconds, other.rough);
  return fmt::format("{}, {:.2f} times as long", time_text(other.seconds, other.rough), *other.seconds / *with.seconds);
}

std::string lost(const Algorithm& algorithm, const Convolution& convolution) {
  if (!algorithm.notes) return "its notes are not known";
  const std::vector<std::string> allowed =
      convolution.algorithms[*convolution.used].notes.value_or(std::vector<std::string>());
  std::vector<std::string> more = losses(*algorithm.notes);
  std::erase_if(more, [&](const std::string& note) { return loses_no_more({note}, allowed); });
  return joined(more, ", ");
}

}  // namespace

std::string without_knobs(const std::string& candidate) {
  const std::size_t brace = candidate.find('{');
  return brace == std::string::npos ? candidate : candidate.substr(0, brace) + "{..}";
}

std::string time_text(const std::optional<double>& value, bool rough) {
  if (!value) return "-";
  return fmt::format("{}{}", rough ? "~" : "", seconds(*value));
}

std::string gain_text(double value, double of) {
  if (!(of > 0) || std::abs(value) < 0.0005 * of) return "";
  return fmt::format("{:+.1f}%", 100 * value / of);
}

std::string remark_on(const Convolution& convolution, std::size_t index) {
  const Algorithm& algorithm = convolution.algorithms[index];
  std::vector<std::string> parts;
  const auto is = [&](const std::optional<std::size_t>& which) { return which && *which == index; };
  if (is(convolution.used)) {
    parts.emplace_back("ran");
  } else if (algorithm.calls > 0) {
    parts.emplace_back("ran, too");
  }
  if (!algorithm.in_place_of.empty()) parts.push_back("in place of " + algorithm.in_place_of);
  if (is(convolution.asked)) parts.push_back(convolution.graph.steered.empty() ? "asked for first" : "put first");
  if (is(convolution.best)) parts.emplace_back("fastest permitted");
  if (is(convolution.instead) && !is(convolution.used)) parts.emplace_back("cuDNN's own choice");
  if (is(convolution.best_elsewhere)) parts.emplace_back("faster, but it can't run in place of the older API's");
  if (is(convolution.best_forbidden)) {
    parts.push_back("faster, but not permitted: " + lost(algorithm, convolution));
  }
  if (!algorithm.failure.empty()) {
    parts.push_back(algorithm.detail.empty() ? algorithm.failure : algorithm.failure + ": " + algorithm.detail);
  }
  if (!algorithm.not_placed.empty()) parts.push_back("not placed: " + algorithm.not_placed);
  return joined(parts);
}

std::string remark_on(const Convolution& convolution) {
  std::vector<std::string> parts;
  const std::vector<Algorithm>& all = convolution.algorithms;
  if (!convolution.used) {
    parts.emplace_back("never ran");
  } else {
    const Algorithm& used = all[*convolution.used];
    if (!used.seconds) parts.push_back(used.failure.empty() ? "no time" : "no time: " + used.failure);
    if (used.notes && std::find(used.notes->begin(), used.notes->end(), "NONDETERMINISTIC") != used.notes->end()) {
      parts.emplace_back("nondeterministic");
    }
    if (!used.in_place_of.empty()) parts.push_back("in place of " + without_knobs(used.in_place_of));
    std::int64_t captured = 0;
    for (const Algorithm& algorithm : all) captured += algorithm.captured;
    if (captured > 0) parts.push_back(fmt::format("{} captured", plural(captured, "call")));
    for (const auto& [which, why] :
         {std::pair(convolution.best_elsewhere, "can't be given"), std::pair(convolution.best_forbidden, "")}) {
      if (!which || !used.seconds) continue;
      const Algorithm& other = all[*which];
      parts.push_back(fmt::format("{} would take {} ({})", without_knobs(other.candidate), compared(other, used),
                                  *why != 0 ? why : lost(other, convolution)));
    }
  }
  if (convolution.graph.benchmark) parts.emplace_back("benchmark mode");
  if (const RecordedGraph& graph = convolution.graph; !graph.steered.empty()) {
    parts.push_back(fmt::format("steered to {}{}", without_knobs(graph.steered),
                                graph.steered_adds.empty() ? "" : ", which adds " + joined(graph.steered_adds, ", ")));
  }
  for (const Algorithm& algorithm : all) {
    if (algorithm.not_placed.empty()) continue;
    parts.push_back(fmt::format("{} not placed: {}", without_knobs(algorithm.candidate), algorithm.not_placed));
  }
  return joined(parts);
}

Style style_of(const Convolution& convolution, std::size_t index) {
  if (convolution.used && *convolution.used == index) return Style::bold;
  if (convolution.best && *convolution.best == index) return Style::good;
  return convolution.algorithms[index].failure.empty() ? Style::plain : Style::faint;
}

std::vector<std::pair<std::string, std::string>> facts_of(const ProgramReport& report) {
  const Record& record = report.record;
  std::vector<std::pair<std::string, std::string>> facts;
  constexpr std::size_t kPrograms = 3;
  for (std::size_t i = 0; i < std::min(record.programs.size(), kPrograms); ++i) {
    facts.emplace_back(i == 0 ? "program" : "", record.programs[i]);
  }
  if (record.programs.size() > kPrograms) {
    facts.emplace_back("", fmt::format("and {} other command lines", record.programs.size() - kPrograms));
  }
  facts.emplace_back("ran",
                     fmt::format("{} in {}{}", seconds(record.seconds),
                                 record.processes == 1 ? "1 process" : fmt::format("{} processes", record.processes),
                                 report.unfinished ? ", and still runs" : ""));
  facts.emplace_back("cuDNN", record.cudnn);
  std::set<std::string> devices;
  for (const Convolution& each : report.convolutions) devices.insert(each.graph.device);
  devices.erase("");
  if (!devices.empty()) facts.emplace_back("device", fmt::format("{}", fmt::join(devices, ", ")));
  facts.emplace_back("times", report.database);
  return facts;
}

std::vector<std::string> totals_of(const ProgramReport& report) {
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("{}, {}", plural(report.convolutions.size(), "distinct convolution"), plural(report.calls, "call")));
  if (report.timed_calls == 0) {
    lines.emplace_back("none of the calls has a time, so no shares and gains are known (convoy tune measures them)");
    return lines;
  }
  const auto fraction = static_cast<double>(report.timed_calls) / static_cast<double>(report.calls);
  lines.push_back(fmt::format("{} of the calls ({}) have a time; they took {}", thousands(report.timed_calls),
                              percent(fraction), seconds(report.seconds)));
  const double before = report.seconds + report.gain_taken;
  lines.push_back(fmt::format("gain taken {} ({} of what cuDNN's own order would have taken), not taken {} ({})",
                              seconds(report.gain_taken), percent(report.gain_taken / before),
                              seconds(report.gain_not_taken), percent(report.gain_not_taken / report.seconds)));
  if (report.joules) lines.push_back(fmt::format("energy of the timed calls: {} J", number(*report.joules)));
  return lines;
}

std::vector<std::string> remarks_of(const ProgramReport& report) {
  const Record& record = report.record;
  std::vector<std::string> lines;
  std::int64_t captured = 0, untimed = 0;
  auto failures =
      static_cast<std::size_t>(std::count_if(record.failures.begin(), record.failures.end(),
                                             [](const RecordedFailure& failure) { return failure.candidate.empty(); }));
  bool reduced = false;
  for (const Convolution& each : report.convolutions) {
    untimed += each.used && each.timed_calls < each.graph.calls ? 1 : 0;
    for (const Algorithm& algorithm : each.algorithms) captured += algorithm.captured;
    for (const RecordedPlan& plan : each.graph.plans) failures += plan.failure.empty() ? 0 : 1;
    reduced = reduced || each.math.math != MathMode::strict;
  }
  if (untimed > 0) lines.push_back(fmt::format("{} ran on engines that have no time", plural(untimed, "convolution")));
  if (record.benchmark) lines.emplace_back("benchmark mode: the program measured what it was offered");
  if (captured > 0) {
    lines.push_back(
        fmt::format("{} were captured into CUDA graphs, whose replays are not counted", plural(captured, "call")));
  }
  for (const std::string& filter : record.filters) lines.push_back("filter: " + filter);
  for (const RecordedRule& rule : record.rules) {
    lines.push_back(fmt::format(
        "rule {} -> {}: {}{}", rule.pattern, rule.candidate,
        rule.matched == 0 ? "matched nothing"
                          : fmt::format("matched {}, obeyed by {}", plural(rule.matched, "convolution"), rule.obeyed),
        rule.reason.empty() ? "" : "; " + rule.reason));
  }
  if (failures > 0) {
    lines.push_back(
        fmt::format("{} could not be built (convoy exec --diagnose says why)",
                    failures == 1 ? "1 descriptor or plan" : fmt::format("{} descriptors and plans", failures)));
  }
  if (reduced) {
    lines.emplace_back("which math the program allowed is inferred from what ran; cuDNN is never told");
  }
  return lines;
}

std::vector<std::string> layout_sentences(const LayoutComparison& layouts, const ProgramReport& report) {
  std::vector<std::string> lines;
  for (const LayoutTotal& total : layouts.totals) {
    const char* name = total.layout == Layout::nhwc ? "channels_last" : "NCHW";
    if (total.convolutions == 0) continue;
    lines.push_back(fmt::format(
        "with every tensor {}: {} predicted, where it took {} ({} with the best engines as it is); {} of {} "
        "convolutions, {} of the timed calls' seconds{}",
        name, seconds(total.seconds), seconds(total.as_it_ran), seconds(total.best_as_it_is), total.convolutions,
        total.convolutions + total.missing, percent(report.seconds > 0 ? total.as_it_ran / report.seconds : 0),
        total.converted > 0 ? fmt::format(", {} converted and back", total.converted) : ""));
  }
  if (lines.empty()) return {"other layouts: nothing is known (convoy report --twins FILE lists what to measure)"};
  if (!layouts.bandwidth) lines.emplace_back("conversions are not counted: how fast this GPU copies is not known");
  if (!layouts.twins.empty()) lines.emplace_back("convoy report --twins FILE lists what to measure for the rest");
  return lines;
}

std::vector<std::string> passed_through(const ProgramReport& report) {
  std::vector<std::string> lines;
  for (const RecordedGraph& graph : report.others) {
    lines.push_back(fmt::format("{}: {}: {}", graph.operations, plural(graph.calls, "call"), graph.reason));
  }
  return lines;
}

}  // namespace convoy::report
