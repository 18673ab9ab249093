#include "network/assign/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "network/assign/live_bytes.h"
#include "network/assign/memory_plan.h"
#include "network/run/lower.h"
#include "solver/budgets.h"
#include "solver/lp.h"

namespace convoy::network {
namespace {

constexpr int kTightenings = 6;       // of the limit, where gaps between buffers exceed it
constexpr int kSearches = 12;         // limits that are tried to find the least peak
constexpr double kNearEnough = 1e-3;  // of the least peak

struct Found {
  std::vector<int> choice;
  double seconds = 0;
  ActivationBytes bytes;
  std::int64_t weights = 0;  // constants, and what convolutions keep of theirs; where these count
};

// What is known of all plans under one limit.
struct Within {
  bool any = false;  // was found
  Found found;
  bool impossible = false;  // proved
  double seconds_bound = 0;
  std::string prices;
};

class MemorySearch {
 public:
  MemorySearch(const Graph& graph, const LayoutProblem& layouts, const MemoryGoal& goal)
      : graph_(graph),
        layouts_(layouts),
        goal_(goal),
        exports_(values_of_dynamic_subgraph(graph)),
        live_(live_bytes(graph, layouts, exports_)) {
    weights_.name = "weights";
    for (std::size_t n = 0; n < layouts_.options.size(); ++n) {
      for (std::size_t i = 0; i < layouts_.options[n].size(); ++i) {
        const auto bytes = static_cast<double>(layouts_.options[n][i].weight_bytes);
        weights_.uses.push_back({layouts_.numbers[n], static_cast<int>(i), bytes});
      }
    }
    for (std::size_t p = 0; p < live_.points.size(); ++p) {
      most_.push_back(live_.fixed[p] + most_of(live_.points[p]));
      amounts_.push_back(amounts_of(live_.points[p]));
    }
  }

