#include "engines/cudnn/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "core/hash.h"
#include "engines/cudnn/handle.h"
#include "engines/cudnn/kept_plan.h"
#include "engines/cudnn/known.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/properties.h"

namespace convoy::cudnn {
namespace {

constexpr std::size_t kMostSurveys = 256;  // of about 100 KB
constexpr std::int64_t kMostPicks = 256;

// The legal values of a knob: all of them up to 16, above that steps of a half and a third of a power of two (splits
// go into the thousands, and their neighbours hardly differ), and the largest.
std::vector<std::int64_t> values_between(std::int64_t low, std::int64_t high, std::int64_t step) {
  constexpr std::int64_t all_up_to = 16;
  std::vector<std::int64_t> values;
  step = std::max<std::int64_t>(step, 1);
  std::int64_t value = low;
  for (; value <= high && (value - low) / step < 4 * all_up_to && (high <= 512 || value <= all_up_to); value += step) {
    values.push_back(value);
  }
  for (std::int64_t power = all_up_to; power < high && value <= high; power *= 2) {
    for (const std::int64_t next : {power + power / 2, 2 * power}) {
      if (next >= value && next <= high && (next - low) % step == 0) values.push_back(next);
    }
  }
  if (!values.empty() && values.back() != high && (high - low) % step == 0) values.push_back(high);
  return values;
}

// With the note TF32 where tensor cores multiply f32, which they round to tf32.
std::vector<std::string> notes_of(const Descriptor& engine, const ConvProblem& problem) {
  std::vector<std::string> notes = cudnn::notes_of(engine);
  const auto tensor_core = std::find(notes.begin(), notes.end(), name_of(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  if (tensor_core == notes.end() || problem.compute != DataType::f32) return notes;
  const TensorDesc& a = problem.pass == Pass::dgrad ? problem.y : problem.x;
  const TensorDesc& b = problem.pass == Pass::wgrad ? problem.y : problem.w;
  if (a.type == DataType::f32 || b.type == DataType::f32) notes.emplace_back(note::tf32);
  return notes;
}

// First the best pick's value, then cuDNN's own choice, those of the engine's other picks, and what the engine allows.
std::vector<Knob> knobs_of(const Descriptor& engine, const std::vector<const Pick*>& picks) {
  std::vector<Knob> knobs;
  const std::int64_t count = engine.count(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (const Descriptor& info : engine.get(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, count)) {
    const auto type = info.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE);
    const auto low = info.get<std::int64_t>(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64);
    const auto high = info.get<std::int64_t>(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64);
    const auto step = info.get<std::int64_t>(CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64);
    if (!type || !low || !high || !step) continue;
    const std::string name = knob_name(*type);
    std::vector<std::int64_t> wanted;
    for (const Pick* pick : picks) {
      wanted.push_back(knob_or(pick->knobs, name, kAutomatic));
      if (wanted.size() == 1) wanted.push_back(kAutomatic);
    }
    if (wanted.empty()) wanted.push_back(kAutomatic);
    for (const std::int64_t value : values_between(*low, *high, *step)) wanted.push_back(value);
    Knob knob{name, {}, meaning_of(*type) + "; -1: cuDNN chooses"};
    for (const std::int64_t value : wanted) {
      if (std::find(knob.values.begin(), knob.values.end(), value) == knob.values.end()) knob.values.push_back(value);
    }
    knobs.push_back(std::move(knob));
  }
  std::sort(knobs.begin(), knobs.end(), [](const Knob& a, const Knob& b) { return a.name < b.name; });
  return knobs;
}

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

}  // namespace

Survey::Survey(const Api& api, const ConvProblem& problem, const CudaDevice& device, int target_sms)
    : api_(api), problem_(problem), device_(device) {
  if (target_sms > 0 && api.version < kFirstVersionWithDeviceProperties) {
    refusal_ =
        Refusal{RefusalCode::device, fmt::format("target_sms={}: from cuDNN 9.8 on, this is {}", target_sms, api.text)};
    return;
  }
  if (api.version >= kFirstVersionWithDeviceProperties) {
    CudaDevice described = device_;
    if (target_sms > 0) described.sm_count = std::min(target_sms, device.sm_count);
    const DeviceProperties& properties = known_properties(api, described);
    if (!properties.descriptor.ok()) {
      refusal_ = Refusal{code_of(properties.descriptor.failure().status),
                         fmt::format("device={}: {}", device.name, properties.why_not)};
      return;
    }
    properties_ = &properties.descriptor;
    sees_device_ = properties.own;
    if (sees_device_ && described.sm_count < device.sm_count) target_sms_ = described.sm_count;
  } else {
    auto handle = borrow_handle(api, device_.ordinal);
    if (!handle) {
      refusal_ = Refusal{RefusalCode::device, handle.error().message};
      return;
    }
    handle_ = handle->get();  // it tells cuDNN the device; nothing is executed with it here
    sees_device_ = true;
  }
  graph_ = std::make_unique<Graph>(api, problem, handle_);
  if (!graph_->ok()) refusal_ = refused(graph_->failure(), graph_->failed_part());
}

Refusal Survey::refused(const Failure& failure, std::string_view what) const {
  Refusal refusal = refusal_of(failure, what);
  const std::string advice = unmet_advice(problem_, device_);
  if (refusal.code != RefusalCode::device && refusal.code != RefusalCode::not_built && !advice.empty()) {
    refusal.reason += fmt::format("; of the limits that cuDNN documents: {}", advice);
  }
  return refusal;
}

Descriptor Survey::configuration(const Descriptor& engine, const KnobValues& knobs) const {
  std::vector<Descriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  Descriptor made(api_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  for (const KnobValue& knob : knobs) {
    const auto type = parse_knob_name(knob.name);
    const std::int64_t* const number = knob.value.number();
    if (!type || number == nullptr || *number == kAutomatic) continue;
    Descriptor& choice = choices.emplace_back(api_, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, *type)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, *number)
        .finalize();
    if (!choice.ok()) return std::move(choice);
    raw.push_back(choice.raw());
  }
  made.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty()) made.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  made.finalize();
  return made;
}

std::optional<Refusal> Survey::make_engine(Engine& engine, std::int64_t index) const {
  if (index >= graph_->engine_count()) {
    return Refusal{RefusalCode::not_offered,
                   fmt::format("pass={}: cuDNN {} has {} engines for this graph ({})", name_of(problem_.pass),
                               api_.text, graph_->engine_count(), graph_->formula())};
  }
  engine.descriptor = Descriptor(api_, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.descriptor.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_->descriptor())
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, index);
  if (properties_ != nullptr) engine.descriptor.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *properties_);
  if (target_sms_ > 0) engine.descriptor.set(CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32, target_sms_);
  engine.descriptor.finalize();
  if (!engine.descriptor.ok()) return refused(engine.descriptor.failure(), "engine");
  engine.notes = notes_of(engine.descriptor, problem_);
  for (std::string& note : missing_notes(problem_, index, api_.version, engine.notes)) {
    if (!has(engine.notes, note)) engine.notes.push_back(std::move(note));
  }
  for (std::string& note : special_value_notes(problem_, index, engine.notes)) engine.notes.push_back(std::move(note));
  for (const std::string_view reordered : {"REQUIRES_FILTER_INT8x32_REORDER", "REQUIRES_BIAS_INT8x32_REORDER"}) {
    if (!has(engine.notes, reordered)) continue;
    return Refusal{RefusalCode::layout,
                   fmt::format("note {}: this engine reads w and bias in the order that cudnnReorderFilterAndBias "
                               "makes of NC/32HW32, a layout that problems here can't have",
                               reordered)};
  }
  return std::nullopt;
}

