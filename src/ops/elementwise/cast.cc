// Cast and CastLike. Values pass through an intermediate that holds any value of the source exactly (double for floats,
// 64-bit integers), a chunk at a time, so that some 500 pairs of types need no loop each.
//   float -> integer  truncates; out of range (undefined in ONNX) wraps from 64 bits, NaN gives 0
//   integer -> integer wraps            anything -> bool: value != 0
//   float -> f8       rounds to even; saturate=1 (the default) goes to the largest value, otherwise to infinity or NaN
//   float -> f8_e8m0  a power of two by round_mode, from the exponent of the value as f32
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "ops/operator_row.h"
#include "ops/rows.h"
#include "ops/small_floats.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

template <class T>
using Intermediate = std::conditional_t<
    is_float_element<T>, double,
    std::conditional_t<std::is_same_v<T, std::uint64_t> || std::is_same_v<T, bool>, std::uint64_t, std::int64_t>>;

constexpr TypeSet kCast = kAnyType | kStoredIntegers | kStoredFloats;

enum class RoundMode { up, down, nearest };
struct Rounding {
  bool saturate = true;
  RoundMode mode = RoundMode::up;
};

Result<Rounding> rounding_of(const NodeDesc& node) {
  CONVOY_TRY(const std::int64_t saturate, node.integer("saturate", 1));
  CONVOY_TRY(const std::string mode, node.text("round_mode", "up"));
  if (mode != "up" && mode != "down" && mode != "nearest") {
    return bad_node(node, "round_mode='" + mode + "' is not up, down or nearest");
  }
  return Rounding{saturate != 0, mode == "up" ? RoundMode::up : mode == "down" ? RoundMode::down : RoundMode::nearest};
}

F8E8M0 to_power_of_two(float value, const Rounding& rounding) {
  constexpr std::uint32_t kNaN = 0xff, kFraction = 0x7fffff, kHalf = 0x400000;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t exponent = bits >> 23 & kNaN;
  const std::uint32_t fraction = bits & kFraction;
  const bool ties_up = exponent > 0;
  const bool raised = rounding.mode == RoundMode::up        ? fraction > 0
                      : rounding.mode == RoundMode::nearest ? fraction > kHalf || (fraction == kHalf && ties_up)
                                                            : false;
  const bool has_next = exponent + 1 < kNaN || (!rounding.saturate && exponent + 1 == kNaN);
  F8E8M0 result;
  result.bits = static_cast<std::uint8_t>(raised && has_next ? exponent + 1 : exponent);
  return result;
}

template <class To>
To convert_float(double value, const Rounding& rounding) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (std::is_same_v<To, F8E8M0>) {
    return to_power_of_two(static_cast<float>(value), rounding);
  } else if constexpr (is_small_float<To> && !is_half<To>) {
    return round_to_small_float<To>(value, rounding.saturate);
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
void store(const Middle* values, std::int64_t count, void* out, std::int64_t at, std::int64_t stride,
           const Rounding& rounding) {
  To* y = static_cast<To*>(out) + at;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<Middle, double>) {
      y[i * stride] = convert_float<To>(values[i], rounding);
    } else if constexpr (is_small_float<To>) {
      y[i * stride] = convert_float<To>(static_cast<double>(values[i]), rounding);
    } else {
      y[i * stride] = static_cast<To>(values[i]);
    }
  }
}

template <class Middle>
void store_as(DataType type, const Middle* values, std::int64_t count, void* out, std::int64_t at, std::int64_t stride,
              const Rounding& rounding) {
  dispatch<kCast>(type, [&]<class To>(Tag<To>) { store<To>(values, count, out, at, stride, rounding); });
}

constexpr TypeSet kBytes = only(DataType::u8) | only(DataType::s8);

// What f32 holds every value of, and what it is then rounded to as from f64.
constexpr TypeSet kRows = kHalves | only(DataType::f32);
constexpr TypeSet kThroughF32 = kRows | kBytes;