  Result<GlobalForms> run() {
    CONVOY_TRY(const solver::Solution fastest, solver::solve(layouts_.problem));
    CONVOY_TRY(fastest_, measured(fastest.choice));
    CONVOY_CHECK(begin());
    const bool minimizes = goal_.least || goal_.weight > 0;
    if (!minimizes && fastest_.bytes.arena <= limit() && keeps_weights(fastest_)) {
      return answer({.any = true, .found = fastest_, .seconds_bound = fastest.lower_bound});
    }
    if (goal_.least) {
      CONVOY_CHECK(find_least());
      if (least_.bytes.arena > limit()) return not_kept();
      return answer(of_least_);
    }
    if (goal_.weight > 0) return find_balance(fastest.lower_bound);
    CONVOY_TRY(Within within, plans_within(limit()));
    if (!within.any) {
      if (goal_.activation_limit) CONVOY_CHECK(find_least());
      if (least_.bytes.arena > limit()) return not_kept();
      within.found = least_;
    }
    return answer(within);
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max() / 4;  // no limit
  std::int64_t limit() const { return goal_.activation_limit.value_or(kNone); }
  bool keeps_weights(const Found& found) const { return !goal_.weight_limit || found.weights <= *goal_.weight_limit; }

  // A plan to begin with, which keeps the limit on weights. Error: none does.
  Result<void> begin() {
    least_ = fastest_;
    if (keeps_weights(fastest_)) return {};
    CONVOY_TRY(const solver::Solution lightest, solver::solve(solver::priced(layouts_.problem, {weights_}, {1.0}, 0)));
    CONVOY_TRY(least_, measured(lightest.choice));
    if (keeps_weights(least_)) return {};
    return Error{ErrorCode::unsupported,
                 fmt::format("weight limit: no choice of engines keeps less than {} bytes of weights and other "
                             "constants, not {}; the fastest keeps {}",
                             least_.weights, *goal_.weight_limit, fastest_.weights)};
  }

  // No choice uses more.
  static double most_of(const solver::Resource& point) {
    std::map<int, std::map<int, double>> by_node;
    for (const auto& use : point.uses) by_node[use.node][use.alternative] += use.amount;
    double sum = 0;
    for (const auto& [node, amounts] : by_node) {
      double most = 0;
      for (const auto& [alternative, amount] : amounts) most = std::max(most, amount);
      sum += most;
    }
    std::map<std::pair<int, int>, double> pairs;
    for (const auto& use : point.pair_uses) {
      double& most = pairs[{use.a, use.b}];
      most = std::max(most, use.amount);
    }
    for (const auto& [ends, amount] : pairs) sum += amount;
    return sum;
  }

  Result<Found> measured(const std::vector<int>& choice) const {
    CONVOY_TRY(const ActivationBytes bytes, activation_bytes(graph_, layouts_.chosen(choice).formats, exports_));
    return Found{choice, layouts_.problem.cost(choice), bytes,
                 bytes.constants + static_cast<std::int64_t>(solver::used(weights_, choice))};
  }

  // The points that some plan exceeds the limit at, each that another one exceeds whenever it does left out.
  std::vector<std::size_t> binding(double limit) const {
    std::vector<std::size_t> points;
    for (std::size_t p = 0; p < most_.size(); ++p) {
      if (most_[p] > limit) points.push_back(p);
    }
    std::ranges::stable_sort(points, [&](std::size_t a, std::size_t b) { return most_[a] > most_[b]; });
    std::vector<std::size_t> kept;
    for (const std::size_t p : points) {
      if (std::ranges::none_of(kept, [&](std::size_t other) { return dominates(other, p); })) kept.push_back(p);
    }
    std::ranges::sort(kept);
    return kept;
  }

  using Amounts = std::map<std::array<int, 4>, double>;
  static Amounts amounts_of(const solver::Resource& point) {
    Amounts amounts;
    for (const auto& use : point.uses) amounts[{use.node, use.alternative, -1, -1}] += use.amount;
    for (const auto& use : point.pair_uses) amounts[{use.a, use.alternative_a, use.b, use.alternative_b}] += use.amount;
    return amounts;
  }
  // Amounts are never negative.
  bool dominates(std::size_t more, std::size_t less) const {
    if (live_.fixed[more] < live_.fixed[less]) return false;
    return std::ranges::all_of(amounts_[less], [&](const auto& use) {
      const auto found = amounts_[more].find(use.first);
      return found != amounts_[more].end() && found->second >= use.second;
    });
  }

  // The fastest that keep the limit.
  Result<Within> plans_within(std::int64_t limit) {
    Within result;
    std::int64_t target = limit / aligned(1) * aligned(1);
    for (int i = 0; i < kTightenings; ++i) {
      std::vector<solver::Resource> resources;
      std::vector<double> limits;
      for (const std::size_t p : binding(static_cast<double>(target))) {
        resources.push_back(live_.points[p]);
        limits.push_back(static_cast<double>(target) - live_.fixed[p]);
      }
      if (goal_.weight_limit) {
        resources.push_back(weights_);
        limits.push_back(static_cast<double>(*goal_.weight_limit - fastest_.bytes.constants));
      }
      CONVOY_TRY(const Within now, solve(resources, limits));
      if (i == 0) result = now;
      result.any = now.any && now.found.bytes.arena <= limit;
      result.found = now.found;
      if (now.any && now.found.bytes.arena < least_.bytes.arena) least_ = now.found;
      if (!now.any || result.any) break;
      target -= now.found.bytes.arena - limit;
    }
    return result;
  }

  Result<Within> solve(const std::vector<solver::Resource>& resources, const std::vector<double>& limits) const {
    Within result;
    const auto priced =
        solver::solve_with_budgets(layouts_.problem, resources, limits, {.solve = {.incumbent = least_.choice}});
    if (!priced.ok()) {
      if (priced.error().code != ErrorCode::unsupported) return priced.error();
      return result;  // bound_peak() proves it
    }
    result.seconds_bound = priced->lower_bound;
    std::vector<int> choice = priced->choice;
    for (std::size_t r = 0; r < resources.size(); ++r) {
      if (r >= priced->prices.size() || priced->prices[r] <= 0) continue;
      result.prices += fmt::format("{}{:.3g} us/MB at {}", result.prices.empty() ? "" : ", ", priced->prices[r] * 1e12,
                                   resources[r].name);
    }
    if (goal_.exact && !priced->optimal) {
      const auto exact = solver::solve_by_cbc(layouts_.problem, resources, limits);
      if (!exact.ok() && exact.error().code != ErrorCode::unsupported) return exact.error().within("--exact");
      result.impossible = !exact.ok();
      if (exact.ok() && exact->cost < priced->cost) choice = exact->choice;
      if (exact.ok() && exact->optimal) result.seconds_bound = exact->cost;
    }
    result.any = choice.size() == static_cast<std::size_t>(layouts_.problem.size());
    if (result.any) {
      CONVOY_TRY(result.found, measured(choice));
    }
    return result;
  }

  // Of all peaks. At each point the least that any plan has alive there bounds it; limits between that and the best
  // known are tried.
  Result<void> find_least() {
    CONVOY_CHECK(bound_peak());
    std::int64_t low = bound_;  // below it nothing was found
    for (int i = 0; i < kSearches; ++i) {
      const std::int64_t high = least_.bytes.arena;
      if (static_cast<double>(high - low) <= kNearEnough * static_cast<double>(high) && i > 0) break;
      const std::int64_t limit = i == 0 ? low : (low + high) / 2;
      CONVOY_TRY(const Within within, plans_within(limit));
      if (within.impossible) bound_ = std::max(bound_, aligned(limit + 1));
      if (!within.any) {
        low = limit;
        continue;
      }
      of_least_ = within;
      if (least_.bytes.arena <= bound_) break;
    }
    if (of_least_.any && of_least_.found.bytes.arena <= least_.bytes.arena) return {};
    CONVOY_TRY(of_least_, plans_within(least_.bytes.arena));
    if (!of_least_.any) of_least_.found = least_;
    return {};
  }

  // The least seconds over the least seconds plus weight times bytes over the least bytes. Plans whose bytes lie in an
  // interval are bounded by the seconds of all plans within its upper end and by its lower end; the interval that may
  // hold the best is halved until none can be better than what was found by more than a little.
  Result<GlobalForms> find_balance(double least_seconds) {
    CONVOY_CHECK(find_least());
    if (least_.bytes.arena > limit()) return not_kept();
    const double time_unit = fastest_.seconds, byte_unit = static_cast<double>(least_.bytes.arena) / goal_.weight;
    const auto score = [&](double seconds, std::int64_t bytes) {
      return seconds / time_unit + static_cast<double>(bytes) / byte_unit;
    };
    struct Interval {
      std::int64_t above, to;
      double seconds;  // at least, of plans within `to`
    };
    Within best;
    double least = std::numeric_limits<double>::infinity();
    const auto consider = [&](const Within& within) {
      if (!within.any || !keeps_weights(within.found)) return;
      const double own = score(within.found.seconds, within.found.bytes.arena);
      if (own >= least) return;
      least = own;
      best = within;
    };
    consider({.any = fastest_.bytes.arena <= limit(), .found = fastest_, .seconds_bound = least_seconds});
    consider(of_least_);
    const std::int64_t highest = std::min(limit(), fastest_.bytes.arena);
    std::vector<Interval> open{{bound_ - 1, highest, least_seconds}};
    const auto bound = [&](const Interval& interval) { return score(interval.seconds, interval.above); };
    double proved = least;
    for (int i = 0; i < 2 * kSearches; ++i) {
      const auto next = std::ranges::min_element(open, {}, bound);
      proved = next == open.end() ? least : std::min(least, bound(*next));
      if (least - proved <= kNearEnough * least) break;
      const Interval halved = *next;
      open.erase(next);
      const std::int64_t middle = (halved.above + halved.to) / 2;
      if (middle <= halved.above) continue;
      CONVOY_TRY(const Within within, plans_within(middle));
      consider(within);
      open.push_back({middle, halved.to, halved.seconds});
      if (!within.impossible) open.push_back({halved.above, middle, std::max(halved.seconds, within.seconds_bound)});
    }
    GlobalForms result = answer(best);
    result.proof +=
        fmt::format("; time=1,memory={:g}: {:.4g} and {:.4g} times the least, others add up to {:.2g}% less",
                    goal_.weight, best.found.seconds / time_unit,
                    static_cast<double>(best.found.bytes.arena) / static_cast<double>(least_.bytes.arena),
                    100 * (1 - proved / least));
    return result;
  }

  Result<void> bound_peak() {
    std::vector<std::size_t> order(live_.points.size());
    std::vector<double> now;
    for (std::size_t p = 0; p < order.size(); ++p) {
      now.push_back(live_.fixed[p] + solver::used(live_.points[p], fastest_.choice));
    }
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return now[a] > now[b]; });
    for (const std::size_t p : order) {
      if (now[p] <= static_cast<double>(bound_)) break;
      CONVOY_TRY(const solver::Solution least,
                 solver::solve(solver::priced(layouts_.problem, {live_.points[p]}, {1.0}, 0)));
      bound_ = std::max(bound_, static_cast<std::int64_t>(std::ceil(least.lower_bound + live_.fixed[p] - 0.5)));
    }
    return {};
  }

