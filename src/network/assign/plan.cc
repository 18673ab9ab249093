#include "network/assign/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "core/hash.h"
#include "core/text.h"
#include "network/assign/in_place.h"
#include "network/assign/layout_rules.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "select/choose/former_knobs.h"
#include "select/choose/names.h"

namespace convoy::network {
namespace {

using Places = std::vector<Place>;

// "f32,nhwc", elsewhere than on the processor "f32,nhwc@cuda:0".
std::string side_text(const Located& located, Layout layout, const Places& places) {
  const auto& [desc, place] = located;
  return fmt::format("{},{}{}", name_of(desc.type), name_of(layout, desc.spatial_dims()),
                     place == 0 ? "" : "@" + places[static_cast<std::size_t>(place)].device->name());
}
std::string side_text(const Located& located, const Places& places) {
  return side_text(located, located.desc.layout(), places);
}

int first_activation(const Graph& graph, const std::vector<int>& values) {
  const auto found =
      std::ranges::find_if(values, [&](int value) { return value != kAbsent && !graph.values[value].constant; });
  return found == values.end() ? kAbsent : *found;
}

// The first activation among values, as it lies; "-": there is none.
std::string side_text(const Graph& graph, const std::vector<int>& values, const Format& format, int place,
                      const Places& places) {
  const int value = first_activation(graph, values);
  if (value == kAbsent) return "-";
  const Value& v = graph.values[value];
  return side_text({described(v, format), place}, has_layout(v) ? format.layout : Layout::nchw, places);
}

NetworkPlanLine line_of(const Graph& graph, std::size_t n, const NodeAssignment& assigned, const Places& places) {
  const Node& node = graph.nodes[n];
  NetworkPlanLine line{.kind = "op",
                       .name = joined(node.sources),
                       .runs_on = node.desc.op,
                       .from = side_text(graph, node.inputs, assigned.formats.reads, assigned.place, places),
                       .to = side_text(graph, node.outputs, assigned.formats.writes, assigned.place, places),
                       .one_thread = assigned.formats.threads == Threads::one,
                       .strict = assigned.formats.strict};
  if (node.conv) {
    line.kind = "conv";
    line.runs_on = print(assigned.selection.candidate);
  } else if (assigned.in_place) {
    line.kind = "inplace";
  } else if (!step_problem(graph, node, assigned.formats)) {
    line.kind = "relabel";
  }
  return line;
}

NetworkPlanLine line_of(const Graph& graph, const Conversion& conversion, const Places& places) {
  return {.kind = "convert",
          .name = graph.values[conversion.value].name,
          .runs_on = "-",
          .from = side_text(conversion.from, places),
          .to = side_text(conversion.to, places)};
}

// What a plan has lines for, in their order.
void in_order(const Graph& graph, const Assignment& assignment,
              const std::function<void(const Conversion&)>& of_conversion,
              const std::function<void(std::size_t)>& of_node) {
  const auto converted = conversions(graph, assignment);
  for (std::size_t n = 0; n < converted.size(); ++n) {
    std::ranges::for_each(converted[n], of_conversion);
    if (n < graph.nodes.size() && is_static(graph, graph.nodes[n])) of_node(n);
  }
}

std::vector<NetworkPlanLine> lines_of(const Graph& graph, const Assignment& assignment, const Places& places) {
  std::vector<NetworkPlanLine> lines;
  in_order(
      graph, assignment, [&](const Conversion& conversion) { lines.push_back(line_of(graph, conversion, places)); },
      [&](std::size_t n) { lines.push_back(line_of(graph, n, assignment.nodes[n], places)); });
  return lines;
}

struct LocatedFormat {
  Format format;
  int place = 0;
};

// Of "f32,nhwc" or "f32,nhwc@cuda:0", for such a value; "-" is row-major on the processor.
Result<LocatedFormat> side_in(const std::string& text, const Value* value, const Places& places) {
  LocatedFormat side;
  if (text == "-") return side;
  const std::size_t at = text.find('@');
  const auto parts = split(std::string_view(text).substr(0, at), ',');
  if (parts.size() != 2)
    return Error{ErrorCode::invalid_argument, fmt::format("{} is not TYPE,LAYOUT", convoy::quoted(text))};
  CONVOY_TRY(const DataType type, parse_data_type(parts[0]));
  CONVOY_TRY(side.format.layout, parse_layout(parts[1]));
  const bool narrows = type == DataType::bf16 || type == DataType::f16;
  if (narrows && value != nullptr && has_layout(*value) && value->desc.type == DataType::f32) side.format.real = type;
  if (at == std::string::npos) return side;
  const std::string name = text.substr(at + 1);
  const auto found = std::ranges::find_if(places, [&](const Place& place) { return place.device->name() == name; });
  if (found == places.begin() || found == places.end()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{}: this session has no device {}", text, convoy::quoted(name))};
  }
  side.place = static_cast<int>(found - places.begin());
  return side;
}

class Reading {
 public:
  Reading(const Graph& graph, const NetworkPlan& plan, const NetworkPlanHeader& own, const NetworkOptions& options,
          Chooser& chooser, std::vector<std::string>& remarks)
      : graph_(graph), plan_(plan), own_(own), options_(options), chooser_(chooser), remarks_(remarks) {}

