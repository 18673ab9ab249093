#include "device/cuda/gpu.h"

#include <fmt/format.h>

#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"

namespace convoy::cuda {
namespace {

class OwnStream final : public CudaQueue {
 public:
  explicit OwnStream(Stream stream) : CudaQueue(stream.get()), stream_(std::move(stream)) {}

 private:
  Stream stream_;
};

CUstream stream_of(const Queue& queue) { return static_cast<CUstream>(static_cast<const CudaQueue&>(queue).stream()); }

class GraphRecording final : public Recording {
 public:
  explicit GraphRecording(CapturedGraph graph) : graph_(std::move(graph)) {}
  Result<void> enqueue(Queue& queue) const override { return graph_.launch(stream_of(queue)); }

 private:
  CapturedGraph graph_;
};

class EventMark final : public Mark {
 public:
  explicit EventMark(Event event) : event_(std::move(event)) {}
  Result<void> set(Queue& queue) override { return event_.record(stream_of(queue)); }
  Result<void> set_in_recording(Queue& queue) override { return event_.record_in_capture(stream_of(queue)); }
  Result<void> hold(Queue& queue) const override { return event_.wait_in(stream_of(queue)); }
  Result<double> since(const Mark& earlier) const override {
    return Event::seconds(static_cast<const EventMark&>(earlier).event_, event_);
  }
  Result<bool> reached() const override { return event_.reached(); }

 private:
  Event event_;
};

class Gpu final : public Device {
 public:
  explicit Gpu(int ordinal) : ordinal_(ordinal) {}
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override { return fmt::format("cuda:{}", ordinal_); }
  std::size_t alignment() const override { return 256; }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) const override {
    CONVOY_TRY(DeviceMemory memory, DeviceMemory::allocate(ordinal_, bytes, purpose));
    const auto owner = std::make_shared<DeviceMemory>(std::move(memory));
    return Buffer(std::shared_ptr<void>(owner, owner->data()), bytes);
  }
  Result<std::unique_ptr<Queue>> make_queue(int) const override {
    CONVOY_TRY(Stream stream, Stream::create(ordinal_));
    return std::unique_ptr<Queue>(std::make_unique<OwnStream>(std::move(stream)));
  }
  Result<std::shared_ptr<void>> enter() const override {
    CONVOY_TRY(DeviceScope scope, DeviceScope::enter(ordinal_));
    return std::shared_ptr<void>(std::make_shared<DeviceScope>(std::move(scope)));
  }
  Result<Buffer> allocate_host(std::size_t bytes, std::string_view purpose) const override {
    CONVOY_TRY(PinnedMemory memory, PinnedMemory::allocate(ordinal_, bytes, purpose));
    const auto owner = std::make_shared<PinnedMemory>(std::move(memory));
    return Buffer(std::shared_ptr<void>(owner, owner->data()), bytes);
  }
  Result<std::unique_ptr<Recording>> record(Queue& queue, const std::function<Result<void>()>& enqueue) const override {
    CONVOY_TRY(CapturedGraph graph, CapturedGraph::capture(stream_of(queue), enqueue));
    return std::unique_ptr<Recording>(std::make_unique<GraphRecording>(std::move(graph)));
  }
  Result<bool> is_recorded(const Queue& queue) const override { return is_captured(stream_of(queue)); }
  Result<std::shared_ptr<void>> join_recording(const std::function<Result<void>()>& enqueue) const override {
    CONVOY_TRY(std::shared_ptr<KeptByGraph> kept, join_capture(enqueue));
    return std::shared_ptr<void>(std::move(kept));
  }
  Result<std::int64_t> free_bytes() const override {
    CONVOY_TRY(const DeviceMemoryInfo info, memory_info(ordinal_));
    return info.free_bytes;
  }
  Result<std::unique_ptr<Mark>> make_mark() const override {
    CONVOY_TRY(Event event, Event::create(ordinal_));
    return std::unique_ptr<Mark>(std::make_unique<EventMark>(std::move(event)));
  }
  Result<void> check_pointer(const void* pointer, std::string_view field) const override {
    return cuda::check_pointer(pointer, ordinal_, 1, field);
  }

 private:
  int ordinal_;
};

}  // namespace

const Device& gpu(int ordinal) {
  static const auto& all = *[] {  // never destroyed: plans may run while the process ends
    auto* const gpus = new std::vector<Gpu>;
    for (int i = 0; i < kMostDevices; ++i) gpus->emplace_back(i);
    return gpus;
  }();
  return all.at(static_cast<std::size_t>(ordinal));
}

}  // namespace convoy::cuda
