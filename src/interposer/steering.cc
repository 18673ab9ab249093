#include "interposer/steering.h"

#include <fmt/format.h>

#include <algorithm>

#include "interposer/measuring.h"
#include "interposer/order.h"
#include "interposer/process.h"
#include "interposer/real.h"
#include "interposer/say.h"

namespace convoy::interposer {
namespace {

constexpr cudnnStatus_t kRefused = CUDNN_STATUS_NOT_SUPPORTED;

}  // namespace

bool Steering::prepare(cudnnBackendDescriptor_t heuristic) {
  if (!choices_.filters.sm_count) return false;
  const std::int32_t count = *choices_.filters.sm_count;
  return real().BackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &count) ==
         CUDNN_STATUS_SUCCESS;
}

std::optional<cudnnStatus_t> Steering::unprepare(cudnnBackendDescriptor_t heuristic,
                                                 std::optional<std::int32_t> programs) {
  const std::string failed = fmt::format("sm-count {}: cuDNN's heuristics refuse it", *choices_.filters.sm_count);
  if (choices_.strict) {
    if (warn_once(failed)) say(failed);
    return kRefused;
  }
  if (warn_once(failed)) say(failed + "; the program gets what it asked for");
  const std::int32_t count = programs.value_or(0);  // 0: all
  real().BackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &count);
  return std::nullopt;
}

bool Steering::warn_once(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return warned_.insert(key).second;
}

void Steering::keep(cudnnBackendDescriptor_t raw, std::shared_ptr<void> what) {
  const std::lock_guard lock(mutex_);
  kept_.insert_or_assign(raw, std::move(what));
  kept_count_.store(kept_.size() + forbidden_.size(), std::memory_order_relaxed);
}

std::shared_ptr<void> Steering::kept(cudnnBackendDescriptor_t raw) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(raw);
  return found == kept_.end() ? nullptr : found->second;
}

