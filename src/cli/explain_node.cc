#include "cli/explain_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/format.h"
#include "report/listing.h"

namespace convoy::cli {
namespace {

constexpr std::size_t kMostSaid = 4;
constexpr std::size_t kMostParts = 6;  // of a convolution and what it takes over

// A node's line of a plan, with the conversions before it, which are its own.
struct Given {
  NetworkPlanLine line;
  std::vector<NetworkPlanLine> conversions;

  static double seconds_of(const NetworkPlanLine& line) { return line.cost ? line.cost->seconds : 0; }
  double conversion_seconds() const {
    double sum = 0;
    for (const NetworkPlanLine& each : conversions) sum += seconds_of(each);
    return sum;
  }
};

struct PlannedNodes {
  std::string name;
  std::vector<Given> nodes;  // in the graph's order, the same for all ways
  double seconds = 0;        // of all lines
};

PlannedNodes planned_nodes(const std::string& name, const NetworkPlan& plan) {
  PlannedNodes way{name, {}, plan.cost().seconds};
  std::vector<NetworkPlanLine> conversions;
  for (const NetworkPlanLine& line : plan.lines) {
    if (line.kind == "convert") {
      conversions.push_back(line);
    } else {
      way.nodes.push_back({line, std::exchange(conversions, {})});
    }
  }
  return way;
}

// The lines of nodes that other ways run as one (a convolution that takes over what follows it) as one line.
std::vector<Given> joined_as(const std::set<std::string>& names, const std::vector<Given>& nodes) {
  std::vector<Given> result;
  for (std::size_t first = 0, next = 0; first < nodes.size(); first = next) {
    next = first + 1;
    std::string name = nodes[first].line.name;
    for (std::size_t last = first + 1; last < nodes.size() && last < first + kMostParts; ++last) {
      name += "+" + nodes[last].line.name;
      if (names.contains(name)) next = last + 1;
    }
    Given whole = nodes[first];
    for (std::size_t i = first + 1; i < next; ++i) {
      const NetworkPlanLine& part = nodes[i].line;
      whole.line.name += "+" + part.name;
      whole.line.runs_on += ", then " + part.runs_on;
      whole.line.to = part.to;
      if (whole.line.cost && part.cost) {
        whole.line.cost->seconds += part.cost->seconds;
        whole.line.cost->measured = whole.line.cost->measured && part.cost->measured;
      }
      whole.conversions.insert(whole.conversions.end(), nodes[i].conversions.begin(), nodes[i].conversions.end());
    }
    result.push_back(std::move(whole));
  }
  return result;
}

// The plan, then the other ways to choose that lead to another one.
Result<std::vector<PlannedNodes>> planned_by_all(const Network& network, std::span<const TensorDesc> descs,
                                                 const NetworkOptions& options, const std::string& name) {
  CONVOY_TRY(const NetworkPlan own, network.plan(descs, options));
  std::vector<PlannedNodes> ways{planned_nodes(name, own)};
  const std::string blocks = options.cpu.isa == Isa::avx512 ? "uniform:nchw16c" : "uniform:nchw8c";
  for (const std::string& how : {std::string("greedy"), std::string("local"), std::string("uniform:nhwc"),
                                 std::string("uniform:nchw"), blocks}) {
    if (how == name) continue;
    NetworkOptions other = options;
    other.how = how;
    other.memory = {};
    other.plan.reset();
    other.kept_plans.clear();
    other.selection.mode = SelectionMode::heuristic;
    CONVOY_TRY(const NetworkPlan plan, network.plan(descs, other));
    ways.push_back(planned_nodes(how, plan));
  }
  std::set<std::string> names;
  for (const PlannedNodes& way : ways) {
    for (const Given& given : way.nodes) names.insert(given.line.name);
  }
  for (PlannedNodes& way : ways) way.nodes = joined_as(names, way.nodes);
  const std::size_t nodes = ways.front().nodes.size();
  std::erase_if(ways, [&](const PlannedNodes& way) { return way.nodes.size() != nodes; });
  return ways;
}

std::string cost_text(const NetworkPlanLine& line) {
  if (!line.cost) return "-";
  return fmt::format("{}{}", line.cost->measured ? "" : "~", report::seconds(line.cost->seconds));
}

std::string conversions_text(const Given& given) {
  if (given.conversions.empty()) return "none";
  std::vector<std::string> texts;
  for (const NetworkPlanLine& each : given.conversions) {
    texts.push_back(fmt::format("{} to {} {}", each.from, each.to, cost_text(each)));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Why the way that is best for the node alone was not taken.
std::string reason(const std::vector<PlannedNodes>& ways, std::size_t node) {
  const Given& own = ways.front().nodes[node];
  const double seconds = Given::seconds_of(own.line);
  const PlannedNodes* best = nullptr;
  for (const PlannedNodes& way : ways) {
    const NetworkPlanLine& line = way.nodes[node].line;
    if (!line.cost || line.cost->seconds >= seconds) continue;
    if (best == nullptr || line.cost->seconds < Given::seconds_of(best->nodes[node].line)) best = &way;
  }
  if (best == nullptr) return "no other plan has a cheaper line for it";
  const Given& other = best->nodes[node];
  return fmt::format("{} is {} cheaper for the node, its conversions {:+.1f} us, the whole plan {:+.1f} us", best->name,
                     report::seconds(seconds - Given::seconds_of(other.line)),
                     (other.conversion_seconds() - own.conversion_seconds()) * 1e6,
                     (best->seconds - ways.front().seconds) * 1e6);
}

Json conversions_json(const Given& given) {
  Json conversions = Json::array();
  for (const NetworkPlanLine& each : given.conversions) {
    conversions.push_back(
        {{"value", each.name}, {"from", each.from}, {"to", each.to}, {"seconds", Given::seconds_of(each)}});
  }
  return conversions;
}

// A node in each plan.
report::Listing<PlannedNodes> node_listing(std::size_t n) {
  using report::Align;
  const auto of_node = [n](auto value) {
    return [n, value](const PlannedNodes& plan) { return value(plan.nodes[n]); };
  };
  const auto of_line = [n](auto value) {
    return [n, value](const PlannedNodes& plan) { return std::invoke(value, plan.nodes[n].line); };
  };
  using Line = NetworkPlanLine;
  report::Listing<PlannedNodes> listing;
  listing.column("in the plan by", "way", &PlannedNodes::name)
      .column("it runs on", "runs_on", of_line(&Line::runs_on))
      .cell("reads -> writes", of_line([](const Line& line) { return fmt::format("{} -> {}", line.from, line.to); }),
            Align::left, 2)
      .field("reads", of_line(&Line::from))
      .field("writes", of_line(&Line::to))
      .cell("cost", of_line(cost_text), Align::right)
      .field("seconds", of_line([](const Line& line) { return line.cost ? Json(line.cost->seconds) : Json(); }))
      .field("measured", of_line([](const Line& line) { return line.cost && line.cost->measured; }))
      .cell("conversions before it", of_node(conversions_text), Align::left, 1)
      .field("conversions", of_node(conversions_json))
      .column("whole plan", "plan_seconds", &PlannedNodes::seconds, report::as_seconds, Align::right, 3);
  return listing;
}

}  // namespace

Result<Json> explain_in_network(const Program& program, const Network& network, std::span<const TensorDesc> descs,
                                const NetworkOptions& options, const std::string& name,
                                const std::function<bool(const std::string&)>& is_wanted) {
  CONVOY_TRY(const std::vector<PlannedNodes> ways, planned_by_all(network, descs, options, name));
  Json all = Json::array();
  for (std::size_t n = 0; n < ways.front().nodes.size(); ++n) {
    const NetworkPlanLine& own = ways.front().nodes[n].line;
    if (!is_wanted(own.name)) continue;
    const report::Listing<PlannedNodes> listing = node_listing(n);
    report::Table table = listing.table();
    Json of_ways = Json::array();
    for (const PlannedNodes& way : ways) {
      listing.add(table, way, &way == &ways.front() ? report::Style::good : report::Style::plain);
      of_ways.push_back(listing.json(way));
    }
    const std::string why = reason(ways, n);
    if (all.size() < kMostSaid) {
      program.say(fmt::format("\n{} in its network (~: predicted)", own.name));
      program.say(table, 2);
      program.say("  " + why);
    } else if (all.size() == kMostSaid) {
      program.say("\nand more nodes: --json has them all");
    }
    all.push_back({{"node", own.name}, {"kind", own.kind}, {"ways", std::move(of_ways)}, {"why", why}});
  }
  return all;
}

}  // namespace convoy::cli
