// Operators whose output follows from attributes and shapes: Constant, ConstantOfShape, Shape, Size, EyeLike.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

// A plan that writes the same tensor every time.
std::unique_ptr<OpPlan> write_plan(const NodeDesc& node, HostTensor value) {
  return make_plan(node, [value = std::move(value)](auto, auto out, const ExecContext&) -> Result<void> {
    std::memcpy(out[0], value.data.get(), value.desc.bytes());
    return {};
  });
}

template <class T>
Result<HostTensor> list_tensor(DataType type, Dims dims, const std::vector<T>& values) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, std::move(dims))));
  if constexpr (std::is_same_v<T, std::int64_t>) {
    std::copy(values.begin(), values.end(), tensor.as<std::int64_t>());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) store_from_double(type, tensor.data.get(), i, values[i]);
  }
  return tensor;
}

class Constant final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 0, 0));
    CONVOY_TRY(const HostTensor value, value_of(node));
    return one_output(node, value.desc.type, value.desc.dims);
  }
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const HostTensor value, value_of(node));
    CONVOY_TRY(HostTensor arranged, converted(value, outputs[0]));
    return write_plan(node, std::move(arranged));
  }

 private:
  static Result<HostTensor> value_of(const NodeDesc& node) {
    if (const auto found = node.attributes.find("value"); found != node.attributes.end()) {
      if (const HostTensor* value = std::get_if<HostTensor>(&found->second)) return *value;
      return bad_node(node, "attribute 'value' must be a tensor");
    }
    if (node.has("value_float")) {
      CONVOY_TRY(const double value, node.real("value_float", 0));
      return list_tensor<double>(DataType::f32, {}, {value});
    }
    if (node.has("value_floats")) {
      CONVOY_TRY(const std::vector<double> values, node.reals("value_floats", {}));
      return list_tensor(DataType::f32, {static_cast<std::int64_t>(values.size())}, values);
    }
    if (node.has("value_int")) {
      CONVOY_TRY(const std::int64_t value, node.integer("value_int", 0));
      return list_tensor<std::int64_t>(DataType::s64, {}, {value});
    }
    if (node.has("value_ints")) {
      CONVOY_TRY(const Dims values, node.integers("value_ints", {}));
      return list_tensor(DataType::s64, {static_cast<std::int64_t>(values.size())}, values);
    }
    return Error{ErrorCode::unsupported, node.op +
                                             ": has no value of a kind that Convoy has (strings and sparse "
                                             "tensors are none)"};
  }
};

class ConstantOfShape final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(Dims dims, constant_integers(node, inputs, 0));
    for (const std::int64_t dim : dims) {
      if (dim < 0) return bad_node(node, fmt::format("input 0 (shape) has a negative dim: {}", dim));
    }
    CONVOY_TRY(const HostTensor value, value_of(node));
    return one_output(node, value.desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const HostTensor value, value_of(node));
    return dispatch_bytes(size_of(value.desc.type), [&]<class T>(Tag<T>) {
      T element;
      std::memcpy(&element, value.data.get(), sizeof(T));
      return make_plan(
          node, [element, count = outputs[0].elements()](auto, auto out, const ExecContext& context) -> Result<void> {
            parallel_for(context, count, 1, [&](std::int64_t begin, std::int64_t end) {
              std::fill(static_cast<T*>(out[0]) + begin, static_cast<T*>(out[0]) + end, element);
            });
            return {};
          });
    });
  }

 private:
  static Result<HostTensor> value_of(const NodeDesc& node) {
    const auto found = node.attributes.find("value");
    if (found == node.attributes.end()) return list_tensor<double>(DataType::f32, {1}, {0});
    const HostTensor* value = std::get_if<HostTensor>(&found->second);
    if (value == nullptr || value->desc.elements() != 1) {
      return bad_node(node, "attribute 'value' must be a tensor of one element");
    }
    return *value;
  }
};

// Any layout will do: only the dims are read.
class ShapeLike : public Operator {
 public:
  bool folds_from_shapes() const override { return true; }
  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Dims values, values_of(node, inputs[0].desc));
    CONVOY_TRY(HostTensor tensor, list_tensor(DataType::s64, outputs[0].dims, values));
    return write_plan(node, std::move(tensor));
  }

 protected:
  virtual Result<Dims> values_of(const NodeDesc& node, const TensorDesc& desc) const = 0;
};

class Shape final : public ShapeLike {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const Dims values, values_of(node, inputs[0].desc));
    return one_output(node, DataType::s64, {static_cast<std::int64_t>(values.size())});
  }

 protected:
  Result<Dims> values_of(const NodeDesc& node, const TensorDesc& desc) const override {
    const std::int64_t rank = desc.rank();
    CONVOY_TRY(const std::int64_t start, node.integer("start", 0));
    CONVOY_TRY(const std::int64_t end, node.integer("end", rank));
    const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
    Dims values;
    for (std::int64_t d = clamp(start); d < clamp(end); ++d) values.push_back(desc.dims[d]);
    return values;
  }
};

class Size final : public ShapeLike {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    return one_output(node, DataType::s64, {});
  }

 protected:
  Result<Dims> values_of(const NodeDesc&, const TensorDesc& desc) const override { return Dims{desc.elements()}; }
};

class EyeLike final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    if (inputs[0].desc.rank() != 2) return bad_node(node, "input 0 must have rank 2");
    DataType type = inputs[0].desc.type;
    if (node.has("dtype")) {
      CONVOY_TRY(const std::int64_t number, node.integer("dtype", 0));
      CONVOY_TRY(type, data_type_of_onnx(node, number, "dtype"));
    }
    if (auto k = node.integer("k", 0); !k.ok()) return k.error();
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t k, node.integer("k", 0));
    return make_plan(node, [k, desc = outputs[0]](auto, auto out, const ExecContext&) -> Result<void> {
      std::memset(out[0], 0, desc.bytes());
      const std::int64_t rows = desc.dims[0], columns = desc.dims[1];
      if (k <= -rows || k >= columns) return {};
      for (std::int64_t r = std::max<std::int64_t>(0, -k); r < std::min(rows, columns - k); ++r) {
        store_from_double(desc.type, out[0], r * columns + r + k, 1);
      }
      return {};
    });
  }
};

const Constant constant;
const ConstantOfShape constant_of_shape;
const Shape shape;
const Size size;
const EyeLike eye_like;

}  // namespace

std::vector<OperatorRow> constant_rows() {
  return {{"Constant", &constant, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kEveryType},
          {"ConstantOfShape", &constant_of_shape, images::mixed, Rate::others, values::mixed, in_place::never,
           layouts::row_major, kEveryType},
          {"Shape", &shape, images::mixed, Rate::others, values::mixed, in_place::never, layouts::all, kEveryType},
          {"Size", &size, images::mixed, Rate::others, values::mixed, in_place::never, layouts::all, kEveryType},
          {"EyeLike", &eye_like, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kEveryType}};
}

}  // namespace convoy::ops
