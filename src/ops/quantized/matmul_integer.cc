// MatMulInteger and QLinearMatMul: 8-bit operands with zero points, sums in 32 bits.
#include <fmt/format.h>

#include <array>

#include "ops/matmul/integer_matmul.h"
#include "ops/matmul/integer_product.h"
#include "ops/operator_row.h"
#include "ops/quantized/quantize.h"

namespace convoy::ops {
namespace {

// A scale or zero point: one element, one a row of a (or column of b), or one of those a matrix of the batch. Value
// (image, position) lies at image * step + position * (per_line ? 1 : 0) of the packed tensor.
struct ParameterStrides {
  std::int64_t image = 0, line = 0;
  std::int64_t at(std::int64_t i, std::int64_t position) const { return i * image + position * line; }
};

// `lines`: rows of a or columns of b; `own`: dims of that operand.
Result<ParameterStrides> parameter_strides_of(const NodeDesc& node, std::span<const Input> inputs, int index,
                                              const Dims& own, std::int64_t lines, const MatMulShape& shape) {
  ParameterStrides strides;
  if (!is_present(inputs, index)) return strides;
  const std::int64_t count = inputs[index].desc.elements();
  if (count == 1) return strides;
  std::int64_t own_images = 1;
  for (std::size_t d = 0; d + 2 < own.size(); ++d) own_images *= own[d];
  if (count == lines) {
    strides.line = 1;
    return strides;
  }
  if (count == own_images * lines && own_images == shape.batches()) {
    strides.line = 1;
    strides.image = lines;
    return strides;
  }
  return bad_node(node, fmt::format("input {} has dims [{}]; one element or {} are needed", index,
                                    to_string(inputs[index].desc.dims), lines));
}

std::int32_t byte_at(DataType type, const void* data, std::int64_t at) {
  if (data == nullptr) return 0;
  return type == DataType::s8 ? static_cast<const std::int8_t*>(data)[at] : static_cast<const std::uint8_t*>(data)[at];
}

struct Problem {
  MatMulShape shape;
  Dims output;
  ParameterStrides a_zero, b_zero, a_scale, b_scale;
};

// Operand `index` of `in`, whose zero points are operand `zero` where there is one.
void multiply(const Problem& p, const PlanRequest& request, std::span<const void* const> in, int a, int a_zero, int b,
              int b_zero, DataType a_type, DataType b_type, FinishSums finish, const ExecContext& context) {
  const auto zero_of = [&](int index) {
    return index < static_cast<int>(in.size()) ? in[static_cast<std::size_t>(index)] : nullptr;
  };
  const auto zero_of_a = [&, zeros = zero_of(a_zero)](std::int64_t image, std::int64_t i) {
    return byte_at(a_type, zeros, p.a_zero.at(image, i));
  };
  const auto zero_of_b = [&, zeros = zero_of(b_zero)](std::int64_t image, std::int64_t j) {
    return byte_at(b_type, zeros, p.b_zero.at(image, j));
  };
  integer_matmul(p.shape, request.cpu, {a_type, in[a], zero_of_a}, {b_type, in[b], zero_of_b}, finish, context);
}

Result<void> check_zero_point(const NodeDesc& node, std::span<const Input> inputs, int index, int operand) {
  if (!is_present(inputs, index) || inputs[index].desc.type == inputs[operand].desc.type) return {};
  return bad_node(node, fmt::format("input {} (zero point) must have the type of input {}", index, operand));
}

class MatMulInteger final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 4));
    for (const int index : {0, 1}) {
      CONVOY_CHECK(check_type(node, inputs, index, kBytes));
      CONVOY_CHECK(check_zero_point(node, inputs, 2 + index, index));
    }
    CONVOY_TRY(Problem problem, read(node, inputs));
    return one_output(node, DataType::s32, std::move(problem.output));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    CONVOY_TRY(const Problem problem, read(node, inputs));
    const auto run = [=, a = inputs[0].desc.type, b = inputs[1].desc.type](auto in, auto out,
                                                                           const ExecContext& context) -> Result<void> {
      auto* const c = static_cast<std::int32_t*>(out[0]);
      const auto keep = [&](const std::int32_t* sums, std::int64_t image, std::int64_t i, std::int64_t j,
                            std::int64_t count) { std::copy_n(sums, count, c + problem.shape.at_c(image, i, j)); };
      multiply(problem, request, in, 0, 2, 1, 3, a, b, keep, context);
      return {};
    };
    return make_plan(node, run, integer_matmul_workspace(request));
  }

 private:
  static Result<Problem> read(const NodeDesc& node, std::span<const Input> inputs) {
    Problem problem;
    const Dims &a = inputs[0].desc.dims, &b = inputs[1].desc.dims;
    CONVOY_TRY(problem.shape, matmul_shape(node, a, b, 0, 1, &problem.output));
    CONVOY_TRY(problem.a_zero, parameter_strides_of(node, inputs, 2, a, problem.shape.m, problem.shape));
    CONVOY_TRY(problem.b_zero, parameter_strides_of(node, inputs, 3, b, problem.shape.n, problem.shape));
    return problem;
  }
};

// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
class QLinearMatMul final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 8, 8));
    for (const int index : {0, 3, 7}) CONVOY_CHECK(check_type(node, inputs, index, kBytes));
    for (const int index : {1, 4, 6}) CONVOY_CHECK(check_type(node, inputs, index, kScales));
    for (const int index : {0, 3}) CONVOY_CHECK(check_zero_point(node, inputs, index + 2, index));
    for (const int index : {6, 7}) {
      if (inputs[index].desc.elements() != 1)
        return bad_node(node, fmt::format("input {} must have one element", index));
    }
    CONVOY_TRY(Problem problem, read(node, inputs));
    return one_output(node, inputs[7].desc.type, std::move(problem.output));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const Problem problem, read(node, inputs));
    const std::array scale_types{inputs[1].desc.type, inputs[4].desc.type, inputs[6].desc.type};
    const auto run = [=, a = inputs[0].desc.type, b = inputs[3].desc.type, y_type = outputs[0].type](
                         auto in, auto out, const ExecContext& context) -> Result<void> {
      const double y_scale = load_as_double(scale_types[2], in[6], 0);
      const std::int32_t y_zero = byte_at(y_type, in[7], 0);
      const double low = y_type == DataType::s8 ? -128 : 0;
      auto* const y = static_cast<std::uint8_t*>(out[0]);
      const auto requantize = integer_kernels(request.cpu).requantize;
      const auto finish = [&](const std::int32_t* sums, std::int64_t image, std::int64_t i, std::int64_t j,
                              std::int64_t count) {
        const double a_scale = load_as_double(scale_types[0], in[1], problem.a_scale.at(image, i));
        const std::int64_t step = problem.b_scale.line;
        double scales[kMostSums];
        for (std::int64_t l = 0; l < (step == 0 ? 1 : count); ++l)
          scales[l] = a_scale * load_as_double(scale_types[1], in[4], problem.b_scale.at(image, j + l)) / y_scale;
        requantize(sums, scales, step, count, y_zero, low, low + 255, y + problem.shape.at_c(image, i, j));
      };
      multiply(problem, request, in, 0, 2, 3, 5, a, b, finish, context);
      return {};
    };
    return make_plan(node, run, integer_matmul_workspace(request));
  }

 private:
  static constexpr TypeSet kScales = only(DataType::f32) | only(DataType::f16) | only(DataType::bf16);

  static Result<Problem> read(const NodeDesc& node, std::span<const Input> inputs) {
    Problem problem;
    const Dims &a = inputs[0].desc.dims, &b = inputs[3].desc.dims;
    CONVOY_TRY(problem.shape, matmul_shape(node, a, b, 0, 3, &problem.output));
    CONVOY_TRY(problem.a_scale, parameter_strides_of(node, inputs, 1, a, problem.shape.m, problem.shape));
    CONVOY_TRY(problem.a_zero, parameter_strides_of(node, inputs, 2, a, problem.shape.m, problem.shape));
    CONVOY_TRY(problem.b_scale, parameter_strides_of(node, inputs, 4, b, problem.shape.n, problem.shape));
    CONVOY_TRY(problem.b_zero, parameter_strides_of(node, inputs, 5, b, problem.shape.n, problem.shape));
    return problem;
  }
};

const MatMulInteger matmul_integer;
const QLinearMatMul qlinear_matmul;

}  // namespace

std::vector<OperatorRow> matmul_integer_rows() {
  return {{"MatMulInteger", &matmul_integer, images::matmul_integer, Rate::products, values::mixed, in_place::never,
           layouts::row_major, kBytes},
          {"QLinearMatMul", &qlinear_matmul, images::qlinear_matmul, Rate::products, values::mixed, in_place::never,
           layouts::row_major, kBytes}};
}

}  // namespace convoy::ops
