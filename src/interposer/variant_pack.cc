#include "interposer/variant_pack.h"

#include <algorithm>
#include <cstring>

namespace convoy::interposer {
namespace {

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

CONVOY_FAST_PATH void pack_set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name,
                               cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  if (raw != of_thread.pack) return;
  VariantPack& held = of_thread.held;
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && type == CUDNN_TYPE_INT64) {
    held.uid_count = copy(held.uids, count, values);
  } else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS && type == CUDNN_TYPE_VOID_PTR) {
    held.pointer_count = copy(held.pointers, count, values);
  } else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE && count == 1 && values != nullptr) {
    std::memcpy(&held.workspace, values, sizeof held.workspace);
  } else {
    of_thread.plain = false;
  }
  if (held.uid_count < 0 || held.pointer_count < 0) of_thread.plain = false;
}

}  // namespace convoy::interposer
