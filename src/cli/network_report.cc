#include "cli/network_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "cli/batch.h"
#include "cli/ceiling_report.h"
#include "cli/target.h"
#include "cli/timed_plans.h"
#include "cli/tuning.h"
#include "core/text.h"
#include "io/file.h"
#include "report/format.h"
#include "select/explain/explain.h"

namespace convoy::cli {
namespace {

// The first is the one that is shown node by node.
constexpr const char* kPlans[] = {"global", "greedy", "local", "uniform:nhwc"};

std::string text_of_file(const std::string& path) {
  const auto bytes = io::read_file(path);
  return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : std::string();
}

Result<NetworkPlanHeader> header_of_file(const std::string& path) {
  auto plan = parse_plan(text_of_file(path));
  if (!plan.ok()) return plan.error().within(path);
  return std::move(plan->header);
}

bool is_plan(const std::string& path) { return text_of_file(path).starts_with("convoy-plan"); }

bool is_model(const std::string& subject) { return subject.starts_with("zoo:") || subject.ends_with(".onnx"); }

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

struct Subjects {
  std::string model;
  std::vector<std::string> plans;
};

Result<Subjects> subjects_of(const NetworkReportFlags& flags) {
  Subjects subjects{.model = {}, .plans = flags.subjects};
  const std::string first = flags.subjects.front();
  if (is_model(first)) {
    subjects.model = first;
    subjects.plans.erase(subjects.plans.begin());
  } else {
    CONVOY_TRY(const NetworkPlanHeader header, header_of_file(first));
    subjects.model = header.network;
    if (!is_model(subjects.model)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} is for network '{}', which is neither zoo:NAME nor an .onnx file: name the model "
                               "first, convoy report MODEL {}",
                               first, subjects.model, first)};
    }
  }
  if (subjects.plans.empty()) subjects.plans.assign(std::begin(kPlans), std::end(kPlans));
  for (auto each = subjects.plans.begin(); each != subjects.plans.end(); ++each) {
    if (std::find(subjects.plans.begin(), each, *each) != each) {
      return Error{ErrorCode::invalid_argument, fmt::format("'{}' is given twice", *each)};
    }
  }
  return subjects;
}

Result<report::Peer> parse_peer(const std::string& text) {
  CONVOY_TRY(const auto parts, split_assignment("--peer", text));
  const std::pair<std::string_view, double> units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  for (const auto& [unit, seconds] : units) {
    if (!parts.second.ends_with(unit)) continue;
    const auto value = parse_double(std::string_view(parts.second).substr(0, parts.second.size() - unit.size()));
    if (value.ok() && *value > 0) return report::Peer{parts.first, *value * seconds};
    break;
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("--peer {}: '{}' is no time (12.3ms, 870us, 1.2s)", text, parts.second)};
}

Result<report::ProblemFacts> facts_of(const Program& program, const NetworkStep& step, const SelectionOptions& options,
                                      const PlanRequest& request, const selection::MachineCeiling& ceiling) {
  CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(step.problem, request));
  const auto explanation = selection::explain(step.problem, program.engines(), options, weighted.request, step.nodes);
  report::ProblemFacts facts;
  facts.least_seconds = selection::least_seconds(step.problem, ceiling, request);
  report::Refusals refusals;
  for (const selection::EngineVerdict& verdict : explanation.engines) {
    const std::string& name = verdict.answer.engine->info().name;
    if (const auto& no = verdict.answer.refusal ? verdict.answer.refusal : verdict.excluded) {
      refusals.add(name, *no);
      continue;
    }
    facts.predicted.emplace_back(name, verdict.answer.predicted_seconds);
    if (!verdict.notes.empty()) facts.notes[name] = verdict.notes;
  }
  std::ranges::sort(facts.predicted, {}, &std::pair<std::string, double>::second);
  facts.refusals = refusals.groups();
  // A plan may run something else than what would be chosen for the problem alone: then that is who comes next.
  const Candidate& runs = step.selection.candidate;
  if (explanation.chosen && !(explanation.chosen->candidate.engine == runs.engine)) {
    facts.runner_up = print(explanation.chosen->candidate);
    facts.why_not =
        fmt::format("chosen for the problem alone ({}); the plan says otherwise", explanation.chosen->reason());
  } else if (explanation.runner_up) {
    facts.runner_up = print(*explanation.runner_up);
    facts.why_not = explanation.why_not_runner_up;
  }
  return facts;
}

