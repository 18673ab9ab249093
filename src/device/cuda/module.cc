#include "device/cuda/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"

namespace convoy::cuda {

Result<Module> Module::load(int ordinal, std::span<const char> image, const std::string& name) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  std::array<char, 4096> log{};
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  const CUresult status =
      scope.api().ModuleLoadDataEx(&module, image.data(), options.size(), options.data(), values.data());
  if (status != CUDA_SUCCESS) {
    Error error = driver_error(status, "cuModuleLoadDataEx", fmt::format("{} on cuda:{}", name, ordinal));
    if (log[0] != '\0') error.message += fmt::format("; the driver's log: {}", log.data());
    return error;
  }
  return Module(ordinal, module, name);
}

Module::Module(Module&& other) noexcept
    : ordinal_(other.ordinal_), module_(std::exchange(other.module_, nullptr)), name_(std::move(other.name_)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(ordinal_, other.ordinal_);
  std::swap(module_, other.module_);
  std::swap(name_, other.name_);
  return *this;
}

Module::~Module() {
  if (module_ == nullptr) return;
  const auto scope = DeviceScope::enter(ordinal_);
  if (scope.ok()) scope->api().ModuleUnload(module_);
}

Result<Kernel> Module::kernel(const std::string& name, int dynamic_shared_bytes) const {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal_));
  Kernel kernel;
  kernel.name = name;
  CONVOY_CHECK(check(scope.api().ModuleGetFunction(&kernel.function, module_, name.c_str()), "cuModuleGetFunction",
                     fmt::format("kernel {} of {}", name, name_)));
  if (dynamic_shared_bytes > 0) {
    CONVOY_CHECK(check(scope.api().FuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                    dynamic_shared_bytes),
                       "cuFuncSetAttribute",
                       fmt::format("{} bytes of shared memory for kernel {}", dynamic_shared_bytes, name)));
  }
  return kernel;
}

Result<KernelResources> Module::resources(const Kernel& kernel) const {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal_));
  KernelResources resources;
  for (const auto& [attribute, value] : {std::pair{CU_FUNC_ATTRIBUTE_NUM_REGS, &resources.registers},
                                         std::pair{CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &resources.spilled_bytes},
                                         std::pair{CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &resources.static_shared_bytes},
                                         std::pair{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &resources.most_threads}}) {
    CONVOY_CHECK(check(scope.api().FuncGetAttribute(value, attribute, kernel.function), "cuFuncGetAttribute",
                       fmt::format("kernel {}", kernel.name)));
  }
  return resources;
}

Result<std::span<std::byte>> Module::global(const std::string& name) const {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal_));
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CONVOY_CHECK(check(scope.api().ModuleGetGlobal(&address, &bytes, module_, name.c_str()), "cuModuleGetGlobal",
                     fmt::format("variable {} of {}", name, name_)));
  return std::span<std::byte>(reinterpret_cast<std::byte*>(address), bytes);
}

Result<void> keep_within(int ordinal, int sms, const Kernel& kernel, Launch& shape) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  int blocks = 0;
  const auto threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  CONVOY_CHECK(check(scope.api().OccupancyMaxActiveBlocksPerMultiprocessor(
                         &blocks, kernel.function, threads, static_cast<std::size_t>(shape.dynamic_shared_bytes)),
                     "cuOccupancyMaxActiveBlocksPerMultiprocessor", fmt::format("kernel {}", kernel.name)));
  const unsigned fitting = static_cast<unsigned>(std::max(1, blocks * sms)) / shape.cluster.x * shape.cluster.x;
  shape.grid.x = std::min(shape.grid.x, std::max(shape.cluster.x, fitting));
  shape.overlapped = false;
  return {};
}

Result<void> launch(const Kernel& kernel, const Launch& shape, std::span<void* const> arguments, CUstream stream) {
  CONVOY_TRY(const DriverApi* api, driver());
  CUlaunchConfig config{};
  config.gridDimX = shape.grid.x;
  config.gridDimY = shape.grid.y;
  config.gridDimZ = shape.grid.z;
  config.blockDimX = shape.block.x;
  config.blockDimY = shape.block.y;
  config.blockDimZ = shape.block.z;
  config.sharedMemBytes = static_cast<unsigned>(shape.dynamic_shared_bytes);
  config.hStream = stream;
  std::array<CUlaunchAttribute, 2> attributes{};
  config.attrs = attributes.data();
  if (shape.cluster.x * shape.cluster.y * shape.cluster.z > 1) {
    CUlaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim = {shape.cluster.x, shape.cluster.y, shape.cluster.z};
  }
  if (shape.overlapped) {
    CUlaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  const CUresult status = api->LaunchKernelEx(&config, kernel.function, const_cast<void**>(arguments.data()), nullptr);
  if (status == CUDA_SUCCESS) return {};
  return driver_error(status, "cuLaunchKernelEx",
                      fmt::format("kernel {}, grid {}x{}x{}, block {}x{}x{}, {} bytes of dynamic shared memory",
                                  kernel.name, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                                  shape.block.z, shape.dynamic_shared_bytes));
}

}  // namespace convoy::cuda
