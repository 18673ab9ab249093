// convoy explain: which engines can run a problem, and why the others can't. Nothing is measured.
#include <fmt/format.h>

#include <algorithm>

#include "cli/inputs.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

struct ExplainFlags {
  std::string target;
  InputFlags input;  // only --dim
};

std::string knob_text(const std::vector<Knob>& knobs) {
  std::string text;
  for (const Knob& knob : knobs) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", knob.name, fmt::join(knob.values, "|"));
  }
  return text;
}

Result<Json> explain_problem(const Program& program, const DistinctProblem& distinct, const SelectionOptions& options,
                             const PlanRequest& base) {
  const ConvProblem& problem = distinct.problem;
  CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(problem, base));
  const PlanRequest& request = weighted.request;
  const auto ranked = rank_by_heuristic(problem, all_engines(), options.filter, request);
  Json json = report::to_json(problem);
  json["count"] = distinct.count;
  json["engines"] = Json::array();
  report::Table can, cannot;
  can.column("engine").column("predicted", report::Align::right).column("workspace", report::Align::right);
  can.column("knobs").column("notes");
  cannot.column("engine").column("field").column("why it can't");
  for (const EngineAnswer& answer : list_candidates(problem, all_engines(), request)) {
    Json entry = report::to_json(answer);
    const std::string& name = answer.engine->info().name;
    if (answer.refusal) {
      cannot.row({name, std::string(name_of(answer.refusal->code)), answer.refusal->reason});
    } else {
      auto plan = make_plan(problem, answer.default_candidate, all_engines(), request);
      std::string workspace;
      std::vector<std::string> notes = answer.engine->info().notes;
      if (plan.ok()) {
        workspace = report::bytes(static_cast<double>((*plan)->workspace_bytes()));
        entry["workspace_bytes"] = (*plan)->workspace_bytes();
        for (const std::string& note : (*plan)->notes()) {
          if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
        }
        entry["notes"] = notes;
      } else {
        workspace = "-";
        entry["plan_error"] = plan.error().message;
        notes.push_back("no plan: " + plan.error().message);
      }
      const bool first = !ranked.empty() && ranked.front() == answer.default_candidate;
      can.row({name, report::seconds(answer.predicted_seconds), workspace, knob_text(answer.knobs),
               fmt::format("{}", fmt::join(notes, " "))},
              first ? report::Style::good : report::Style::plain);
    }
    json["engines"].push_back(std::move(entry));
  }
  auto chosen = select(problem, all_engines(), options, request, distinct.names);
  std::string verdict;
  if (chosen.ok()) {
    json["chosen"] = {{"candidate", print(chosen->candidate)}, {"reason", chosen->reason}};
    verdict = fmt::format("chosen: {} ({})", print(chosen->candidate), chosen->reason);
    for (const std::string& warning : chosen->warnings) verdict += "\n  " + warning;
  } else {
    json["chosen"] = nullptr;
    json["reason"] = chosen.error().message;
    verdict = "chosen: none: " + chosen.error().message;
  }
  program.say(fmt::format("{}\n{}{}: {} GFLOP, {} at least", print(problem), report::short_name(problem),
                          distinct.count > 1 ? fmt::format(", {} times", distinct.count) : "",
                          report::rate(flops(problem)), report::bytes(bytes_moved(problem))));
  if (!can.empty()) program.say("\n" + can.render(program.colour(), 2));
  if (!cannot.empty()) program.say("\n" + cannot.render(program.colour(), 2));
  program.say(fmt::format("\n{}\n", verdict));
  return json;
}

Result<int> explain(const Program& program, const ExplainFlags& flags) {
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(const SelectionOptions options, program.selection());
  CONVOY_TRY(const Target target, open_target(flags.target));
  std::vector<DistinctProblem> problems;
  if (target.network != nullptr) {
    CONVOY_TRY(const auto descs, input_descriptions(*target.network, flags.input));
    CONVOY_TRY(const NetworkOptions network_options, program.network_options());
    CONVOY_TRY(const auto session, prepare_with_progress(program, *target.network, descs, network_options));
    problems = distinct_problems(*session);
  }
  for (const ListedProblem& listed : target.problems) problems.push_back({listed.problem, listed.count, listed.name});
  Json all = Json::array();
  bool any_unsupported = false;
  for (const DistinctProblem& problem : problems) {
    CONVOY_TRY(Json json, explain_problem(program, problem, options, request));
    any_unsupported = any_unsupported || json["chosen"].is_null();
    all.push_back(std::move(json));
  }
  program.document({{"target", flags.target}, {"threads", request.threads}, {"problems", all}});
  return any_unsupported ? kUnsupported : kDone;
}

}  // namespace

void add_explain(CLI::App& app, Program& program) {
  CLI::App& command = add_subcommand(app, "explain", "Say which engines can run a problem, and why the others can't",
                                     "  convoy explain fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  auto flags = std::make_shared<ExplainFlags>();
  command.add_option("target", flags->target, "A problem string; also a problem list, an ONNX file or zoo:NAME")
      ->required();
  add_dim_flag(command, flags->input);
  add_shared_flags(command, program, "Measure for so long before choosing (default: predict)");
  command.callback([flags, &program] { program.action = [flags, &program] { return explain(program, *flags); }; });
}

}  // namespace convoy::cli
