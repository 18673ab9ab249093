#include "report/trace.h"

#include <fmt/format.h>

#include "convoy/version.h"
#include "report/format.h"

namespace convoy::report {
namespace {

constexpr int kProcess = 1;
constexpr int kSteps = 0;  // the row of steps; threads have the rows behind it
double microseconds(double seconds) { return seconds * 1e6; }

Json named(std::string_view what, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", kProcess}, {"tid", row}, {"args", {{"name", name}}}};
}

std::string side_text(const std::optional<TensorDesc>& desc) {
  if (!desc) return "-";
  return fmt::format("{} {} {}", name_of(desc->type), to_string(desc->dims),
                     name_of(desc->layout(), desc->spatial_dims()));
}

Json event(const NetworkStep& step, const RunTrace::Span& span, int row, std::string_view category) {
  const double seconds = span.end - span.begin;
  Json arguments = {{"step", span.step}, {"runs on", step.implementation}};
  if (row == kSteps) {
    arguments["reads"] = side_text(step.reads);
    arguments["writes"] = side_text(step.writes);
    arguments["workspace"] = step.workspace_bytes;
    if (step.kind == "conv") {
      arguments["problem"] = print(step.problem);
      if (seconds > 0) arguments["GFLOP/s"] = flops(step.problem) / seconds * 1e-9;
    }
  }
  return {{"name", step.nodes.empty() ? step.implementation : step.nodes},
          {"cat", category},
          {"ph", "X"},
          {"ts", microseconds(span.begin)},
          {"dur", microseconds(seconds)},
          {"pid", kProcess},
          {"tid", row},
          {"args", std::move(arguments)}};
}

}  // namespace

Json trace_document(const std::string& network, int threads, std::span<const NetworkStep> steps,
                    const RunTrace& trace) {
  Json events = Json::array();
  events.push_back(named("process_name", kSteps, network));
  events.push_back(named("thread_name", kSteps, "steps"));
  for (int thread = 0; thread < threads; ++thread) {
    events.push_back(named("thread_name", thread + 1, fmt::format("thread {}", thread)));
  }
  const auto step_of = [&](const RunTrace::Span& span) -> const NetworkStep& {
    return steps[static_cast<std::size_t>(span.step)];
  };
  for (const RunTrace::Span& span : trace.steps) {
    events.push_back(event(step_of(span), span, kSteps, step_of(span).kind));
  }
  for (const RunTrace::Span& span : trace.threads) {
    events.push_back(event(step_of(span), span, span.thread + 1, "thread"));
  }
  return {
      {"traceEvents", std::move(events)},
      {"displayTimeUnit", "ms"},
      {"otherData", {{"network", network}, {"threads", threads}, {"seconds", trace.seconds}, {"convoy", version()}}}};
}

}  // namespace convoy::report
