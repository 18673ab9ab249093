#include "interposer/recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace convoy::interposer {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const EngineConfig& engine_config) {
  Json json{{"candidate", print(engine_config.candidate)}};
  if (!engine_config.notes.empty()) json["notes"] = engine_config.notes;
  if (!engine_config.hidden_notes.empty()) json["hidden_notes"] = engine_config.hidden_notes;
  return json;
}

Json to_json(const GraphRecord& row) {
  Json json;
  if (!row.problem.empty()) json["problem"] = row.problem;
  json["operations"] = row.operations;
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["device"] = row.device;
  std::int64_t calls = 0;
  for (const PlanRecord& plan : row.plans) calls += plan.calls;
  json["calls"] = calls;
  if (row.benchmark) json["benchmark"] = true;
  const Steered& steered = row.steered;
  if (steered.reordered) json["steered"] = print(*steered.first);
  if (!steered.adds.empty()) json["steered_adds"] = steered.adds;
  for (const auto& [candidate, reason] : steered.not_placed) {
    json["not_placed"].push_back({{"candidate", candidate}, {"reason", reason}});
  }
  for (const PlanRecord& plan : row.plans) {
    Json each = to_json(plan.engine_config);
    each["calls"] = plan.calls.load();
    each["made"] = plan.made.load();
    if (plan.failure.empty()) {
      each["workspace_bytes"] = plan.workspace_bytes;
      if (!plan.substitute.empty()) {
        each["substitute"] = plan.substitute;
        each["substituted"] = plan.substituted.load();
      }
    } else {
      each["failure"] = plan.failure;
      if (!plan.failure_detail.empty()) each["failure_detail"] = plan.failure_detail;
    }
    json["plans"].push_back(std::move(each));
  }
  for (const Query& query : row.queries) {
    Json each{{"mode", query.mode}, {"asked", query.asked}, {"offers", Json::array()}};
    for (const EngineConfig& engine_config : query.engine_configs) each["offers"].push_back(to_json(engine_config));
    json["queries"].push_back(std::move(each));
  }
  return json;
}

}  // namespace

GraphRecord& Recorder::row(std::optional<ConvProblem> parsed, const std::string& operations, const std::string& reason,
                           const std::string& device) {
  const std::string problem = parsed ? print(*parsed) : "";
  const std::lock_guard lock(mutex_);
  auto& row = rows_[device + '\n' + (problem.empty() ? operations + '\n' + reason : problem)];
  if (row == nullptr) {
    row = std::make_unique<GraphRecord>();
    row->problem = problem;
    row->operations = operations;
    row->reason = reason;
    row->device = device;
    row->parsed = std::move(parsed);
  }
  return *row;
}

const Operands* Recorder::operands(GraphRecord& row, const Operands& operands) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find(row.operands.begin(), row.operands.end(), operands);
  return same != row.operands.end() ? &*same : &row.operands.emplace_back(operands);
}

void Recorder::asked(GraphRecord& row, const std::string& mode, std::vector<EngineConfig> engine_configs) {
  const std::lock_guard lock(mutex_);
  auto query = std::find_if(row.queries.begin(), row.queries.end(), [&](const Query& q) { return q.mode == mode; });
  if (query == row.queries.end()) query = row.queries.insert(query, {mode, {}, 0});
  ++query->asked;
  for (EngineConfig& engine_config : engine_configs) {
    if (std::find(query->engine_configs.begin(), query->engine_configs.end(), engine_config) ==
        query->engine_configs.end()) {
      query->engine_configs.push_back(std::move(engine_config));
    }
  }
}

PlanRecord& Recorder::plan(GraphRecord& row, EngineConfig engine_config, std::int64_t workspace_bytes,
                           std::string failure, std::string detail) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(row.plans.begin(), row.plans.end(), [&](const PlanRecord& plan) {
    return plan.engine_config == engine_config && plan.failure == failure;
  });
  PlanRecord& plan = same != row.plans.end() ? *same : row.plans.emplace_back();
  plan.engine_config = std::move(engine_config);
  plan.workspace_bytes = std::max(plan.workspace_bytes, workspace_bytes);
  plan.failure = std::move(failure);
  plan.failure_detail = std::move(detail);
  ++plan.made;
  return plan;
}

void Recorder::substituted(PlanRecord& plan, const Candidate& by) {
  const std::lock_guard lock(mutex_);
  plan.substitute = print(by);
}

void Recorder::not_substituted(GraphRecord& row, const Candidate& by, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  row.steered.not_placed.insert_or_assign(print(by), reason);
}

std::string Recorder::lines() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& [key, row] : rows_)
    text += to_json(*row).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  return text;
}

std::vector<Recorder::RuleUse> Recorder::rule_uses(std::size_t rules) const {
  const std::lock_guard lock(mutex_);
  std::vector<RuleUse> uses(rules);
  for (const auto& [key, row] : rows_) {
    const Steered& steered = row->steered;
    if (!steered.rule) continue;
    RuleUse& use = uses[*steered.rule];
    ++use.matched;
    use.obeyed += steered.obeyed;
    if (!steered.obeyed && use.reason.empty()) use.reason = steered.disobeyed;
  }
  return uses;
}

void Recorder::clear() {
  for (auto& [key, row] : rows_) parents_.push_back(std::move(row));
  rows_.clear();
}

}  // namespace convoy::interposer
