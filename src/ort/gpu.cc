#include "ort/gpu.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"
#include "device/cuda/memory.h"

namespace convoy::ort {
namespace {

using SharedStream = std::shared_ptr<const cuda::Stream>;

struct GpuNotification final : OrtSyncNotificationImpl {
  GpuNotification(const Api& its_api, SharedStream its_stream, cuda::Event its_event)
      : OrtSyncNotificationImpl{kInterfaceVersion, release, activate, wait_on_device, wait_on_host},
        api(its_api),
        stream(std::move(its_stream)),
        event(std::move(its_event)) {}

  static void release(OrtSyncNotificationImpl* self) { delete static_cast<GpuNotification*>(self); }
  static OrtStatus* activate(OrtSyncNotificationImpl* self) {
    auto& made = *static_cast<GpuNotification*>(self);
    return guarded(made.api, [&] { return made.event.record(made.stream->get()); });
  }
  static OrtStatus* wait_on_device(OrtSyncNotificationImpl* self, OrtSyncStream* consumer) {
    auto& made = *static_cast<GpuNotification*>(self);
    return guarded(made.api,
                   [&] { return made.event.wait_in(static_cast<CUstream>(made.api.SyncStream_GetHandle(consumer))); });
  }
  static OrtStatus* wait_on_host(OrtSyncNotificationImpl* self) {
    auto& made = *static_cast<GpuNotification*>(self);
    return guarded(made.api, [&] { return made.event.synchronize(); });
  }

  const Api& api;
  const SharedStream stream;
  const cuda::Event event;
};

struct GpuStream final : OrtSyncStreamImpl {
  GpuStream(const Api& its_api, SharedStream its_stream)
      : OrtSyncStreamImpl{kInterfaceVersion, release, handle, notification, flush, end_run},
        api(its_api),
        stream(std::move(its_stream)) {}

  static void release(OrtSyncStreamImpl* self) { delete static_cast<GpuStream*>(self); }
  static void* handle(OrtSyncStreamImpl* self) { return static_cast<GpuStream*>(self)->stream->get(); }
  static OrtStatus* notification(OrtSyncStreamImpl* self, OrtSyncNotificationImpl** made) {
    auto& of = *static_cast<GpuStream*>(self);
    return guarded(of.api, [&]() -> Result<void> {
      CONVOY_TRY(cuda::Event event, cuda::Event::create(of.stream->ordinal()));
      *made = new GpuNotification(of.api, of.stream, std::move(event));
      return {};
    });
  }
  static OrtStatus* flush(OrtSyncStreamImpl* self) {
    auto& made = *static_cast<GpuStream*>(self);
    return guarded(made.api, [&] { return made.stream->synchronize(); });
  }
  static OrtStatus* end_run(OrtSyncStreamImpl*) { return nullptr; }

  const Api& api;
  const SharedStream stream;
};

class GpuAllocator final : public OrtAllocator {
 public:
  explicit GpuAllocator(const Gpu& gpu) : OrtAllocator{}, gpu_(gpu) {
    version = kInterfaceVersion;
    Alloc = [](OrtAllocator* self, std::size_t bytes) -> void* {
      auto& allocator = *static_cast<GpuAllocator*>(self);
      const auto stream = allocator.gpu_.own_stream();
      if (!stream.ok()) return nullptr;
      void* const data = allocator.allocate(bytes, *stream);
      return (*stream)->synchronize().ok() ? data : nullptr;
    };
    // The stream may be another provider's, or the processor's.
    AllocOnStream = [](OrtAllocator* self, std::size_t bytes, OrtSyncStream* stream) -> void* {
      auto& allocator = *static_cast<GpuAllocator*>(self);
      void* const handle = stream == nullptr ? nullptr : allocator.gpu_.api().SyncStream_GetHandle(stream);
      SharedStream ours = allocator.gpu_.created(static_cast<CUstream>(handle));
      return ours == nullptr ? self->Alloc(self, bytes) : allocator.allocate(bytes, std::move(ours));
    };
    Free = [](OrtAllocator* self, void* data) { static_cast<GpuAllocator*>(self)->free(data); };
    Info = [](const OrtAllocator* self) { return static_cast<const GpuAllocator*>(self)->gpu_.memory(); };
  }

