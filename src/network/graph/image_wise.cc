#include "network/graph/image_wise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "network/graph/conv_node.h"
#include "network/graph/infer.h"

namespace convoy::network {
namespace {

Error mixes(const Node& node, std::string_view why) {
  return {
      ErrorCode::unsupported,
      fmt::format("the batch can't be run in parts: {} {}; without parts it is run as a whole", describe(node), why)};
}

// ---- the batch's size ----

// What may be told a shape that follows from the batch's size.
constexpr std::array<std::string_view, 5> kShaped{"Reshape", "Expand", "Resize", "Tile", "Upsample"};

// Values that follow from sizes of activations, like those that exporters compute a Reshape's shape from, may decide
// shapes and nothing else: a mean over the batch that divides by its size would come out wrong. `graph` is in order.
Result<void> check_sizes_decide_shapes_only(const Graph& graph) {
  std::vector<bool> of_inputs(graph.values.size(), false), size(graph.values.size(), false);
  for (const int value : graph.inputs) of_inputs[value] = true;
  const auto any = [](const std::vector<bool>& marked, int value) { return value != kAbsent && marked[value]; };
  for (const Node& node : graph.nodes) {
    const ops::Operator* const op = ops::find_operator(node.desc.domain, node.desc.op);
    bool reads_inputs = false, reads_size = false;
    for (const int value : node.inputs) reads_inputs |= any(of_inputs, value);
    const std::vector<int> decides_shapes = value_inputs(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!any(size, node.inputs[i])) continue;
      const bool shape = std::ranges::find(kShaped, node.desc.op) != kShaped.end() &&
                         std::ranges::find(decides_shapes, static_cast<int>(i)) != decides_shapes.end();
      if (reads_inputs && !shape) return mixes(node, "computes with sizes of what it reads");
      reads_size = true;
    }
    const bool gives_size = op != nullptr && op->folds_from_shapes() && reads_inputs;
    for (const int value : node.outputs) {
      if (value == kAbsent) continue;
      of_inputs[value] = reads_inputs && !gives_size;
      size[value] = gives_size || (reads_size && !reads_inputs);
    }
  }
  return {};
}

// ---- operators ----

// A node, and which of its inputs have images in their first dim; the others are the same for all images.
class Reading {
 public:
  Reading(const Graph& graph, const Node& node, const std::vector<bool>& has_images, std::int64_t images)
      : graph_(graph), node_(node), has_images_(has_images), images_(images) {}

  const Node& node() const { return node_; }
  int count() const { return static_cast<int>(node_.inputs.size()); }
  bool present(int input) const { return input < count() && node_.inputs[input] != kAbsent; }
  bool has_images(int input) const { return present(input) && has_images_[node_.inputs[input]]; }
  const Dims& dims(int input) const { return graph_.values[node_.inputs[input]].desc.dims; }
  int rank(int input) const { return static_cast<int>(dims(input).size()); }
  std::int64_t images() const { return images_; }
  const Dims& output() const { return graph_.values[first_output()].desc.dims; }

  // The same for all images when it is broadcast to so many dims.
  bool is_shared(int input, int rank_of_output) const {
    return !has_images(input) && (rank(input) < rank_of_output || dims(input).front() == 1);
  }
  bool only(std::initializer_list<int> may) const {
    for (int i = 0; i < count(); ++i) {
      if (has_images(i) && std::ranges::find(may, i) == may.end()) return false;
    }
    return true;
  }

