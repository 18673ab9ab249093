// Bytes that nobody changes any more, held once however many have made the same: weights, as plans pack them. A network
// that is prepared for several sizes, or loaded twice, packs its weights alike wherever it takes the same candidates.
#pragma once

#include <cstddef>
#include <memory>

#include "convoy/host_tensor.h"

namespace convoy {

// `made` (of `bytes` bytes, null only for 0), or what somebody holds already that is the same, byte for byte; `made` is
// then given back. It lives until the last holder lets it go. Any number of threads at once.
std::shared_ptr<const std::byte> shared_bytes(std::shared_ptr<std::byte> made, std::size_t bytes);

// Memory of a caller's as a tensor has it: a pointer without a holder.
std::shared_ptr<std::byte> borrowed(const void* data);
// The tensor, for who may outlive such memory: what has no holder is copied. Error: out_of_memory.
Result<HostTensor> owned(HostTensor tensor);

// All that is so held, each once.
std::size_t shared_bytes_held();

}  // namespace convoy
