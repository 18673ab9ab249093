// Operators on the matrices of the last two dims: Trilu and Det.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "ops/indexing.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

class Trilu final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::s64)));
    if (inputs[0].desc.rank() < 2) return bad_node(node, "input 0 must have rank 2 or more");
    if (is_present(inputs, 1) && inputs[1].desc.elements() != 1)
      return bad_node(node, "input 1 (k) must have one element");
    if (auto upper = node.integer("upper", 1); !upper.ok()) return upper.error();
    return one_output(node, inputs[0].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t upper, node.integer("upper", 1));
    const TensorDesc& x = inputs[0].desc;
    const std::int64_t columns = x.dims.back(), rows = x.dims[x.rank() - 2];
    const std::int64_t lines = product(x.dims, 0, x.rank() - 1);
    return dispatch_bytes(size_of(x.type), [&]<class T>(Tag<T>) {
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const bool given = in.size() > 1 && in[1] != nullptr;
        const std::int64_t k = given ? std::clamp(*static_cast<const std::int64_t*>(in[1]), -rows, columns) : 0;
        parallel_for(context, lines, columns, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t line = begin; line < end; ++line) {
            const T* from = static_cast<const T*>(in[0]) + line * columns;
            T* to = static_cast<T*>(out[0]) + line * columns;
            // Column of the diagonal in this row: upper keeps it and what follows, lower what precedes and it.
            const std::int64_t diagonal = line % rows + k;
            for (std::int64_t c = 0; c < columns; ++c) {
              to[c] = (upper != 0 ? c >= diagonal : c <= diagonal) ? from[c] : T(0);
            }
          }
        });
        return {};
      });
    });
  }
};

// Elimination with partial pivoting, in double.
double determinant(std::vector<double>& a, std::int64_t n) {
  double result = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      std::swap_ranges(a.begin() + k * n, a.begin() + (k + 1) * n, a.begin() + pivot * n);
      result = -result;
    }
    result *= a[k * n + k];
    for (std::int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (std::int64_t j = k; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return result;
}

class Det final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    const Dims& dims = inputs[0].desc.dims;
    if (dims.size() < 2 || dims.back() != dims[dims.size() - 2]) {
      return bad_node(node, "input 0 has dims [" + to_string(dims) + "]; square matrices are needed");
    }
    return one_output(node, inputs[0].desc.type, Dims(dims.begin(), dims.end() - 2));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    return make_plan(node,
                     [n = inputs[0].desc.dims.back(), count = outputs[0].elements(), type = outputs[0].type](
                         auto in, auto out, const ExecContext& context) -> Result<void> {
                       parallel_for(context, count, n * n * n, [&](std::int64_t begin, std::int64_t end) {
                         std::vector<double> matrix(n * n);
                         for (std::int64_t m = begin; m < end; ++m) {
                           for (std::int64_t i = 0; i < n * n; ++i)
                             matrix[i] = load_as_double(type, in[0], m * n * n + i);
                           store_from_double(type, out[0], m, determinant(matrix, n));
                         }
                       });
                       return {};
                     });
  }
};

const Trilu trilu;
const Det det;

}  // namespace

std::vector<OperatorRow> matrix_rows() {
  return {{"Trilu", &trilu, images::mixed, Rate::moves, values::mixed, in_place::first, layouts::row_major, kEveryType},
          {"Det", &det, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major, kMathFloats}};
}

}  // namespace convoy::ops
