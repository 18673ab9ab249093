#include "interposer/snapshot.h"

#include <algorithm>

namespace convoy::interposer {
namespace {

// Of one element; 0 for a type that later versions of cuDNN may add.
std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_INT32:
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
    case CUDNN_TYPE_POINTWISE_MODE:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

const Snapshot::Attribute* Snapshot::find(cudnnBackendAttributeName_t name) const {
  const auto found = std::find_if(attributes_.begin(), attributes_.end(),
                                  [&](const Attribute& attribute) { return attribute.name == name; });
  return found == attributes_.end() ? nullptr : &*found;
}

std::optional<double> Snapshot::number(cudnnBackendAttributeName_t name) const {
  const Attribute* found = find(name);
  if (found == nullptr) return std::nullopt;
  if (found->type == CUDNN_TYPE_DOUBLE) return value<double>(name);
  if (found->type == CUDNN_TYPE_FLOAT) return value<float>(name);
  return std::nullopt;
}

std::vector<std::shared_ptr<const Snapshot>> Snapshot::children(cudnnBackendAttributeName_t name) const {
  const Attribute* found = find(name);
  return found == nullptr ? std::vector<std::shared_ptr<const Snapshot>>() : found->children;
}

std::shared_ptr<const Snapshot> Snapshot::child(cudnnBackendAttributeName_t name) const {
  const auto all = children(name);
  return all.size() == 1 ? all.front() : nullptr;
}

Descriptors::Shard& Descriptors::shard_of(cudnnBackendDescriptor_t raw) {
  return shards_[(reinterpret_cast<std::uintptr_t>(raw) >> 4) % shards_.size()];
}

void Descriptors::created(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type) {
  Shard& shard = shard_of(raw);
  const std::lock_guard lock(shard.mutex);
  shard.alive.insert_or_assign(raw, std::make_shared<Snapshot>(type));
}

void Descriptors::set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      std::int64_t count, const void* values) {
  if (count < 0 || (count > 0 && values == nullptr)) return;
  Snapshot::Attribute attribute{name, type, {}, {}};
  const auto* first = static_cast<const std::byte*>(values);
  attribute.bytes.assign(first, first + static_cast<std::size_t>(count) * size_of(type));
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* raws = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) attribute.children.push_back(find(raws[i]));
  }
  Shard& shard = shard_of(raw);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.alive.find(raw);
  if (found == shard.alive.end()) return;
  auto& all = found->second->attributes_;
  const auto same = std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.name == name; });
  if (same != all.end()) {
    *same = std::move(attribute);
  } else {
    all.push_back(std::move(attribute));
  }
}

std::shared_ptr<const Snapshot> Descriptors::find(cudnnBackendDescriptor_t raw) {
  Shard& shard = shard_of(raw);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.alive.find(raw);
  return found == shard.alive.end() ? nullptr : found->second;
}

bool Descriptors::destroyed(cudnnBackendDescriptor_t raw) {
  Shard& shard = shard_of(raw);
  std::shared_ptr<Snapshot> last;  // freed outside of the lock
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.alive.find(raw);
  if (found == shard.alive.end()) return false;
  last = std::move(found->second);
  shard.alive.erase(found);
  return true;
}

void Descriptors::lock() {
  for (Shard& shard : shards_) shard.mutex.lock();
}
void Descriptors::unlock() {
  for (Shard& shard : shards_) shard.mutex.unlock();
}

}  // namespace convoy::interposer
