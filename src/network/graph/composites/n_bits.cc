// ONNX Runtime's weights of 2, 4 and 8 bits, quantized by blocks: as a matrix (MatMulNBits), as a table of rows
// (GatherBlockQuantized).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "network/graph/composite.h"

namespace convoy::network {
namespace {

// Element `index` of numbers of `bits` bits, the first in the lowest bits of a byte.
int unpacked(const std::uint8_t* bytes, std::int64_t index, int bits) {
  const std::int64_t at = index * bits;
  return bytes[at / 8] >> (at % 8) & ((1 << bits) - 1);
}

struct NBits {
  std::int64_t rows = 0, depth = 0;  // N, K
  std::int64_t block = 0, blocks = 0;
  int bits = 4;
};

Result<NBits> n_bits_of(Expansion& e) {
  NBits n;
  CONVOY_TRY(n.rows, e.node().integer("N", 0));
  CONVOY_TRY(n.depth, e.node().integer("K", 0));
  CONVOY_TRY(n.block, e.node().integer("block_size", 0));
  CONVOY_TRY(const std::int64_t bits, e.node().integer("bits", 4));
  CONVOY_TRY(const std::int64_t prepacked, e.node().integer("weight_prepacked", 0));
  if (bits != 2 && bits != 4 && bits != 8) return e.bad(fmt::format("bits={} is not 2, 4 or 8", bits));
  if (prepacked != 0) return e.bad(fmt::format("weight_prepacked={} is some GPU's own format", prepacked));
  if (n.rows < 1 || n.depth < 1) return e.bad(fmt::format("N={}, K={}: sizes are needed", n.rows, n.depth));
  constexpr std::int64_t kLongest = std::int64_t{1} << 30;
  if (n.block < 16 || n.block > kLongest || (n.block & (n.block - 1)) != 0) {
    return e.bad(fmt::format("block_size={} is not a power of two from 16 on", n.block));
  }
  n.bits = static_cast<int>(bits);
  n.blocks = (n.depth - 1) / n.block + 1;
  return n;
}

// An optional constant input of a type and of so many elements.
Result<std::optional<HostTensor>> constant_of(Expansion& e, int input, const char* what, std::int64_t elements) {
  if (!e.has(input)) return std::optional<HostTensor>();
  auto tensor = e.constant(e.input(input));
  if (tensor->desc.elements() != elements) {
    return e.bad(fmt::format("input {} ({}) has dims [{}], it needs {} elements", input, what,
                             to_string(tensor->desc.dims), elements));
  }
  return tensor;
}

// MatMul with weights [N, K] whose elements are (q - zero) * scale, block by block along K.
Result<void> matmul_n_bits(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 6));
  CONVOY_TRY(const NBits n, n_bits_of(e));
  const auto bytes = checked_elements({n.rows, n.blocks, n.block / 8 * n.bits});
  if (!bytes.ok()) return e.bad(fmt::format("N={}, K={}: {}", n.rows, n.depth, bytes.error().message));
  const std::int64_t bytes_a_block = n.block * n.bits / 8, zero_bytes = (n.blocks * n.bits + 7) / 8;
  CONVOY_TRY(const auto weights, constant_of(e, 1, "B", *bytes));
  CONVOY_TRY(const auto scales, constant_of(e, 2, "scales", n.rows * n.blocks));
  const bool packed_zeros = e.has(3) && e.type(e.input(3)) == DataType::u8;
  CONVOY_TRY(const auto zeros, constant_of(e, 3, "zero_points", n.rows * (packed_zeros ? zero_bytes : n.blocks)));
  CONVOY_TRY(const auto groups, constant_of(e, 4, "g_idx", n.depth));
  if (weights->desc.type != DataType::u8) return e.bad("input 1 (B) must be of u8");
  std::vector<std::int64_t> block_of(static_cast<std::size_t>(n.depth));
  for (std::int64_t k = 0; k < n.depth; ++k) {
    const std::int64_t block = groups ? static_cast<std::int64_t>(groups->at(k)) : k / n.block;
    if (block < 0 || block >= n.blocks) return e.bad(fmt::format("g_idx[{}]={} is out of range", k, block));
    block_of[static_cast<std::size_t>(k)] = block;
  }
  const DataType type = e.type(e.input(0));
  CONVOY_TRY(HostTensor wide, HostTensor::allocate(TensorDesc::packed(type, {n.depth, n.rows})));
  for (std::int64_t row = 0; row < n.rows; ++row) {
    const auto* packed = weights->as<std::uint8_t>() + row * n.blocks * bytes_a_block;
    std::vector<float> scale, zero;
    for (std::int64_t b = 0; b < n.blocks; ++b) {
      scale.push_back(static_cast<float>(scales->at(row * n.blocks + b)));
      zero.push_back(!zeros ? static_cast<float>(1 << (n.bits - 1))
                     : packed_zeros
                         ? static_cast<float>(unpacked(zeros->as<std::uint8_t>() + row * zero_bytes, b, n.bits))
                         : static_cast<float>(zeros->at(row * n.blocks + b)));
    }
    for (std::int64_t k = 0; k < n.depth; ++k) {
      const auto block = static_cast<std::size_t>(block_of[static_cast<std::size_t>(k)]);
      const float value = (static_cast<float>(unpacked(packed, k, n.bits)) - zero[block]) * scale[block];
      store_from_double(type, wide.data.get(), k * n.rows + row, value);
    }
  }
  CONVOY_TRY(int y, e.add("MatMul", {e.input(0), e.constant_value(std::move(wide))}));
  if (e.has(5)) {
    CONVOY_TRY(y, e.add("Add", {y, e.input(5)}));
  }
  e.give(0, y);
  return {};
}

