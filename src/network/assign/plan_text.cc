// Plans as text, and what two of them have in common.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/errors.h"
#include "convoy/network_plan.h"
#include "core/math_mode.h"
#include "core/text.h"
#include "network/assign/plan.h"
#include "select/choose/names.h"

namespace convoy {
namespace {

using network::at_line;
using network::in_quotes;
using Cost = NetworkPlanLine::Cost;

constexpr std::string_view kVersion = "1";
constexpr std::array<std::string_view, 5> kKinds{"conv", "op", "relabel", "inplace", "convert"};
constexpr std::string_view kThreads = "threads=";     // of a line where they are not the header's
constexpr std::string_view kStrict = "math=strict ";  // likewise
constexpr std::array<std::string_view, 3> kSources{"predicted", "measured", "-"};

bool costs_nothing(const NetworkPlanLine& line) { return line.kind == "relabel" || line.kind == "inplace"; }

// Takes the quoted name that `rest` begins with.
Result<std::string> take_quoted(std::string_view& rest) {
  const Error open = invalid("a name in double quotes is expected");
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
  return invalid("the name's closing quote is missing");
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
      return invalid(fmt::format("threads {} is out of range", threads));
    }
    header.threads = static_cast<int>(threads);
  } else if (field == "isa") {
    CONVOY_TRY(header.isa, parse_isa(take_word(rest)));
  } else if (field == "math") {
    const auto math = parse_math_mode(take_word(rest));
    if (!math.ok()) return invalid("math " + math.error().message);
    header.math = *math;
  } else if (field == "precision") {
    CONVOY_TRY(header.precision, parse_data_type(take_word(rest)));
    if (header.precision != DataType::bf16 && header.precision != DataType::f16) {
      return invalid(fmt::format("precision {}: it is bf16 or f16", name_of(header.precision)));
    }
  } else if (field == "graph") {
    const std::string_view word = take_word(rest);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), header.graph, 16);
    if (error != std::errc() || end != word.data() + word.size()) {
      return invalid(fmt::format("graph {} is no hexadecimal number", convoy::quoted(word)));
    }
  } else if (field == "parts") {
    CONVOY_TRY(header.parts, parse_batch_parts(take_word(rest)));
  } else if (field == "device") {
    CONVOY_TRY(header.device, take_quoted(rest));
  } else {
    return invalid(fmt::format(
        "{} is unknown: network, input, threads, isa, math, precision, graph, parts, device, or a node's conv, op, "
        "relabel, inplace or convert",
        convoy::quoted(field)));
  }
  if (!rest.empty()) return invalid(fmt::format("{} is too much", convoy::quoted(rest)));
  return {};
}

Result<std::optional<Cost>> read_cost(std::string_view cost, std::string_view source) {
  if (std::ranges::find(kSources, source) == kSources.end()) {
    return invalid(fmt::format("a cost's source {}: it is predicted, measured or -", convoy::quoted(source)));
  }
  if (cost == "-") return std::optional<Cost>();
  const auto microseconds = cost.ends_with("us") ? parse_double(cost.substr(0, cost.size() - 2)) : parse_double("");
  if (!microseconds.ok()) {
    return invalid(fmt::format("cost {} is no number of us", convoy::quoted(cost)));
  }
  return std::optional(Cost{*microseconds * 1e-6, source == "measured"});
}

// "threads=1", where the header says `all`.
Result<bool> reads_one_thread(std::string_view kind, std::string_view word, int all) {
  if (kind == "convert") {
    return invalid(fmt::format("{}: a {} has none of its own", word, kind));
  }
  const auto threads = parse_integer(word.substr(kThreads.size()));
  if (!threads.ok() || (*threads != 1 && *threads != all)) {
    return invalid(fmt::format("{}: it is 1, or all {}", word, all));
  }
  return *threads < all;
}

Result<NetworkPlanLine> read_node(int number, std::string_view kind, std::string_view rest, int threads) {
  NetworkPlanLine line{.kind = std::string(kind), .number = number};
  CONVOY_TRY(line.name, take_quoted(rest));
  line.runs_on = take_word(rest);
  line.from = take_word(rest);
  const std::string_view arrow = take_word(rest);
  line.to = take_word(rest);
  if (rest.starts_with(kThreads)) {
    CONVOY_TRY(line.one_thread, reads_one_thread(kind, take_word(rest), threads));
  }
  if (rest.starts_with(kStrict)) {
    if (kind != "conv") return invalid(fmt::format("{}: it is for convolutions", take_word(rest)));
    take_word(rest);
    line.strict = true;
  }
  const std::string_view cost = take_word(rest), source = take_word(rest);
  if (source.empty()) {
    return invalid(
        fmt::format("a column is missing: {} \"NAME\" RUNS-ON TYPE,LAYOUT -> TYPE,LAYOUT COST SOURCE", kind));
  }
  if (arrow != "->") {
    return invalid(fmt::format("{} where -> is expected", convoy::quoted(arrow)));
  }
  CONVOY_TRY(line.cost, read_cost(cost, source));
  if (!rest.empty()) return invalid(fmt::format("{} is too much", convoy::quoted(rest)));
  return line;
}

std::string cost_text(const NetworkPlanLine& line) {
  if (costs_nothing(line)) return "0us -";
  if (!line.cost) return "- -";
  return fmt::format("{:.4g}us {}", line.cost->seconds * 1e6, line.cost->measured ? "measured" : "predicted");
}

