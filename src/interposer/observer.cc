#include "interposer/observer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "base/environment.h"
#include "interposer/benchmark.h"
#include "interposer/choices.h"
#include "interposer/configurations.h"
#include "interposer/failures.h"
#include "interposer/graph_problem.h"
#include "interposer/owners.h"
#include "interposer/process.h"
#include "interposer/real.h"
#include "interposer/recorder.h"
#include "interposer/say.h"
#include "interposer/seen.h"
#include "interposer/snapshot.h"
#include "interposer/steering.h"
#include "interposer/substitution.h"
#include "interposer/variant_pack.h"
#include "interposer/words.h"

namespace convoy::interposer {
namespace {

constexpr double kWriteEvery = 60;  // seconds

using Clock = std::chrono::steady_clock;

// How often the record is renewed: CONVOY_RECORD_EVERY, where that is a number of seconds.
Clock::duration period() {
  double seconds = kWriteEvery;
  if (const auto text = environment(Variable::record_every)) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
    const bool read = error == std::errc() && end == text->data() + text->size() && seconds >= 0 && seconds < 1e9;
    if (!read) seconds = kWriteEvery;
  }
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Observer {
 public:
  Observer(std::optional<std::string> file, Choices choices)
      : steering(std::move(choices), recorder),
        substitution(steering.choices(), recorder),
        file_(std::move(file)),
        started_(Clock::now()),
        written_(started_) {}

  // What the program is to be told instead of `status`, if anything.
  std::optional<cudnnStatus_t> finalized(cudnnBackendDescriptor_t raw, cudnnStatus_t status) {
    const auto snapshot = descriptors.find(raw);
    if (snapshot == nullptr) return std::nullopt;
    // In front of everything else that asks cuDNN: its words are of its last call.
    cudnn::Failure failure;
    if (status != CUDNN_STATUS_SUCCESS) failure = failure_of(status);
    if (status != CUDNN_STATUS_SUCCESS && file_) failed(*snapshot, status);
    switch (snapshot->type()) {
      case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        if (status == CUDNN_STATUS_SUCCESS) owners.put(raw, owned_by(*snapshot));
        return std::nullopt;
      case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), status);
        return std::nullopt;
      case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), status);
        return std::nullopt;
      case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINECFG_ENGINE), status);
        return std::nullopt;
      case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return plan_finalized(raw, *snapshot, failure);
      default:
        return std::nullopt;
    }
  }

  // Asked for a heuristic's results: the answer, unless there is nothing to say.
  std::optional<Answered> answer(cudnnBackendDescriptor_t heuristic, std::int64_t requested,
                                 cudnnBackendDescriptor_t* configurations) {
    if (steering.choices().empty()) return std::nullopt;
    const auto snapshot = descriptors.find(heuristic);
    const Owned owner = owners.get(heuristic);
    if (snapshot == nullptr || owner.row == nullptr) return std::nullopt;
    return steering.answer({heuristic, *snapshot, *owner.row, requested, configurations, benchmark.on()});
  }

  // The program's configurations that were filled; from `cudnns` on (nothing: nowhere) they are in cuDNN's own order.
  void filled(cudnnBackendDescriptor_t heuristic, std::span<cudnnBackendDescriptor_t> results,
              std::optional<std::int64_t> cudnns) {
    const auto snapshot = descriptors.find(heuristic);
    const Owned owner = owners.get(heuristic);
    if (snapshot == nullptr || owner.row == nullptr) return;
    for (cudnnBackendDescriptor_t result : results) owners.put(result, {owner.row, nullptr, owner.operands});
    benchmark.asked(*owner.row,
                    snapshot->value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK);
    if (!cudnns || !file_) return;
    std::vector<EngineConfig> engine_configs;
    for (cudnnBackendDescriptor_t result : results.subspan(static_cast<std::size_t>(*cudnns))) {
      engine_configs.push_back(engine_config_of(result, owner.row->convolution()));
    }
    recorder.asked(*owner.row, mode_of(*snapshot), std::move(engine_configs));
  }

  // Before a descriptor is finalized: whether something was added to it, which may be why that then fails.
  bool prepare(cudnnBackendDescriptor_t raw) {
    if (!steering.choices().filters.sm_count) return false;
    const auto snapshot = descriptors.find(raw);
    if (snapshot == nullptr || snapshot->type() != CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) return false;
    const auto graph = snapshot->value<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const Owned owner = graph ? owners.get(*graph) : Owned();
    return owner.row != nullptr && owner.row->is_convolution() && steering.prepare(raw);
  }

  std::optional<cudnnStatus_t> unprepare(cudnnBackendDescriptor_t raw) {
    const auto snapshot = descriptors.find(raw);
    return steering.unprepare(
        raw, snapshot ? snapshot->value<std::int32_t>(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET) : std::nullopt);
  }

  // A plan that is not to be made: of a configuration that the filters take away, where the program times all plans
  // and has one that they permit.
  bool refuses(cudnnBackendDescriptor_t raw) {
    if (!steering.choices().filters.choose()) return false;
    const auto snapshot = descriptors.find(raw);
    if (snapshot == nullptr || snapshot->type() != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return false;
    const auto config = snapshot->value<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const Owned owner = config ? owners.get(*config) : Owned();
    if (owner.row == nullptr || !benchmark.times(*owner.row)) return false;
    const std::string filter = steering.forbidden(*config);
    if (filter.empty()) return false;
    recorder.plan(*owner.row, engine_config_of(*config, owner.row->convolution()), 0, "CUDNN_STATUS_NOT_SUPPORTED",
                  "convoy exec: the filter takes it away: " + filter);
    return true;
  }

  std::shared_ptr<void> destroying(cudnnBackendDescriptor_t raw) {
    if (!descriptors.destroyed(raw)) pack_destroyed(raw);
    owners.forget(raw);
    return steering.forget(raw);
  }

  void executed(cudnnBackendDescriptor_t raw, const Owned& owned) {
    if (!file_) fast_path.plans.put(raw, owned.stand_in);  // calls are counted for the record alone
    if (owned.plan == nullptr) return;
    benchmark.ran(*owned.row);
    if (owned.plan->calls.fetch_add(1, std::memory_order_relaxed) == 0)
      steering.ran(*owned.row, owned.plan->engine_config);
    write_now_and_then();
  }

  void called(const LegacyCall& call) {
    if (!file_) return;
    legacy.called(call);
    write_now_and_then();
  }

  // All of it to the file, in place of what was there.
  void write() {
    if (!file_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    nlohmann::ordered_json header{{"convoy_record", 1},      {"pid", getpid()},           {"program", program()},
                                  {"cudnn", real().version}, {"cudnn_file", real_file()}, {"seconds", seconds}};
    const Choices& choices = steering.choices();
    if (!choices.filters.texts.empty()) header["filters"] = choices.filters.texts;
    const auto uses = recorder.rule_uses(choices.rules.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      nlohmann::ordered_json rule{{"pattern", choices.rules[i].text},
                                  {"candidate", print(choices.rules[i].candidate)},
                                  {"matched", uses[i].matched},
                                  {"obeyed", uses[i].obeyed}};
      if (!uses[i].reason.empty()) rule["reason"] = uses[i].reason;
      header["rules"].push_back(std::move(rule));
    }
    if (benchmark.ever()) header["benchmark"] = true;
    if (failures.left_out() > 0) header["failures_left_out"] = failures.left_out();
    const std::string lines = recorder.lines() + failures.lines();
    if (lines.empty()) return;  // this process called no cuDNN
    const std::string name = fmt::format("{}.{}", *file_, getpid());
    const std::string part = name + ".part";
    std::FILE* file = std::fopen(part.c_str(), "wb");
    if (file == nullptr) return say(fmt::format("{} can't be written; nothing is recorded", part));
    const std::string text =
        header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n' + lines;
    const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !whole || std::rename(part.c_str(), name.c_str()) != 0) {
      std::remove(part.c_str());
      say(fmt::format("{} can't be written", name));
    }
  }

  void lock() {
    writing_.lock();
    legacy.lock();
    recorder.lock();
    failures.lock();
    descriptors.lock();
    owners.lock();
    steering.lock();
    substitution.lock();
    fast_path.plans.lock();
    lock_loading();
  }
  void unlock() {
    unlock_loading();
    fast_path.plans.unlock();
    substitution.unlock();
    steering.unlock();
    owners.unlock();
    descriptors.unlock();
    failures.unlock();
    recorder.unlock();
    legacy.unlock();
    writing_.unlock();
  }

  Descriptors descriptors;
  Owners owners;
  Recorder recorder;
  Failures failures;
  LegacyCalls legacy{recorder};
  Steering steering;
  Substitution substitution;
  Benchmark benchmark;

 private:
  Owned owned_by(const Snapshot& graph) {
    auto read = graph_problem_of(graph);
    const std::string reason = read ? "" : read.error().message;
    GraphRecord& row = recorder.row(read ? std::optional(std::move(read->problem)) : std::nullopt, operations_of(graph),
                                    reason, device_name());
    return {&row, nullptr, read ? recorder.operands(row, read->operands) : nullptr};
  }

  void inherit(cudnnBackendDescriptor_t raw, const std::vector<cudnnBackendDescriptor_t>& from, cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS || from.size() != 1) return;
    if (const Owned owner = owners.get(from.front()); owner.row != nullptr) {
      owners.put(raw, {owner.row, nullptr, owner.operands});
    }
  }

  std::optional<cudnnStatus_t> plan_finalized(cudnnBackendDescriptor_t raw, const Snapshot& snapshot,
                                              const cudnn::Failure& failure) {
    const auto config = snapshot.value<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!config) return std::nullopt;  // from JSON
    const Owned owner = owners.get(*config);
    if (owner.row == nullptr) return std::nullopt;
    EngineConfig engine_config = engine_config_of(*config, owner.row->convolution());
    const bool made = failure.status == CUDNN_STATUS_SUCCESS;
    if (benchmark.planned(*owner.row, made, steering.forbidden(*config).empty())) owner.row->benchmark = true;
    if (!made) {
      steering.failed(*owner.row, engine_config.candidate, "its plan could not be built: " + failure.text);
      recorder.plan(*owner.row, std::move(engine_config), 0, real().GetErrorString(failure.status), failure.text);
      return std::nullopt;
    }
    const std::int64_t workspace = cudnn::Descriptor::borrowed(real(), raw)
                                       .get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64)
                                       .value_or(0);
    Owned owned{owner.row, &recorder.plan(*owner.row, std::move(engine_config), workspace, "", ""), owner.operands};
    const auto instead = substitute(owned);
    owners.put(raw, owned);
    return instead;
  }

  // Finds what stands in for a plan that was just made. What the program is to be told instead, if anything.
  std::optional<cudnnStatus_t> substitute(Owned& owned) {
    if (owned.operands == nullptr || steering.choices().empty()) return std::nullopt;
    GraphRecord& row = *owned.row;
    const Replaceable plan{row, *owned.plan, *owned.operands, benchmark.times(row)};
    if (const auto rule = steering.rule_of(row)) {
      const Candidate& named = steering.choices().rules[*rule].candidate;
      if (is_offered(named)) return std::nullopt;  // it is in the list that the program got
      const auto obeyed = substitution.obey(plan, named);
      if (obeyed) owned.stand_in = *obeyed;
      return steering.substituted(row, *rule, obeyed ? "" : obeyed.error().message);
    }
    auto known = steering.choices().substitutes(row.device, steering.version(), row.problem);
    if (known.empty()) return std::nullopt;
    const auto cudnns = steering.choices().find(row.device, steering.version(), row.problem);
    owned.stand_in = substitution.choose(plan, cudnns, std::move(known));
    return std::nullopt;
  }

  // For the diagnosis. Precondition: failure_of() was called.
  void failed(const Snapshot& snapshot, cudnnStatus_t status) {
    std::string problem, candidate;
    for (const auto name : {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                            CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG}) {
      const auto of = snapshot.value<cudnnBackendDescriptor_t>(name);
      const Owned owner = of ? owners.get(*of) : Owned();
      if (owner.row == nullptr) continue;
      problem = owner.row->problem;
      if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) candidate = print(engine_config_of(*of, nullptr).candidate);
    }
    failures.add(snapshot, real().GetErrorString(status), all_words(), problem, candidate);
  }

  // The clock is looked at every so many calls of all kinds: a training step may run each of hundreds of plans once.
  void write_now_and_then() {
    thread_local unsigned calls = 0;
    if (++calls % 256 != 0) return;
    const std::unique_lock lock(writing_, std::try_to_lock);
    if (!lock || Clock::now() - written_ < period_) return;
    written_ = Clock::now();
    write();
  }

  const std::optional<std::string> file_;  // of the record
  const Clock::duration period_ = period();
  const Clock::time_point started_;
  std::mutex writing_;
  Clock::time_point written_;
};

