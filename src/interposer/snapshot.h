// What a program told cuDNN, descriptor by descriptor: copied while it is told, complete when the descriptor is
// finalised, forgotten when it is destroyed (cuDNN uses addresses again).
#pragma once

#include <cudnn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace convoy::interposer {

// One descriptor with all that it refers to.
class Snapshot {
 public:
  explicit Snapshot(cudnnBackendDescriptorType_t type) : type_(type) {}

  cudnnBackendDescriptorType_t type() const { return type_; }

  // The values of an attribute; empty where it was not set. Precondition: T is what the attribute's type holds.
  template <class T>
  std::vector<T> values(cudnnBackendAttributeName_t name) const {
    const Attribute* found = find(name);
    if (found == nullptr) return {};
    std::vector<T> copied(found->bytes.size() / sizeof(T));
    if (!copied.empty()) std::memcpy(copied.data(), found->bytes.data(), copied.size() * sizeof(T));
    return copied;
  }
  template <class T>
  std::optional<T> value(cudnnBackendAttributeName_t name) const {
    const Attribute* found = find(name);
    if (found == nullptr || found->bytes.size() < sizeof(T)) return std::nullopt;
    T first;
    std::memcpy(&first, found->bytes.data(), sizeof(T));
    return first;
  }
  // Of an attribute that may be a float or a double.
  std::optional<double> number(cudnnBackendAttributeName_t name) const;
  // The descriptors that an attribute names; null where one was not known.
  std::vector<std::shared_ptr<const Snapshot>> children(cudnnBackendAttributeName_t name) const;
  std::shared_ptr<const Snapshot> child(cudnnBackendAttributeName_t name) const;  // null: not set, or not known

  struct Attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<const Snapshot>> children;
  };
  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  friend class Descriptors;
  const Attribute* find(cudnnBackendAttributeName_t name) const;

  cudnnBackendDescriptorType_t type_;
  std::vector<Attribute> attributes_;
};

// The descriptors that are alive. Safe from any thread; a descriptor itself is one thread's at a time, as in cuDNN.
class Descriptors {
 public:
  void created(cudnnBackendDescriptor_t raw, cudnnBackendDescriptorType_t type);
  void set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::int64_t count, const void* values);
  // Null where it was created before anybody watched.
  std::shared_ptr<const Snapshot> find(cudnnBackendDescriptor_t raw);
  // Call it before cuDNN destroys it: another thread may get the address right after. Whether it was known.
  bool destroyed(cudnnBackendDescriptor_t raw);

  // Around fork(): all locks held, so that the child finds none of them taken.
  void lock();
  void unlock();

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<cudnnBackendDescriptor_t, std::shared_ptr<Snapshot>> alive;
  };
  Shard& shard_of(cudnnBackendDescriptor_t raw);
  std::array<Shard, 64> shards_;
};

}  // namespace convoy::interposer
