#include "ops/matmul/panel_matmul.h"

#include <algorithm>

#include "ops/matmul/panel_product.h"

namespace convoy::ops {
namespace {

// A block of c is kRows x kColumns; kDepth terms of its sums at a time, whose panel of b stays in L1 (16 or 32 KB).
constexpr std::int64_t kRows = 96, kPanels = 2, kColumns = kPanels * kPanel, kDepth = 128;
// Of fewer rows a product waits for b, which is then read where it lies.
constexpr std::int64_t kFewRows = 4;

template <class T>
struct Buffers {
  T panel[kDepth * kPanel];
  T a[kRows * kDepth];  // where a's rows don't lie in memory as rows
  T c[kRows * kColumns];
};

template <class T>
class PanelMatmul {
 public:
  PanelMatmul(const MatMulShape& shape, const ProductBias& bias, Isa isa)
      : s_(shape),
        bias_(bias),
        product_(panel_product<T>(isa)),
        narrow_product_(narrow_panel_product<T>(isa)),
        packing_product_(packing_product<T>(isa)) {}

  void operator()(std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) const {
    const auto* const a = static_cast<const T*>(in[0]);
    const auto* const b = static_cast<const T*>(in[1]);
    const auto* const added = bias_.beta != 0 ? static_cast<const T*>(in[2]) : nullptr;
    auto* const c = static_cast<T*>(out[0]);
    const bool few = s_.m < kFewRows;
    const std::int64_t row_blocks = std::max<std::int64_t>(1, (s_.m + kRows - 1) / kRows);
    const std::int64_t rows = (s_.m + row_blocks * kAtOnce - 1) / (row_blocks * kAtOnce) * kAtOnce;
    const std::int64_t column_blocks = (s_.n + kColumns - 1) / kColumns;
    const std::int64_t blocks = s_.m == 0 ? 0 : s_.batches() * row_blocks * column_blocks;
    const std::int64_t cost =
        std::max<std::int64_t>(1, std::min(rows, s_.m)) * kColumns * std::max<std::int64_t>(1, s_.k);
    parallel_for_thread(context, blocks, cost, [&](std::int64_t begin, std::int64_t end, int thread) {
      Buffers<T>& buffers = static_cast<Buffers<T>*>(context.workspace)[thread];
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t column = block % column_blocks * kColumns, row = block / column_blocks % row_blocks * rows;
        const std::int64_t height = std::min(rows, s_.m - row), width = std::min(kColumns, s_.n - column);
        const MatMulShape::Offsets at = s_.offsets(block / column_blocks / row_blocks);
        const std::int64_t of_a = at.a + row * s_.a_row, of_b = at.b + column * s_.b_column;
        const std::int64_t of_c = at.c + row * s_.c_row + column * s_.c_column;
        const T* const more = added == nullptr ? nullptr : added + row * bias_.row + column * bias_.column;
        // Panels that are whole have their sums in c, others in a buffer.
        const std::int64_t in_c = bias_.alpha == 1 && s_.c_column == 1 && !few ? width / kPanel * kPanel : 0;
        start(more, height, 0, in_c, c + of_c, s_.c_row);
        start(more, height, in_c, width, buffers.c, kColumns);
        if (few) {
          sum_few(a + of_a, b + of_b, height, width, buffers);
        } else {
          sum(a + of_a, b + of_b, c + of_c, height, width, in_c, s_.n - column, buffers);
        }
        if (in_c < width) finish(buffers.c, more, height, in_c, width, c + of_c);
      }
    });
  }

 private:
  // Sums of columns [begin, end) start with what is added to them, unless they need a factor. Those behind `end` that
  // fill the last panel are zeros.
  void start(const T* more, std::int64_t height, std::int64_t begin, std::int64_t end, T* sums,
             std::int64_t step) const {
    const std::int64_t panels = (end + kPanel - 1) / kPanel * kPanel;
    const T beta = static_cast<T>(bias_.beta);
    const bool added = more != nullptr && bias_.alpha == 1;
    for (std::int64_t i = 0; i < height && begin < end; ++i, sums += step) {
      std::fill(sums + (added ? end : begin), sums + panels, T(0));
      if (!added) continue;
      const T* const row = more + i * bias_.row;
      if (bias_.column == 1) {  // by vectors
        for (std::int64_t j = begin; j < end; ++j) sums[j] = beta * row[j];
      } else {
        for (std::int64_t j = begin; j < end; ++j) sums[j] = beta * row[j * bias_.column];
      }
    }
  }

  void finish(const T* sums, const T* more, std::int64_t height, std::int64_t begin, std::int64_t end, T* c) const {
    const T alpha = static_cast<T>(bias_.alpha), beta = static_cast<T>(bias_.beta);
    for (std::int64_t i = 0; i < height; ++i, sums += kColumns, c += s_.c_row) {
      if (s_.c_column == 1) {  // by vectors
        for (std::int64_t j = begin; j < end; ++j) c[j] = alpha * sums[j];
      } else {
        for (std::int64_t j = begin; j < end; ++j) c[j * s_.c_column] = alpha * sums[j];
      }
      if (bias_.alpha == 1 || more == nullptr) continue;
      const T* const row = more + i * bias_.row;
      if (s_.c_column == 1 && bias_.column == 1) {
        for (std::int64_t j = begin; j < end; ++j) c[j] += beta * row[j];
      } else if (s_.c_column == 1 && bias_.column == 0) {
        const T all = beta * *row;
        for (std::int64_t j = begin; j < end; ++j) c[j] += all;
      } else {
        for (std::int64_t j = begin; j < end; ++j) c[j * s_.c_column] += beta * row[j * bias_.column];
      }
    }
  }

