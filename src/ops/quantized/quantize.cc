// QuantizeLinear, DequantizeLinear (a scale a tensor, a slice of an axis or a block along one) and
// DynamicQuantizeLinear. ONNX Runtime's domain has the first two as well, as they were in opset 13.
#include "ops/quantized/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <tuple>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/quantized/quantize_row.h"
#include "ops/reductions.h"
#include "ops/rows.h"
#include "ops/rows_avx2.h"
#include "ops/small_floats.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kReal = only(DataType::f32) | only(DataType::f16) | only(DataType::bf16);
constexpr TypeSet kScaleTypes = kReal | only(DataType::f8_e8m0);
constexpr TypeSet kQuantizable = kReal | only(DataType::s32);
constexpr TypeSet kSmallIntegers = only(DataType::s8) | only(DataType::u8) | only(DataType::s16) | only(DataType::u16);
constexpr TypeSet kSmallFloats = only(DataType::f8_e4m3) | only(DataType::f8_e5m2) | only(DataType::f8_e4m3fnuz) |
                                 only(DataType::f8_e5m2fnuz) | only(DataType::f4_e2m1);
constexpr TypeSet kQuantized = kSmallIntegers | kStoredIntegers | kSmallFloats;
constexpr TypeSet kDequantizable = kSmallIntegers | kSmallFloats | only(DataType::s32);

// Integers of fewer than 8 bits have bytes of their own: to read one is to read a byte.
DataType read_as(DataType type) {
  if (type == DataType::s4 || type == DataType::s2) return DataType::s8;
  return type == DataType::u4 || type == DataType::u2 ? DataType::u8 : type;
}

// Part of the tensor and the scales and zero points that go with it: operands y, x, parameters of a loop, and where
// they start.
struct Part {
  BroadcastLoop loop;
  std::int64_t y, x, parameter;
  // Of a packed tensor `number` parameters take turns, each for `each` neighbours; 0: not so.
  std::int64_t number = 0, each = 0;
};

Result<int> axis_of(const NodeDesc& node, int rank) {
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", 1));
  return normalize_axis(node, axis, rank, "axis");
}

// Checks the shapes of scale (input 1) and zero point (input 2) against x.
Result<void> check_parameters(const NodeDesc& node, std::span<const Input> inputs) {
  const Dims& dims = inputs[0].desc.dims;
  const Dims& scale = inputs[1].desc.dims;
  // One value is one value: ONNX Runtime's tool writes a scale of dims [1] with a zero point of dims [].
  const bool single = is_present(inputs, 2) && inputs[1].desc.elements() == 1 && inputs[2].desc.elements() == 1;
  if (is_present(inputs, 2) && !single && inputs[2].desc.dims != scale) {
    return bad_node(node, fmt::format("input 1 (scale) has dims [{}] and input 2 (zero point) [{}]; they must be equal",
                                      to_string(scale), to_string(inputs[2].desc.dims)));
  }
  CONVOY_TRY(const std::int64_t block, node.integer("block_size", 0));
  if (block < 0) return bad_node(node, fmt::format("block_size={} is negative", block));
  if (block > 0) {
    CONVOY_TRY(const int axis, axis_of(node, static_cast<int>(dims.size())));
    Dims expected = dims;
    expected[axis] = dims[axis] / block + (dims[axis] % block != 0 ? 1 : 0);
    if (scale == expected) return {};
    return bad_node(node, fmt::format("input 1 (scale) has dims [{}], block_size={} needs [{}]", to_string(scale),
                                      block, to_string(expected)));
  }
  if (scale.empty() || (scale.size() == 1 && scale[0] == 1)) return {};
  CONVOY_TRY(const int axis, axis_of(node, static_cast<int>(dims.size())));
  if (scale.size() == 1 && scale[0] == dims[axis]) return {};
  return bad_node(
      node, fmt::format("input 1 (scale) has dims [{}], axis {} of x has {}", to_string(scale), axis, dims[axis]));
}

