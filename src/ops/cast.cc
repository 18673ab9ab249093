// Cast and CastLike. Values pass through an intermediate that holds any value of the source exactly (double for floats,
// 64-bit integers), a chunk at a time, so that the 225 pairs of types need no loop each.
//   float -> integer  truncates; out of range (undefined in ONNX) wraps from 64 bits, NaN gives 0
//   integer -> integer wraps            anything -> bool: value != 0
//   float -> f8       rounds to even; saturate=1 (the default) goes to the largest value, otherwise to infinity or NaN
#include <fmt/format.h>

#include <cmath>

#include "ops/families.h"
#include "ops/rows.h"

namespace convoy::ops {
namespace {

template <class T>
using Intermediate = std::conditional_t<
    is_float_element<T>, double,
    std::conditional_t<std::is_same_v<T, std::uint64_t> || std::is_same_v<T, bool>, std::uint64_t, std::int64_t>>;

template <class To>
To convert_float(double value, bool saturate) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<To, F8E4M3> || std::is_same_v<To, F8E5M2>) {
    // 464 and 61440 are halfway to the first value that the type does not have; ties go to the even significand.
    if (!saturate && std::is_same_v<To, F8E4M3> && std::abs(value) > 464) return To(NAN);
    if (!saturate && std::is_same_v<To, F8E5M2> && std::abs(value) >= 61440) {
      To infinity(0.0);
      infinity.bits = value < 0 ? 0xfc : 0x7c;
      return infinity;
    }
    return To(value);
  } else if constexpr (is_float_element<To>) {
    return static_cast<To>(value);
  } else {
    constexpr double kTwo63 = 9223372036854775808.0;
    if (std::isnan(value)) return To(0);
    if (std::is_same_v<To, std::uint64_t> && value >= kTwo63) {
      return value < 2 * kTwo63 ? static_cast<To>(static_cast<std::uint64_t>(value)) : static_cast<To>(~To(0));
    }
    if (value >= kTwo63) return static_cast<To>(INT64_MAX);
    if (value < -kTwo63) return static_cast<To>(INT64_MIN);
    return static_cast<To>(static_cast<std::int64_t>(value));
  }
}

template <class To, class Middle>
void store(const Middle* values, std::int64_t count, void* out, std::int64_t at, std::int64_t stride, bool saturate) {
  To* y = static_cast<To*>(out) + at;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Middle, double>) {
      y[i * stride] = convert_float<To>(values[i], saturate);
    } else if constexpr (is_small_float<To>) {
      y[i * stride] = convert_float<To>(static_cast<double>(values[i]), saturate);
    } else {
      y[i * stride] = static_cast<To>(values[i]);
    }
  }
}

template <class Middle>
void store_as(DataType type, const Middle* values, std::int64_t count, void* out, std::int64_t at, std::int64_t stride,
              bool saturate) {
  dispatch<kAnyType>(type, [&]<class To>(Tag<To>) { store<To>(values, count, out, at, stride, saturate); });
}

// What f32 holds every value of, and what it is then rounded to as from f64.
constexpr TypeSet kRows = kHalves | only(DataType::f32);
constexpr TypeSet kThroughF32 = kRows | only(DataType::u8) | only(DataType::s8);