std::shared_ptr<void> Steering::forget(cudnnBackendDescriptor_t raw) {
  if (kept_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<void> last;
  if (const auto found = kept_.find(raw); found != kept_.end()) {
    last = std::move(found->second);
    kept_.erase(found);
  }
  forbidden_.erase(raw);
  kept_count_.store(kept_.size() + forbidden_.size(), std::memory_order_relaxed);
  return last;
}

std::string Steering::forbidden(cudnnBackendDescriptor_t configuration) {
  const std::lock_guard lock(mutex_);
  const auto found = forbidden_.find(configuration);
  return found == forbidden_.end() ? std::string() : found->second;
}

void Steering::failed(GraphRecord& row, const Candidate& candidate, const std::string& reason) {
  const Candidate plain = without_automatic(candidate);
  const std::lock_guard lock(recorder_);
  Steered& steered = row.steered;
  if (steered.first != plain || (!steered.reordered && !steered.obeyed)) return;
  steered.failed.push_back(plain);
  steered.not_placed.emplace(print(plain), reason);
  if (std::exchange(steered.obeyed, false)) steered.disobeyed = reason;
}

void Steering::ran(const GraphRecord& row, const EngineConfig& engine_config) {
  if (!choices_.empty()) {
    accepted(row).fetch_or(losses_of(engine_config.notes) | losses_of(engine_config.hidden_notes),
                           std::memory_order_relaxed);
  }
}

std::optional<std::size_t> Steering::rule_of(const GraphRecord& row) const {
  for (std::size_t i = 0; row.parsed && i < choices_.rules.size(); ++i) {
    if (choices_.rules[i].pattern.matches(*row.parsed, {})) return i;
  }
  return std::nullopt;
}

std::optional<cudnnStatus_t> Steering::substituted(GraphRecord& row, std::size_t rule, const std::string& reason) {
  if (!reason.empty()) warn_of(row, choices_.rules[rule], reason);
  const std::lock_guard lock(recorder_);
  row.steered.rule = rule;
  row.steered.obeyed = reason.empty();
  row.steered.disobeyed = reason;
  if (!reason.empty()) row.steered.not_placed.insert_or_assign(print(choices_.rules[rule].candidate), reason);
  return reason.empty() || !choices_.strict ? std::nullopt : std::optional(kRefused);
}

void Steering::warn_of(const GraphRecord& row, const Rule& rule, const std::string& reason) {
  const std::string_view instead = choices_.strict ? "its queries fail (strict)" : "the choice goes on without it";
  const std::string what = fmt::format("rule '{} -> {}' can't be obeyed", rule.text, print(rule.candidate));
  if (warn_once(what)) say(fmt::format("{}: {}; first for {}; {}", what, reason, row.problem, instead));
}

void Steering::measure(GraphRecord& row) {
  if (row.convolution() == nullptr) return;
  if (!warn_once(fmt::format("measured {} {}", row.device, row.problem))) return;
  const std::string times = measured_times(choices_.tuner, current_device(), row.problem);
  if (const auto learnt = choices_.learn(times); !learnt.ok() && warn_once(learnt.error().message)) {
    say(fmt::format("convoy exec --tune answers {}: {}", row.problem, learnt.error().message));
  }
}

// What is decided for a heuristic is decided once: that how many there are is what a fill then gives.
std::shared_ptr<Decision> Steering::decision_for(const Ask& ask) {
  if (const auto made = kept(ask.heuristic)) return std::static_pointer_cast<Decision>(made);
  const auto raw = [&](cudnnBackendAttributeName_t name) {
    return ask.snapshot.value<cudnnBackendDescriptor_t>(name).value_or(nullptr);
  };
  GraphRecord& row = ask.row;
  if (!choices_.tuner.empty()) measure(row);
  Question question{
      .heuristic = ask.heuristic,
      .problem = row.convolution(),
      .fallback = ask.snapshot.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK,
      .benchmark = ask.benchmark,
      .target = {raw(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), raw(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
                 choices_.filters.sm_count},
      .known = choices_.find(row.device, version_, row.problem),
      .rule = {},
      .failed = {},
      .harmless = row.is_f32() ? 0 : harmless_beside(accepted(row).load(std::memory_order_relaxed))};
  if (const auto rule = rule_of(row); rule && is_offered(choices_.rules[*rule].candidate)) question.rule = rule;
  const bool filtered = choices_.filters.choose() && row.is_convolution();
  if (question.known.empty() && !question.rule && !filtered) return nullptr;
  {
    const std::lock_guard lock(recorder_);
    question.failed = row.steered.failed;
  }
  const bool by_time = !question.rule && !filtered && !question.benchmark && !question.fallback;
  std::optional<Decision> quick;
  if (by_time) quick = decide_by_first(question, choices_, accepted(row).load(std::memory_order_relaxed));
  auto decision = std::make_shared<Decision>(quick ? *std::move(quick) : decide(question, choices_));
  if (decision->as_ever) {
    keep(ask.heuristic, decision);
    return decision;
  }
  note(row, question, *decision);
  keep(ask.heuristic, decision);
  return decision;
}

// Into the record, and what the user must know onto standard error.
void Steering::note(GraphRecord& row, const Question& question, const Decision& decision) {
  const std::string_view instead = choices_.strict ? "its queries fail (strict)" : "the choice goes on without it";
  if (decision.none_permitted) {
    const std::string what =
        fmt::format("the filters ({}) leave nothing of what cuDNN has", fmt::join(choices_.filters.texts, ", "));
    if (warn_once(what)) say(fmt::format("{}: {} {}; {}", what, row.operations, row.problem, instead));
  }
  if (!decision.disobeyed.empty()) warn_of(row, choices_.rules[*question.rule], decision.disobeyed);
  const std::lock_guard lock(recorder_);
  Steered& steered = row.steered;
  steered.rule = question.rule;
  if (!decision.not_placed.empty()) steered.not_placed.emplace(decision.not_placed, decision.not_placed_reason);
  if (!decision.disobeyed.empty()) {
    steered.obeyed = false;
    steered.disobeyed = decision.disobeyed;
    steered.not_placed.emplace(print(choices_.rules[*question.rule].candidate), decision.disobeyed);
  }
  if (decision.obeyed) {
    steered.obeyed = true;
  }
  steered.adds = decision.adds;
  if (question.fallback || decision.entries.empty()) return;
  const Listed& first = decision.entries.front();
  steered.first = without_automatic(first.engine_config.candidate);
  steered.reordered = first.index != 0;
}

std::optional<Answered> Steering::answer(const Ask& ask) {
  const auto decision = decision_for(ask);
  if (decision == nullptr || decision->as_ever) return std::nullopt;
  if (choices_.strict && (decision->none_permitted || !decision->disobeyed.empty())) return Answered{kRefused, 0};
  const bool counts = ask.requested <= 0 || ask.configurations == nullptr;
  if (decision->in_front) return counts ? count_behind(ask) : fill_behind(ask, *decision);
  if (counts) return Answered{CUDNN_STATUS_SUCCESS, static_cast<std::int64_t>(decision->entries.size())};
  recorder_.asked(ask.row, mode_of(ask.snapshot), decision->cudnns);
  return fill(ask, *decision);
}

Answered Steering::count_behind(const Ask& ask) {
  std::int64_t count = 0;
  const cudnnStatus_t status = real().BackendGetAttribute(ask.heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
  return {status, count + 1};
}

Answered Steering::fill_behind(const Ask& ask, const Decision& decision) {
  std::int64_t made = 0;
  const Candidate candidate = decision.entries.front().engine_config.candidate;
  if (auto parts = configure(ask.configurations[0], decision.target, candidate); parts.ok()) {
    keep(ask.configurations[0], *std::move(parts));
    made = 1;
  } else {  // though it could be a moment ago
    const std::lock_guard lock(recorder_);
    ask.row.steered.not_placed.emplace(print(candidate), parts.error().message);
  }
  std::int64_t given = 0;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (ask.requested > made) {
    status = real().BackendGetAttribute(ask.heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        ask.requested - made, &given, ask.configurations + made);
    given = std::min(given, ask.requested - made);
  }
  return {status, made + given, made};
}

Answered Steering::fill(const Ask& ask, Decision& decision) {
  std::vector<Listed>& entries = decision.entries;
  const auto wanted = [&] { return std::min(static_cast<std::size_t>(ask.requested), entries.size()); };
  for (std::size_t place = 0; place < wanted();) {
    if (entries[place].index < 0) {
      const Candidate candidate = entries[place].engine_config.candidate;
      auto parts = configure(ask.configurations[place], decision.target, candidate);
      if (!parts.ok()) {  // though it could be a moment ago
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(place));
        const std::lock_guard lock(recorder_);
        ask.row.steered.not_placed.emplace(print(candidate), parts.error().message);
        continue;
      }
      keep(ask.configurations[place], *std::move(parts));
    }
    ++place;
  }
  // cuDNN fills in its own order: each of the caller's goes where its place in this order is, others in between.
  std::size_t most = 0;
  for (std::size_t place = 0; place < wanted(); ++place) {
    most = std::max(most, static_cast<std::size_t>(entries[place].index + 1));
  }
  std::vector<cudnnBackendDescriptor_t> array(most, nullptr);
  for (std::size_t place = 0; place < wanted(); ++place) {
    if (entries[place].index >= 0) array[entries[place].index] = ask.configurations[place];
  }
  std::vector<cudnn::Descriptor> others;
  for (cudnnBackendDescriptor_t& raw : array) {
    if (raw == nullptr) raw = others.emplace_back(real(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw();
  }
  std::int64_t given = 0;
  if (most > 0) {
    const cudnnStatus_t status =
        real().BackendGetAttribute(ask.heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<std::int64_t>(most), &given, array.data());
    if (status != CUDNN_STATUS_SUCCESS) return {status, 0};
  }
  for (std::size_t place = 0; place < wanted(); ++place) {
    if (entries[place].forbidden.empty()) continue;
    const std::lock_guard lock(mutex_);
    forbidden_.insert_or_assign(ask.configurations[place], entries[place].forbidden);
    kept_count_.store(kept_.size() + forbidden_.size(), std::memory_order_relaxed);
  }
  std::size_t filled = 0;  // all, unless cuDNN gives fewer than a moment ago
  while (filled < wanted() && entries[filled].index < given) ++filled;
  return {CUDNN_STATUS_SUCCESS, static_cast<std::int64_t>(filled)};
}

}  // namespace convoy::interposer
