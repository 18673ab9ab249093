// Products of matrices: folds over the dim that both have.
#include <algorithm>

#include "ops/generated/rules.h"
#include "ops/matmul/einsum.h"

namespace convoy::ops::generated {
namespace {

using generate::Function;
using generate::written;

// Loads 0 and 1 multiplied and added up over the only folded dim, of f32 for 16-bit floats.
void add_product(Computation& made) {
  made.folds.push_back({generate::of(Function::add), 0, generate::of(Function::mul), {}});
}

Result<Computation> gemm(const Described& d) {
  const TensorDesc &a = d.inputs[0].desc, &b = d.inputs[1].desc, &y = d.outputs[0];
  CONVOY_TRY(const std::int64_t transpose_a, d.node.integer("transA", 0));
  CONVOY_TRY(const std::int64_t transpose_b, d.node.integer("transB", 0));
  CONVOY_TRY(const double alpha, d.node.real("alpha", 1));
  CONVOY_TRY(const double beta, d.node.real("beta", 1));
  const auto matrix = [](const TensorDesc& desc, int row, int column, bool transposed) {
    Subscript place{desc, {Coordinate::of(row), Coordinate::of(column)}};
    if (transposed) std::swap(place.coordinates[0], place.coordinates[1]);
    return place;
  };
  Computation made{.type = computed_in(a.type),
                   .kept = y.dims,
                   .folded = {a.dims[transpose_a != 0 ? 0 : 1]},
                   .loads = {},
                   .folds = {},
                   .stores = {}};
  made.loads.push_back({0, matrix(a, 0, 2, transpose_a != 0)});
  made.loads.push_back({1, matrix(b, 2, 1, transpose_b != 0)});
  const bool has_c = is_present(d.inputs, 2) && beta != 0;
  if (has_c) made.loads.push_back({2, Subscript::broadcast(d.inputs[2].desc, 2)});
  if (!is_floating(a.type) && (alpha != 1 || (has_c && beta != 1))) return no_kernel(d, "alpha or beta of integers");
  add_product(made);
  made.stores.push_back({0, Subscript::broadcast(y, 2), written([&](auto in) {
                           Value sum = in(has_c ? 3 : 2);
                           if (alpha != 1) sum = sum * alpha;
                           if (has_c) sum = sum + (beta == 1 ? in(2) : in(2) * beta);
                           return sum;
                         })});
  return made;
}

// numpy's: the dims in front of the last two broadcast, and vectors have no row or no column.
struct Matrices {
  const TensorDesc &a, &b, &y;
  bool has_rows = a.rank() > 1, has_columns = b.rank() > 1;
  int batch = y.rank() - (has_rows ? 1 : 0) - (has_columns ? 1 : 0);
  Coordinate inner = Coordinate::of(y.rank()), row = Coordinate::of(batch);
  Coordinate column = Coordinate::of(batch + (has_rows ? 1 : 0));

