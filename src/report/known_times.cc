#include "report/known_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/open_knobs.h"
#include "select/choose/former_knobs.h"

namespace convoy::report {
namespace {

constexpr std::string_view kCudnn = "cuDNN ";

std::string row_key(std::string_view device, ConvProblem problem) {
  problem.math = MathMode::strict;
  for (TensorDesc* tensor : {&problem.x, &problem.w, &problem.y}) tensor->alignment = TensorDesc().alignment;
  return fmt::format("{}\n{}", device, print(problem));
}

bool serves(const ConvProblem& measured, const ConvProblem& asked) {
  return measured.x.alignment <= asked.x.alignment && measured.w.alignment <= asked.w.alignment &&
         measured.y.alignment <= asked.y.alignment;
}

// Of two rows of a candidate: what ran says more than a failure (which stricter math may have caused), a better state
// more than a rough time; then the shorter time.
bool says_more(const KnownTime& a, const KnownTime& b) {
  if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
  return std::tuple(-static_cast<int>(a.state), a.seconds) < std::tuple(-static_cast<int>(b.state), b.seconds);
}

bool faster(const KnownTime& a, const KnownTime& b) {
  if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
  return std::tie(a.seconds, a.candidate) < std::tie(b.seconds, b.candidate);
}

}  // namespace

std::string canonical(std::string_view candidate) {
  auto parsed = parse_candidate(candidate);
  if (!parsed) return std::string(candidate);
  return print(without_open_knobs(selection::with_named_knobs(*parsed, nullptr).value_or(*parsed)));
}

std::string gpu_of_class(std::string_view device_class) {
  constexpr std::string_view kind = "cuda ";
  if (!device_class.starts_with(kind)) return {};
  return std::string(device_class.substr(kind.size(), device_class.find(" sms=") - kind.size()));
}

KnownTimes::KnownTimes(std::span<const TuningRecord> records, std::string_view cudnn) {
  for (const TuningRecord& record : records) {
    const Measurement& measurement = record.measurement;
    const std::string device = gpu_of_class(record.key.device);
    if (device.empty() || is_outdated_verdict(record)) continue;
    if (record.key.isa.find("target_sms=") != std::string::npos) continue;
    const std::string_view provider = measurement.provider;
    if (provider.starts_with(kCudnn) && provider.substr(kCudnn.size()) != cudnn) continue;
    auto problem = parse_problem(record.key.problem);
    if (!problem) continue;
    KnownTime time{.candidate = canonical(print(measurement.candidate)),
                   .seconds = measurement.median_seconds,
                   .spread = measurement.spread,
                   .state = measurement.state,
                   .workspace_bytes = measurement.workspace_bytes,
                   .joules = measurement.energy_joules};
    if (measurement.failure) {
      time.failure = measurement.failure->message.empty() ? "failed" : measurement.failure->message;
      time.seconds = std::numeric_limits<double>::infinity();
    } else if (!(time.seconds > 0)) {
      continue;
    }
    std::string key = row_key(device, *problem);
    rows_.emplace(std::move(key),
                  Row{*std::move(problem), fmt::format("{}\n{}", name_of(record.key.caches), record.key.driver),
                      record.key.caches, std::move(time)});
  }
}

std::optional<KnownProblem> KnownTimes::find(const std::string& device, const ConvProblem& problem,
                                             std::string_view wanted) const {
  std::map<std::string, KnownProblem> ways;
  const auto [begin, end] = rows_.equal_range(row_key(device, problem));
  for (auto row = begin; row != end; ++row) {
    const auto& known = row->second;
    if (!serves(known.problem, problem)) continue;
    KnownProblem& way = ways[known.measured];
    way.caches = known.caches;
    const auto same = std::find_if(way.times.begin(), way.times.end(),
                                   [&](const KnownTime& t) { return t.candidate == known.time.candidate; });
    if (same == way.times.end()) {
      way.times.push_back(known.time);
    } else if (says_more(known.time, *same)) {
      *same = known.time;
    }
  }
  std::optional<KnownProblem> best;
  const auto worth = [&](const KnownProblem& way) {
    const bool has_wanted = std::any_of(way.times.begin(), way.times.end(),
                                        [&](const KnownTime& t) { return t.candidate == wanted && t.failure.empty(); });
    const auto timed =
        std::count_if(way.times.begin(), way.times.end(), [](const KnownTime& t) { return t.failure.empty(); });
    return std::tuple(has_wanted, timed, -static_cast<int>(way.caches));
  };
  for (auto& [name, way] : ways) {
    if (!best || worth(way) > worth(*best)) best = std::move(way);
  }
  if (best) std::sort(best->times.begin(), best->times.end(), faster);
  return best;
}

}  // namespace convoy::report
