// Gather, GatherElements and GatherND: elements or blocks of the data picked by a tensor of indices.
#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "ops/index/pick_elements.h"
#include "ops/indexing.h"
#include "ops/movement/map_copy.h"
#include "ops/movement/mapped_copy.h"
#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/rows.h"

namespace convoy::ops {

Result<void> check_indices(const std::string& op, int input, DataType type, const void* indices, std::int64_t count,
                           const Dims& limits) {
  if (limits.size() == 1) {
    const bool inside = dispatch<kIndices>(type, [&]<class I>(Tag<I>) {
      const auto dim = static_cast<std::uint64_t>(limits[0]);
      bool all = true;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t index = static_cast<const I*>(indices)[i];
        all &= static_cast<std::uint64_t>(index) + dim < 2 * dim;
      }
      return all;
    });
    if (inside) return {};
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = index_at(type, indices, i);
    const std::int64_t dim = limits[i % static_cast<std::int64_t>(limits.size())];
    if (index < -dim || index >= dim) {
      return Error{ErrorCode::invalid_argument, fmt::format("{}: input {} (indices) has {} at {}, outside [{}, {})", op,
                                                            input, index, i, -dim, dim)};
    }
  }
  return {};
}

Dims packed_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) strides[d] = strides[d + 1] * dims[d + 1];
  return strides;
}

namespace {

Result<int> axis_of(const NodeDesc& node, std::span<const Input> inputs) {
  CONVOY_TRY(const std::int64_t axis, node.integer("axis", 0));
  return normalize_axis(node, axis, inputs[0].desc.rank(), "axis");
}

// A constant number or list of indices, none below 0; nothing: it is no such.
std::optional<Dims> known_indices(const NodeDesc& node, std::span<const Input> inputs) {
  const auto axis = axis_of(node, inputs);
  if (!axis.ok() || inputs[1].constant == nullptr || inputs[1].desc.rank() > 1) return std::nullopt;
  Dims indices;
  const std::int64_t dim = inputs[0].desc.dims[*axis];
  for (std::int64_t i = 0; i < inputs[1].desc.elements(); ++i) {
    const std::int64_t index = index_at(inputs[1].desc.type, inputs[1].constant, i);
    if (index < -dim || index >= dim) return std::nullopt;
    indices.push_back(index < 0 ? index + dim : index);
  }
  return indices;
}

std::optional<Dims> channels_of(const NodeDesc& node, std::span<const Input> inputs) {
  const auto axis = axis_of(node, inputs);
  return axis.ok() && *axis == 1 && inputs[1].desc.rank() == 1 ? known_indices(node, inputs) : std::nullopt;
}

struct Spaced {
  std::int64_t first, step, count;
};
std::optional<Spaced> evenly_spaced(const NodeDesc& node, std::span<const Input> inputs) {
  const auto indices = known_indices(node, inputs);
  if (!indices) return std::nullopt;
  if (indices->empty()) return Spaced{0, 1, 0};
  const auto count = static_cast<std::int64_t>(indices->size());
  const Spaced spaced{indices->front(), count < 2 ? 1 : (*indices)[1] - indices->front(), count};
  for (std::int64_t i = 0; i < count; ++i) {
    if ((*indices)[i] != spaced.first + i * spaced.step) return std::nullopt;
  }
  return spaced;
}

// Each of `count` blocks of x, of which there are `dim`, to y.
void take_blocks(DataType type, const void* indices, std::int64_t dim, const void* x, std::int64_t block,
                 std::int64_t count, void* y) {
  dispatch<kIndices>(type, [&]<class I>(Tag<I>) {
    const auto take = [&](auto bytes) __attribute__((always_inline)) {
      const I* const index = static_cast<const I*>(indices);
      const char* const from = static_cast<const char*>(x);
      char* to = static_cast<char*>(y);
      for (std::int64_t i = 0; i < count; ++i, to += bytes) {
        std::memcpy(to, from + (index[i] < 0 ? index[i] + dim : index[i]) * bytes, bytes);
      }
    };
    switch (block) {
      case 1:
        return take(std::integral_constant<std::int64_t, 1>());
      case 2:
        return take(std::integral_constant<std::int64_t, 2>());
      case 4:
        return take(std::integral_constant<std::int64_t, 4>());
      case 8:
        return take(std::integral_constant<std::int64_t, 8>());
      case 16:
        return take(std::integral_constant<std::int64_t, 16>());
      default:
        return take(block);
    }
  });
}

class Gather final : public MapOperator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    const Dims& data = inputs[0].desc.dims;
    Dims dims(data.begin(), data.begin() + axis);
    dims.insert(dims.end(), inputs[1].desc.dims.begin(), inputs[1].desc.dims.end());
    dims.insert(dims.end(), data.begin() + axis + 1, data.end());
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const int axis, axis_of(node, inputs));
    const TensorDesc& x = inputs[0].desc;
    const bool in_nchw = x.is_packed(Layout::nchw) && outputs[0].is_packed(Layout::nchw);
    if (const auto channels = channels_of(node, inputs); channels && !in_nchw) {
      return evenly_spaced(node, inputs) ? MapOperator::plan(node, inputs, outputs, request)
                                         : plan_of_channels(node, x, outputs[0], *channels);
    }
    const std::int64_t outer = product(x.dims, 0, axis);
    const std::int64_t dim = x.dims[axis];
    const std::int64_t block = product(x.dims, axis + 1, x.rank()) * static_cast<std::int64_t>(size_of(x.type));
    const std::int64_t count = inputs[1].desc.elements();
    return make_plan(
        node,
        [=, op = node.op, type = inputs[1].desc.type](auto in, auto out, const ExecContext& context) -> Result<void> {
          CONVOY_CHECK(check_indices(op, 1, type, in[1], count, {dim}));
          parallel_for(context, outer * count, block / 4 + 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin, n; i < end; i += n) {
              n = std::min(end - i, count - i % count);
              take_blocks(type, at_element(in[1], i % count, size_of(type)), dim,
                          static_cast<const char*>(in[0]) + i / count * dim * block, block, n,
                          static_cast<char*>(out[0]) + i * block);
            }
          });
          return {};
        });
  }

 private:
  static std::unique_ptr<OpPlan> plan_of_channels(const NodeDesc& node, const TensorDesc& x, const TensorDesc& y,
                                                  const Dims& channels) {
    const MappedCopy copy(x, y, [&](int d, std::int64_t i) { return d == 1 ? channels[i] : i; });
    return make_plan(node, [copy](auto in, auto out, const ExecContext& context) -> Result<void> {
      copy.run(in[0], out[0], nullptr, context);
      return {};
    });
  }
};

