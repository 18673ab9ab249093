#include "convoy/plan_cache.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "base/clock.h"
#include "base/log.h"
#include "select/cache/plan_key.h"
#include "select/choose/memory_advice.h"

namespace convoy {
namespace {

using PlanResult = Result<std::shared_ptr<const CachedPlan>>;

// One key's plan: being built, then ready for ever.
class Entry {
 public:
  explicit Entry(const PlanQuery& query) : key(query) {}

  // Null while it is being built.
  const std::shared_ptr<const CachedPlan>* ready() const {
    return ready_.load(std::memory_order_acquire) ? &plan_ : nullptr;
  }

  void publish(const PlanResult& result) {
    const std::lock_guard lock(mutex_);
    if (result.ok()) {
      plan_ = *result;
      ready_.store(true, std::memory_order_release);
    } else {
      error_ = result.error();
    }
    published_ = true;
    changed_.notify_all();
  }

  PlanResult wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return published_; });
    if (error_) return *error_;
    return plan_;
  }

  const selection::PlanKey key;
  std::atomic<std::uint64_t> last_use{0};

 private:
  std::atomic<bool> ready_{false};
  std::shared_ptr<const CachedPlan> plan_;  // fixed once ready_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool published_ = false;
  std::optional<Error> error_;
};

std::size_t bytes_of(const Selection& selection) {
  std::size_t bytes = selection.rule.capacity();
  for (const std::string& warning : selection.warnings) bytes += sizeof(std::string) + warning.capacity();
  return bytes + selection.measurements.capacity() * sizeof(Measurement);
}

PlanResult build(const selection::PlanKey& key) {
  const double start = monotonic_seconds();
  const PlanSettings& settings = key.settings;
  PlanRequest request = settings.request();
  if (request.kind() == DeviceKind::cpu) request.constant_weights = key.weights.data;
  auto cached = std::make_shared<CachedPlan>();
  cached->problem = key.problem;
  cached->threads = request.threads;
  if (request.cuda) cached->cuda = request.cuda->ordinal;
  CONVOY_TRY(cached->selection, select(key.problem, settings.engines(), settings.options(), request, key.node_name));
  CONVOY_TRY(std::unique_ptr<ConvPlan> plan,
             make_plan(key.problem, cached->selection.candidate, settings.engines(), request));
  cached->bytes =
      sizeof(CachedPlan) + sizeof(Entry) + key.bytes() + bytes_of(cached->selection) + plan->retained_bytes();
  cached->plan = std::move(plan);
  if (log_enabled(LogLevel::info)) {
    log(LogLevel::info, "plan",
        {{"problem", print(key.problem)},
         {"candidate", print(cached->selection.candidate)},
         {"reason", cached->selection.reason()},
         {"bytes", fmt::format("{}", cached->bytes)},
         {"seconds", fmt::format("{:.6f}", monotonic_seconds() - start)}});
  }
  return std::shared_ptr<const CachedPlan>(std::move(cached));
}

// What failed on a GPU, with the problem it was for, and what else could be done where memory was short.
Error explained(Error error, const CachedPlan& cached, const PlanSettings& settings) {
  const bool memory = error.code == ErrorCode::out_of_memory;
  if (!memory && error.code != ErrorCode::device_failed && error.code != ErrorCode::internal) return error;
  const std::string problem = print(cached.problem);
  if (error.message.find(problem) == std::string::npos) error = error.within(problem);
  if (!memory) return error;
  const std::string advice = selection::memory_advice(cached.problem, cached.selection.candidate, settings.engines(),
                                                      settings.options().filter, settings.request());
  if (!advice.empty()) error.message += "; " + advice;
  return error;
}

}  // namespace

class __attribute__((visibility("hidden"))) PlanCache::State {
 public:
  explicit State(PlanCacheLimits limits) : limits_(limits) {}

  PlanResult get(const PlanQuery& query) {
    const std::uint64_t hash = selection::hash_of(query);
    std::shared_ptr<Entry> entry;
    {
      const std::shared_lock lock(mutex_);
      if (const auto* found = find(hash, query)) {
        touch(**found);
        if (const auto* plan = (*found)->ready()) {
          hits_.fetch_add(1, std::memory_order_relaxed);
          return *plan;
        }
        entry = *found;
      }
    }
    bool mine = false;
    if (entry == nullptr) {
      const std::unique_lock lock(mutex_);
      if (const auto* found = find(hash, query)) {
        entry = *found;
      } else {
        entry = std::make_shared<Entry>(query);
        entries_.emplace(hash, entry);
        mine = true;
      }
      touch(*entry);
    }
    if (!mine) {
      waits_.fetch_add(1, std::memory_order_relaxed);
      return entry->wait();
    }
    PlanResult result = build(entry->key);
    finish(hash, *entry, result);
    return result;
  }

