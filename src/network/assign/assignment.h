// A network's choices as one value: for every node of a graph whose passes have run, the layouts it reads and writes,
// and for every convolution the candidate it runs on. Decided before anything is built; lower() obeys it. Made by
// assign() for layouts that a rule gives (greedy_formats, uniform_formats), and from plans (plan.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "network/cost/chooser.h"
#include "network/cost/step_problem.h"
#include "network/graph/graph.h"

namespace convoy::network {

// How activations are held: their layout, and the type that those of f32 have. Others keep their type.
struct Format {
  constexpr Format(Layout lies = Layout::nchw, DataType holds = DataType::f32) : layout(lies), real(holds) {}
  Layout layout;
  DataType real;  // f32, bf16 or f16
  bool narrows() const { return real != DataType::f32; }
  friend auto operator<=>(const Format&, const Format&) = default;
};

// The formats of a node's activations: of all that it reads, and of all that it writes, and the threads that do so (on
// the processor; elsewhere it is none of them). A convolution's z is held as what it writes; weights have the type of
// what it reads. A strict one gives up nothing of f32, whatever NetworkOptions::math allows. Weights and the like,
// constants and values of rank below 3 are row-major whatever these say, and the latter keep their type.
struct NodeFormats {
  Format reads;
  Format writes;
  Threads threads = Threads::all;
  bool strict = false;
  friend bool operator==(const NodeFormats&, const NodeFormats&) = default;
};

struct NodeAssignment {
  NodeFormats formats;
  int place = 0;          // of Chooser::places(): where it runs, and what it reads and writes lies
  bool in_place = false;  // a Concat or Split that copies nothing (in_place.h)
  // Of a convolution:
  ConvProblem problem;  // in these layouts, with the math that is allowed
  Selection selection;
  int switchable = -1;              // which of the session's switchable convolutions it is; -1: none
  std::vector<Candidate> switches;  // that it can be switched to besides selection.candidate
};

struct Assignment {
  std::vector<NodeAssignment> nodes;  // by the graph's nodes; those that are not static have none of it
  int converts = 0;  // the place, besides the processor, that changes layouts and types of what lies there
};

// Whether a value is laid out by its node's formats: constants and small ranks are always row-major.
bool has_layout(const Value& value);

// How a value lies in a format.
TensorDesc described(const Value& value, const Format& format);

// The problem with its activations, and its weights' type, as the formats say.
ConvProblem in_formats(ConvProblem problem, const NodeFormats& formats);

// The node's convolution, as it is asked for with these formats, at home where no place is said. Elsewhere than on the
// processor constant weights lie as what it reads does, and a constant bias has the type of out where that is of 16
// bits and predicted to be faster.
ConvQuery conv_query(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser,
                     std::optional<int> place = {});

// What it is predicted to take at home at least, without an engine's provider being asked.
double predict_at_least(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser);

// Nothing where a convolution may run elsewhere than on the processor; else what it is that can't. What its step makes
// of its inputs it makes on the processor.
std::string kept_on_processor(const Graph& graph, const Node& node);

// Whether the node can work with these formats. A convolution can in any layout, and narrowed where it is one of f32
// with constant weights; who runs it then is another question.
bool can_work(const Graph& graph, const Node& node, const NodeFormats& formats);

// The inputs of a node that is no convolution, row-major, where f32 activations are held in another type: so are those,
// and where the operator wants it (an Add does, a Resize's scales don't) f32 constants too. Large ones are only
// described so unless they are asked for: describing a node takes place for each of its alternatives. Error: it does
// not take, or not give, what it would have to.
struct NarrowedInputs {
  std::vector<ops::Input> inputs;
  std::vector<std::optional<HostTensor>> constants;  // by input: those that were converted
};
enum class Constants { small, all };
Result<NarrowedInputs> narrowed_inputs(const Graph& graph, const Node& node, DataType real, Constants convert);

// The format in which a node reads its i-th input.
Format format_read(const Node& node, const NodeFormats& formats, std::size_t i);

// Whether the node's output is its input's bytes under another description, so that nothing has to run: a Transpose
// between row-major and channels-last, for one.
bool relabels(const Node& node, const TensorDesc& input, const TensorDesc& output);

// Whether a tensor's elements lie where another's do, so that it may take over its memory while it is computed.
bool same_placement(const TensorDesc& a, const TensorDesc& b);

// A node that is no convolution, as it is planned with these formats; nothing for one that costs nothing, since it
// relabels.
std::optional<StepProblem> step_problem(const Graph& graph, const Node& node, const NodeFormats& formats);

// An engine for each convolution, in the layouts of `formats` (by node): of `candidates` (by node, or empty) the one
// that is given, else as the chooser chooses. Where none takes them that the chooser's options admit (a rule may name
// one that takes another layout only), the node works in another layout. Nodes are at home where they can run there,
// else on the processor.
Result<Assignment> assign(const Graph& graph, const std::vector<NodeFormats>& formats, Chooser& chooser,
                          std::span<const std::optional<Candidate>> candidates = {});

// How and where a value lies.
struct Located {
  TensorDesc desc;
  int place = 0;
};

// A value that a node reads in another layout than the one it was written in, or elsewhere: a step of the program,
// which either changes the layout, on the processor or where Assignment::converts says, or copies to another place.
struct Conversion {
  int value = kAbsent;
  Located from, to;
  Threads threads = Threads::all;  // those that wrote the value; of a graph's input those of the node that follows
};

// Why a node that is no convolution can't run at home, which is not the processor, with these formats.
Result<void> check_at_home(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser);

// Says who changes layouts.
void put_conversions(Assignment& assignment, Chooser& chooser);

// Puts each node that is no convolution at home where it can run there, and says who changes layouts.
void put_in_places(const Graph& graph, Assignment& assignment, Chooser& chooser);

// What runs on the processor though home is elsewhere, and why: a line for each reason.
std::vector<std::string> remarks_on_places(const Graph& graph, const Assignment& assignment, Chooser& chooser);

// A conversion's cost is this problem's; nothing where it copies to another place.
std::optional<StepProblem> step_problem(const Conversion& conversion);

// The conversions that an assignment needs before each node runs, by node, and behind the last one for the graph's
// outputs and for `exports`, which are row-major on the processor.
std::vector<std::vector<Conversion>> conversions(const Graph& graph, const Assignment& assignment,
                                                 std::span<const int> exports = {});

// What is run besides convolutions on such threads, each once: operators and conversions in the order of their first
// occurrence.
std::vector<StepProblem> step_problems(const Graph& graph, const Assignment& assignment, Threads threads);

}  // namespace convoy::network
