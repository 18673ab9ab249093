// MatMul and Gemm: rows of a matrix times a vector by loops of our own, other products in f32 by oneDNN (halves through
// f32) or panels, f64 by panels, plain loops for integers.
#include "ops/matmul/matmul.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "ops/from_real.h"
#include "ops/in_f32.h"
#include "ops/indexing.h"
#include "ops/math_types.h"
#include "ops/matmul/panel_matmul.h"
#include "ops/matmul/panel_product.h"
#include "ops/matmul/thin_matmul.h"
#include "ops/onednn/onednn_plan.h"
#include "ops/operator_row.h"
#include "ops/row_functions.h"
#include "ops/rows.h"

namespace convoy::ops {

Result<MatMulShape> matmul_shape(const NodeDesc& node, const Dims& a, const Dims& b, int a_index, int b_index,
                                 Dims* output) {
  if (a.empty() || b.empty()) return bad_node(node, "an input is a scalar; rank 1 or more is needed");
  Dims wide_a = a, wide_b = b;
  if (a.size() == 1) wide_a.insert(wide_a.begin(), 1);
  if (b.size() == 1) wide_b.push_back(1);
  MatMulShape shape;
  shape.m = wide_a[wide_a.size() - 2];
  shape.k = wide_a.back();
  shape.n = wide_b.back();
  if (wide_b[wide_b.size() - 2] != shape.k) {
    return bad_node(node, fmt::format("input {} has dims [{}] and input {} [{}]: {} columns against {} rows", a_index,
                                      to_string(a), b_index, to_string(b), shape.k, wide_b[wide_b.size() - 2]));
  }
  const Dims a_batch(wide_a.begin(), wide_a.end() - 2), b_batch(wide_b.begin(), wide_b.end() - 2);
  const std::vector<Dims> both{a_batch, b_batch};
  CONVOY_TRY(shape.batch, broadcast_dims(node, both));
  const std::size_t rank = shape.batch.size();
  const Dims a_strides = packed_strides(wide_a), b_strides = packed_strides(wide_b);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto stride = [&](const Dims& own, const Dims& strides) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(d + own.size()) - static_cast<std::ptrdiff_t>(rank);
      return at < 0 || own[at] == 1 ? 0 : strides[at];
    };
    shape.a_batch.push_back(stride(a_batch, a_strides));
    shape.b_batch.push_back(stride(b_batch, b_strides));
  }
  Dims wide_c = shape.batch;
  wide_c.push_back(shape.m);
  wide_c.push_back(shape.n);
  if (auto count = checked_elements(wide_c); !count.ok()) return count.error().within(node.op);
  const Dims c_strides = packed_strides(wide_c);
  shape.c_batch.assign(c_strides.begin(), c_strides.begin() + rank);
  shape.a_row = shape.k;
  shape.b_row = shape.c_row = shape.n;
  *output = shape.batch;
  if (a.size() > 1) output->push_back(shape.m);
  if (b.size() > 1) output->push_back(shape.n);
  return shape;
}

void turn(MatMulShape& shape, ProductBias& bias) {
  std::swap(shape.m, shape.n);
  std::swap(shape.a_batch, shape.b_batch);
  shape = {shape.batch,    shape.m,     shape.n,        shape.k,     shape.a_batch,  shape.b_batch, shape.c_batch,
           shape.b_column, shape.b_row, shape.a_column, shape.a_row, shape.c_column, shape.c_row};
  std::swap(bias.row, bias.column);
}