std::unique_ptr<OpPlan> through_f32(const NodeDesc& node, const BroadcastLoop& loop, DataType from, DataType to,
                                    bool vectors) {
  return dispatch<kThroughF32>(from, [&]<class T>(Tag<T>) {
    return dispatch<kRows>(to, [&]<class To>(Tag<To>) {
      return make_plan(node,
                       [loop, vectors](std::span<const void* const> in, std::span<void* const> out,
                                       const ExecContext& context) -> Result<void> {
                         parallel_for(context, loop.elements(), 2, [&](std::int64_t begin, std::int64_t end) {
                           RowBuffer buffer;
                           loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                             const std::int64_t xs = loop.inner_stride(1), ys = loop.inner_stride(0);
                             for (std::int64_t start = 0; start < count; start += kRowChunk) {
                               const std::int64_t n = std::min(kRowChunk, count - start);
                               const T* x = static_cast<const T*>(in[0]) + at[1] + start * xs;
                               To* y = static_cast<To*>(out[0]) + at[0] + start * ys;
                               constexpr bool kInPlace = std::is_same_v<To, float>;
                               float* values = kInPlace && ys == 1 ? reinterpret_cast<float*>(y) : buffer.data();
                               const float* row = load_row(vectors, x, xs, n, values);
                               if (row != reinterpret_cast<float*>(y)) store_row(vectors, row, n, y, ys);
                             }
                           });
                         });
                         return {};
                       });
    });
  });
}

class Cast final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const bool like = node.op == "CastLike";
    CONVOY_CHECK(check_counts(node, inputs, like ? 2 : 1, like ? 2 : 1));
    if (auto saturate = node.integer("saturate", 1); !saturate.ok()) return saturate.error();
    DataType type = DataType::f32;
    if (like) {
      type = inputs[1].desc.type;
    } else if (node.opset < 6 && node.domain.empty()) {
      CONVOY_TRY(const std::string name, node.text("to", ""));
      CONVOY_TRY(type, data_type_of_onnx_name(node, name));
    } else {
      if (!node.has("to")) return bad_node(node, "attribute 'to' is required");
      CONVOY_TRY(const std::int64_t number, node.integer("to", 0));
      CONVOY_TRY(type, data_type_of_onnx(node, number, "to"));
    }
    return one_output(node, type, inputs[0].desc.dims);
  }

  bool accepts(const NodeDesc&, std::span<const Input>, Layout layout) const override { return is_plain(layout); }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc});
    CONVOY_TRY(const std::int64_t saturate, node.integer("saturate", 1));
    const DataType to = outputs[0].type;
    if (contains(kThroughF32, inputs[0].desc.type) && contains(kRows, to)) {
      return through_f32(node, loop, inputs[0].desc.type, to, has_row_vectors(request));
    }
    const bool bytes = has_row_vectors(request) && (to == DataType::u8 || to == DataType::s8);
    return dispatch<kAnyType>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [loop, to, saturate, bytes](std::span<const void* const> in, std::span<void* const> out,
                                                   const ExecContext& context) -> Result<void> {
                         parallel_for(context, loop.elements(), 4, [&](std::int64_t begin, std::int64_t end) {
                           constexpr std::int64_t kChunk = 512;
                           Intermediate<T> values[kChunk];
                           loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                             for (std::int64_t start = 0; start < count; start += kChunk) {
                               const std::int64_t n = std::min(kChunk, count - start);
                               const T* x = static_cast<const T*>(in[0]) + at[1] + start * loop.inner_stride(1);
                               if constexpr (std::is_same_v<T, float> || is_half<T>) {
                                 if (bytes && loop.inner_stride(0) == 1) {
                                   RowBuffer buffer;
                                   const float* row = load_row(true, x, loop.inner_stride(1), n, buffer.data());
                                   avx2::truncate_row(row, static_cast<std::uint8_t*>(out[0]) + at[0] + start, n);
                                   continue;
                                 }
                               }
                               for (std::int64_t i = 0; i < n; ++i) {
                                 values[i] = static_cast<Intermediate<T>>(x[i * loop.inner_stride(1)]);
                               }
                               store_as(to, values, n, out[0], at[0] + start * loop.inner_stride(0),
                                        loop.inner_stride(0), saturate != 0);
                             }
                           });
                         });
                         return {};
                       });
    });
  }
};

const Cast op_Cast;

}  // namespace

std::vector<OperatorRow> cast_rows() { return {{"Cast", &op_Cast}, {"CastLike", &op_Cast}}; }

}  // namespace convoy::ops
