#include "cli/run_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/tuning.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

double total_of(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

bool is_convolution(const NetworkStep& step) { return step.kind == "conv"; }

}  // namespace

Result<void> say_steps(const Program& program, const std::string& model, const Session& session,
                       const std::vector<double>& seconds, const std::string& nodes) {
  const std::vector<NetworkStep>& steps = session.steps();
  const bool timed = seconds.size() == steps.size();
  const double total = total_of(seconds);
  using report::Align;
  report::Table table;
  table.column("step", Align::right)
      .column("number", Align::right, 2)
      .column("kind")
      .column("runs on")
      .column("chosen by", Align::left, 2)
      .column("threads", Align::right, 4);
  if (timed) table.column("time", Align::right).column("share", Align::right, 1).column("GFLOP/s", Align::right, 1);
  table.column("problem", Align::left, 2).column("output", Align::left, 3).column("nodes");
  const std::vector<std::size_t> numbers = layer_numbers(session);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const NetworkStep& step = steps[i];
    const bool convolution = is_convolution(step);
    if (!node_matches(nodes, step.nodes, convolution ? print(step.problem) : "", numbers[i])) continue;
    std::vector<std::string> cells = {
        fmt::format("{}", i), convolution ? fmt::format("{}", numbers[i]) : "", step.kind,
        step.implementation,  convolution ? step.selection.reason() : "",       fmt::format("{}", step.threads)};
    if (timed) {
      cells.push_back(report::seconds(seconds[i]));
      cells.push_back(total > 0 ? report::percent(seconds[i] / total) : "");
      cells.push_back(convolution && seconds[i] > 0 ? report::rate(flops(step.problem) / seconds[i]) : "");
    }
    cells.push_back(convolution ? report::short_name(step.problem) : "");
    cells.push_back(step.output_shape);
    cells.push_back(step.nodes);
    table.row(std::move(cells), step.kind == "convert" ? report::Style::faint : report::Style::plain);
  }
  if (table.empty() && !nodes.empty()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--node: '{}' matches none of the {} steps", nodes, steps.size())};
  }
  program.say(table);
  if (!timed || total <= 0 || !nodes.empty()) return {};
  std::size_t slowest = steps.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (is_convolution(steps[i]) && (slowest == steps.size() || seconds[i] > seconds[slowest])) slowest = i;
  }
  if (slowest == steps.size()) return {};
  const NetworkStep& step = steps[slowest];
  const std::string node = step.nodes.substr(0, step.nodes.find(", "));
  program.say(fmt::format(
      "\nslowest convolution: step {}, {} of the steps' time, {}\n"
      "  why it runs on {}: convoy explain {} --node '{}'",
      slowest, report::percent(seconds[slowest] / total), print(step.problem), step.implementation, model, node));
  return {};
}

Json steps_json(const Session& session, const std::vector<double>& seconds) {
  const std::vector<NetworkStep>& steps = session.steps();
  const bool timed = seconds.size() == steps.size();
  const double total = total_of(seconds);
  const std::vector<std::size_t> numbers = layer_numbers(session);
  Json all = Json::array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Json json = report::to_json(steps[i]);
    if (is_convolution(steps[i])) json["number"] = numbers[i];
    if (timed) {
      json["seconds"] = seconds[i];
      json["share"] = total > 0 ? Json(seconds[i] / total) : Json(nullptr);
      if (is_convolution(steps[i]) && seconds[i] > 0) json["gflops"] = flops(steps[i].problem) / seconds[i] * 1e-9;
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace convoy::cli