 private:
  struct Block {
    SharedStream stream;  // behind the memory, which goes back to it
    cuda::StreamMemory memory;
  };

  void* allocate(std::size_t bytes, SharedStream stream) {
    const auto pool = cuda::workspace_pool(gpu_.ordinal());
    if (!pool.ok()) return nullptr;
    auto memory = (*pool)->allocate(bytes, stream->get(), "tensors of ONNX Runtime");
    if (!memory.ok() || memory->data() == nullptr) return nullptr;
    void* const data = memory->data();
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, Block{std::move(stream), std::move(*memory)});
    return data;
  }
  void free(void* data) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(data);
  }

  const Gpu& gpu_;
  std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
};

struct Transfer final : OrtDataTransferImpl {
  explicit Transfer(const Gpus& all) : OrtDataTransferImpl{kInterfaceVersion, release, can_copy, copy}, gpus(all) {}

  static void release(OrtDataTransferImpl* self) { delete static_cast<Transfer*>(self); }
  const Gpu* gpu_of(const OrtMemoryDevice* memory) const {
    const EpApi& ep_api = gpus.front()->ep_api();
    const bool of_gpu =
        ep_api.MemoryDevice_GetDeviceType(memory) == kGpuMemory && ep_api.MemoryDevice_GetVendorId(memory) == kNvidia;
    const std::size_t index = ep_api.MemoryDevice_GetDeviceId(memory);
    return of_gpu && index < gpus.size() ? gpus[index].get() : nullptr;
  }
  bool of_host(const OrtMemoryDevice* memory) const {
    return gpus.front()->ep_api().MemoryDevice_GetDeviceType(memory) == kHostMemory;
  }
  static bool can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* from, const OrtMemoryDevice* to) {
    const auto& transfer = *static_cast<const Transfer*>(self);
    const bool from_gpu = transfer.gpu_of(from) != nullptr, to_gpu = transfer.gpu_of(to) != nullptr;
    return (from_gpu && (to_gpu || transfer.of_host(to))) || (to_gpu && transfer.of_host(from));
  }
  static OrtStatus* copy(OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                         std::size_t count) {
    const auto& transfer = *static_cast<const Transfer*>(self);
    const Gpu& any = *transfer.gpus.front();
    return guarded(any.api(), [&]() -> Result<void> {
      for (std::size_t i = 0; i < count; ++i) {
        const Gpu* gpu = transfer.gpu_of(any.ep_api().Value_GetMemoryDevice(from[i]));
        if (gpu == nullptr) gpu = transfer.gpu_of(any.ep_api().Value_GetMemoryDevice(to[i]));
        if (gpu == nullptr) return Error{ErrorCode::invalid_argument, "a copy between tensors that are on no GPU"};
        OrtSyncStream* const stream = streams == nullptr ? nullptr : streams[i];
        void* const handle = stream == nullptr ? nullptr : any.api().SyncStream_GetHandle(stream);
        CONVOY_CHECK(gpu->copy(from[i], to[i], static_cast<CUstream>(handle)));
      }
      return {};
    });
  }

  const Gpus& gpus;
};

struct CopyOperator final : OrtKernelImpl {
  explicit CopyOperator(const Gpu& its_gpu) : OrtKernelImpl{kKernelVersion, 0, compute, release}, gpu(its_gpu) {}

