#include "network/assign/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "core/hash.h"
#include "core/math_mode.h"
#include "core/text.h"
#include "network/assign/in_place.h"
#include "network/assign/sides.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "select/choose/former_knobs.h"
#include "select/choose/names.h"

namespace convoy::network {
namespace {

constexpr std::string_view kVersion = "1";
constexpr std::array<std::string_view, 5> kKinds{"conv", "op", "relabel", "inplace", "convert"};
constexpr std::string_view kThreads = "threads=";  // of a line where they are not the header's
constexpr std::array<std::string_view, 3> kSources{"predicted", "measured", "-"};

Error at_line(int number, const std::string& text) {
  return {ErrorCode::invalid_argument, fmt::format("line {}: {}", number, text)};
}

// ---- names ----

std::string in_quotes(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

// Takes the quoted name that `rest` begins with.
Result<std::string> take_quoted(std::string_view& rest) {
  const Error open{ErrorCode::invalid_argument, "a name in double quotes is expected"};
  if (!rest.starts_with('"')) return open;
  std::string name;
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest = trim(rest.substr(i + 1));
      return name;
    }
    const bool escaped = rest[i] == '\\';
    if (escaped && ++i == rest.size()) break;
    if (escaped && rest[i] == 'x' && i + 2 < rest.size()) {
      int code = 0;
      const char* const first = rest.data() + i + 1;
      if (std::from_chars(first, first + 2, code, 16).ptr != first + 2) return open;
      name += static_cast<char>(code);
      i += 2;
    } else {
      name += rest[i];
    }
  }
  return Error{ErrorCode::invalid_argument, "the name's closing quote is missing"};
}

std::string_view take_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest = trim(rest.substr(end));
  return word;
}

// A comment begins outside of quotes.
std::string_view without_comment(std::string_view line) {
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (inside && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      inside = !inside;
    } else if (line[i] == '#' && !inside) {
      return line.substr(0, i);
    }
  }
  return line;
}

// ---- the header ----

Result<void> read_field(NetworkPlanHeader& header, std::string_view field, std::string_view rest) {
  if (field == "network") {
    CONVOY_TRY(header.network, take_quoted(rest));
  } else if (field == "input") {
    CONVOY_TRY(std::string name, take_quoted(rest));
    CONVOY_TRY(TensorDesc desc, parse_tensor(take_word(rest)));
    header.input_names.push_back(std::move(name));
    header.inputs.push_back(std::move(desc));
  } else if (field == "threads") {
    CONVOY_TRY(const std::int64_t threads, parse_integer(take_word(rest)));
    if (threads < 1 || threads > 1 << 16) {
      return Error{ErrorCode::invalid_argument, fmt::format("threads {} is out of range", threads)};
    }
    header.threads = static_cast<int>(threads);
  } else if (field == "isa") {
    CONVOY_TRY(header.isa, parse_isa(take_word(rest)));
  } else if (field == "math") {
    const auto math = parse_math_mode(take_word(rest));
    if (!math.ok()) return Error{ErrorCode::invalid_argument, "math " + math.error().message};
    header.math = *math;
  } else if (field == "precision") {
    CONVOY_TRY(header.precision, parse_data_type(take_word(rest)));
    if (header.precision != DataType::bf16 && header.precision != DataType::f16) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("precision {}: it is bf16 or f16", name_of(header.precision))};
    }
  } else if (field == "graph") {
    const std::string_view word = take_word(rest);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), header.graph, 16);
    if (error != std::errc() || end != word.data() + word.size()) {
      return Error{ErrorCode::invalid_argument, fmt::format("graph {} is no hexadecimal number", quoted(word))};
    }
  } else if (field == "parts") {
    CONVOY_TRY(header.parts, parse_batch_parts(take_word(rest)));
  } else {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("{} is unknown: network, input, threads, isa, math, precision, graph, parts, or a node's conv, op, "
                    "relabel, inplace or convert",
                    quoted(field))};
  }
  if (!rest.empty()) return Error{ErrorCode::invalid_argument, fmt::format("{} is too much", quoted(rest))};
  return {};
}

// ---- nodes ----

