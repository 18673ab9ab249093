// The variant pack that a thread has just filled: cuDNN gives nobody the pointers of one. Kept without a lock, since
// one is made at every execution.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

namespace convoy::interposer {

struct VariantPack {
  static constexpr std::int64_t kMost = 16;
  std::array<std::int64_t, kMost> uids{};
  std::array<void*, kMost> pointers{};
  std::int64_t uid_count = 0, pointer_count = 0;
  void* workspace = nullptr;

  // Of the tensor with that uid; null: the pack has none.
  void* pointer_of(std::int64_t uid) const;
};

// The calling thread made, filled, and is about to destroy a descriptor. Those that are no variant packs may be told,
// too, but as created.
void pack_created(cudnnBackendDescriptor_t raw);
void pack_set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::int64_t count, const void* values);
void pack_destroyed(cudnnBackendDescriptor_t raw);

// Whether it is the one that the calling thread made last, so that nobody has to look for anything else about it: a
// program makes one at every execution, and each look goes to memory that its own work has pushed out of the caches.
bool is_pack(cudnnBackendDescriptor_t raw);

// What the calling thread filled into it. Null: another thread did, or it holds more than pointers and a workspace
// (overridden shapes, say).
const VariantPack* pack_of(cudnnBackendDescriptor_t raw);

}  // namespace convoy::interposer
