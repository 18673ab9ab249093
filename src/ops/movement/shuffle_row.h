// Rows whose bytes come from all over a row of another tensor, 16 at a time, by AVX2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace convoy::ops {

using Sixteen = std::array<std::uint8_t, 16>;

// 16 neighbours in x, `from` bytes behind where its row begins, and which of them a byte of y is; 0x80: none of them.
struct ShuffleStep {
  std::int32_t from;
  Sixteen index;
};

constexpr int kMostShuffleSteps = 4;

namespace avx2 {

// y's `bytes`, at least 16, in blocks of 16, of which the last ends with the row: each is what `steps_per_block` steps
// give, and what none of them gives is 0, or where `fills` is not null fill & fills[block].
void shuffle_row(const std::byte* x, const ShuffleStep* steps, int steps_per_block, const Sixteen* fills,
                 const Sixteen& fill, std::byte* y, std::int64_t bytes);

}  // namespace avx2

}  // namespace convoy::ops
