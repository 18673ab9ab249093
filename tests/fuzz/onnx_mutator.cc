// Mutations of the model rather than of its bytes, so that most of what libFuzzer tries gets past the parser: other
// operators, attributes, wiring, shapes and constants. A third of the time the bytes are changed as usual.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "onnx.pb.h"
#include "ops/operator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

const char* const kAttributes[] = {"alpha",
                                   "auto_pad",
                                   "axes",
                                   "axis",
                                   "batch_dims",
                                   "beta",
                                   "bias",
                                   "block_size",
                                   "blocksize",
                                   "ceil_mode",
                                   "coordinate_transformation_mode",
                                   "count_include_pad",
                                   "detect_negative",
                                   "dilations",
                                   "direction",
                                   "dtype",
                                   "end",
                                   "ends",
                                   "epsilon",
                                   "equation",
                                   "exclusive",
                                   "fmod",
                                   "group",
                                   "height_scale",
                                   "high",
                                   "k",
                                   "keepdims",
                                   "kernel_shape",
                                   "largest",
                                   "lambd",
                                   "low",
                                   "max",
                                   "min",
                                   "mode",
                                   "momentum",
                                   "nearest_mode",
                                   "noop_with_empty_axes",
                                   "num_groups",
                                   "num_outputs",
                                   "offset_group",
                                   "output_height",
                                   "output_padding",
                                   "output_shape",
                                   "output_width",
                                   "p",
                                   "pads",
                                   "perm",
                                   "pooled_shape",
                                   "ratio",
                                   "reduction",
                                   "repeats",
                                   "reverse",
                                   "sampling_ratio",
                                   "saturate",
                                   "scale",
                                   "scales",
                                   "select_last_index",
                                   "shape",
                                   "size",
                                   "slope",
                                   "sorted",
                                   "spatial",
                                   "spatial_scale",
                                   "split",
                                   "starts",
                                   "storage_order",
                                   "strides",
                                   "to",
                                   "training_mode",
                                   "transA",
                                   "transB",
                                   "upper",
                                   "value",
                                   "width_scale"};
const char* const kTexts[] = {"SAME_UPPER",
                              "SAME_LOWER",
                              "VALID",
                              "NOTSET",
                              "constant",
                              "reflect",
                              "edge",
                              "wrap",
                              "nearest",
                              "linear",
                              "cubic",
                              "align_corners",
                              "half_pixel",
                              "asymmetric",
                              "tf_crop_and_resize",
                              "pytorch_half_pixel",
                              "floor",
                              "ceil",
                              "DCR",
                              "CRD",
                              "add",
                              "mul",
                              "max",
                              "avg",
                              "ij,jk->ik",
                              "bij,bjk->bik",
                              "i,i->"};
const std::int64_t kIntegers[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  7,
                                  8,
                                  16,
                                  -1,
                                  -2,
                                  -3,
                                  -4,
                                  255,
                                  256,
                                  65536,
                                  1 << 20,
                                  1 << 28,
                                  (1LL << 31) - 1,
                                  1LL << 31,
                                  1LL << 32,
                                  1LL << 40,
                                  1LL << 61,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MIN + 1,
                                  -(1LL << 31),
                                  -(1LL << 32)};
const float kReals[] = {0, 1, -1, 0.5F, 2, 1e-5F, 1e10F, -1e10F, 3e38F, INFINITY, -INFINITY, NAN};

class Mutation {
 public:
  Mutation(ModelProto& model, unsigned seed) : graph_(*model.mutable_graph()), model_(model), random_(seed) {}