// Elements that are packed along the last dim, each in a byte: of so many a row, of type u8, u4 or u2.
Result<int> apart(Expansion& e, int value, int bits, std::int64_t row) {
  const auto packed = e.constant(value);
  Dims dims = e.dims(value);
  const std::int64_t bytes = dims.back(), needed = (row * bits + 7) / 8;
  if (bytes != needed)
    return e.bad(fmt::format("{} numbers of {} bits need {} bytes, there are {}", row, bits, needed, bytes));
  dims.back() = row;
  const DataType type = bits == 8 ? DataType::u8 : bits == 4 ? DataType::u4 : DataType::u2;
  CONVOY_TRY(HostTensor wide, HostTensor::allocate(TensorDesc::packed(type, dims)));
  const std::int64_t rows = bytes == 0 ? 0 : packed->desc.elements() / bytes;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < row; ++i) {
      wide.as<std::uint8_t>()[r * row + i] =
          static_cast<std::uint8_t>(unpacked(packed->as<std::uint8_t>() + r * bytes, i, bits));
    }
  }
  return e.constant_value(std::move(wide));
}

// Rows of a table, of which each block along another axis has a scale and a zero point: looked up, then dequantized.
Result<void> gather_block_quantized(Expansion& e) {
  CONVOY_CHECK(e.check_inputs(3, 4));
  CONVOY_TRY(const std::int64_t block, e.node().integer("block_size", 128));
  CONVOY_TRY(const std::int64_t bits, e.node().integer("bits", 4));
  CONVOY_TRY(std::int64_t gather_axis, e.node().integer("gather_axis", 0));
  CONVOY_TRY(std::int64_t block_axis, e.node().integer("quantize_axis", 1));
  const std::int64_t rank = e.rank(e.input(0));
  for (std::int64_t* const axis : {&gather_axis, &block_axis}) {
    if (*axis < -rank || *axis >= rank) return e.bad(fmt::format("axis {} is out of range for {} dims", *axis, rank));
    if (*axis < 0) *axis += rank;
  }
  if (gather_axis == block_axis) return e.bad("gather_axis and quantize_axis are the same");
  if (bits != 2 && bits != 4 && bits != 8) return e.bad(fmt::format("bits={} is not 2, 4 or 8", bits));
  int data = e.input(0), zeros = e.input(3);
  for (const int part : {e.input(2), zeros}) {
    if (part != kAbsent && e.rank(part) != rank) return e.bad(fmt::format("scales and zero points need {} dims", rank));
  }
  const bool is_packed = e.type(data) == DataType::u8;
  if (is_packed) {
    if (block_axis != rank - 1) return e.bad("quantize_axis must be the last of packed data");
    const auto b = static_cast<int>(bits);
    CONVOY_TRY(data, apart(e, data, b, e.dims(data).back() * 8 / bits));
    if (zeros != kAbsent) {
      CONVOY_TRY(zeros, apart(e, zeros, b, e.dims(e.input(2)).back()));
    } else {
      CONVOY_TRY(HostTensor middle, HostTensor::allocate(TensorDesc::packed(e.type(data), e.dims(e.input(2)))));
      std::fill_n(middle.as<std::uint8_t>(), middle.desc.elements(), static_cast<std::uint8_t>(1 << (bits - 1)));
      zeros = e.constant_value(std::move(middle));
    }
  }
  std::vector<int> rows{data, e.input(2)};
  if (zeros != kAbsent) rows.push_back(zeros);
  for (int& part : rows) {
    CONVOY_TRY(part, e.add("Gather", {part, e.input(1)}, {{"axis", gather_axis}}));
  }
  const std::int64_t axis = block_axis > gather_axis ? block_axis + e.rank(e.input(1)) - 1 : block_axis;
  CONVOY_TRY(const int y, e.add("DequantizeLinear", rows, {{"axis", axis}, {"block_size", block}}));
  e.give(0, y);
  return {};
}

constexpr int kNBitsConstants[] = {1, 2, 3, 4};

constexpr int kTable[] = {0, 3};

constexpr std::array kNBitsComposites{
    Composite{"GatherBlockQuantized", gather_block_quantized, "com.microsoft", kTable},
    Composite{"MatMulNBits", matmul_n_bits, "com.microsoft", kNBitsConstants},
};

}  // namespace

std::span<const Composite> n_bits_composites() { return kNBitsComposites; }

}  // namespace convoy::network
