// convoy explain: which engines can run a problem, why the others can't, what is chosen and why the next best is not.
#include "select/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/ceiling_report.h"
#include "cli/explain_node.h"
#include "cli/inputs.h"
#include "cli/plan_flags.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/refusals.h"
#include "report/table.h"
#include "select/choose/glob.h"
#include "select/choose/notes.h"
#include "select/evidence.h"
#include "select/explain/fusion.h"

namespace convoy::cli {
namespace {

struct ExplainFlags {
  std::string target;
  std::string nodes;
  bool all = false;
  bool fusion = false;
  InputFlags input;  // only --dim
  PlanFlags plan;
};

std::string knob_text(const Configurations& configurations) {
  std::string text;
  for (const Knob& knob : configurations.knobs) {
    std::vector<std::string> values;
    for (const KnobSetting& value : knob.values) values.push_back(print(value));
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", knob.name, fmt::join(values, "|"));
  }
  return text;
}

Json to_json(const selection::EngineVerdict& verdict, const ConvProblem& problem) {
  Json json = report::to_json(verdict.answer);
  if (verdict.answer.refusal) return json;
  json["notes"] = verdict.notes;
  json["stages"] = verdict.stages;
  json["workspace_bytes"] = verdict.workspace_bytes;
  if (verdict.no_plan) json["plan_error"] = verdict.no_plan->message;
  if (verdict.measured) json["measured"] = report::to_json(*verdict.measured, problem);
  if (verdict.excluded) {
    json["excluded"] = {{"code", std::string(name_of(verdict.excluded->code))}, {"reason", verdict.excluded->reason}};
  }
  return json;
}

// A time, and what part of the machine's ceiling it reaches.
struct Time {
  double seconds = 0;
  bool measured = false;
};
Time time_of(const selection::EngineVerdict& verdict) {
  if (verdict.measured && !verdict.measured->failure) return {verdict.measured->median_seconds, true};
  return {verdict.answer.predicted_seconds, false};
}

// A prediction promises no more than the ceiling allows, but where less arithmetic does.
std::string share_reached(const std::optional<double>& least, const selection::EngineVerdict& verdict) {
  const Time time = time_of(verdict);
  const bool less_arithmetic =
      selection::has_note(verdict.notes, note::winograd) || selection::has_note(verdict.notes, note::fft);
  const bool held = least && !time.measured && !less_arithmetic;
  return share_of_ceiling(least, held ? std::max(time.seconds, *least) : time.seconds);
}

// "2.38 ms (1 sample)": so few say little.
std::string measured_text(const Measurement& m) {
  const std::string samples = fmt::format(" ({} sample{})", m.samples, m.samples == 1 ? "" : "s");
  return report::seconds(m.median_seconds) + (m.samples < selection::kEnoughSamples ? samples : "");
}

// The engines that can, and those that can't or may not.
void say_engines(const Program& program, const selection::Explanation& explanation,
                 const std::optional<double>& least) {
  using report::Align;
  report::Table can, cannot;
  can.column("engine").column("predicted", Align::right).column("measured", Align::right);
  can.column(kOfCeiling, Align::right, 1)
      .column("workspace", Align::right, 3)
      .column("loops", Align::right, 4)
      .column("knobs", Align::left, 2);
  can.column("notes", Align::left, 1);
  cannot.column("engine").column("field", Align::left, 1).column("why it can't");
  report::Refusals refusals;
  for (const selection::EngineVerdict& verdict : explanation.engines) {
    const std::string& name = verdict.answer.engine->info().name;
    if (const auto& no = verdict.answer.refusal ? verdict.answer.refusal : verdict.excluded) {
      refusals.add(name, *no);
      continue;
    }
    std::string measured, remark = fmt::format("{}", fmt::join(verdict.notes, ", "));
    if (verdict.measured) {
      const Measurement& m = *verdict.measured;
      measured = m.failure ? "failed" : measured_text(m);
      if (m.failure) remark = m.failure->message;
    }
    if (verdict.no_plan) remark = "no plan: " + verdict.no_plan->message;
    const bool chosen = explanation.chosen && explanation.chosen->candidate.engine == name;
    can.row({name, report::seconds(verdict.answer.predicted_seconds), measured, share_reached(least, verdict),
             report::bytes(static_cast<double>(verdict.workspace_bytes)),
             verdict.stages.empty() ? "?" : fmt::format("{}", verdict.stages.size()),
             knob_text(verdict.answer.configurations), remark},
            chosen ? report::Style::good : report::Style::plain);
  }
  for (const auto& group : refusals.groups()) {
    cannot.row({group.names(), std::string(name_of(group.refusal.code)), group.refusal.reason});
  }
  for (const report::Table* table : {&can, &cannot}) {
    if (table->empty()) continue;
    program.say("");
    program.say(*table, 2);
  }
}

void say_choice(const Program& program, const selection::Explanation& explanation) {
  if (explanation.nothing) {
    const std::string& message = explanation.nothing->message;  // its other lines are the refusals, which the table has
    program.say(fmt::format("\nchosen: none: {}\n", message.substr(0, message.find('\n'))));
    return;
  }
  const Selection& chosen = *explanation.chosen;
  std::string text = fmt::format("\nchosen: {} ({})", print(chosen.candidate), chosen.reason());
  text += "\n  decided by " + explanation.decided_by;
  if (!explanation.stages.empty()) {
    const std::size_t count = explanation.stages.size();
    text += fmt::format("\n  runs in {} loop{}: {}", count, count == 1 ? "" : "s", fmt::join(explanation.stages, "; "));
  }
  if (explanation.runner_up) {
    text += fmt::format("\n  runner-up: {}: {}", print(*explanation.runner_up), explanation.why_not_runner_up);
  }
  if (!explanation.description.empty()) text += "\n  plan: " + explanation.description;
  for (const selection::Advice& advice : explanation.advice) {
    text += fmt::format("\n  3D advice{}, {}: {}: {}", program.on_gpu() ? "" : " for a GPU", advice.check,
                        advice.followed ? "followed" : "not followed", advice.text);
  }
  for (const std::string& passed : explanation.passed_over) text += "\n  passed over: " + passed;
  for (const std::string& warning : chosen.warnings) text += "\n  " + warning;
  program.say(text + "\n");
}

struct Explained {
  DistinctProblem distinct;
  selection::Explanation explanation;
  std::optional<double> least_seconds;  // the machine's ceiling allows
};

Result<Explained> explain_problem(const Program& program, const DistinctProblem& distinct,
                                  const SelectionOptions& options, const PlanRequest& base) {
  CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(distinct.problem, base));
  return Explained{
      distinct, selection::explain(distinct.problem, program.engines(), options, weighted.request, distinct.node), {}};
}

// Compares all of them with the ceiling, which is raised where something that was measured is above it.
selection::MachineCeiling set_ceiling(const Program& program, std::vector<Explained>& all, const PlanRequest& request) {
  std::vector<selection::Reached> measured;
  for (const Explained& explained : all) {
    for (const selection::EngineVerdict& verdict : explained.explanation.engines) {
      if (!verdict.measured) continue;
      auto reached = selection::reached(explained.distinct.problem, *verdict.measured, program.engines(), request);
      if (reached) measured.push_back(*std::move(reached));
    }
  }
  auto ceiling = selection::raised(selection::machine_ceiling(request), measured, request);
  for (Explained& explained : all) {
    explained.least_seconds = selection::least_seconds(explained.distinct.problem, ceiling, request);
  }
  return ceiling;
}

void say_problem(const Program& program, const Explained& explained) {
  const ConvProblem& problem = explained.distinct.problem;
  program.say(fmt::format("{}\n{}{}: {} GFLOP, {} at least{}", print(problem), report::short_name(problem),
                          explained.distinct.count > 1 ? fmt::format(", {} times", explained.distinct.count) : "",
                          report::rate(flops(problem)), report::bytes(bytes_moved(problem)),
                          explained.least_seconds
                              ? fmt::format(": {} at this machine's ceiling", report::seconds(*explained.least_seconds))
                              : std::string()));
  say_engines(program, explained.explanation, explained.least_seconds);
  say_choice(program, explained.explanation);
}

// A line a problem: what was chosen, what it takes, what comes next.
void say_summary(const Program& program, const std::vector<Explained>& all) {
  using report::Align;
  report::Table table;
  table.column("number", Align::right).column("count", Align::right, 3).column("problem").column("runs on");
  table.column("predicted", Align::right, 1).column("measured", Align::right).column(kOfCeiling, Align::right, 1);
  table.column("able", Align::right, 4).column("runner-up", Align::left, 5).column("layers", Align::left, 2);
  for (const Explained& explained : all) {
    const selection::Explanation& explanation = explained.explanation;
    const std::string& names = explained.distinct.names;
    std::string predicted, measured, share;
    int able = 0;
    for (const selection::EngineVerdict& verdict : explanation.engines) {
      if (verdict.answer.refusal || verdict.excluded) continue;
      ++able;
      if (!explanation.chosen || explanation.chosen->candidate.engine != verdict.answer.engine->info().name) continue;
      predicted = report::seconds(verdict.answer.predicted_seconds);
      if (time_of(verdict).measured) measured = measured_text(*verdict.measured);
      share = share_reached(explained.least_seconds, verdict);
    }
    const std::size_t comma = names.find(", ");
    table.row({fmt::format("{}", explained.distinct.number), fmt::format("{}", explained.distinct.count),
               report::short_name(explained.distinct.problem),
               explanation.chosen ? print(explanation.chosen->candidate) : "nothing", predicted, measured, share,
               fmt::format("{}", able), explanation.runner_up ? print(*explanation.runner_up) : "",
               comma == std::string::npos ? names : names.substr(0, comma) + ", ..."},
              explanation.chosen ? report::Style::plain : report::Style::bad);
  }
  program.say(table);
  program.say(
      "\nOne in full, with every engine and why it can't: --node NUMBER, or a layer's name. All in full: --all.");
}

Json to_json(const Explained& explained) {
  const ConvProblem& problem = explained.distinct.problem;
  const selection::Explanation& explanation = explained.explanation;
  Json json = report::to_json(problem);
  json["number"] = explained.distinct.number;
  json["names"] = explained.distinct.names;
  json["count"] = explained.distinct.count;
  json["ceiling_seconds"] = explained.least_seconds ? Json(*explained.least_seconds) : Json();
  json["engines"] = Json::array();
  for (const auto& verdict : explanation.engines) json["engines"].push_back(to_json(verdict, problem));
  if (!explanation.advice.empty()) json["advice"] = Json::array();
  for (const selection::Advice& advice : explanation.advice) {
    json["advice"].push_back({{"check", advice.check}, {"followed", advice.followed}, {"text", advice.text}});
  }
  if (explanation.nothing) {
    json["chosen"] = nullptr;
    json["reason"] = explanation.nothing->message;
    return json;
  }
  json["chosen"] = {{"candidate", print(explanation.chosen->candidate)},
                    {"reason", explanation.chosen->reason()},
                    {"decided_by", explanation.decided_by},
                    {"stages", explanation.stages},
                    {"warnings", explanation.chosen->warnings}};
  if (!explanation.description.empty()) json["chosen"]["plan"] = explanation.description;
  if (explanation.runner_up) {
    json["runner_up"] = {{"candidate", print(*explanation.runner_up)}, {"why", explanation.why_not_runner_up}};
  }
  json["passed_over"] = explanation.passed_over;
  return json;
}

// One that was given; empty: none.
std::string given_flag(const PlanFlags& flags) {
  const PlanFlags usual;
  return flags.how != usual.how               ? "--how"
         : !flags.plan_file.empty()           ? "--plan"
         : flags.precision != usual.precision ? "--precision"
         : !flags.parts.empty()               ? "--batch-parts"
         : flags.memory.limits_activations    ? "--activation-limit"
         : flags.memory.limits_weights        ? "--weight-limit"
         : flags.memory.exact                 ? "--exact"
         : flags.lenient                      ? "--lenient"
         : !flags.skip_passes.empty()         ? "--skip-pass"
                                              : "";
}

// Whether --node means a node of a plan: by its name, or by the number of its convolution's problem.
bool is_meant(const std::string& nodes, const std::vector<DistinctProblem>& problems, const std::string& name) {
  if (selection::glob_list_matches(nodes, name)) return true;
  return std::ranges::any_of(problems, [&](const DistinctProblem& problem) {
    return nodes == fmt::format("{}", problem.number) &&
           fmt::format(", {}, ", problem.names).find(fmt::format(", {}, ", name)) != std::string::npos;
  });
}

// What fusing is worth: the problem's epilogue, or where it has none bias, residual and relu.
Result<Json> explain_fusion(const Program& program, ConvProblem problem, const SelectionOptions& options,
                            const PlanRequest& base) {
  if (problem.epilogue == Epilogue{}) {
    problem.epilogue = {.bias = true, .gamma = 1, .activation = {ActivationKind::relu}};
    program.say("it has no epilogue; measured with bias=1:gamma=1:act=relu");
  }
  CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(problem, base));
  CONVOY_TRY(const auto fusion, selection::measure_fusion(problem, program.engines(), options, weighted.request));
  using report::Align;
  using Variant = selection::FusionVariant;
  const double best = fusion.variants.front().time.median;
  report::Listing<Variant> listing;
  listing.column("epilogue", "name", [](const Variant& v) { return v.name; })
      .column(
          "time", "seconds", [](const Variant& v) { return v.time.median; }, report::as_seconds, Align::right)
      .column(
          "spread", "spread", [](const Variant& v) { return v.time.spread(); }, report::as_percent, Align::right, 2)
      .field("samples", [](const Variant& v) { return v.time.samples; })
      .cell(
          "x best", [best](const Variant& v) { return fmt::format("{:.2f}", v.time.median / best); }, Align::right)
      .column("convolution", "candidate", [](const Variant& v) { return print(v.candidate); })
      .field("stages", [](const Variant& v) { return v.stages; })
      .cell(
          "loops", [](const Variant& v) { return fmt::format("{}: {}", v.stages.size(), fmt::join(v.stages, "; ")); },
          Align::left, 1)
      .field("max_error", [](const Variant& v) { return report::number_or_null(v.max_error); });
  report::Table table = listing.table();
  Json ways = Json::array();
  for (const Variant& variant : fusion.variants) {
    listing.add(table, variant, ways.empty() ? report::Style::good : report::Style::plain);
    ways.push_back(listing.json(variant));
  }
  const selection::FusionVariant& second = fusion.variants[1];
  const double lead = second.time.median / best - 1;
  const double spread = std::max(second.time.spread(), fusion.variants[0].time.spread());
  program.say(print(problem));
  program.say(table, 2);
  program.say(
      fmt::format("  {} wins by {:.0f}% over {}{}\n", fusion.variants[0].name, lead * 100, second.name,
                  lead < spread ? fmt::format(", less than the spread of {:.0f}%: no difference", spread * 100) : ""));
  return Json{{"problem", print(problem)}, {"winner", fusion.variants[0].name}, {"ways", ways}};
}

