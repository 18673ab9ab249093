// Operators of any number of broadcasting operands: Max, Min, Sum, Mean.
#include <array>

#include "ops/elementwise/binary.h"
#include "ops/families.h"

namespace convoy::ops {
namespace {

// A NaN operand wins, as in numpy.
struct Max {
  static constexpr TypeSet kTypes = kMathNumeric;
  template <class C>
  C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};

struct Min {
  static constexpr TypeSet kTypes = kMathNumeric;
  template <class C>
  C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};

struct Sum {
  static constexpr TypeSet kTypes = kMathFloats;
  template <class C>
  C operator()(C a, C b) const {
    return a + b;
  }
};

struct Mean : Sum {};

template <class F>
class VariadicOperator final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, -1));
    CONVOY_CHECK(check_counts(node, inputs, static_cast<int>(inputs.size()), -1));  // all of them present
    CONVOY_CHECK(check_same_type(node, inputs, F::kTypes));
    std::vector<Dims> shapes;
    for (const Input& input : inputs) shapes.push_back(input.desc.dims);
    CONVOY_TRY(Dims dims, broadcast_dims(node, shapes));
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }
  bool treats_channels_alike(const NodeDesc&, std::span<const Input>) const override { return true; }
  int in_place_input(const NodeDesc&) const override { return 0; }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    std::vector<TensorDesc> operands = {outputs[0]};
    for (const Input& input : inputs) operands.push_back(input.desc);
    const BroadcastLoop loop(operands);
    return dispatch<F::kTypes>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [loop, vectors = has_row_vectors(request)](std::span<const void* const> in, std::span<void* const> out,
                                                     const ExecContext& context) -> Result<void> {
            const auto cost = static_cast<std::int64_t>(2 * in.size());
            parallel_for(context, loop.elements(), cost, [&](std::int64_t begin, std::int64_t end) {
              loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                combine(loop, vectors, in, static_cast<T*>(out[0]), at, count);
              });
            });
            return {};
          });
    });
  }

 private:
  // All operands of a few elements before any is written: the output may share memory with the first operand, which may
  // occur again among the others.
  template <class T>
  static void combine(const BroadcastLoop& loop, bool vectors, std::span<const void* const> in, T* out,
                      const std::int64_t* at, std::int64_t count) {
    using C = Compute<T>;
    constexpr bool kInF32 = std::is_same_v<C, float>;
    constexpr std::int64_t kChunk = kInF32 ? kRowChunk : 256;
    std::array<C, kChunk> sums;
    RowBuffer buffer;
    for (std::int64_t start = 0; start < count; start += kChunk) {
      const std::int64_t n = std::min(kChunk, count - start);
      for (std::size_t k = 0; k < in.size(); ++k) {
        const std::int64_t stride = loop.inner_stride(static_cast<int>(k) + 1);
        const T* x = static_cast<const T*>(in[k]) + at[k + 1] + start * stride;
        if constexpr (kInF32) {
          const float* values = load_row(vectors, x, stride, n, k == 0 ? sums.data() : buffer.data());
          if (k == 0 && values != sums.data()) std::copy_n(values, n, sums.data());
          for (std::int64_t i = 0; k > 0 && i < n; ++i) sums[i] = F()(sums[i], values[i]);
        } else if (k == 0) {
          for (std::int64_t i = 0; i < n; ++i) sums[i] = static_cast<C>(x[i * stride]);
        } else if (stride == 1) {
          for (std::int64_t i = 0; i < n; ++i) sums[i] = F()(sums[i], static_cast<C>(x[i]));
        } else {
          for (std::int64_t i = 0; i < n; ++i) sums[i] = F()(sums[i], static_cast<C>(x[i * stride]));
        }
      }
      const std::int64_t stride = loop.inner_stride(0);
      T* y = out + at[0] + start * stride;
      if constexpr (std::is_same_v<F, Mean>) {
        for (std::int64_t i = 0; i < n; ++i) sums[i] /= C(in.size());
      }
      if constexpr (kInF32) {
        store_row(vectors, sums.data(), n, y, stride);
      } else {
        for (std::int64_t i = 0; i < n; ++i) y[i * stride] = T(sums[i]);
      }
    }
  }
};

const VariadicOperator<Max> op_Max;
const VariadicOperator<Min> op_Min;
const VariadicOperator<Sum> op_Sum;
const VariadicOperator<Mean> op_Mean;

}  // namespace

std::vector<OperatorRow> variadic_rows() {
  return {{"Max", &op_Max}, {"Min", &op_Min}, {"Sum", &op_Sum}, {"Mean", &op_Mean}};
}

}  // namespace convoy::ops