Result<std::optional<Selector::Cost>> read_cost(std::string_view cost, std::string_view source) {
  if (std::ranges::find(kSources, source) == kSources.end()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a cost's source {}: it is predicted, measured or -", quoted(source))};
  }
  if (cost == "-") return std::optional<Selector::Cost>();
  const auto microseconds = cost.ends_with("us") ? parse_double(cost.substr(0, cost.size() - 2)) : parse_double("");
  if (!microseconds.ok()) {
    return Error{ErrorCode::invalid_argument, fmt::format("cost {} is no number of us", quoted(cost))};
  }
  return std::optional(Selector::Cost{*microseconds * 1e-6, source == "measured"});
}

// "threads=1", where the header says `all`.
Result<Threads> read_threads(std::string_view kind, std::string_view word, int all) {
  if (kind == "convert") {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: a {} has none of its own", word, kind)};
  }
  const auto threads = parse_integer(word.substr(kThreads.size()));
  if (!threads.ok() || (*threads != 1 && *threads != all)) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: it is 1, or all {}", word, all)};
  }
  return *threads < all ? Threads::one : Threads::all;
}

Result<PlanLine> read_node(int number, std::string_view kind, std::string_view rest, int threads) {
  PlanLine line{.number = number, .kind = std::string(kind), .name = {}, .runs_on = {}, .from = {}, .to = {}};
  CONVOY_TRY(line.name, take_quoted(rest));
  line.runs_on = take_word(rest);
  line.from = take_word(rest);
  const std::string_view arrow = take_word(rest);
  line.to = take_word(rest);
  if (rest.starts_with(kThreads)) {
    CONVOY_TRY(line.threads, read_threads(kind, take_word(rest), threads));
  }
  const std::string_view cost = take_word(rest), source = take_word(rest);
  if (source.empty()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a column is missing: {} \"NAME\" RUNS-ON TYPE,LAYOUT -> TYPE,LAYOUT COST SOURCE", kind)};
  }
  if (arrow != "->") {
    return Error{ErrorCode::invalid_argument, fmt::format("{} where -> is expected", quoted(arrow))};
  }
  CONVOY_TRY(line.cost, read_cost(cost, source));
  if (!rest.empty()) return Error{ErrorCode::invalid_argument, fmt::format("{} is too much", quoted(rest))};
  return line;
}

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

PlanLine line_of(const Graph& graph, std::size_t n, const NodeAssignment& assigned, const Places& places) {
  const Node& node = graph.nodes[n];
  PlanLine line{.kind = "op",
                .name = joined(node.sources),
                .runs_on = node.desc.op,
                .from = side_text(graph, node.inputs, assigned.sides.reads, assigned.place, places),
                .to = side_text(graph, node.outputs, assigned.sides.writes, assigned.place, places),
                .threads = assigned.sides.threads};
  if (node.conv) {
    line.kind = "conv";
    line.runs_on = print(assigned.selection.candidate);
  } else if (assigned.in_place) {
    line.kind = "inplace";
  } else if (!step_problem(graph, node, assigned.sides)) {
    line.kind = "relabel";
  }
  return line;
}

PlanLine line_of(const Graph& graph, const Conversion& conversion, const Places& places) {
  return {.kind = "convert",
          .name = graph.values[conversion.value].name,
          .runs_on = "-",
          .from = side_text(conversion.from, places),
          .to = side_text(conversion.to, places)};
}

struct Side {
  Format format;
  int place = 0;
};

// Of "f32,nhwc" or "f32,nhwc@cuda:0", for such a value; "-" is row-major on the processor.
Result<Side> side_in(const std::string& text, const Value* value, const Places& places) {
  Side side;
  if (text == "-") return side;
  const std::size_t at = text.find('@');
  const auto parts = split(std::string_view(text).substr(0, at), ',');
  if (parts.size() != 2) return Error{ErrorCode::invalid_argument, fmt::format("{} is not TYPE,LAYOUT", quoted(text))};
  CONVOY_TRY(const DataType type, parse_data_type(parts[0]));
  CONVOY_TRY(side.format.layout, parse_layout(parts[1]));
  const bool narrows = type == DataType::bf16 || type == DataType::f16;
  if (narrows && value != nullptr && has_layout(*value) && value->desc.type == DataType::f32) side.format.real = type;
  if (at == std::string::npos) return side;
  const std::string name = text.substr(at + 1);
  const auto found = std::ranges::find_if(places, [&](const Place& place) { return place.device->name() == name; });
  if (found == places.begin() || found == places.end()) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: this session has no device {}", text, quoted(name))};
  }
  side.place = static_cast<int>(found - places.begin());
  return side;
}