Result<std::vector<Part>> parts_of(const NodeDesc& node, std::span<const Input> inputs, const TensorDesc& y) {
  const TensorDesc& x = inputs[0].desc;
  const TensorDesc& scale = inputs[1].desc;
  TensorDesc parameter = x;
  parameter.strides.assign(x.rank(), 0);
  CONVOY_TRY(const std::int64_t block, node.integer("block_size", 0));
  std::vector<Part> parts;
  if (block == 0) {
    if (scale.elements() > 1) {
      CONVOY_TRY(const int axis, axis_of(node, x.rank()));
      parameter.strides[axis] = 1;
    }
    Part& part = parts.emplace_back(Part{BroadcastLoop({y, x, parameter}), 0, 0, 0});
    const auto axis = std::ranges::find(parameter.strides, 1) - parameter.strides.begin();
    if (axis < x.rank() && x.is_packed(Layout::nchw) && y.is_packed(Layout::nchw)) {
      part.number = x.dims[static_cast<std::size_t>(axis)];
      part.each = std::accumulate(x.dims.begin() + axis + 1, x.dims.end(), std::int64_t{1}, std::multiplies<>());
    }
    return parts;
  }
  CONVOY_TRY(const int axis, axis_of(node, x.rank()));
  parameter.strides = scale.strides;
  for (std::int64_t b = 0; b < scale.dims[axis]; ++b) {
    TensorDesc y_part = y, x_part = x;
    y_part.dims[axis] = x_part.dims[axis] = parameter.dims[axis] = std::min(block, x.dims[axis] - b * block);
    parameter.strides[axis] = 0;
    parts.push_back({BroadcastLoop({y_part, x_part, parameter}), b * block * y.strides[axis],
                     b * block * x.strides[axis], b * scale.strides[axis]});
  }
  return parts;
}

template <class Q, class C>
Q quantize(C value, C scale, C zero, bool saturate) {
  if constexpr (is_small_float<Q>) {
    return round_to_small_float<Q>(value / scale + zero, saturate);
  } else {
    return quantize_integer<Q, C>(value, scale, zero);
  }
}

// `count` parameters from element `at` on, `stride` apart.
template <class C>
void read_parameters(DataType type, const void* data, std::int64_t at, std::int64_t stride, std::int64_t count, C* to) {
  const auto read = [&]<class T>(Tag<T>) {
    const T* const from = static_cast<const T*>(data) + at;
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<C>(from[i * stride]);
  };
  if (data == nullptr) {
    std::fill_n(to, count, C{});
  } else if (type == DataType::f32) {
    read(Tag<float>());
  } else if (type == DataType::u8) {
    read(Tag<std::uint8_t>());
  } else if (type == DataType::s8) {
    read(Tag<std::int8_t>());
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<C>(load_as_double(type, data, at + i * stride));
  }
}

// A run of elements a chunk at a time, with the scales and zero points that go with them: one of each where they have
// no stride. body(start, n, scale, zero, step) with a step of 0 or 1.
template <class C, class Body>
void with_parameters(DataType scale_type, const void* scales, DataType zero_type, const void* zeros, std::int64_t at,
                     std::int64_t stride, std::int64_t count, Body&& body) {
  std::array<C, kRowChunk> scale, zero;
  for (std::int64_t start = 0; start < count; start += kRowChunk) {
    const std::int64_t n = std::min(kRowChunk, count - start), some = stride == 0 ? 1 : n;
    if (start == 0 || stride != 0) {
      read_parameters(scale_type, scales, at + start * stride, stride, some, scale.data());
      read_parameters(zero_type, zeros, at + start * stride, stride, some, zero.data());
    }
    body(start, n, scale.data(), zero.data(), stride == 0 ? 0 : 1);
  }
}

// A run of at most kRowChunk elements of x and y, and the parameters that go with them. It knows no types of elements:
// what loads and stores them does, so that there is code for each type and not for each pair.
template <class C>
struct Run {
  const std::byte* x;
  std::int64_t x_stride;
  std::byte* y;
  std::int64_t y_stride, count;
  const C *scale, *zero;  // of an element, `step` apart
  std::int64_t step;
};
constexpr std::int64_t kShortWithParameters = 16;