  static OrtStatus* create(void* state, const OrtKernelInfo*, OrtKernelImpl** made) {
    const Gpu& its = *static_cast<const Gpu*>(state);
    return guarded(its.api(), [&]() -> Result<void> {
      *made = new CopyOperator(its);
      return {};
    });
  }
  static void release(OrtKernelImpl* self) { delete static_cast<CopyOperator*>(self); }
  static OrtStatus* compute(OrtKernelImpl* self, OrtKernelContext* context) {
    const Gpu& gpu = static_cast<CopyOperator*>(self)->gpu;
    const Api& api = gpu.api();
    return guarded(api, [&]() -> Result<void> {
      const OrtValue* from = nullptr;
      OrtValue* to = nullptr;
      void* stream = nullptr;
      CONVOY_CHECK(done(api, api.KernelContext_GetInput(context, 0, &from)));
      CONVOY_TRY(const TensorInfo info, info_of(api, from));
      CONVOY_CHECK(done(api, api.KernelContext_GetOutput(context, 0, info.dims.data(), info.dims.size(), &to)));
      CONVOY_CHECK(done(api, api.KernelContext_GetGPUComputeStream(context, &stream)));
      return gpu.copy(from, to, static_cast<CUstream>(stream));
    });
  }

  const Gpu& gpu;
};

}  // namespace

Gpu::Gpu(const Api& api, const EpApi& ep_api, int ordinal, std::string bus, OrtMemoryInfo* memory)
    : api_(api), ep_api_(ep_api), ordinal_(ordinal), bus_(std::move(bus)), memory_(memory) {}

Gpu::~Gpu() { api_.ReleaseMemoryInfo(memory_); }

OrtAllocator* Gpu::create_allocator() const { return new GpuAllocator(*this); }

void Gpu::release(OrtAllocator* allocator) { delete static_cast<GpuAllocator*>(allocator); }

Result<OrtSyncStreamImpl*> Gpu::create_stream() const {
  CONVOY_TRY(cuda::Stream stream, cuda::Stream::create(ordinal_));
  auto shared = std::make_shared<const cuda::Stream>(std::move(stream));
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(shared);
  return new GpuStream(api_, std::move(shared));
}

SharedStream Gpu::created(CUstream handle) const {
  const std::lock_guard lock(mutex_);
  for (const auto& each : streams_) {
    if (SharedStream stream = each.lock(); stream != nullptr && stream->get() == handle) return stream;
  }
  return nullptr;
}

Result<SharedStream> Gpu::own_stream() const {
  const std::lock_guard lock(mutex_);
  if (own_stream_ == nullptr) {
    CONVOY_TRY(cuda::Stream stream, cuda::Stream::create(ordinal_));
    own_stream_ = std::make_shared<const cuda::Stream>(std::move(stream));
  }
  return own_stream_;
}

Result<void> Gpu::copy_to_host(void* host, const void* device, std::size_t bytes, CUstream stream) const {
  CONVOY_TRY(const auto scope, cuda::DeviceScope::enter(ordinal_));
  CONVOY_CHECK(cuda::copy_to_host(host, device, bytes, stream));
  return cuda::synchronize(stream, "a copy to the processor");
}

Result<void> Gpu::copy_from_host(void* device, const void* host, std::size_t bytes, CUstream stream) const {
  CONVOY_TRY(const auto scope, cuda::DeviceScope::enter(ordinal_));
  return cuda::copy_to_device(device, host, bytes, stream);  // which has read what is not pinned when it returns
}

Result<void> Gpu::copy(const OrtValue* from, OrtValue* to, CUstream stream) const {
  const auto is_here = [&](const OrtValue* value) {
    return ep_api_.MemoryDevice_GetDeviceType(ep_api_.Value_GetMemoryDevice(value)) == kGpuMemory;
  };
  std::size_t bytes = 0;
  const void* source = nullptr;
  void* target = nullptr;
  CONVOY_CHECK(done(api_, api_.GetTensorSizeInBytes(from, &bytes)));
  CONVOY_CHECK(done(api_, api_.GetTensorData(from, &source)));
  CONVOY_CHECK(done(api_, api_.GetTensorMutableData(to, &target)));
  SharedStream own;
  if (stream == nullptr) {
    CONVOY_TRY(own, own_stream());
    stream = own->get();
  }
  CONVOY_TRY(const auto scope, cuda::DeviceScope::enter(ordinal_));
  CONVOY_CHECK(!is_here(from) ? cuda::copy_to_device(target, source, bytes, stream)
               : is_here(to)  ? cuda::copy_on_device(target, source, bytes, stream)
                              : cuda::copy_to_host(target, source, bytes, stream));
  return own == nullptr ? Result<void>() : own->synchronize();
}