selection::MachineCeiling raised_by(const Program& program, std::span<const report::NetworkPlan> plans,
                                    const selection::MachineCeiling& ceiling, const PlanRequest& request) {
  std::vector<selection::Reached> all;
  for (const report::NetworkPlan& plan : plans) {
    for (const report::PlannedStep& each : plan.steps) {
      const NetworkStep& step = each.step;
      if (step.kind != "conv" || step.threads != request.threads) continue;
      const Measurement in_runs{
          .candidate = step.selection.candidate, .median_seconds = each.seconds, .samples = plan.seconds.samples};
      auto reached = selection::reached(step.problem, in_runs, program.engines(), request);
      if (reached) all.push_back(*std::move(reached));
    }
  }
  return selection::raised(ceiling, all, request);
}

}  // namespace

bool is_network_subject(const std::string& subject) { return is_model(subject) || is_plan(subject); }

Result<report::NetworkReport> report_on_network(const Program& program, const NetworkReportFlags& flags) {
  CONVOY_TRY(const Subjects subjects, subjects_of(flags));
  report::NetworkReport report;
  for (const std::string& peer : flags.peers) {
    CONVOY_TRY(report.peers.emplace_back(), parse_peer(peer));
  }
  CONVOY_TRY(NetworkOptions options, program.network_options());
  if (program.shared.threads == 0) {  // those of the first plan file, so that the others are made for as many
    const auto file = std::ranges::find_if(subjects.plans, is_plan);
    if (file != subjects.plans.end()) {
      CONVOY_TRY(const NetworkPlanHeader header, header_of_file(*file));
      options.threads = header.threads;
    }
  }
  const auto database = attach_database(program, options.selection);
  CONVOY_TRY(const auto network, open_network(subjects.model));
  InputFlags input = flags.input;
  input.random = true;
  CONVOY_TRY(const InputReader reader, InputReader::open(*network, input));
  std::vector<Sample> samples(1);
  CONVOY_TRY(samples[0], reader.read(0));
  CONVOY_TRY(const Batch batch, assemble(*network, std::move(samples), reader.batch()));
  const std::vector<TensorDesc> descs = batch.descs();

  std::vector<PlannedSide> planned;
  for (const std::string& side : subjects.plans) {
    CONVOY_TRY(planned.emplace_back(), plan_side(program, *network, descs, side, options));
    if (planned.back().options.threads != planned.front().options.threads) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} is for {} threads, {} for {}: --threads N, and plans made with it", side,
                               planned.back().options.threads, planned.front().name, planned.front().options.threads)};
    }
  }
  CONVOY_TRY(report.plans, time_plans(*network, descs, planned, batch.tensors, flags.rounds));

  PlanRequest request;
  CONVOY_TRY(request, program.plan_request());
  request.threads = planned.front().options.threads;
  report.network = subjects.model;
  report.place = place_of(request);
  report.isa = convoy::name_of(planned.front().options.cpu.isa);
  report.date = today();
  report.threads = request.threads;
  for (std::size_t i = 0; i < descs.size(); ++i) {
    report.inputs.push_back(
        fmt::format("{} {} {}", network->inputs()[i].name, convoy::name_of(descs[i].type), to_string(descs[i].dims)));
  }
  report.ceiling = raised_by(program, report.plans, selection::machine_ceiling(request), request);
  report.ceiling_text = text_of(report.ceiling);
  take_caches(*network, descs, options, options.selection);
  options.selection.mode = SelectionMode::heuristic;
  for (const report::PlannedStep& each : report.shown().steps) {
    if (each.step.kind != "conv") continue;
    const std::string problem = print(each.step.problem);
    if (report.facts.contains(problem)) continue;
    CONVOY_TRY(report.facts[problem], facts_of(program, each.step, options.selection, request, report.ceiling));
  }
  return report;
}

}  // namespace convoy::cli
