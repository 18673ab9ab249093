// Plans: what a network runs on, node by node, as a value, and as text that a person can read, compare and change
// (docs/plans.md). Network::plan makes one, NetworkOptions::plan replays it. `convoy compare` times two of them.
//
//   convoy-plan 1
//   network "squeezenet1.1"
//   input "data" f32,1x3x224x224
//   threads 2
//   isa avx2
//   math strict
//   graph 8c1d3a90f2b47e65
//   parts 1/thread
//   device "NVIDIA H200"
//   conv     "conv1+relu1"  onednn.jit_avx2{layout=given}  f32,nchw -> f32,nhwc  341us predicted
//   op       "pool1"        MaxPool                    f32,nhwc -> f32,nhwc  112us measured
//   convert  "fire2/out"    -                          f32,nhwc -> f32,nchw  74us predicted
//
// A line a node: what it is; the names of the ONNX nodes that it computes; what a convolution runs on, an operator's
// name; types and layouts of the activations it reads and writes; `math=strict` of a convolution that gives up nothing
// of f32 though the header's math allows it; what it costs, and how that is known. Costs are not obeyed. With `parts`
// (BatchParts; no line: the whole batch) the lines are those of a part, and the header is the network's still. With
// `device` (no line: the processor) it is for a network at home on such a GPU. `relabel` is an operator that costs
// nothing, since its output is its input's bytes under another description, and `inplace` a Concat or Split of parts
// that lie where the whole has them. '#' begins a comment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/cpu.h"
#include "convoy/result.h"
#include "convoy/tensor.h"

namespace convoy {

// How a run goes through its batch: as a whole, or in parts of so many images. Parts need a network that computes each
// image of its inputs (their first dim) alone. Layers of a part stay in the caches, and threads that have a part each
// don't wait for each other; but each part reads the weights again.
struct BatchParts {
  std::int64_t images = 0;     // of each part; 0: the whole batch at once
  bool a_thread_each = false;  // parts run side by side, each on one thread; else one after another on all threads
  friend bool operator==(const BatchParts&, const BatchParts&) = default;
};
// "whole"; "4": four images at a time, on all threads; "1/thread": on each thread one. Error: invalid_argument.
Result<BatchParts> parse_batch_parts(std::string_view text);
std::string print(const BatchParts& parts);

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
  std::string device = {};  // the name of the GPU that is its home; empty: the processor
  friend bool operator==(const NetworkPlanHeader&, const NetworkPlanHeader&) = default;
};

// A line of a plan: of a node, or of a conversion.
struct NetworkPlanLine {
  struct Cost {
    double seconds = 0;
    bool measured = false;  // else predicted
  };
  std::string kind;               // "conv", "op", "relabel", "inplace", "convert"
  std::string name;               // of the nodes, or of a conversion's value
  std::string runs_on;            // a candidate, an operator's name, "-"
  std::string from, to;           // "f32,nchw"; "-" where no activation is read, or written
  bool one_thread = false;        // "threads=1", where the header has more
  bool strict = false;            // "math=strict", where the header allows less: a convolution that keeps all of f32
  std::optional<Cost> cost = {};  // nothing: "- -"
  int number = 0;                 // in the file that it was read from, from 1; 0: in none
};
// Whether both say the same, whatever it costs and wherever they are. A candidate has to be written alike.
bool same_choices(const NetworkPlanLine& a, const NetworkPlanLine& b);

// What lines cost together, as often as they run one after another.
struct NetworkPlanCost {
  double seconds = 0;
  int lines = 0;  // that cost something
  int measured = 0;
};

struct NetworkPlan {
  NetworkPlanHeader header;
  std::vector<NetworkPlanLine> lines;
  std::vector<std::string> remarks;  // comments, without line breaks
  NetworkPlanCost cost() const;
};
// Whether they are for the same and decide the same.
bool same_choices(const NetworkPlan& a, const NetworkPlan& b);

// Errors name the line and what is wrong in it.
Result<NetworkPlan> parse_plan(std::string_view text);
std::string print(const NetworkPlan& plan);

// The file in a folder of kept plans (NetworkOptions::kept_plans) that a plan with this header would be kept in: named
// by its graph, and by a number made from the processor, threads, instruction set, math and device.
std::string kept_plan_path(const std::string& folder, const NetworkPlanHeader& header, const CpuFeatures& cpu);

}  // namespace convoy