  Result<Assignment> run() {
    CONVOY_CHECK(check_header());
    put_conversions(result_, chooser_);
    bring_home();
    std::vector<std::size_t> open;  // lenient: nodes that the plan doesn't decide
    result_.nodes.resize(graph_.nodes.size());
    for (NetworkPlanLine& line : plan_.lines) {
      if (own_.threads == 1) line.one_thread = false;
      if (line.kind != "convert") by_name_[line.name].push_back(&line);
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_static(graph_, graph_.nodes[n])) continue;
      if (auto obeyed = node(n); !obeyed.ok()) {
        if (!options_.lenient_plan) return obeyed.error();
        remarks_.push_back(obeyed.error().message + ": chosen again");
        open.push_back(n);
      }
    }
    if (!open.empty()) CONVOY_CHECK(choose_again(open));
    CONVOY_CHECK(check_in_place());
    if (!options_.lenient_plan) CONVOY_CHECK(check_lines());
    return std::move(result_);
  }

 private:
  // A plan for one GPU is one for another of the same name.
  void bring_home() {
    if (chooser_.home() == 0) return;
    const std::string home = chooser_.places()[static_cast<std::size_t>(chooser_.home())].device->name();
    for (NetworkPlanLine& line : plan_.lines) {
      for (std::string* const side : {&line.from, &line.to}) {
        const std::size_t at = side->find("@cuda:");
        if (at != std::string::npos) *side = side->substr(0, at + 1) + home;
      }
    }
  }

  Result<void> check_header() {
    const NetworkPlanHeader &own = own_, &given = plan_.header;
    std::string wrong;
    if (own.threads != given.threads) {
      wrong = fmt::format("the plan is for threads {}, there are {}", given.threads, own.threads);
    } else if (own.isa != given.isa) {
      wrong = fmt::format("the plan is for isa {}, it is {} here", name_of(given.isa), name_of(own.isa));
    } else if (own.math != given.math) {
      wrong = fmt::format("the plan is for math {}, {} is allowed", name_of(given.math), name_of(own.math));
    } else if (own.input_names != given.input_names || own.inputs != given.inputs) {
      wrong = fmt::format("the plan is for {}, the network has {}", inputs_text(given), inputs_text(own));
    } else if (own.graph != given.graph) {
      wrong =
          fmt::format("the plan is for graph {:016x}, this is {:016x}: other nodes or sizes", given.graph, own.graph);
    } else if (own.device != given.device) {
      const auto text = [](const NetworkPlanHeader& header) {
        return header.device.empty() ? std::string("the processor") : convoy::quoted(header.device);
      };
      wrong = fmt::format("the plan is for device {}, the network's home is {}", text(given), text(own));
    } else if (own.parts != given.parts) {
      wrong = fmt::format("the plan is for parts {}, asked for are {}", print(given.parts), print(own.parts));
    }
    if (wrong.empty()) return {};
    if (!options_.lenient_plan) return Error{ErrorCode::invalid_argument, wrong};
    remarks_.push_back(wrong);
    return {};
  }

  static std::string inputs_text(const NetworkPlanHeader& header) {
    std::string text;
    for (std::size_t i = 0; i < header.inputs.size(); ++i) {
      text +=
          fmt::format("{}input {} {}", i > 0 ? ", " : "", in_quotes(header.input_names[i]), print(header.inputs[i]));
    }
    return text;
  }

  // The next line of this name that no other node has taken.
  Result<NetworkPlanLine*> line_for(const std::string& name) {
    auto& lines = by_name_[name];
    if (lines.empty()) {
      return Error{ErrorCode::invalid_argument, fmt::format("node {}: the plan has no line for it", in_quotes(name))};
    }
    NetworkPlanLine* const line = lines.front();
    lines.erase(lines.begin());
    return line;
  }

  Result<void> node(std::size_t n) {
    const Node& node = graph_.nodes[n];
    CONVOY_TRY(NetworkPlanLine* const line, line_for(joined(node.sources)));
    if (auto obeyed = obey(n, *line); !obeyed.ok()) {
      result_.nodes[n] = {};
      return at_line(line->number, obeyed.error().within(in_quotes(line->name)));
    }
    return {};
  }

