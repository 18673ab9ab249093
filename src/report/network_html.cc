#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/format.h"
#include "report/html.h"
#include "report/network_report.h"
#include "report/page_parts.h"

namespace convoy::report {
namespace {

HtmlCell time_cell(double value) { return {seconds(value), value}; }
HtmlCell bytes_cell(std::size_t size) { return {bytes(static_cast<double>(size)), static_cast<double>(size)}; }
HtmlCell ratio_cell(double ratio) { return {fmt::format("{:.2f}", ratio), ratio}; }

std::string runs_text(const NetworkStep& step) {
  return step.kind == "convert" ? step.implementation
                                : fmt::format("{} {}", step.implementation, side_text(step.writes));
}

// What a plan does about a node; of a value that is converted more than once, all of it.
struct Done {
  std::string runs_on;
  double seconds = 0;
};

std::map<std::string, Done> by_key(const NetworkPlan& plan) {
  std::map<std::string, Done> done;
  for (const PlannedStep& each : plan.steps) {
    Done& own = done[key_of(each.step)];
    own.runs_on += (own.runs_on.empty() ? "" : ", ") + runs_text(each.step);
    own.seconds += each.seconds;
  }
  return done;
}

// The convolutions' problems, each once, numbered in the order in which they come first.
struct NumberedProblem {
  int number = 0;
  ConvProblem problem;
};
std::map<std::string, NumberedProblem> numbered(const NetworkPlan& plan) {
  std::map<std::string, NumberedProblem> numbers;
  for (const PlannedStep& each : plan.steps) {
    if (each.step.kind != "conv") continue;
    numbers.try_emplace(print(each.step.problem),
                        NumberedProblem{static_cast<int>(numbers.size()) + 1, each.step.problem});
  }
  return numbers;
}

std::vector<std::pair<std::string, std::string>> figures_of(const NetworkReport& report) {
  const NetworkPlan& shown = report.shown();
  std::vector<std::pair<std::string, std::string>> figures = {
      {shown.name + ", a run", seconds(shown.seconds.median)},
      {shown.name + ", predicted", seconds(shown.predicted_seconds())}};
  for (std::size_t i = 1; i < report.plans.size(); ++i) {
    figures.emplace_back(fmt::format("{} beside {}", report.plans[i].name, shown.name),
                         fmt::format("{:.2f} x", report.plans[i].ratio.median));
  }
  for (const Peer& peer : report.peers) {
    figures.emplace_back(fmt::format("{} beside {}", peer.name, shown.name),
                         fmt::format("{:.2f} x", peer.seconds / shown.seconds.median));
  }
  return figures;
}

HtmlTable plans_table(const NetworkReport& report) {
  HtmlTable table;
  table.column("plan")
      .column("a run", Align::right, "median of runs, interleaved with those of the other plans")
      .column("+-", Align::right, "95% confidence of the median; ?: fewer than 5 runs")
      .column("undisturbed", Align::right, "sum of what each step takes while nobody else uses the processor")
      .column("x first", Align::right, "median of the rounds' ratios")
      .column("predicted", Align::right, "the sum of the plan's lines")
      .column("run / predicted", Align::right)
      .column("lines measured", Align::right, "whose cost the tuning database knows; the others are predicted")
      .column("conversions", Align::right)
      .column("activations", Align::right)
      .column("workspace", Align::right);
  for (const NetworkPlan& plan : report.plans) {
    const double predicted = plan.predicted_seconds();
    table.row({{.text = plan.name, .style = Style::bold},
               time_cell(plan.seconds.median),
               plan.seconds.samples < 5
                   ? HtmlCell{"?"}
                   : HtmlCell{percent(plan.seconds.relative_uncertainty()), plan.seconds.relative_uncertainty()},
               time_cell(plan.undisturbed_seconds),
               ratio_cell(plan.ratio.median),
               time_cell(predicted),
               predicted > 0 ? ratio_cell(plan.seconds.median / predicted) : HtmlCell{},
               {fmt::format("{} of {}", plan.measured_lines(), plan.lines()),
                static_cast<double>(plan.measured_lines()) / std::max(plan.lines(), 1)},
               {fmt::format("{}", plan.conversions()), plan.conversions()},
               bytes_cell(plan.activation_bytes),
               bytes_cell(plan.workspace_bytes)});
  }
  for (const Peer& peer : report.peers) {
    table.row({{peer.name}, time_cell(peer.seconds), {}, {}, ratio_cell(peer.seconds / report.shown().seconds.median)},
              Style::faint);
  }
  return table;
}

HtmlTable nodes_table(const NetworkReport& report, const std::map<std::string, NumberedProblem>& numbers) {
  const NetworkPlan& shown = report.shown();
  const NetworkPlan* const uniform = report.best_uniform();
  const auto in_uniform = uniform != nullptr ? by_key(*uniform) : std::map<std::string, Done>();
  HtmlTable table;
  table.column("step", Align::right)
      .column("nodes", Align::left, "the ONNX nodes that are computed together; of a conversion the value")
      .column("runs on", Align::left, "chosen: engine and configuration; the operator's implementation")
      .column("reads")
      .column("writes")
      .column("time", Align::right, "median in the network")
      .column("share", Align::right, "of the steps' time")
      .column("predicted", Align::right, "the plan's line; with * measured alone, from the tuning database")
      .column("GFLOP/s", Align::right)
      .column(
          "of ceiling", Align::right,
          "the least time that the machine's measured ceiling allows, over the time; Winograd needs fewer operations "
          "and can be above")
      .column("workspace", Align::right)
      .column("runner-up", Align::left,
              "who comes next of those that can run the problem by itself; the link says by how much")
      .column(uniform != nullptr ? uniform->name : "uniform", Align::left, "what the fastest uniform plan runs it on")
      .column("its time", Align::right)
      .column("notes")
      .column("refused", Align::right, "engines that can't run it; the link says why");
  double total = 0;
  for (const PlannedStep& each : shown.steps) total += each.seconds;
  for (std::size_t i = 0; i < shown.steps.size(); ++i) {
    const PlannedStep& each = shown.steps[i];
    const NetworkStep& step = each.step;
    const std::string problem = step.kind == "conv" ? print(step.problem) : "";
    const auto found = report.facts.find(problem);
    const ProblemFacts* const facts = found != report.facts.end() ? &found->second : nullptr;
    const auto other = in_uniform.find(key_of(step));
    std::vector<HtmlCell> cells(16);
    cells[0] = {fmt::format("{}", i), static_cast<double>(i)};
    cells[1] = {step.nodes};
    cells[2] = {step.implementation};
    cells[3] = {side_text(step.reads)};
    cells[4] = {side_text(step.writes)};
    cells[5] = time_cell(each.seconds);
    const double share = total > 0 ? each.seconds / total : 0;
    cells[6] = {.text = percent(share), .value = share, .bar = share};
    if (each.cost) cells[7] = {seconds(each.cost->seconds) + (each.cost->measured ? "*" : ""), each.cost->seconds};
    if (step.kind == "conv" && each.seconds > 0) {
      const double rate_now = flops(step.problem) / each.seconds;
      cells[8] = {rate(rate_now), rate_now};
    }
    if (facts != nullptr && facts->least_seconds && each.seconds > 0) {
      const double reached = *facts->least_seconds / each.seconds;
      cells[9] = {.text = percent(reached), .value = reached, .bar = reached};
    }
    if (step.workspace_bytes > 0) cells[10] = bytes_cell(step.workspace_bytes);
    if (facts != nullptr) {
      if (facts->runner_up) cells[11] = {*facts->runner_up};
      const auto notes = facts->notes.find(step.implementation.substr(0, step.implementation.find('{')));
      if (notes != facts->notes.end()) cells[14] = {fmt::format("{}", fmt::join(notes->second, ", "))};
      std::size_t refused = 0;
      for (const Refusals::Group& group : facts->refusals) refused += group.engines.size();
      cells[15] = {.text = fmt::format("{}", refused),
                   .value = static_cast<double>(refused),
                   .link = fmt::format("#p{}", numbers.at(problem).number)};
    }
    if (other != in_uniform.end()) {
      const bool same = other->second.runs_on == runs_text(step);
      cells[12] = {.text = same ? "the same" : other->second.runs_on, .style = same ? Style::faint : Style::plain};
      cells[13] = time_cell(other->second.seconds);
    }
    table.row(std::move(cells), step.kind == "convert" ? Style::warning : Style::plain);
  }
  return table;
}

// Nodes and conversions that are not the same in all plans.
HtmlTable beside_table(const NetworkReport& report) {
  HtmlTable table;
  table.column("nodes");
  std::vector<std::map<std::string, Done>> sides;
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const NetworkPlan& plan : report.plans) {
    table.column(plan.name).column("time", Align::right);
    sides.push_back(by_key(plan));
    for (const PlannedStep& each : plan.steps) {
      if (seen.insert(key_of(each.step)).second) keys.push_back(key_of(each.step));
    }
  }
  for (const std::string& key : keys) {
    std::vector<HtmlCell> cells = {{key}};
    std::set<std::string> different;
    for (const auto& side : sides) {
      const auto found = side.find(key);
      different.insert(found != side.end() ? found->second.runs_on : "");
      cells.push_back({found != side.end() ? found->second.runs_on : "-"});
      cells.push_back(found != side.end() ? time_cell(found->second.seconds) : HtmlCell{});
    }
    if (different.size() > 1) table.row(std::move(cells));
  }
  return table;
}

void add_problem(HtmlPage& page, const NumberedProblem& numbered, const ProblemFacts& facts) {
  page.begin_details(fmt::format("#{} {}", numbered.number, short_name(numbered.problem)),
                     fmt::format("p{}", numbered.number));
  page.paragraph(print(numbered.problem), Style::faint);
  if (facts.runner_up)
    page.paragraph(
        fmt::format("Runner-up {}: {}. These are times of the problem by itself; what it took in the runs is "
                    "in the table of nodes.",
                    *facts.runner_up, facts.why_not));
  HtmlTable can, cannot;
  can.column("engine").column("predicted", Align::right).column("notes");
  for (const auto& [engine, predicted] : facts.predicted) {
    const auto notes = facts.notes.find(engine);
    can.row({{engine},
             time_cell(predicted),
             {notes != facts.notes.end() ? fmt::format("{}", fmt::join(notes->second, ", ")) : ""}});
  }
  page.table(can);
  if (!facts.refusals.empty()) {
    cannot.column("engine").column("field").column("why it can't");
    for (const Refusals::Group& group : facts.refusals) {
      cannot.row({{fmt::format("{}", fmt::join(group.engines, ", "))},
                  {std::string(name_of(group.refusal.code))},
                  {group.refusal.reason}});
    }
    page.table(cannot);
  }
  page.end_details();
}

}  // namespace