namespace {

// One matrix instead of many where b has no batches and the rows of a follow each other.
void merge_batches(MatMulShape& shape, const Dims& a) {
  const bool plain = std::all_of(shape.b_batch.begin(), shape.b_batch.end(), [](auto stride) { return stride == 0; });
  if (!plain || Dims(a.begin(), a.end() - std::min<std::ptrdiff_t>(2, a.size())) != shape.batch) return;
  shape.m *= shape.batches();
  shape.batch = shape.a_batch = shape.b_batch = shape.c_batch = {};
}

using Bias = ProductBias;

// Few terms a sum: oneDNN is slower.
bool is_thin(const MatMulShape& shape) { return shape.k <= 8 && shape.n <= 64; }
// Of a transposed a, whose columns panels then take as rows.
bool has_few_columns(const MatMulShape& shape) { return shape.a_row == 1 && shape.a_column != 1 && shape.n <= 16; }

// Panels read b once, and fetch it while they multiply, where oneDNN's products wait for it: with b in memory, as a
// network has its weights, 24 to 64 rows took 0.70 to 0.90 of its time, and with b in the caches up to 1.05 (Zen 5).
// Rows of b that lie a power of two apart fall into the same few sets of a cache; then 8 rows, too, took 0.62 to 1.03
// there. oneDNN takes 1.7 us to begin: 16 x 32 times 32 x 32 took 1.9 us and takes 0.3, 32 x 64 times 64 x 64 3.0
// and 1.5.
bool faster_by_panels(const MatMulShape& shape, Isa isa) {
  constexpr std::int64_t kCache = 1 << 18;  // elements in L2
  const bool one_plain = shape.b_column == 1 && shape.batches() == 1;
  // Bits of the number of products. To put b into panels pays where several rows use them.
  const bool narrow = shape.n <= 2 * kPanel;
  const int small = shape.m < 4 ? 14 : isa < Isa::avx512 ? (narrow ? 20 : 17) : shape.m < 8 ? 17 : one_plain ? 19 : 18;
  if (isa >= Isa::avx2 && shape.batches() * shape.m * shape.n * shape.k <= std::int64_t{1} << small) return true;
  if (isa >= Isa::avx2 && shape.m >= 4 && (is_thin(shape) || has_few_columns(shape))) return true;
  // Of rows of b that lie a multiple of 2 KiB apart oneDNN's kernels for AVX2 copy into few sets of a cache.
  const bool aliases = shape.b_column == 1 && shape.b_row % 512 == 0 && shape.k >= 256;
  if (isa == Isa::avx2 && aliases && shape.m >= 24) return true;
  if (isa < Isa::avx512 || shape.b_row != shape.n || shape.b_column != 1 || shape.m > 64) return false;
  const bool power = std::has_single_bit(static_cast<std::uint64_t>(shape.n));
  if (power && shape.n >= 512 && shape.k >= 512 && shape.m >= 8) return true;
  return shape.m >= 24 && shape.n % 32 == 0 && shape.k * shape.n >= kCache;
}

// What oneDNN adds by itself and as fast: a row to each row.
bool is_row(const Bias& bias) {
  return bias.alpha == 1 && (bias.beta == 0 || (bias.beta == 1 && bias.row == 0 && bias.column == 1));
}

// c = a . b, and a row of bias, in f32 with oneDNN; null where it can't.
std::unique_ptr<OpPlan> onednn_matmul(const MatMulShape& shape, const Bias& bias, int threads) {
  constexpr DataType type = DataType::f32;
  if (shape.batches() * shape.m * shape.n == 0 || shape.k == 0) return nullptr;
  if (shape.batch.size() > 10) return nullptr;
  const auto desc = [&](Dims batch_strides, std::int64_t rows, std::int64_t columns, std::int64_t row,
                        std::int64_t column) {
    Dims dims = shape.batch;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (batch_strides[d] == 0) {
        dims[d] = 1;
        batch_strides[d] = rows * columns;
      }
    }
    dims.push_back(rows);
    dims.push_back(columns);
    batch_strides.push_back(row);
    batch_strides.push_back(column);
    return onednn::memory_desc(type, dims, batch_strides);
  };
  using onednn::Argument;
  try {
    const auto a = desc(shape.a_batch, shape.m, shape.k, shape.a_row, shape.a_column);
    const auto b = desc(shape.b_batch, shape.k, shape.n, shape.b_row, shape.b_column);
    const auto c = desc(shape.c_batch, shape.m, shape.n, shape.c_row, shape.c_column);
    std::vector<Argument> arguments{{DNNL_ARG_SRC, Argument::From::input, 0, a},
                                    {DNNL_ARG_WEIGHTS, Argument::From::input, 1, b},
                                    {DNNL_ARG_DST, Argument::From::output, 0, c}};
    dnnl::memory::desc added;
    if (bias.beta == 1) {
      Dims dims(shape.batch.size() + 1, 1);
      dims.push_back(shape.n);
      added = onednn::memory_desc(type, dims, packed_strides(dims));
      arguments.push_back({DNNL_ARG_BIAS, Argument::From::input, 2, added});
    }
    auto plan = onednn::make_plan(
        "matmul", threads, arguments, [&](const dnnl::engine& engine, const dnnl::primitive_attr& attributes) {
          return bias.beta == 1 ? dnnl::matmul::primitive_desc(engine, a, b, added, c, attributes)
                                : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
        });
    return plan.ok() ? std::move(*plan) : nullptr;
  } catch (const dnnl::error&) {  // a descriptor it has no room for
    return nullptr;
  }
}

