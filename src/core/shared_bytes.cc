#include "core/shared_bytes.h"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "core/hash.h"

namespace convoy {
namespace {

// Of the size and up to 1024 words spread over all of them: enough to tell weights apart, and what has the same is
// compared as a whole.
std::uint64_t hash_of(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kWords = 1024;
  Hash hash;
  hash.add(bytes);
  const std::size_t words = bytes / sizeof(std::uint64_t);
  const std::size_t step = words / kWords + 1;
  for (std::size_t i = 0; i < words; i += step) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + i * sizeof word, sizeof word);
    hash.add_word(word);
  }
  return hash.value();
}

class Table {
 public:
  std::shared_ptr<const std::byte> share(std::shared_ptr<std::byte> made, std::size_t bytes) {
    const std::byte* const data = made.get();
    const auto mine = std::make_shared<Held>(*this, std::move(made), bytes, hash_of(data, bytes));
    std::vector<std::shared_ptr<Held>> others;  // let go after the lock: each may be the last holder
    const NoFork no_fork;
    const std::lock_guard lock(mutex_);
    for (auto [entry, end] = entries_.equal_range(mine->hash); entry != end; ++entry) {
      const auto& held = others.emplace_back(entry->second.lock());
      if (held != nullptr && held->bytes == bytes && std::memcmp(held->data.get(), data, bytes) == 0) {
        return {held, held->data.get()};
      }
    }
    entries_.emplace(mine->hash, mine);
    mine->is_listed = true;
    bytes_ += bytes;
    return {mine, data};
  }

  std::size_t bytes() const {
    const NoFork no_fork;
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Held {
    Held(Table& in, std::shared_ptr<std::byte> made, std::size_t size, std::uint64_t of)
        : table(in), data(std::move(made)), bytes(size), hash(of) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() {
      if (is_listed) table.forget(*this);
    }
    Table& table;
    std::shared_ptr<std::byte> data;
    std::size_t bytes;
    std::uint64_t hash;
    bool is_listed = false;
  };

  // Its entry, or another's that ended with it.
  void forget(const Held& held) {
    const NoFork no_fork;
    const std::lock_guard lock(mutex_);
    bytes_ -= held.bytes;
    const auto [first, end] = entries_.equal_range(held.hash);
    for (auto entry = first; entry != end; ++entry) {
      if (!entry->second.expired()) continue;
      entries_.erase(entry);
      return;
    }
  }

  mutable std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, std::weak_ptr<Held>> entries_;
  std::size_t bytes_ = 0;
};

Table& table() {
  static Table& only = *new Table;  // never destroyed: plans may go while the process ends
  return only;
}

}  // namespace

std::shared_ptr<const std::byte> shared_bytes(std::shared_ptr<std::byte> made, std::size_t bytes) {
  return bytes == 0 ? std::move(made) : table().share(std::move(made), bytes);
}

std::shared_ptr<std::byte> borrowed(const void* data) {
  return {std::shared_ptr<void>(), static_cast<std::byte*>(const_cast<void*>(data))};
}

Result<HostTensor> owned(HostTensor tensor) {
  if (tensor.data == nullptr || tensor.data.use_count() > 0) return tensor;
  CONVOY_TRY(HostTensor copy, HostTensor::allocate(tensor.desc));
  std::memcpy(copy.data.get(), tensor.data.get(), static_cast<std::size_t>(tensor.desc.bytes()));
  return copy;
}

std::size_t shared_bytes_held() { return table().bytes(); }

}  // namespace convoy