  // `left`: columns of b from its first on, those of later blocks too.
  void sum(const T* a, const T* b, T* c, std::int64_t height, std::int64_t width, std::int64_t in_c, std::int64_t left,
           Buffers<T>& buffers) const {
    const T* rows[kRows];
    T* sums[kRows];
    for (std::int64_t k = 0; k < s_.k; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, s_.k - k);
      const T* const from_a = a + k * s_.a_column;
      for (std::int64_t i = 0; i < height; ++i) {
        rows[i] = s_.a_column == 1 ? from_a + i * s_.a_row : buffers.a + i * kDepth;
      }
      if (s_.a_column != 1) take_rows(from_a, height, depth, buffers.a);
      for (std::int64_t first = 0; first < width; first += kPanel) {
        const std::int64_t columns = std::min(kPanel, width - first);
        const T* const from = b + k * s_.b_row + first * s_.b_column;
        const bool to_c = first < in_c;
        const std::int64_t step = to_c ? s_.c_row : kColumns;
        for (std::int64_t i = 0; i < height; ++i) sums[i] = (to_c ? c : buffers.c) + i * step + first;
        if (columns == kPanel && s_.b_column == 1) {
          const T* next = nullptr;
          if (first + 2 * kPanel <= width) {
            next = from + kPanel;
          } else if (k + depth + depth <= s_.k) {
            next = b + (k + depth) * s_.b_row;
          } else if (k + depth == s_.k && width + kPanel <= left) {
            next = b + width;
          }
          packing_product_(rows, sums, static_cast<int>(height), from, s_.b_row, buffers.panel, depth, next);
        } else {
          const bool narrow = columns <= kNarrowPanel;
          pack(from, columns, narrow ? kNarrowPanel : kPanel, depth, buffers.panel);
          (narrow ? narrow_product_ : product_)(rows, sums, static_cast<int>(height), buffers.panel, depth);
        }
      }
    }
  }

  // Neighbours in a column of a lie in a line of the cache, which a few terms at a time read once.
  void take_rows(const T* a, std::int64_t height, std::int64_t depth, T* rows) const {
    constexpr std::int64_t kTerms = 16;
    for (std::int64_t first = 0; first < depth; first += kTerms) {
      const std::int64_t end = std::min(first + kTerms, depth);
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t l = first; l < end; ++l) rows[i * kDepth + l] = a[i * s_.a_row + l * s_.a_column];
      }
    }
  }

  // Columns that there are none of are zeros.
  void pack(const T* b, std::int64_t columns, std::int64_t panel_columns, std::int64_t depth, T* panel) const {
    if (columns < panel_columns) std::fill_n(panel, depth * panel_columns, T(0));
    if (s_.b_column == 1) {
      for (std::int64_t l = 0; l < depth; ++l) {
        for (std::int64_t j = 0; j < columns; ++j) panel[l * panel_columns + j] = b[l * s_.b_row + j];
      }
      return;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t l = 0; l < depth; ++l) panel[l * panel_columns + j] = b[j * s_.b_column + l * s_.b_row];
    }
  }

  // b is read in the order in which it lies.
  void sum_few(const T* a, const T* b, std::int64_t height, std::int64_t width, Buffers<T>& buffers) const {
    constexpr int kSums = 16;
    for (std::int64_t i = 0; i < height; ++i) {
      const T* const row = a + i * s_.a_row;
      T* const c = buffers.c + i * kColumns;
      if (s_.b_row == 1 && s_.a_column == 1) {
        for (std::int64_t j = 0; j < width; ++j) {
          const T* const column = b + j * s_.b_column;
          T sums[kSums] = {};
          std::int64_t k = 0;
          for (; k + kSums <= s_.k; k += kSums) {
            for (int l = 0; l < kSums; ++l) sums[l] += row[k + l] * column[k + l];
          }
          for (; k < s_.k; ++k) sums[0] += row[k] * column[k];
          for (const T sum : sums) c[j] += sum;
        }
      } else {
        for (std::int64_t k = 0; k < s_.k; ++k) {
          const T x = row[k * s_.a_column];
          const T* const from = b + k * s_.b_row;
          if (s_.b_column == 1) {  // by vectors
            for (std::int64_t j = 0; j < width; ++j) c[j] += x * from[j];
          } else {
            for (std::int64_t j = 0; j < width; ++j) c[j] += x * from[j * s_.b_column];
          }
        }
      }
    }
  }

  static constexpr std::int64_t kAtOnce = sizeof(T) == sizeof(float) ? 8 : 6;  // rows

  const MatMulShape s_;
  const ProductBias bias_;
  const PanelProduct<T> product_, narrow_product_;
  const PackingProduct<T> packing_product_;
};

template <class T>
std::unique_ptr<OpPlan> plan_in(const NodeDesc& node, const MatMulShape& shape, const ProductBias& bias,
                                const PlanRequest& request) {
  const auto run = [multiply = PanelMatmul<T>(shape, bias, request.cpu.isa)](
                       auto in, auto out, const ExecContext& context) -> Result<void> {
    multiply(in, out, context);
    return {};
  };
  return make_plan(node, run, sizeof(Buffers<T>) * static_cast<std::size_t>(std::max(1, request.threads)));
}

}  // namespace

std::unique_ptr<OpPlan> panel_matmul(const NodeDesc& node, const MatMulShape& shape, DataType type,
                                     const ProductBias& bias, const PlanRequest& request) {
  return type == DataType::f32 ? plan_in<float>(node, shape, bias, request)
                               : plan_in<double>(node, shape, bias, request);
}

}  // namespace convoy::ops
