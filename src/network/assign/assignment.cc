#include "network/assign/assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "convert/convert.h"
#include "network/assign/in_place.h"
#include "network/assign/threads.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "ops/blocks.h"
#include "ops/problem.h"

namespace convoy::network {
namespace {

// Those that a convolution is tried in where no engine takes the ones it was given.
constexpr std::array kOthers{NodeFormats{Layout::nhwc, Layout::nhwc}, NodeFormats{Layout::nchw, Layout::nchw}};

bool is_real_activation(const Value& value) { return has_layout(value) && value.desc.type == DataType::f32; }

// f32 and constant throughout, but for the activations.
bool can_be_narrowed(const Graph& graph, const Node& node) {
  const ConvInputs inputs = conv_inputs(node);
  const auto is_constant = [&](int value) { return value == kAbsent || graph.values[value].constant.has_value(); };
  return is_real_activation(graph.values[inputs.data]) && is_constant(inputs.weights) && is_constant(inputs.bias) &&
         is_constant(inputs.slopes) && node.conv->problem.compute == DataType::f32;
}

// Whether a bias may have out's type, of 16 bits.
bool has_narrow_bias(const ConvProblem& problem) {
  return problem.compute == DataType::f32 && size_of(problem.out().type) == 2;
}

// Whether inference finds what a narrowed node has to give.
bool gives_narrowed(const Graph& graph, const Node& node, std::span<const ops::Input> inputs, DataType real) {
  const auto inferred = ops::find_row(node.desc.domain, node.desc.op)->infer(node.desc, inputs);
  if (!inferred.ok()) return false;
  for (std::size_t i = 0; i < node.outputs.size() && i < inferred->size(); ++i) {
    if (node.outputs[i] == kAbsent) continue;
    const Value& value = graph.values[node.outputs[i]];
    if ((*inferred)[i].type != described(value, {Layout::nchw, real}).type) return false;
  }
  return true;
}

}  // namespace

bool has_layout(const Value& value) { return !value.constant && value.desc.rank() >= 3; }

TensorDesc described(const Value& value, const Format& format) {
  if (!has_layout(value)) return value.desc;
  TensorDesc desc = value.desc.with_layout(format.layout);
  if (desc.type == DataType::f32) desc.type = format.real;
  return desc;
}

ConvProblem in_formats(ConvProblem problem, const NodeFormats& formats) {
  const bool forward = problem.pass == Pass::fprop;
  const auto hold = [&](TensorDesc& desc, const Format& format) {
    desc = desc.with_layout(format.layout);
    if (problem.compute == DataType::f32 && desc.type == DataType::f32) desc.type = format.real;
  };
  const bool narrow = problem.compute == DataType::f32 && problem.w.type == DataType::f32;
  if (narrow) problem.w.type = formats.reads.real;
  hold(problem.x, forward ? formats.reads : formats.writes);
  hold(problem.y, forward ? formats.writes : formats.reads);
  return problem;
}

Result<NarrowedInputs> narrowed_inputs(const Graph& graph, const Node& node, DataType real, Constants convert) {
  NarrowedInputs result{inputs_of(graph, node), {}};
  result.constants.resize(result.inputs.size());
  if (real == DataType::f32) return result;
  bool any = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent || !is_real_activation(graph.values[node.inputs[i]])) continue;
    result.inputs[i].desc.type = real;
    any = true;
  }
  const Error cannot{ErrorCode::unsupported, fmt::format("{} does not work in {}", describe(node), name_of(real))};
  if (!any) return cannot;
  const std::vector<ops::Input> with_constants = result.inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const HostTensor* const constant = graph.constant_of(node.inputs[i]);
    if (constant == nullptr || constant->desc.type != DataType::f32) continue;
    TensorDesc desc = constant->desc;
    desc.type = real;
    result.inputs[i].desc = desc;
    if (convert == Constants::small && desc.elements() > ops::kMostValues) continue;
    CONVOY_TRY(result.constants[i], converted(*constant, desc));
    result.inputs[i].constant = result.constants[i]->data.get();
  }
  if (gives_narrowed(graph, node, result.inputs, real)) return result;
  result = {with_constants, {}};
  result.constants.resize(result.inputs.size());
  return gives_narrowed(graph, node, result.inputs, real) ? std::move(result) : Result<NarrowedInputs>(cannot);
}

bool relabels(const Node& node, const TensorDesc& input, const TensorDesc& output) {
  if (node.desc.op != "Transpose" || !node.desc.domain.empty() || input.channel_block != 1 ||
      output.channel_block != 1) {
    return false;
  }
  const auto given = node.desc.integers("perm", {});
  if (!given.ok()) return false;
  const std::size_t rank = input.dims.size();
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t from = given->empty() ? rank - 1 - i : static_cast<std::size_t>((*given)[i]);
    if (output.dims[i] > 1 && output.strides[i] != input.strides[from]) return false;
  }
  return true;
}