// c = alpha * c + beta * bias behind the plan of c = a . b.
std::unique_ptr<OpPlan> scaled(const NodeDesc& node, const MatMulShape& shape, const Bias& bias,
                               std::unique_ptr<OpPlan> product) {
  const std::size_t workspace = product->workspace_bytes();
  const auto run = [shape, bias, product = std::shared_ptr<OpPlan>(std::move(product))](
                       auto in, auto out, const ExecContext& context) -> Result<void> {
    CONVOY_CHECK(product->execute(in.first(2), out, context));
    const float* const added = bias.beta != 0 ? static_cast<const float*>(in[2]) : nullptr;
    const float alpha = static_cast<float>(bias.alpha), beta = static_cast<float>(bias.beta);
    parallel_for(context, shape.batches() * shape.m, shape.n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t i = unit % shape.m;
        float* const c = static_cast<float*>(out[0]) + shape.at_c(unit / shape.m, i, 0);
        const float* const more = added == nullptr ? nullptr : added + i * bias.row;
        if (more == nullptr) {
          for (std::int64_t j = 0; j < shape.n; ++j) c[j * shape.c_column] *= alpha;
        } else if (shape.c_column == 1 && bias.column == 1) {  // by vectors
          for (std::int64_t j = 0; j < shape.n; ++j) c[j] = alpha * c[j] + beta * more[j];
        } else if (shape.c_column == 1 && bias.column == 0) {
          const float all = beta * more[0];
          for (std::int64_t j = 0; j < shape.n; ++j) c[j] = alpha * c[j] + all;
        } else {
          for (std::int64_t j = 0; j < shape.n; ++j) {
            c[j * shape.c_column] = alpha * c[j * shape.c_column] + beta * more[j * bias.column];
          }
        }
      }
    });
    return {};
  };
  return make_plan(node, run, workspace);
}

// c[i, j] = finish(sum over k of a * b, i, j) with accumulators of type Acc. Rows of c are divided among the threads;
// within one, b is read along its rows.
template <class Acc, class T, class Finish>
void integer_loops(const MatMulShape& shape, const T* a, const T* b, T* c, Finish&& finish,
                   const ExecContext& context) {
  constexpr std::int64_t kLanes = 64;
  parallel_for(context, shape.batches() * shape.m, shape.n * shape.k, [&](std::int64_t begin, std::int64_t end) {
    Acc acc[kLanes];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t i = unit % shape.m;
      const MatMulShape::Offsets at = shape.offsets(unit / shape.m);
      const T* const from_a = a + at.a + i * shape.a_row;
      T* const to = c + at.c + i * shape.c_row;
      for (std::int64_t j0 = 0; j0 < shape.n; j0 += kLanes) {
        const std::int64_t lanes = std::min(kLanes, shape.n - j0);
        std::fill_n(acc, lanes, Acc(0));
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const Acc x = static_cast<Acc>(from_a[k * shape.a_column]);
          const T* const row = b + at.b + k * shape.b_row + j0 * shape.b_column;
          if (shape.b_column == 1) {
            for (std::int64_t j = 0; j < lanes; ++j) acc[j] += x * static_cast<Acc>(row[j]);
          } else {
            for (std::int64_t j = 0; j < lanes; ++j) acc[j] += x * static_cast<Acc>(row[j * shape.b_column]);
          }
        }
        for (std::int64_t j = 0; j < lanes; ++j) to[(j0 + j) * shape.c_column] = finish(acc[j], i, j0 + j);
      }
    }
  });
}

