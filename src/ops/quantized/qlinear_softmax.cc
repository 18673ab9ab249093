// ONNX Runtime's QLinearSoftmax on 8-bit tensors: over one axis, or, as before opset 13, over all dims from it on.
#include <cmath>

#include "ops/operator_row.h"
#include "ops/quantized/quantize.h"

namespace convoy::ops {
namespace {

// Inputs: x, its scale and zero point, the output's scale and zero point. `opset` says which Softmax is meant.
class QLinearSoftmax final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_one_tensor(node, inputs));
    const DataType type = inputs[0].desc.type;
    if (auto rows = rows_of(node, inputs[0].desc.dims); !rows.ok()) return rows.error();
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Rows rows, rows_of(node, inputs[0].desc.dims));
    const DataType type = outputs[0].type;
    return dispatch<kBytes>(type, [&]<class Q>(Tag<Q>) {
      return make_plan(node, [rows, type](auto in, auto out, const ExecContext& context) -> Result<void> {
        const Quantizer qx = read_quantizer(in, 1, 2, type), qy = read_quantizer(in, 3, 4, type);
        if (rows.size == 0) return {};
        parallel_for(context, rows.outer * rows.inner, rows.size * 8, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row / rows.inner * rows.size * rows.inner + row % rows.inner;
            normalize(static_cast<const Q*>(in[0]) + at, static_cast<Q*>(out[0]) + at, rows, qx, qy);
          }
        });
        return {};
      });
    });
  }

 private:
  // The tensor as [outer][size][inner].
  struct Rows {
    std::int64_t outer = 1, size = 1, inner = 1;
  };

  static Result<Rows> rows_of(const NodeDesc& node, const Dims& dims) {
    CONVOY_TRY(const std::int64_t opset, node.integer("opset", 13));
    CONVOY_TRY(const std::int64_t given, node.integer("axis", opset >= 13 ? -1 : 1));
    const int rank = static_cast<int>(dims.size());
    CONVOY_TRY(const int axis, normalize_axis(node, given, rank, "axis", opset >= 13 ? 0 : 1));
    Rows rows;
    for (int d = 0; d < rank; ++d)
      (d < axis ? rows.outer : d > axis && opset >= 13 ? rows.inner : rows.size) *= dims[d];
    return rows;
  }

  template <class Q>
  static void normalize(const Q* x, Q* y, const Rows& rows, const Quantizer& qx, const Quantizer& qy) {
    Q largest = x[0];
    for (std::int64_t i = 1; i < rows.size; ++i) largest = std::max(largest, x[i * rows.inner]);
    const float shift = qx.real(largest);
    double sum = 0;
    for (std::int64_t i = 0; i < rows.size; ++i) sum += std::exp(qx.real(x[i * rows.inner]) - shift);
    for (std::int64_t i = 0; i < rows.size; ++i) {
      const double value = std::exp(qx.real(x[i * rows.inner]) - shift) / sum;
      y[i * rows.inner] = qy.quantized<Q>(static_cast<float>(value));
    }
  }
};

const QLinearSoftmax qlinear_softmax;

}  // namespace

std::vector<OperatorRow> qlinear_softmax_rows() {
  return {{"QLinearSoftmax", &qlinear_softmax, images::mixed, Rate::others, values::mixed, in_place::never,
           layouts::row_major, kBytes, "com.microsoft"}};
}

}  // namespace convoy::ops