bool same_placement(const TensorDesc& a, const TensorDesc& b) {
  const bool same =
      (a.dims == b.dims && a.strides == b.strides) || (a.is_packed(Layout::nchw) && b.is_packed(Layout::nchw));
  return same && size_of(a.type) == size_of(b.type) && a.bytes() == b.bytes();
}

namespace {

// A node's convolution as it is asked for, and with a constant bias of 16 bits where it may have that, too.
struct BiasQueries {
  ConvQuery given;
  std::optional<ConvQuery> narrow;
};

BiasQueries bias_queries(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser,
                         int place) {
  ConvProblem problem = in_formats(node.conv->problem, formats);
  if (problem.compute == DataType::f32) problem.math = formats.strict ? MathMode::strict : chooser.options().math;
  if (place == 0) return {chooser.query(graph, node, std::move(problem), formats.threads, place), {}};
  const ConvInputs inputs = conv_inputs(node);
  const HostTensor* const weights = graph.constant_of(inputs.weights);
  const bool channels_last = formats.reads.layout == Layout::nhwc || formats.writes.layout == Layout::nhwc;
  if (channels_last && weights != nullptr && weights->desc.dims == problem.w.dims) {
    problem.w = problem.w.with_layout(Layout::nhwc);
  }
  const bool halves = problem.epilogue.bias && has_narrow_bias(problem);
  if (halves && graph.constant_of(inputs.bias) == nullptr) {
    problem.epilogue.narrow_bias = graph.values[inputs.bias].desc.type == problem.out().type;
  }
  BiasQueries queries{chooser.query(graph, node, std::move(problem), formats.threads, place), {}};
  if (!halves || graph.constant_of(inputs.bias) == nullptr) return queries;
  queries.narrow = queries.given;
  queries.narrow->problem.epilogue.narrow_bias = true;
  return queries;
}

}  // namespace

ConvQuery conv_query(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser,
                     std::optional<int> said) {
  BiasQueries queries = bias_queries(graph, node, formats, chooser, said.value_or(chooser.home()));
  if (!queries.narrow) return std::move(queries.given);
  const auto narrow_seconds = chooser.predict(*queries.narrow);
  if (!narrow_seconds) return std::move(queries.given);
  if (*narrow_seconds <= chooser.predict_at_least(queries.given)) return *std::move(queries.narrow);
  const auto wide_seconds = chooser.predict(queries.given);
  return !wide_seconds || *narrow_seconds <= *wide_seconds ? *std::move(queries.narrow) : std::move(queries.given);
}

double predict_at_least(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser) {
  const BiasQueries queries = bias_queries(graph, node, formats, chooser, chooser.home());
  const double given = chooser.predict_at_least(queries.given);
  return queries.narrow ? std::min(given, chooser.predict_at_least(*queries.narrow)) : given;
}

std::string kept_on_processor(const Graph& graph, const Node& node) {
  const ConvProblem& problem = node.conv->problem;
  const ConvInputs inputs = conv_inputs(node);
  if (inputs.bias == kAbsent || graph.constant_of(inputs.bias) != nullptr) return "";
  const DataType type = graph.values[inputs.bias].desc.type;
  const bool fits = type == problem.bias_type() || (has_narrow_bias(problem) && type == problem.out().type);
  return !fits ? "whose bias has another type" : "";
}

bool can_work(const Graph& graph, const Node& node, const NodeFormats& formats) {
  if (!is_static(graph, node)) return false;
  if (node.conv) return (!formats.reads.narrows() && !formats.writes.narrows()) || can_be_narrowed(graph, node);
  const ops::OperatorRow* row = ops::find_row(node.desc.domain, node.desc.op);
  if (row == nullptr || formats.reads.real != formats.writes.real) return false;
  const auto narrowed = narrowed_inputs(graph, node, formats.reads.real, Constants::small);
  if (!narrowed.ok()) return false;
  std::vector<ops::Input> inputs = narrowed->inputs;
  const Layout reads = formats.reads.layout, writes = formats.writes.layout;
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent || !has_layout(graph.values[node.inputs[i]])) continue;
    if (reads != Layout::nchw && inputs[i].desc.rank() > 5) return false;
    inputs[i].desc = inputs[i].desc.with_layout(reads);
    any = true;
  }
  if (!any) return formats.reads == Format() && formats.writes == Format();
  if (reads == writes) {
    std::vector<TensorDesc> outputs;
    const bool has_all = std::ranges::find(node.outputs, kAbsent) == node.outputs.end();
    for (std::size_t i = 0; has_all && i < node.outputs.size(); ++i) {
      outputs.push_back(described(graph.values[node.outputs[i]], {Layout::nchw, formats.writes.real}));
    }
    return ops::works_in(*row, node.desc, inputs, outputs, reads);
  }
  return node.inputs.size() == 1 && node.outputs.size() == 1 && node.outputs[0] != kAbsent &&
         relabels(node, inputs[0].desc, described(graph.values[node.outputs[0]], formats.writes));
}

