#include <algorithm>
#include <chrono>

#include "network/pass.h"

namespace convoy::network {

std::span<const Pass> passes() {
  static constexpr Pass list[] = {
      {"topological_order", "every node after the nodes it reads", topological_order},
      {"identity_removal", "Identity and inference Dropout disappear", identity_removal},
      {"constant_folding", "nodes with constant inputs are computed now, but for weights that are dequantized",
       constant_folding_but_dequantize},
      {"dequantize_sinking", "DequantizeLinear moves behind what only moves values, and meets QuantizeLinear",
       dequantize_sinking},
      {"constant_folding", "nodes with constant inputs are computed now, but for weights that are dequantized",
       constant_folding_but_dequantize},
      {"quantized_folding",
       "convolutions and other operators between DequantizeLinear and QuantizeLinear run in integers",
       quantized_folding},
      {"quantized_matmul", "integer products with a constant matrix become convolutions", quantized_matmul},
      {"dynamic_quantization", "Cast and Mul behind ConvInteger become its epilogue", dynamic_quantization},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"constant_folding", "nodes with constant inputs are computed now", constant_folding},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"shape_inference", "types and dims of every value that does not depend on data", shape_inference},
      {"pad_folding", "Pad becomes padding of the convolution or pooling behind it", pad_folding},
      {"affine_folding", "BatchNormalization, Mul, Div, Add and Sub by channel move into weights and bias",
       affine_folding},
      {"activation_patterns", "x*sigmoid(x) and the like become one node", activation_patterns},
      {"conv_fusion", "residual adds and activations become epilogues of convolutions", conv_fusion},
      {"dead_node_removal", "nodes nobody reads disappear", dead_node_removal},
      {"topological_order", "every node after the nodes it reads", topological_order},
      {"shape_inference", "types and dims of every value that does not depend on data", shape_inference},
  };
  return list;
}

Result<std::vector<PassLog>> run_passes(Graph& graph, const PassContext& context, std::span<const std::string> skip) {
  std::vector<PassLog> log;
  for (const Pass& pass : passes()) {
    if (std::find(skip.begin(), skip.end(), pass.name) != skip.end()) continue;
    const auto start = std::chrono::steady_clock::now();
    const Result<int> changes = pass.run(graph, context);
    if (!changes.ok()) return changes.error();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    log.push_back({pass.name, *changes, seconds.count()});
  }
  return log;
}

}  // namespace convoy::network
