#include <fmt/format.h>

#include "network/assign/sides.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/graph/unfuse.h"

namespace convoy::network {
namespace {

bool on_narrow_units(const Graph& graph, std::span<const DataType> types, MathMode math) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!node.conv) continue;
    const DataType type = node.conv->problem.x.type;
    if (size_of(type) == 2 || (type == DataType::f32 && (size_of(types[n]) == 2 || math != MathMode::strict))) {
      return true;
    }
  }
  return false;
}

// Whether an engine at home runs the convolution in these sides, or in another layout than theirs.
bool is_taken(const Graph& graph, const Node& node, const Sides& sides, Chooser& chooser) {
  for (const Layout layout : {sides.reads.layout, Layout::nhwc, Layout::nchw}) {
    const Sides tried{{layout, sides.reads.real}, {layout, sides.writes.real}};
    if (chooser.predict(conv_query(graph, node, tried, chooser))) return true;
  }
  return false;
}

// A GPU's engines don't take every fusion: of each convolution as many are undone as it takes for one to run it.
std::vector<int> unfused_at_home(const Graph& graph, const std::vector<Sides>& sides, Chooser& chooser) {
  std::vector<int> undone(graph.nodes.size(), 0);
  for (std::size_t n = 0; chooser.home() != 0 && n < graph.nodes.size(); ++n) {
    if (!graph.nodes[n].conv || !is_static(graph, graph.nodes[n])) continue;
    int count = 0;
    const Node* left = &graph.nodes[n];
    while (left->fused && !is_taken(graph, *left, sides[n], chooser)) {
      left = &left->fused->conv;
      ++count;
    }
    if (count > 0 && is_taken(graph, *left, sides[n], chooser)) undone[n] = count;
  }
  return undone;
}

}  // namespace

std::vector<Sides> take_form(Graph& graph, const Forms& forms) {
  std::vector<Sides> sides;
  for (std::size_t n = 0; n < forms.sides.size(); ++n) {
    const Sides& given = forms.sides[n];
    sides.push_back(given);
    sides.insert(sides.end(), static_cast<std::size_t>(forms.unfused[n]),
                 Sides{given.writes, given.writes, given.threads});
  }
  unfuse(graph, forms.unfused);
  return sides;
}

Result<Forms> forms_by(std::string_view how, const Graph& graph, Chooser& chooser, std::vector<std::string>& remarks,
                       const MemoryGoal& goal) {
  if (goal.asked() && how != "global") {
    return Error{ErrorCode::invalid_argument, fmt::format("how='{}' goes by no limit on memory: \"global\" does", how)};
  }
  const std::vector<NodeTypes> types = node_types(graph, chooser, remarks);
  if (how == "local") return local_forms(graph, types, chooser);
  if (how == "global") {
    CONVOY_TRY(GlobalForms global, global_forms(graph, types, chooser, goal));
    remarks.push_back(std::move(global.proof));
    return std::move(global.forms);
  }
  std::vector<DataType> narrowest;
  for (const NodeTypes& each : types) narrowest.push_back(each.types.back());
  const auto with_fusions = [&](std::vector<Sides> sides) {
    std::vector<int> undone = unfused_at_home(graph, sides, chooser);
    return Forms{std::move(sides), std::move(undone), {}};
  };
  // There the units that the types are for want channels last, in every layer.
  if (how == "greedy" && chooser.home() != 0 && on_narrow_units(graph, narrowest, chooser.options().math)) {
    how = "uniform:nhwc";
  }
  if (how == "greedy") return with_fusions(greedy_sides(graph, narrowest, chooser));
  constexpr std::string_view kUniform = "uniform:";
  if (how.starts_with(kUniform)) {
    const auto layout = parse_layout(how.substr(kUniform.size()));
    if (layout.ok() && *layout != Layout::strided)
      return with_fusions(uniform_sides(graph, narrowest, chooser, *layout));
  }
  return Error{
      ErrorCode::invalid_argument,
      fmt::format(
          "how='{}': it is greedy, global, local, uniform:nhwc, uniform:nchw, uniform:nchw8c or uniform:nchw16c", how)};
}

}  // namespace convoy::network
