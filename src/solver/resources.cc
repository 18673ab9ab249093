#include "solver/resources.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

namespace convoy::solver {
namespace {

Result<void> check(const Problem& problem, const Resource& resource) {
  const auto check_use = [&](int node, int alternative, double amount) -> Result<void> {
    if (node < 0 || node >= problem.size()) {
      return Error{ErrorCode::invalid_argument, fmt::format("there is no node {}", node)};
    }
    if (alternative < 0 || alternative >= problem.alternatives(node)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} has {} alternatives, not alternative {}", problem.describe(node),
                               problem.alternatives(node), alternative)};
    }
    if (!std::isfinite(amount)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{}: alternative {} uses {}", problem.describe(node), alternative, amount)};
    }
    return {};
  };
  for (const Resource::Use& use : resource.uses) CONVOY_CHECK(check_use(use.node, use.alternative, use.amount));
  for (const Resource::PairUse& use : resource.pair_uses) {
    CONVOY_CHECK(check_use(use.a, use.alternative_a, use.amount));
    CONVOY_CHECK(check_use(use.b, use.alternative_b, use.amount));
    if (use.a == use.b) {
      return Error{ErrorCode::invalid_argument, fmt::format("{} is paired with itself", problem.describe(use.a))};
    }
  }
  return {};
}

}  // namespace

Result<void> check(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits) {
  if (resources.size() != limits.size()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} limits for {} resources", limits.size(), resources.size())};
  }
  for (std::size_t r = 0; r < resources.size(); ++r) {
    if (auto valid = check(problem, resources[r]); !valid) {
      return valid.error().within(fmt::format("resource '{}'", resources[r].name));
    }
    if (std::isnan(limits[r]) || limits[r] == -kForbidden) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("resource '{}': the limit is {}", resources[r].name, limits[r])};
    }
  }
  return {};
}

double used(const Resource& resource, const std::vector<int>& choice) {
  double sum = 0;
  for (const Resource::Use& use : resource.uses) {
    if (choice[use.node] == use.alternative) sum += use.amount;
  }
  for (const Resource::PairUse& use : resource.pair_uses) {
    if (choice[use.a] == use.alternative_a && choice[use.b] == use.alternative_b) sum += use.amount;
  }
  return sum;
}

bool keeps(const std::vector<Resource>& resources, const std::vector<double>& limits, const std::vector<int>& choice) {
  for (std::size_t r = 0; r < resources.size(); ++r) {
    if (used(resources[r], choice) > limits[r]) return false;
  }
  return true;
}

Problem priced(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& prices,
               double cost_share) {
  std::vector<std::vector<double>> added(problem.size());
  for (int node = 0; node < problem.size(); ++node) added[node].resize(problem.alternatives(node));
  std::map<std::pair<int, int>, std::vector<double>> added_to_edges;
  for (std::size_t r = 0; r < resources.size(); ++r) {
    if (prices[r] == 0) continue;
    for (const Resource::Use& use : resources[r].uses) added[use.node][use.alternative] += prices[r] * use.amount;
    for (const Resource::PairUse& use : resources[r].pair_uses) {
      std::vector<double>& costs = added_to_edges[{use.a, use.b}];
      costs.resize(problem.nodes()[use.a].costs.size() * problem.nodes()[use.b].costs.size());
      costs[use.alternative_a * problem.alternatives(use.b) + use.alternative_b] += prices[r] * use.amount;
    }
  }
  const auto share = [cost_share](std::vector<double> costs) {
    for (double& cost : costs) {
      if (cost != kForbidden) cost *= cost_share;
    }
    return costs;
  };
  Problem sum;  // valid, as the problem and the resources are
  for (const Problem::Node& node : problem.nodes()) (void)sum.add_node(share(node.costs), node.name);
  for (const Problem::Edge& edge : problem.edges()) (void)sum.add_edge(edge.a, edge.b, share(edge.costs));
  for (int node = 0; node < problem.size(); ++node) (void)sum.add_costs(node, added[node]);
  for (const auto& [ends, costs] : added_to_edges) (void)sum.add_edge(ends.first, ends.second, costs);
  return sum;
}

}  // namespace convoy::solver