  Subscript place(const TensorDesc& desc, std::vector<Coordinate> matrix) const {
    Subscript made{desc, {}};
    const int dims = desc.rank() - static_cast<int>(matrix.size());
    for (int i = 0; i < dims; ++i) {
      made.coordinates.push_back(desc.dims[static_cast<std::size_t>(i)] == 1 ? Coordinate::at(0)
                                                                             : Coordinate::of(batch - dims + i));
    }
    made.coordinates.insert(made.coordinates.end(), matrix.begin(), matrix.end());
    return made;
  }
  // Loads 0 and 1 are elements of a and b, inputs `of_a` and `of_b`.
  Computation computation(DataType type, int of_a, int of_b) const {
    Computation made{.type = type, .kept = y.dims, .folded = {a.dims.back()}, .loads = {}, .folds = {}, .stores = {}};
    made.loads.push_back({of_a, has_rows ? place(a, {row, inner}) : place(a, {inner})});
    made.loads.push_back({of_b, has_columns ? place(b, {inner, column}) : place(b, {inner})});
    return made;
  }
};

Result<Computation> matmul(const Described& d) {
  const Matrices m{d.inputs[0].desc, d.inputs[1].desc, d.outputs[0]};
  Computation made = m.computation(computed_in(m.a.type), 0, 1);
  add_product(made);
  made.stores.push_back({0, Subscript::broadcast(m.y, m.y.rank()), generate::itself(2)});
  return made;
}

// A scale or zero point: one element, or one a row of a or column of b. The number of its load; -1: there is none.
Result<int> load_of_lines(Computation& made, const Described& d, int index, const Coordinate& line,
                          std::int64_t lines) {
  if (!is_present(d.inputs, index)) return -1;
  TensorDesc each = d.inputs[static_cast<std::size_t>(index)].desc;
  const std::int64_t count = each.elements();
  if (count != 1 && count != lines) return no_kernel(d, "zero points or scales a matrix");
  each.dims = count == 1 ? Dims{} : Dims{count};
  each.strides = count == 1 ? Dims{} : Dims{1};
  made.loads.push_back({index, {each, count == 1 ? std::vector<Coordinate>{} : std::vector{line}}});
  return static_cast<int>(made.loads.size()) - 1;
}

// Of bytes less their zero points, inputs `zero_a` and `zero_b`.
Result<void> add_integer_product(Computation& made, const Described& d, const Matrices& m, int zero_a, int zero_b) {
  CONVOY_TRY(const int za, load_of_lines(made, d, zero_a, m.row, m.has_rows ? m.a.dims[m.a.dims.size() - 2] : 1));
  CONVOY_TRY(const int zb, load_of_lines(made, d, zero_b, m.column, m.has_columns ? m.b.dims.back() : 1));
  made.folds.push_back(
      {generate::of(Function::add),
       0,
       written([&](auto in) { return (za < 0 ? in(0) : in(0) - in(za)) * (zb < 0 ? in(1) : in(1) - in(zb)); }),
       {}});
  return {};
}

Result<Computation> matmul_integer(const Described& d) {
  const Matrices m{d.inputs[0].desc, d.inputs[1].desc, d.outputs[0]};
  Computation made = m.computation(DataType::s32, 0, 1);
  CONVOY_CHECK(add_integer_product(made, d, m, 2, 3));
  made.stores.push_back(
      {0, Subscript::broadcast(m.y, m.y.rank()), generate::itself(static_cast<int>(made.loads.size()))});
  return made;
}

// In f64, which has the sums exactly.
Result<Computation> qlinear_matmul(const Described& d) {
  const Matrices m{d.inputs[0].desc, d.inputs[3].desc, d.outputs[0]};
  Computation made = m.computation(DataType::f64, 0, 3);
  CONVOY_CHECK(add_integer_product(made, d, m, 2, 5));
  CONVOY_TRY(const int a, load_of_lines(made, d, 1, m.row, m.has_rows ? m.a.dims[m.a.dims.size() - 2] : 1));
  CONVOY_TRY(const int b, load_of_lines(made, d, 4, m.column, m.has_columns ? m.b.dims.back() : 1));
  const Quantizer to = Quantizer::load(made, d, 6, 7);
  const int sum = static_cast<int>(made.loads.size());
  made.stores.push_back({0, Subscript::broadcast(m.y, m.y.rank()), written([&](auto in) {
                           const Value scale = in(a)*in(b) / in(to.scale);
                           return Quantizer::saturated(elements::round(in(sum)*scale) + in(to.zero), m.y.type);
                         })});
  return made;
}

// A fold over the labels that are summed over, of the product of all operands.
Result<Computation> einsum(const Described& d) {
  CONVOY_TRY(const Equation equation, equation_of(d.node, d.inputs));
  const auto kept = equation.sizes.begin() + equation.outputs;
  Computation made{.type = computed_in(d.outputs[0].type),
                   .kept = {equation.sizes.begin(), kept},
                   .folded = {kept, equation.sizes.end()},
                   .loads = {},
                   .folds = {},
                   .stores = {}};
  for (std::size_t i = 0; i < d.inputs.size(); ++i) {
    TensorDesc walked = d.inputs[i].desc;
    walked.dims.clear();
    walked.strides.clear();
    Subscript place{walked, {}};
    for (std::size_t label = 0; label < equation.sizes.size(); ++label) {
      if (equation.strides[i][label] == 0) continue;
      place.tensor.dims.push_back(equation.sizes[label]);
      place.tensor.strides.push_back(equation.strides[i][label]);
      place.coordinates.push_back(Coordinate::of(static_cast<int>(label)));
    }
    made.loads.push_back({static_cast<int>(i), std::move(place)});
  }
  const auto product = written([&](auto in) {
    Value all = in(0);
    for (int i = 1; i < static_cast<int>(d.inputs.size()); ++i) all = all * in(i);
    return all;
  });
  const bool is_sum = !made.folded.empty();
  if (is_sum) made.folds.push_back({generate::of(Function::add), 0, product, {}});
  made.stores.push_back({0, Subscript::broadcast(d.outputs[0], d.outputs[0].rank()),
                         is_sum ? generate::itself(static_cast<int>(d.inputs.size())) : product});
  return made;
}

constexpr NamedRule kProductRules[] = {{"Gemm", gemm},
                                       {"MatMul", matmul},
                                       {"Einsum", einsum},
                                       {"MatMulInteger", matmul_integer},
                                       {"QLinearMatMul", qlinear_matmul}};

}  // namespace

std::span<const NamedRule> product_rules() { return kProductRules; }

}  // namespace convoy::ops::generated