  Error not_kept() const {
    return {ErrorCode::unsupported,
            fmt::format("activation limit: no plan was found within {} bytes; the least that was found is {} bytes, "
                        "and no choice of layouts needs less than {}",
                        *goal_.activation_limit, least_.bytes.arena, bound_)};
  }

  GlobalForms answer(const Within& within) const {
    const Found& found = within.found;
    GlobalForms result{.forms = layouts_.chosen(found.choice), .seconds = found.seconds};
    result.proof = fmt::format("global: {:.4g} us by {} costs, {} of them measured; activations: {} bytes",
                               found.seconds * 1e6, layouts_.costs, layouts_.measured, found.bytes.arena);
    if (const std::int64_t gaps = found.bytes.arena - found.bytes.live; gaps > 0) {
      result.proof += fmt::format(", {} of them gaps", gaps);
    }
    if (goal_.least) {
      result.proof +=
          found.bytes.arena <= bound_ ? ", and no layouts need less" : fmt::format(", others need {} or more", bound_);
    } else if (goal_.activation_limit) {
      result.proof += fmt::format(" of {}", *goal_.activation_limit);
    }
    if (goal_.weight_limit) {
      result.proof += fmt::format("; weights: {} bytes of {}", found.weights, *goal_.weight_limit);
    }
    const std::string_view others = goal_.weight_limit ? "layouts and engines" : "layouts";
    const double gap = found.seconds - within.seconds_bound;
    result.proof += gap <= 1e-6 * found.seconds
                        ? fmt::format("; no other {} within the limits take less", others)
                        : fmt::format("; none within the limits takes less than {:.4g} us ({:.2g}% less)",
                                      within.seconds_bound * 1e6, 100 * gap / found.seconds);
    if (!within.prices.empty()) result.proof += " (prices: " + within.prices + ")";
    if (found.choice != fastest_.choice) {
      result.proof +=
          fmt::format("; without a limit: {:.4g} us, {} bytes", fastest_.seconds * 1e6, fastest_.bytes.arena);
      if (goal_.weight_limit) result.proof += fmt::format(", of weights {}", fastest_.weights);
    }
    return result;
  }

  const Graph& graph_;
  const LayoutProblem& layouts_;
  const MemoryGoal& goal_;
  const std::vector<int> exports_;
  const LiveBytes live_;
  solver::Resource weights_;  // that convolutions keep; nothing where they don't count
  std::vector<double> most_;  // by point: that any choice uses
  std::vector<Amounts> amounts_;
  Found fastest_, least_;  // least_: of the peaks that were found
  Within of_least_;
  std::int64_t bound_ = 0;  // of the peak, proved
};

}  // namespace

Result<GlobalForms> forms_within_memory(const Graph& graph, const LayoutProblem& layouts, const MemoryGoal& goal) {
  return MemorySearch(graph, layouts, goal).run();
}

}  // namespace convoy::network
