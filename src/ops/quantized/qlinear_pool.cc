// ONNX Runtime's QLinearAveragePool and QLinearGlobalAveragePool: integer sums over windows of 8-bit tensors.
#include "ops/operator_row.h"
#include "ops/pooling/pooling.h"
#include "ops/quantized/quantize.h"

namespace convoy::ops {
namespace {

template <class Q>
struct QuantizedAverage {
  using Acc = std::int32_t;
  Quantizer x, y;
  bool include_pad;

  Acc start() const { return 0; }
  Acc step(Acc acc, Q value) const { return acc + value; }
  // Padding is real zeros: it adds to the count only.
  Q finish(Acc acc, std::int64_t inside, std::int64_t padded) const {
    const std::int64_t count = include_pad ? padded : inside;
    const double sum = acc - static_cast<double>(x.zero) * static_cast<double>(inside);
    const double mean = count > 0 ? sum * x.scale / static_cast<double>(count) : 0;
    return quantize_integer<Q, double>(mean, y.scale, y.zero);
  }
};

// Sums of bytes stay within 32 bits.
Result<void> check_window(const NodeDesc& node, const PoolGeometry& geometry) {
  std::int64_t taps = 1;
  for (const PoolAxis& axis : geometry.axes) {
    taps *= std::min(axis.kernel, axis.in);
    if (taps > (1 << 23)) return bad_node(node, "windows of more than 2^23 elements are not supported");
  }
  return {};
}

// Inputs: x, its scale and zero point, the output's scale and zero point. channels_last says that x is N, spatial, C:
// then the same loops run on a view of it.
template <bool kGlobal>
class QLinearAveragePool final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_one_tensor(node, inputs));
    const DataType type = inputs[0].desc.type;
    if (auto include = node.integer("count_include_pad", 0); !include.ok()) return include.error();
    if (inputs[0].desc.rank() < 3 || inputs[0].desc.rank() > 5) {
      return bad_node(node,
                      "input 0 has dims [" + to_string(inputs[0].desc.dims) + "]; 1 to 3 spatial dims are needed");
    }
    CONVOY_TRY(const bool last, channels_last(node));
    const TensorDesc x = viewed(inputs[0].desc, last);
    CONVOY_TRY(const PoolGeometry geometry, geometry_of(node, x.dims));
    CONVOY_CHECK(check_window(node, geometry));
    Dims dims = pooled_dims(geometry, x.dims);
    if (last) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    return one_output(node, type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const bool last, channels_last(node));
    const TensorDesc x = viewed(inputs[0].desc, last), y = viewed(outputs[0], last);
    CONVOY_TRY(const PoolGeometry geometry, geometry_of(node, x.dims));
    CONVOY_TRY(const std::int64_t include, node.integer("count_include_pad", 0));
    return dispatch<kBytes>(x.type, [&]<class Q>(Tag<Q>) {
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const QuantizedAverage<Q> average{read_quantizer(in, 1, 2, x.type), read_quantizer(in, 3, 4, x.type),
                                          include != 0};
        pool(geometry, x, y, static_cast<const Q*>(in[0]), static_cast<Q*>(out[0]), context,
             [&](const PoolRow<Q>& row) { pool_row(average, row); });
        return {};
      });
    });
  }

 private:
  static Result<bool> channels_last(const NodeDesc& node) {
    CONVOY_TRY(const std::int64_t last, node.integer("channels_last", 0));
    return last != 0;
  }

  // N, C, spatial, whatever the order of the dims.
  static TensorDesc viewed(TensorDesc desc, bool last) {
    if (!last) return desc;
    std::rotate(desc.dims.begin() + 1, desc.dims.end() - 1, desc.dims.end());
    std::rotate(desc.strides.begin() + 1, desc.strides.end() - 1, desc.strides.end());
    return desc;
  }

  static Result<PoolGeometry> geometry_of(const NodeDesc& node, const Dims& dims) {
    if (!kGlobal) return read_pooling(node, dims);
    NodeDesc whole = node;
    whole.attributes = {{"kernel_shape", Dims(dims.begin() + 2, dims.end())}};
    return read_pooling(whole, dims);
  }
};

Taken layouts_of_pool(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  const auto last = node.integer("channels_last", 0);
  return (last.ok() && *last == 0 ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

const QLinearAveragePool<false> qlinear_average_pool;
const QLinearAveragePool<true> qlinear_global_average_pool;

}  // namespace

std::vector<OperatorRow> qlinear_pool_rows() {
  return {{"QLinearAveragePool", &qlinear_average_pool, images::each_alone, Rate::others, values::mixed,
           in_place::never, layouts_of_pool, kBytes, "com.microsoft"},
          {"QLinearGlobalAveragePool", &qlinear_global_average_pool, images::each_alone, Rate::others, values::mixed,
           in_place::never, layouts_of_pool, kBytes, "com.microsoft"}};
}

}  // namespace convoy::ops
