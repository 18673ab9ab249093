// Operators that give the same elements other dims: Reshape, Flatten, Squeeze, Unsqueeze.
#include <fmt/format.h>

#include "ops/movement/strided_copy.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// The elements move (if at all) as one block of memory: any layout but nchw would reorder them.
class ReshapeLike : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc& node) const override {
    return takes_dims_input(node) ? std::vector<int>{1} : std::vector<int>{};
  }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    const bool two = takes_dims_input(node);
    CONVOY_CHECK(check_counts(node, inputs, two && dims_input_required() ? 2 : 1, two ? 2 : 1));
    CONVOY_TRY(Dims dims, output_dims(node, inputs));
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    return plan_of_bytes(node, outputs[0].elements() * static_cast<std::int64_t>(size_of(outputs[0].type)));
  }

 protected:
  virtual bool takes_dims_input(const NodeDesc&) const { return false; }
  virtual bool dims_input_required() const { return true; }
  virtual Result<Dims> output_dims(const NodeDesc& node, std::span<const Input> inputs) const = 0;

  // The integers that are an attribute up to some opset and input 1 from then on.
  static Result<Dims> list(const NodeDesc& node, std::span<const Input> inputs, const char* attribute) {
    if (is_present(inputs, 1)) {
      if (inputs[1].desc.rank() > 1) return bad_node(node, fmt::format("input 1 ({}) must have rank 1", attribute));
      return constant_integers(node, inputs, 1);
    }
    return node.integers(attribute, {});
  }
};

class Reshape final : public ReshapeLike {
 protected:
  bool takes_dims_input(const NodeDesc& node) const override { return node.opset >= 5; }

  Result<Dims> output_dims(const NodeDesc& node, std::span<const Input> inputs) const override {
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(Dims shape, list(node, inputs, "shape"));
    CONVOY_TRY(const std::int64_t allow_zero, node.integer("allowzero", 0));
    const auto shown = [&] {
      return fmt::format("shape [{}] for an input of dims [{}]", fmt::join(shape, ","), to_string(from));
    };
    std::ptrdiff_t unknown = -1;
    Dims known;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0 && allow_zero == 0) {
        if (i >= from.size())
          return bad_node(node, shown() + fmt::format(": 0 at {} copies a dim that is not there", i));
        shape[i] = from[i];
      }
      if (shape[i] < -1) return bad_node(node, shown() + ": a dim is below -1");
      if (shape[i] == -1) {
        if (unknown >= 0) return bad_node(node, shown() + ": more than one dim is -1");
        unknown = static_cast<std::ptrdiff_t>(i);
      } else {
        known.push_back(shape[i]);
      }
    }
    auto product = checked_elements(known);
    if (!product.ok()) return product.error().within(node.op);
    const std::int64_t count = inputs[0].desc.elements();
    if (unknown >= 0) {
      if (*product == 0 || count % *product != 0) return bad_node(node, shown() + ": the dim -1 can't be found");
      shape[unknown] = count / *product;
    } else if (*product != count) {
      return bad_node(node, shown() + fmt::format(": {} elements against {}", *product, count));
    }
    return shape;
  }
};

class Flatten final : public ReshapeLike {
 protected:
  Result<Dims> output_dims(const NodeDesc& node, std::span<const Input> inputs) const override {
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(const std::int64_t given, node.integer("axis", 1));
    CONVOY_TRY(const int axis, normalize_axis(node, given, static_cast<int>(from.size()), "axis", 1));
    Dims to{1, 1};
    for (int d = 0; d < static_cast<int>(from.size()); ++d) to[d < axis ? 0 : 1] *= from[d];
    return to;
  }
};

class Squeeze final : public ReshapeLike {
 protected:
  bool takes_dims_input(const NodeDesc& node) const override { return node.opset >= 13; }
  bool dims_input_required() const override { return false; }

  Result<Dims> output_dims(const NodeDesc& node, std::span<const Input> inputs) const override {
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(const Dims given, list(node, inputs, "axes"));
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, static_cast<int>(from.size())));
    const bool all = !is_present(inputs, 1) && !node.has("axes");
    Dims to;
    for (int d = 0; d < static_cast<int>(from.size()); ++d) {
      const bool named = std::find(axes.begin(), axes.end(), d) != axes.end();
      if (named && from[d] != 1) {
        return bad_node(node, fmt::format("axes names dim {} of [{}], which is not 1", d, to_string(from)));
      }
      if (!(named || (all && from[d] == 1))) to.push_back(from[d]);
    }
    return to;
  }
};

class Unsqueeze final : public ReshapeLike {
 protected:
  bool takes_dims_input(const NodeDesc& node) const override { return node.opset >= 13; }

  Result<Dims> output_dims(const NodeDesc& node, std::span<const Input> inputs) const override {
    const Dims& from = inputs[0].desc.dims;
    CONVOY_TRY(const Dims given, list(node, inputs, "axes"));
    const int rank = static_cast<int>(from.size() + given.size());
    CONVOY_TRY(const std::vector<int> axes, normalize_axes(node, given, rank));
    Dims to;
    for (int d = 0, next = 0; d < rank; ++d) {
      to.push_back(std::find(axes.begin(), axes.end(), d) != axes.end() ? 1 : from[next++]);
    }
    return to;
  }
};

const Reshape reshape;
const Flatten flatten;
const Squeeze squeeze;
const Unsqueeze unsqueeze;

}  // namespace

std::vector<OperatorRow> reshape_rows() {
  return {{"Reshape", &reshape, images::each_alone, Rate::moves, values::moved_by(maps::reshaped), in_place::first,
           layouts::row_major, kEveryType},
          {"Flatten", &flatten, images::along_last, Rate::moves, values::moved_by(maps::reshaped), in_place::first,
           layouts::row_major, kEveryType},
          {"Squeeze", &squeeze, images::over_axes, Rate::moves, values::moved_by(maps::reshaped), in_place::first,
           layouts::row_major, kEveryType},
          {"Unsqueeze", &unsqueeze, images::unsqueeze, Rate::moves, values::moved_by(maps::reshaped), in_place::first,
           layouts::row_major, kEveryType}};
}

}  // namespace convoy::ops
