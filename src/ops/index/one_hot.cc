// OneHot: a new axis of size `depth`, holding values[1] at the index and values[0] elsewhere. Indices count from the
// end where negative; those outside [-depth, depth) give no values[1] at all.
#include <fmt/format.h>

#include <algorithm>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

struct Parameters {
  int axis = 0;
  std::int64_t depth = 0;
};

Result<Parameters> parameters_of(const NodeDesc& node, std::span<const Input> inputs) {
  Parameters p;
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", -1));
  CONVOY_TRY(p.axis, normalize_axis(node, axis, inputs[0].desc.rank() + 1, "axis"));
  CONVOY_TRY(const std::vector<double> depth, constant_reals(node, inputs, 1));
  if (depth.size() != 1 || !(depth[0] >= 1 && depth[0] < 9e15)) {
    return bad_node(node, depth.size() == 1 ? fmt::format("depth={}, it must be at least 1", depth[0])
                                            : std::string("input 1 (depth) must be a single value"));
  }
  p.depth = static_cast<std::int64_t>(depth[0]);
  return p;
}

class OneHot final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, kMathNumeric));
    if (inputs[2].desc.elements() != 2) {
      return bad_node(
          node, fmt::format("input 2 (values) has dims [{}], it must be [off, on]", to_string(inputs[2].desc.dims)));
    }
    CONVOY_TRY(const Parameters p, parameters_of(node, inputs));
    Dims dims = inputs[0].desc.dims;
    dims.insert(dims.begin() + p.axis, p.depth);
    return one_output(node, inputs[2].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Parameters p, parameters_of(node, inputs));
    const std::int64_t inner = outputs[0].strides[p.axis], count = inputs[0].desc.elements(), depth = p.depth;
    const DataType index_type = inputs[0].desc.type;
    return dispatch_bytes(size_of(outputs[0].type), [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
            const T off = static_cast<const T*>(in[2])[0], on = static_cast<const T*>(in[2])[1];
            T* y = static_cast<T*>(out[0]);
            parallel_for(context, count * depth, 1,
                         [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, off); });
            for (std::int64_t i = 0; i < count; ++i) {
              const double given = load_as_double(index_type, in[0], i);
              const double index = given < 0 ? given + static_cast<double>(depth) : given;
              if (!(index >= 0 && index < static_cast<double>(depth))) continue;
              y[(i / inner * depth + static_cast<std::int64_t>(index)) * inner + i % inner] = on;
            }
            return {};
          });
    });
  }
};

const OneHot op_OneHot;

}  // namespace

std::vector<OperatorRow> one_hot_rows() {
  return {{"OneHot", &op_OneHot, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathNumeric}};
}

}  // namespace convoy::ops
