#include "interposer/observer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "base/environment.h"
#include "engines/cudnn/configuration.h"
#include "interposer/choices.h"
#include "interposer/graph_problem.h"
#include "interposer/real.h"
#include "interposer/recorder.h"
#include "interposer/snapshot.h"

namespace convoy::interposer {
namespace {

constexpr auto kWriteEvery = std::chrono::seconds(60);

using Clock = std::chrono::steady_clock;

void say(const std::string& sentence) {
  const std::string line = "convoy: " + sentence + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

// The device that the calling thread works on, as the driver names it; empty where that can't be asked.
std::string device_name() {
  using Current = int (*)(int*);
  using Name = int (*)(char*, int, int);
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return {};
  static const auto current = reinterpret_cast<Current>(dlsym(driver, "cuCtxGetDevice"));
  static const auto name = reinterpret_cast<Name>(dlsym(driver, "cuDeviceGetName"));
  int device = 0;
  char text[256] = {};
  if (current == nullptr || name == nullptr || current(&device) != 0 || name(text, sizeof text, device) != 0) return {};
  return text;
}

std::string program() {
  std::string text;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "rb")) {
    for (int c = std::fgetc(file); c != EOF && text.size() < 1000; c = std::fgetc(file)) text += c == 0 ? ' ' : char(c);
    std::fclose(file);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string name_of(cudnnBackendHeurMode_t mode) {
  switch (mode) {
    case CUDNN_HEUR_MODE_INSTANT:
      return "instant";
    case CUDNN_HEUR_MODE_A:
      return "A";
    case CUDNN_HEUR_MODE_B:
      return "B";
    case CUDNN_HEUR_MODE_FALLBACK:
      return "fallback";
    default:
      return fmt::format("{}", static_cast<int>(mode));
  }
}

std::string cudnn_version() {
  const int version = real().version;
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Offer offer_of(const cudnn::Descriptor& configuration) {
  Offer offer;
  if (auto pick = cudnn::pick_of(configuration)) {
    offer.candidate = {fmt::format("cudnn.eng{}", pick->engine), std::move(pick->knobs)};
    offer.notes = cudnn::notes_of_configuration(configuration);
  }
  return offer;
}

std::vector<Offer> offers_of(std::span<cudnnBackendDescriptor_t> configurations) {
  std::vector<Offer> offers;
  for (cudnnBackendDescriptor_t raw : configurations) {
    offers.push_back(offer_of(cudnn::Descriptor::borrowed(real(), raw)));
  }
  return offers;
}

// A finalised graph, heuristic, configuration or plan, and what it belongs to. Plans are looked up at every execution.
struct Owned {
  GraphRow* row = nullptr;
  PlanRow* plan = nullptr;
};

class Owners {
 public:
  void put(cudnnBackendDescriptor_t raw, Owned owned) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    shard.owned.insert_or_assign(raw, owned);
  }
  Owned get(cudnnBackendDescriptor_t raw) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.owned.find(raw);
    return found == shard.owned.end() ? Owned() : found->second;
  }
  void forget(cudnnBackendDescriptor_t raw) {
    Shard& shard = shard_of(raw);
    const std::lock_guard lock(shard.mutex);
    shard.owned.erase(raw);
  }
  void lock() {
    for (Shard& shard : shards_) shard.mutex.lock();
  }
  void unlock() {
    for (Shard& shard : shards_) shard.mutex.unlock();
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<cudnnBackendDescriptor_t, Owned> owned;
  };
  Shard& shard_of(cudnnBackendDescriptor_t raw) {
    return shards_[(reinterpret_cast<std::uintptr_t>(raw) >> 4) % shards_.size()];
  }
  std::array<Shard, 64> shards_;
};

class Observer {
 public:
  Observer(std::optional<std::string> file, Choices choices)
      : file_(std::move(file)), choices_(std::move(choices)), started_(Clock::now()), written_(started_) {}

