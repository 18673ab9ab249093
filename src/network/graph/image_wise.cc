#include "network/graph/image_wise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "ops/operator_row.h"

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

bool is_the_same_constant(const Graph& whole, const Graph& part, int value) {
  const HostTensor* const a = whole.constant_of(value);
  const HostTensor* const b = part.constant_of(value);
  return a != nullptr && b != nullptr && a->desc == b->desc &&
         std::memcmp(a->data.get(), b->data.get(), static_cast<std::size_t>(a->desc.bytes())) == 0;
}

// Values that follow from the batch's size, as the shape of a Reshape may, may decide shapes and nothing else: a mean
// over the batch that divides by its size would come out wrong. Other sizes, of which a detector computes its anchors,
// give the same constants for the whole batch and for a part. `graph` is in order.
Result<void> check_sizes_decide_shapes_only(const Graph& graph, const Graph& whole, const Graph& part) {
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
      const bool follows = gives_size || (reads_size && !reads_inputs);
      size[value] = follows && !is_the_same_constant(whole, part, value);
    }
  }
  return {};
}

// ---- operators ----

// A node as its operator is asked about it.
ops::ImageReading reading(const Graph& graph, const Node& node, const std::vector<bool>& has_images) {
  std::vector<bool> of_images;
  for (const int value : node.inputs) of_images.push_back(value != kAbsent && has_images[value]);
  const auto first = std::ranges::find_if(node.outputs, [](int value) { return value != kAbsent; });
  const bool one =
      std::all_of(node.outputs.begin() + 1, node.outputs.end(), [](int value) { return value == kAbsent; });
  return {node.desc, inputs_of(graph, node), std::move(of_images), graph.values[*first].desc.dims, one};
}

ops::ImageRule rule_of(const Node& node) {
  if (conv_form(node) != nullptr) return ops::images::each_alone;
  const ops::OperatorRow* const row = ops::find_row(node.desc.domain, node.desc.op);
  return row == nullptr || row->images == ops::images::mixed ? nullptr : row->images;
}

// ---- the graph ----

struct Inferred {
  Graph graph;              // with what sizes decide as constants
  std::vector<Dims> image;  // by value, of what comes from the inputs: the dims of one image
};

Result<Inferred> inferred(Graph graph, std::int64_t images, const PassContext& context) {
  const std::size_t count = graph.values.size();  // the others are within operators
  CONVOY_TRY([[maybe_unused]] const int folded, constant_folding_but_dequantize(graph, context));
  CONVOY_TRY([[maybe_unused]] const int expanded, expansion(graph, context));
  CONVOY_TRY([[maybe_unused]] const int shaped, shape_inference(graph, context));
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
    const ops::ImageRule rule = rule_of(node);
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
    if (!rule(reading(graph, node, has_images))) return mixes(node, "mixes images, or may do so");
  }
  for (const int value : graph.outputs) {
    if (has_images[value]) continue;
    return Error{ErrorCode::unsupported, fmt::format("the batch can't be run in parts: output '{}' has no images in it",
                                                     graph.values[value].name)};
  }
  std::vector<Dims> image(count);
  for (std::size_t v = 0; v < count; ++v) {
    const Dims& dims = graph.values[v].desc.dims;
    if (has_images[v]) image[v].assign(dims.begin() + 1, dims.end());
  }
  return Inferred{std::move(graph), std::move(image)};
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
  CONVOY_TRY(const Inferred whole, inferred(ordered, *batch, context));
  CONVOY_TRY(const Inferred part, inferred(with_batch(ordered, images), images, context));
  CONVOY_CHECK(check_sizes_decide_shapes_only(ordered, whole.graph, part.graph));
  for (std::size_t v = 0; v < whole.image.size(); ++v) {
    if (whole.image[v] == part.image[v]) continue;
    return Error{ErrorCode::unsupported,
                 fmt::format("the batch can't be run in parts: '{}' has other sizes in them", graph.values[v].name)};
  }
  return {};
}

}  // namespace convoy::network