Choices read_choices() {
  const auto path = environment(Variable::choices);
  if (!path) return {};
  std::string text;
  if (std::FILE* file = std::fopen(path->c_str(), "rb")) {
    char part[4096];
    for (std::size_t size; (size = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, size);
    std::fclose(file);
  }
  auto choices = Choices::parse(text);
  if (choices.ok()) {
    constexpr std::size_t most = 5;  // of times there may be thousands
    const std::vector<std::string>& remarks = choices->remarks;
    for (std::size_t i = 0; i < std::min(remarks.size(), most); ++i) say(fmt::format("{}, {}", *path, remarks[i]));
    if (remarks.size() > most) say(fmt::format("{}: and {} more lines so", *path, remarks.size() - most));
    return *std::move(choices);
  }
  say(fmt::format("{}: {}; nothing is chosen by it", *path, choices.error().message));
  return {};
}

std::atomic<bool> was_called{false};

Observer* make_observer() {
  if (environment(Variable::exec) == "off") return nullptr;
  was_called = true;
  leave_called(real().version);
  const auto file = environment(Variable::record);
  Choices choices = read_choices();
  choices.tuner = environment(Variable::tuner).value_or("");
  if (!file && choices.empty()) return nullptr;
  if (real().version / 10000 != cuda::kCudnnMajor) {
    if (real().version != 0) {
      say(fmt::format("the program's cuDNN has version {}, which is not understood: its calls pass through",
                      real().version));
    }
    return nullptr;
  }
  return new Observer(file, std::move(choices));  // never destroyed
}

std::atomic<bool> gave_up{false};

Observer* observer() {
  static Observer* const made = [] {
    Observer* const observer = make_observer();
    if (observer == nullptr) return observer;
    // A child has its own record, of what it does itself.
    pthread_atfork([] { interposer::observer()->lock(); }, [] { interposer::observer()->unlock(); },
                   [] {
                     interposer::observer()->recorder.clear();
                     interposer::observer()->failures.clear();
                     interposer::observer()->legacy.clear();
                     interposer::observer()->unlock();
                   });
    return observer;
  }();
  return made;
}

// Whatever goes wrong in here, the program goes on as if nobody watched.
template <class Body>
void watch(Body body) noexcept {
  try {
    body(*observer());
  } catch (const std::exception& error) {
    if (!gave_up.exchange(true)) say(fmt::format("nothing more is recorded: {}", error.what()));
  } catch (...) {
    gave_up = true;
  }
}

__attribute__((destructor)) void at_the_end() {
  leave_loaded();
  leave_torch();
  if (was_called && observing()) {  // else cuDNN would be looked for now
    watch([](Observer& observer) { observer.write(); });
  }
}

}  // namespace

