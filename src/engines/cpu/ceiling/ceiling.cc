#include "engines/cpu/ceiling/ceiling.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "engines/cpu/ceiling/ceiling_kernels.h"

namespace convoy::cpu {
namespace portable {
namespace {

// Vectors of the x86-64 baseline, which has no FMA.
using Vf = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;
constexpr int kChains = 12;

float sum_of(Vf v) { return v[0] + v[1] + v[2] + v[3]; }

float multiply_add(std::int64_t rounds, float factor, float summand) {
  const Vf f = {factor, factor, factor, factor}, s = {summand, summand, summand, summand};
  Vf sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = s * static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * f + s;
  }
  float all = 0;
  for (const Vf sum : sums) all += sum_of(sum);
  return all;
}

float read(const float* values, std::int64_t count) {
  const auto* vectors = reinterpret_cast<const Vf*>(values);  // aligned to 64 bytes
  Vf sums[4] = {};
  for (std::int64_t i = 0; i < count / kLanes; i += 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[j] += vectors[i + j];
  }
  return sum_of(sums[0] + sums[1] + sums[2] + sums[3]);
}

}  // namespace

const CeilingKernels ceiling_kernels = {2 * kChains * kLanes, multiply_add, read};

}  // namespace portable

namespace {

constexpr int kSlices = 12;
constexpr double kSliceSeconds = 4e-3;
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;  // read from memory, all threads together
constexpr std::int64_t kPiece = 64;                           // floats

const CeilingKernels& kernels_of(Isa isa) {
  return isa == Isa::avx512 ? avx512::ceiling_kernels
         : isa == Isa::avx2 ? avx2::ceiling_kernels
                            : portable::ceiling_kernels;
}

// What the kernels return goes here: no compiler can leave them out.
std::atomic<float> sink;

// Seconds of a slice: every thread does `work` at once.
template <class Work>
double slice(ThreadTeam& team, const Work& work) {
  const double start = monotonic_seconds();
  team.run([&](int thread) { sink.store(work(thread), std::memory_order_relaxed); });
  return std::max(monotonic_seconds() - start, 1e-9);
}

// The best of several slices of `work(thread, times)`, which does `amount` for each of `times` on all threads together.
template <class Work>
double best_rate(ThreadTeam& team, double amount, const Work& work) {
  std::int64_t times = 1;
  const auto timed = [&] { return slice(team, [&](int thread) { return work(thread, times); }); };
  timed();  // wakes the team and touches the memory
  for (double seconds = timed(); seconds < kSliceSeconds; seconds = timed()) {
    times = std::max(times * 2, static_cast<std::int64_t>(static_cast<double>(times) * kSliceSeconds / seconds));
  }
  double best = 0;
  for (int i = 0; i < kSlices; ++i) best = std::max(best, amount * static_cast<double>(times) / timed());
  return best;
}

// Of reading `bytes` in all, each thread its part of them.
double read_rate(ThreadTeam& team, const CeilingKernels& kernels, std::int64_t bytes) {
  const std::int64_t floats = bytes / static_cast<std::int64_t>(sizeof(float)) / team.size() / kPiece * kPiece;
  if (floats == 0) return 0;
  std::vector<std::unique_ptr<float, decltype(&std::free)>> parts;
  for (int i = 0; i < team.size(); ++i) {
    auto* part = static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>(floats) * sizeof(float)));
    if (part == nullptr) return 0;
    parts.emplace_back(part, &std::free);
  }
  // Each thread touches its own part first, so that it lies in its memory node.
  team.run([&](int thread) { std::fill_n(parts[thread].get(), floats, 1.0F); });
  const double all = static_cast<double>(floats) * sizeof(float) * team.size();
  return best_rate(team, all, [&](int thread, std::int64_t times) {
    float sum = 0;
    for (std::int64_t i = 0; i < times; ++i) sum += kernels.read(parts[thread].get(), floats);
    return sum;
  });
}

}  // namespace

Ceiling measure_ceiling(const CpuFeatures& cpu, ThreadTeam& team) {
  const CeilingKernels& kernels = kernels_of(cpu.isa);
  constexpr std::int64_t kRounds = 1000;
  Ceiling ceiling;
  ceiling.f32_flops =
      best_rate(team, static_cast<double>(kRounds) * kernels.flops_a_round * team.size(), [&](int, std::int64_t times) {
        // Towards 1, without ever reaching subnormal numbers.
        return kernels.multiply_add(times * kRounds, 0.5F, 0.5F);
      });
  // In the shared cache, but not in the private ones.
  const std::int64_t cached = std::min(cpu.l3_bytes / 2, kMostBytes / 4);
  if (cached > 2 * cpu.l2_bytes * team.size()) ceiling.cache_bytes = read_rate(team, kernels, cached);
  ceiling.memory_bytes = read_rate(team, kernels, std::clamp(4 * cpu.l3_bytes, kMostBytes / 4, kMostBytes));
  return ceiling;
}

}  // namespace convoy::cpu