// Parameters for a chunk of elements. One may be stored for some elements behind it, too.
template <class C>
using Parameters = std::array<C, kRowChunk + kShortWithParameters>;

// to[i] = from[i / each], each <= kShortWithParameters.
template <class C>
void spread(const C* from, std::int64_t count, std::int64_t each, C* to) {
  const auto by = [&]<std::int64_t kStored>() {
    for (std::int64_t i = 0; i < count; ++i) std::fill_n(to + i * each, kStored, from[i]);
  };
  each <= 4 ? by.template operator()<4>() : by.template operator()<kShortWithParameters>();
}

// Whether parameters take turns so soon that they are spread: one for each element.
bool takes_short_turns(const Part& part, std::int64_t short_run) {
  if (part.number <= 1 || part.each == 0) return false;
  return part.each == 1 ? part.number <= kShortWithParameters : part.each <= short_run;
}

// Calls body(first, n, scale, zero) for all elements of a part whose parameters take longer turns, with the one scale
// and zero point that go with them.
template <class C, class Body>
void each_long_turn(const Part& part, std::span<const C> scales, std::span<const C> zeros, std::int64_t cost,
                    const ExecContext& context, const Body& body) {
  parallel_for(context, part.loop.elements() / part.each, cost * part.each, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const auto turn = static_cast<std::size_t>(at % part.number);
      for (std::int64_t start = 0; start < part.each; start += kRowChunk) {
        body(at * part.each + start, std::min(kRowChunk, part.each - start), &scales[turn], &zeros[turn]);
      }
    }
  });
}

// Calls body(first, n, scale, zero) for all elements of such a part, with a scale and a zero point for each;
// read(first, n, scale, zero) gets parameters that follow one another.
template <class C, class Read, class Body>
void each_turn(const Part& part, std::int64_t cost, const ExecContext& context, const Read& read, const Body& body) {
  const std::int64_t each = part.each, number = part.number, turn = number * each;
  Parameters<C> scales, zeros;
  const std::int64_t turns = kRowChunk / turn;
  if (turns > 0) {
    std::array<C, kRowChunk> few_scales, few_zeros;
    read(0, number, few_scales.data(), few_zeros.data());
    spread(few_scales.data(), number, each, scales.data());
    spread(few_zeros.data(), number, each, zeros.data());
    for (std::int64_t i = turn; i < turns * turn; ++i) {
      scales[i] = scales[i - turn];
      zeros[i] = zeros[i - turn];
    }
  }
  parallel_for(context, part.loop.elements() / each, cost * each, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end;) {
      if (turns > 0 && at % number == 0 && end - at >= number) {
        const std::int64_t some = std::min(turns, (end - at) / number) * number;
        body(at * each, some * each, scales.data(), zeros.data());
        at += some;
        continue;
      }
      const std::int64_t some = std::min({kRowChunk / each, end - at, number - at % number});
      std::array<C, kRowChunk> few_scales, few_zeros;
      Parameters<C> own_scales, own_zeros;
      read(at % number, some, few_scales.data(), few_zeros.data());
      spread(few_scales.data(), some, each, own_scales.data());
      spread(few_zeros.data(), some, each, own_zeros.data());
      body(at * each, some * each, own_scales.data(), own_zeros.data());
      at += some;
    }
  });
}

