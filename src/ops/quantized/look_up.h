// Functions of a byte, by a table of all of its values.
#pragma once

#include <array>
#include <cstdint>

#include "convoy/cpu.h"

namespace convoy::ops {

using ByteTable = std::array<std::uint8_t, 256>;

// y[i] = table[x[i]]. y is x or does not overlap it.
using LookUpRow = void (*)(const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count);

// The widest that the processor has.
LookUpRow look_up_row(const CpuFeatures& cpu);

namespace avx2 {
void look_up_row(const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count);
}
namespace avx512_vbmi {
void look_up_row(const ByteTable& table, const std::uint8_t* x, std::uint8_t* y, std::int64_t count);
}

}  // namespace convoy::ops
