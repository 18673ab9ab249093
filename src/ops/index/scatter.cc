// ScatterND, ScatterElements and Scatter (its name up to opset 10): a copy of the data with elements or blocks replaced
// or reduced. Updates are applied in the order of the indices on one thread, so repeated indices give one answer.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/indexing.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

enum class Reduction { none, add, mul, min, max };

Result<Reduction> reduction_of(const NodeDesc& node) {
  CONVOY_TRY(const std::string name, node.text("reduction", "none"));
  const char* names[] = {"none", "add", "mul", "min", "max"};
  for (int i = 0; i < 5; ++i) {
    if (name == names[i]) return static_cast<Reduction>(i);
  }
  return bad_node(node, "reduction='" + name + "' is not none, add, mul, min or max");
}

Error do_not_fit(const NodeDesc& node, std::span<const Input> inputs) {
  return bad_node(node, fmt::format("data, indices and updates have dims [{}], [{}] and [{}], which do not fit",
                                    to_string(inputs[0].desc.dims), to_string(inputs[1].desc.dims),
                                    to_string(inputs[2].desc.dims)));
}

template <class T>
T combine(Reduction reduction, T old, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    switch (reduction) {
      case Reduction::add:
      case Reduction::max:
        return old || value;
      case Reduction::mul:
      case Reduction::min:
        return old && value;
      default:
        return value;
    }
  } else {
    using C = Compute<T>;
    const C a = static_cast<C>(old), b = static_cast<C>(value);
    const auto wrapped = [&](auto f) {  // integers wrap around
      if constexpr (std::is_integral_v<C>) {
        return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
      } else {
        return static_cast<T>(f(a, b));
      }
    };
    switch (reduction) {
      case Reduction::add:
        return wrapped([](auto x, auto y) { return x + y; });
      case Reduction::mul:
        return wrapped([](auto x, auto y) { return x * y; });
      case Reduction::min:
        return b < a ? value : old;
      case Reduction::max:
        return b > a ? value : old;
      default:
        return value;
    }
  }
}

// Blocks of `block` elements that follow one another in `updates`, each to where it belongs in `to`.
using Scatter = void (*)(Reduction reduction, const std::int64_t* places, std::int64_t count, std::int64_t block,
                         const void* updates, void* to);
Scatter scatter_of(Reduction reduction, DataType type) {
  if (reduction == Reduction::none) {
    return dispatch_bytes(size_of(type), [&]<class Bits>(Tag<Bits>) -> Scatter {
      return [](Reduction, const std::int64_t* places, std::int64_t count, std::int64_t block, const void* updates,
                void* to) {
        const auto* const from = static_cast<const Bits*>(updates);
        auto* const y = static_cast<Bits*>(to);
        if (block == 1) {
          for (std::int64_t i = 0; i < count; ++i) y[places[i]] = from[i];
        } else {
          for (std::int64_t i = 0; i < count; ++i) std::copy_n(from + i * block, block, y + places[i]);
        }
      };
    });
  }
  return dispatch<kAnyType>(type, [&]<class T>(Tag<T>) -> Scatter {
    return [](Reduction kind, const std::int64_t* places, std::int64_t count, std::int64_t block, const void* updates,
              void* to) {
      const T* from = static_cast<const T*>(updates);
      for (std::int64_t i = 0; i < count; ++i) {
        T* const y = static_cast<T*>(to) + places[i];
        for (std::int64_t j = 0; j < block; ++j) y[j] = combine(kind, y[j], *from++);
      }
    };
  });
}

void copy_data(const void* from, void* to, std::int64_t bytes, const ExecContext& context) {
  if (from == to) return;
  parallel_for(context, bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, end - begin);
  });
}