  // Of an attribute, or an input's values; nothing where they can't be read.
  std::optional<std::int64_t> integer(std::string_view attribute, std::int64_t fallback) const {
    const auto value = node_.desc.integer(attribute, fallback);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute) const {
    auto values = node_.desc.integers(attribute, {});
    return values.ok() ? std::optional(*std::move(values)) : std::nullopt;
  }
  std::optional<std::vector<std::int64_t>> integers(std::string_view attribute, int input) const {
    if (node_.desc.has(attribute)) return integers(attribute);
    if (!present(input)) return std::vector<std::int64_t>{};
    return small_integers(graph_, node_.inputs[input], 64);
  }
  std::optional<std::vector<double>> reals(int input) const {
    return present(input) ? small_constant(graph_, node_.inputs[input]) : std::vector<double>{};
  }
  // That an axis, as attributes have it, is behind the first.
  bool is_inner(std::optional<std::int64_t> axis, int of_rank) const {
    return axis && (*axis < 0 ? *axis + of_rank : *axis) > 0;
  }

 private:
  int first_output() const {
    return *std::ranges::find_if(node_.outputs, [](int value) { return value != kAbsent; });
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<bool>& has_images_;
  std::int64_t images_;
};

// That each image of the outputs comes from the same image of the inputs. That the outputs' first dim counts images has
// been checked for all.
using Rule = bool (*)(const Reading&);

// Of the images of input 0, each alone; the other inputs are the same for all.
bool each_alone(const Reading& r) { return r.only({0}); }

// An axis that is an attribute, or an input since opset 20.
bool dft(const Reading& r) {
  if (!r.only({0})) return false;
  if (r.node().desc.opset < 20) return r.is_inner(r.integer("axis", 1), r.rank(0));
  const auto axis = r.integers("", 2);
  return axis && (axis->empty() || (axis->size() == 1 && r.is_inner(axis->front(), r.rank(0))));
}

bool deform_conv(const Reading& r) { return r.only({0, 2, 4}); }  // x, offsets, mask
bool grid_sample(const Reading& r) { return r.has_images(0) && r.has_images(1); }

bool element_wise(const Reading& r) {
  const int rank = static_cast<int>(r.output().size());
  for (int i = 0; i < r.count(); ++i) {
    if (r.present(i) && !(r.has_images(i) ? r.rank(i) == rank : r.is_shared(i, rank))) return false;
  }
  return true;
}

// Scales and zero points have an axis of their own.
bool quantize(const Reading& r) {
  if (!r.only({0})) return false;
  for (int i = 1; i < r.count(); ++i) {
    const std::int64_t default_axis = 1;
    const bool single = !r.present(i) || r.rank(i) == 0 || (r.rank(i) == 1 && r.dims(i).front() == 1);
    if (!single && (r.rank(i) != 1 || !r.is_inner(r.integer("axis", default_axis), r.rank(0)))) return false;
  }
  return true;
}

template <int default_axis>
bool along_axis(const Reading& r) {
  return r.only({0}) && r.is_inner(r.integer("axis", default_axis), r.rank(0));
}

template <int axes_input, bool none_is_all>
bool over_axes(const Reading& r) {
  const auto axes = r.integers("axes", axes_input);
  if (!r.only({0}) || !axes || (axes->empty() && none_is_all)) return false;
  const int rank = std::max(r.rank(0), static_cast<int>(r.output().size()));  // Unsqueeze counts in its output
  return std::ranges::all_of(*axes, [&](std::int64_t axis) { return r.is_inner(axis, rank); });
}

// Over the images and places of each channel, where no axes are given.
bool mean_variance(const Reading& r) { return r.node().desc.has("axes") && over_axes<kAbsent, true>(r); }

bool concat(const Reading& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (!r.has_images(i)) return false;
  }
  return r.is_inner(r.integer("axis", 0), r.rank(0));
}

// Scale and zero point of the output, then each input with its own.
bool qlinear_concat(const Reading& r) {
  for (int i = 0; i < r.count(); ++i) {
    if (r.has_images(i) != (i >= 2 && i % 3 == 2)) return false;
  }
  return r.count() > 2 && r.is_inner(r.integer("axis", 0), r.rank(2));
}

// Of each image the same elements, or for each image those that its indices say.
bool gather(const Reading& r) {
  if (r.has_images(0)) return r.only({0}) && r.is_inner(r.integer("axis", 0), r.rank(0));
  return r.only({1}) && r.integer("axis", 0) == 0;
}

bool transpose(const Reading& r) {
  const auto order = r.integers("perm");
  return r.only({0}) && order && (order->empty() ? r.rank(0) == 1 : order->front() == 0);
}

bool pad(const Reading& r) {
  const auto pads = r.integers("pads", 1);
  if (!r.only({0}) || !pads || r.present(3)) return false;  // with axes of their own
  return pads->size() == 2 * r.dims(0).size() && pads->front() == 0 && (*pads)[r.dims(0).size()] == 0;
}

// By sizes, which are those that there were, or by a scale of 1.
bool resize(const Reading& r) {
  const auto mode = r.node().desc.text("coordinate_transformation_mode", "");
  if (!r.only({0}) || !mode.ok() || *mode == "tf_crop_and_resize") return false;
  if (r.node().desc.has("axes")) return over_axes<kAbsent, true>(r);
  const auto of_attribute = r.node().desc.reals("scales", {});
  const int input = r.count() == 2 ? 1 : 2;
  const auto scales = r.node().desc.has("scales") && of_attribute.ok() ? std::optional(*of_attribute) : r.reals(input);
  return scales && (scales->empty() || scales->front() == 1);
}

// Of the first axis nothing, or all of it in its order.
bool slice(const Reading& r) {
  const auto axes = r.integers("axes", 3);
  const auto steps = r.present(4) ? r.integers("", 4) : std::vector<std::int64_t>{};
  if (!r.only({0}) || !axes || !steps) return false;
  const bool named = r.node().desc.has("axes") || r.present(3);
  for (std::size_t i = 0; i < (named ? axes->size() : 1); ++i) {
    if (named && r.is_inner((*axes)[i], r.rank(0))) continue;
    if (i < steps->size() && (*steps)[i] != 1) return false;
  }
  return true;
}

bool is_single(const Reading& r, int input) {
  return !r.present(input) || std::ranges::all_of(r.dims(input), [](std::int64_t size) { return size == 1; });
}

// A matrix or a stack of them for each image, by shared ones; or the other way around.
bool product(const Reading& r, int a, int b) {
  const int rank = static_cast<int>(r.output().size());
  if (r.has_images(a) && r.rank(a) != rank) return false;
  if (!r.has_images(b)) return rank == 2 ? r.rank(b) == 2 : r.rank(b) <= 2 || r.is_shared(b, rank);
  if (r.rank(b) != rank || rank < 3) return false;
  return r.has_images(a) || r.rank(a) <= 2 || r.is_shared(a, rank);
}
bool matmul(const Reading& r) { return r.only({0, 1}) && product(r, 0, 1); }
bool matmul_integer(const Reading& r) { return r.only({0, 1}) && is_single(r, 2) && product(r, 0, 1); }
bool qlinear_matmul(const Reading& r) {
  return r.only({0, 3}) && is_single(r, 1) && is_single(r, 2) && is_single(r, 6) && is_single(r, 7) && product(r, 0, 3);
}
bool gemm(const Reading& r) {
  return r.only({0}) && r.integer("transA", 0) == 0 && (!r.present(2) || r.is_shared(2, 2));
}
bool qgemm(const Reading& r) {  // a, its scale and zero point, b and its, c, those of the output
  return r.only({0}) && r.integer("transA", 0) == 0 && is_single(r, 1) && is_single(r, 2) &&
         (!r.present(6) || r.is_shared(6, 2));
}

// One output: the mean and the like of training are over all images, and indices of MaxPool count through them.
bool one_output(const Reading& r) {
  const auto& outputs = r.node().outputs;
  return each_alone(r) && r.integer("training_mode", 0) == 0 &&
         std::ranges::all_of(outputs.begin() + 1, outputs.end(), [](int value) { return value == kAbsent; });
}

const std::map<std::string_view, Rule>& rules() {
  static const auto* const table = [] {
    auto* const made = new std::map<std::string_view, Rule>;
    const auto add = [made](Rule rule, std::initializer_list<std::string_view> operators) {
      for (const std::string_view name : operators) made->emplace(name, rule);
    };
    add(element_wise, {"Abs",
                       "Acos",
                       "Acosh",
                       "Add",
                       "And",
                       "Asin",
                       "Asinh",
                       "Atan",
                       "Atanh",
                       "BitShift",
                       "BitwiseAnd",
                       "BitwiseNot",
                       "BitwiseOr",
                       "BitwiseXor",
                       "Cast",
                       "CastLike",
                       "Ceil",
                       "Celu",
                       "Clip",
                       "Cos",
                       "Cosh",
                       "Div",
                       "Elu",
                       "Equal",
                       "Erf",
                       "Exp",
                       "Expand",
                       "Floor",
                       "Gelu",
                       "Greater",
                       "GreaterOrEqual",
                       "HardSigmoid",
                       "HardSwish",
                       "Identity",
                       "IsInf",
                       "IsNaN",
                       "LeakyRelu",
                       "Less",
                       "LessOrEqual",
                       "Log",
                       "Max",
                       "Mean",
                       "Min",
                       "Mish",
                       "Mod",
                       "Mul",
                       "Neg",
                       "Not",
                       "Or",
                       "PRelu",
                       "Pow",
                       "QLinearAdd",
                       "QLinearLeakyRelu",
                       "QLinearMul",
                       "QLinearSigmoid",
                       "Reciprocal",
                       "Relu",
                       "Round",
                       "ScaledTanh",
                       "Selu",
                       "Shrink",
                       "Sigmoid",
                       "Sign",
                       "Sin",
                       "Sinh",
                       "Softplus",
                       "Softsign",
                       "Sqrt",
                       "Sub",
                       "Sum",
                       "Swish",
                       "Tan",
                       "Tanh",
                       "ThresholdedRelu",
                       "Where",
                       "Xor"});
    add(each_alone, {"AveragePool", "DepthToSpace", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool",
                     "GroupNormalization", "InstanceNormalization", "LRN", "LpPool", "QLinearAveragePool",
                     "QLinearGlobalAveragePool", "Reshape", "STFT", "SpaceToDepth", "Tile"});
    add(one_output, {"BatchNormalization", "Dropout", "MaxPool"});
    add(deform_conv, {"DeformConv"});
    add(dft, {"DFT"});
    add(grid_sample, {"GridSample"});
    add(quantize, {"DequantizeLinear", "QuantizeLinear"});
    // Where some have 1 as their default, the same comes of it: behind the first, or refused.
    add(along_axis<-1>, {"Flatten", "Hardmax", "LayerNormalization", "LogSoftmax", "LpNormalization",
                         "RMSNormalization", "Softmax", "TopK"});
    add(along_axis<0>, {"ArgMax", "ArgMin", "Split"});
    add(over_axes<1, true>, {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                             "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze"});
    add(over_axes<1, false>, {"Unsqueeze"});
    add(mean_variance, {"MeanVarianceNormalization"});
    add(concat, {"Concat"});
    add(qlinear_concat, {"QLinearConcat"});
    add(gather, {"Gather"});
    add(transpose, {"Transpose"});
    add(pad, {"Pad"});
    add(resize, {"Resize", "Upsample"});
    add(slice, {"Slice"});
    add(matmul, {"MatMul"});
    add(matmul_integer, {"MatMulInteger"});
    add(qlinear_matmul, {"QLinearMatMul"});
    add(gemm, {"Gemm"});
    add(qgemm, {"QGemm"});
    return made;
  }();
  return *table;
}

Rule rule_of(const Node& node) {
  if (conv_form(node) != nullptr) return each_alone;
  const auto found = rules().find(node.desc.op);
  return found == rules().end() ? nullptr : found->second;
}

// ---- the graph ----

// The dims of what comes from the inputs, by value: those of one image, and none of other values.
Result<std::vector<Dims>> dims_of_image(Graph graph, std::int64_t images, const PassContext& context) {
  const std::size_t count = graph.values.size();  // the others are within operators
  CONVOY_TRY([[maybe_unused]] const int folded, constant_folding_but_dequantize(graph, context));
  CONVOY_TRY([[maybe_unused]] const int expanded, expansion(graph, context));
  CONVOY_TRY([[maybe_unused]] const int inferred, shape_inference(graph, context));
  std::vector<bool> has_images(graph.values.size(), false);
  for (const int value : graph.inputs) has_images[value] = true;
  const auto counts_images = [&](int value) {
    const Value& v = graph.values[value];
    return v.known && !v.desc.dims.empty() && v.desc.dims.front() == images;
  };
  for (const Node& node : graph.nodes) {
    const auto of_images = [&](int value) { return value != kAbsent && has_images[value]; };
    if (std::ranges::none_of(node.inputs, of_images)) continue;
    if (!is_static(graph, node)) return mixes(node, "has sizes that are known only when it runs");
    const Rule rule = rule_of(node);
    if (rule == nullptr) return mixes(node, "isn't known to compute each image alone");
    for (const int value : node.outputs) {
      if (value == kAbsent) continue;
      if (!counts_images(value)) {
        const bool fixed =
            node.desc.op == "Reshape";  // the usual cause: an exporter has put the batch of its example there
        return mixes(node, fmt::format("gives {}, of {} images{}", to_string(graph.values[value].desc.dims), images,
                                       fixed ? " (its shape is fixed in the model)" : ""));
      }
      has_images[value] = true;
    }
    if (!rule(Reading(graph, node, has_images, images))) return mixes(node, "mixes images, or may do so");
  }
  for (const int value : graph.outputs) {
    if (has_images[value]) continue;
    return Error{ErrorCode::unsupported, fmt::format("the batch can't be run in parts: output '{}' has no images in it",
                                                     graph.values[value].name)};
  }
  std::vector<Dims> result(count);
  for (std::size_t v = 0; v < result.size(); ++v) {
    const Dims& dims = graph.values[v].desc.dims;
    if (has_images[v]) result[v].assign(dims.begin() + 1, dims.end());
  }
  return result;
}

}  // namespace

