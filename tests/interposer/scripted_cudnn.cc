// A cuDNN that needs no GPU and computes nothing: descriptors hold what they are given, heuristics offer a fixed list,
// plans of some engines can't be built. What it executes it prints.
#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr long kNone = -2;  // no such knob
constexpr long kLeft = -1;  // left to cuDNN

struct Fake {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<char>> attributes;  // as set
  long engine = -1;                             // of engines and configurations
  long tile = kNone;                            // of configurations: the value of knob 2
  bool finalized = false;
};

Fake& fake(cudnnBackendDescriptor_t raw) { return *reinterpret_cast<Fake*>(raw); }

struct Engine {
  long tile;  // that the heuristics choose
  std::vector<int> notes;
  bool builds = true;
};
const std::map<long, Engine>& engines() {
  static const std::map<long, Engine> all = {{7, {0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false}},
                                             {5, {kLeft, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}}},
                                             {9, {3, {}}},
                                             {1, {kNone, {}}},
                                             // The heuristics don't offer these.
                                             {11, {0, {}}},
                                             {12, {0, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}}},
                                             {13, {0, {}, false}}};
  return all;
}
const std::vector<long>& offers(cudnnBackendHeurMode_t mode) {
  static const std::vector<long> first = {7, 5, 9}, fallback = {1};
  return mode == CUDNN_HEUR_MODE_FALLBACK ? fallback : first;
}
const Engine* find(long engine) {
  const auto found = engines().find(engine);
  return found == engines().end() ? nullptr : &found->second;
}

thread_local const char* last_error = "";
cudnnStatus_t refuse(const char* reason) {
  last_error = reason;
  return CUDNN_STATUS_NOT_SUPPORTED;
}

template <class T>
T first(const Fake& descriptor, int name, T otherwise) {
  const auto found = descriptor.attributes.find(name);
  if (found == descriptor.attributes.end() || found->second.size() < sizeof(T)) return otherwise;
  T value;
  std::memcpy(&value, found->second.data(), sizeof(T));
  return value;
}

template <class T>
cudnnStatus_t give(const std::vector<T>& values, int64_t requested, int64_t* count, void* array) {
  const auto given = array == nullptr ? 0 : std::min<int64_t>(requested, static_cast<int64_t>(values.size()));
  if (given > 0) std::memcpy(array, values.data(), given * sizeof(T));
  if (count != nullptr) *count = static_cast<int64_t>(values.size());
  return CUDNN_STATUS_SUCCESS;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  const char* version = std::getenv("SCRIPTED_CUDNN_VERSION");
  return version != nullptr ? std::strtoul(version, nullptr, 10) : 91900;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
void cudnnGetLastErrorString(char* text, size_t size) {
  std::snprintf(text, size, "%s", last_error);
  last_error = "";  // cuDNN says it once, too
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static std::atomic<int> began{0}, ended{0};
  const int before = began++;
  static std::atomic<std::thread::id> first_thread{};
  if (before == 0) first_thread = std::this_thread::get_id();
  const bool alone = first_thread.load() == std::this_thread::get_id() || ended > 0;
  if (!alone) std::printf("the first cudnnCreate is not alone\n");
  if (before == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  static thread_local bool nested = false;
  if (!nested) {  // by the name that others may stand in front of
    nested = true;
    cudnnCreate(handle);
    nested = false;
  }
  ++ended;
  *handle = reinterpret_cast<cudnnHandle_t>(64);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>('s');
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* raw) {
  *raw = reinterpret_cast<cudnnBackendDescriptor_t>(new Fake{type, {}});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  delete &fake(raw);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  const char* bytes = static_cast<const char*>(values);
  fake(raw).attributes[name].assign(bytes, bytes + count * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  Fake& descriptor = fake(raw);
  const auto child = [&](int name) { return first<cudnnBackendDescriptor_t>(descriptor, name, nullptr); };
  switch (descriptor.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      if (descriptor.attributes[CUDNN_ATTR_TENSOR_DIMENSIONS].size() !=
          descriptor.attributes[CUDNN_ATTR_TENSOR_STRIDES].size()) {
        return refuse("_nbDims != _nbStrides");
      }
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: {
      const int sms = first<int>(descriptor, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, 0);
      if (sms > 132) return refuse("sms > device.sms");
      if (sms > 0) std::printf("asked for %d SMs\n", sms);
      break;
    }
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      descriptor.engine = first<int64_t>(descriptor, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
      if (find(descriptor.engine) == nullptr) return refuse("engine.index >= engines.count");
      break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: {
      descriptor.engine = fake(child(CUDNN_ATTR_ENGINECFG_ENGINE)).engine;  // crashes without, as cuDNN's does
      const auto knob = child(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
      descriptor.tile = find(descriptor.engine)->tile == kNone ? kNone : kLeft;
      if (knob != nullptr) descriptor.tile = first<int64_t>(fake(knob), CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, kLeft);
      if (descriptor.tile > 3) return refuse("knob.value <= knob.maximum");
      break;
    }
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const Fake& config = fake(child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
      if (config.engine < 0) return CUDNN_STATUS_BAD_PARAM;  // nobody filled it
      descriptor.engine = config.engine;
      descriptor.tile = config.tile;
      if (!find(config.engine)->builds) return refuse("device.can(engine)");
      break;
    }
    default:
      break;
  }
  descriptor.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t requested, int64_t* count, void* array) {
  const Fake& descriptor = fake(raw);
  auto* const children = static_cast<cudnnBackendDescriptor_t*>(array);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const auto mode = first(descriptor, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_INSTANT);
      const auto& all = offers(mode);
      const auto size = static_cast<int64_t>(all.size());
      if (array == nullptr || requested == 0) {
        *count = size + 2;  // cuDNN's own answer is too large, too
        return CUDNN_STATUS_SUCCESS;
      }
      *count = std::min(requested, size);
      for (int64_t i = 0; i < *count; ++i) {
        Fake& config = fake(children[i]);
        if (config.finalized) return CUDNN_STATUS_BAD_PARAM;  // cuDNN's would be useless from then on
        config.engine = all[i];
        config.tile = find(all[i])->tile;
        config.finalized = true;
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      fake(children[0]).engine = descriptor.engine;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
      return give<int64_t>({100 * descriptor.engine}, requested, count, array);
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
      *count = descriptor.tile != kNone ? 1 : 0;
      if (*count == 1 && array != nullptr && requested > 0) fake(children[0]).engine = descriptor.tile;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return give<int>({CUDNN_KNOB_TYPE_TILE_SIZE}, requested, count, array);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return give<int64_t>({descriptor.engine}, requested, count, array);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give<int64_t>({descriptor.engine}, requested, count, array);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const Engine* engine = find(descriptor.engine);
      return give<int>(engine == nullptr ? std::vector<int>() : engine->notes, requested, count, array);
    }
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return give<int>({}, requested, count, array);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give<int64_t>({100 * descriptor.engine}, requested, count, array);
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t) {
  static const bool quiet = std::getenv("SCRIPTED_CUDNN_QUIET") != nullptr;
  if (quiet) return CUDNN_STATUS_SUCCESS;
  const Fake& ran = fake(plan);
  if (ran.tile > 0 && ran.tile != find(ran.engine)->tile)
    std::printf("ran eng%ld tile %ld\n", ran.engine, ran.tile);
  else
    std::printf("ran eng%ld\n", ran.engine);
  std::fflush(stdout);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