// Calls body(Run) until all elements had theirs. Short runs with a parameter each that follow one another are one, with
// a parameter for each element.
template <class C>
void each_run(const std::vector<Part>& parts, std::size_t x_bytes, std::size_t y_bytes, DataType scale_type,
              DataType zero_type, std::span<const void* const> in, void* out, std::int64_t cost, std::int64_t short_run,
              const ExecContext& context, FunctionRef<void(const Run<C>& run)> body) {
  const void* zeros = in.size() > 2 ? in[2] : nullptr;
  const auto* x = static_cast<const std::byte*>(in[0]);
  auto* y = static_cast<std::byte*>(out);
  const auto x_size = static_cast<std::int64_t>(x_bytes), y_size = static_cast<std::int64_t>(y_bytes);
  for (const Part& part : parts) {
    if (takes_short_turns(part, short_run)) {
      each_turn<C>(
          part, cost, context,
          [&](std::int64_t first, std::int64_t n, C* scale, C* zero) {
            read_parameters(scale_type, in[1], first, 1, n, scale);
            read_parameters(zero_type, zeros, first, 1, n, zero);
          },
          [&](std::int64_t first, std::int64_t n, const C* scale, const C* zero) {
            body({x + first * x_size, 1, y + first * y_size, 1, n, scale, zero, 1});
          });
      continue;
    }
    if (part.each > 1 && part.number > 0 && part.number <= kRowChunk) {
      std::array<C, kRowChunk> scale, zero;
      read_parameters(scale_type, in[1], 0, 1, part.number, scale.data());
      read_parameters(zero_type, zeros, 0, 1, part.number, zero.data());
      each_long_turn<C>(part, scale, zero, cost, context,
                        [&](std::int64_t first, std::int64_t n, const C* one_scale, const C* one_zero) {
                          body({x + first * x_size, 1, y + first * y_size, 1, n, one_scale, one_zero, 0});
                        });
      continue;
    }
    const std::int64_t ys = part.loop.inner_stride(0), xs = part.loop.inner_stride(1);
    const std::int64_t ps = part.loop.inner_stride(2);
    const bool joins = xs == 1 && ys == 1 && part.loop.inner_size() <= (ps == 0 ? short_run : kShortWithParameters);
    parallel_for(context, part.loop.elements(), cost, [&](std::int64_t begin, std::int64_t end) {
      const auto at_element = [&](std::int64_t from, std::int64_t to, std::int64_t n, const C* scale, const C* zero,
                                  std::int64_t step) -> Run<C> {
        return {x + (part.x + from) * x_size, xs, y + (part.y + to) * y_size, ys, n, scale, zero, step};
      };
      if (joins) {
        std::array<C, kRowChunk> scale, zero;
        std::int64_t from = 0, to = 0, held = 0;
        const auto flush = [&] {
          if (held > 0) body(at_element(from, to, held, scale.data(), zero.data(), 1));
          held = 0;
        };
        part.loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
          if (held > 0 && (at[1] != from + held || at[0] != to + held || held + count > kRowChunk)) flush();
          if (held == 0) std::tie(from, to) = std::pair(at[1], at[0]);
          const std::int64_t some = ps == 0 ? 1 : count, first = part.parameter + at[2];
          read_parameters(scale_type, in[1], first, ps, some, scale.data() + held);
          read_parameters(zero_type, zeros, first, ps, some, zero.data() + held);
          for (std::int64_t i = some; i < count; ++i) {
            scale[held + i] = scale[held];
            zero[held + i] = zero[held];
          }
          held += count;
        });
        return flush();
      }
      part.loop.run(begin, end, [&](const std::int64_t* at, std::int64_t count) {
        with_parameters<C>(scale_type, in[1], zero_type, zeros, part.parameter + at[2], ps, count,
                           [&](std::int64_t start, std::int64_t n, const C* scale, const C* zero, std::int64_t step) {
                             body(at_element(at[1] + start * xs, at[0] + start * ys, n, scale, zero, step));
                           });
      });
    });
  }
}

// A run's elements of x as what they are computed in: in the buffer, or where they are.
template <class C>
using Load = const C* (*)(bool vectors, const Run<C>& run, C* buffer);
template <class T, class C>
const C* load(bool vectors, const Run<C>& run, C* buffer) {
  const T* x = reinterpret_cast<const T*>(run.x);
  if constexpr (std::is_same_v<C, float>) {
    return load_row(vectors, x, run.x_stride, run.count, buffer);
  } else {
    for (std::int64_t i = 0; i < run.count; ++i) buffer[i] = static_cast<C>(x[i * run.x_stride]);
    return buffer;
  }
}