// Integers wrap around, unless they are scaled by reals.
std::unique_ptr<OpPlan> integer_plan(const NodeDesc& node, const MatMulShape& shape, DataType type, const Bias& bias) {
  return dispatch<kIntegers>(type, [&]<class T>(Tag<T>) {
    return make_plan(node, [shape, bias](auto in, auto out, const ExecContext& context) -> Result<void> {
      using Acc = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;
      const T* added = bias.beta != 0 ? static_cast<const T*>(in[2]) : nullptr;
      const auto finish = [&](Acc sum, std::int64_t i, std::int64_t j) {
        const T value = added == nullptr ? T(0) : added[i * bias.row + j * bias.column];
        const bool scaled = bias.alpha != 1 || (added != nullptr && bias.beta != 1);
        using Sum = std::conditional_t<std::is_signed_v<T>, std::make_signed_t<Acc>, Acc>;
        if (!scaled) return static_cast<T>(sum + static_cast<Acc>(value));
        return from_real<T>(bias.alpha * static_cast<double>(static_cast<Sum>(sum)) +
                            bias.beta * static_cast<double>(value));
      };
      integer_loops<Acc>(shape, static_cast<const T*>(in[0]), static_cast<const T*>(in[1]), static_cast<T*>(out[0]),
                         finish, context);
      return {};
    });
  });
}

// A vector times a matrix whose columns lie in memory one after another, the classifier of a network at batch 1, or
// rows of a matrix times a vector. It waits for the matrix, which is read as it is: halves are half of what oneDNN
// would read of them as f32. Null where that is not what is asked for.
std::unique_ptr<OpPlan> vector_plan(const NodeDesc& node, MatMulShape shape, DataType type, Bias bias,
                                    const PlanRequest& request) {
  const RowFunctions* const rows = row_functions(request.cpu.isa);
  const bool of_columns = shape.n == 1 && shape.batches() * shape.m > 1;
  if (of_columns) turn(shape, bias);
  const int of_vector = of_columns ? 1 : 0;  // inputs
  const bool fits = shape.m == 1 && shape.b_row == 1 && shape.a_column == 1 && shape.k > 0 &&
                    (shape.n == 1 || shape.c_column == 1) && (of_columns || shape.batches() == 1);
  if (rows == nullptr || !fits) return nullptr;
  if (type != DataType::f32 && !contains(kHalves, type)) return nullptr;
  return dispatch<only(DataType::f32) | kHalves>(type, [&]<class T>(Tag<T>) {
    const auto run = [=](auto in, auto out, const ExecContext& context) -> Result<void> {
      const auto* const vectors = static_cast<const T*>(in[of_vector]);
      const auto* const matrices = static_cast<const T*>(in[1 - of_vector]);
      const auto* const added = bias.beta != 0 ? static_cast<const T*>(in[2]) : nullptr;
      const float alpha = static_cast<float>(bias.alpha), beta = static_cast<float>(bias.beta);
      auto* const y = static_cast<T*>(out[0]);
      const auto vector = [&](std::int64_t index) { return vectors + shape.offsets(index).a; };
      auto* const wide = static_cast<float*>(context.workspace);
      if constexpr (is_half<T>) {
        for (std::int64_t index = 0; index < shape.batches(); ++index) {
          for (std::int64_t i = 0; i < shape.k; i += kRowChunk) {
            load_row(true, vector(index) + i, 1, std::min(kRowChunk, shape.k - i), wide + index * shape.k + i);
          }
        }
      }
      parallel_for(context, shape.batches() * shape.n, shape.k, [&](std::int64_t begin, std::int64_t end) {
        RowBuffer sums;
        while (begin < end) {
          const std::int64_t index = begin / shape.n, first = begin % shape.n;
          const std::int64_t count = std::min({kRowChunk, end - begin, shape.n - first});
          const MatMulShape::Offsets at = shape.offsets(index);
          const float* x = wide + index * shape.k;
          if constexpr (!is_half<T>) x = vector(index);
          rows->dots(float_type<T>, x, matrices + at.b + first * shape.b_column, shape.b_column, count, shape.k,
                     sums.data());
          T* const to = y + at.c + first * shape.c_column;
          for (std::int64_t i = 0; i < count; ++i) {
            const float more = added == nullptr ? 0.0F : static_cast<float>(added[(first + i) * bias.column]);
            to[i] = T(sums[i] * alpha + beta * more);
          }
          begin += count;
        }
      });
      return {};
    };
    const std::int64_t widened = is_half<T> ? shape.batches() * shape.k : 0;
    return make_plan(node, run, static_cast<std::size_t>(widened) * sizeof(float));
  });
}

