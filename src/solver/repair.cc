#include "solver/repair.h"

#include <algorithm>
#include <cmath>

namespace convoy::solver {
namespace {

constexpr double kLeastProgress = 1e-12;  // of what changes: less is rounding errors

}  // namespace

Repair::Repair(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits)
    : problem_(problem),
      resources_(resources),
      limits_(limits),
      scales_(resources.size()),
      amounts_(problem.size()),
      pair_amounts_(problem.size()),
      edges_(problem.size()) {
  for (int node = 0; node < problem.size(); ++node) amounts_[node].resize(problem.alternatives(node));
  for (int r = 0; r < static_cast<int>(resources.size()); ++r) {
    for (const Resource::Use& use : resources[r].uses) {
      amounts_[use.node][use.alternative].push_back({r, use.amount});
      scales_[r] = std::max(scales_[r], std::abs(use.amount));
    }
    for (const Resource::PairUse& use : resources[r].pair_uses) {
      pair_amounts_[use.a].push_back({use.b, use.alternative_a, use.alternative_b, {r, use.amount}});
      pair_amounts_[use.b].push_back({use.a, use.alternative_b, use.alternative_a, {r, use.amount}});
      scales_[r] = std::max(scales_[r], std::abs(use.amount));
    }
    if (scales_[r] == 0) scales_[r] = 1;
  }
  for (int edge = 0; edge < static_cast<int>(problem.edges().size()); ++edge) {
    edges_[problem.edges()[edge].a].push_back(edge);
    edges_[problem.edges()[edge].b].push_back(edge);
  }
}

void Repair::add_use(int r, double amount) {
  const double before = used_[r] - limits_[r];
  used_[r] += amount;
  const double after = used_[r] - limits_[r];
  exceeded_ += (after > 0) - (before > 0);
  excess_ += (std::max(0.0, after) - std::max(0.0, before)) / scales_[r];
}

void Repair::add_uses(int node, double sign) {
  for (const Amount& use : amounts_[node][choice_[node]]) add_use(use.resource, sign * use.amount);
  for (const PairAmount& use : pair_amounts_[node]) {
    if (use.own == choice_[node] && use.other == choice_[use.neighbour]) {
      add_use(use.amount.resource, sign * use.amount.amount);
    }
  }
}

void Repair::move(int node, int alternative) {
  add_uses(node, -1);
  choice_[node] = alternative;
  add_uses(node, 1);
}

double Repair::cost_of(int node) const {
  double cost = problem_.nodes()[node].costs[choice_[node]];
  for (const int number : edges_[node]) {
    const Problem::Edge& edge = problem_.edges()[number];
    cost += edge.costs[choice_[edge.a] * problem_.alternatives(edge.b) + choice_[edge.b]];
  }
  return cost;
}

bool Repair::improve(std::vector<int>& choice) {
  choice_ = choice;
  used_.assign(resources_.size(), 0);
  exceeded_ = 0;
  excess_ = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    if (limits_[r] < 0) {  // beyond by using nothing
      ++exceeded_;
      excess_ -= limits_[r] / scales_[r];
    }
    add_use(static_cast<int>(r), used(resources_[r], choice));
  }
  while (exceeded_ > 0) {
    if (!repair_step()) return false;
  }
  while (descend_step()) {
  }
  choice = choice_;
  return keeps(resources_, limits_, choice) && problem_.cost(choice) != kForbidden;
}

bool Repair::repair_step() {
  const double before = excess_;
  double best_rate = kForbidden;
  int best_node = -1, best_alternative = 0;
  for (int node = 0; node < problem_.size(); ++node) {
    const int now = choice_[node];
    const double cost = cost_of(node);
    for (int i = 0; i < problem_.alternatives(node); ++i) {
      if (i == now) continue;
      move(node, i);
      const double less = before - excess_, more = cost_of(node) - cost;
      // Where nothing becomes dearer, the most that is gained counts.
      const double rate = more > 0 ? more / less : more * less;
      if (less > kLeastProgress * before && rate < best_rate) {
        best_rate = rate;
        best_node = node;
        best_alternative = i;
      }
    }
    move(node, now);
  }
  if (best_node >= 0) move(best_node, best_alternative);
  return best_node >= 0;
}

bool Repair::descend_step() {
  bool changed = false;
  const auto falls = [](double cost, double before) { return cost < before - kLeastProgress * std::abs(before); };
  for (int node = 0; node < problem_.size(); ++node) {
    for (int i = 0; i < problem_.alternatives(node); ++i) {
      const int now = choice_[node];
      const double before = cost_of(node);
      move(node, i);
      if (falls(cost_of(node), before) && exceeded_ == 0) {
        changed = true;
      } else {
        move(node, now);
      }
    }
  }
  if (changed) return true;
  for (const Problem::Edge& edge : problem_.edges()) {
    for (int i = 0; i < problem_.alternatives(edge.a); ++i) {
      for (int j = 0; j < problem_.alternatives(edge.b); ++j) {
        const int now_a = choice_[edge.a], now_b = choice_[edge.b];
        double before = cost_of(edge.a);
        move(edge.a, i);
        double after = cost_of(edge.a);
        before += cost_of(edge.b);
        move(edge.b, j);
        after += cost_of(edge.b);
        if (falls(after, before) && exceeded_ == 0) {
          changed = true;
        } else {
          move(edge.b, now_b);
          move(edge.a, now_a);
        }
      }
    }
  }
  return changed;
}

}  // namespace convoy::solver
