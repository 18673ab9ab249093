#include "network/assign/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "solver/resources.h"
#include "solver/solver.h"

namespace convoy::network {
namespace {

// What plans take in energy: watts times their seconds, and what `excess` says. Conversions, and what has not been
// measured, count as the mean power of all that has.
struct Energy {
  double watts = 0;
  solver::Resource excess{.name = "energy", .uses = {}, .pair_uses = {}};
  int measured = 0;  // alternatives

  double joules(double seconds, const std::vector<int>& choice) const {
    return watts * seconds + solver::used(excess, choice);
  }
};

Result<Energy> energy_of(const LayoutProblem& layouts, const Objective& objective) {
  double joules = 0, seconds = 0;
  Energy energy;
  const auto each = [&](auto visit) {
    for (std::size_t n = 0; n < layouts.joules.size(); ++n) {
      for (std::size_t i = 0; layouts.numbers[n] >= 0 && i < layouts.joules[n].size(); ++i) {
        const int alternative = static_cast<int>(i);
        if (const auto& known = layouts.joules[n][i])
          visit(layouts.numbers[n], alternative, *known, layouts.seconds[n][i]);
      }
    }
  };
  each([&](int, int, double known, double takes) {
    joules += known;
    seconds += takes;
    ++energy.measured;
  });
  if (!(joules > 0) || !(seconds > 0)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("objective '{}': no step's energy is known; --budget measures it, where the processor's "
                             "counter can be read",
                             print(objective))};
  }
  energy.watts = joules / seconds;
  each([&](int node, int alternative, double known, double takes) {
    energy.excess.uses.push_back({node, alternative, known - energy.watts * takes});
  });
  return energy;
}

}  // namespace

bool knows_energy(const LayoutProblem& layouts) {
  return std::ranges::any_of(layouts.joules, [](const auto& of_node) {
    return std::ranges::any_of(of_node, [](const std::optional<double>& known) { return known.has_value(); });
  });
}

Result<GlobalForms> forms_by_energy(const LayoutProblem& layouts, const Objective& objective) {
  CONVOY_TRY(const Energy energy, energy_of(layouts, objective));
  const auto weighed = [&](double of_time, double of_energy) {
    return solver::solve(
        solver::priced(layouts.problem, {energy.excess}, {of_energy}, of_time + of_energy * energy.watts));
  };
  CONVOY_TRY(const solver::Solution coolest, weighed(0, 1));
  CONVOY_TRY(const solver::Solution fastest, weighed(1, 0));
  CONVOY_TRY(const solver::Solution solution, weighed(objective.time / fastest.cost, objective.energy / coolest.cost));
  GlobalForms result{.forms = layouts.chosen(solution.choice), .seconds = layouts.problem.cost(solution.choice)};
  result.proof = fmt::format(
      "global: {:.4g} us by {} costs, {} of them measured; {:.4g} J by {} measured energies, the others at {:.3g} W; ",
      result.seconds * 1e6, layouts.costs, layouts.measured, energy.joules(result.seconds, solution.choice),
      energy.measured, energy.watts);
  result.proof += solution.optimal ? fmt::format("no other layouts and fusions are better for {}", print(objective))
                                   : fmt::format("others may be better for {} by {:.2g}%", print(objective),
                                                 100 * (1 - solution.lower_bound / solution.cost));
  result.proof += fmt::format("; the fastest takes {:.4g} us and {:.4g} J, the least energy is {:.4g} J",
                              fastest.cost * 1e6, energy.joules(fastest.cost, fastest.choice), coolest.cost);
  return result;
}

}  // namespace convoy::network
