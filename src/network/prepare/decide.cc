#include "network/prepare/decide.h"

#include <fmt/format.h>

#include "network/assign/kept_plan.h"
#include "network/assign/layout_rules.h"
#include "network/assign/plan.h"
#include "network/assign/threads.h"
#include "network/graph/unfuse.h"

namespace convoy::network {
namespace {

Result<Decided> obey(const NetworkPlan& plan, Graph graph, const NetworkPlanHeader& header, Chooser& chooser) {
  Decided decided{std::move(graph), {}, {}};
  unfuse(decided.graph, unfused_by(plan, decided.graph));
  CONVOY_TRY(decided.assignment, assign(decided.graph, plan, header, chooser.options(), chooser, decided.remarks));
  return decided;
}

Result<Decided> decide_by_rule(Graph graph, std::vector<std::string> remarks, Chooser& chooser) {
  const NetworkOptions& options = chooser.options();
  Decided decided{std::move(graph), {}, std::move(remarks)};
  CONVOY_TRY(const Forms forms, forms_by(options.how, decided.graph, chooser, decided.remarks, options.memory));
  const std::vector<NodeFormats> formats = take_form(decided.graph, forms);
  CONVOY_TRY(decided.assignment, assign(decided.graph, formats, chooser, forms.candidates));
  for (std::string& remark : remarks_on_places(decided.graph, decided.assignment, chooser)) {
    decided.remarks.push_back(std::move(remark));
  }
  const bool has_threads = options.how == "global" || options.how == "local";
  if (!has_threads) choose_threads(decided.graph, decided.assignment, chooser);
  return decided;
}

}  // namespace

Result<Decided> decide(Graph graph, const NetworkPlanHeader& header, Chooser& chooser) {
  const NetworkOptions& options = chooser.options();
  if (options.plan) {
    auto decided = obey(*options.plan, std::move(graph), header, chooser);
    return decided.ok() ? std::move(decided) : decided.error().within("plan");
  }
  std::vector<std::string> remarks;
  if (!options.kept_plans.empty()) {
    const std::string path = kept_plan_path(options.kept_plans, header, options.cpu);
    const auto kept = read_kept_plan(path);
    auto decided = kept.ok() ? obey(*kept, graph, header, chooser) : kept.error();
    if (decided.ok()) return decided;
    if (decided.error().code != ErrorCode::not_found) {
      remarks.push_back(fmt::format("{} is not obeyed: {}", path, decided.error().message));
    }
  }
  return decide_by_rule(std::move(graph), std::move(remarks), chooser);
}

}  // namespace convoy::network
