// ONNX Runtime's QGemm: alpha * (a . b + c) on 8-bit matrices, sums in 32 bits, to 8 bits or, without an output scale,
// to f32. Where b is constant the network runs it as a convolution instead.
#include <fmt/format.h>

#include "ops/matmul/integer_matmul.h"
#include "ops/operator_row.h"
#include "ops/quantized/quantize.h"

namespace convoy::ops {
namespace {

// Inputs: a, its scale and zero point, b, its scale and zero point (one, or one a column), c (s32, scale
// a_scale*b_scale; as quantized_folding writes it also f32 in this unit), the output's scale and zero point.
class QGemm final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 6, 9));
    for (const int index : {0, 3}) CONVOY_CHECK(check_type(node, inputs, index, kBytes));
    CONVOY_CHECK(check_quantizer(node, inputs, 1, 2, inputs[0].desc.type));
    CONVOY_TRY(const MatMulShape shape, shape_of(node, inputs));
    CONVOY_CHECK(check_type(node, inputs, 4, only(DataType::f32)));
    CONVOY_CHECK(check_type(node, inputs, 5, only(inputs[3].desc.type)));
    for (const int index : {4, 5}) {
      const std::int64_t count = inputs[index].desc.elements();
      if (count != 1 && count != shape.n) {
        return bad_node(node, fmt::format("input {} has {} elements; 1 or {} are needed", index, count, shape.n));
      }
    }
    CONVOY_CHECK(check_type(node, inputs, 6, only(DataType::s32) | only(DataType::f32)));
    if (auto bias = bias_of(node, inputs, shape); !bias.ok()) return bias.error();
    DataType type = DataType::f32;
    if (is_present(inputs, 7)) {
      type = is_present(inputs, 8) ? inputs[8].desc.type : inputs[0].desc.type;
      if (!contains(kBytes, type)) return bad_node(node, "input 8 (y_zero_point) must be s8 or u8");
      CONVOY_CHECK(check_quantizer(node, inputs, 7, 8, type));
    }
    if (auto alpha = node.real("alpha", 1); !alpha.ok()) return alpha.error();
    return one_output(node, type, {shape.m, shape.n});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const MatMulShape shape, shape_of(node, inputs));
    CONVOY_TRY(const Bias bias, bias_of(node, inputs, shape));
    CONVOY_TRY(const double alpha, node.real("alpha", 1));
    const bool scale_a_column = inputs[4].desc.elements() > 1, zero_a_column = inputs[5].desc.elements() > 1;
    const DataType a_type = inputs[0].desc.type, b_type = inputs[3].desc.type;
    const DataType c_type = is_present(inputs, 6) ? inputs[6].desc.type : DataType::s32;
    return dispatch<kBytes | only(DataType::f32)>(outputs[0].type, [&]<class Y>(Tag<Y>) {
      const auto run = [=, y_type = outputs[0].type](auto in, auto out, const ExecContext& context) -> Result<void> {
        const Quantizer qa = read_quantizer(in, 1, 2, a_type);
        const Quantizer qy = std::is_same_v<Y, float> ? Quantizer{} : read_quantizer(in, 7, 8, y_type);
        const auto* const b_scale = static_cast<const float*>(in[4]);
        const void* const c = in.size() > 6 ? in[6] : nullptr;
        const auto a_zero = [&](std::int64_t, std::int64_t) { return static_cast<std::int32_t>(qa.zero); };
        const auto b_zero = [&](std::int64_t, std::int64_t j) {
          const std::int64_t at = zero_a_column ? j : 0;
          return b_type == DataType::s8 ? std::int32_t(static_cast<const std::int8_t*>(in[5])[at])
                                        : std::int32_t(static_cast<const std::uint8_t*>(in[5])[at]);
        };
        const auto finish = [&](const std::int32_t* sums, std::int64_t image, std::int64_t i, std::int64_t first,
                                std::int64_t count) {
          Y* const y = static_cast<Y*>(out[0]) + shape.at_c(image, i, first);
          for (std::int64_t l = 0; l < count; ++l) {
            const std::int64_t j = first + l;
            double value = sums[l];
            if (c != nullptr) value += load_as_double(c_type, c, i * bias.row + j * bias.column);
            value *= alpha * static_cast<double>(qa.scale) * b_scale[scale_a_column ? j : 0];
            if constexpr (std::is_same_v<Y, float>)
              y[l] = static_cast<float>(value);
            else
              y[l] = quantize_integer<Y, double>(value, qy.scale, qy.zero);
          }
        };
        integer_matmul(shape, request.cpu, {a_type, in[0], a_zero}, {b_type, in[3], b_zero}, finish, context);
        return {};
      };
      return make_plan(node, run, integer_matmul_workspace(request));
    });
  }

 private:
  struct Bias {
    std::int64_t row = 0, column = 0;  // strides
  };

  static Result<MatMulShape> shape_of(const NodeDesc& node, std::span<const Input> inputs) {
    const Dims &a = inputs[0].desc.dims, &b = inputs[3].desc.dims;
    CONVOY_TRY(const std::int64_t trans_a, node.integer("transA", 0));
    CONVOY_TRY(const std::int64_t trans_b, node.integer("transB", 0));
    if (a.size() != 2 || b.size() != 2) {
      return bad_node(node, "inputs 0 and 3 have dims [" + to_string(a) + "] and [" + to_string(b) + "], not 2 each");
    }
    MatMulShape shape;
    shape.m = a[trans_a != 0 ? 1 : 0];
    shape.k = a[trans_a != 0 ? 0 : 1];
    shape.n = b[trans_b != 0 ? 0 : 1];
    if (b[trans_b != 0 ? 1 : 0] != shape.k) {
      return bad_node(node, fmt::format("inputs 0 and 3 have dims [{}] and [{}]: {} columns meet {} rows", to_string(a),
                                        to_string(b), shape.k, b[trans_b != 0 ? 1 : 0]));
    }
    shape.a_row = trans_a != 0 ? 1 : shape.k;
    shape.a_column = trans_a != 0 ? shape.m : 1;
    shape.b_row = trans_b != 0 ? 1 : shape.n;
    shape.b_column = trans_b != 0 ? shape.k : 1;
    shape.c_row = shape.n;
    return shape;
  }

  static Result<Bias> bias_of(const NodeDesc& node, std::span<const Input> inputs, const MatMulShape& shape) {
    if (!is_present(inputs, 6)) return Bias{};
    Dims dims = inputs[6].desc.dims;
    if (dims.size() <= 2) {
      dims.insert(dims.begin(), 2 - dims.size(), 1);
      if ((dims[0] == 1 || dims[0] == shape.m) && (dims[1] == 1 || dims[1] == shape.n)) {
        return Bias{dims[0] > 1 ? dims[1] : 0, dims[1] > 1 ? 1 : 0};
      }
    }
    return bad_node(node, fmt::format("input 6 (C) has dims [{}], which do not broadcast to [{}x{}]",
                                      to_string(inputs[6].desc.dims), shape.m, shape.n));
  }
};

const QGemm qgemm;

}  // namespace

std::vector<OperatorRow> qgemm_rows() {
  return {{"QGemm", &qgemm, images::qgemm, Rate::products, values::mixed, in_place::never, layouts::row_major, kBytes,
           "com.microsoft"}};
}

}  // namespace convoy::ops
