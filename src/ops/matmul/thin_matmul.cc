#include "ops/matmul/thin_matmul.h"

#include <algorithm>
#include <array>

#include "ops/row_functions.h"
#include "ops/rows.h"

namespace convoy::ops {
namespace {

constexpr std::int64_t kRows = 64;      // of a at a time
constexpr std::int64_t kWidest = 4096;  // columns, whose terms stay near

// What is added is one more term: a row times beta, or ones times what each row has.
class ThinMatmul {
 public:
  ThinMatmul(const RowFunctions& functions, const MatMulShape& shape, DataType type, const ProductBias& bias)
      : functions_(functions), s_(shape), type_(type), bias_(bias), terms_(shape.k + (bias.beta != 0 ? 1 : 0)) {}

  std::size_t workspace_bytes(int threads) const {
    return static_cast<std::size_t>(terms_ * s_.n * threads) * sizeof(float);
  }

  template <class T>
  void run(std::span<const void* const> in, T* c, const ExecContext& context) const {
    const auto *const a = static_cast<const T*>(in[0]), *const b = static_cast<const T*>(in[1]);
    const auto* const added = bias_.beta != 0 ? static_cast<const T*>(in[2]) : nullptr;
    const std::int64_t chunks = (s_.m + kRows - 1) / kRows;
    parallel_for_thread(context, s_.batches() * chunks, kRows * s_.n * terms_ / 4,
                        [&](std::int64_t begin, std::int64_t end, int thread) {
                          float* const rows = static_cast<float*>(context.workspace) + thread * terms_ * s_.n;
                          std::array<float, kRows * RowFunctions::kMostTerms> factors;
                          for (std::int64_t unit = begin; unit < end; ++unit) {
                            const MatMulShape::Offsets at = s_.offsets(unit / chunks);
                            if (unit == begin || unit % chunks == 0) take_rows(b + at.b, added, rows);
                            const std::int64_t first = unit % chunks * kRows, count = std::min(kRows, s_.m - first);
                            take_factors(a + at.a + first * s_.a_row,
                                         added == nullptr ? nullptr : added + first * bias_.row, count, factors.data());
                            functions_.thin_products(factors.data(), terms_, rows, s_.n, terms_, type_,
                                                     c + at.c + first * s_.c_row, s_.c_row, count, s_.n);
                          }
                        });
  }

 private:
  template <class T>
  void take_rows(const T* b, const T* added, float* rows) const {
    for (std::int64_t k = 0; k < s_.k; ++k) take_row(b + k * s_.b_row, s_.b_column, rows + k * s_.n);
    if (added == nullptr) return;
    float* const last = rows + s_.k * s_.n;
    if (bias_.column == 0) {
      std::fill_n(last, s_.n, 1.0F);
    } else {
      take_row(added, 1, last);
    }
  }

  template <class T>
  void take_row(const T* from, std::int64_t step, float* row) const {
    for (std::int64_t j = 0; j < s_.n; j += kRowChunk) {
      const std::int64_t n = std::min(kRowChunk, s_.n - j);
      const float* const loaded = load_row(true, from + j * step, step, n, row + j);
      if (loaded != row + j) std::copy_n(loaded, n, row + j);
    }
  }

  template <class T>
  void take_factors(const T* a, const T* added, std::int64_t count, float* factors) const {
    const auto alpha = static_cast<float>(bias_.alpha), beta = static_cast<float>(bias_.beta);
    std::array<float, kRows * RowFunctions::kMostTerms> buffer;
    const bool together = s_.a_column == 1 && s_.a_row == s_.k;  // rows follow one another
    const float* row = together ? load_row(true, a, 1, count * s_.k, buffer.data()) : buffer.data();
    for (std::int64_t i = 0; i < count; ++i, factors += terms_) {
      if (!together) row = load_row(true, a + i * s_.a_row, s_.a_column, s_.k, buffer.data());
      for (std::int64_t k = 0; k < s_.k; ++k) factors[k] = alpha * row[k];
      if (added != nullptr) factors[s_.k] = bias_.column == 0 ? beta * static_cast<float>(added[i * bias_.row]) : beta;
      if (together) row += s_.k;
    }
  }

