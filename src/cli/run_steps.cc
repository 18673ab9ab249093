#include "cli/run_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "cli/tuning.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

double total_of(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

bool is_convolution(const NetworkStep& step) { return step.kind == "conv"; }

struct StepRow {
  std::size_t index;
  const NetworkStep* step;
  std::size_t number;  // of a convolution, for --node
  double seconds, total;
};

std::vector<StepRow> rows_of(const Session& session, const std::vector<double>& seconds) {
  const std::vector<NetworkStep>& steps = session.steps();
  const bool timed = seconds.size() == steps.size();
  const double total = total_of(seconds);
  const std::vector<std::size_t> numbers = layer_numbers(session);
  std::vector<StepRow> rows;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    rows.push_back({i, &steps[i], numbers[i], timed ? seconds[i] : 0, timed ? total : 0});
  }
  return rows;
}

// Beside what report::to_json has of a step.
report::Listing<StepRow> listing_of_steps(bool timed) {
  using report::Align;
  const auto of_convolution = [](auto value) {
    return [value](const StepRow& row) { return is_convolution(*row.step) ? std::optional(value(row)) : std::nullopt; };
  };
  const auto share = [](const StepRow& row) { return row.total > 0 ? Json(row.seconds / row.total) : Json(nullptr); };
  const auto gflops = [](const StepRow& row) {
    const bool known = is_convolution(*row.step) && row.seconds > 0;
    return known ? std::optional(flops(row.step->problem) / row.seconds * 1e-9) : std::nullopt;
  };
  report::Listing<StepRow> listing;
  listing
      .cell(
          "step", [](const StepRow& row) { return row.index; }, Align::right)
      .column("number", "number", of_convolution([](const StepRow& row) { return row.number; }), report::as_text,
              Align::right, 2)
      .cell("kind", [](const StepRow& row) { return row.step->kind; })
      .cell("runs on", [](const StepRow& row) { return row.step->implementation; })
      .cell("chosen by", of_convolution([](const StepRow& row) { return row.step->selection.reason(); }), Align::left,
            2)
      .cell(
          "threads", [](const StepRow& row) { return row.step->threads; }, Align::right, 4);
  if (timed) {
    listing
        .column(
            "time", "seconds", [](const StepRow& row) { return row.seconds; }, report::as_seconds, Align::right)
        .column("share", "share", share, report::as_percent, Align::right, 1)
        .column("GFLOP/s", "gflops", gflops, report::as_giga, Align::right, 1);
  }
  listing
      .cell("problem", of_convolution([](const StepRow& row) { return report::short_name(row.step->problem); }),
            Align::left, 2)
      .cell(
          "output", [](const StepRow& row) { return row.step->output_shape; }, Align::left, 3)
      .cell("nodes", [](const StepRow& row) { return row.step->nodes; });
  return listing;
}

}  // namespace

Result<void> say_steps(const Program& program, const std::string& model, const Session& session,
                       const std::vector<double>& seconds, const std::string& nodes) {
  const std::vector<NetworkStep>& steps = session.steps();
  const bool timed = seconds.size() == steps.size();
  const double total = total_of(seconds);
  const report::Listing<StepRow> listing = listing_of_steps(timed);
  report::Table table = listing.table();
  for (const StepRow& row : rows_of(session, seconds)) {
    const NetworkStep& step = *row.step;
    if (!node_matches(nodes, step.nodes, is_convolution(step) ? print(step.problem) : "", row.number)) continue;
    listing.add(table, row, step.kind == "convert" ? report::Style::faint : report::Style::plain);
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
  const report::Listing<StepRow> listing = listing_of_steps(seconds.size() == session.steps().size());
  Json all = Json::array();
  for (const StepRow& row : rows_of(session, seconds)) {
    Json json = report::to_json(*row.step);
    json.update(listing.json(row));
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace convoy::cli