// Of channels that are known, images also in channels-last.
Taken layouts_of_gather(const NodeDesc& node, std::span<const Input> inputs, Layout layout) {
  const bool channels = inputs[0].desc.rank() >= 3 && channels_of(node, inputs).has_value();
  return (channels ? layouts::plain : layouts::row_major)(node, inputs, layout);
}

std::vector<IndexMap> map_of_gather(const NodeDesc& node, std::span<const Input> inputs,
                                    std::span<const TensorDesc> outputs) {
  const auto taken = evenly_spaced(node, inputs);
  const auto axis = axis_of(node, inputs);
  if (!taken || !axis.ok()) return {};
  std::vector<Index> indices;
  const int added = inputs[1].desc.rank() - 1;
  for (int d = 0; d < inputs[0].desc.rank(); ++d) {
    if (d == *axis) {
      indices.push_back({taken->first, {}});
      if (taken->count > 1) indices.back().terms = {{d, taken->step}};
    } else {
      indices.push_back({0, {{d < *axis ? d : d + added}}});
    }
  }
  return {map_of(inputs[0].desc, outputs[0], std::move(indices))};
}

class GatherElements final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kIndices));
    const Dims& data = inputs[0].desc.dims;
    const Dims& indices = inputs[1].desc.dims;
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    bool fits = indices.size() == data.size();
    for (std::size_t d = 0; fits && d < data.size(); ++d) fits = static_cast<int>(d) == axis || indices[d] <= data[d];
    if (!fits) {
      return bad_node(node, fmt::format("input 1 (indices) has dims [{}], which do not fit the data's [{}]",
                                        to_string(indices), to_string(data)));
    }
    return one_output(node, inputs[0].desc.type, indices);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 0));
    CONVOY_TRY(const int axis, normalize_axis(node, given, inputs[0].desc.rank(), "axis"));
    const bool vectors = has_row_vectors(request);
    const TensorDesc& x = inputs[0].desc;
    const Dims strides = packed_strides(x.dims);
    const std::int64_t dim = x.dims[axis], along = strides[axis];
    // Where lines of y along its last dim begin in x, but for the index.
    TensorDesc lines = x;
    lines.dims = outputs[0].dims;
    lines.strides = strides;
    lines.strides[axis] = 0;
    const std::int64_t count = outputs[0].elements();
    const BroadcastLoop loop({outputs[0], lines});
    return dispatch_bytes(size_of(x.type), [&]<class T>(Tag<T>) {
      return dispatch<kIndices>(inputs[1].desc.type, [&]<class I>(Tag<I>) {
        return make_plan(node,
                         [=, type = inputs[1].desc.type, op = node.op](auto in, auto out,
                                                                       const ExecContext& context) -> Result<void> {
                           std::atomic<bool> all_there = true;
                           parallel_for(context, count, 8, [&](std::int64_t begin, std::int64_t end) {
                             loop.run(begin, end, [&](const std::int64_t* at, std::int64_t run) {
                               const T* const from = static_cast<const T*>(in[0]) + at[1];
                               const I* const indices = static_cast<const I*>(in[1]) + at[0];
                               T* const to = static_cast<T*>(out[0]) + at[0];
                               const std::int64_t next = loop.inner_stride(1);
                               if constexpr (sizeof(T) >= sizeof(std::uint32_t)) {
                                 if (vectors && along == 1) {  // else products of 64 bits, which have none
                                   if (!avx2::pick_elements(from, next, indices, dim, run, to)) all_there = false;
                                   return;
                                 }
                               }
                               for (std::int64_t i = 0; i < run; ++i) {
                                 std::int64_t index = indices[i];
                                 if (index < 0) index += dim;
                                 if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(dim)) {
                                   all_there = false;
                                   return;
                                 }
                                 to[i] = from[i * next + index * along];
                               }
                             });
                           });
                           if (!all_there) return check_indices(op, 1, type, in[1], count, {dim});
                           return {};
                         });
      });
    });
  }
};

