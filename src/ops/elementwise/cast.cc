// Cast and CastLike, in one step or two: some 500 pairs of types need no loop each. Between two steps a chunk of
// elements is f32 or f64, which hold any value of the source, or bytes.
//   float -> integer  truncates; out of range (undefined in ONNX) wraps from 64 bits, NaN gives 0
//   integer -> integer wraps            anything -> bool: value != 0
//   float -> f8       rounds to even; saturate=1 (the default) goes to the largest value, otherwise to infinity or NaN
//   float -> f8_e8m0  a power of two by round_mode, from the exponent of the value as f32
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/operator_row.h"
#include "ops/rows.h"
#include "ops/small_floats.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

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

// ---- elements that lie side by side: from[i] becomes to[i]

using Step = void (*)(const void* from, void* to, std::int64_t count, const Rounding& rounding);

// Rounds once, or keeps the lowest bits.
template <class T, class To>
void convert(const void* from, void* to, std::int64_t count, const Rounding&) {
  const T* const x = static_cast<const T*>(from);
  To* const y = static_cast<To*>(to);
  if constexpr (std::is_same_v<T, To>) {
    std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(T));
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(x[i]);
  }
}

template <class To>
void convert_doubles(const void* from, void* to, std::int64_t count, const Rounding& rounding) {
  const auto* const x = static_cast<const double*>(from);
  To* const y = static_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) y[i] = convert_float<To>(x[i], rounding);
}

template <DataType kType>
void widen(const void* from, void* to, std::int64_t count, const Rounding&) {
  avx2::widen_row(kType, from, static_cast<float*>(to), count);
}

template <DataType kType>
void narrow(const void* from, void* to, std::int64_t count, const Rounding&) {
  avx2::narrow_row(kType, static_cast<const float*>(from), to, count);
}

template <class To>
void truncate(const void* from, void* to, std::int64_t count, const Rounding&) {
  avx2::truncate_row(static_cast<const float*>(from), static_cast<To*>(to), count);
}

template <class T>
void find_nonzero(const void* from, void* to, std::int64_t count, const Rounding&) {
  avx2::nonzero_row(static_cast<const T*>(from), static_cast<std::uint8_t*>(to), count);
}

void round_longs(const void* from, void* to, std::int64_t count, const Rounding&) {
  avx2::longs_row(static_cast<const std::int64_t*>(from), static_cast<float*>(to), count);
}

// ---- which steps lead from a type to another

// Bytes hold these as numbers.
DataType as_bytes(DataType type) {
  if (type == DataType::boolean || type == DataType::u4 || type == DataType::u2) return DataType::u8;
  return type == DataType::s4 || type == DataType::s2 ? DataType::s8 : type;
}

// What is left of an integer, and how far it is extended, depends on the sizes, and on a sign where the other is wider.
Step between_integers(DataType from, DataType to) {
  return dispatch<kIntegers>(from, [&]<class T>(Tag<T>) {
    return dispatch_bytes(size_of(to), [&]<class To>(Tag<To>) -> Step {
      using Bits = std::make_unsigned_t<T>;
      return convert<std::conditional_t<(sizeof(To) > sizeof(T)), T, Bits>, To>;
    });
  });
}

Step to_boolean(DataType from) {
  return dispatch_bytes(size_of(from), []<class T>(Tag<T>) -> Step { return convert<T, bool>; });
}

constexpr TypeSet kBytes = only(DataType::u8) | only(DataType::s8);
constexpr TypeSet kRows = kHalves | only(DataType::f32);
constexpr TypeSet kTruncated = kBytes | only(DataType::s32) | only(DataType::s64) | only(DataType::boolean);

// Where f32 holds every value, or (f16 of large integers) is infinite before f32 is off by a half of its steps.
bool is_through_f32(DataType from, DataType to, bool vectors) {
  if (contains(kRows | kBytes, from) && contains(kRows, to)) return true;
  if (contains(kIntegers, from)) return to == DataType::f32 || to == DataType::f16;
  return vectors && contains(kRows, from) && contains(kTruncated, to);
}

// Null: they are.
Step to_f32(DataType from, bool vectors) {
  if (from == DataType::f32) return nullptr;
  if (vectors) {
    if (from == DataType::f16) return widen<DataType::f16>;
    if (from == DataType::bf16) return widen<DataType::bf16>;
    if (from == DataType::u8) return widen<DataType::u8>;
    if (from == DataType::s8) return widen<DataType::s8>;
    if (from == DataType::s64) return round_longs;
  }
  return dispatch<kHalves | kIntegers>(from, []<class T>(Tag<T>) -> Step { return convert<T, float>; });
}

