// Bytes that nobody changes any more, held once however many have made the same: weights, as plans pack them. A network
// that is prepared for several sizes, or loaded twice, packs its weights alike wherever it takes the same candidates.
#pragma once

#include <cstddef>
#include <memory>

namespace convoy {

// `made` (of `bytes` bytes, null only for 0), or what somebody holds already that is the same, byte for byte; `made` is
// then given back. It lives until the last holder lets it go. Any number of threads at once.
std::shared_ptr<const std::byte> shared_bytes(std::shared_ptr<std::byte> made, std::size_t bytes);

// All that is so held, each once.
std::size_t shared_bytes_held();

}  // namespace convoy
