#include "solver/lp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <utility>

namespace convoy::solver {
namespace {

// The power of two that makes the largest lie in [512, 1024): exact, as multiplying by it is.
int exponent_for(double largest) { return largest > 0 ? 9 - std::ilogb(largest) : 0; }

std::string x(int node, int alternative) { return fmt::format("x_{}_{}", node, alternative); }

// A row or the objective; lines stay short, since readers limit them.
class Terms {
 public:
  void add(double factor, const std::string& variable) {
    if (factor == 0) return;
    text_ += fmt::format("{}{} {} {}", terms_ > 0 && terms_ % 8 == 0 ? "\n  " : " ", std::signbit(factor) ? "-" : "+",
                         std::abs(factor), variable);
    ++terms_;
  }
  bool empty() const { return terms_ == 0; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int terms_ = 0;
};

class Writer {
 public:
  Writer(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits)
      : problem_(problem), resources_(resources), limits_(limits) {
    for (const Problem::Edge& edge : problem.edges()) pairs_[{edge.a, edge.b}] = &edge;
    for (const Resource& resource : resources) {
      for (const Resource::PairUse& use : resource.pair_uses) pairs_.insert({std::minmax(use.a, use.b), nullptr});
    }
  }

  void write(std::ostream& stream) const {
    write_objective(stream);
    stream << "Subject To\n";
    for (int node = 0; node < problem_.size(); ++node) {
      Terms row;
      for (const int i : allowed(node)) row.add(1, x(node, i));
      stream << fmt::format("node_{}:{} = 1\n", node, row.text());
    }
    for (const auto& [ends, edge] : pairs_) write_edge(ends.first, ends.second, edge, stream);
    for (std::size_t r = 0; r < resources_.size(); ++r) write_limit(r, stream);
    stream << "Bounds\n";
    for_each_pair([&](int a, int b, int i, int j, double) { stream << fmt::format(" 0 <= {} <= 1\n", y(a, b, i, j)); });
    stream << "Binaries\n";
    for (int node = 0; node < problem_.size(); ++node) {
      for (const int i : allowed(node)) stream << ' ' << x(node, i) << '\n';
    }
    stream << "End\n";
  }

 private:
  static std::string y(int a, int b, int i, int j) { return fmt::format("y_{}_{}_{}_{}", a, b, i, j); }

  std::vector<int> allowed(int node) const {
    std::vector<int> found;
    for (int i = 0; i < problem_.alternatives(node); ++i) {
      if (problem_.nodes()[node].costs[i] != kForbidden) found.push_back(i);
    }
    return found;
  }

  double pair_cost(const Problem::Edge* edge, int i, int j) const {
    return edge == nullptr ? 0 : edge->costs[i * problem_.alternatives(edge->b) + j];
  }

  template <class Function>
  void for_each_pair(Function function) const {
    for (const auto& [ends, edge] : pairs_) {
      for (const int i : allowed(ends.first)) {
        for (const int j : allowed(ends.second)) {
          const double cost = pair_cost(edge, i, j);
          if (cost != kForbidden) function(ends.first, ends.second, i, j, cost);
        }
      }
    }
  }

  void write_objective(std::ostream& stream) const {
    double largest = 0;
    for (int node = 0; node < problem_.size(); ++node) {
      for (const int i : allowed(node)) largest = std::max(largest, std::abs(problem_.nodes()[node].costs[i]));
    }
    for_each_pair([&](int, int, int, int, double cost) { largest = std::max(largest, std::abs(cost)); });
    const int exponent = exponent_for(largest);
    Terms sum;
    for (int node = 0; node < problem_.size(); ++node) {
      for (const int i : allowed(node)) sum.add(std::ldexp(problem_.nodes()[node].costs[i], exponent), x(node, i));
    }
    for_each_pair([&](int a, int b, int i, int j, double cost) { sum.add(std::ldexp(cost, exponent), y(a, b, i, j)); });
    stream << fmt::format("\\ costs are multiplied by 2^{}\nMinimize\n", exponent);
    stream << " cost:" << (sum.empty() ? " 0 " + x(0, allowed(0).front()) : sum.text()) << '\n';
  }

  // Each alternative of an end is taken as often as it is in pairs.
  void write_edge(int a, int b, const Problem::Edge* edge, std::ostream& stream) const {
    const auto write_end = [&](int end, int other) {
      for (const int own : allowed(end)) {
        Terms row;
        for (const int theirs : allowed(other)) {
          const int i = end == a ? own : theirs, j = end == a ? theirs : own;
          if (pair_cost(edge, i, j) != kForbidden) row.add(1, y(a, b, i, j));
        }
        row.add(-1, x(end, own));
        stream << fmt::format("edge_{}_{}_{}:{} = 0\n", end, other, own, row.text());
      }
    };
    write_end(a, b);
    write_end(b, a);
  }

