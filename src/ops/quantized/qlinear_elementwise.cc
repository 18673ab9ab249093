// Element by element on 8-bit tensors: ONNX Runtime's QLinearAdd and QLinearMul (two operands that broadcast),
// QLinearLeakyRelu and QLinearSigmoid, and our own Lookup (a table of 256 bytes). Each computes what DequantizeLinear,
// the float operator and QuantizeLinear compute, in the same f32 steps.
#include <array>
#include <cmath>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/quantized/look_up.h"
#include "ops/quantized/quantize.h"
#include "ops/rows.h"
#include "ops/rows_avx2.h"

namespace convoy::ops {
namespace {

struct Sum {
  static constexpr avx2::QLinearFunction kVectors = avx2::QLinearFunction::add;
  float operator()(float a, float b) const { return a + b; }
};
struct Product {
  static constexpr avx2::QLinearFunction kVectors = avx2::QLinearFunction::multiply;
  float operator()(float a, float b) const { return a * b; }
};

// Inputs: a, its scale and zero point, b, its scale and zero point, the output's scale and zero point.
template <class F>
class QLinearBinary final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 8));
    if (!is_present(inputs, 3)) return bad_node(node, "input 3 (B) is absent");
    const DataType type = inputs[0].desc.type;
    CONVOY_CHECK(check_type(node, inputs, 3, only(type)));
    CONVOY_CHECK(check_quantizer(node, inputs, 1, 2, type));
    CONVOY_CHECK(check_quantizer(node, inputs, 4, 5, type));
    CONVOY_CHECK(check_quantizer(node, inputs, 6, 7, type));
    const Dims shapes[] = {inputs[0].desc.dims, inputs[3].desc.dims};
    CONVOY_TRY(Dims dims, broadcast_dims(node, shapes));
    return one_output(node, type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc, inputs[3].desc});
    // What there are vectors for: operands that go through the rows of the output in step or stay where they are.
    const std::int64_t a_stride = loop.inner_stride(1), b_stride = loop.inner_stride(2);
    const bool in_step = a_stride <= 1 && b_stride <= 1 && (a_stride == 1 || b_stride == 1);
    const bool vectors = has_row_vectors(request) && loop.inner_stride(0) == 1 && in_step;
    return dispatch<kBytes>(outputs[0].type, [&]<class Q>(Tag<Q>) {
      return make_plan(
          node, [loop, vectors, type = outputs[0].type](auto in, auto out, const ExecContext& context) -> Result<void> {
            const Quantizer qa = read_quantizer(in, 1, 2, type), qb = read_quantizer(in, 4, 5, type);
            const Quantizer qy = read_quantizer(in, 6, 7, type);
            parallel_for(context, loop.elements(), 4, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                const Q *a = static_cast<const Q*>(in[0]) + at[1], *b = static_cast<const Q*>(in[3]) + at[2];
                Q* y = static_cast<Q*>(out[0]) + at[0];
                if (vectors) {
                  avx2::qlinear_row(type, F::kVectors, vector_row(a, loop.inner_stride(1), qa),
                                    vector_row(b, loop.inner_stride(2), qb), qy.scale,
                                    static_cast<std::int32_t>(qy.zero), y, count);
                } else {
                  row(qa, qb, qy, a, loop.inner_stride(1), b, loop.inner_stride(2), y, loop.inner_stride(0), count);
                }
              });
            });
            return {};
          });
    });
  }

 private:
  static avx2::QuantizedRow vector_row(const void* data, std::int64_t stride, const Quantizer& q) {
    return {data, stride == 0, q.scale, static_cast<std::int32_t>(q.zero)};
  }

  template <class Q>
  static void row(const Quantizer& qa, const Quantizer& qb, const Quantizer& qy, const Q* a, std::int64_t a_stride,
                  const Q* b, std::int64_t b_stride, Q* y, std::int64_t y_stride, std::int64_t count) {
    const F f;
    for (std::int64_t i = 0; i < count; ++i) {
      y[i * y_stride] = qy.quantized<Q>(f(qa.real(a[i * a_stride]), qb.real(b[i * b_stride])));
    }
  }
};