class ScatterElements final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
    const Dims& data = inputs[0].desc.dims;
    const Dims& indices = inputs[1].desc.dims;
    if (inputs[2].desc.type != inputs[0].desc.type) return bad_node(node, "inputs 0 and 2 must have the same type");
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    if (auto reduction = reduction_of(node); !reduction.ok()) return reduction.error();
    bool fits = indices.size() == data.size() && inputs[2].desc.dims == indices;
    for (std::size_t d = 0; fits && d < data.size(); ++d) fits = static_cast<int>(d) == axis || indices[d] <= data[d];
    if (!fits) return do_not_fit(node, inputs);
    return one_output(node, inputs[0].desc.type, data);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    CONVOY_TRY(const Reduction reduction, reduction_of(node));
    const TensorDesc& x = outputs[0];
    const Dims dims = inputs[1].desc.dims;
    return make_plan(
        node,
        [dims, axis, reduction, dim = x.dims[axis], strides = packed_strides(x.dims), bytes = x.bytes(),
         element_size = size_of(x.type), scatter = scatter_of(reduction, x.type), type = inputs[1].desc.type,
         op = node.op](auto in, auto out, const ExecContext& context) -> Result<void> {
          const std::int64_t count = product(dims, 0, static_cast<int>(dims.size()));
          CONVOY_CHECK(check_indices(op, 1, type, in[1], count, {dim}));
          copy_data(in[0], out[0], bytes, context);
          // Row by row of the indices: along one only the last dim's place changes, and the index.
          const int last = static_cast<int>(dims.size()) - 1;
          const std::int64_t size = dims[last], step = last == axis ? 0 : strides[last];
          Dims at(last, 0), places(static_cast<std::size_t>(size));
          std::int64_t base = 0;
          for (std::int64_t row = 0; row < count; row += size) {
            for (std::int64_t i = 0; i < size; ++i) {
              const std::int64_t index = index_at(type, in[1], row + i);
              places[static_cast<std::size_t>(i)] = base + (index < 0 ? index + dim : index) * strides[axis] + i * step;
            }
            scatter(reduction, places.data(), size, 1, at_element(in[2], row, element_size), out[0]);
            for (int d = last - 1; d >= 0; --d) {
              const std::int64_t stride = d == axis ? 0 : strides[d];
              base += stride;
              if (++at[d] < dims[d]) break;
              base -= at[d] * stride;
              at[d] = 0;
            }
          }
          return {};
        });
  }
};

class ScatterND final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::s64)));
    if (inputs[2].desc.type != inputs[0].desc.type) return bad_node(node, "inputs 0 and 2 must have the same type");
    if (auto reduction = reduction_of(node); !reduction.ok()) return reduction.error();
    const Dims& data = inputs[0].desc.dims;
    const Dims& indices = inputs[1].desc.dims;
    bool fits = !indices.empty() && indices.back() <= static_cast<std::int64_t>(data.size());
    if (fits) {
      Dims updates(indices.begin(), indices.end() - 1);
      updates.insert(updates.end(), data.begin() + indices.back(), data.end());
      fits = updates == inputs[2].desc.dims;
    }
    if (!fits) return do_not_fit(node, inputs);
    return one_output(node, inputs[0].desc.type, data);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Reduction reduction, reduction_of(node));
    const TensorDesc& x = outputs[0];
    const TensorDesc& indices = inputs[1].desc;
    const std::int64_t depth = indices.dims.back();
    const Dims picked(x.dims.begin(), x.dims.begin() + depth);
    const std::int64_t block = product(x.dims, static_cast<int>(depth), x.rank());
    const std::int64_t count = product(indices.dims, 0, indices.rank() - 1);
    return make_plan(node,
                     [=, bytes = x.bytes(), element_size = size_of(x.type), scatter = scatter_of(reduction, x.type),
                      op = node.op](auto in, auto out, const ExecContext& context) -> Result<void> {
                       const std::int64_t* index = static_cast<const std::int64_t*>(in[1]);
                       CONVOY_CHECK(check_indices(op, 1, DataType::s64, index, count * depth, picked));
                       copy_data(in[0], out[0], bytes, context);
                       for (std::int64_t i = 0; i < count; ++i) {
                         std::int64_t place = 0;
                         for (std::int64_t k = 0; k < depth; ++k) {
                           const std::int64_t value = index[i * depth + k];
                           place = place * picked[k] + (value < 0 ? value + picked[k] : value);
                         }
                         place *= block;
                         scatter(reduction, &place, 1, block, at_element(in[2], i * block, element_size), out[0]);
                       }
                       return {};
                     });
  }
};

const ScatterElements scatter_elements;
const ScatterND scatter_nd;

}  // namespace

std::vector<OperatorRow> scatter_rows() {
  return {{"ScatterElements", &scatter_elements, images::mixed, Rate::others, values::mixed, in_place::first,
           layouts::row_major, kAnyType},
          {"Scatter", &scatter_elements, images::mixed, Rate::others, values::mixed, in_place::first,
           layouts::row_major, kAnyType},
          {"ScatterND", &scatter_nd, images::mixed, Rate::others, values::mixed, in_place::first, layouts::row_major,
           kAnyType}};
}

}  // namespace convoy::ops