Step from_f32(DataType to, bool vectors) {
  if (to == DataType::f32) return nullptr;
  if (!vectors) return dispatch<kHalves>(to, []<class To>(Tag<To>) -> Step { return convert<float, To>; });
  if (to == DataType::f16) return narrow<DataType::f16>;
  if (to == DataType::bf16) return narrow<DataType::bf16>;
  if (to == DataType::s32) return truncate<std::int32_t>;
  if (to == DataType::s64) return truncate<std::int64_t>;
  return to == DataType::boolean ? find_nonzero<float> : truncate<void>;
}

Step to_f64(DataType from) {
  if (from == DataType::f64) return nullptr;
  constexpr TypeSet kOthers = (kNumeric | kStoredFloats) & ~only(DataType::f64);
  return dispatch<kOthers>(from, []<class T>(Tag<T>) -> Step { return convert<T, double>; });
}

Step from_f64(DataType to) {
  return dispatch<kCast>(to, []<class To>(Tag<To>) -> Step { return convert_doubles<To>; });
}

// One step, or two with a number of at most 8 bytes between them.
struct Conversion {
  Step first, second = nullptr;
  std::int64_t cost = 2;
};

Conversion in_steps(Step first, Step second, std::int64_t cost) {
  return first == nullptr ? Conversion{second, nullptr, cost} : Conversion{first, second, cost};
}

Conversion conversion(DataType stored, DataType to, bool vectors) {
  const DataType from = as_bytes(stored);
  if (contains(kIntegers, from)) {
    if (vectors && from == DataType::s64 && to == DataType::boolean) return {find_nonzero<std::int64_t>};
    if (to == DataType::boolean) return {to_boolean(from)};
    if (contains(kIntegers, to)) return {between_integers(from, to)};
    if (contains(kStoredIntegers, to)) {
      return {between_integers(from, DataType::u8),
              dispatch<kStoredIntegers>(to, []<class To>(Tag<To>) -> Step { return convert<std::uint8_t, To>; })};
    }
  }
  if (from == DataType::f32 && to == DataType::f32) return {convert<float, float>};
  if (is_through_f32(from, to, vectors)) return in_steps(to_f32(from, vectors), from_f32(to, vectors), 2);
  return in_steps(to_f64(from), from_f64(to), 4);
}

// ---- elements that are `step` apart

constexpr std::int64_t kChunk = 512;
struct alignas(64) Chunk {
  std::array<std::uint64_t, kChunk> bytes;
};

// Elements of `size` bytes.
void copy_apart(std::int64_t size, const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
                std::int64_t count) {
  dispatch_bytes(static_cast<std::size_t>(size), [&]<class T>(Tag<T>) {
    const T* const x = static_cast<const T*>(from);
    T* const y = static_cast<T*>(to);
    for (std::int64_t i = 0; i < count; ++i) y[i * to_step] = x[i * from_step];
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
    const DataType from = inputs[0].desc.type;
    const Conversion steps = conversion(from, to, has_row_vectors(request));
    const auto from_size = static_cast<std::int64_t>(size_of(from)), to_size = static_cast<std::int64_t>(size_of(to));
    return make_plan(
        node,
        [=](std::span<const void* const> in, std::span<void* const> out, const ExecContext& context) -> Result<void> {
          const std::int64_t from_step = loop.inner_stride(1), to_step = loop.inner_stride(0);
          const bool whole = from_step == 1 && to_step == 1 && steps.second == nullptr;
          parallel_for(context, loop.elements(), steps.cost, [&](std::int64_t begin, std::int64_t end) {
            Chunk read, between, written;
            loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
              const std::int64_t most = whole ? count : kChunk;
              for (std::int64_t i = 0; i < count; i += most) {
                const std::int64_t n = std::min(most, count - i);
                const void* x = static_cast<const char*>(in[0]) + (at[1] + i * from_step) * from_size;
                void* const y = static_cast<char*>(out[0]) + (at[0] + i * to_step) * to_size;
                if (from_step != 1) {
                  copy_apart(from_size, x, from_step, &read, 1, n);
                  x = &read;
                }
                void* const last = to_step == 1 ? y : &written;
                steps.first(x, steps.second == nullptr ? last : &between, n, rounding);
                if (steps.second != nullptr) steps.second(&between, last, n, rounding);
                if (to_step != 1) copy_apart(to_size, last, 1, y, to_step, n);
              }
            });
          });
          return {};
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
