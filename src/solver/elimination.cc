#include "solver/elimination.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

namespace convoy::solver {
namespace {

constexpr int kMostAlternatives = 1 << 16;  // what a table's entry takes is kept in 16 bits

// Which nodes are neighbours, a row of bits a node.
class Neighbours {
 public:
  explicit Neighbours(const Graph& graph) : words_((graph.nodes.size() + 63) / 64), rows_(graph.nodes.size()) {
    for (const int node : graph.present()) {
      rows_[node].resize(words_);
      for (const int edge : graph.nodes[node].edges) insert(node, side(graph, edge, node).neighbour);
    }
  }

  void insert(int node, int other) { rows_[node][other / 64] |= std::uint64_t{1} << (other % 64); }

  std::vector<int> of(int node) const {
    std::vector<int> found;
    for (std::size_t word = 0; word < words_; ++word) {
      for (std::uint64_t bits = rows_[node][word]; bits != 0; bits &= bits - 1) {
        found.push_back(static_cast<int>(word * 64) + std::countr_zero(bits));
      }
    }
    return found;
  }

  // Its neighbours become neighbours of each other.
  void eliminate(int node) {
    for (const int a : of(node)) {
      for (std::size_t word = 0; word < words_; ++word) rows_[a][word] |= rows_[node][word];
      for (const int self_or_gone : {a, node}) {
        rows_[a][self_or_gone / 64] &= ~(std::uint64_t{1} << (self_or_gone % 64));
      }
    }
    rows_[node].assign(words_, 0);
  }

  // Edges that eliminating the node would add, twice.
  double fill_in(int node) const {
    const std::vector<int> neighbours = of(node);
    std::size_t missing = neighbours.size() * (neighbours.size() - 1);
    for (const int a : neighbours) {
      for (std::size_t word = 0; word < words_; ++word) missing -= std::popcount(rows_[a][word] & rows_[node][word]);
    }
    return static_cast<double>(missing);
  }

 private:
  std::size_t words_;
  std::vector<std::vector<std::uint64_t>> rows_;
};

double table_entries(const Graph& graph, const std::vector<int>& scope) {
  double entries = 1;
  for (const int node : scope) entries *= graph.live(node);
  return entries;
}

// Greedy by (score, other score, node).
template <class Score>
EliminationOrder greedy_order(const Graph& graph, Neighbours neighbours, bool scores_reach_further, Score score) {
  EliminationOrder order;
  std::set<std::tuple<double, double, int>> queue;
  std::vector<std::pair<double, double>> scores(graph.nodes.size());
  for (const int node : graph.present()) {
    scores[node] = score(neighbours, node);
    queue.insert({scores[node].first, scores[node].second, node});
  }
  while (!queue.empty()) {
    const int node = std::get<2>(*queue.begin());
    queue.erase(queue.begin());
    const std::vector<int> scope = neighbours.of(node);
    const bool countable = graph.live(node) <= kMostAlternatives;
    const double entries = countable ? table_entries(graph, scope) : kForbidden;
    order.nodes.push_back(node);
    order.width = std::max(order.width, static_cast<int>(scope.size()));
    order.entries += entries;
    order.work += entries * graph.live(node);
    neighbours.eliminate(node);
    std::set<int> changed(scope.begin(), scope.end());
    for (const int a : scope) {
      if (!scores_reach_further) break;
      for (const int b : neighbours.of(a)) changed.insert(b);
    }
    for (const int a : changed) {
      queue.erase({scores[a].first, scores[a].second, a});
      scores[a] = score(neighbours, a);
      queue.insert({scores[a].first, scores[a].second, a});
    }
  }
  return order;
}

// Costs over some nodes' alternatives, which are counted among those that are live.
struct Table {
  std::vector<int> scope;  // the first to be eliminated is last, where the stride is 1
  std::vector<double> costs;
};

// The sums of a bucket's tables, by the alternatives of the node that is eliminated, while the other nodes run through
// theirs, the last of `scope` fastest. What tables of slower nodes only sum to is kept.
class TableSums {
 public:
  TableSums(const Graph& graph, const std::vector<Table>& tables, const std::vector<int>& scope, int alternatives)
      : digits_(scope.size()),
        moves_(scope.size()),
        tables_of_(scope.size() + 1),
        sums_(scope.size() + 1, std::vector<double>(alternatives)) {
    for (const int node : scope) sizes_.push_back(graph.live(node));
    for (std::size_t t = 0; t < tables.size(); ++t) {
      costs_.push_back(tables[t].costs.data());
      std::ptrdiff_t stride = alternatives;
      std::size_t fastest = 0;  // of its digits, plus 1
      for (std::size_t at = tables[t].scope.size() - 1; at-- > 0;) {
        const int node = tables[t].scope[at];
        const std::size_t digit = std::find(scope.begin(), scope.end(), node) - scope.begin();
        moves_[digit].push_back({t, stride});
        fastest = std::max(fastest, digit + 1);
        stride *= graph.live(node);
      }
      tables_of_[fastest].push_back(t);
    }
    sum_from(0);
  }

  const std::vector<double>& now() const { return sums_.back(); }

  // Precondition: there is a next one.
  void next() {
    std::size_t digit = digits_.size() - 1;
    for (; digits_[digit] + 1 == sizes_[digit]; --digit) {
      for (const Move& move : moves_[digit]) costs_[move.table] -= move.stride * digits_[digit];
      digits_[digit] = 0;
    }
    ++digits_[digit];
    for (const Move& move : moves_[digit]) costs_[move.table] += move.stride;
    sum_from(digit + 1);
  }

 private:
  struct Move {
    std::size_t table = 0;
    std::ptrdiff_t stride = 0;
  };

