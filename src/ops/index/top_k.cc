// TopK: the k largest (or smallest) along an axis with their indices, best first; of equals the first comes first. NaN
// counts as larger than every number.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/reduce/reduce.h"

namespace convoy::ops {
namespace {

struct Parameters {
  int axis = 0;
  std::int64_t k = 0;
  bool largest = true;
};

Result<Parameters> parameters_of(const NodeDesc& node, std::span<const Input> inputs) {
  Parameters p;
  const TensorDesc& x = inputs[0].desc;
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", -1));
  CONVOY_TRY(p.axis, normalize_axis(node, axis, x.rank(), "axis"));
  CONVOY_TRY(const std::int64_t largest, node.integer("largest", 1));
  p.largest = largest != 0;
  if (node.opset < 10) {
    CONVOY_TRY(p.k, node.integer("k", -1));
  } else {
    CONVOY_TRY(const std::vector<std::int64_t> k, constant_integers(node, inputs, 1));
    if (k.size() != 1) return bad_node(node, "input 1 (k) must be a single value");
    p.k = k[0];
  }
  if (p.k < 0 || p.k > x.dims[p.axis]) {
    return bad_node(node, fmt::format("k={} is outside [0, {}], the size of axis {}", p.k, x.dims[p.axis], p.axis));
  }
  return p;
}

template <class T>
void select(const T* x, std::int64_t step, std::int64_t size, const Parameters& p, std::vector<std::int64_t>& order,
            T* values, std::int64_t* indices, std::int64_t to_step) {
  using C = Compute<T>;
  constexpr std::int64_t kFew = 32;  // each of which finds its place among those that are chosen
  const auto before = [&](std::int64_t i, std::int64_t j) {
    const C a = static_cast<C>(x[i * step]), b = static_cast<C>(x[j * step]);
    if constexpr (std::is_floating_point_v<C>) {
      const bool a_nan = a != a, b_nan = b != b;
      if (a_nan || b_nan) return a_nan == b_nan ? i < j : a_nan == p.largest;
    }
    return a == b ? i < j : p.largest ? a > b : a < b;
  };
  if (p.k <= kFew) {
    order.clear();
    C worst{};  // of those, once there are k
    for (std::int64_t i = 0; i < size; ++i) {
      if (static_cast<std::int64_t>(order.size()) == p.k) {
        const C value = static_cast<C>(x[i * step]);
        if ((p.largest ? value <= worst : value >= worst) || !before(i, order.back())) continue;
        order.pop_back();
      }
      order.insert(std::upper_bound(order.begin(), order.end(), i, before), i);
      worst = static_cast<C>(x[order.back() * step]);
    }
  } else {
    order.resize(size);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + p.k, order.end(), before);
  }
  for (std::int64_t i = 0; i < p.k; ++i) {
    if (values != nullptr) values[i * to_step] = x[order[i] * step];
    if (indices != nullptr) indices[i * to_step] = order[i];
  }
}

class TopK final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return node.opset >= 10 ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const int count = node.opset >= 10 ? 2 : 1;
    CONVOY_CHECK(check_counts(node, inputs, count, count, 2));
    CONVOY_TRY(const Parameters p, parameters_of(node, inputs));
    Dims dims = inputs[0].desc.dims;
    dims[p.axis] = p.k;
    std::vector<TensorDesc> outputs;
    for (const DataType type : {inputs[0].desc.type, DataType::s64}) {
      CONVOY_TRY(TensorDesc desc, make_output(node, type, dims));
      outputs.push_back(std::move(desc));
    }
    outputs.resize(std::clamp(node.output_count, 1, 2));
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Parameters p, parameters_of(node, inputs));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    std::vector<bool> axis(x.rank(), false);
    axis[p.axis] = true;
    const BroadcastLoop lines({cut(y, axis, true), cut(x, axis, true)});
    const std::int64_t size = x.dims[p.axis], step = x.strides[p.axis], to_step = y.strides[p.axis];
    const std::int64_t count = p.k == 0 ? 0 : lines.elements();
    return dispatch<kMathNumeric>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            parallel_for(context, count, size * 8, [&](std::int64_t begin, std::int64_t end) {
              std::vector<std::int64_t> order;
              lines.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
                for (std::int64_t i = 0; i < run; ++i) {
                  const std::int64_t to = at[0] + i * lines.inner_stride(0);
                  select(static_cast<const T*>(in[0]) + at[1] + i * lines.inner_stride(1), step, size, p, order,
                         out[0] == nullptr ? nullptr : static_cast<T*>(out[0]) + to,
                         out.size() < 2 || out[1] == nullptr ? nullptr : static_cast<std::int64_t*>(out[1]) + to,
                         to_step);
                }
              });
            });
            return {};
          });
    });
  }
};

const TopK op_TopK;

}  // namespace

std::vector<OperatorRow> top_k_rows() {
  return {{"TopK", &op_TopK, images::along_last, Rate::others, values::mixed, in_place::never, layouts::plain,
           kMathNumeric}};
}

}  // namespace convoy::ops