class Reading {
 public:
  Reading(const Graph& graph, const PlanFile& plan, const NetworkPlanHeader& own, const NetworkOptions& options,
          Selector& selector, std::vector<std::string>& remarks)
      : graph_(graph), plan_(plan), own_(own), options_(options), selector_(selector), remarks_(remarks) {}

  Result<Assignment> run() {
    CONVOY_CHECK(check_header());
    std::vector<std::size_t> open;  // lenient: nodes that the plan doesn't decide
    result_.nodes.resize(graph_.nodes.size());
    for (const PlanLine& line : plan_.lines) {
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
  Result<const PlanLine*> line_for(const std::string& name) {
    auto& lines = by_name_[name];
    if (lines.empty()) {
      return Error{ErrorCode::invalid_argument, fmt::format("node {}: the plan has no line for it", in_quotes(name))};
    }
    const PlanLine* const line = lines.front();
    lines.erase(lines.begin());
    return line;
  }

  Result<void> node(std::size_t n) {
    const Node& node = graph_.nodes[n];
    CONVOY_TRY(const PlanLine* const line, line_for(joined(node.sources)));
    if (auto obeyed = obey(n, *line); !obeyed.ok()) {
      result_.nodes[n] = {};
      return obeyed.error().within(fmt::format("line {}: {}", line->number, in_quotes(line->name)));
    }
    return {};
  }

  Result<void> obey(std::size_t n, const PlanLine& line) {
    const Node& node = graph_.nodes[n];
    NodeAssignment& assigned = result_.nodes[n];
    const bool is_conv = line.kind == "conv";
    if (is_conv != node.conv.has_value()) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} where the network has {}", line.kind, node.conv ? "a convolution" : node.desc.op)};
    }
    const auto side = [&](const std::string& text, const std::vector<int>& values) {
      const int value = first_activation(graph_, values);
      return side_in(text, value == kAbsent ? nullptr : &graph_.values[value], selector_.places());
    };
    CONVOY_TRY(const Side reads_from, side(line.from, node.inputs));
    CONVOY_TRY(const Side writes_to, side(line.to, node.outputs));
    assigned.sides = {reads_from.format, writes_to.format, line.threads};
    assigned.place = writes_to.place;
    assigned.in_place = line.kind == "inplace";
    if (reads_from.place != writes_to.place || (!is_conv && assigned.place != 0)) {
      return Error{
          ErrorCode::unsupported,
          is_conv ? fmt::format("it can't read {} and write {}: a convolution runs in one place", line.from, line.to)
                  : fmt::format("{} runs on {} only", node.desc.op, processor().name())};
    }
    if (is_conv) {
      CONVOY_TRY(Candidate candidate, parse_candidate(line.runs_on));
      if (!can_work(graph_, node, assigned.sides)) {
        return Error{ErrorCode::unsupported, fmt::format("it can't read {} and write {}: what it reads besides is not "
                                                         "constant, or not of f32",
                                                         line.from, line.to)};
      }
      assigned.problem = in_formats(selector_.allowed(node.conv->problem), assigned.sides);
      candidate = selection::named_today(std::move(candidate), &assigned.problem, fmt::format("line {}", line.number),
                                         remarks_);
      CONVOY_TRY(assigned.selection,
                 selector_.obey(assigned.problem, candidate, selector_.weights_of(graph_, node, assigned.problem),
                                assigned.place));
    } else if (line.runs_on != node.desc.op) {
      return Error{ErrorCode::invalid_argument, fmt::format("{} where the network has {}", line.runs_on, node.desc.op)};
    } else if (!can_work(graph_, node, assigned.sides)) {
      return Error{ErrorCode::unsupported,
                   fmt::format("{} can't read {} and write {}", node.desc.op, line.from, line.to)};
    }
    const PlanLine own = line_of(graph_, n, assigned, selector_.places());
    if (own == line) return {};
    if (own.kind != line.kind)
      return Error{ErrorCode::invalid_argument, fmt::format("{} where it is {}", line.kind, own.kind)};
    const bool reads = own.from != line.from;
    return Error{ErrorCode::invalid_argument, fmt::format("it {} {}, not {}", reads ? "reads" : "writes",
                                                          reads ? own.from : own.to, reads ? line.from : line.to)};
  }