Result<OrtKernelRegistry*> Gpu::copy_operators(const KernelApi& kernels, const char* name) const {
  OrtKernelRegistry* registry = nullptr;
  CONVOY_CHECK(done(api_, kernels.CreateKernelRegistry(&registry)));
  std::unique_ptr<OrtKernelRegistry, decltype(kernels.ReleaseKernelRegistry)> made(registry,
                                                                                   kernels.ReleaseKernelRegistry);
  for (const bool to_host : {false, true}) {
    OrtKernelDefBuilder* builder = nullptr;
    CONVOY_CHECK(done(api_, kernels.CreateKernelDefBuilder(&builder)));
    const std::unique_ptr<OrtKernelDefBuilder, decltype(kernels.ReleaseKernelDefBuilder)> owned(
        builder, kernels.ReleaseKernelDefBuilder);
    CONVOY_CHECK(
        done(api_, kernels.KernelDefBuilder_SetOperatorType(builder, to_host ? "MemcpyToHost" : "MemcpyFromHost")));
    CONVOY_CHECK(done(api_, kernels.KernelDefBuilder_SetDomain(builder, "")));
    CONVOY_CHECK(done(api_, kernels.KernelDefBuilder_SetSinceVersion(builder, 1, 1)));
    CONVOY_CHECK(done(api_, kernels.KernelDefBuilder_SetExecutionProvider(builder, name)));
    CONVOY_CHECK(done(api_, to_host ? kernels.KernelDefBuilder_SetOutputMemType(builder, 0, kHostOutput)
                                    : kernels.KernelDefBuilder_SetInputMemType(builder, 0, kHostInput)));
    OrtKernelDef* definition = nullptr;
    CONVOY_CHECK(done(api_, kernels.KernelDefBuilder_Build(builder, &definition)));
    const std::unique_ptr<OrtKernelDef, decltype(kernels.ReleaseKernelDef)> defined(definition,
                                                                                    kernels.ReleaseKernelDef);
    CONVOY_CHECK(done(
        api_, kernels.KernelRegistry_AddKernel(registry, definition, CopyOperator::create, const_cast<Gpu*>(this))));
  }
  return made.release();
}

Result<Gpus> all_gpus(const Api& api, const EpApi& ep_api) {
  CONVOY_TRY(const int count, cuda::device_count());
  Gpus gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CONVOY_TRY(const cuda::DriverApi* driver, cuda::driver_of(ordinal));
    std::array<char, 32> bus{};
    CONVOY_CHECK(
        cuda::check(driver->DeviceGetPCIBusId(bus.data(), int{bus.size()}, ordinal), "cuDeviceGetPCIBusId", ""));
    OrtMemoryInfo* memory = nullptr;
    // An alignment that is said would make it another device than the "cuda" that a person names.
    constexpr int kAlignment = 0, kDeviceAllocator = 0;
    CONVOY_CHECK(done(api, api.CreateMemoryInfo_V2("ConvoyCuda", kGpuMemory, kNvidia, ordinal, kDeviceMemory,
                                                   kAlignment, kDeviceAllocator, &memory)));
    gpus.push_back(std::make_unique<const Gpu>(api, ep_api, ordinal, bus.data(), memory));
  }
  return gpus;
}

OrtDataTransferImpl* create_transfer(const Gpus& gpus) { return new Transfer(gpus); }

}  // namespace convoy::ort