// row(x, x_stride, y, y_stride, count, buffer) for runs of at most so many elements; the buffer holds kRowChunk.
template <class T, class To, std::int64_t kMost = kRowChunk, class Row>
std::unique_ptr<OpPlan> by_rows(const NodeDesc& node, const BroadcastLoop& loop, Row row) {
  return make_plan(node,
                   [loop, row](std::span<const void* const> in, std::span<void* const> out,
                               const ExecContext& context) -> Result<void> {
                     parallel_for(context, loop.elements(), 2, [&](std::int64_t begin, std::int64_t end) {
                       RowBuffer buffer;
                       loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
                         const std::int64_t xs = loop.inner_stride(1), ys = loop.inner_stride(0);
                         const T* const x = static_cast<const T*>(in[0]) + at[1];
                         To* const y = static_cast<To*>(out[0]) + at[0];
                         for (std::int64_t i = 0; i < count; i += kMost) {
                           row(x + i * xs, xs, y + i * ys, ys, std::min(kMost, count - i), buffer.data());
                         }
                       });
                     });
                     return {};
                   });
}

std::unique_ptr<OpPlan> through_f32(const NodeDesc& node, const BroadcastLoop& loop, DataType from, DataType to,
                                    bool vectors) {
  return dispatch<kThroughF32>(from, [&]<class T>(Tag<T>) {
    return dispatch<kRows>(to, [&]<class To>(Tag<To>) {
      return by_rows<T, To>(
          node, loop,
          [vectors](const T* x, std::int64_t xs, To* y, std::int64_t ys, std::int64_t count, float* buffer) {
            constexpr bool kInPlace = std::is_same_v<To, float>;
            float* const values = kInPlace && ys == 1 ? reinterpret_cast<float*>(y) : buffer;
            const float* const row = load_row(vectors, x, xs, count, values);
            if (row != reinterpret_cast<float*>(y)) store_row(vectors, row, count, y, ys);
          });
    });
  });
}

// Pairs that the compiler has vectors for, with nothing in between: what a whole number becomes does not depend on it.
// (f16 is infinite before f32 is off by a half of its steps.)
constexpr TypeSet kWhole = kIntegers | only(DataType::boolean);
constexpr std::int64_t kLongRun = std::int64_t{1} << 40;
constexpr TypeSet kFromWhole = only(DataType::f32) | only(DataType::f16) | only(DataType::s32) | only(DataType::s64) |
                               only(DataType::boolean) | kBytes;

std::unique_ptr<OpPlan> of_whole(const NodeDesc& node, const BroadcastLoop& loop, DataType from, DataType to,
                                 bool vectors) {
  return dispatch<kWhole>(from, [&]<class T>(Tag<T>) {
    return dispatch<kFromWhole>(to, [&]<class To>(Tag<To>) {
      constexpr std::int64_t kMost = is_half<To> ? kRowChunk : kLongRun;
      return by_rows<T, To, kMost>(
          node, loop,
          [vectors](const T* x, std::int64_t xs, To* y, std::int64_t ys, std::int64_t count, float* buffer) {
            if constexpr (is_half<To>) {
              load_row(vectors, x, xs, count, buffer);
              store_row(vectors, buffer, count, y, ys);
            } else if (xs == 1 && ys == 1) {
              for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(x[i]);
            } else {
              for (std::int64_t i = 0; i < count; ++i) y[i * ys] = static_cast<To>(x[i * xs]);
            }
          });
    });
  });
}

// Whole numbers of f32 or halves by vectors.
template <class To>
std::unique_ptr<OpPlan> to_whole(const NodeDesc& node, const BroadcastLoop& loop, DataType from) {
  return dispatch<kRows>(from, [&]<class T>(Tag<T>) {
    return by_rows<T, To>(node, loop,
                          [](const T* x, std::int64_t xs, To* y, std::int64_t ys, std::int64_t count, float* buffer) {
                            std::array<To, kRowChunk> whole;
                            const float* const row = load_row(true, x, xs, count, buffer);
                            avx2::truncate_row(row, ys == 1 ? y : whole.data(), count);
                            for (std::int64_t i = 0; ys != 1 && i < count; ++i) y[i * ys] = whole[i];
                          });
  });
}

