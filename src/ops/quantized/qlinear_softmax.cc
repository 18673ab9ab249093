// ONNX Runtime's QLinearSoftmax on 8-bit tensors: over one axis, or, as before opset 13, over all dims from it on.
#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "ops/operator_row.h"
#include "ops/quantized/quantize.h"
#include "ops/quantized/quantize_row.h"
#include "ops/rows_avx2.h"

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
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const Rows rows, rows_of(node, inputs[0].desc.dims));
    const DataType type = outputs[0].type;
    const std::size_t bytes_a_thread = sizeof(Exponentials) + static_cast<std::size_t>(rows.size) * sizeof(float);
    return dispatch<kBytes>(type, [&]<class Q>(Tag<Q>) {
      const auto run = [=, isa = request.cpu.isa](auto in, auto out, const ExecContext& context) -> Result<void> {
        const Quantizer qx = read_quantizer(in, 1, 2, type), qy = read_quantizer(in, 3, 4, type);
        if (rows.size == 0) return {};
        const auto some = [&](std::int64_t begin, std::int64_t end, int thread) {
          std::byte* const workspace = static_cast<std::byte*>(context.workspace) + thread * bytes_a_thread;
          Exponentials& exponentials = *new (workspace) Exponentials;
          auto* const values = reinterpret_cast<float*>(workspace + sizeof(Exponentials));
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row / rows.inner * rows.size * rows.inner + row % rows.inner;
            normalize(static_cast<const Q*>(in[0]) + at, rows, qx, exponentials, values);
            quantize(isa, type, values, qy, static_cast<Q*>(out[0]) + at, rows);
          }
        };
        parallel_for_thread(context, rows.outer * rows.inner, rows.size * 4, some);
        return {};
      };
      return make_plan(node, run, bytes_a_thread * static_cast<std::size_t>(std::max(1, request.threads)));
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

  // exp(x - the largest of the row), which 256 times 256 pairs can ask for: each is computed when it is first met.
  struct Exponentials {
    bool met[256] = {};
    float of[256][256];  // [largest][x]; negative where not computed yet

    float* row(std::uint8_t largest) {
      if (!std::exchange(met[largest], true)) std::fill_n(of[largest], 256, -1.0F);
      return of[largest];
    }
  };

  template <class Q>
  static void normalize(const Q* x, const Rows& rows, const Quantizer& qx, Exponentials& exponentials, float* values) {
    Q largest = x[0];
    for (std::int64_t i = 1; i < rows.size; ++i) largest = std::max(largest, x[i * rows.inner]);
    const float shift = qx.real(largest);
    float* const known = exponentials.row(static_cast<std::uint8_t>(largest));
    double sum = 0;
    for (std::int64_t i = 0; i < rows.size; ++i) {
      const Q q = x[i * rows.inner];
      float& value = known[static_cast<std::uint8_t>(q)];
      if (!(value >= 0)) value = std::exp(qx.real(q) - shift);
      values[i] = value;
      sum += value;
    }
    for (std::int64_t i = 0; i < rows.size; ++i) values[i] = static_cast<float>(values[i] / sum);
  }

  template <class Q>
  static void quantize(Isa isa, DataType type, const float* values, const Quantizer& qy, Q* y, const Rows& rows) {
    const auto zero = static_cast<std::int32_t>(qy.zero);
    if (rows.inner > 1 || isa < Isa::avx2) {
      for (std::int64_t i = 0; i < rows.size; ++i) y[i * rows.inner] = qy.quantized<Q>(values[i]);
    } else if (isa < Isa::avx512) {
      avx2::quantize_row(type, values, qy.scale, zero, y, rows.size);
    } else {
      avx512::quantize_row(type, values, qy.scale, zero, y, rows.size);
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
