#include "report/network_report.h"

namespace convoy::report {
namespace {

Json or_null(const std::optional<double>& value) { return value ? number_or_null(*value) : Json(nullptr); }

Json to_json(const std::optional<TensorDesc>& side) {
  if (!side) return nullptr;
  return {{"type", std::string(name_of(side->type))},
          {"layout", std::string(name_of(side->layout(), side->spatial_dims()))},
          {"dims", side->dims}};
}

Json to_json(const PlannedStep& planned, double total) {
  const NetworkStep& step = planned.step;
  Json json = {{"kind", step.kind},
               {"nodes", step.nodes},
               {"runs_on", step.implementation},
               {"reads", to_json(step.reads)},
               {"writes", to_json(step.writes)},
               {"inputs", step.inputs},
               {"seconds", planned.seconds},
               {"share", total > 0 ? planned.seconds / total : 0},
               {"predicted_seconds", planned.cost ? Json(planned.cost->seconds) : Json(nullptr)},
               {"cost_is", planned.cost ? Json(planned.cost->measured ? "measured" : "predicted") : Json(nullptr)},
               {"workspace_bytes", step.workspace_bytes}};
  if (step.kind == "conv") {
    json["problem"] = print(step.problem);
    json["gflops_per_second"] =
        planned.seconds > 0 ? Json(flops(step.problem) / planned.seconds * 1e-9) : Json(nullptr);
  }
  return json;
}

Json to_json(const ProblemFacts& facts) {
  Json predicted = Json::object(), refusals = Json::array(), notes = Json::object();
  for (const auto& [engine, seconds] : facts.predicted) predicted[engine] = number_or_null(seconds);
  for (const auto& [engine, own] : facts.notes) notes[engine] = own;
  for (const Refusals::Group& group : facts.refusals) {
    refusals.push_back({{"engines", group.engines},
                        {"code", std::string(name_of(group.refusal.code))},
                        {"reason", group.refusal.reason}});
  }
  return {{"ceiling_seconds", or_null(facts.least_seconds)},
          {"runner_up", facts.runner_up ? Json(*facts.runner_up) : Json(nullptr)},
          {"why_not", facts.why_not},
          {"predicted_seconds", std::move(predicted)},
          {"notes", std::move(notes)},
          {"refusals", std::move(refusals)}};
}

}  // namespace

Json to_json(const NetworkPlan& plan) {
  double total = 0;
  for (const PlannedStep& each : plan.steps) total += each.seconds;
  Json steps = Json::array();
  for (const PlannedStep& each : plan.steps) steps.push_back(to_json(each, total));
  return {{"name", plan.name},
          {"precision", std::string(name_of(plan.precision))},
          {"seconds", plan.seconds.median},
          {"relative_uncertainty", plan.seconds.relative_uncertainty()},
          {"turns", plan.seconds.samples},
          {"undisturbed_seconds", plan.undisturbed_seconds},
          {"over_first", plan.ratio.median},
          {"over_first_uncertainty", plan.ratio.relative_uncertainty()},
          {"predicted_seconds", plan.predicted_seconds()},
          {"lines", plan.lines()},
          {"measured_lines", plan.measured_lines()},
          {"conversions", plan.conversions()},
          {"activation_bytes", plan.activation_bytes},
          {"weight_bytes", plan.weight_bytes},
          {"workspace_bytes", plan.workspace_bytes},
          {"live_bytes", plan.live_bytes()},
          {"remarks", plan.remarks},
          {"steps", std::move(steps)}};
}

Json to_json(const NetworkReport& report) {
  Json plans = Json::array(), peers = Json::array(), problems = Json::object();
  for (const NetworkPlan& plan : report.plans) plans.push_back(to_json(plan));
  for (const Peer& peer : report.peers) peers.push_back({{"name", peer.name}, {"seconds", peer.seconds}});
  for (const auto& [problem, facts] : report.facts) problems[problem] = to_json(facts);
  return {{"convoy_report", 1},
          {"network", report.network},
          {"inputs", report.inputs},
          {"place", report.place},
          {"isa", report.isa},
          {"threads", report.threads},
          {"date", report.date},
          {"ceiling",
           {{"f32_flops_per_second", report.ceiling.f32_flops > 0 ? Json(report.ceiling.f32_flops) : Json(nullptr)},
            {"memory_bytes_per_second", report.ceiling.memory_bytes},
            {"date", report.ceiling.date.empty() ? Json(nullptr) : Json(report.ceiling.date)}}},
          {"plans", std::move(plans)},
          {"peers", std::move(peers)},
          {"problems", std::move(problems)}};
}

}  // namespace convoy::report
