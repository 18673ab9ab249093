#include "ops/matmul/integer_matmul.h"

#include <algorithm>

#include "ops/matmul/integer_product.h"

namespace convoy::ops {
namespace {

// A block of c is kRows x kMostSums; kGroups groups of terms of its sums at a time, whose panel of b stays in L1.
constexpr std::int64_t kRows = 96, kGroups = 192, kRowBytes = kGroups * kGroupBytes;

struct Buffers {
  std::byte panel[kRowBytes * kIntegerPanel];
  std::byte a[(kRows + 1) * kRowBytes];
  std::int32_t c[(kRows + 1) * kMostSums];  // with quads the last row has the sums of b's columns
  std::int32_t a_sums[kRows];
  std::int32_t a_zeros[kRows], b_zeros[kMostSums];
};

// Operands as values of 16 bits, less their zero points: 9 bits and a sign.
template <class A, class B>
class Pairs {
 public:
  static constexpr std::int64_t kTerms = 2;
  explicit Pairs(const MatMulShape& shape) : s_(shape) {}

  static constexpr std::int32_t offset_of_a = 0, offset_of_b = 0;

  void take_row(const std::byte* a, std::int64_t depth, std::int64_t i, Buffers& buffers) const {
    const auto* const from = reinterpret_cast<const A*>(a);
    auto* const to = reinterpret_cast<std::int16_t*>(buffers.a + i * kRowBytes);
    const std::int32_t zero = buffers.a_zeros[i];
    if (s_.a_column == 1) {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = static_cast<std::int16_t>(from[k] - zero);
    } else {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = static_cast<std::int16_t>(from[k * s_.a_column] - zero);
    }
    if (depth % kTerms != 0) to[depth] = 0;
  }

  // Columns and terms that there are none of are zeros.
  void take_panel(const std::byte* b, std::int64_t columns, std::int64_t depth, const std::int32_t* zeros,
                  Buffers& buffers) const {
    const auto* const from = reinterpret_cast<const B*>(b);
    auto* const panel = reinterpret_cast<std::int16_t*>(buffers.panel);
    constexpr std::int64_t kStep = kTerms * kIntegerPanel;
    if (columns < kIntegerPanel || depth % kTerms != 0) std::fill_n(panel, (depth + 1) / 2 * kStep, std::int16_t(0));
    const auto at = [&](std::int64_t k, std::int64_t j) {
      return static_cast<std::int16_t>(from[k * s_.b_row + j * s_.b_column] - zeros[j]);
    };
    if (s_.b_column != 1) {
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t k = 0; k < depth; ++k) panel[k / 2 * kStep + 2 * j + k % 2] = at(k, j);
      }
      return;
    }
    const auto pack = [&](std::int64_t count) __attribute__((always_inline)) {
      for (std::int64_t k = 0; k + 2 <= depth; k += 2) {
        const B *const row = from + k * s_.b_row, *const next = row + s_.b_row;
        std::int16_t* const to = panel + k / 2 * kStep;
        for (std::int64_t j = 0; j < count; ++j) {
          to[2 * j] = static_cast<std::int16_t>(row[j] - zeros[j]);
          to[2 * j + 1] = static_cast<std::int16_t>(next[j] - zeros[j]);
        }
      }
    };
    columns == kIntegerPanel ? pack(kIntegerPanel) : pack(columns);
    if (depth % 2 == 0) return;
    for (std::int64_t j = 0; j < columns; ++j) panel[depth / 2 * kStep + 2 * j] = at(depth - 1, j);
  }

  void start(Buffers&) const {}
  void correct(std::int64_t, std::int64_t, Buffers&) const {}

 private:
  const MatMulShape& s_;
};

