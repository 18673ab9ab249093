#include "engines/cpu/ceiling/ceiling.h"

#include <gtest/gtest.h>

#include "engines/cpu/ceiling/ceiling_kernels.h"

namespace convoy::cpu {
namespace {

// Times depend on the machine; that the kernels do the work they claim doesn't.
TEST(Ceiling, KernelsDoWhatTheyClaim) {
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_features().isa) continue;
    const CeilingKernels& kernels = isa == Isa::avx512 ? avx512::ceiling_kernels
                                    : isa == Isa::avx2 ? avx2::ceiling_kernels
                                                       : portable::ceiling_kernels;
    const int lanes = kernels.flops_a_round / 24;
    // 12 chains start at 0 to 11; two rounds of 2v + 1 make 4v + 3 of each lane's v.
    EXPECT_EQ(kernels.multiply_add(2, 2, 1), static_cast<float>(lanes * (4 * 66 + 12 * 3)));
    alignas(64) float values[128];
    for (int i = 0; i < 128; ++i) values[i] = static_cast<float>(i);
    EXPECT_EQ(kernels.read(values, 128), 127.0F * 64);
    EXPECT_EQ(kernels.read(values, 64), 63.0F * 32);
  }
}

TEST(Ceiling, IsMeasuredAtEveryInstructionSet) {
  const auto team = make_cpu_team(1);
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > cpu_features().isa) continue;
    const Ceiling ceiling = measure_ceiling(capped(cpu_features(), isa), *team);
    EXPECT_GT(ceiling.f32_flops, 1e7);  // under a sanitizer, too
    EXPECT_GT(ceiling.memory_bytes, 1e6);
  }
}

}  // namespace
}  // namespace convoy::cpu