  void run() {
    const int count = 1 + below(4);
    for (int i = 0; i < count; ++i) one();
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(std::max(limit, 1))); }
  template <class List>
  const auto& any(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(std::size(list))))];
  }
  // Mostly small, as valid models have them.
  std::int64_t integer() { return below(3) != 0 ? kIntegers[below(12)] : any(kIntegers); }

  std::string value_name() {
    std::vector<const std::string*> names;
    for (const auto& input : graph_.input()) names.push_back(&input.name());
    for (const auto& tensor : graph_.initializer()) names.push_back(&tensor.name());
    for (const auto& node : graph_.node()) {
      for (const auto& output : node.output()) names.push_back(&output);
    }
    return names.empty() ? std::string() : *any(names);
  }
  std::string new_name() { return "v" + std::to_string(random_() % 100000); }

  std::string op() {
    static const std::vector<std::string> names = [] {
      std::vector<std::string> all = convoy::ops::operator_names();
      for (const char* conv : {"Conv", "ConvTranspose", "QLinearConv", "ConvInteger"}) all.insert(all.end(), 5, conv);
      std::erase_if(all, [](const std::string& name) { return name.find('.') != std::string::npos; });
      return all;
    }();
    return any(names);
  }

  NodeProto* node() { return graph_.node_size() > 0 ? graph_.mutable_node(below(graph_.node_size())) : nullptr; }

  void fill(AttributeProto& attribute) {
    const std::string name = attribute.name();
    attribute.Clear();
    attribute.set_name(name);
    switch (below(6)) {
      case 0:
      case 1:
        attribute.set_type(AttributeProto::INT);
        attribute.set_i(integer());
        break;
      case 2:
      case 3:
        attribute.set_type(AttributeProto::INTS);
        for (int n = below(9); n > 0; --n) attribute.add_ints(integer());
        break;
      case 4:
        attribute.set_type(AttributeProto::STRING);
        attribute.set_s(any(kTexts));
        break;
      default:
        attribute.set_type(AttributeProto::FLOAT);
        attribute.set_f(any(kReals));
    }
  }

  // One value, keeping the attribute's kind and length.
  void nudge(AttributeProto& attribute) {
    if (attribute.ints_size() > 0) {
      attribute.set_ints(below(attribute.ints_size()), integer());
    } else if (attribute.type() == AttributeProto::INT) {
      attribute.set_i(integer());
    } else if (attribute.type() == AttributeProto::FLOAT) {
      attribute.set_f(any(kReals));
    } else if (attribute.type() == AttributeProto::TENSOR) {
      refill(*attribute.mutable_t());
    } else {
      fill(attribute);
    }
  }

  // Data that agrees with the dims, so that the importer takes it.
  void refill(TensorProto& tensor) {
    const std::string name = tensor.name();
    const int type = below(2) == 0 ? static_cast<int>(TensorProto::INT64) : tensor.data_type();
    std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    if (below(3) == 0) dims.assign(static_cast<std::size_t>(below(3)), 1 + below(6));
    std::int64_t count = 1;
    for (std::int64_t dim : dims) count = dim >= 0 && dim <= 64 && count <= 64 ? count * dim : 1000;
    if (count > 256) return;
    tensor.Clear();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (std::int64_t dim : dims) tensor.add_dims(dim);
    for (std::int64_t i = 0; i < count; ++i) {
      if (type == TensorProto::FLOAT) {
        tensor.add_float_data(any(kReals));
      } else if (type == TensorProto::INT64) {
        tensor.add_int64_data(integer());
      } else {
        tensor.add_int32_data(static_cast<std::int32_t>(integer()));
      }
    }
  }

  void add_node() {
    NodeProto& added = *graph_.add_node();
    added.set_op_type(op());
    for (int n = below(5); n > 0; --n) added.add_input(below(8) == 0 ? std::string() : value_name());
    added.add_output(new_name());
    if (below(4) == 0) added.add_output(new_name());
    for (int n = below(3); n > 0; --n) {
      AttributeProto& attribute = *added.add_attribute();
      attribute.set_name(any(kAttributes));
      fill(attribute);
    }
    graph_.add_output()->set_name(added.output(0));
  }

  void rewire(NodeProto& chosen) {
    switch (below(4)) {
      case 0:
        chosen.add_input(value_name());
        break;
      case 1:
        if (chosen.input_size() > 0) chosen.mutable_input()->RemoveLast();
        break;
      default:
        if (chosen.input_size() > 0) chosen.set_input(below(chosen.input_size()), below(8) == 0 ? "" : value_name());
    }
  }

  void reshape_input() {
    if (graph_.input_size() == 0) return;
    auto& tensor = *graph_.mutable_input(below(graph_.input_size()))->mutable_type()->mutable_tensor_type();
    auto& shape = *tensor.mutable_shape();
    switch (below(4)) {
      case 0:
        shape.add_dim()->set_dim_value(1 + below(8));
        break;
      case 1:
        if (shape.dim_size() > 0) shape.mutable_dim()->RemoveLast();
        break;
      case 2:
        tensor.set_elem_type(1 + below(16));
        break;
      default:
        if (shape.dim_size() > 0) shape.mutable_dim(below(shape.dim_size()))->set_dim_value(integer());
    }
  }

  void one() {
    NodeProto* chosen = node();
    switch (below(9)) {
      case 0:
        if (chosen) chosen->set_op_type(op());
        break;
      case 1:
        if (chosen) rewire(*chosen);
        break;
      case 2:
      case 3:
        if (chosen && chosen->attribute_size() > 0) nudge(*chosen->mutable_attribute(below(chosen->attribute_size())));
        break;
      case 4:
        if (chosen) {
          AttributeProto& attribute = *chosen->add_attribute();
          attribute.set_name(any(kAttributes));
          fill(attribute);
        }
        break;
      case 5:
        if (graph_.node_size() < 12) add_node();
        break;
      case 6:
        if (graph_.initializer_size() == 0 || below(4) == 0) {
          graph_.add_initializer()->set_name(new_name());
          graph_.mutable_initializer(graph_.initializer_size() - 1)->set_data_type(TensorProto::INT64);
        }
        refill(*graph_.mutable_initializer(below(graph_.initializer_size())));
        break;
      case 7:
        reshape_input();
        break;
      default:
        if (model_.opset_import_size() > 0) model_.mutable_opset_import(0)->set_version(1 + below(26));
    }
  }

  GraphProto& graph_;
  ModelProto& model_;
  std::minstd_rand random_;
};

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  ModelProto model;
  if (seed % 3 == 0 || !model.ParseFromArray(data, static_cast<int>(size)) || !model.has_graph()) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  Mutation(model, seed).run();
  std::string changed;
  if (!model.SerializeToString(&changed) || changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