std::optional<StepProblem> step_problem(const Graph& graph, const Node& node, const NodeFormats& formats) {
  auto narrowed = narrowed_inputs(graph, node, formats.reads.real, Constants::small);
  if (!narrowed.ok()) return std::nullopt;
  std::vector<ops::Input>& inputs = narrowed->inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent || graph.values[node.inputs[i]].constant) continue;
    inputs[i].desc = described(graph.values[node.inputs[i]], formats.reads);
  }
  std::vector<TensorDesc> outputs;
  for (const int output : node.outputs) {
    if (output != kAbsent) outputs.push_back(described(graph.values[output], formats.writes));
  }
  if (node.inputs.size() == 1 && node.outputs.size() == 1 && outputs.size() == 1 && !graph.is_output(node.outputs[0]) &&
      !graph.values[node.inputs[0]].constant && relabels(node, inputs[0].desc, outputs[0])) {
    return std::nullopt;
  }
  return StepProblem(ops::describe(node.desc, inputs, outputs));
}

std::optional<StepProblem> step_problem(const Conversion& conversion) {
  if (conversion.from.place != conversion.to.place) return std::nullopt;
  return StepProblem(ConversionProblem{conversion.from.desc, conversion.to.desc});
}

Result<Assignment> assign(const Graph& graph, const std::vector<NodeFormats>& formats, Chooser& chooser,
                          std::span<const std::optional<Candidate>> candidates) {
  const auto is_given = [&](std::size_t n) { return n < candidates.size() && candidates[n].has_value(); };
  Assignment result;
  result.nodes.resize(graph.nodes.size());
  const auto is_planned = [&](const Node& node) { return node.conv && is_static(graph, node); };
  // On one thread, too, where that may be better: nothing looks at it where nothing is measured.
  const bool on_both = chooser.request().threads > 1 && chooser.options().selection.mode == SelectionMode::measured;
  if (chooser.options().selection.mode != SelectionMode::measured) {
    chooser.ask_ahead(graph.nodes.size(), [&](std::size_t n) {
      const Node& node = graph.nodes[n];
      if (!is_planned(node) || !kept_on_processor(graph, node).empty()) return;
      static_cast<void>(chooser.choose(conv_query(graph, node, formats[n], chooser)));
    });
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    NodeAssignment& assigned = result.nodes[n];
    assigned.formats = formats[n];
    if (!is_planned(node)) continue;
    assigned.place = kept_on_processor(graph, node).empty() ? chooser.home() : 0;
    ConvQuery query = conv_query(graph, node, formats[n], chooser, assigned.place);
    chooser.announce(query);
    if (!on_both || assigned.place != 0) continue;
    query.threads = Threads::all;
    const auto on_all = chooser.estimate(query);
    query.threads = Threads::one;
    const auto on_one = chooser.estimate(query);
    if (on_all && on_one && may_be_better_on_one(on_one->seconds, on_all->seconds)) chooser.announce(query);
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_planned(node)) continue;
    NodeAssignment& assigned = result.nodes[n];
    ConvQuery query = conv_query(graph, node, formats[n], chooser, assigned.place);
    assigned.problem = query.problem;
    // Whatever is asked for first measures all that was announced.
    auto chosen = chooser.choose(query);
    if (is_given(n)) {
      CONVOY_TRY(assigned.selection, chooser.obey(query, *candidates[n]));
      continue;
    }
    const auto try_others = [&](int place) {
      for (auto other = kOthers.begin(); !chosen.ok() && other != kOthers.end(); ++other) {
        const NodeFormats tried{{other->reads.layout, formats[n].reads.real},
                                {other->writes.layout, formats[n].writes.real},
                                formats[n].threads,
                                formats[n].strict};
        query = conv_query(graph, node, tried, chooser, place);
        auto in_other = chooser.choose(query);
        if (!in_other.ok()) continue;
        assigned.formats = tried;
        assigned.place = place;
        assigned.problem = query.problem;
        chosen = std::move(in_other);
      }
    };
    try_others(assigned.place);
    if (assigned.place != 0) try_others(0);
    if (!chosen.ok()) return chosen.error().within("node '" + node.desc.name + "'");
    assigned.selection = std::move(*chosen);
    if (assigned.selection.rule.empty()) assigned.switchable = chooser.switchable(assigned.problem);
    if (assigned.switchable < 0) continue;
    assigned.formats.threads = Threads::all;  // what it takes is stored for these
    const std::vector<Candidate>& candidates = chooser.candidates(assigned.switchable);
    assigned.selection = {candidates.front(), SelectedBy::given};
    assigned.switches.assign(candidates.begin() + 1, candidates.end());
  }
  put_in_places(graph, result, chooser);
  // Limits on memory go by values that have memory of their own; what lies elsewhere has it, too.
  if (!chooser.options().memory.asked() && chooser.home() == 0) put_in_place(graph, result);
  return result;
}