Result<int> explain(const Program& program, const ExplainFlags& flags) {
  CONVOY_TRY(PlanRequest request, program.plan_request());
  CONVOY_TRY(SelectionOptions options, program.selection());
  const auto database = attach_database(program, options);
  CONVOY_TRY(const Target target, open_target(flags.target, flags.input.dims));
  std::vector<DistinctProblem> problems;
  Json in_network = Json::array();
  if (target.network != nullptr) {
    CONVOY_TRY(const auto descs, input_descriptions(*target.network, flags.input));
    CONVOY_TRY(NetworkOptions network_options, planning_options(program));
    CONVOY_CHECK(apply(program, flags.plan, network_options));
    network_options.selection.store = options.store;
    CONVOY_TRY(const auto session, prepare_with_progress(program, *target.network, descs, network_options));
    problems = distinct_problems(*session);
    network_options.parts = session->parts();
    if (session->parts().a_thread_each) request.threads = 1;
    if (session->parts() != BatchParts{}) program.note("the batch is run in parts: " + print(session->parts()));
    take_caches(*target.network, descs, network_options, options);
    if (problems.empty())
      program.say(flags.target +
                  ": the network has no convolution, so there is nothing to choose; convoy run times it");
    if (!flags.nodes.empty()) {
      const std::string& name = flags.plan.plan_file.empty() ? flags.plan.how : flags.plan.plan_file;
      CONVOY_TRY(in_network,
                 explain_in_network(program, *target.network, descs, network_options, name,
                                    [&](const std::string& node) { return is_meant(flags.nodes, problems, node); }));
    }
  } else if (const std::string flag = given_flag(flags.plan); !flag.empty()) {
    return Error{ErrorCode::invalid_argument, flag + " is for networks"};
  }
  for (const ListedProblem& listed : target.problems) {
    problems.push_back({listed.problem, listed.count, listed.name, problems.size() + 1, listed.name});
  }
  const bool in_full = flags.all || flags.fusion || !flags.nodes.empty() || problems.size() == 1;
  auto meant = with_nodes(problems, flags.nodes);
  if (!meant.ok() && in_network.empty()) return meant.error();
  problems = meant.ok() ? *std::move(meant) : std::vector<DistinctProblem>();  // else operators are meant
  std::vector<Explained> explanations;
  for (const DistinctProblem& problem : problems) {
    CONVOY_TRY(explanations.emplace_back(), explain_problem(program, problem, options, request));
  }
  const selection::MachineCeiling ceiling = set_ceiling(program, explanations, request);
  Json all = Json::array();
  bool any_unsupported = false;
  for (const Explained& explained : explanations) {
    if (in_full) say_problem(program, explained);
    Json json = to_json(explained);
    if (flags.fusion) {
      auto fusion = explain_fusion(program, explained.distinct.problem, options, request);
      if (!fusion.ok() && fusion.error().code != ErrorCode::unsupported) return fusion.error();
      if (!fusion.ok()) program.say("fusion can't be measured: " + fusion.error().message);
      json["fusion"] = fusion.ok() ? *fusion : Json{{"unsupported", fusion.error().message}};
    }
    any_unsupported = any_unsupported || json["chosen"].is_null();
    all.push_back(std::move(json));
  }
  if (!problems.empty()) program.say("ceiling: " + text_of(ceiling));
  if (!in_full && !explanations.empty()) say_summary(program, explanations);
  Json rules = say_rule_uses(program, "--rules", options.rules, convolutions_of(problems));
  program.document({{"target", flags.target},
                    {"threads", request.threads},
                    {"ceiling", cli::to_json(ceiling)},
                    {"rules", std::move(rules)},
                    {"problems", all},
                    {"in_network", std::move(in_network)}});
  return any_unsupported ? kUnsupported : kDone;
}

}  // namespace

