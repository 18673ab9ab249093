// Products of matrices: folds over the dim that both have.
#include <algorithm>

#include "ops/generated/rules.h"

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
    Place place{desc, {Coordinate::of(row), Coordinate::of(column)}};
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
  if (has_c) made.loads.push_back({2, Place::broadcast(d.inputs[2].desc, 2)});
  if (!is_floating(a.type) && (alpha != 1 || (has_c && beta != 1))) return no_kernel(d, "alpha or beta of integers");
  add_product(made);
  made.stores.push_back({0, Place::broadcast(y, 2), written([&](auto in) {
                           Value sum = in(has_c ? 3 : 2);
                           if (alpha != 1) sum = sum * alpha;
                           if (has_c) sum = sum + (beta == 1 ? in(2) : in(2) * beta);
                           return sum;
                         })});
  return made;
}

// numpy's: the dims in front of the last two broadcast, and vectors have no row or no column.
Result<Computation> matmul(const Described& d) {
  const TensorDesc &a = d.inputs[0].desc, &b = d.inputs[1].desc, &y = d.outputs[0];
  const bool has_rows = a.rank() > 1, has_columns = b.rank() > 1;
  const int batch = y.rank() - (has_rows ? 1 : 0) - (has_columns ? 1 : 0), k = y.rank();
  const auto place = [&](const TensorDesc& desc, std::vector<Coordinate> matrix) {
    Place made{desc, {}};
    const int dims = desc.rank() - static_cast<int>(matrix.size());
    for (int i = 0; i < dims; ++i) {
      made.coordinates.push_back(desc.dims[static_cast<std::size_t>(i)] == 1 ? Coordinate::at(0)
                                                                             : Coordinate::of(batch - dims + i));
    }
    made.coordinates.insert(made.coordinates.end(), matrix.begin(), matrix.end());
    return made;
  };
  Computation made{
      .type = computed_in(a.type), .kept = y.dims, .folded = {a.dims.back()}, .loads = {}, .folds = {}, .stores = {}};
  const Coordinate inner = Coordinate::of(k), row = Coordinate::of(batch);
  const Coordinate column = Coordinate::of(batch + (has_rows ? 1 : 0));
  made.loads.push_back({0, has_rows ? place(a, {row, inner}) : place(a, {inner})});
  made.loads.push_back({1, has_columns ? place(b, {inner, column}) : place(b, {inner})});
  add_product(made);
  made.stores.push_back({0, Place::broadcast(y, y.rank()), generate::itself(2)});
  return made;
}

constexpr NamedRule kProductRules[] = {{"Gemm", gemm}, {"MatMul", matmul}};

}  // namespace

std::span<const NamedRule> product_rules() { return kProductRules; }

}  // namespace convoy::ops::generated