std::optional<Refusal> Survey::configure(Engine& engine, std::int64_t index) {
  const std::vector<Knob> knobs = knobs_of(engine.descriptor, {});
  const Pick* const best = best_locked(index);
  for (const Knob& knob : knobs) {
    engine.default_knobs.push_back(
        {knob.name, best != nullptr ? knob_or(best->knobs, knob.name, kAutomatic) : kAutomatic});
  }
  if (auto refusal = known_wrong(problem_, index, api_.version, engine.notes, knobs)) return refusal;
  // An engine finalises for many graphs that no configuration of it takes.
  const Descriptor configured = configuration(engine.descriptor, engine.default_knobs);
  if (!configured.ok()) return refused(configured.failure(), "engine configuration");
  return std::nullopt;
}

Survey::Engine& Survey::made_locked(std::int64_t index) {
  const auto [found, added] = engines_.try_emplace(index);
  if (added) found->second.refusal = refusal_ ? refusal_ : make_engine(found->second, index);
  return found->second;
}

Survey::Engine& Survey::engine_locked(std::int64_t index) {
  Engine& engine = made_locked(index);
  if (!std::exchange(engine.configured, true) && !engine.refusal) engine.refusal = configure(engine, index);
  if (engine.refusal) engine.descriptor = Descriptor();
  return engine;
}

std::optional<Refusal> Survey::refusal(std::int64_t engine) {
  const std::lock_guard lock(mutex_);
  return engine_locked(engine).refusal;
}

std::vector<std::string> Survey::notes(std::int64_t engine) {
  const std::lock_guard lock(mutex_);
  return made_locked(engine).notes;
}

KnobValues Survey::default_knobs(std::int64_t engine) {
  const std::lock_guard lock(mutex_);
  return engine_locked(engine).default_knobs;
}

