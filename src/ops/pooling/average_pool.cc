// AveragePool and LpPool: sums over windows.
#include <algorithm>
#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/pooling/plane_pool.h"
#include "ops/pooling/pooling.h"

namespace convoy::ops {
namespace {

template <class T>
struct AverageOp {
  using Acc = Compute<T>;
  bool include_pad, vectors;
  // What divides the sum; 1 where nothing counts, so that it stays 0.
  std::int64_t divisor(std::int64_t inside, std::int64_t padded) const {
    return std::max<std::int64_t>(1, include_pad ? padded : inside);
  }
  Acc start() const { return 0; }
  Acc step(Acc acc, Acc value) const { return acc + value; }
  T finish(Acc acc, std::int64_t inside, std::int64_t padded) const {
    return T(acc / static_cast<Acc>(divisor(inside, padded)));
  }
  bool by_vectors(const PoolRow<T>& row) const {
    return vectors && pool_row_by_vectors(avx2::PoolFunction::average, divisor(row.inside, row.padded), row);
  }
};

// (sum |x|^p)^(1/p)
template <class T>
struct LpOp {
  using Acc = Compute<T>;
  bool by_vectors(const PoolRow<T>&) const { return false; }
  Acc p;
  Acc start() const { return 0; }
  Acc step(Acc acc, Acc value) const { return acc + std::pow(std::abs(value), p); }
  T finish(Acc acc, std::int64_t, std::int64_t) const { return T(std::pow(acc, 1 / p)); }
};
template <class T>
struct L2Op {
  using Acc = Compute<T>;
  bool by_vectors(const PoolRow<T>&) const { return false; }
  Acc start() const { return 0; }
  Acc step(Acc acc, Acc value) const { return acc + value * value; }
  T finish(Acc acc, std::int64_t, std::int64_t) const { return T(std::sqrt(acc)); }
};

class SumPool : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(check_own(node));
    CONVOY_TRY(const PoolGeometry geometry, read_pooling(node, inputs[0].desc.dims));
    return one_output(node, inputs[0].desc.type, pooled_dims(geometry, inputs[0].desc.dims));
  }

 protected:
  virtual Result<void> check_own(const NodeDesc& node) const = 0;

  template <template <class> class Op, class... Args>
  static std::unique_ptr<OpPlan> loop_plan(const NodeDesc& node, const PoolGeometry& geometry, const TensorDesc& x,
                                           const TensorDesc& y, Args... args) {
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      const Op<T> op{static_cast<Args>(args)...};
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        pool(geometry, x, y, static_cast<const T*>(in[0]), static_cast<T*>(out[0]), context,
             [&](const PoolRow<T>& row) {
               if (!op.by_vectors(row)) pool_row(op, row);
             });
        return {};
      });
    });
  }
};

class AveragePool final : public SumPool {
 public:
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    CONVOY_TRY(const PoolGeometry geometry, read_pooling(node, x.dims));
    CONVOY_TRY(const std::int64_t include, node.integer("count_include_pad", 0));
    const auto is_whole = [](const PoolAxis& axis) {
      return axis.out == 1 && axis.pad == 0 && axis.dilation == 1 && axis.kernel == axis.in;
    };
    if (std::ranges::all_of(geometry.axes, is_whole) && x.is_packed(Layout::nchw) && y.elements() > 0) {
      return average_of_planes(node, x, request);
    }
    const PoolKind kind = include != 0 ? PoolKind::average_include_pad : PoolKind::average_exclude_pad;
    if (auto plan = plane_pooling(node, kind, geometry, x, y, request)) return plan;
    const bool vectors = has_row_vectors(request);
    if (!(vectors && suits_channel_rows(geometry, x, y))) {
      if (auto plan = onednn_pooling(kind, geometry, x, y, request.threads)) return plan;
    }
    return loop_plan<AverageOp>(node, geometry, x, y, include != 0, vectors);
  }

 protected:
  Result<void> check_own(const NodeDesc& node) const override {
    if (auto include = node.integer("count_include_pad", 0); !include.ok()) return include.error();
    return {};
  }
};

class LpPool final : public SumPool {
 public:
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    CONVOY_TRY(const PoolGeometry geometry, read_pooling(node, x.dims));
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p == 2) return loop_plan<L2Op>(node, geometry, x, y);
    return loop_plan<LpOp>(node, geometry, x, y, static_cast<float>(p));
  }

 protected:
  Result<void> check_own(const NodeDesc& node) const override {
    CONVOY_TRY(const std::int64_t p, node.integer("p", 2));
    if (p < 1) return bad_node(node, "p=" + std::to_string(p) + " must be positive");
    return {};
  }
};

const AveragePool average_pool;
const LpPool lp_pool;

}  // namespace

std::vector<OperatorRow> average_pool_rows() {
  return {{"AveragePool", &average_pool, images::each_alone, Rate::windows, values::mixed, in_place::never,
           layouts::channels_alike, kMathFloats},
          {"LpPool", &lp_pool, images::each_alone, Rate::windows, values::mixed, in_place::never,
           layouts::channels_alike, kMathFloats}};
}

}  // namespace convoy::ops
