// Where a problem runs: on the processor, or on one NVIDIA GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "convoy/cxx20.h"

namespace convoy {

enum class DeviceKind : std::uint8_t { cpu, cuda };
std::string_view name_of(DeviceKind kind);  // "cpu", "cuda"

// What engines must know of a GPU. src/device/cuda fills it.
struct CudaDevice {
  int ordinal = 0;                          // as the driver counts: "cuda:0"
  std::string name;                         // "NVIDIA H200"
  int architecture = 0;                     // 10 * major + minor: 90 is sm_90
  int sm_count = 0;                         // streaming multiprocessors
  std::int64_t memory_bytes = 0;            // of the device, whoever uses it
  std::int64_t l2_bytes = 0;                // last cache before memory
  std::int64_t shared_bytes_per_block = 0;  // with the opt-in
  std::int64_t shared_bytes_per_sm = 0;
  int registers_per_sm = 0;  // of 32 bits
  int threads_per_sm = 0;
  int driver_version = 0;  // the CUDA version it implements: 13000
  std::string driver;      // "580.159.04"; empty where NVML is missing
  friend bool operator==(const CudaDevice&, const CudaDevice&) = default;
};

}  // namespace convoy
