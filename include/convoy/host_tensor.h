// A tensor with its memory, on the host, aligned to 64 bytes. Copies share the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "convoy/result.h"
#include "convoy/tensor.h"

namespace convoy {

struct HostTensor {
  TensorDesc desc;
  std::shared_ptr<std::byte> data;  // desc.bytes() bytes; null only for a tensor never allocated

  // Uninitialised memory for `desc`; out_of_memory where the allocation fails or the size overflows.
  static Result<HostTensor> allocate(TensorDesc desc);
  static Result<HostTensor> zeros(TensorDesc desc);

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data.get());
  }

  // Element by logical (row-major) index, converted; slow, for tests and small tensors.
  double at(std::int64_t index) const;
};

// The same values in another layout or type (copy_tensor).
Result<HostTensor> converted(const HostTensor& tensor, const TensorDesc& desc);

// 64-byte aligned bytes; null when the allocation fails.
std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes);

}  // namespace convoy