  const RowFunctions& functions_;
  MatMulShape s_;
  DataType type_;
  ProductBias bias_;
  std::int64_t terms_;
};

// Many rows of a times a small b, both as they lie: attention whose heads are mixed.
std::unique_ptr<OpPlan> tiny_matmul(const NodeDesc& node, const RowFunctions& functions, const MatMulShape& s,
                                    const ProductBias& bias) {
  constexpr std::int64_t kLeastRows = 64;
  const bool lies = s.a_column == 1 && s.a_row == s.k && s.c_column == 1 && s.c_row == s.n && s.batches() == 1;
  const bool of_columns = bias.beta == 0 || (bias.beta == 1 && bias.row == 0);  // what is added
  const bool is_tiny = s.k > 0 && s.k <= functions.tiny && s.n > 0 && s.n <= functions.tiny && s.m >= kLeastRows;
  if (!lies || !of_columns || bias.alpha != 1 || !is_tiny) return nullptr;
  return make_plan(node, [&functions, s, bias](auto in, auto out, const ExecContext& context) -> Result<void> {
    const auto *const a = static_cast<const float*>(in[0]), *const b = static_cast<const float*>(in[1]);
    const auto* const added = bias.beta != 0 ? static_cast<const float*>(in[2]) : nullptr;
    std::array<float, RowFunctions::kMostTiny * RowFunctions::kMostTiny> rows;
    std::array<float, RowFunctions::kMostTiny> start{};
    for (std::int64_t j = 0; j < s.n; ++j) {
      for (std::int64_t k = 0; k < s.k; ++k) rows[k * s.n + j] = b[k * s.b_row + j * s.b_column];
      if (added != nullptr) start[j] = added[j * bias.column];
    }
    parallel_for(context, s.m, s.n * s.k, [&](std::int64_t begin, std::int64_t end) {
      functions.tiny_products(a + begin * s.k, rows.data(), start.data(), s.k,
                              static_cast<float*>(out[0]) + begin * s.n, end - begin, s.n);
    });
    return {};
  });
}

}  // namespace

std::unique_ptr<OpPlan> thin_matmul(const NodeDesc& node, const MatMulShape& shape, DataType type,
                                    const ProductBias& bias, const PlanRequest& request) {
  constexpr TypeSet kTypes = only(DataType::f32) | kHalves;
  const RowFunctions* const functions = row_functions(request.cpu.isa);
  if (functions == nullptr || !contains(kTypes, type) || shape.k == 0 || shape.n > kWidest) return nullptr;
  if (type == DataType::f32) {
    if (auto plan = tiny_matmul(node, *functions, shape, bias)) return plan;
  }
  // Of shorter rows panels, or oneDNN's product with halves as f32, are sooner done.
  constexpr std::int64_t kFewRows = 8, kShortRow = 64, kFewTerms = 3;
  const bool of_halves = contains(kHalves, type) && shape.k <= kFewTerms;
  if (shape.m < kFewRows || (shape.n < kShortRow && !of_halves)) return nullptr;
  if (shape.c_column != 1 || shape.n == 1 || (bias.row != 0 && bias.column != 0)) return nullptr;
  if (shape.k + (bias.beta != 0 ? 1 : 0) > RowFunctions::kMostTerms) return nullptr;
  const ThinMatmul multiply(*functions, shape, type, bias);
  return dispatch<kTypes>(type, [&]<class T>(Tag<T>) {
    const auto run = [multiply](auto in, auto out, const ExecContext& context) -> Result<void> {
      multiply.run(in, static_cast<T*>(out[0]), context);
      return {};
    };
    return make_plan(node, run, multiply.workspace_bytes(std::max(1, request.threads)));
  });
}

}  // namespace convoy::ops
