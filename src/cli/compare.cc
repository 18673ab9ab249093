// convoy compare: plans of a network timed side by side; of two, what differs node by node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cli/batch.h"
#include "cli/beside.h"
#include "cli/inputs.h"
#include "cli/target.h"
#include "cli/timed_plans.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/listing.h"

namespace convoy::cli {
namespace {

struct CompareFlags {
  std::string model;
  std::vector<std::string> plans;
  std::string precision = "f32";
  InputFlags input;
  MemoryFlags memory;
  int rounds = 12;
};

// A node, or a conversion of a value, on both sides.
struct Row {
  std::string nodes;
  std::array<std::string, 2> runs_on;  // empty: that side has no such step
  std::array<double, 2> seconds = {};
  double difference() const { return seconds[1] - seconds[0]; }
};

std::vector<Row> rows_of(const report::NetworkPlan& a, const report::NetworkPlan& b) {
  std::vector<Row> rows;
  std::map<std::string, std::size_t> places;
  const report::NetworkPlan* const sides[] = {&a, &b};
  for (int which = 0; which < 2; ++which) {
    for (const report::PlannedStep& each : sides[which]->steps) {
      const NetworkStep& step = each.step;
      const auto [place, is_new] = places.try_emplace(report::key_of(step), rows.size());
      if (is_new) rows.push_back({step.nodes, {}, {}});
      Row& row = rows[place->second];
      const std::string what =
          step.kind == "convert" ? step.implementation : fmt::format("{} {}", step.implementation, step.output_shape);
      row.runs_on[which] += (row.runs_on[which].empty() ? "" : ", ") + what;
      row.seconds[which] += sides[which]->turns * each.seconds;
    }
  }
  return rows;
}

std::string time_text(double seconds) { return seconds > 0 ? report::seconds(seconds) : "-"; }

// Where there are two: what they run differently, said and as JSON.
Json say_differing(const Program& program, const report::NetworkPlan& a, const report::NetworkPlan& b) {
  std::vector<Row> rows = rows_of(a, b);
  std::erase_if(rows, [](const Row& row) { return row.runs_on[0] == row.runs_on[1]; });
  std::ranges::stable_sort(
      rows, [](const Row& a, const Row& b) { return std::abs(a.difference()) > std::abs(b.difference()); });
  using report::Align;
  const auto as_time = [](const Json& seconds) { return time_text(seconds.get<double>()); };
  const auto runs_on = [](int side) {
    return [side](const Row& row) { return row.runs_on[side].empty() ? Json() : Json(row.runs_on[side]); };
  };
  const auto seconds = [](int side) { return [side](const Row& row) { return row.seconds[side]; }; };
  report::Listing<Row> listing;
  listing.column("nodes", "nodes", [](const Row& row) { return row.nodes; })
      .column("A", "a_seconds", seconds(0), +as_time, Align::right)
      .column("B", "b_seconds", seconds(1), +as_time, Align::right)
      .cell(
          "B - A", [](const Row& row) { return fmt::format("{:+.1f} us", row.difference() * 1e6); }, Align::right)
      .column("A runs on", "a", runs_on(0), report::as_text, Align::left, 1)
      .column("B runs on", "b", runs_on(1), report::as_text, Align::left, 1);
  auto [table, nodes] = listing.both(rows);
  double explained = 0;
  for (const Row& row : rows) explained += row.difference();
  if (!table.empty()) {
    program.say("");
    program.say(table);
  }
  program.say(fmt::format("\nA: {}, B: {}; B takes {:.3f} times as long as A, {}", a.name, b.name, b.ratio.median,
                          certainty_of(b.ratio)));
  program.say(rows.empty() ? std::string("both run the same steps, so any difference is noise")
                           : fmt::format("{} or conversion{}; by their steps B takes {:+.1f} us",
                                         rows.size() == 1 ? "1 node" : fmt::format("{} nodes", rows.size()),
                                         rows.size() == 1 ? " differs" : "s differ", explained * 1e6));
  return std::move(nodes);
}

Result<int> compare(const Program& program, const CompareFlags& flags) {
  if (flags.plans.size() < 2) return Error{ErrorCode::invalid_argument, "give two plans to compare, or more"};
  CONVOY_TRY(NetworkOptions options, planning_options(program));
  CONVOY_CHECK(apply_precision(flags.precision, options));
  if (const std::string flag = given_flag(flags.memory, options);
      !flag.empty() && std::ranges::none_of(flags.plans, is_global)) {
    return Error{ErrorCode::invalid_argument, flag + " is for \"global\", which no plan is"};
  }
  NetworkOptions with_store = options;
  const auto database = attach_database(program, with_store.selection);
  for (const std::string& plan : flags.plans) {  // mistakes in what was given, before the network is read
    CONVOY_CHECK(options_of_side(program, plan, with_store, flags.memory));
  }
  CONVOY_TRY(const auto network, open_network(flags.model));
  InputFlags input = flags.input;
  input.random = true;  // what no file is given for
  CONVOY_TRY(const InputReader reader, InputReader::open(*network, input));
  CONVOY_TRY(Sample sample, reader.read(0));
  std::vector<Sample> samples;
  samples.push_back(std::move(sample));
  CONVOY_TRY(const Batch batch, assemble(*network, std::move(samples), reader.batch()));
  const std::vector<TensorDesc> descs = batch.descs();
  std::vector<PlannedSide> sides;
  for (const std::string& plan : flags.plans) {
    CONVOY_TRY(sides.emplace_back(), plan_side(program, *network, descs, plan, with_store, flags.memory));
  }
  CONVOY_TRY(const auto plans, time_plans(*network, descs, sides, batch.tensors, flags.rounds));
  Json told = Json::array();
  for (const report::NetworkPlan& plan : plans) {
    for (const std::string& remark : plan.remarks) program.note(fmt::format("{}: {}", plan.name, remark));
    told.push_back(report::to_json(plan));
  }
  say_plans(program, plans);
  Json differing;
  if (plans.size() == 2) differing = say_differing(program, plans[0], plans[1]);
  program.document({{"model", flags.model},
                    {"threads", sides.front().options.threads},
                    {"plans", std::move(told)},
                    {"differing", std::move(differing)}});
  return kDone;
}

}  // namespace

void add_compare(Parser app, Program& program) {
  Parser command = add_subcommand(app, "compare", "Time plans of a network side by side; of two, say what differs",
                                  "  convoy compare zoo:resnet18 greedy uniform:nchw16c\n"
                                  "  convoy compare zoo:resnet18 greedy global local uniform:nhwc\n"
                                  "  convoy compare model.onnx a.plan b.plan --input kitten.png");
  auto flags = std::make_shared<CompareFlags>();
  command.add_option("model", flags->model, "An ONNX file or zoo:NAME").required();
  command
      .add_option(
          "plans", flags->plans,
          "Two or more: a plan file, or how to make one: greedy, uniform:nhwc ..., of a batch also greedy,whole, "
          "greedy,1/thread")
      .required();
  add_input_flags(command, flags->input);
  begin(command, Subject::choosing);
  add_precision_flag(command, flags->precision);
  add_memory_flags(command, flags->memory);
  begin(command, Subject::timing);
  command.add_option("--rounds", flags->rounds, "Runs of each plan, interleaved")
      .type_name("N")
      .range(1, 100000)
      .capture_default_str();
  add_home_flags(command, program);
  add_shared_flags(command, program, "Measure the engines for so long first and choose the fastest (default: don't)");
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return compare(program, *flags); }; });
}

}  // namespace convoy::cli