template <class C>
using StoreQuantized = void (*)(const C* values, const Run<C>& run, bool saturate);
template <class Q, class C>
void store_quantized(const C* values, const Run<C>& run, bool saturate) {
  Q* y = reinterpret_cast<Q*>(run.y);
  for (std::int64_t i = 0; i < run.count; ++i) {
    y[i * run.y_stride] = quantize<Q, C>(values[i], run.scale[i * run.step], run.zero[i * run.step], saturate);
  }
}

template <class C>
using StoreReal = void (*)(bool vectors, const C* values, const Run<C>& run);
template <class T, class C>
void store_real(bool vectors, const C* values, const Run<C>& run) {
  T* y = reinterpret_cast<T*>(run.y);
  if constexpr (std::is_same_v<C, float>) {
    store_row(vectors, values, run.count, y, run.y_stride);
  } else {
    for (std::int64_t i = 0; i < run.count; ++i) y[i * run.y_stride] = T(values[i]);
  }
}

class QuantizeLinear final : public Operator {
  static constexpr std::int64_t kShortRun = 4;  // an element with a scale of its own is divided by it alone

 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, kScaleTypes | only(DataType::s32)));
    CONVOY_CHECK(check_type(node, inputs, 2, kQuantized));
    CONVOY_CHECK(check_parameters(node, inputs));
    if (auto saturate = node.integer("saturate", 1); !saturate.ok()) return saturate.error();
    CONVOY_TRY(const std::int64_t number, node.integer("output_dtype", 0));
    DataType type = is_present(inputs, 2) ? inputs[2].desc.type : DataType::u8;
    if (number != 0) {
      CONVOY_TRY(const DataType named, data_type_of_onnx(node, number, "output_dtype"));
      if (!contains(kQuantized, named) || (is_present(inputs, 2) && named != type)) {
        return bad_node(node, fmt::format("output_dtype={} does not fit", number));
      }
      type = named;
    }
    // In which type x is divided by the scale: f32 here, which holds what any that is asked for gives.
    if (auto precision = node.integer("precision", 0); !precision.ok()) return precision.error();
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<Part> parts, parts_of(node, inputs, outputs[0]));
    const bool vectors = has_row_vectors(request);
    const auto quantize_row = request.cpu.isa >= Isa::avx512 ? avx512::quantize_row : avx2::quantize_row;
    CONVOY_TRY(const std::int64_t saturate, node.integer("saturate", 1));
    const DataType scale_type = inputs[1].desc.type, zero_type = outputs[0].type;
    const auto plan_in = [&]<class C>(Load<C> load_values) {
      const auto store =
          dispatch<kQuantized>(zero_type, []<class Q>(Tag<Q>) -> StoreQuantized<C> { return store_quantized<Q, C>; });
      const std::size_t x_bytes = size_of(inputs[0].desc.type), y_bytes = size_of(zero_type);
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        each_run<C>(parts, x_bytes, y_bytes, scale_type, zero_type, in, out[0], 4, kShortRun, context,
                    [&](const Run<C>& run) {
                      std::array<C, kRowChunk> buffer;
                      const C* values = load_values(vectors, run, buffer.data());
                      if constexpr (std::is_same_v<C, float>) {
                        if (vectors && contains(kSmallIntegers, zero_type) && run.step == 0 && run.y_stride == 1) {
                          return quantize_row(zero_type, values, *run.scale, static_cast<std::int32_t>(*run.zero),
                                              run.y, run.count);
                        }
                      }
                      store(values, run, saturate != 0);
                    });
        return {};
      });
    };
    if (inputs[0].desc.type == DataType::s32) return plan_in.template operator()<double>(load<std::int32_t, double>);
    return plan_in.template operator()<float>(
        dispatch<kReal>(inputs[0].desc.type, []<class T>(Tag<T>) -> Load<float> { return load<T, float>; }));
  }
};