// y[i] = table[x[i]], bytes as they are. x and y are packed alike.
void look_up(const ByteTable& table, const void* x, void* y, std::int64_t count, LookUpRow row,
             const ExecContext& context) {
  const auto* from = static_cast<const std::uint8_t*>(x);
  auto* to = static_cast<std::uint8_t*>(y);
  parallel_for(context, count, 1,
               [&](std::int64_t begin, std::int64_t end) { row(table, from + begin, to + begin, end - begin); });
}

struct LeakyRelu {
  float alpha = 0.01F;
  static Result<LeakyRelu> make(const NodeDesc& node) {
    CONVOY_TRY(const double alpha, node.real("alpha", 0.01));
    return LeakyRelu{static_cast<float>(alpha)};
  }
  float operator()(float x) const { return x >= 0 ? x : alpha * x; }
};
struct Sigmoid {
  static Result<Sigmoid> make(const NodeDesc&) { return Sigmoid{}; }
  float operator()(float x) const { return 1 / (1 + std::exp(-x)); }
};

// Inputs: x, its scale and zero point, the output's scale and zero point.
template <class F>
class QLinearUnary final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_one_tensor(node, inputs));
    const DataType type = inputs[0].desc.type;
    if (auto f = F::make(node); !f.ok()) return f.error();
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const F f, F::make(node));
    const DataType type = outputs[0].type;
    const std::int64_t count = inputs[0].desc.elements();
    const LookUpRow row = look_up_row(request.cpu);
    return dispatch<kBytes>(type, [&]<class Q>(Tag<Q>) {
      return make_plan(node, [f, type, count, row](auto in, auto out, const ExecContext& context) -> Result<void> {
        const Quantizer qx = read_quantizer(in, 1, 2, type), qy = read_quantizer(in, 3, 4, type);
        ByteTable table;
        for (int byte = 0; byte < 256; ++byte) {
          table[byte] = static_cast<std::uint8_t>(qy.quantized<Q>(f(qx.real(static_cast<Q>(byte)))));
        }
        look_up(table, in[0], out[0], count, row, context);
        return {};
      });
    });
  }
};

// Inputs: x, and a table of 256 values of the output's type that the bytes of x index.
class Lookup final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kBytes));
    if (inputs[1].desc.dims != Dims{256}) {
      return bad_node(node, "input 1 (table) has dims [" + to_string(inputs[1].desc.dims) + "], it must have [256]");
    }
    return one_output(node, inputs[1].desc.type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    return make_plan(node,
                     [count = inputs[0].desc.elements(), row = look_up_row(request.cpu)](
                         auto in, auto out, const ExecContext& context) -> Result<void> {
                       ByteTable table;
                       std::copy_n(static_cast<const std::uint8_t*>(in[1]), table.size(), table.begin());
                       look_up(table, in[0], out[0], count, row, context);
                       return {};
                     });
  }
};

const QLinearBinary<Sum> qlinear_add;
const QLinearBinary<Product> qlinear_mul;
const QLinearUnary<LeakyRelu> qlinear_leaky_relu;
const QLinearUnary<Sigmoid> qlinear_sigmoid;
const Lookup lookup;

}  // namespace

std::vector<OperatorRow> qlinear_elementwise_rows() {
  return {{"QLinearAdd", &qlinear_add, images::element_wise, Rate::quantized_arithmetic, values::mapped_bytes,
           in_place::first, layouts::plain, kBytes, "com.microsoft"},
          {"QLinearMul", &qlinear_mul, images::element_wise, Rate::quantized_arithmetic, values::mapped_bytes,
           in_place::first, layouts::plain, kBytes, "com.microsoft"},
          {"QLinearLeakyRelu", &qlinear_leaky_relu, images::element_wise, Rate::lookups, values::mapped,
           in_place::first, layouts::plain, kBytes, "com.microsoft"},
          {"QLinearSigmoid", &qlinear_sigmoid, images::element_wise, Rate::lookups, values::mapped, in_place::first,
           layouts::plain, kBytes, "com.microsoft"},
          {"Lookup", &lookup, images::each_alone, Rate::lookups, values::mapped, in_place::first, layouts::plain,
           kBytes, "convoy"}};
}

}  // namespace convoy::ops