Verdict Survey::ask(std::int64_t index) {
  const std::lock_guard lock(mutex_);
  Engine& engine = engine_locked(index);
  if (engine.verdict) return *engine.verdict;
  Verdict verdict{engine.refusal, {}, engine.notes, -1};
  if (engine.descriptor.raw() != nullptr) {
    const std::vector<Pick>& picks = picks_locked();
    std::vector<const Pick*> own;
    for (const Pick& pick : picks) {
      if (pick.engine == index) own.push_back(&pick);
    }
    if (!own.empty()) verdict.rank = static_cast<int>(own.front() - picks.data());
    verdict.knobs = knobs_of(engine.descriptor, own);
  }
  engine.verdict = std::move(verdict);
  return *engine.verdict;
}

int Survey::queries() {
  const std::lock_guard lock(mutex_);
  return queries_;
}

Descriptor Survey::heuristic(cudnnBackendHeurMode_t mode) {
  ++queries_;
  Descriptor heuristic(api_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_->descriptor())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (properties_ != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties_);
  if (target_sms_ > 0) heuristic.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, target_sms_);
  heuristic.finalize();
  return heuristic;
}

void Survey::take_locked(const Descriptor& heuristic, std::int64_t most) {
  if (!heuristic.ok()) return;
  if (most > 1) {
    most = std::min(most, heuristic.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR));
  }
  for (const Descriptor& result :
       heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most)) {
    auto pick = pick_of(result);
    if (pick && std::find(picks_.begin(), picks_.end(), *pick) == picks_.end()) picks_.push_back(*std::move(pick));
  }
}

void Survey::look_locked(int parts) {
  constexpr std::array<std::int64_t, kParts> ends = {1, kMostPicks};
  if (parts <= parts_) return;
  if (parts_ == 0 && !refusal_) mode_a_ = heuristic(CUDNN_HEUR_MODE_A);
  if (!refusal_) take_locked(mode_a_, ends[static_cast<std::size_t>(parts) - 1]);
  named_ = picks_.size();
  parts_ = parts;
  if (parts_ == kParts) mode_a_ = Descriptor();
}

template <class Wanted>
std::optional<std::size_t> Survey::named_locked(Wanted wanted, int parts) {
  std::size_t next = 0;
  for (int part = 1; part <= parts; ++part) {
    look_locked(part);
    for (; next < named_; ++next) {
      if (wanted(picks_[next])) return next;
    }
  }
  return std::nullopt;
}

const std::vector<Pick>& Survey::picks_locked() {
  look_locked(kParts);
  if (!std::exchange(all_, true) && !refusal_) {
    take_locked(heuristic(CUDNN_HEUR_MODE_B), kMostPicks);
    take_locked(heuristic(CUDNN_HEUR_MODE_FALLBACK), kMostPicks);
  }
  return picks_;
}

std::size_t Survey::named(int parts) {
  const std::lock_guard lock(mutex_);
  look_locked(parts);
  return named_;
}

std::optional<Survey::RankedPick> Survey::named(std::int64_t engine, int parts) {
  const std::lock_guard lock(mutex_);
  const auto rank = named_locked([&](const Pick& pick) { return pick.engine == engine; }, parts);
  return rank ? std::optional(RankedPick{*rank, picks_[*rank].knobs}) : std::nullopt;
}