// With an attribute `bias`, which a pass sets, its third input is added to each row.
class MatMul final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const std::size_t count = node.has("bias") ? 3 : 2;
    CONVOY_CHECK(check_counts(node, inputs, count, count));
    CONVOY_CHECK(check_same_type(node, inputs));
    Dims dims;
    if (auto shape = matmul_shape(node, inputs[0].desc.dims, inputs[1].desc.dims, 0, 1, &dims); !shape.ok()) {
      return shape.error();
    }
    if (const std::int64_t width = count == 3 ? inputs[2].desc.elements() : 1; width != 1 && width != dims.back()) {
      return bad_node(node, fmt::format("input 2 has {} elements, and rows {}", width, dims.back()));
    }
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    Dims dims;
    CONVOY_TRY(MatMulShape shape, matmul_shape(node, inputs[0].desc.dims, inputs[1].desc.dims, 0, 1, &dims));
    merge_batches(shape, inputs[0].desc.dims);
    Bias bias;
    if (node.has("bias")) bias = {0, inputs[2].desc.elements() == 1 ? 0 : 1, 1, 1};
    if (contains(kHalves, outputs[0].type)) {
      if (auto plan = vector_plan(node, shape, outputs[0].type, bias, request)) return plan;
      if (auto plan = thin_matmul(node, shape, outputs[0].type, bias, request)) return plan;
      return plan_in_f32(*this, node, inputs, outputs, request);
    }
    return product_plan(node, shape, outputs[0].type, request, bias);
  }
};

Result<MatMulShape> gemm_shape(const NodeDesc& node, std::span<const Input> inputs) {
  CONVOY_TRY(const std::int64_t transpose_a, node.integer("transA", 0));
  CONVOY_TRY(const std::int64_t transpose_b, node.integer("transB", 0));
  const Dims &a = inputs[0].desc.dims, &b = inputs[1].desc.dims;
  if (a.size() != 2 || b.size() != 2) {
    return bad_node(
        node, fmt::format("inputs 0 and 1 have dims [{}] and [{}]; both must be matrices", to_string(a), to_string(b)));
  }
  MatMulShape shape;
  shape.m = a[transpose_a != 0 ? 1 : 0];
  shape.k = a[transpose_a != 0 ? 0 : 1];
  shape.n = b[transpose_b != 0 ? 0 : 1];
  if (b[transpose_b != 0 ? 1 : 0] != shape.k) {
    return bad_node(node, fmt::format("inputs 0 and 1 have dims [{}] and [{}] with transA={}, transB={}: the inner "
                                      "dims differ",
                                      to_string(a), to_string(b), transpose_a, transpose_b));
  }
  shape.a_row = transpose_a != 0 ? 1 : a[1];
  shape.a_column = transpose_a != 0 ? a[1] : 1;
  shape.b_row = transpose_b != 0 ? 1 : b[1];
  shape.b_column = transpose_b != 0 ? b[1] : 1;
  shape.c_row = shape.n;
  return shape;
}