  void finalized(cudnnBackendDescriptor_t raw, cudnnStatus_t status) {
    const auto snapshot = descriptors.find(raw);
    if (snapshot == nullptr) return;
    switch (snapshot->type()) {
      case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        if (status == CUDNN_STATUS_SUCCESS) owners.put(raw, {&row_of(*snapshot), nullptr});
        return;
      case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), status);
        return;
      case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINE_OPERATION_GRAPH), status);
        return;
      case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        inherit(raw, snapshot->values<cudnnBackendDescriptor_t>(CUDNN_ATTR_ENGINECFG_ENGINE), status);
        return;
      case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        plan_finalized(raw, *snapshot, status);
        return;
      default:
        return;
    }
  }

  // What cuDNN filled into `results`, in its own order.
  void filled(cudnnBackendDescriptor_t asked, std::span<cudnnBackendDescriptor_t> results) {
    const auto snapshot = descriptors.find(asked);
    const Owned owner = owners.get(asked);
    if (snapshot == nullptr || owner.row == nullptr) return;
    for (cudnnBackendDescriptor_t result : results) owners.put(result, {owner.row, nullptr});
    if (!file_) return;
    const auto mode = snapshot->value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
    recorder.asked(*owner.row, mode ? name_of(*mode) : "?", offers_of(results));
  }

  // Whether something is known of the engines that a heuristic is asked for.
  bool steers(cudnnBackendDescriptor_t heuristic) { return known_of(heuristic) != nullptr; }

  // The order in which to offer them. Precondition: steers(heuristic).
  std::vector<int> order_of(cudnnBackendDescriptor_t heuristic, std::span<cudnnBackendDescriptor_t> results) {
    const auto* known = known_of(heuristic);
    std::vector<Contender> contenders;
    for (Offer& offer : offers_of(results)) {
      Contender& contender = contenders.emplace_back(Contender{std::move(offer.notes), {}});
      // A knob that cuDNN offers as -1 is left to it, as one that isn't named; the choice file leaves them out.
      std::erase_if(offer.candidate.knobs, [](const KnobValue& knob) { return knob.value < 0; });
      for (const KnownTime& time : *known) {
        if (time.candidate == offer.candidate) contender.seconds = time.seconds;
      }
    }
    return order_by_time(contenders);
  }

  void executed(cudnnBackendDescriptor_t plan) {
    const Owned owned = owners.get(plan);
    if (owned.plan == nullptr) return;
    const auto calls = owned.plan->calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (calls % 256 == 0) write_now_and_then();
  }

  // All of it to the file, in place of what was there.
  void write() {
    if (!file_) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    nlohmann::ordered_json header{{"convoy_record", 1},
                                  {"pid", getpid()},
                                  {"program", program()},
                                  {"cudnn", real().version},
                                  {"seconds", seconds}};
    const std::string lines = recorder.lines();
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
    recorder.lock();
    descriptors.lock();
    owners.lock();
  }
  void unlock() {
    owners.unlock();
    descriptors.unlock();
    recorder.unlock();
    writing_.unlock();
  }

  Descriptors descriptors;
  Owners owners;
  Recorder recorder;

 private:
  const std::vector<KnownTime>* known_of(cudnnBackendDescriptor_t heuristic) {
    if (choices_.empty()) return nullptr;
    const Owned owner = owners.get(heuristic);
    return owner.row == nullptr ? nullptr : choices_.find(owner.row->device, version_, owner.row->problem);
  }

  GraphRow& row_of(const Snapshot& graph) {
    const auto problem = problem_of(graph);
    return recorder.row(problem ? print(*problem) : "", operations_of(graph), problem ? "" : problem.error().message,
                        device_name());
  }

  void inherit(cudnnBackendDescriptor_t raw, const std::vector<cudnnBackendDescriptor_t>& from, cudnnStatus_t status) {
    if (status != CUDNN_STATUS_SUCCESS || from.size() != 1) return;
    if (const Owned owner = owners.get(from.front()); owner.row != nullptr) owners.put(raw, {owner.row, nullptr});
  }

  void plan_finalized(cudnnBackendDescriptor_t raw, const Snapshot& snapshot, cudnnStatus_t status) {
    const auto config = snapshot.value<cudnnBackendDescriptor_t>(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!config) return;  // from JSON
    const Owned owner = owners.get(*config);
    if (owner.row == nullptr) return;
    const cudnn::Descriptor plan = cudnn::Descriptor::borrowed(real(), raw);
    std::string failure;
    std::int64_t workspace = 0;
    if (status == CUDNN_STATUS_SUCCESS) {
      workspace = plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64).value_or(0);
    } else {
      failure = real().GetErrorString(status);
    }
    Offer offer = offer_of(cudnn::Descriptor::borrowed(real(), *config));
    PlanRow& row = recorder.plan(*owner.row, std::move(offer), workspace, failure);
    if (status == CUDNN_STATUS_SUCCESS) owners.put(raw, {owner.row, &row});
  }

  void write_now_and_then() {
    const std::unique_lock lock(writing_, std::try_to_lock);
    if (!lock || Clock::now() - written_ < kWriteEvery) return;
    written_ = Clock::now();
    write();
  }

  const std::optional<std::string> file_;  // of the record
  const Choices choices_;
  const std::string version_ = cudnn_version();
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
  if (choices.ok()) return *std::move(choices);
  say(fmt::format("{}: {}; nothing is chosen by it", *path, choices.error().message));
  return {};
}

Observer* make_observer() {
  const auto file = environment(Variable::record);
  Choices choices = read_choices();
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
  if (environment(Variable::record) && observing()) {  // else cuDNN would be looked for now
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

void finalized(cudnnBackendDescriptor_t raw, cudnnStatus_t status) {
  watch([&](Observer& observer) { observer.finalized(raw, status); });
}

cudnnStatus_t offer(cudnnBackendDescriptor_t heuristic, std::int64_t requested, std::int64_t* count,
                    cudnnBackendDescriptor_t* configurations) {
  const auto ask = [&](cudnnBackendDescriptor_t* array) {
    return real().BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      requested, count, array);
  };
  // In whose place of `configurations` each of cuDNN's results goes.
  std::vector<cudnnBackendDescriptor_t> places(configurations, configurations + requested);
  watch([&](Observer& observer) {
    if (!observer.steers(heuristic)) return;
    // A configuration can be filled once only, so the order is found with others.
    std::vector<cudnn::Descriptor> tried;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < requested; ++i) {
      raw.push_back(tried.emplace_back(real(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
    }
    if (ask(raw.data()) != CUDNN_STATUS_SUCCESS) return;
    raw.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(*count, 0, requested)));
    const std::vector<int> order = observer.order_of(heuristic, raw);
    for (std::size_t place = 0; place < order.size(); ++place) places[order[place]] = configurations[place];
  });
  const cudnnStatus_t status = ask(places.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  watch([&](Observer& observer) {
    observer.filled(heuristic,
                    {places.data(), static_cast<std::size_t>(std::clamp<std::int64_t>(*count, 0, requested))});
  });
  return status;
}

void executed(cudnnBackendDescriptor_t plan) {
  watch([&](Observer& observer) { observer.executed(plan); });
}

void destroying(cudnnBackendDescriptor_t raw) {
  watch([&](Observer& observer) {
    observer.descriptors.destroyed(raw);
    observer.owners.forget(raw);
  });
}

}  // namespace convoy::interposer