  void sum_from(std::size_t level) {
    for (; level < sums_.size(); ++level) {
      std::vector<double>& sum = sums_[level];
      if (level == 0) {
        std::fill(sum.begin(), sum.end(), 0.0);
      } else {
        std::copy(sums_[level - 1].begin(), sums_[level - 1].end(), sum.begin());
      }
      for (const std::size_t t : tables_of_[level]) {
        const double* costs = costs_[t];
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += costs[i];
      }
    }
  }

  std::vector<int> sizes_, digits_;                  // by position in the scope
  std::vector<const double*> costs_;                 // by table: where it is now
  std::vector<std::vector<Move>> moves_;             // by digit
  std::vector<std::vector<std::size_t>> tables_of_;  // by their fastest digit, plus 1
  std::vector<std::vector<double>> sums_;            // of these and slower ones
};

class Elimination {
 public:
  Elimination(const Graph& graph, const EliminationOrder& order) : graph_(graph), position_(graph.nodes.size()) {
    for (std::size_t at = 0; at < order.nodes.size(); ++at) position_[order.nodes[at]] = static_cast<int>(at);
    buckets_.resize(order.nodes.size());
    for (const int node : order.nodes) add_tables_of(node);
  }

  EliminationResult run(const EliminationOrder& order) {
    EliminationResult result{.cost = graph_.constant, .choice = std::vector<int>(graph_.nodes.size(), -1)};
    std::vector<Decision> decisions;
    for (const int node : order.nodes) {
      decisions.push_back(eliminate(node));
      std::vector<Table>().swap(buckets_[position_[node]]);
      if (constant_ == kForbidden) return {};
    }
    result.cost += constant_;
    std::vector<int> chosen(graph_.nodes.size());  // counted among those that are live
    for (std::size_t at = decisions.size(); at-- > 0;) {
      std::size_t entry = 0;
      for (const int node : decisions[at].scope) entry = entry * graph_.live(node) + chosen[node];
      const int node = order.nodes[at];
      chosen[node] = decisions[at].best[entry];
      result.choice[node] = graph_.nodes[node].live[chosen[node]];
    }
    return result;
  }

 private:
  struct Decision {
    std::vector<int> scope;
    std::vector<std::uint16_t> best;
  };

  void add(Table table) {
    if (table.scope.empty()) {
      constant_ += table.costs[0];
    } else {
      buckets_[position_[table.scope.back()]].push_back(std::move(table));
    }
  }

  // Its costs, and its edges to nodes that are eliminated later.
  void add_tables_of(int node) {
    Table& own = buckets_[position_[node]].emplace_back();
    own.scope = {node};
    for (const int i : graph_.nodes[node].live) own.costs.push_back(graph_.nodes[node].costs[i]);
    for (const int edge : graph_.nodes[node].edges) {
      const ConstSide from = side(graph_, edge, node);
      if (position_[from.neighbour] < position_[node]) continue;
      Table table{.scope = {from.neighbour, node}, .costs = {}};
      for (const int j : graph_.nodes[from.neighbour].live) {
        for (const int i : graph_.nodes[node].live) table.costs.push_back(from.at(i, j));
      }
      add(std::move(table));
    }
  }

  // Adds the table that the node leaves; what it takes for each of that table's entries.
  Decision eliminate(int node) {
    const std::vector<Table>& inputs = buckets_[position_[node]];
    const std::vector<int> scope = scope_of(inputs);
    std::size_t entries = 1;
    for (const int other : scope) entries *= graph_.live(other);
    Table table{.scope = scope, .costs = std::vector<double>(entries)};
    Decision decision{.scope = scope, .best = std::vector<std::uint16_t>(entries)};

    TableSums sums(graph_, inputs, scope, graph_.live(node));
    for (std::size_t entry = 0; entry < entries; ++entry) {
      const auto least = std::min_element(sums.now().begin(), sums.now().end());
      table.costs[entry] = *least;
      decision.best[entry] = static_cast<std::uint16_t>(least - sums.now().begin());
      if (entry + 1 < entries) sums.next();
    }
    add(std::move(table));
    return decision;
  }

  // The other nodes of a bucket's tables, the last to be eliminated first.
  std::vector<int> scope_of(const std::vector<Table>& inputs) const {
    std::vector<int> scope;
    for (const Table& input : inputs) scope.insert(scope.end(), input.scope.begin(), input.scope.end() - 1);
    std::sort(scope.begin(), scope.end(), [&](int a, int b) { return position_[a] > position_[b]; });
    scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
    return scope;
  }

  const Graph& graph_;
  std::vector<int> position_;                // by node: in the order
  std::vector<std::vector<Table>> buckets_;  // by position: tables whose first node to be eliminated this is
  double constant_ = 0;
};

}  // namespace

EliminationOrder order_elimination(const Graph& graph, bool quick) {
  const Neighbours neighbours(graph);
  const auto least_table = [&](const Neighbours& now, int node) {
    return std::pair(table_entries(graph, now.of(node)), 0.0);
  };
  const auto least_fill_in = [&](const Neighbours& now, int node) {
    return std::pair(now.fill_in(node), table_entries(graph, now.of(node)));
  };
  EliminationOrder by_table = greedy_order(graph, neighbours, false, least_table);
  if (quick) return by_table;
  EliminationOrder by_fill_in = greedy_order(graph, neighbours, true, least_fill_in);
  return by_fill_in.work < by_table.work ? by_fill_in : by_table;
}

EliminationResult eliminate(const Graph& graph, const EliminationOrder& order) {
  return Elimination(graph, order).run(order);
}

}  // namespace convoy::solver