void add_explain(Parser app, Program& program) {
  Parser command = add_subcommand(app, "explain", "Say which engines can run a problem, and why the others can't",
                                  "  convoy explain fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1\n"
                                  "  convoy explain zoo:resnet18 --node 3\n"
                                  "  convoy explain model.onnx --node 'pool*' --how global\n"
                                  "  convoy explain zoo:resnet18 --budget 20 --fusion");
  auto flags = std::make_shared<ExplainFlags>();
  command
      .add_option("target", flags->target,
                  "A problem string; or a problem list, an ONNX file or zoo:NAME: a line for each problem")
      .required();
  add_node_flag(command, flags->nodes);
  begin(command, Subject::output);
  command.add_flag("--all", flags->all, "Every problem in full, not a line each");
  begin(command, Subject::timing);
  command.add_flag("--fusion", flags->fusion,
                   "Also measure the epilogue in one plan, as one pass after the convolution, and as separate steps");
  add_dim_flag(command, flags->input);
  begin(command, Subject::choosing);
  add_plan_flags(command, flags->plan);
  add_home_flags(command, program);
  add_shared_flags(command, program, "Measure for so long before choosing (default: predict)");
  add_database_flag(command, program);
  command.callback([flags, &program] { program.action = [flags, &program] { return explain(program, *flags); }; });
}

}  // namespace convoy::cli
