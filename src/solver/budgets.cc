#include "solver/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "solver/repair.h"

namespace convoy::solver {
namespace {

class Budgets {
 public:
  Budgets(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits,
          const BudgetOptions& options)
      : problem_(problem),
        resources_(resources),
        limits_(limits),
        options_(options),
        repair_(problem, resources, limits),
        start_(monotonic_seconds()) {}

  Result<BudgetSolution> run() {
    best_.lower_bound = -kForbidden;
    if (!options_.solve.incumbent.empty()) {
      if (auto valid = problem_.check(options_.solve.incumbent); !valid) return valid.error().within("incumbent");
      consider(options_.solve.incumbent);
    }
    const std::vector<double> free(resources_.size());
    CONVOY_TRY(const Point unlimited, solve_at(free));
    const bool kept = keeps(resources_, limits_, unlimited.choice);
    if (!kept) {
      Point least;
      for (std::size_t r = 0; r < resources_.size(); ++r) {
        if (unlimited.used[r] <= limits_[r]) continue;
        CONVOY_TRY(least, solve_for_least(r));
      }
      last_ = unlimited.choice;
      priced_ = 0;
      auto done = resources_.size() == 1 ? search_line(unlimited, least) : follow_subgradients(unlimited);
      if (!done) return done.error();
    }
    finish();
    return std::move(best_);
  }

 private:
  struct Point {
    std::vector<int> choice;
    double cost = 0;
    std::vector<double> used;
  };

  Point point(std::vector<int> choice) const {
    Point found{.choice = std::move(choice), .cost = 0, .used = {}};
    found.cost = problem_.cost(found.choice);
    for (const Resource& resource : resources_) found.used.push_back(used(resource, found.choice));
    return found;
  }

  // The best assignment at these prices, and what follows from it for bound and cost.
  Result<Point> solve_at(const std::vector<double>& prices) {
    Options options = options_.solve;
    if (!last_.empty()) options.incumbent = last_;
    CONVOY_TRY(const Solution solution, solve(priced(problem_, resources_, prices), options));
    ++best_.problems;
    ++priced_;
    last_ = solution.choice;
    double bound = solution.lower_bound;
    for (std::size_t r = 0; r < prices.size(); ++r) {
      if (prices[r] > 0) bound -= prices[r] * limits_[r];
    }
    if (bound > best_.lower_bound) {
      best_.lower_bound = bound;
      best_.prices = prices;
    }
    consider(solution.choice);
    return point(solution.choice);
  }

  // Keeps it, repaired and improved, where it is the best so far.
  void consider(std::vector<int> choice) {
    const bool kept = keeps(resources_, limits_, choice);
    for (const bool improved : {false, true}) {
      if (improved ? !repair_.improve(choice) : !kept) continue;
      if (const double cost = problem_.cost(choice); cost < best_.cost) {
        best_.cost = cost;
        best_.choice = choice;
      }
    }
  }

  // The least that can be used of one resource. Error: that is more than its limit.
  Result<Point> solve_for_least(std::size_t r) {
    std::vector<double> prices(resources_.size());
    prices[r] = 1;
    CONVOY_TRY(const Solution solution, solve(priced(problem_, resources_, prices, 0), options_.solve));
    ++best_.problems;
    if (solution.lower_bound > limits_[r]) {
      return Error{ErrorCode::unsupported, fmt::format("the budget of '{}' can't be kept: at least {} is used, not {}",
                                                       resources_[r].name, solution.lower_bound, limits_[r])};
    }
    consider(solution.choice);
    return point(solution.choice);
  }

  bool gap_closed() const { return best_.cost - best_.lower_bound <= tolerance(); }
  double tolerance() const {
    return best_.choice.empty()
               ? 0
               : std::max(options_.gap * std::abs(best_.cost), 1e-10 * problem_.magnitude(best_.choice));
  }

  Result<void> search_line(Point beyond, Point within) {
    while (priced_ < options_.iterations && !gap_closed() && within.used[0] < beyond.used[0]) {
      // Price at which both cost the same; a solution below that line is a better end of it.
      const double price = (within.cost - beyond.cost) / (beyond.used[0] - within.used[0]);
      if (price <= 0) break;
      CONVOY_TRY(Point next, solve_at({price}));
      const double on_line = beyond.cost + price * beyond.used[0];
      const double rounding = 1e-12 * (std::abs(beyond.cost) + price * std::abs(beyond.used[0]));
      if (next.cost + price * next.used[0] >= on_line - rounding) break;
      (next.used[0] > limits_[0] ? beyond : within) = std::move(next);
    }
    return {};
  }

  Result<void> follow_subgradients(Point now) {
    // Prices are of shares of what is used without limits, so that bytes and errors weigh the same.
    std::vector<double> scales;
    for (std::size_t r = 0; r < resources_.size(); ++r) {
      scales.push_back(std::max(std::abs(now.used[r]), std::abs(limits_[r])));
      if (!(scales[r] > 0) || !std::isfinite(scales[r])) scales[r] = 1;
    }
    std::vector<double> prices(resources_.size());
    double step = 1;
    int without_progress = 0;
    while (priced_ < options_.iterations && !gap_closed()) {
      std::vector<double> beyond(resources_.size());  // the subgradient: what is used beyond each limit
      double length = 0;
      for (std::size_t r = 0; r < beyond.size(); ++r) {
        beyond[r] = std::isfinite(limits_[r]) ? (now.used[r] - limits_[r]) / scales[r] : 0;
        if (prices[r] > 0 || beyond[r] > 0) length += beyond[r] * beyond[r];
      }
      if (length == 0) break;  // the limits are kept, and those with a price exactly
      // To where the bound would be the best cost known (Polyak), were it linear.
      const double bound = best_.lower_bound;
      const double target = best_.choice.empty() ? bound + 0.1 * std::abs(bound) : best_.cost;
      const double move = step * (target - bound) / length;
      for (std::size_t r = 0; r < prices.size(); ++r) {
        prices[r] = std::max(0.0, prices[r] + move * beyond[r] / scales[r]);
      }
      CONVOY_TRY(now, solve_at(prices));
      without_progress = best_.lower_bound > bound + 1e-4 * (target - bound) ? 0 : without_progress + 1;
      if (without_progress == 4) {
        step /= 2;
        without_progress = 0;
        prices = best_.prices;
        if (step < 1e-3) break;
      }
    }
    return {};
  }

  void finish() {
    if (!best_.choice.empty()) {
      best_.optimal = gap_closed();
      best_.lower_bound = std::min(best_.lower_bound, best_.cost);
      for (const Resource& resource : resources_) best_.used.push_back(used(resource, best_.choice));
    }
    best_.seconds = monotonic_seconds() - start_;
  }

  const Problem& problem_;
  const std::vector<Resource>& resources_;
  const std::vector<double>& limits_;
  const BudgetOptions& options_;
  Repair repair_;
  double start_;
  BudgetSolution best_;
  std::vector<int> last_;
  int priced_ = 0;  // problems
};

}  // namespace

Result<BudgetSolution> solve_with_budgets(const Problem& problem, const std::vector<Resource>& resources,
                                          const std::vector<double>& limits, const BudgetOptions& options) {
  CONVOY_CHECK(check(problem, resources, limits));
  return Budgets(problem, resources, limits, options).run();
}

}  // namespace convoy::solver
