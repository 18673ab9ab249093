#include "base/cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/environment.h"

// Null in a program without OpenMP, which this library does not need.
extern "C" int omp_get_num_procs() __attribute__((weak));

namespace convoy {
namespace {

constexpr std::array<std::string_view, 3> kIsaNames = {"portable", "avx2", "avx512"};

struct Registers {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the processor doesn't have the leaf.
Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Registers r;
  if (__get_cpuid_max(leaf & 0x80000000u, nullptr) < leaf) return r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  return r;
}

bool bit(std::uint32_t word, int index) { return ((word >> index) & 1u) != 0; }

// The register states that the operating system saves (XCR0); 0 without OSXSAVE.
std::uint64_t saved_states() {
  if (!bit(cpuid(1).ecx, 27)) return 0;
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

void detect_instruction_sets(CpuFeatures& features) {
  // Bit numbers: Intel SDM volume 2, CPUID leaves 1 and 7; XCR0: volume 1, 13.3.
  const Registers l1 = cpuid(1), l7 = cpuid(7), l7_1 = cpuid(7, 1);
  const std::uint64_t xcr0 = saved_states();
  const bool os_avx = (xcr0 & 0x6) == 0x6;
  const bool os_avx512 = (xcr0 & 0xe6) == 0xe6;
  const bool os_amx = (xcr0 & 0x60000) == 0x60000;
  const bool fma = bit(l1.ecx, 12), avx = bit(l1.ecx, 28), f16c = bit(l1.ecx, 29), avx2 = bit(l7.ebx, 5);
  if (!(os_avx && fma && avx && f16c && avx2)) return;
  features.isa = Isa::avx2;
  const bool f = bit(l7.ebx, 16), dq = bit(l7.ebx, 17), bw = bit(l7.ebx, 30), vl = bit(l7.ebx, 31);
  if (!(os_avx512 && f && dq && bw && vl)) return;
  features.isa = Isa::avx512;
  features.avx512_vnni = bit(l7.ecx, 11);
  features.avx512_vbmi = bit(l7.ecx, 1);
  features.avx512_bf16 = bit(l7_1.eax, 5);
  features.avx512_fp16 = bit(l7.edx, 23);
  features.amx_tile = os_amx && bit(l7.edx, 24);
  features.amx_bf16 = features.amx_tile && bit(l7.edx, 22);
  features.amx_int8 = features.amx_tile && bit(l7.edx, 25);
}

std::string brand_string() {
  char text[49] = {};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Registers r = cpuid(0x80000002u + i);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string brand(text);
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand;
}

void detect_caches(CpuFeatures& features) {
  // Deterministic cache parameters: leaf 4 (Intel), 0x8000001D (AMD), same format.
  const std::uint32_t leaf = cpuid(4).eax != 0 ? 4u : 0x8000001Du;
  for (std::uint32_t i = 0; i < 16; ++i) {
    const Registers r = cpuid(leaf, i);
    const std::uint32_t type = r.eax & 31u, level = (r.eax >> 5) & 7u;
    if (type == 0) break;
    if (type == 2) continue;  // instructions
    const std::int64_t ways = (r.ebx >> 22) + 1, partitions = ((r.ebx >> 12) & 0x3ffu) + 1, line = (r.ebx & 0xfffu) + 1;
    const std::int64_t bytes = ways * partitions * line * (static_cast<std::int64_t>(r.ecx) + 1);
    if (level == 1) features.l1d_bytes = bytes;
    if (level == 2) features.l2_bytes = bytes;
    if (level == 3) features.l3_bytes = bytes;
  }
}

// CPUs in the process's affinity mask. OpenMP binds the thread that starts the program to one of them where it is told
// to (OMP_PROC_BIND), and knows how many there were.
int allowed_cpus() {
  const int of_openmp = omp_get_num_procs != nullptr ? omp_get_num_procs() : 0;
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(capacity);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return std::max(count, of_openmp);
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

std::string_view name_of(Isa isa) { return kIsaNames[static_cast<std::size_t>(isa)]; }

Result<Isa> parse_isa(std::string_view name) {
  for (std::size_t i = 0; i < kIsaNames.size(); ++i) {
    if (name == kIsaNames[i]) return static_cast<Isa>(i);
  }
  return Error{ErrorCode::invalid_argument,
               "instruction set '" + std::string(name) + "' is not one of portable, avx2, avx512"};
}

const CpuFeatures& detected_cpu_features() {
  // Never destroyed: convolutions may run while the process ends.
  static const CpuFeatures& detected = *new CpuFeatures([] {
    CpuFeatures features;
    detect_instruction_sets(features);
    detect_caches(features);
    features.brand = brand_string();
    features.logical_cpus = allowed_cpus();
    return features;
  }());
  return detected;
}

bool amx_permitted() {
  static const bool permitted = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, a component of XSAVE
    return cpu_features().amx_tile && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return permitted;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures& features = *new CpuFeatures([] {
    const auto value = environment(Variable::isa);
    if (!value) return detected_cpu_features();
    const auto isa = parse_isa(*value);  // what is none is environment_faults()'s to say
    return isa.ok() ? capped(detected_cpu_features(), *isa) : detected_cpu_features();
  }());
  return features;
}

CpuFeatures capped(CpuFeatures features, Isa cap) {
  features.isa = std::min(features.isa, cap);
  if (features.isa < Isa::avx512) {
    features.avx512_vnni = features.avx512_vbmi = features.avx512_bf16 = features.avx512_fp16 = false;
    features.amx_tile = features.amx_bf16 = features.amx_int8 = false;
  }
  return features;
}

}  // namespace convoy