  // Writes the line's candidate as it is written today.
  Result<void> obey(std::size_t n, NetworkPlanLine& line) {
    const Node& node = graph_.nodes[n];
    NodeAssignment& assigned = result_.nodes[n];
    const bool is_conv = line.kind == "conv";
    if (is_conv != node.conv.has_value()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} where the network has {}", line.kind, node.conv ? "a convolution" : node.desc.op)};
    }
    const auto side = [&](const std::string& text, const std::vector<int>& values) {
      const int value = first_activation(graph_, values);
      return side_in(text, value == kAbsent ? nullptr : &graph_.values[value], chooser_.places());
    };
    CONVOY_TRY(const LocatedFormat reads_from, side(line.from, node.inputs));
    CONVOY_TRY(const LocatedFormat writes_to, side(line.to, node.outputs));
    assigned.formats = {reads_from.format, writes_to.format, line.one_thread ? Threads::one : Threads::all,
                        line.strict};
    assigned.place = writes_to.place;
    assigned.in_place = line.kind == "inplace";
    // Where nothing is read, or written, the line doesn't say where.
    if (line.to == "-") assigned.place = reads_from.place;
    const bool reads_there = line.from == "-" || reads_from.place == assigned.place;
    const bool there = assigned.place == 0 || is_conv || assigned.place == chooser_.home();
    if (!reads_there || !there) {
      return Error{
          ErrorCode::unsupported,
          is_conv ? fmt::format("it can't read {} and write {}: a convolution runs in one place", line.from, line.to)
                  : fmt::format("{} runs on {} only", node.desc.op, processor().name())};
    }
    if (!is_conv && assigned.place != 0) CONVOY_CHECK(check_at_home(graph_, node, assigned.formats, chooser_));
    if (is_conv) {
      CONVOY_TRY(Candidate candidate, parse_candidate(line.runs_on));
      if (!can_work(graph_, node, assigned.formats)) {
        return Error{ErrorCode::unsupported, fmt::format("it can't read {} and write {}: what it reads besides is not "
                                                         "constant, or not of f32",
                                                         line.from, line.to)};
      }
      const ConvQuery query = conv_query(graph_, node, assigned.formats, chooser_, assigned.place);
      assigned.problem = query.problem;
      const std::string where = line.number > 0 ? fmt::format("line {}", line.number) : in_quotes(line.name);
      candidate = selection::named_today(std::move(candidate), &assigned.problem, where, remarks_);
      CONVOY_TRY(assigned.selection, chooser_.obey(query, candidate));
    } else if (line.runs_on != node.desc.op) {
      return Error{ErrorCode::invalid_argument, fmt::format("{} where the network has {}", line.runs_on, node.desc.op)};
    } else if (!can_work(graph_, node, assigned.formats)) {
      return Error{ErrorCode::unsupported,
                   fmt::format("{} can't read {} and write {}", node.desc.op, line.from, line.to)};
    }
    const NetworkPlanLine own = line_of(graph_, n, assigned, chooser_.places());
    line.runs_on = own.runs_on;
    if (same_choices(own, line)) return {};
    if (own.kind != line.kind)
      return Error{ErrorCode::invalid_argument, fmt::format("{} where it is {}", line.kind, own.kind)};
    const bool reads = own.from != line.from;
    return Error{ErrorCode::invalid_argument, fmt::format("it {} {}, not {}", reads ? "reads" : "writes",
                                                          reads ? own.from : own.to, reads ? line.from : line.to)};
  }

  // Lenient: as the rule has it.
  Result<void> choose_again(const std::vector<std::size_t>& open) {
    CONVOY_TRY(const Forms forms, forms_by(options_.how, graph_, chooser_, remarks_));
    CONVOY_TRY(const Assignment whole, assign(graph_, forms.formats, chooser_));
    for (const std::size_t n : open) result_.nodes[n] = whole.nodes[n];
    return {};
  }

