// Where: y = condition ? a : b, all three broadcasting. Elements are moved by size, whatever their type.
#include "ops/operator_row.h"
#include "ops/rows.h"
#include "ops/rows_avx2.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

class Where final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_same_type(node, inputs, kAnyType, 1));
    const Dims shapes[] = {inputs[0].desc.dims, inputs[1].desc.dims, inputs[2].desc.dims};
    CONVOY_TRY(Dims dims, broadcast_dims(node, shapes));
    return one_output(node, inputs[1].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc, inputs[1].desc, inputs[2].desc});
    const bool vectors = has_row_vectors(request) && size_of(outputs[0].type) <= 8 && loop.inner_stride(0) == 1 &&
                         loop.inner_stride(1) == 1 && loop.inner_stride(2) <= 1 && loop.inner_stride(3) <= 1;
    return dispatch_bytes(size_of(outputs[0].type), [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [loop, vectors](std::span<const void* const> in, std::span<void* const> out,
                                       const ExecContext& context) -> Result<void> {
                         parallel_for(context, loop.elements(), 3, [&](std::int64_t begin, std::int64_t end) {
                           loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                             const auto* condition = static_cast<const std::uint8_t*>(in[0]) + at[1];
                             const T* a = static_cast<const T*>(in[1]) + at[2];
                             const T* b = static_cast<const T*>(in[2]) + at[3];
                             T* y = static_cast<T*>(out[0]) + at[0];
                             if (vectors) {
                               return avx2::select_row(sizeof(T), condition, a, loop.inner_stride(2), b,
                                                       loop.inner_stride(3), y, count);
                             }
                             for (std::int64_t i = 0; i < count; ++i) {
                               const T from_a = a[i * loop.inner_stride(2)], from_b = b[i * loop.inner_stride(3)];
                               y[i * loop.inner_stride(0)] = condition[i * loop.inner_stride(1)] != 0 ? from_a : from_b;
                             }
                           });
                         });
                         return {};
                       });
    });
  }
};

const Where op_Where;

}  // namespace

std::vector<OperatorRow> where_rows() {
  return {{"Where", &op_Where, images::element_wise, Rate::elements, values::mixed, in_place::never, layouts::plain,
           only(DataType::boolean)}};
}

}  // namespace convoy::ops
