// The processor as engines see it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "convoy/result.h"

namespace convoy {

// Instruction sets that own engines are built for, in ascending order; each includes the ones before it.
enum class Isa : std::uint8_t {
  portable,  // x86-64 baseline, plain C++
  avx2,      // AVX2 + FMA + F16C
  avx512,    // AVX-512 F, BW, DQ, VL
};

std::string_view name_of(Isa isa);
Result<Isa> parse_isa(std::string_view name);

struct CpuFeatures {
  Isa isa = Isa::portable;
  bool avx512_vnni = false;
  bool avx512_vbmi = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool amx_tile = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;
  std::string brand;           // CPUID brand string
  int logical_cpus = 1;        // those this process may run on
  std::int64_t l1d_bytes = 0;  // a core's
  std::int64_t l2_bytes = 0;   // a core's
  std::int64_t l3_bytes = 0;   // shared
  friend bool operator==(const CpuFeatures&, const CpuFeatures&) = default;
};

// Detected from CPUID feature bits (never from the model number) and the operating system's support, then capped by the
// environment variable CONVOY_ISA (portable, avx2, avx512). Detected once.
const CpuFeatures& cpu_features();

// The same features as they would be under a lower cap (tests run every instruction set in one process).
CpuFeatures capped(CpuFeatures features, Isa cap);

}  // namespace convoy
