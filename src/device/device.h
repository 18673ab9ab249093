// A device: memory there, queues, and which pointers belong to it. Who runs something gets its device from the caller,
// so that a test can hand in one of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "convoy/engine.h"
#include "convoy/queue.h"
#include "convoy/result.h"

namespace convoy {

// Memory of a device. Copies share it; nothing may still use it when the last one ends.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<void> data, std::size_t bytes) : data_(std::move(data)), bytes_(bytes) {}
  void* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  const std::shared_ptr<void>& share() const { return data_; }

 private:
  std::shared_ptr<void> data_;
  std::size_t bytes_ = 0;
};

// What was enqueued once while it was recorded, and is launched again as a whole. It keeps what belongs to it alone.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual Result<void> enqueue(Queue& queue) const = 0;
};

// A point in a queue, and when it was reached.
class Mark {
 public:
  virtual ~Mark() = default;
  virtual Result<void> set(Queue& queue) = 0;                   // here and now
  virtual Result<void> set_in_recording(Queue& queue) = 0;      // whenever that is launched
  virtual Result<void> hold(Queue& queue) const = 0;            // what is enqueued there from now on begins after it
  virtual Result<double> since(const Mark& earlier) const = 0;  // seconds; both were reached
  virtual Result<bool> reached() const = 0;                     // without waiting
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;       // "cpu", "cuda:0"
  virtual std::size_t alignment() const = 0;  // of its buffers, and of the workspaces that plans take there

  // Contents unspecified; null where `bytes` is 0. Error: out_of_memory says for which purpose.
  virtual Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) const = 0;
  // `threads` are a processor's; a GPU has a stream of its own.
  virtual Result<std::unique_ptr<Queue>> make_queue(int threads) const = 0;
  // The calling thread may use the device's queues while the object lives.
  virtual Result<std::shared_ptr<void>> enter() const = 0;
  // Memory of the processor that the device copies from and to without a detour.
  virtual Result<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) const;
  // Records what `enqueue`, called once on this thread, puts into the queue; nothing of it runs. It allocates nothing
  // and waits for nothing. Null: this device records nothing, and nothing was enqueued.
  virtual Result<std::unique_ptr<Recording>> record(Queue& queue, const std::function<Result<void>()>& enqueue) const;
  // Whether the caller records what is put into this queue of his, so that nothing of it runs now.
  virtual Result<bool> is_recorded(const Queue& queue) const;
  // Calls `enqueue`, which puts into such a queue; meanwhile this thread may allocate. What is returned must live as
  // long as the caller launches what he records.
  virtual Result<std::shared_ptr<void>> join_recording(const std::function<Result<void>()>& enqueue) const;
  virtual Result<std::unique_ptr<Mark>> make_mark() const;  // null: this device has none
  virtual Result<std::int64_t> free_bytes() const;          // to anybody; of the processor's memory nobody asks
  // Whether the pointer can be read or written by what runs there. The error names the field.
  virtual Result<void> check_pointer(const void* pointer, std::string_view field) const = 0;
};

// The one that this process runs on.
const Device& processor();

// What a request is for. Whether there is such a GPU comes out when it is used.
const Device& device_of(const PlanRequest& request);

// "cpu", "cuda", "cuda:1". Error: another name.
Result<const Device*> find_device(std::string_view name);

// A buffer that grows to the largest size asked for and is kept for the next user. One user at a time.
class Scratch {
 public:
  explicit Scratch(const Device& device = processor()) : device_(&device) {}
  // At least `bytes` (null for 0), contents unspecified; what an earlier call gave is invalid once it grows.
  Result<void*> reserve(std::size_t bytes);
  std::size_t capacity() const { return buffer_.bytes(); }

 private:
  const Device* device_;
  Buffer buffer_;
};

}  // namespace convoy
