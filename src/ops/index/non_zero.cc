// NonZero: the coordinates of the elements that are not 0, in row-major order, one column each.
#include <fmt/format.h>

#include "ops/families.h"

namespace convoy::ops {
namespace {

template <class T>
std::int64_t count_nonzero(const T* x, std::int64_t elements) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < elements; ++i) count += static_cast<Compute<T>>(x[i]) != Compute<T>(0) ? 1 : 0;
  return count;
}

class NonZero final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_CHECK(check_type(node, inputs, 0, kAnyType));
    const TensorDesc& x = inputs[0].desc;
    if (inputs[0].constant == nullptr && x.elements() != 0) {
      return Error{ErrorCode::unsupported, "NonZero: input 0 must be known before the node is planned"};
    }
    const std::int64_t count = dispatch<kAnyType>(x.type, [&]<class T>(Tag<T>) {
      return count_nonzero(static_cast<const T*>(inputs[0].constant), x.elements());
    });
    return one_output(node, DataType::s64, {std::max(x.rank(), 1), count});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    const TensorDesc x = inputs[0].desc;
    return dispatch<kAnyType>(x.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [x, columns = outputs[0].dims[1]](std::span<const void* const> in, std::span<void* const> out,
                                                         const ExecContext&) -> Result<void> {
                         const T* values = static_cast<const T*>(in[0]);
                         auto* y = static_cast<std::int64_t*>(out[0]);
                         if (count_nonzero(values, x.elements()) != columns) {
                           return Error{
                               ErrorCode::internal,
                               fmt::format("NonZero: planned for {} elements, the values have others", columns)};
                         }
                         std::int64_t column = 0;
                         for (std::int64_t i = 0; i < x.elements(); ++i) {
                           if (static_cast<Compute<T>>(values[i]) == Compute<T>(0)) continue;
                           std::int64_t rest = i;
                           for (int d = x.rank() - 1; d >= 0; --d) {
                             y[d * columns + column] = rest % x.dims[d];
                             rest /= x.dims[d];
                           }
                           if (x.rank() == 0) y[column] = 0;
                           ++column;
                         }
                         return {};
                       });
    });
  }
};

const NonZero op_NonZero;

}  // namespace

std::vector<OperatorRow> non_zero_rows() { return {{"NonZero", &op_NonZero}}; }

}  // namespace convoy::ops
