#include <fmt/format.h>

#include "network/assign/sides.h"
#include "network/graph/unfuse.h"

namespace convoy::network {

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
  const std::vector<int> all_fused(graph.nodes.size(), 0);
  if (how == "greedy") return Forms{greedy_sides(graph, narrowest, chooser), all_fused, {}};
  constexpr std::string_view kUniform = "uniform:";
  if (how.starts_with(kUniform)) {
    const auto layout = parse_layout(how.substr(kUniform.size()));
    if (layout.ok() && *layout != Layout::strided)
      return Forms{uniform_sides(graph, narrowest, chooser, *layout), all_fused, {}};
  }
  return Error{
      ErrorCode::invalid_argument,
      fmt::format(
          "how='{}': it is greedy, global, local, uniform:nhwc, uniform:nchw, uniform:nchw8c or uniform:nchw16c", how)};
}

}  // namespace convoy::network