class DequantizeLinear final : public Operator {
  static constexpr std::int64_t kShortRun = 16;

 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, kScaleTypes));
    if (is_present(inputs, 2) && inputs[2].desc.type != inputs[0].desc.type) {
      return bad_node(node, "input 2 (zero point) must have the type of input 0");
    }
    CONVOY_CHECK(check_parameters(node, inputs));
    CONVOY_TRY(const std::int64_t number, node.integer("output_dtype", 0));
    DataType type = inputs[1].desc.type;
    if (number == 0 && !contains(kReal, type)) return bad_node(node, "scales of f8_e8m0 need an output_dtype");
    if (number != 0) {
      CONVOY_TRY(type, data_type_of_onnx(node, number, "output_dtype"));
      if (!contains(kReal, type)) return bad_node(node, fmt::format("output_dtype={} does not fit", number));
    }
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::vector<Part> parts, parts_of(node, inputs, outputs[0]));
    const bool vectors = has_row_vectors(request);
    const DataType scale_type = inputs[1].desc.type, zero_type = read_as(inputs[0].desc.type);
    const auto plan_in = [&]<class C>(Load<C> load_values) {
      const auto store =
          dispatch<kReal>(outputs[0].type, []<class T>(Tag<T>) -> StoreReal<C> { return store_real<T, C>; });
      const std::size_t x_bytes = size_of(zero_type), y_bytes = size_of(outputs[0].type);
      const bool integer_rows = vectors && contains(kSmallIntegers, zero_type) && outputs[0].type == DataType::f32;
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        each_run<C>(parts, x_bytes, y_bytes, scale_type, zero_type, in, out[0], 2, kShortRun, context,
                    [&](const Run<C>& run) {
                      const C *scale = run.scale, *zero = run.zero;
                      if constexpr (std::is_same_v<C, float>) {
                        if (integer_rows && run.step == 0 && run.x_stride == 1 && run.y_stride == 1) {
                          return avx2::dequantize_row(zero_type, run.x, *scale, static_cast<std::int32_t>(*zero),
                                                      reinterpret_cast<float*>(run.y), run.count);
                        }
                      }
                      std::array<C, kRowChunk> buffer;
                      const C* values = load_values(vectors, run, buffer.data());
                      if (run.step == 0) {
                        const C a = *scale, b = *zero;
                        for (std::int64_t i = 0; i < run.count; ++i) buffer[i] = (values[i] - b) * a;
                      } else {
                        for (std::int64_t i = 0; i < run.count; ++i) buffer[i] = (values[i] - zero[i]) * scale[i];
                      }
                      store(vectors, buffer.data(), run);
                    });
        return {};
      });
    };
    if (zero_type == DataType::s32) return plan_in.template operator()<double>(load<std::int32_t, double>);
    return plan_in.template operator()<float>(dispatch<kDequantizable & ~only(DataType::s32)>(
        zero_type, []<class Q>(Tag<Q>) -> Load<float> { return load<Q, float>; }));
  }
};

// y, scale and zero point such that the range of x with 0 in it covers 0..255.
class DynamicQuantizeLinear final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1, 3));
    CONVOY_TRY(TensorDesc y, make_output(node, DataType::u8, inputs[0].desc.dims));
    std::vector<TensorDesc> outputs{std::move(y), TensorDesc::packed(DataType::f32, {}),
                                    TensorDesc::packed(DataType::u8, {})};
    outputs.resize(std::max(1, node.output_count));
    return outputs;
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest& request) const override {
    const Reductions* const extremes = reductions(request.cpu.isa);
    const auto quantize_row = request.cpu.isa >= Isa::avx512 ? avx512::quantize_row : avx2::quantize_row;
    return make_plan(node,
                     [count = inputs[0].desc.elements(), extremes, quantize_row](
                         auto in, auto out, const ExecContext& context) -> Result<void> {
                       const float* x = static_cast<const float*>(in[0]);
                       std::mutex mutex;
                       float low = 0, high = 0;
                       parallel_for(context, count, 1, [&](std::int64_t begin, std::int64_t end) {
                         float least = 0, most = 0;
                         if (extremes != nullptr) {
                           extremes->widen_range(x + begin, end - begin, &least, &most);
                         } else {
                           for (std::int64_t i = begin; i < end; ++i) {
                             least = x[i] < least ? x[i] : least;
                             most = x[i] > most ? x[i] : most;
                           }
                         }
                         const std::lock_guard lock(mutex);
                         low = std::min(low, least);
                         high = std::max(high, most);
                       });
                       const float scale = low == high ? 1.0F : (high - low) / 255.0F;
                       const std::uint8_t zero = quantize<std::uint8_t, float>(-low, scale, 0, true);
                       if (out[0] != nullptr) {
                         parallel_for(context, count, 4, [&](std::int64_t begin, std::int64_t end) {
                           auto* y = static_cast<std::uint8_t*>(out[0]);
                           if (extremes != nullptr) {
                             return quantize_row(DataType::u8, x + begin, scale, zero, y + begin, end - begin);
                           }
                           for (std::int64_t i = begin; i < end; ++i) {
                             y[i] = quantize<std::uint8_t, float>(x[i], scale, zero, true);
                           }
                         });
                       }
                       if (out.size() > 1 && out[1] != nullptr) *static_cast<float*>(out[1]) = scale;
                       if (out.size() > 2 && out[2] != nullptr) *static_cast<std::uint8_t*>(out[2]) = zero;
                       return {};
                     });
  }
};

}  // namespace

