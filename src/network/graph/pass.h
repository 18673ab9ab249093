// The passes over a graph: each a file in passes/, with a name, and switched off by that name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/cpu.h"
#include "convoy/thread_team.h"
#include "network/graph/graph.h"

namespace convoy::network {

struct PassContext {
  ThreadTeam& team;  // constant folding runs operators on it
  CpuFeatures cpu;
  bool on_gpu = false;  // it is the network's home
};

struct Pass {
  std::string_view name;
  std::string_view summary;
  Result<int> (*run)(Graph& graph, const PassContext& context);  // how many changes it made
  bool required = false;  // without it nothing could be planned: it can't be skipped
};

// In the order they run; a name may come again.
std::span<const Pass> passes();

struct PassLog {
  std::string_view name;
  int changes = 0;
  double seconds = 0;
};

// Runs all passes but those whose names are in `skip`, checks the graph after each, and logs what it did (event=pass).
// The inputs of the graph must be known. Errors: a name in `skip` that no pass has, or one that can't be skipped.
Result<std::vector<PassLog>> run_passes(Graph& graph, const PassContext& context,
                                        std::span<const std::string> skip = {});

Result<int> topological_order(Graph& graph, const PassContext& context);
Result<int> control_flow(Graph& graph, const PassContext& context);
Result<int> sequences(Graph& graph, const PassContext& context);
Result<int> identity_removal(Graph& graph, const PassContext& context);
Result<int> constant_folding(Graph& graph, const PassContext& context);
// The same, but the DequantizeLinear of a constant stays: the passes on quantized models look for it.
Result<int> constant_folding_but_dequantize(Graph& graph, const PassContext& context);
Result<int> dead_node_removal(Graph& graph, const PassContext& context);
Result<int> shape_inference(Graph& graph, const PassContext& context);
Result<int> expansion(Graph& graph, const PassContext& context);
Result<int> byte_weights(Graph& graph, const PassContext& context);
Result<int> dequantize_sinking(Graph& graph, const PassContext& context);
Result<int> quantized_folding(Graph& graph, const PassContext& context);
Result<int> quantized_matmul(Graph& graph, const PassContext& context);
Result<int> dynamic_quantization(Graph& graph, const PassContext& context);
Result<int> byte_tables(Graph& graph, const PassContext& context);
Result<int> channel_gather(Graph& graph, const PassContext& context);
Result<int> half_widening(Graph& graph, const PassContext& context);
Result<int> pad_folding(Graph& graph, const PassContext& context);
Result<int> affine_folding(Graph& graph, const PassContext& context);
Result<int> branch_merging(Graph& graph, const PassContext& context);
Result<int> matmul_bias(Graph& graph, const PassContext& context);
Result<int> activation_patterns(Graph& graph, const PassContext& context);
Result<int> normalization_patterns(Graph& graph, const PassContext& context);
Result<int> transpose_sinking(Graph& graph, const PassContext& context);
Result<int> pixel_products(Graph& graph, const PassContext& context);
Result<int> bound_fusion(Graph& graph, const PassContext& context);
Result<int> conv_fusion(Graph& graph, const PassContext& context);
Result<int> gate_fusion(Graph& graph, const PassContext& context);

}  // namespace convoy::network