bool observing() { return observer() != nullptr && !gave_up.load(std::memory_order_relaxed); }

void created(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type) {
  watch([&](Observer& observer) { observer.descriptors.created(raw, type); });
}

void set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         std::int64_t count, const void* values) {
  watch([&](Observer& observer) { observer.descriptors.set(raw, name, type, count, values); });
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t raw) {
  bool refused = false, prepared = false;
  watch([&](Observer& observer) {
    refused = observer.refuses(raw);
    prepared = observer.prepare(raw);
  });
  if (refused) return CUDNN_STATUS_NOT_SUPPORTED;
  cudnnStatus_t status = real().BackendFinalize(raw);
  if (prepared && status != CUDNN_STATUS_SUCCESS) {
    std::optional<cudnnStatus_t> instead;
    watch([&](Observer& observer) { instead = observer.unprepare(raw); });
    status = instead ? *instead : real().BackendFinalize(raw);
  }
  std::optional<cudnnStatus_t> instead;
  watch([&](Observer& observer) { instead = observer.finalized(raw, status); });
  return instead.value_or(status);
}

cudnnStatus_t offer(cudnnBackendDescriptor_t heuristic, std::int64_t requested, std::int64_t* count,
                    cudnnBackendDescriptor_t* configurations) {
  std::optional<Answered> answered;
  watch([&](Observer& observer) { answered = observer.answer(heuristic, requested, configurations); });
  const std::optional<std::int64_t> cudnns = answered ? answered->cudnns : std::optional<std::int64_t>(0);
  if (answered) {
    if (answered->status != CUDNN_STATUS_SUCCESS) return answered->status;
    *count = answered->count;
  } else {
    const cudnnStatus_t status = real().BackendGetAttribute(
        heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, requested, count, configurations);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  if (requested <= 0 || configurations == nullptr) return CUDNN_STATUS_SUCCESS;
  const auto given = static_cast<std::size_t>(std::clamp<std::int64_t>(*count, 0, requested));
  watch([&](Observer& observer) { observer.filled(heuristic, {configurations, given}, cudnns); });
  return CUDNN_STATUS_SUCCESS;
}

void begin_fast_path() {
  static const bool begun = [] {
    const cuda::CudnnApi& cudnn = real();
    if (cudnn.BackendDestroyDescriptor == nullptr || cudnn.BackendSetAttribute == nullptr ||
        cudnn.BackendFinalize == nullptr || cudnn.BackendExecute == nullptr) {
      return false;
    }
    fast_path.destroy = cudnn.BackendDestroyDescriptor;
    fast_path.set_attribute = cudnn.BackendSetAttribute;
    fast_path.finalize = cudnn.BackendFinalize;
    fast_path.execute = cudnn.BackendExecute;
    fast_path.create.store(cudnn.BackendCreateDescriptor, std::memory_order_release);
    return true;
  }();
  static_cast<void>(begun);
}

bool stands_in(const StandIn& stand_in, cudnnHandle_t handle, cudnnBackendDescriptor_t variant_pack) {
  bool ran = false;
  watch([&](Observer& observer) { ran = observer.substitution.run(stand_in, handle, variant_pack); });
  return ran;
}

void workspace(cudnnBackendDescriptor_t plan, std::int64_t* bytes) {
  watch([&](Observer& observer) {
    const StandIn* stand_in = observer.owners.get(plan).stand_in;
    if (stand_in == nullptr) return;
    *bytes = std::max(*bytes, static_cast<std::int64_t>(stand_in->substitute->workspace_bytes));
  });
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variant_pack) {
  Owned owned;
  bool ran = false;
  watch([&](Observer& observer) {
    owned = observer.owners.get(plan);
    if (owned.stand_in == nullptr) return;
    ran = observer.substitution.run(*owned.stand_in, handle, variant_pack);
    if (ran) owned.plan->substituted.fetch_add(1, std::memory_order_relaxed);
  });
  const cudnnStatus_t status = ran ? CUDNN_STATUS_SUCCESS : real().BackendExecute(handle, plan, variant_pack);
  if (status == CUDNN_STATUS_SUCCESS) {
    watch([&](Observer& observer) { observer.executed(plan, owned); });
  }
  return status;
}

void called(const LegacyCall& call) {
  watch([&](Observer& observer) { observer.called(call); });
}

std::shared_ptr<void> destroying(cudnnBackendDescriptor_t raw) {
  std::shared_ptr<void> last;
  watch([&](Observer& observer) { last = observer.destroying(raw); });
  return last;
}

}  // namespace convoy::interposer