  PlanCacheStatistics statistics() const {
    const std::shared_lock lock(mutex_);
    return {.hits = hits_.load(std::memory_order_relaxed),
            .waits = waits_.load(std::memory_order_relaxed),
            .builds = builds_,
            .failures = failures_,
            .evictions = evictions_,
            .plans = plans_,
            .bytes = bytes_};
  }

  void clear() {
    const std::unique_lock lock(mutex_);
    std::erase_if(entries_, [](const auto& item) { return item.second->ready() != nullptr; });
    plans_ = 0;
    bytes_ = 0;
  }

 private:
  struct Identity {
    std::size_t operator()(std::uint64_t hash) const { return hash; }
  };
  using Entries = std::unordered_multimap<std::uint64_t, std::shared_ptr<Entry>, Identity>;

  const std::shared_ptr<Entry>* find(std::uint64_t hash, const PlanQuery& query) const {
    const auto [first, last] = entries_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (it->second->key.matches(query)) return &it->second;
    }
    return nullptr;
  }

  // Readers share the lock, so the order of use is a counter and not a list that each of them would have to change.
  void touch(Entry& entry) {
    entry.last_use.store(clock_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  }

  void finish(std::uint64_t hash, Entry& entry, const PlanResult& result) {
    const std::unique_lock lock(mutex_);
    entry.publish(result);
    ++builds_;
    if (result.ok()) {
      ++plans_;
      bytes_ += (*result)->bytes;
      while (plans_ > limits_.plans || bytes_ > limits_.bytes) evict_oldest();
      return;
    }
    ++failures_;
    const auto [first, last] = entries_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (it->second.get() == &entry) {
        entries_.erase(it);  // the caller holds it
        return;
      }
    }
  }

  void evict_oldest() {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second->ready() == nullptr) continue;
      if (oldest == entries_.end() || it->second->last_use < oldest->second->last_use) oldest = it;
    }
    const CachedPlan& plan = **oldest->second->ready();
    if (log_enabled(LogLevel::debug)) {
      log(LogLevel::debug, "plan_evicted",
          {{"problem", print(plan.problem)}, {"candidate", print(plan.selection.candidate)}});
    }
    --plans_;
    bytes_ -= plan.bytes;
    ++evictions_;
    entries_.erase(oldest);
  }

  const PlanCacheLimits limits_;
  mutable std::shared_mutex mutex_;  // guards entries_ and the plain numbers
  Entries entries_;
  std::uint64_t builds_ = 0, failures_ = 0, evictions_ = 0;
  std::size_t plans_ = 0, bytes_ = 0;  // of those that are ready
  std::atomic<std::uint64_t> clock_{0}, hits_{0}, waits_{0};
};

PlanCache::PlanCache(PlanCacheLimits limits) : state_(std::make_unique<State>(limits)) {}
PlanCache::~PlanCache() = default;

Result<std::shared_ptr<const CachedPlan>> PlanCache::get(const PlanQuery& query) { return state_->get(query); }

Result<void> PlanCache::run(const ConvProblem& problem, const PlanSettings& settings, const ConvArgs& args,
                            ConstantWeights weights, std::string_view node_name, void* stream) {
  CONVOY_TRY(const auto cached, get({problem, settings, alignments_of(problem.pass, args), weights, node_name}));
  ExecutionContext& context = ExecutionContext::of_this_thread();
  if (cached->cuda) {
    const auto enqueued = context.enqueue(*cached->plan, *cached->cuda, args, stream);
    return enqueued.ok() ? enqueued : explained(enqueued.error(), *cached, settings);
  }
  return context.execute(*cached->plan, cached->threads, args);
}

PlanCacheStatistics PlanCache::statistics() const { return state_->statistics(); }
void PlanCache::clear() { state_->clear(); }

PlanCache& shared_plan_cache() {
  static PlanCache* const cache = new PlanCache;  // never destroyed: plans may run while the process ends
  return *cache;
}

std::string print(const PlanCacheStatistics& s) {
  return fmt::format("{} plans, {} bytes; {} hits, {} waits, {} builds, {} failures, {} evictions", s.plans, s.bytes,
                     s.hits, s.waits, s.builds, s.failures, s.evictions);
}

}  // namespace convoy
