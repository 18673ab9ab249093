#include "device/workspace.h"

#include "convoy/host_tensor.h"

namespace convoy {

Result<void*> Workspace::reserve(std::size_t bytes) {
  if (bytes == 0) return static_cast<void*>(nullptr);
  if (bytes > capacity_) {
    data_.reset();  // first, so that the old and the new are never alive together
    capacity_ = 0;
    data_ = allocate_aligned(bytes);
    if (!data_) {
      return Error{ErrorCode::out_of_memory, "workspace: can't allocate " + std::to_string(bytes) + " bytes"};
    }
    capacity_ = bytes;
  }
  return static_cast<void*>(data_.get());
}

}  // namespace convoy
