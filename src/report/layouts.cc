#include "report/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace convoy::report {
namespace {

struct CopyRate {
  std::string_view device;
  double bytes_per_second;
};
constexpr std::array kCopyRates = {CopyRate{"NVIDIA H200", 4.27e12}};  // shared with engines/cuda/depthwise's bench

constexpr std::array kLayouts = {Layout::nchw, Layout::nhwc};

// Seconds of a twin's fastest engine of cuDNN's graph API that loses no more than the one that ran.
std::optional<double> fastest(const Convolution& convolution, const ConvProblem& twin, const KnownTimes& known,
                              const NotesOf& notes_of) {
  const Algorithm& used = convolution.algorithms[*convolution.used];
  const auto found = known.find(convolution.graph.device, twin, canonical(used.candidate));
  if (!found) return std::nullopt;
  const std::vector<std::string> allowed = used.notes.value_or(std::vector<std::string>());
  for (const KnownTime& time : found->times) {
    if (!time.failure.empty() || !time.candidate.starts_with("cudnn.eng")) continue;
    const auto candidate = parse_candidate(time.candidate);
    if (!candidate) continue;
    // An engine's notes are those that it has for the recorded problem, where that is known.
    std::optional<std::vector<std::string>> notes;
    for (const Algorithm& algorithm : convolution.algorithms) {
      const auto other = algorithm.notes ? parse_candidate(algorithm.candidate) : Result<Candidate>(Candidate());
      if (other && other->engine == candidate->engine) notes = algorithm.notes;
    }
    if (!notes && notes_of) notes = notes_of(convolution.graph.device, twin, *candidate);
    if (notes && loses_no_more(*notes, allowed)) return time.seconds;
  }
  return std::nullopt;
}

double copy_seconds(const ConvProblem& from, const ConvProblem& to, double bandwidth) {
  double bytes = 0;
  for (const auto tensor : {&ConvProblem::x, &ConvProblem::w, &ConvProblem::y}) {
    if ((from.*tensor).strides == (to.*tensor).strides || (from.*tensor).is_packed((to.*tensor).layout())) continue;
    bytes += 2 * static_cast<double>((from.*tensor).bytes());
  }
  return bytes / bandwidth;
}

}  // namespace

std::optional<double> copy_bandwidth(const std::string& device) {
  for (const CopyRate& rate : kCopyRates) {
    if (rate.device == device) return rate.bytes_per_second;
  }
  return std::nullopt;
}

ConvProblem twin_of(ConvProblem problem, Layout layout) {
  for (TensorDesc* tensor : {&problem.x, &problem.w, &problem.y}) {
    const std::int64_t alignment = tensor->alignment;
    *tensor = tensor->with_layout(layout);
    tensor->alignment = alignment;
  }
  return problem;
}

LayoutComparison compare_layouts(const ProgramReport& report, const KnownTimes& known, const NotesOf& notes_of,
                                 std::optional<double> bandwidth) {
  LayoutComparison comparison;
  std::set<std::string> listed;
  for (const Layout layout : kLayouts) comparison.totals.push_back({.layout = layout});
  for (const Convolution& convolution : report.convolutions) {
    if (!convolution.used) continue;
    const auto rate = bandwidth ? bandwidth : copy_bandwidth(convolution.graph.device);
    if (rate) comparison.bandwidth = rate;
    std::array<ConvProblem, kLayouts.size()> twins;
    std::array<std::optional<double>, kLayouts.size()> seconds;
    for (std::size_t i = 0; i < kLayouts.size(); ++i) {
      twins[i] = twin_of(convolution.problem, kLayouts[i]);
      seconds[i] = fastest(convolution, twins[i], known, notes_of);
      if (!seconds[i] && !known.find(convolution.graph.device, twins[i], {})) {
        const std::string text = print(twins[i]);
        if (listed.insert(text).second) {
          comparison.twins += fmt::format("{} {}  # {}\n", std::max<std::int64_t>(convolution.graph.calls, 1), text,
                                          convolution.number);
        }
      }
    }
    for (std::size_t i = 0; i < kLayouts.size() && convolution.timed_calls > 0; ++i) {
      LayoutTotal& total = comparison.totals[i];
      const std::size_t other = 1 - i;
      if (!seconds[i]) {
        ++total.missing;
        continue;
      }
      double least = *seconds[i];
      if (rate && seconds[other]) {
        const double converted = *seconds[other] + copy_seconds(twins[i], twins[other], *rate);
        if (converted < least) {
          least = converted;
          ++total.converted;
        }
      }
      ++total.convolutions;
      total.seconds += static_cast<double>(convolution.timed_calls) * least;
      total.as_it_ran += convolution.seconds;
      total.best_as_it_is += convolution.seconds - convolution.gain_not_taken;
    }
  }
  if (!comparison.twins.empty()) {
    comparison.twins =
        "# Convolutions of a program in the layouts that it did not use (convoy report --twins): measured, they\n"
        "# say what the whole of it would take with every tensor in one layout.\n" +
        comparison.twins;
  }
  return comparison;
}

}  // namespace convoy::report
