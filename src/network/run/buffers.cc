#include "network/run/buffers.h"

#include "base/fork_mutex.h"
#include "network/assign/memory_plan.h"

namespace convoy::network {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10;      // smaller ones malloc keeps itself
constexpr std::size_t kMostFree = std::size_t{256} << 20;  // what is kept while nobody has it

}  // namespace

Result<HostTensor> Buffers::allocate(TensorDesc desc) {
  CONVOY_CHECK(check_memory("a tensor of dims " + to_string(desc.dims), desc.bytes()));
  auto bytes = static_cast<std::size_t>(desc.bytes());
  if (bytes < kLeast) return HostTensor::allocate(std::move(desc));
  std::shared_ptr<std::byte> buffer = take(bytes);
  if (!buffer) {
    CONVOY_TRY(buffer, [&]() -> Result<std::shared_ptr<std::byte>> {
      CONVOY_TRY(HostTensor made, HostTensor::allocate(desc));
      return made.data;
    }());
  }
  std::byte* const data = buffer.get();
  const auto give_back = [own = shared_from_this(), buffer = std::move(buffer), bytes](std::byte*) {
    own->give_back(buffer, bytes);
  };
  return HostTensor{std::move(desc), std::shared_ptr<std::byte>(data, give_back)};
}

std::shared_ptr<std::byte> Buffers::take(std::size_t& bytes) {
  const std::lock_guard lock(fork_mutex());
  const auto found = free_.lower_bound(bytes);
  if (found == free_.end() || found->first > bytes + bytes / 4) return nullptr;
  std::shared_ptr<std::byte> buffer = std::move(found->second);
  bytes = found->first;
  free_bytes_ -= bytes;
  free_.erase(found);
  return buffer;
}

void Buffers::give_back(std::shared_ptr<std::byte> buffer, std::size_t bytes) {
  const std::lock_guard lock(fork_mutex());
  if (free_bytes_ + bytes > kMostFree) return;
  free_bytes_ += bytes;
  free_.emplace(bytes, std::move(buffer));
}

}  // namespace convoy::network
