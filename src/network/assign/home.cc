// Which nodes run where the network lives, and why the others don't.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "network/assign/assignment.h"
#include "network/graph/infer.h"
#include "ops/on_device.h"
#include "ops/operator_row.h"

namespace convoy::network {

Result<void> check_at_home(const Graph& graph, const Node& node, const NodeFormats& formats, Chooser& chooser) {
  if (!step_problem(graph, node, formats)) return {};  // it only describes what lies there anew
  const ops::OperatorRow* const row = ops::find_row(node.desc.domain, node.desc.op);
  if (row == nullptr) return Error{ErrorCode::unsupported, fmt::format("no kernel for {}", node.desc.op)};
  CONVOY_TRY(NarrowedInputs narrowed, narrowed_inputs(graph, node, formats.reads.real, Constants::small));
  std::vector<ops::Input>& inputs = narrowed.inputs;
  CONVOY_TRY(std::vector<TensorDesc> outputs, row->infer(node.desc, inputs));
  for (TensorDesc& desc : outputs) {
    if (desc.rank() >= 3) desc = desc.with_layout(formats.writes.layout);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (node.inputs[i] == kAbsent || graph.values[node.inputs[i]].constant) continue;
    inputs[i].desc = described(graph.values[node.inputs[i]], formats.reads);
  }
  const PlanRequest& request = chooser.places()[static_cast<std::size_t>(chooser.home())].request;
  CONVOY_CHECK(ops::check_compiler_on_device(request));
  return ops::check_on_device(*row->implementation, node.desc, inputs, outputs, request);
}

void put_conversions(Assignment& assignment, Chooser& chooser) {
  const int home = chooser.home();
  const PlanRequest& request = chooser.places()[static_cast<std::size_t>(home)].request;
  if (home != 0 && ops::check_compiler_on_device(request).ok()) assignment.converts = home;
}

void put_in_places(const Graph& graph, Assignment& assignment, Chooser& chooser) {
  const int home = chooser.home();
  if (home == 0) return;
  put_conversions(assignment, chooser);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.conv || !is_static(graph, node)) continue;
    const bool runs = check_at_home(graph, node, assignment.nodes[n].formats, chooser).ok();
    assignment.nodes[n].place = runs ? home : 0;
  }
}

std::vector<std::string> remarks_on_places(const Graph& graph, const Assignment& assignment, Chooser& chooser) {
  std::vector<std::string> remarks;
  if (chooser.home() == 0) return remarks;
  const std::string home = chooser.places()[static_cast<std::size_t>(chooser.home())].device->name();
  std::map<std::string, std::vector<std::string>> by_reason;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node) || assignment.nodes[n].place != 0) continue;
    std::string why;
    if (!node.conv) {
      const auto runs = check_at_home(graph, node, assignment.nodes[n].formats, chooser);
      if (runs.ok()) continue;
      why = runs.error().message;
    } else {
      const std::string kept = kept_on_processor(graph, node);
      why = kept.empty() ? fmt::format("no engine of {} takes it", home)
                         : fmt::format("a convolution {} can't run on {}", kept, home);
    }
    by_reason[why].push_back(joined(node.sources));
  }
  constexpr std::size_t kNamed = 3;
  for (const auto& [why, names] : by_reason) {
    std::string text = names.front();
    for (std::size_t i = 1; i < std::min(names.size(), kNamed); ++i) text += ", " + names[i];
    if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
    remarks.push_back(fmt::format("{}: {}: on the processor, with copies", text, why));
  }
  return remarks;
}

}  // namespace convoy::network
