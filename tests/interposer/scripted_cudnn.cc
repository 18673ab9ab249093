// A cuDNN that needs no GPU and computes nothing: descriptors hold what they are given, heuristics offer a fixed list,
// plans of one engine can't be built. What it executes it prints.
#include <cudnn.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

struct Fake {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<char>> attributes;  // as set
  long engine = -1;                             // of engines and configurations
};

Fake& fake(cudnnBackendDescriptor_t raw) { return *reinterpret_cast<Fake*>(raw); }

constexpr long kNone = -2;

struct Offered {
  long engine;
  long tile;  // the value of its knob 2; -1 leaves it to cuDNN, kNone: it has no such knob
  std::vector<int> notes;
};
const std::vector<Offered>& offers(cudnnBackendHeurMode_t mode) {
  static const std::vector<Offered> first = {
      {7, 0, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}}, {5, -1, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}}, {9, 3, {}}};
  static const std::vector<Offered> fallback = {{1, kNone, {}}};
  return mode == CUDNN_HEUR_MODE_FALLBACK ? fallback : first;
}
const Offered* offered(long engine) {
  for (const auto mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Offered& offer : offers(mode)) {
      if (offer.engine == engine) return &offer;
    }
  }
  return nullptr;
}

constexpr long kUnbuildable = 7;

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

long engine_of_config(const Fake& config) {
  if (config.engine >= 0) return config.engine;
  const auto engine = first<cudnnBackendDescriptor_t>(config, CUDNN_ATTR_ENGINECFG_ENGINE, nullptr);
  return engine == nullptr ? -1 : first<int64_t>(fake(engine), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(64);
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
  if (descriptor.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  const auto config = first<cudnnBackendDescriptor_t>(descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, nullptr);
  descriptor.engine = engine_of_config(fake(config));
  return descriptor.engine == kUnbuildable ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t requested, int64_t* count, void* array) {
  const Fake& descriptor = fake(raw);
  auto* const children = static_cast<cudnnBackendDescriptor_t*>(array);
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      const auto mode = first(descriptor, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_INSTANT);
      const auto& all = offers(mode);
      for (std::size_t i = 0; array != nullptr && i < all.size() && static_cast<int64_t>(i) < requested; ++i) {
        if (fake(children[i]).engine >= 0) return CUDNN_STATUS_BAD_PARAM;  // cuDNN's would be useless from then on
        fake(children[i]).engine = all[i].engine;
      }
      *count = static_cast<int64_t>(all.size());
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      fake(children[0]).engine = engine_of_config(descriptor);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: {
      const Offered* offer = offered(engine_of_config(descriptor));
      *count = offer != nullptr && offer->tile != kNone ? 1 : 0;
      if (*count == 1 && array != nullptr && requested > 0) fake(children[0]).engine = offer->tile;
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
      return give<int>({CUDNN_KNOB_TYPE_TILE_SIZE}, requested, count, array);
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
      return give<int64_t>({descriptor.engine}, requested, count, array);
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      return give<int64_t>({descriptor.engine}, requested, count, array);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const Offered* offer = offered(descriptor.engine);
      return give<int>(offer == nullptr ? std::vector<int>() : offer->notes, requested, count, array);
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
  std::printf("ran eng%ld\n", fake(plan).engine);
  std::fflush(stdout);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