  void write_limit(std::size_t r, std::ostream& stream) const {
    if (std::isinf(limits_[r])) return;
    std::map<std::string, double> amounts;  // that are listed several times add up
    for (const Resource::Use& use : resources_[r].uses) {
      if (problem_.nodes()[use.node].costs[use.alternative] != kForbidden)
        amounts[x(use.node, use.alternative)] += use.amount;
    }
    for (Resource::PairUse use : resources_[r].pair_uses) {
      if (use.a > use.b) {
        std::swap(use.a, use.b);
        std::swap(use.alternative_a, use.alternative_b);
      }
      const int i = use.alternative_a, j = use.alternative_b;
      const double cost = problem_.nodes()[use.a].costs[i] + problem_.nodes()[use.b].costs[j] +
                          pair_cost(pairs_.at({use.a, use.b}), i, j);
      if (cost != kForbidden) amounts[y(use.a, use.b, i, j)] += use.amount;
    }
    double largest = 0;
    for (const auto& [variable, amount] : amounts) largest = std::max(largest, std::abs(amount));
    const int exponent = exponent_for(largest);
    Terms row;
    for (const auto& [variable, amount] : amounts) row.add(std::ldexp(amount, exponent), variable);
    if (row.empty()) row.add(1e-9, x(0, allowed(0).front()));  // a row must have a variable
    stream << fmt::format("\\ '{}' is multiplied by 2^{}\n", one_line(resources_[r].name), exponent);
    stream << fmt::format("limit_{}:{} <= {}\n", r, row.text(), std::ldexp(limits_[r], exponent));
  }

  static std::string one_line(std::string name) {
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    return name;
  }

  const Problem& problem_;
  const std::vector<Resource>& resources_;
  const std::vector<double>& limits_;
  std::map<std::pair<int, int>, const Problem::Edge*> pairs_;  // nodes with y; null: no edge, only uses
};

// "x_3_1": 3 and 1.
bool parse_x(const std::string& name, int& node, int& alternative) {
  std::istringstream text(name);
  char letter = 0, first = 0, second = 0;
  return text >> letter >> first >> node >> second >> alternative && text.peek() == EOF && letter == 'x' &&
         first == '_' && second == '_';
}

}  // namespace

void write_lp(const Problem& problem, const std::vector<Resource>& resources, const std::vector<double>& limits,
              std::ostream& stream) {
  Writer(problem, resources, limits).write(stream);
}

Result<IlpSolution> read_cbc_solution(const Problem& problem, const std::vector<Resource>& resources,
                                      const std::vector<double>& limits, std::istream& stream) {
  const auto corrupt = [](std::string what) { return Error{ErrorCode::corrupt, "CBC's solution: " + std::move(what)}; };
  std::string line;
  if (!std::getline(stream, line)) return corrupt("empty");
  IlpSolution solution;
  const std::size_t dash = line.find(" - objective value");
  if (dash == std::string::npos) return corrupt(fmt::format("line 1 has no status: '{}'", line));
  solution.status = line.substr(0, dash);
  if (solution.status.find("nfeasible") != std::string::npos) {
    return Error{ErrorCode::unsupported,
                 fmt::format("no assignment is allowed within the limits (CBC: {})", solution.status)};
  }
  solution.optimal = solution.status == "Optimal";
  if (solution.status.find("no integer solution") != std::string::npos) return solution;

  std::vector<int> choice(problem.size(), -1);
  for (int number = 2; std::getline(stream, line); ++number) {
    std::istringstream text(line);
    std::string index, name;
    double value = 0;
    if (text >> std::ws && text.peek() == '*') text >> index;  // "**": CBC finds it infeasible
    if (!(text >> index >> name >> value)) return corrupt(fmt::format("line {}: '{}'", number, line));
    int node = 0, alternative = 0;
    if (name[0] != 'x' || value < 0.5) continue;
    if (!parse_x(name, node, alternative) || node < 0 || node >= problem.size() || choice[node] >= 0) {
      return corrupt(fmt::format("line {}: '{}'", number, name));
    }
    choice[node] = alternative;
  }
  if (auto valid = problem.check(choice); !valid) {
    if (!solution.optimal) return solution;
    return corrupt(valid.error().message);
  }
  solution.cost = problem.cost(choice);
  if (solution.cost == kForbidden) return corrupt("takes what is forbidden");
  for (std::size_t r = 0; r < resources.size(); ++r) {
    const double amount = used(resources[r], choice);
    if (amount > limits[r] + 1e-6 * std::abs(limits[r])) {
      return Error{ErrorCode::wrong_result,
                   fmt::format("CBC's solution uses {} of '{}', not {}", amount, resources[r].name, limits[r])};
    }
  }
  solution.choice = std::move(choice);
  return solution;
}

}  // namespace convoy::solver