  // Lenient: what can't be is copied.
  Result<void> check_in_place() {
    const InPlace possible(graph_, result_);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      NodeAssignment& assigned = result_.nodes[n];
      if (!assigned.in_place || possible.has(n)) continue;
      if (!options_.lenient_plan) {
        return Error{ErrorCode::unsupported,
                     fmt::format("inplace {}: it is no Concat or Split whose parts can lie where the whole has them",
                                 in_quotes(joined(graph_.nodes[n].sources)))};
      }
      assigned.in_place = false;
    }
    return {};
  }

  // Strict: the file has these lines in this order, and no others.
  Result<void> check_lines() const {
    const std::vector<NetworkPlanLine> own = lines_of(graph_, result_, chooser_.places());
    for (std::size_t i = 0; i < plan_.lines.size(); ++i) {
      const NetworkPlanLine& line = plan_.lines[i];
      if (i < own.size() && same_choices(own[i], line)) continue;
      const std::string what = line.kind + " " + in_quotes(line.name);
      const std::string wrong = i >= own.size()
                                    ? what + " is too much"
                                    : fmt::format("{} {} -> {} where {} {} {} -> {} follows", what, line.from, line.to,
                                                  own[i].kind, in_quotes(own[i].name), own[i].from, own[i].to);
      return at_line(line.number, {ErrorCode::invalid_argument, wrong});
    }
    if (own.size() == plan_.lines.size()) return {};
    const NetworkPlanLine& missing = own[plan_.lines.size()];
    return Error{ErrorCode::invalid_argument, fmt::format("the end: {} {} {} -> {} is missing", missing.kind,
                                                          in_quotes(missing.name), missing.from, missing.to)};
  }

  const Graph& graph_;
  NetworkPlan plan_;
  const NetworkPlanHeader& own_;
  const NetworkOptions& options_;
  Chooser& chooser_;
  std::vector<std::string>& remarks_;
  std::map<std::string, std::vector<NetworkPlanLine*>> by_name_;
  Assignment result_;
};

}  // namespace

std::vector<int> unfused_by(const NetworkPlan& plan, const Graph& graph) {
  std::set<std::string, std::less<>> names;
  for (const NetworkPlanLine& line : plan.lines) {
    if (line.kind != "convert") names.insert(line.name);
  }
  std::vector<int> result;
  for (const Node& node : graph.nodes) {
    int undone = 0;
    const Node* left = &node;
    for (; left->fused && !names.contains(joined(left->sources)); ++undone) left = &left->fused->conv;
    result.push_back(names.contains(joined(left->sources)) ? undone : 0);
  }
  return result;
}

NetworkPlanHeader header_of(const Graph& graph, const NetworkOptions& options) {
  NetworkPlanHeader header{.network = graph.name,
                           .input_names = {},
                           .inputs = {},
                           .threads = options.threads,
                           .isa = options.cpu.isa,
                           .math = options.math,
                           .precision = options.precision,
                           .device = options.cuda ? options.cuda->name : std::string()};
  for (const int input : graph.inputs) {
    header.input_names.push_back(graph.values[input].name);
    header.inputs.push_back(graph.values[input].desc);
  }
  Hash hash;
  const auto add = [&](const Node& node) {
    hash.add(std::string_view(node.desc.op), std::string_view(node.desc.domain));
    if (node.conv) hash.add(std::string_view(print(node.conv->problem)));
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const int value : *values) {
        hash.add(value == kAbsent ? -1 : value);
        if (value != kAbsent && graph.values[value].known) hash.add(std::string_view(print(graph.values[value].desc)));
      }
    }
  };
  for (const Node& node : graph.nodes) {  // the same whatever is fused
    for (const Node* part : parts_of(node)) add(*part);
  }
  header.graph = hash.value();
  return header;
}

NetworkPlan plan_of(const Graph& graph, const Assignment& assignment, const NetworkPlanHeader& header,
                    Chooser& chooser) {
  NetworkPlan plan{.header = header, .lines = lines_of(graph, assignment, chooser.places()), .remarks = {}};
  auto line = plan.lines.begin();
  const auto costs = [&](const std::optional<Cost>& cost) {
    if (cost) line->cost = {cost->seconds, cost->measured};
    ++line;
  };
  const auto of_step = [&](const std::optional<StepProblem>& problem, Threads threads, int place) {
    return problem ? std::optional(chooser.costs().of(*problem, threads, place)) : std::nullopt;
  };
  in_order(
      graph, assignment,
      [&](const Conversion& conversion) {
        costs(of_step(step_problem(conversion), conversion.threads, conversion.to.place));
      },
      [&](std::size_t n) {
        const Node& node = graph.nodes[n];
        const NodeAssignment& assigned = assignment.nodes[n];
        const NodeFormats& formats = assigned.formats;
        if (node.conv) {
          const ConvQuery query = conv_query(graph, node, formats, chooser, assigned.place);
          costs(chooser.costs().of(query, assigned.selection.candidate));
        } else {
          const auto problem = assigned.in_place ? std::nullopt : step_problem(graph, node, formats);
          costs(of_step(problem, formats.threads, assigned.place).value_or(Cost()));
        }
      });
  return plan;
}

Result<Assignment> assign(const Graph& graph, const NetworkPlan& plan, const NetworkPlanHeader& own,
                          const NetworkOptions& options, Chooser& chooser, std::vector<std::string>& remarks) {
  return Reading(graph, plan, own, options, chooser, remarks).run();
}

}  // namespace convoy::network