// a as u8 and b as s8, of a type of the other sign by turning its highest bit; so zero points move by 128. With a', b'
// and the zero points za, zb the sum of (a' - za)(b' - zb) is that of a'b' less za times the sum of b' and zb times the
// sum of a' - za. The sums of b' are the products of a row of ones.
class Quads {
 public:
  static constexpr std::int64_t kTerms = 4;
  Quads(const MatMulShape& shape, const IntegerKernels& kernels, bool signed_a, bool signed_b)
      : offset_of_a(signed_a ? 128 : 0),
        offset_of_b(signed_b ? 0 : -128),
        s_(shape),
        kernels_(kernels),
        flip_a_(signed_a ? 0x80 : 0),
        flip_b_(signed_b ? 0 : 0x80) {}

  const std::int32_t offset_of_a, offset_of_b;  // of zero points

  void start(Buffers& buffers) const {
    std::fill_n(buffers.a_sums, kRows, 0);
    std::fill_n(buffers.a + kRows * kRowBytes, kRowBytes, std::byte(1));
  }

  void take_row(const std::byte* a, std::int64_t depth, std::int64_t i, Buffers& buffers) const {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(a);
    auto* const to = reinterpret_cast<std::uint8_t*>(buffers.a + i * kRowBytes);
    if (s_.a_column == 1) {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = from[k] ^ flip_a_;
    } else {
      for (std::int64_t k = 0; k < depth; ++k) to[k] = from[k * s_.a_column] ^ flip_a_;
    }
    for (std::int64_t k = depth; k % kTerms != 0; ++k) to[k] = 0;
    std::uint32_t sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) sum += to[k];
    buffers.a_sums[i] += static_cast<std::int32_t>(sum);
  }

  void take_panel(const std::byte* b, std::int64_t columns, std::int64_t depth, const std::int32_t*,
                  Buffers& buffers) const {
    const auto* const from = reinterpret_cast<const std::uint8_t*>(b);
    auto* const panel = reinterpret_cast<std::uint8_t*>(buffers.panel);
    constexpr std::int64_t kStep = kTerms * kIntegerPanel;
    std::int64_t k = 0;
    if (columns == kIntegerPanel && s_.b_column == 1) {
      kernels_.pack_quads(from, s_.b_row, depth / kTerms, flip_b_, buffers.panel);
      k = depth / kTerms * kTerms;
    }
    if (k == depth) return;
    std::fill(panel + k / kTerms * kStep, panel + (depth + kTerms - 1) / kTerms * kStep, std::uint8_t(0));
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t l = k; l < depth; ++l)
        panel[l / kTerms * kStep + kTerms * j + l % kTerms] = from[l * s_.b_row + j * s_.b_column] ^ flip_b_;
    }
  }

  void correct(std::int64_t i, std::int64_t width, Buffers& buffers) const {
    const std::int32_t zero = buffers.a_zeros[i];
    const auto rest = static_cast<std::uint32_t>(buffers.a_sums[i]) -
                      static_cast<std::uint32_t>(zero) * static_cast<std::uint32_t>(s_.k);
    const bool any = std::any_of(buffers.b_zeros, buffers.b_zeros + width, [](auto each) { return each != 0; });
    kernels_.correct(buffers.c + i * kMostSums, width, zero, buffers.c + kRows * kMostSums,
                     any ? static_cast<std::int32_t>(rest) : 0, buffers.b_zeros);
  }

 private:
  const MatMulShape& s_;
  const IntegerKernels& kernels_;
  const std::uint8_t flip_a_, flip_b_;
};

