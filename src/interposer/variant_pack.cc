#include "interposer/variant_pack.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace convoy::interposer {
namespace {

// cuDNN uses addresses again: what a thread remembers of one is void once another thread destroyed a descriptor.
std::atomic<unsigned> destroyed_elsewhere{0};

struct Remembered {
  cudnnBackendDescriptor_t raw = nullptr;
  bool plain = false;
  unsigned destroyed = 0;  // destroyed_elsewhere when it was made
  VariantPack pack;
};
thread_local Remembered last;

template <class Value>
std::int64_t copy(std::array<Value, VariantPack::kMost>& to, std::int64_t count, const void* values) {
  if (count < 0 || count > VariantPack::kMost || values == nullptr) return -1;
  std::memcpy(to.data(), values, static_cast<std::size_t>(count) * sizeof(Value));
  return count;
}

}  // namespace

void* VariantPack::pointer_of(std::int64_t uid) const {
  const auto end = uids.begin() + std::min(uid_count, pointer_count);
  const auto found = std::find(uids.begin(), end, uid);
  return found == end ? nullptr : pointers[static_cast<std::size_t>(found - uids.begin())];
}

void pack_created(cudnnBackendDescriptor_t raw) {
  last.raw = raw;
  last.plain = true;
  last.destroyed = destroyed_elsewhere.load(std::memory_order_relaxed);
  last.pack.uid_count = last.pack.pointer_count = 0;
  last.pack.workspace = nullptr;
}

bool is_pack(cudnnBackendDescriptor_t raw) {
  return raw != nullptr && raw == last.raw && last.destroyed == destroyed_elsewhere.load(std::memory_order_relaxed);
}

void pack_set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::int64_t count, const void* values) {
  if (raw != last.raw) return;
  VariantPack& pack = last.pack;
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && type == CUDNN_TYPE_INT64) {
    pack.uid_count = copy(pack.uids, count, values);
  } else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS && type == CUDNN_TYPE_VOID_PTR) {
    pack.pointer_count = copy(pack.pointers, count, values);
  } else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE && count == 1 && values != nullptr) {
    std::memcpy(&pack.workspace, values, sizeof pack.workspace);
  } else {
    last.plain = false;
  }
  if (pack.uid_count < 0 || pack.pointer_count < 0) last.plain = false;
}

void pack_destroyed(cudnnBackendDescriptor_t raw) {
  if (raw == last.raw) {
    last.raw = nullptr;
  } else {
    destroyed_elsewhere.fetch_add(1, std::memory_order_relaxed);
  }
}

const VariantPack* pack_of(cudnnBackendDescriptor_t raw) { return is_pack(raw) && last.plain ? &last.pack : nullptr; }

}  // namespace convoy::interposer