  // Lenient: as the rule has it.
  Result<void> choose_again(const std::vector<std::size_t>& open) {
    CONVOY_TRY(const Forms forms, forms_by(options_.how, graph_, selector_, remarks_));
    CONVOY_TRY(const Assignment whole, assign(graph_, forms.sides, selector_));
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
    std::vector<PlanLine> own;
    const auto converted = conversions(graph_, result_);
    const auto add_conversions = [&](std::size_t n) {
      for (const Conversion& conversion : converted[n]) own.push_back(line_of(graph_, conversion, selector_.places()));
    };
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      add_conversions(n);
      if (is_static(graph_, graph_.nodes[n])) {
        own.push_back(line_of(graph_, n, result_.nodes[n], selector_.places()));
      }
    }
    add_conversions(graph_.nodes.size());
    for (std::size_t i = 0; i < plan_.lines.size(); ++i) {
      const PlanLine& line = plan_.lines[i];
      if (i < own.size() && own[i] == line) continue;
      if (i >= own.size())
        return at_line(line.number, fmt::format("{} {} is too much", line.kind, in_quotes(line.name)));
      return at_line(line.number,
                     fmt::format("{} {} {} -> {} where {} {} {} -> {} follows", line.kind, in_quotes(line.name),
                                 line.from, line.to, own[i].kind, in_quotes(own[i].name), own[i].from, own[i].to));
    }
    if (own.size() == plan_.lines.size()) return {};
    const PlanLine& missing = own[plan_.lines.size()];
    return Error{ErrorCode::invalid_argument, fmt::format("the end: {} {} {} -> {} is missing", missing.kind,
                                                          in_quotes(missing.name), missing.from, missing.to)};
  }

  const Graph& graph_;
  const PlanFile& plan_;
  const NetworkPlanHeader& own_;
  const NetworkOptions& options_;
  Selector& selector_;
  std::vector<std::string>& remarks_;
  std::map<std::string, std::vector<const PlanLine*>> by_name_;
  Assignment result_;
};

}  // namespace

Result<PlanFile> parse_plan(std::string_view text) {
  PlanFile plan;
  std::set<std::string, std::less<>> seen;
  int number = 0;
  bool begun = false;
  for (std::string_view rest : split(text, '\n')) {
    ++number;
    rest = trim(without_comment(rest));
    if (rest.empty()) continue;
    const std::string_view word = take_word(rest);
    if (!begun) {
      if (word != "convoy-plan")
        return at_line(number, "a plan begins with 'convoy-plan " + std::string(kVersion) + "'");
      if (rest != kVersion) {
        return at_line(number, fmt::format("version {} of plans is not known here, {} is", quoted(rest), kVersion));
      }
      begun = true;
      continue;
    }
    if (std::ranges::find(kKinds, word) != kKinds.end()) {
      auto line = read_node(number, word, rest, plan.header.threads);
      if (!line.ok()) return line.error().within(fmt::format("line {}", number));
      plan.lines.push_back(std::move(*line));
      continue;
    }
    if (!plan.lines.empty()) return at_line(number, fmt::format("{} behind the first node", quoted(word)));
    if (word != "input" && !seen.emplace(word).second) return at_line(number, fmt::format("{} again", quoted(word)));
    if (auto read = read_field(plan.header, word, rest); !read.ok()) {
      return read.error().within(fmt::format("line {}", number));
    }
  }
  if (!begun) return Error{ErrorCode::invalid_argument, "it is empty"};
  for (const std::string_view field : {"threads", "isa", "math", "graph"}) {
    if (!seen.contains(field)) return Error{ErrorCode::invalid_argument, fmt::format("it has no line '{}'", field)};
  }
  return plan;
}