std::string header_text(const NetworkPlanHeader& header) {
  std::string text = fmt::format("convoy-plan {}\nnetwork {}\n", kVersion, in_quotes(header.network));
  for (std::size_t i = 0; i < header.inputs.size(); ++i) {
    text += fmt::format("input {} {}\n", in_quotes(header.input_names[i]), print(header.inputs[i]));
  }
  const std::string precision =
      header.precision == DataType::f32 ? "" : fmt::format("precision {}\n", name_of(header.precision));
  const std::string parts = header.parts == BatchParts{} ? "" : fmt::format("parts {}\n", print(header.parts));
  const std::string device = header.device.empty() ? "" : fmt::format("device {}\n", in_quotes(header.device));
  return text + fmt::format("threads {}\nisa {}\nmath {}\n{}graph {:016x}\n{}{}\n", header.threads, name_of(header.isa),
                            name_of(header.math), precision, header.graph, parts, device);
}

// How often its lines run one after another.
std::int64_t turns(const NetworkPlanHeader& header) {
  const bool whole = header.parts.images == 0 || header.inputs.empty() || header.inputs.front().dims.empty();
  if (whole) return 1;
  const std::int64_t parts = header.inputs.front().dims.front() / header.parts.images;
  const std::int64_t side_by_side = header.parts.a_thread_each ? header.threads : 1;
  return (parts + side_by_side - 1) / side_by_side;
}

}  // namespace

NetworkPlanCost NetworkPlan::cost() const {
  NetworkPlanCost sum;
  for (const NetworkPlanLine& line : lines) {
    if (!line.cost || costs_nothing(line)) continue;
    sum.seconds += line.cost->seconds;
    ++sum.lines;
    sum.measured += line.cost->measured ? 1 : 0;
  }
  sum.seconds *= static_cast<double>(turns(header));
  return sum;
}

bool same_choices(const NetworkPlanLine& a, const NetworkPlanLine& b) {
  return a.kind == b.kind && a.name == b.name && a.runs_on == b.runs_on && a.from == b.from && a.to == b.to &&
         a.one_thread == b.one_thread && a.strict == b.strict;
}

bool same_choices(const NetworkPlan& a, const NetworkPlan& b) {
  const auto alike = [](const NetworkPlanLine& x, const NetworkPlanLine& y) { return same_choices(x, y); };
  return a.header == b.header && std::ranges::equal(a.lines, b.lines, alike);
}

Result<NetworkPlan> parse_plan(std::string_view text) {
  NetworkPlan plan;
  std::set<std::string, std::less<>> seen;
  int number = 0;
  bool begun = false;
  for (std::string_view rest : split(text, '\n')) {
    ++number;
    if (rest.starts_with('#')) plan.remarks.emplace_back(rest.substr(rest.starts_with("# ") ? 2 : 1));
    rest = trim(without_comment(rest));
    if (rest.empty()) continue;
    const std::string_view word = take_word(rest);
    if (!begun) {
      if (word != "convoy-plan")
        return at_line(number, invalid(fmt::format("a plan begins with 'convoy-plan {}'", kVersion)));
      if (rest != kVersion) {
        return at_line(number, invalid(fmt::format("version {} of plans is not known here, {} is", convoy::quoted(rest),
                                                   kVersion)));
      }
      begun = true;
      continue;
    }
    if (std::ranges::find(kKinds, word) != kKinds.end()) {
      auto line = read_node(number, word, rest, plan.header.threads);
      if (!line.ok()) return at_line(number, line.error());
      plan.lines.push_back(std::move(*line));
      continue;
    }
    if (!plan.lines.empty())
      return at_line(number, invalid(fmt::format("{} behind the first node", convoy::quoted(word))));
    if (word != "input" && !seen.emplace(word).second)
      return at_line(number, invalid(fmt::format("{} again", convoy::quoted(word))));
    if (auto read = read_field(plan.header, word, rest); !read.ok()) return at_line(number, read.error());
  }
  if (!begun) return invalid("it is empty");
  for (const std::string_view field : {"threads", "isa", "math", "graph"}) {
    if (!seen.contains(field)) return invalid(fmt::format("it has no line '{}'", field));
  }
  return plan;
}

std::string print(const NetworkPlan& plan) {
  constexpr std::size_t kWidest = 48;
  std::size_t name_width = 0, runs_width = 0;
  for (const NetworkPlanLine& line : plan.lines) {
    name_width = std::max(name_width, std::min(kWidest, in_quotes(line.name).size()));
    runs_width = std::max(runs_width, std::min(kWidest, line.runs_on.size()));
  }
  std::string text = header_text(plan.header);
  for (const NetworkPlanLine& line : plan.lines) {
    text += fmt::format("{:<7}  {:<{}}  {:<{}}  {} -> {}{}{}  {}\n", line.kind, in_quotes(line.name), name_width,
                        line.runs_on, runs_width, line.from, line.to, line.one_thread ? " threads=1" : "",
                        line.strict ? " math=strict" : "", cost_text(line));
  }
  for (const std::string& remark : plan.remarks) text += "# " + remark + "\n";
  return text;
}

}  // namespace convoy

namespace convoy::network {

Error at_line(int number, const Error& error) {
  return number > 0 ? error.within(fmt::format("line {}", number)) : error;
}

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

}  // namespace convoy::network
