#include "ops/matmul/panel_matmul.h"

#include <algorithm>

#include "ops/matmul/panel_product.h"

namespace convoy::ops {
namespace {

// A block of c is kRows x kColumns; kDepth terms of its sums at a time, whose panel of b stays in L1 (32 KB). Packing
// the panel takes about as long as the product with 8 rows.
constexpr std::int64_t kRows = 96, kPanels = 2, kColumns = kPanels * kPanel, kDepth = 128;
constexpr std::int64_t kAtOnce = 6;  // rows
// Of fewer rows a product waits for b, which is then read where it lies.
constexpr std::int64_t kFewRows = 4;

struct Buffers {
  double panel[kDepth * kPanel];
  double a[kRows * kDepth];  // where a's rows don't lie in memory as rows
  double c[kRows * kColumns];
};

class PanelMatmul {
 public:
  PanelMatmul(const MatMulShape& shape, const ProductBias& bias, PanelProduct<double> product)
      : s_(shape), bias_(bias), product_(product) {}

  void operator()(std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) const {
    const auto* const a = static_cast<const double*>(in[0]);
    const auto* const b = static_cast<const double*>(in[1]);
    const auto* const added = bias_.beta != 0 ? static_cast<const double*>(in[2]) : nullptr;
    auto* const c = static_cast<double*>(out[0]);
    const bool few = s_.m < kFewRows;
    const std::int64_t row_blocks = std::max<std::int64_t>(1, (s_.m + kRows - 1) / kRows);
    const std::int64_t rows = (s_.m + row_blocks * kAtOnce - 1) / (row_blocks * kAtOnce) * kAtOnce;
    const std::int64_t column_blocks = (s_.n + kColumns - 1) / kColumns;
    const std::int64_t blocks = s_.m == 0 ? 0 : s_.batches() * row_blocks * column_blocks;
    const std::int64_t cost =
        std::max<std::int64_t>(1, std::min(rows, s_.m)) * kColumns * std::max<std::int64_t>(1, s_.k);
    parallel_for_thread(context, blocks, cost, [&](std::int64_t begin, std::int64_t end, int thread) {
      Buffers& buffers = static_cast<Buffers*>(context.workspace)[thread];
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t column = block % column_blocks * kColumns, row = block / column_blocks % row_blocks * rows;
        const std::int64_t height = std::min(rows, s_.m - row), width = std::min(kColumns, s_.n - column);
        std::int64_t rest = block / column_blocks / row_blocks;
        std::int64_t of_a = row * s_.a_row, of_b = column * s_.b_column, of_c = row * s_.c_row + column * s_.c_column;
        for (std::size_t d = s_.batch.size(); d-- > 0; rest /= s_.batch[d]) {
          const std::int64_t at = rest % s_.batch[d];
          of_a += at * s_.a_batch[d];
          of_b += at * s_.b_batch[d];
          of_c += at * s_.c_batch[d];
        }
        std::fill_n(buffers.c, height * kColumns, 0.0);
        if (few) {
          sum_few(a + of_a, b + of_b, height, width, buffers);
        } else {
          sum(a + of_a, b + of_b, height, width, buffers);
        }
        const double* const more = added == nullptr ? nullptr : added + row * bias_.row + column * bias_.column;
        for (std::int64_t i = 0; i < height; ++i) {
          if (more == nullptr && bias_.alpha == 1 && s_.c_column == 1) {
            std::copy_n(buffers.c + i * kColumns, width, c + of_c + i * s_.c_row);
            continue;
          }
          for (std::int64_t j = 0; j < width; ++j) {
            const double value = more == nullptr ? 0 : bias_.beta * more[i * bias_.row + j * bias_.column];
            c[of_c + i * s_.c_row + j * s_.c_column] = bias_.alpha * buffers.c[i * kColumns + j] + value;
          }
        }
      }
    });
  }

 private:
  void sum(const double* a, const double* b, std::int64_t height, std::int64_t width, Buffers& buffers) const {
    const double* rows[kRows];
    double* sums[kRows];
    for (std::int64_t k = 0; k < s_.k; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, s_.k - k);
      for (std::int64_t i = 0; i < height; ++i) {
        const double* const from = a + i * s_.a_row + k * s_.a_column;
        rows[i] = s_.a_column == 1 ? from : buffers.a + i * kDepth;
        if (s_.a_column == 1) continue;
        for (std::int64_t l = 0; l < depth; ++l) buffers.a[i * kDepth + l] = from[l * s_.a_column];
      }
      for (std::int64_t first = 0; first < width; first += kPanel) {
        const std::int64_t columns = std::min(kPanel, width - first);
        const double* const from = b + k * s_.b_row + first * s_.b_column;
        pack(from, columns, depth, buffers.panel);
        for (std::int64_t i = 0; i < height; ++i) sums[i] = buffers.c + i * kColumns + first;
        product_(rows, sums, static_cast<int>(height), buffers.panel, depth);
      }
    }
  }

  // Columns that there are none of are zeros.
  void pack(const double* b, std::int64_t columns, std::int64_t depth, double* panel) const {
    if (columns < kPanel) std::fill_n(panel, depth * kPanel, 0.0);
    if (s_.b_column == 1) {
      for (std::int64_t l = 0; l < depth; ++l) std::copy_n(b + l * s_.b_row, columns, panel + l * kPanel);
      return;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t l = 0; l < depth; ++l) panel[l * kPanel + j] = b[j * s_.b_column + l * s_.b_row];
    }
  }

  // b is read in the order in which it lies.
  void sum_few(const double* a, const double* b, std::int64_t height, std::int64_t width, Buffers& buffers) const {
    constexpr int kSums = 16;
    for (std::int64_t i = 0; i < height; ++i) {
      const double* const row = a + i * s_.a_row;
      double* const c = buffers.c + i * kColumns;
      if (s_.b_row == 1 && s_.a_column == 1) {
        for (std::int64_t j = 0; j < width; ++j) {
          const double* const column = b + j * s_.b_column;
          double sums[kSums] = {};
          std::int64_t k = 0;
          for (; k + kSums <= s_.k; k += kSums) {
            for (int l = 0; l < kSums; ++l) sums[l] += row[k + l] * column[k + l];
          }
          for (; k < s_.k; ++k) sums[0] += row[k] * column[k];
          for (const double sum : sums) c[j] += sum;
        }
      } else {
        for (std::int64_t k = 0; k < s_.k; ++k) {
          const double x = row[k * s_.a_column];
          const double* const from = b + k * s_.b_row;
          for (std::int64_t j = 0; j < width; ++j) c[j] += x * from[j * s_.b_column];
        }
      }
    }
  }

  const MatMulShape s_;
  const ProductBias bias_;
  const PanelProduct<double> product_;
};

}  // namespace

std::unique_ptr<OpPlan> panel_matmul(const NodeDesc& node, const MatMulShape& shape, const ProductBias& bias,
                                     const PlanRequest& request) {
  const auto run = [multiply = PanelMatmul(shape, bias, panel_product<double>(request.cpu.isa))](
                       auto in, auto out, const ExecContext& context) -> Result<void> {
    multiply(in, out, context);
    return {};
  };
  return make_plan(node, run, sizeof(Buffers) * static_cast<std::size_t>(std::max(1, request.threads)));
}

}  // namespace convoy::ops