Result<Bias> gemm_bias(const NodeDesc& node, std::span<const Input> inputs, const MatMulShape& shape) {
  Bias bias;
  CONVOY_TRY(bias.alpha, node.real("alpha", 1));
  CONVOY_TRY(bias.beta, node.real("beta", 1));
  if (!is_present(inputs, 2)) {
    bias.beta = 0;
    return bias;
  }
  Dims dims = inputs[2].desc.dims;
  while (dims.size() < 2) dims.insert(dims.begin(), 1);
  if (dims.size() > 2 || (dims[0] != 1 && dims[0] != shape.m) || (dims[1] != 1 && dims[1] != shape.n)) {
    return bad_node(node, fmt::format("input 2 has dims [{}], which do not broadcast to {}x{}",
                                      to_string(inputs[2].desc.dims), shape.m, shape.n));
  }
  bias.row = dims[0] == 1 ? 0 : dims[1];
  bias.column = dims[1] == 1 ? 0 : 1;
  return bias;
}

class Gemm final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 3));
    CONVOY_CHECK(check_same_type(node, inputs));
    CONVOY_TRY(const MatMulShape shape, gemm_shape(node, inputs));
    if (auto bias = gemm_bias(node, inputs, shape); !bias.ok()) return bias.error();
    return one_output(node, inputs[0].desc.type, {shape.m, shape.n});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const MatMulShape shape, gemm_shape(node, inputs));
    CONVOY_TRY(const Bias bias, gemm_bias(node, inputs, shape));
    if (contains(kHalves, outputs[0].type)) {
      if (auto plan = vector_plan(node, shape, outputs[0].type, bias, request)) return plan;
      if (auto plan = thin_matmul(node, shape, outputs[0].type, bias, request)) return plan;
      return plan_in_f32(*this, node, inputs, outputs, request);
    }
    return product_plan(node, shape, outputs[0].type, request, bias);
  }
};

const MatMul matmul;
const Gemm gemm;

}  // namespace

Result<Product> product_of(const NodeDesc& node, std::span<const Input> inputs) {
  Product product;
  if (node.op == "Gemm") {
    CONVOY_TRY(product.shape, gemm_shape(node, inputs));
    CONVOY_TRY(product.bias, gemm_bias(node, inputs, product.shape));
    return product;
  }
  if (node.op != "MatMul") return Error{ErrorCode::unsupported, fmt::format("no kernel for {} on cuda", node.op)};
  Dims output;
  CONVOY_TRY(product.shape, matmul_shape(node, inputs[0].desc.dims, inputs[1].desc.dims, 0, 1, &output));
  merge_batches(product.shape, inputs[0].desc.dims);
  return product;
}

std::unique_ptr<OpPlan> product_plan(const NodeDesc& node, const MatMulShape& shape, DataType type,
                                     const PlanRequest& request, const ProductBias& bias) {
  if (contains(kIntegers, type)) return integer_plan(node, shape, type, bias);
  if (auto plan = vector_plan(node, shape, type, bias, request)) return plan;
  if (auto plan = thin_matmul(node, shape, type, bias, request)) return plan;
  if (type == DataType::f32 && !faster_by_panels(shape, request.cpu.isa)) {
    auto plan = onednn_matmul(shape, is_row(bias) ? bias : Bias{}, request.threads);
    if (plan != nullptr) return is_row(bias) ? std::move(plan) : scaled(node, shape, bias, std::move(plan));
  }
  return panel_matmul(node, shape, type, bias, request);
}

std::vector<OperatorRow> matmul_rows() {
  return {
      {"MatMul", &matmul, images::matmul, Rate::products, values::mixed, in_place::never, layouts::row_major,
       kMathNumeric},
      {"Gemm", &gemm, images::gemm, Rate::products, values::mixed, in_place::never, layouts::row_major, kMathNumeric}};
}

}  // namespace convoy::ops