// Whether f32 or halves are not 0; a NaN is not.
std::unique_ptr<OpPlan> to_boolean(const NodeDesc& node, const BroadcastLoop& loop, DataType from, bool vectors) {
  return dispatch<kRows>(from, [&]<class T>(Tag<T>) {
    return by_rows<T, std::uint8_t>(
        node, loop,
        [vectors](const T* x, std::int64_t xs, std::uint8_t* y, std::int64_t ys, std::int64_t count, float* buffer) {
          const float* const row = load_row(vectors, x, xs, count, buffer);
          if (vectors && ys == 1) return avx2::nonzero_row(row, y, count);
          for (std::int64_t i = 0; i < count; ++i) y[i * ys] = row[i] != 0 ? 1 : 0;
        });
  });
}

// Of 64 bits by loops for AVX2, which say what each element becomes.
template <class To>
std::unique_ptr<OpPlan> of_longs(const NodeDesc& node, const BroadcastLoop& loop,
                                 void (*convert)(const std::int64_t* x, To* y, std::int64_t count)) {
  return by_rows<std::int64_t, To, kLongRun>(
      node, loop,
      [convert](const std::int64_t* x, std::int64_t xs, To* y, std::int64_t ys, std::int64_t count, float*) {
        if (xs == 1 && ys == 1) return convert(x, y, count);
        for (std::int64_t i = 0; i < count; ++i) convert(x + i * xs, y + i * ys, 1);
      });
}

class Cast final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const bool like = node.op == "CastLike";
    CONVOY_CHECK(check_counts(node, inputs, like ? 2 : 1, like ? 2 : 1));
    if (auto rounding = rounding_of(node); !rounding.ok()) return rounding.error();
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

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    const BroadcastLoop loop({outputs[0], inputs[0].desc});
    CONVOY_TRY(const Rounding rounding, rounding_of(node));
    const DataType to = outputs[0].type;
    const bool bits = inputs[0].desc.type == DataType::boolean;  // bytes of 0 and 1
    if ((bits || contains(kThroughF32, inputs[0].desc.type)) && contains(kRows, to)) {
      return through_f32(node, loop, bits ? DataType::u8 : inputs[0].desc.type, to, has_row_vectors(request));
    }
    if (inputs[0].desc.type == DataType::s64 && has_row_vectors(request)) {
      if (to == DataType::boolean) return of_longs<std::uint8_t>(node, loop, avx2::nonzero_row);
      if (to == DataType::f32) return of_longs<float>(node, loop, avx2::longs_row);
    }
    if (contains(kWhole, inputs[0].desc.type) && contains(kFromWhole, to)) {
      return of_whole(node, loop, bits ? DataType::u8 : inputs[0].desc.type, to, has_row_vectors(request));
    }
    if (to == DataType::boolean && contains(kRows, inputs[0].desc.type)) {
      return to_boolean(node, loop, inputs[0].desc.type, has_row_vectors(request));
    }
    if (has_row_vectors(request) && contains(kRows, inputs[0].desc.type)) {
      if (to == DataType::s32) return to_whole<std::int32_t>(node, loop, inputs[0].desc.type);
      if (to == DataType::s64) return to_whole<std::int64_t>(node, loop, inputs[0].desc.type);
    }
    const bool bytes = has_row_vectors(request) && (to == DataType::u8 || to == DataType::s8);
    return dispatch<kCast>(inputs[0].desc.type, [&]<class T>(Tag<T>) {
      return make_plan(node,
                       [loop, to, rounding, bytes](std::span<const void* const> in, std::span<void* const> out,
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
                                        loop.inner_stride(0), rounding);
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

std::vector<OperatorRow> cast_rows() {
  return {{"Cast", &op_Cast, images::element_wise, Rate::moves, values::mixed, in_place::never, layouts::plain, kCast},
          {"CastLike", &op_Cast, images::element_wise, Rate::elements, values::mixed, in_place::never, layouts::plain,
           kCast}};
}

}  // namespace convoy::ops