std::string html_of(const NetworkReport& report) {
  const NetworkPlan& shown = report.shown();
  HtmlPage page(report.network);
  page.figures(figures_of(report));
  page.facts({{"inputs", fmt::format("{}", fmt::join(report.inputs, ", "))},
              {"runs on", fmt::format("{}, {}", report.place, report.isa)},
              {"ceiling", report.ceiling_text},
              {"made", report.date}});
  page.heading("Plans", "plans");
  page.table(plans_table(report));
  page.drawing("times", "Measured runs (bars) and the sum of the plan's lines (marks).");
  page.heading("Network", "network");
  page.drawing("graph", "A box is a step: what it computes, what it runs on, what it takes.");
  page.heading("Memory", "memory");
  page.drawing("live", "What is kept while each step runs, and its workspace on top.");
  page.heading(fmt::format("Nodes of {}", shown.name), "nodes");
  const std::map<std::string, NumberedProblem> numbers = numbered(shown);
  page.table(nodes_table(report, numbers), true);
  if (report.plans.size() > 1) {
    const HtmlTable beside = beside_table(report);
    page.heading("Where the plans differ", "differences");
    if (beside.empty()) {
      page.paragraph("All plans run the same steps, so any difference of their times is noise.");
    } else {
      page.table(beside, true);
    }
  }
  page.heading("Remarks", "remarks");
  for (const NetworkPlan& plan : report.plans) {
    for (const std::string& remark : plan.remarks) {
      const bool named = remark.starts_with(plan.name + ":");
      page.paragraph(named ? remark : fmt::format("{}: {}", plan.name, remark));
    }
  }
  page.paragraph(
      "Runner-ups, notes and refusals are what each engine answers for the problem by itself; times of a line with * "
      "and of runner-ups are the tuning database's where it has them, else predictions, and are compared with each "
      "other "
      "only.");
  page.heading("Who can run it, and who can't", "refusals");
  std::vector<const NumberedProblem*> problems(numbers.size());
  for (const auto& [problem, each] : numbers) problems[static_cast<std::size_t>(each.number) - 1] = &each;
  for (const NumberedProblem* const each : problems) {
    const auto found = report.facts.find(print(each->problem));
    if (found != report.facts.end()) add_problem(page, *each, found->second);
  }
  page.style(page_parts::network_style);
  page.comment(page_parts::notices);
  Json data = to_json(report);
  for (Json& problem : data["problems"]) problem.erase("refusals");  // the page has them already
  page.data("data", data.dump(-1, ' ', false, Json::error_handler_t::replace));
  for (const std::string_view script : {page_parts::d3, page_parts::dagre, page_parts::network_script}) {
    page.script(script);
  }
  return page.text();
}

}  // namespace convoy::report