Result<void> check_quantizer(const NodeDesc& node, std::span<const Input> inputs, int scale, int zero, DataType type) {
  if (!is_present(inputs, scale)) return bad_node(node, fmt::format("input {} (a scale) is absent", scale));
  CONVOY_CHECK(check_type(node, inputs, scale, only(DataType::f32)));
  CONVOY_CHECK(check_type(node, inputs, zero, only(type)));
  for (const int index : {scale, zero}) {
    if (is_present(inputs, index) && inputs[index].desc.elements() != 1) {
      return bad_node(node, fmt::format("input {} has dims [{}]; one scale and zero point a tensor are supported",
                                        index, to_string(inputs[index].desc.dims)));
    }
  }
  return {};
}

Result<void> check_one_tensor(const NodeDesc& node, std::span<const Input> inputs) {
  CONVOY_CHECK(check_counts(node, inputs, 2, 5));
  CONVOY_CHECK(check_quantizer(node, inputs, 1, 2, inputs[0].desc.type));
  return check_quantizer(node, inputs, 3, 4, inputs[0].desc.type);
}

Quantizer read_quantizer(std::span<const void* const> in, int scale, int zero, DataType type) {
  const void* zero_point = zero < static_cast<int>(in.size()) ? in[zero] : nullptr;
  float zero_value;
  read_parameters(type, zero_point, 0, 1, 1, &zero_value);
  return {*static_cast<const float*>(in[scale]), zero_value};
}

namespace {

Taken layouts_of_quantizer(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  return (node.has("block_size") ? layouts::row_major : layouts::plain)(node, inputs, layout);
}

const QuantizeLinear quantize_linear;
const DequantizeLinear dequantize_linear;
const DynamicQuantizeLinear dynamic_quantize_linear;

}  // namespace

std::vector<OperatorRow> quantize_rows() {
  return {{"QuantizeLinear", &quantize_linear, images::quantize, Rate::quantization, values::mixed, in_place::never,
           layouts_of_quantizer, kQuantizable},
          {"DequantizeLinear", &dequantize_linear, images::quantize, Rate::quantization, values::mixed, in_place::never,
           layouts_of_quantizer, kDequantizable | kStoredIntegers},
          {"DynamicQuantizeLinear", &dynamic_quantize_linear, images::mixed, Rate::others, values::mixed,
           in_place::never, layouts::row_major, only(DataType::f32)},
          {"QuantizeLinear", &quantize_linear, images::quantize, Rate::quantization, values::mixed, in_place::never,
           layouts_of_quantizer, kQuantizable, "com.microsoft"},
          {"DequantizeLinear", &dequantize_linear, images::quantize, Rate::quantization, values::mixed, in_place::never,
           layouts_of_quantizer, kDequantizable | kStoredIntegers, "com.microsoft"}};
}

}  // namespace convoy::ops
