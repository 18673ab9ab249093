#include "device/cuda/errors.h"

#include <fmt/format.h>

namespace convoy::cuda {
namespace {

ErrorCode code_of(CUresult status) {
  if (loses_device(status)) return ErrorCode::device_failed;
  switch (status) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ErrorCode::out_of_memory;
    case CUDA_ERROR_INVALID_VALUE:
      return ErrorCode::invalid_argument;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return ErrorCode::unsupported;
    default:
      return ErrorCode::internal;
  }
}

}  // namespace

bool loses_device(CUresult status) {
  switch (status) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

Error driver_error(CUresult status, std::string_view call, std::string_view purpose) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (const Result<const DriverApi*> api = driver(); api.ok()) {
    (*api)->GetErrorName(status, &name);
    (*api)->GetErrorString(status, &text);
  }
  std::string message(call);
  if (!purpose.empty()) message += fmt::format(" for {}", purpose);
  message += name != nullptr ? fmt::format(": {}", name) : fmt::format(": CUDA error {}", static_cast<int>(status));
  if (text != nullptr) message += fmt::format(" ({})", text);
  if (loses_device(status)) {
    message += ". The device is lost for this process, what ran on it before may be the cause; start it again";
  }
  return {code_of(status), std::move(message)};
}

}  // namespace convoy::cuda
