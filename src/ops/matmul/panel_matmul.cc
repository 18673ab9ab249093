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
  // `turned`: a is the second input.
  PanelMatmul(const MatMulShape& shape, const ProductBias& bias, bool turned, Isa isa)
      : s_(shape),
        bias_(bias),
        turned_(turned),
        product_(panel_product<T>(isa)),
        narrow_product_(narrow_panel_product<T>(isa)),
        packing_product_(packing_product<T>(isa)) {}

  void operator()(std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) const {
    const auto* const a = static_cast<const T*>(in[turned_ ? 1 : 0]);
    const auto* const b = static_cast<const T*>(in[turned_ ? 0 : 1]);
    const auto* const added = bias_.beta != 0 ? static_cast<const T*>(in[2]) : nullptr;
    auto* const c = static_cast<T*>(out[0]);
    const bool few = s_.m < kFewRows;
    const std::int64_t row_blocks = std::max<std::int64_t>(1, (s_.m + kRows - 1) / kRows);
    const std::int64_t rows = (s_.m + row_blocks * kAtOnce - 1) / (row_blocks * kAtOnce) * kAtOnce;
    const std::int64_t column_blocks = (s_.n + kColumns - 1) / kColumns;
    const std::int64_t blocks = s_.m == 0 ? 0 : s_.batches() * row_blocks * column_blocks;
    const std::int64_t cost =
        std::max<std::int64_t>(1, std::min(rows, s_.m)) * kColumns * std::max<std::int64_t>(1, s_.k);
    // Sums are made in c, unless they still become something else or lie apart there.
    const bool in_c = bias_.alpha == 1 && s_.c_column == 1 && !few && s_.k > 0;
    parallel_for_thread(context, blocks, cost, [&](std::int64_t begin, std::int64_t end, int thread) {
      Buffers<T>& buffers = static_cast<Buffers<T>*>(context.workspace)[thread];
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t column = block % column_blocks * kColumns, row = block / column_blocks % row_blocks * rows;
        const std::int64_t height = std::min(rows, s_.m - row), width = std::min(kColumns, s_.n - column);
        const MatMulShape::Offsets at = s_.offsets(block / column_blocks / row_blocks);
        const std::int64_t of_a = at.a + row * s_.a_row, of_b = at.b + column * s_.b_column;
        T* const to = c + at.c + row * s_.c_row + column * s_.c_column;
        const T* const more = added == nullptr ? nullptr : added + row * bias_.row + column * bias_.column;
        const Sums sums = in_c ? Sums{to, s_.c_row} : Sums{buffers.c, width};
        const bool add = few || s_.k == 0 || (more != nullptr && bias_.alpha == 1);
        if (add) start(more, height, width, sums);
        if (few) {
          sum_few(a + of_a, b + of_b, height, width, sums.first);
        } else {
          sum(a + of_a, b + of_b, sums, add, height, width, s_.n - column, buffers);
        }
        if (!in_c) finish(sums, more, height, width, to);
      }
    });
  }

 private:
  // Rows of sums, `step` elements apart.
  struct Sums {
    T* first;
    std::int64_t step;
  };

  // Sums start with what is added to them, unless they need a factor.
  void start(const T* more, std::int64_t height, std::int64_t width, const Sums& sums) const {
    const T beta = static_cast<T>(bias_.beta);
    const bool added = more != nullptr && bias_.alpha == 1;
    for (std::int64_t i = 0; i < height; ++i) {
      T* const to = sums.first + i * sums.step;
      if (!added) {
        std::fill_n(to, width, T(0));
        continue;
      }
      const T* const row = more + i * bias_.row;
      if (bias_.column == 1) {  // by vectors
        for (std::int64_t j = 0; j < width; ++j) to[j] = beta * row[j];
      } else {
        for (std::int64_t j = 0; j < width; ++j) to[j] = beta * row[j * bias_.column];
      }
    }
  }

  void finish(const Sums& sums, const T* more, std::int64_t height, std::int64_t width, T* c) const {
    const T alpha = static_cast<T>(bias_.alpha), beta = static_cast<T>(bias_.beta);
    const bool added = bias_.alpha != 1 && more != nullptr;
    for (std::int64_t i = 0; i < height && (alpha != 1 || added); ++i) {
      T* const row = sums.first + i * sums.step;
      for (std::int64_t j = 0; j < width; ++j) row[j] *= alpha;
      if (!added) continue;
      const T* const from = more + i * bias_.row;
      if (bias_.column == 1) {  // by vectors
        for (std::int64_t j = 0; j < width; ++j) row[j] += beta * from[j];
      } else {
        for (std::int64_t j = 0; j < width; ++j) row[j] += beta * from[j * bias_.column];
      }
    }
    for (std::int64_t i = 0; i < height; ++i, c += s_.c_row) {
      const T* const row = sums.first + i * sums.step;
      if (s_.c_column == 1) {
        std::copy_n(row, width, c);
      } else {
        for (std::int64_t j = 0; j < width; ++j) c[j * s_.c_column] = row[j];
      }
    }
  }

  // `left`: columns of b from its first on, those of later blocks too.
  void sum(const T* a, const T* b, const Sums& made, bool add, std::int64_t height, std::int64_t width,
           std::int64_t left, Buffers<T>& buffers) const {
    const T* rows[kRows];
    T* sums[kRows];
    for (std::int64_t k = 0; k < s_.k; k += kDepth, add = true) {
      const std::int64_t depth = std::min(kDepth, s_.k - k);
      const T* const from_a = a + k * s_.a_column;
      for (std::int64_t i = 0; i < height; ++i) {
        rows[i] = s_.a_column == 1 ? from_a + i * s_.a_row : buffers.a + i * kDepth;
      }
      if (s_.a_column != 1) take_rows(from_a, height, depth, buffers.a);
      for (std::int64_t first = 0; first < width; first += kPanel) {
        const std::int64_t columns = std::min(kPanel, width - first);
        const T* const from = b + k * s_.b_row + first * s_.b_column;
        for (std::int64_t i = 0; i < height; ++i) sums[i] = made.first + i * made.step + first;
        if (columns == kPanel && s_.b_column == 1) {
          const T* next = nullptr;
          if (first + 2 * kPanel <= width) {
            next = from + kPanel;
          } else if (k + depth + depth <= s_.k) {
            next = b + (k + depth) * s_.b_row;
          } else if (k + depth == s_.k && width + kPanel <= left) {
            next = b + width;
          }
          packing_product_(rows, sums, static_cast<int>(height), from, s_.b_row, buffers.panel, depth, next, add);
          continue;
        }
        const bool narrow = columns <= kNarrowPanel;
        pack(from, columns, narrow ? kNarrowPanel : kPanel, depth, buffers.panel);
        (narrow ? narrow_product_ : product_)(rows, sums, static_cast<int>(height), buffers.panel, depth,
                                              {static_cast<int>(columns), add});
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
  void sum_few(const T* a, const T* b, std::int64_t height, std::int64_t width, T* sums) const {
    constexpr int kSums = 16;
    for (std::int64_t i = 0; i < height; ++i) {
      const T* const row = a + i * s_.a_row;
      T* const c = sums + i * width;
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
  const bool turned_;
  const PanelProduct<T> product_, narrow_product_;
  const PackingProduct<T> packing_product_;
};

}  // namespace

std::unique_ptr<OpPlan> panel_matmul(const NodeDesc& node, MatMulShape shape, DataType type, ProductBias bias,
                                     const PlanRequest& request) {
  const bool turned = shape.a_row == 1 && shape.a_column != 1 && shape.n <= kNarrowPanel && shape.n < shape.m;
  if (turned) turn(shape, bias);
  const auto plan_in = [&]<class T>(Tag<T>) {
    const auto run = [multiply = PanelMatmul<T>(shape, bias, turned, request.cpu.isa)](
                         auto in, auto out, const ExecContext& context) -> Result<void> {
      multiply(in, out, context);
      return {};
    };
    return make_plan(node, run, sizeof(Buffers<T>) * static_cast<std::size_t>(std::max(1, request.threads)));
  };
  return type == DataType::f32 ? plan_in(Tag<float>()) : plan_in(Tag<double>());
}

}  // namespace convoy::ops
