#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "convoy/network.h"
#include "core/nearest.h"
#include "core/text.h"
#include "network/graph/pass.h"

namespace convoy::network {

std::span<const Pass> passes() {
  static constexpr Pass kList[] = {
      {"topological_order", "every node after the nodes it reads", topological_order, true},
      {"control_flow", "the branch of an If and the trips of a Loop take its place where sizes decide", control_flow},
      {"sequences", "readers of lists and optional values read the tensors in them", sequences, true},
      {"identity_removal", "Identity, inference Dropout and casts to the same type disappear", identity_removal},
      {"constant_folding", "nodes with constant inputs are computed now, but for weights that are dequantized",
       constant_folding_but_dequantize},
      {"expansion", "operators that stand for several become those", expansion, true},
      {"identity_removal", "Identity, inference Dropout and casts to the same type disappear", identity_removal},
      {"byte_weights", "weights of 4 and 2 bits that are dequantized become bytes of the same values", byte_weights},
      {"dequantize_sinking", "DequantizeLinear moves behind what only moves values, and meets QuantizeLinear",
       dequantize_sinking},
      {"constant_folding", "nodes with constant inputs are computed now, but for weights that are dequantized",
       constant_folding_but_dequantize},
      {"quantized_folding",
       "convolutions and other operators between DequantizeLinear and QuantizeLinear run in integers",
       quantized_folding},
      {"quantized_matmul", "integer products with a constant matrix become convolutions", quantized_matmul},
      {"dynamic_quantization", "Cast and Mul behind ConvInteger become its epilogue", dynamic_quantization},
      {"byte_tables", "what is computed of one 8-bit tensor, element by element, becomes a table", byte_tables},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"constant_folding", "nodes with constant inputs are computed now", constant_folding},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"shape_inference", "types and dims of every value that does not depend on data", shape_inference, true},
      {"identity_removal", "Identity, inference Dropout and casts to the same type disappear", identity_removal},
      {"half_widening", "networks in f16, or bf16 without matrix units for it, run in f32 on the processor",
       half_widening},
      {"normalization_patterns", "layer, RMS and group normalization that are written out become one node",
       normalization_patterns},
      {"transpose_sinking", "Transposes to channels last move behind what also works with the channels first",
       transpose_sinking},
      {"channel_gather", "Reshape, Transpose and Gather that only reorder channels become a Gather of channels",
       channel_gather},
      {"pad_folding", "Pad becomes padding of the convolution or pooling behind it", pad_folding},
      {"affine_folding", "BatchNormalization, Mul, Div, Add and Sub by channel move into weights and bias",
       affine_folding},
      {"branch_merging", "convolutions of one value that are added to each other become one", branch_merging},
      {"matmul_bias", "a constant row that is added to a MatMul becomes its bias", matmul_bias},
      {"activation_patterns", "x*sigmoid(x) and the like become one node", activation_patterns},
      {"pixel_products", "on a GPU, products of pixels with a constant matrix become 1x1 convolutions", pixel_products},
      {"transpose_sinking", "Transposes to channels last move behind what also works with the channels first",
       transpose_sinking},
      {"affine_folding", "BatchNormalization, Mul, Div, Add and Sub by channel move into weights and bias",
       affine_folding},
      {"bound_fusion", "Relu and Clip become part of the BatchNormalization before them", bound_fusion},
      {"conv_fusion", "residual adds, quantized ones too, and activations become epilogues of convolutions",
       conv_fusion},
      {"gate_fusion",
       "on a GPU, the product with a gate of images and channels becomes part of the 1x1 convolution of it",
       gate_fusion},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"topological_order", "every node after the nodes it reads", topological_order, true},
      {"shape_inference", "types and dims of every value that does not depend on data", shape_inference, true},
  };
  return kList;
}

namespace {

Result<void> check_skipped(std::span<const std::string> skip) {
  for (const std::string& name : skip) {
    const auto found = std::ranges::find(passes(), name, &Pass::name);
    if (found == passes().end()) {
      std::vector<std::string> names;
      for (const NetworkPass& pass : network_passes()) names.emplace_back(pass.name);  // each once
      return Error{ErrorCode::invalid_argument,
                   "skip_passes: " + convoy::quoted(name) + " is no pass" + did_you_mean(name, names)};
    }
    if (found->required) {
      return Error{ErrorCode::invalid_argument, "skip_passes: " + name + " can't be skipped, nothing works without it"};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PassLog>> run_passes(Graph& graph, const PassContext& context, std::span<const std::string> skip) {
  CONVOY_CHECK(check_skipped(skip));
  CONVOY_CHECK(check(graph));
  for (Node& node : graph.nodes) node.fused.reset();  // by passes on a graph that this is a part of: values change now
  std::vector<PassLog> done;
  for (const Pass& pass : passes()) {
    if (std::find(skip.begin(), skip.end(), pass.name) != skip.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    const Result<int> changes = pass.run(graph, context);
    if (!changes.ok()) return changes.error();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (auto sound = check(graph); !sound.ok()) return sound.error().within("after pass " + std::string(pass.name));
    done.push_back({pass.name, *changes, seconds.count()});
    if (log_enabled(LogLevel::debug)) {
      log(LogLevel::debug, "pass",
          {{"name", pass.name}, {"changes", std::to_string(*changes)}, {"seconds", print_double(seconds.count())}});
    }
  }
  return done;
}

}  // namespace convoy::network

namespace convoy {

std::vector<NetworkPass> network_passes() {
  std::vector<NetworkPass> list;
  for (const network::Pass& pass : network::passes()) {
    if (std::ranges::find(list, pass.name, &NetworkPass::name) != list.end()) continue;
    list.push_back({pass.name, pass.summary, !pass.required});
  }
  return list;
}

}  // namespace convoy