Format format_read(const Node& node, const NodeFormats& formats, std::size_t i) {
  if (!node.conv || static_cast<int>(i) == kConvData) return formats.reads;
  if (static_cast<int>(i) == node.fusion.gate) return {Layout::nchw, formats.reads.real};
  return static_cast<int>(i) == node.fusion.residual ? formats.writes : Format();
}

std::vector<std::vector<Conversion>> conversions(const Graph& graph, const Assignment& assignment,
                                                 std::span<const int> exports) {
  std::vector<std::vector<Conversion>> result(graph.nodes.size() + 1);
  std::vector<std::vector<Located>> there(graph.values.size());  // how and where a value exists
  for (const int input : graph.inputs) there[input] = {{graph.values[input].desc, 0}};
  std::vector<std::optional<Threads>> writers(graph.values.size());
  const auto serves = [](const Located& at, const Located& wanted) {
    return at.place == wanted.place && same_bytes(at.desc, wanted.desc);
  };
  const auto need = [&](std::size_t n, int value, const Format& format, int place, Threads reader) {
    if (value == kAbsent || there[value].empty()) return;
    const Located wanted{described(graph.values[value], format), place};
    const auto exists = [&](const Located& located) {
      return std::ranges::any_of(there[value], [&](const Located& each) { return serves(each, located); });
    };
    Located at = there[value].front();
    const auto go = [&](const Located& to) {
      if (!exists(to)) {
        result[n].push_back({value, at, to, writers[value].value_or(reader)});
        there[value].push_back(to);
      }
      at = to;
    };
    if (exists(wanted)) return;
    const bool converted = !same_bytes(at.desc, wanted.desc);
    // Where it is or goes, if layouts are changed there, else on the processor, over which copies between others go.
    const bool unblocked = at.desc.channel_block == 1 && wanted.desc.channel_block == 1;
    const int converts =
        unblocked && (at.place == assignment.converts || wanted.place == assignment.converts) ? assignment.converts : 0;
    if (converted) {
      if (at.place != 0 && at.place != converts) go({at.desc, 0});
      if (at.place != converts) go({at.desc, converts});
      go({wanted.desc, converts});
    }
    if (at.place != 0 && wanted.place != 0 && at.place != wanted.place) go({at.desc, 0});
    go(wanted);
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node)) continue;
    const NodeFormats& formats = assignment.nodes[n].formats;
    const int place = assignment.nodes[n].place;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      need(n, node.inputs[i], format_read(node, formats, i), place, formats.threads);
    }
    for (const int output : node.outputs) {
      if (output == kAbsent) continue;
      there[output] = {{described(graph.values[output], formats.writes), place}};
      writers[output] = formats.threads;
    }
  }
  for (const int output : graph.outputs) need(graph.nodes.size(), output, Layout::nchw, 0, Threads::all);
  for (const int value : exports) need(graph.nodes.size(), value, Layout::nchw, 0, Threads::all);
  return result;
}

std::vector<StepProblem> step_problems(const Graph& graph, const Assignment& assignment, Threads threads) {
  std::vector<StepProblem> problems;
  std::set<std::string> seen;
  const auto add = [&](StepProblem problem) {
    if (seen.insert(print(problem)).second) problems.push_back(std::move(problem));
  };
  const auto converted = conversions(graph, assignment);
  for (std::size_t n = 0; n < converted.size(); ++n) {
    for (const Conversion& conversion : converted[n]) {
      if (conversion.threads != threads) continue;
      if (const auto problem = step_problem(conversion)) add(*problem);
    }
    if (n == graph.nodes.size() || graph.nodes[n].conv || !is_static(graph, graph.nodes[n])) continue;
    if (assignment.nodes[n].in_place) continue;
    const NodeFormats& formats = assignment.nodes[n].formats;
    if (formats.threads != threads) continue;
    if (auto problem = step_problem(graph, graph.nodes[n], formats)) add(*std::move(problem));
  }
  return problems;
}

}  // namespace convoy::network