std::vector<int> unfused_by(const PlanFile& plan, const Graph& graph) {
  std::set<std::string, std::less<>> names;
  for (const PlanLine& line : plan.lines) {
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
                           .precision = options.precision};
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

std::string plan_text(const Graph& graph, const Assignment& assignment, const NetworkPlanHeader& header,
                      Selector& selector) {
  std::string text = fmt::format("convoy-plan {}\nnetwork {}\n", kVersion, in_quotes(header.network));
  for (std::size_t i = 0; i < header.inputs.size(); ++i) {
    text += fmt::format("input {} {}\n", in_quotes(header.input_names[i]), print(header.inputs[i]));
  }
  const std::string precision =
      header.precision == DataType::f32 ? "" : fmt::format("precision {}\n", name_of(header.precision));
  const std::string parts = header.parts == BatchParts{} ? "" : fmt::format("parts {}\n", print(header.parts));
  text += fmt::format("threads {}\nisa {}\nmath {}\n{}graph {:016x}\n{}\n", header.threads, name_of(header.isa),
                      name_of(header.math), precision, header.graph, parts);
  struct Row {
    PlanLine line;
    std::string cost = "- -";
  };
  std::vector<Row> rows;
  const auto converted = conversions(graph, assignment);
  const auto cost_text = [](const Selector::Cost& cost) {
    return fmt::format("{:.4g}us {}", cost.seconds * 1e6, cost.measured ? "measured" : "predicted");
  };
  const auto add_conversions = [&](std::size_t n) {
    for (const Conversion& conversion : converted[n]) {
      rows.push_back({line_of(graph, conversion, selector.places())});
      const auto problem = step_problem(conversion);
      if (problem) rows.back().cost = cost_text(selector.cost(*problem, conversion.threads));
    }
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    add_conversions(n);
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node)) continue;
    const NodeAssignment& assigned = assignment.nodes[n];
    rows.push_back({line_of(graph, n, assigned, selector.places())});
    if (!node.conv) {
      const auto problem = assigned.in_place ? std::nullopt : step_problem(graph, node, assigned.sides);
      rows.back().cost = problem ? cost_text(selector.cost(*problem, assigned.sides.threads)) : "0us -";
      continue;
    }
    const auto cost =
        selector.cost(assigned.problem, assigned.selection, selector.weights_of(graph, node, assigned.problem),
                      assigned.place, assigned.sides.threads);
    if (cost) rows.back().cost = cost_text(*cost);
  }
  add_conversions(graph.nodes.size());
  constexpr std::size_t kWidest = 48;
  std::size_t name_width = 0, runs_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, std::min(kWidest, in_quotes(row.line.name).size()));
    runs_width = std::max(runs_width, std::min(kWidest, row.line.runs_on.size()));
  }
  for (const auto& [line, cost] : rows) {
    text += fmt::format("{:<7}  {:<{}}  {:<{}}  {} -> {}{}  {}\n", line.kind, in_quotes(line.name), name_width,
                        line.runs_on, runs_width, line.from, line.to, line.threads == Threads::one ? " threads=1" : "",
                        cost);
  }
  return text;
}

Result<Assignment> assign(const Graph& graph, const PlanFile& plan, const NetworkPlanHeader& own,
                          const NetworkOptions& options, Selector& selector, std::vector<std::string>& remarks) {
  return Reading(graph, plan, own, options, selector, remarks).run();
}

}  // namespace convoy::network

namespace convoy {

Result<NetworkPlanHeader> read_plan_header(std::string_view text) {
  CONVOY_TRY(network::PlanFile plan, network::parse_plan(text));
  return std::move(plan.header);
}

namespace {

// How often its lines run one after another.
std::int64_t turns(const NetworkPlanHeader& header) {
  const bool whole = header.parts.images == 0 || header.inputs.empty() || header.inputs.front().dims.empty();
  if (whole) return 1;
  const std::int64_t parts = header.inputs.front().dims.front() / header.parts.images;
  const std::int64_t side_by_side = header.parts.a_thread_each ? header.threads : 1;
  return (parts + side_by_side - 1) / side_by_side;
}

}  // namespace

Result<NetworkPlanCost> read_plan_cost(std::string_view text) {
  CONVOY_TRY(const network::PlanFile plan, network::parse_plan(text));
  NetworkPlanCost cost;
  for (const network::PlanLine& line : plan.lines) {
    if (!line.cost || line.kind == "relabel" || line.kind == "inplace") continue;
    cost.seconds += line.cost->seconds;
    ++cost.lines;
    cost.measured += line.cost->measured ? 1 : 0;
  }
  cost.seconds *= static_cast<double>(turns(plan.header));
  return cost;
}

}  // namespace convoy