template <class Form>
void multiply(const MatMulShape& s, const IntegerKernels& kernels, const Form& form, const IntegerOperand& a,
              const IntegerOperand& b, FinishSums finish, const ExecContext& context) {
  constexpr std::int64_t kDepth = kGroups * Form::kTerms;
  const std::int64_t row_blocks = (s.m + kRows - 1) / kRows, column_blocks = (s.n + kMostSums - 1) / kMostSums;
  const std::int64_t rows_of_block = row_blocks == 0 ? 0 : (s.m + row_blocks - 1) / row_blocks;
  const std::int64_t cost = rows_of_block * kMostSums * std::max<std::int64_t>(1, s.k) / 8;
  const auto some = [&](std::int64_t begin, std::int64_t end, int thread) {
    Buffers& buffers = static_cast<Buffers*>(context.workspace)[thread];
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t column = block % column_blocks * kMostSums;
      const std::int64_t row = block / column_blocks % row_blocks * rows_of_block;
      const std::int64_t image = block / column_blocks / row_blocks;
      const std::int64_t height = std::min(rows_of_block, s.m - row), width = std::min(kMostSums, s.n - column);
      const MatMulShape::Offsets at = s.offsets(image);
      const std::byte* const from_a = static_cast<const std::byte*>(a.data) + at.a + row * s.a_row;
      const std::byte* const from_b = static_cast<const std::byte*>(b.data) + at.b + column * s.b_column;
      form.start(buffers);
      for (std::int64_t i = 0; i < height; ++i) buffers.a_zeros[i] = a.zero(image, row + i) + form.offset_of_a;
      for (std::int64_t j = 0; j < width; ++j) buffers.b_zeros[j] = b.zero(image, column + j) + form.offset_of_b;
      std::fill_n(buffers.c, height * kMostSums, 0);
      std::fill_n(buffers.c + kRows * kMostSums, kMostSums, 0);
      for (std::int64_t k = 0; k < s.k; k += kDepth) {
        const std::int64_t depth = std::min(kDepth, s.k - k), groups = (depth + Form::kTerms - 1) / Form::kTerms;
        for (std::int64_t i = 0; i < height; ++i)
          form.take_row(from_a + i * s.a_row + k * s.a_column, depth, i, buffers);
        for (std::int64_t first = 0; first < width; first += kIntegerPanel) {
          form.take_panel(from_b + k * s.b_row + first * s.b_column, std::min(kIntegerPanel, width - first), depth,
                          buffers.b_zeros + first, buffers);
          kernels.product(buffers.a, kRowBytes, static_cast<int>(height), buffers.panel, groups, buffers.c + first,
                          kMostSums);
          if constexpr (Form::kTerms == 4) {
            kernels.product(buffers.a + kRows * kRowBytes, kRowBytes, 1, buffers.panel, groups,
                            buffers.c + kRows * kMostSums + first, kMostSums);
          }
        }
      }
      for (std::int64_t i = 0; i < height; ++i) {
        form.correct(i, width, buffers);
        finish(buffers.c + i * kMostSums, image, row + i, column, width);
      }
    }
  };
  parallel_for_thread(context, s.batches() * row_blocks * column_blocks, cost, some);
}

}  // namespace

std::size_t integer_matmul_workspace(const PlanRequest& request) {
  return sizeof(Buffers) * static_cast<std::size_t>(std::max(1, request.threads));
}

void integer_matmul(const MatMulShape& shape, const CpuFeatures& cpu, const IntegerOperand& a, const IntegerOperand& b,
                    FinishSums finish, const ExecContext& context) {
  if (shape.n == 0) return;
  const IntegerKernels& kernels = integer_kernels(cpu);
  const bool signed_a = a.type == DataType::s8, signed_b = b.type == DataType::s8;
  const auto by = [&](const auto& form) { multiply(shape, kernels, form, a, b, finish, context); };
  if (kernels.terms == IntegerTerms::quads) {
    by(Quads(shape, kernels, signed_a, signed_b));
  } else if (signed_a) {
    signed_b ? by(Pairs<std::int8_t, std::int8_t>(shape)) : by(Pairs<std::int8_t, std::uint8_t>(shape));
  } else {
    signed_b ? by(Pairs<std::uint8_t, std::int8_t>(shape)) : by(Pairs<std::uint8_t, std::uint8_t>(shape));
  }
}

}  // namespace convoy::ops
