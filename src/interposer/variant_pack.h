// The variant pack that a thread has just filled: cuDNN gives nobody the pointers of one. Kept without a lock, since
// one is made at every execution.
#pragma once

#include <cudnn.h>

#include <atomic>
#include <cstdint>

#include "interposer/fast_path.h"

namespace convoy::interposer {

// The calling thread made a variant pack.
inline void pack_created(cudnnBackendDescriptor_t raw) {
  of_thread.pack = raw;
  of_thread.destroyed = fast_path.destroyed_elsewhere.load(std::memory_order_relaxed);
  of_thread.plain = true;
  of_thread.held.uid_count = of_thread.held.pointer_count = 0;
  of_thread.held.workspace = nullptr;
}

// Whether it is the one that the calling thread made last, so that nobody has to look for anything else about it.
inline bool is_pack(cudnnBackendDescriptor_t raw) {
  return raw != nullptr && raw == of_thread.pack &&
         of_thread.destroyed == fast_path.destroyed_elsewhere.load(std::memory_order_relaxed);
}

// It filled one.
void pack_set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::int64_t count, const void* values);

// It is about to destroy a descriptor, which may have been another thread's pack.
inline void pack_destroyed(cudnnBackendDescriptor_t raw) {
  if (raw == of_thread.pack) {
    of_thread.pack = nullptr;
  } else {
    fast_path.destroyed_elsewhere.fetch_add(1, std::memory_order_relaxed);
  }
}

// What the calling thread filled into it. Null: another thread did, or it holds more than pointers and a workspace
// (overridden shapes, say).
inline const VariantPack* pack_of(cudnnBackendDescriptor_t raw) {
  return is_pack(raw) && of_thread.plain ? &of_thread.held : nullptr;
}

}  // namespace convoy::interposer