std::optional<std::int64_t> Survey::first_taker() {
  const std::lock_guard lock(mutex_);
  // By index: looking at an engine closely may ask for more picks.
  for (const bool all : {false, true}) {
    if (all) picks_locked();
    for (std::size_t next = 0;; ++next) {
      for (int part = 1; !all && part <= kParts && next >= named_; ++part) look_locked(part);
      if (next >= (all ? picks_.size() : named_)) break;
      const std::int64_t engine = picks_[next].engine;
      if (!engine_locked(engine).refusal) return engine;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> Survey::rank(std::int64_t engine, const KnobValues& knobs) {
  const std::lock_guard lock(mutex_);
  const Pick wanted{engine, knobs};
  if (const auto rank = named_locked([&](const Pick& pick) { return pick == wanted; })) return rank;
  picks_locked();
  auto pick = std::find(picks_.begin(), picks_.end(), wanted);
  if (pick == picks_.end()) {
    pick = std::find_if(picks_.begin(), picks_.end(), [&](const Pick& p) { return p.engine == engine; });
  }
  if (pick == picks_.end()) return std::nullopt;
  return static_cast<std::size_t>(pick - picks_.begin());
}

const Pick* Survey::best_locked(std::int64_t engine) {
  const auto wanted = [&](const Pick& pick) { return pick.engine == engine; };
  if (const auto rank = named_locked(wanted)) return &picks_[*rank];
  picks_locked();
  const auto pick = std::find_if(picks_.begin(), picks_.end(), wanted);
  return pick != picks_.end() ? &*pick : nullptr;
}

std::vector<Pick> Survey::picks() {
  const std::lock_guard lock(mutex_);
  return picks_locked();
}

std::size_t Survey::pick_count() {
  const std::lock_guard lock(mutex_);
  return picks_locked().size();
}

std::optional<Pick> Survey::best_pick(std::int64_t engine) {
  const std::lock_guard lock(mutex_);
  const Pick* const pick = best_locked(engine);
  return pick != nullptr ? std::optional(*pick) : std::nullopt;
}

Result<Descriptor> Survey::plan(std::int64_t index, const KnobValues& knobs) {
  std::unique_lock lock(mutex_);
  const Engine& engine = engine_locked(index);  // stays where it is and as it is
  lock.unlock();                                // finalising may compile for a second; others may do so meanwhile
  if (engine.refusal) return Error{ErrorCode::unsupported, engine.refusal->reason};
  const bool compiles = properties_ != nullptr && has(engine.notes, note::runtime_compilation);
  const cuda::CodeKey key = !compiles ? cuda::CodeKey()
                                      : plan_key(api_, {.problem = problem_,
                                                        .device = device_,
                                                        .own = sees_device_,
                                                        .target_sms = target_sms_,
                                                        .engine = index,
                                                        .knobs = knobs});
  if (compiles) {
    if (auto kept = find_plan(cuda::code_cache(), key, api_, *properties_)) return *std::move(kept);
  }
  const Descriptor configured = configuration(engine.descriptor, knobs);
  if (!configured.ok()) return error_of(configured.failure(), "engine configuration");
  Descriptor plan(api_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configured);
  if (properties_ != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties_);
  if (handle_ != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_);
  const double start = monotonic_seconds();
  plan.finalize();
  if (log_enabled(LogLevel::info)) {
    log(compiles ? LogLevel::info : LogLevel::debug, "compile",
        {{"kernel", print(Candidate{fmt::format("cudnn.eng{}", index), knobs})},
         {"problem", print(problem_)},
         {"seconds", fmt::format("{:.3f}", monotonic_seconds() - start)}});
  }
  if (!plan.ok()) return error_of(plan.failure(), "execution plan");
  if (compiles) keep_plan(cuda::code_cache(), key, plan);
  return plan;
}

namespace {

struct Key {
  ConvProblem problem;
  CudaDevice device;
  int target_sms;
  friend bool operator==(const Key&, const Key&) = default;
};

// Least recently asked first.
class Surveys {
 public:
  std::shared_ptr<Survey> get(const Api& api, const Key& key) {
    Hash hash;
    hash.add(hash_of(key.problem, key.problem.x.alignment, key.problem.w.alignment, key.problem.y.alignment),
             key.device.ordinal, key.device.architecture, key.target_sms);
    {
      const std::lock_guard lock(mutex_);
      if (auto found = find(hash.value(), key)) return found;
    }
    // Building a graph takes tens of microseconds: other problems' users need not wait for it.
    auto made = std::make_shared<Survey>(api, key.problem, key.device, key.target_sms);
    const std::lock_guard lock(mutex_);
    if (auto found = find(hash.value(), key)) return found;
    order_.push_back({hash.value(), key, made});
    index_.emplace(hash.value(), std::prev(order_.end()));
    if (order_.size() > kMostSurveys) drop_oldest();
    return made;
  }

 private:
  struct Entry {
    std::uint64_t hash;
    Key key;
    std::shared_ptr<Survey> survey;
  };
  using Entries = std::list<Entry>;

  std::shared_ptr<Survey> find(std::uint64_t hash, const Key& key) {
    const auto [begin, end] = index_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      if (!(at->second->key == key)) continue;
      order_.splice(order_.end(), order_, at->second);
      return at->second->survey;
    }
    return nullptr;
  }
  void drop_oldest() {
    const auto [begin, end] = index_.equal_range(order_.front().hash);
    for (auto at = begin; at != end; ++at) {
      if (at->second != order_.begin()) continue;
      index_.erase(at);
      break;
    }
    order_.pop_front();
  }

  std::mutex mutex_;
  Entries order_;
  std::unordered_multimap<std::uint64_t, Entries::iterator> index_;
};

}  // namespace

Result<std::shared_ptr<Survey>> survey(const ConvProblem& problem, const CudaDevice& device, int target_sms) {
  static Surveys& surveys = *new Surveys;  // never destroyed: convolutions may run while the process ends
  CONVOY_TRY(const Api* api, cuda::cudnn());
  return surveys.get(*api, {problem, device, target_sms});
}

}  // namespace convoy::cudnn