std::optional<std::int64_t> batch_of(const Graph& graph) {
  std::optional<std::int64_t> images;
  for (const int input : graph.inputs) {
    const Dims& dims = graph.values[input].desc.dims;
    if (dims.empty() || (images && dims.front() != *images)) return std::nullopt;
    images = dims.front();
  }
  return images;
}

Graph with_batch(Graph graph, std::int64_t images) {
  for (const int input : graph.inputs) {
    Value& value = graph.values[input];
    Dims dims = value.desc.dims;
    dims.front() = images;
    value.desc = TensorDesc::packed(value.desc.type, std::move(dims));
  }
  return graph;
}

Result<void> check_image_wise(const Graph& graph, std::int64_t images, const PassContext& context) {
  const auto batch = batch_of(graph);
  if (!batch) {
    return Error{ErrorCode::unsupported,
                 "the batch can't be run in parts: the network's inputs have not all the same first dim"};
  }
  Graph ordered = graph;
  CONVOY_TRY([[maybe_unused]] const int moved, topological_order(ordered, context));
  CONVOY_CHECK(check_sizes_decide_shapes_only(ordered));
  CONVOY_TRY(const std::vector<Dims> of_whole, dims_of_image(ordered, *batch, context));
  CONVOY_TRY(const std::vector<Dims> of_part, dims_of_image(with_batch(ordered, images), images, context));
  for (std::size_t v = 0; v < of_whole.size(); ++v) {
    if (of_whole[v] == of_part[v]) continue;
    return Error{ErrorCode::unsupported,
                 fmt::format("the batch can't be run in parts: '{}' has other sizes in them", graph.values[v].name)};
  }
  return {};
}

}  // namespace convoy::network
