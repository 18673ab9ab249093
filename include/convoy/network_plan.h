// Plan files: what a network runs on, node by node, as text that a person can read, compare and change (docs/plans.md).
// Network::plan writes them, NetworkOptions::plan replays them. `convoy compare` times two of them.
//
//   convoy-plan 1
//   network "squeezenet1.1"
//   input "data" f32,1x3x224x224
//   threads 2
//   isa avx2
//   math strict
//   graph 8c1d3a90f2b47e65
//   parts 1/thread
//   conv     "conv1+relu1"  onednn.jit_avx2{layout=given}  f32,nchw -> f32,nhwc  341us predicted
//   op       "pool1"        MaxPool                    f32,nhwc -> f32,nhwc  112us measured
//   convert  "fire2/out"    -                          f32,nhwc -> f32,nchw  74us predicted
//
// A line a node: what it is; the names of the ONNX nodes that it computes; what a convolution runs on, an operator's
// name; types and layouts of the activations it reads and writes; what it costs, and how that is known. The cost is for
// people: it is not read back. With `parts` (BatchParts; no line: the whole batch) the lines are those of a part, and
// the header is the network's still. `relabel` is an operator that costs nothing, since its output is its input's bytes
// under another description, and `inplace` a Concat or Split of parts that lie where the whole has them. '#' begins a
// comment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/cpu.h"
#include "convoy/network.h"
#include "convoy/result.h"
#include "convoy/tensor.h"

namespace convoy {

// What a plan was made for. Replaying it needs the same, weights aside.
struct NetworkPlanHeader {
  std::string network;  // its name; another one is no error
  std::vector<std::string> input_names;
  std::vector<TensorDesc> inputs;
  int threads = 1;
  Isa isa = Isa::portable;
  MathMode math = MathMode::strict;
  DataType precision = DataType::f32;  // what some nodes of f32 run in; no line of the file where that is f32
  std::uint64_t graph = 0;             // of nodes, sizes and types, after all passes; not of weights
  BatchParts parts;
};

// Reads the lines before the first node. Errors name the line.
Result<NetworkPlanHeader> read_plan_header(std::string_view text);

// What its lines cost together, as often as they run one after another.
struct NetworkPlanCost {
  double seconds = 0;
  int lines = 0;  // that cost something
  int measured = 0;
};
Result<NetworkPlanCost> read_plan_cost(std::string_view text);

// The file in a folder of kept plans (NetworkOptions::kept_plans) that a plan with this header would be kept in: named
// by its graph, and by a number made from the processor, threads, instruction set and math.
std::string kept_plan_path(const std::string& folder, const NetworkPlanHeader& header, const CpuFeatures& cpu);

}  // namespace convoy
