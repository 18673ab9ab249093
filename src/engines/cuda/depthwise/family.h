// A family of depthwise kernels, and what a family says for itself: which configurations can run, how one is compiled
// and launched, and what it should take. docs/cuda-kernels.md has an example.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "convoy/device.h"
#include "engines/cuda/compiler/arithmetic.h"
#include "engines/cuda/compiler/constants.h"
#include "engines/cuda/depthwise/shape.h"

namespace convoy::cuda {

inline constexpr std::int64_t kRegistersPerSm = 65536;
inline constexpr std::int64_t kSharedPerSm = 227 * 1024;  // bytes
inline constexpr std::int64_t kMostShared = 113 * 1024;   // that leave room for a second block

// How a configuration is spread over a device. Families derive what they need besides.
struct DepthwiseBlocks {
  std::int64_t threads = 256;  // of a block
  std::int64_t blocks_per_sm = 1;
  std::int64_t grid = 1;
  std::int64_t shared_bytes = 0;  // dynamic
  std::int64_t splits = 1;        // shares of the work; wgrad: whose sums are added last
  double balance = 1;             // share of their time that blocks have work, where they walk over several units
};

// What a configuration compiles and launches.
struct DepthwiseKernel {
  // With the constants of the shape and the blocks; the family adds its own. A kernel that does not know the batch has
  // a last parameter of sizes, {batch}, and serves all batches that take its configuration.
  DepthwiseKernel(const char* source, const DepthwiseShape& shape, const DepthwiseBlocks& blocks,
                  bool knows_batch = true);
  const char* source;  // of engines/cuda/kernels; its kernel is depthwise, or depthwise_wgrad
  DepthwiseBlocks blocks;
  Constants constants;
  std::vector<std::byte> sizes;
  bool adds_shares;        // wgrad: reduce.cu adds up blocks.splits shares of sums; else the kernel writes the result
  bool taps_first = true;  // in a share, all channels of a tap follow one another; else all taps of a channel
};

struct DepthwiseKnob {
  const char* name;
  const char* text;  // "of a block"
};

// A row of depthwise_families().
struct DepthwiseFamily {
  using Values = std::array<std::int64_t, 4>;  // of the knobs; 0 where there are fewer
  const char* word;                            // of the knob `kernel`
  std::span<const DepthwiseKnob> knobs;        // besides `kernel`, in the order of their names
  bool skips_padding;                          // wgrad takes no zero beside x as data
  std::vector<Values> (*configurations)(const DepthwiseShape&, const CudaDevice&);
  double (*seconds)(const Values&, const DepthwiseShape&, const CudaDevice&);
  DepthwiseKernel (*kernel)(const Values&, const DepthwiseShape&, const CudaDevice&);
};

// The row of a struct F whose members are a configuration's values, in the order of F::knobs:
//   static constexpr const char* word;
//   static constexpr std::array<DepthwiseKnob, ..> knobs;
//   static constexpr bool skips_padding = true;            where that is so
//   static std::vector<F> configurations(shape, device);   those that can run; none where the family doesn't fit
//   double seconds(shape, device) const;                   predicted
//   DepthwiseKernel kernel(shape, device) const;
template <class F>
concept SkipsPadding = requires {
  F::skips_padding;
};

template <class F>
F family_value(const DepthwiseFamily::Values& values) {
  F made{};
  std::memcpy(&made, values.data(), F::knobs.size() * sizeof(std::int64_t));
  return made;
}

template <class F>
constexpr DepthwiseFamily family_of() {
  using Values = DepthwiseFamily::Values;
  constexpr std::size_t kBytes = F::knobs.size() * sizeof(std::int64_t);
  static_assert(std::is_trivially_copyable_v<F> && kBytes <= sizeof(Values) && (kBytes == 0 || kBytes == sizeof(F)));
  return {F::word,
          F::knobs,
          SkipsPadding<F>,
          [](const DepthwiseShape& shape, const CudaDevice& device) {
            std::vector<Values> all;
            for (const F& each : F::configurations(shape, device)) {
              std::memcpy(all.emplace_back().data(), &each, kBytes);
            }
            return all;
          },
          [](const Values& values, const DepthwiseShape& shape, const CudaDevice& device) {
            return family_value<F>(values).seconds(shape, device);
          },
          [](const Values& values, const DepthwiseShape& shape, const CudaDevice& device) {
            return family_value<F>(values).kernel(shape, device);
          }};
}

// The first is `general`, which takes every problem.
std::span<const DepthwiseFamily* const> depthwise_families();

inline std::int64_t sms_of(const CudaDevice& device) { return device.sm_count > 1 ? device.sm_count : 1; }

// As many shares of `units` as are asked for, or fewer that are as large.
inline std::int64_t even_shares(std::int64_t units, std::int64_t asked) {
  return ceil_div(units, ceil_div(units, asked));
}
// The mean of shares beside the largest, when `units` are spread over `shares`.
inline double balance_of(std::int64_t units, std::int64_t shares) {
  return static_cast<double>(units) / static_cast<double>(shares * ceil_div(units, shares));
}

}  // namespace convoy::cuda