class GatherND final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, only(DataType::s64)));
    const Dims& data = inputs[0].desc.dims;
    const Dims& indices = inputs[1].desc.dims;
    CONVOY_TRY(const std::int64_t batch, node.integer("batch_dims", 0));
    if (batch < 0 || batch >= static_cast<std::int64_t>(std::min(data.size(), indices.size()))) {
      return bad_node(node,
                      fmt::format("batch_dims={} for inputs of rank {} and {}", batch, data.size(), indices.size()));
    }
    const std::int64_t depth = indices.back();
    if (depth < 1 || depth + batch > static_cast<std::int64_t>(data.size()) ||
        !std::equal(data.begin(), data.begin() + batch, indices.begin())) {
      return bad_node(node, fmt::format("input 1 (indices) of dims [{}] does not fit data of dims [{}], batch_dims={}",
                                        to_string(indices), to_string(data), batch));
    }
    Dims dims(indices.begin(), indices.end() - 1);
    dims.insert(dims.end(), data.begin() + batch + depth, data.end());
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs, std::span<const TensorDesc>,
                                       const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t batch, node.integer("batch_dims", 0));
    const TensorDesc& x = inputs[0].desc;
    const TensorDesc& indices = inputs[1].desc;
    const std::int64_t depth = indices.dims.back();
    const Dims picked(x.dims.begin() + batch, x.dims.begin() + batch + depth);
    const std::int64_t block =
        product(x.dims, static_cast<int>(batch + depth), x.rank()) * static_cast<std::int64_t>(size_of(x.type));
    const std::int64_t tuples = product(indices.dims, static_cast<int>(batch), indices.rank() - 1);  // a batch
    const std::int64_t count = product(indices.dims, 0, indices.rank() - 1);
    return make_plan(node, [=, op = node.op](auto in, auto out, const ExecContext& context) -> Result<void> {
      const std::int64_t* index = static_cast<const std::int64_t*>(in[1]);
      CONVOY_CHECK(check_indices(op, 1, DataType::s64, index, count * depth, picked));
      const char* from = static_cast<const char*>(in[0]);
      char* to = static_cast<char*>(out[0]);
      parallel_for(context, count, block / 4 + depth, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          std::int64_t at = i / tuples;
          for (std::int64_t k = 0; k < depth; ++k) {
            const std::int64_t value = index[i * depth + k];
            at = at * picked[k] + (value < 0 ? value + picked[k] : value);
          }
          std::memcpy(to + i * block, from + at * block, block);
        }
      });
      return {};
    });
  }
};

const Gather gather;
const GatherElements gather_elements;
const GatherND gather_nd;

}  // namespace

std::vector<OperatorRow> gather_rows() {
  return {{"Gather", &gather, images::gather, Rate::moves, values::moved_by(map_of_gather), in_place::never,
           layouts_of_gather, kEveryType},
          {"GatherElements", &gather_elements, images::mixed, Rate::moves, values::selected, in_place::never,
           layouts::row_major, kEveryType},
          {"GatherND", &gather_nd, images::mixed, Rate::moves, values::selected, in_place::never, layouts::row_major,
           kEveryType}};
}

}  // namespace convoy::ops
