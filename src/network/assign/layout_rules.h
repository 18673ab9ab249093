// Rules that give every node its layouts, and say which convolutions take over what follows them. Each is the whole of
// its decision; engines are chosen afterwards (assign).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "network/assign/assignment.h"

namespace convoy::network {

// The types that a node may hold f32 activations in, by NetworkOptions::precision, whether it is strict
// (NodeFormats::strict), and what less than strict f32 adds to the error of the network's outputs.
struct NodeTypes {
  std::vector<DataType> types;      // f32, the narrow one, or both to choose from, f32 first
  std::vector<bool> strict{false};  // likewise, strict first
  double error = 0;
  bool is_reduced(const NodeFormats& formats) const {
    return formats.reads.narrows() || formats.writes.narrows() || (strict.front() && !formats.strict);
  }
};
// By node. Convolutions are narrowed where an engine other than an oracle takes them so, operators where they work so.
// Where no convolution can be, nothing is, and a remark says it.
std::vector<NodeTypes> node_types(const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks);

// What a rule decides, by node.
struct Forms {
  std::vector<NodeFormats> formats;
  // How many of a convolution's last fusions are undone (network/graph/unfuse.h): what it no longer takes over are
  // nodes then, which read and write what it wrote.
  std::vector<int> unfused;
  // Where the rule chooses convolutions' candidates, too, since these decide what memory weights take; empty: it
  // doesn't.
  std::vector<std::optional<Candidate>> candidates;
};
// The graph with these forms, and its nodes' formats.
std::vector<NodeFormats> take_form(Graph& graph, const Forms& forms);

// Seconds that are counted for what only the processor runs of a network at home on a GPU: with copies, where nothing
// else is left.
inline constexpr double kOnProcessor = 1;

// The convolution with as few of its fusions undone as leave what an engine takes, in some layouts: on a GPU rules give
// a node the layouts of that, since it is what will run. The node itself on the processor, and where nothing takes any.
const Node& what_runs(const Graph& graph, const Node& node, DataType type, Chooser& chooser);

// "greedy", "global", "local", "uniform:nhwc", "uniform:nchw", "uniform:nchw8c" or "uniform:nchw16c". `remarks` gets
// what a decision says of itself. Errors: another text; a goal for another than "global".
Result<Forms> forms_by(std::string_view how, const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks,
                       const MemoryGoal& goal = {});

// Nodes that can work in nhwc (convolutions, operators that accept it, and one side of a Transpose from or to
// channels-last) form regions, connected by the activations of rank 3 to 5 that they share. A region becomes nhwc where
//   predicted seconds of its convolutions in nhwc + cost of the conversions at its border and of its Transposes
// is less than
//   predicted seconds of its convolutions in nchw + cost of its Transposes, which then reorder bytes.
// The costs of conversions and Transposes are CostTable's: measured where the store knows them; a border's
// conversions count for more, since their values have mostly left the caches. Everything outside of the regions, the
// graph's inputs and its outputs are nchw. A QuantizeLinear at a region's beginning, and what else makes fewer bytes of
// its input, stays nchw, so that fewer are converted. A convolution that then is predicted to take less than nine
// tenths in other layouts than its region's, conversions included, works in those.
std::vector<NodeFormats> greedy_formats(const Graph& graph, std::span<const DataType> types, Chooser& chooser);

// One layout for every node that can work in it; the others work in nchw. A convolution that only an oracle could run
// so reads or writes, or both, what it is predicted to be fastest in, of this layout, nhwc and nchw.
std::vector<NodeFormats> uniform_formats(const Graph& graph, std::span<const DataType> types, Chooser& chooser,
                                         Layout layout);

// The layouts of nchw, nhwc and the processor's blocks, the types that each node may have, the fusions, and the
// threads, that take least in all: convolutions, operators, conversions, and cache transfers between threads, by
// CostTable's costs. Convolutions may read and write in different layouts; what they don't take over works in the one
// they write. Where errors are known, the squares of those of narrow nodes add up to NetworkOptions::error_limit's at
// most. A value that several read is converted once for all of them. It is the optimum of a partitioned boolean
// quadratic problem (solver/solver.h); Anderson and Gregg, "Optimal DNN Primitive Selection with Partitioned Boolean
// Quadratic Programming", CGO 2018.
struct GlobalForms {
  Forms forms;
  double seconds = 0;  // of the lines that the plan will have
  std::string proof;   // for people: what it takes, and that nothing takes less
};
// With a goal, those that take least among those that keep to it (memory.h), with all fusions; not with
// precision_errors.
Result<GlobalForms> global_forms(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser,
                                 const MemoryGoal& goal = {});

// What each node is fastest in, were there no conversions: what looking at one layer at a time finds.
Forms local_forms(const Graph& graph, std::span<const NodeTypes> types, Chooser& chooser);

}  // namespace convoy::network
