// Transposes to channels last move behind what gives the same with the channels first, and meet Transposes back. What
// they stood between becomes neighbours, which other passes fuse:
//   Conv, Transpose(0,2,3,1), Add, Relu, Pad, Transpose(0,3,1,2), Conv  ->  Conv, Add, Relu, Pad, Conv
// Exporters of frameworks that compute channels last write such networks. A value of rank r that is known to be
// Transpose(0,2,..,r-1,1) of another one has that as its twin; nodes are written anew for the twins of what they read.
// Values that are connected so are moved together, where no more Transposes remain than there were.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "network/graph/conv_node.h"
#include "network/graph/pass.h"
#include "network/graph/passes/channels_first.h"

namespace convoy::network {
namespace {

class TransposeSinking {
 public:
  TransposeSinking(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        producers_(graph.producers()),
        region_(graph.values.size(), kAbsent),
        accounts_(graph.values.size()),
        needed_(graph.values.size()),
        twins_(graph.values.size(), kAbsent) {}

  Result<int> run() {
    const int count = static_cast<int>(graph_.nodes.size());
    for (int n = 0; n < count; ++n) CONVOY_CHECK(look_at(n));
    for (const int output : graph_.outputs) need(output);
    for (std::size_t v = 0; v < needed_.size(); ++v) {
      if (needed_[v] && !moves_nothing(graph_.values[v].desc.dims)) ++account_of(static_cast<int>(v)).after;
    }
    int changes = 0;
    for (int n = 0; n < count; ++n) {
      CONVOY_TRY(const bool changed, rewrite(n));
      changes += changed ? 1 : 0;
    }
    if (changes == 0) return 0;
    graph_.sweep();
    CONVOY_CHECK(topological_order(graph_, context_));
    return changes;
  }

 private:
  // Of the values with twins that are moved together: the Transposes there are, those that will be, and whether a
  // convolution gets a neighbour that it may absorb.
  struct Account {
    int before = 0;
    int after = 0;
    bool absorbs = false;
  };

  int root(int value) {
    while (region_[value] != value) value = region_[value] = region_[region_[value]];
    return value;
  }
  Account& account_of(int value) { return accounts_[root(value)]; }
  bool has_twin(int value) const {  // twins themselves, which are added, have none
    return value != kAbsent && value < static_cast<int>(region_.size()) && region_[value] != kAbsent;
  }
  void unite(int one, int other) {
    one = root(one);
    if (!has_twin(other)) region_[other] = other;
    other = root(other);
    if (one == other) return;
    region_[other] = one;
    accounts_[one].before += accounts_[other].before;
    accounts_[one].absorbs |= accounts_[other].absorbs;
  }
  void need(int value) {
    if (has_twin(value)) needed_[value] = true;
  }
  bool is_known(int value) const { return value != kAbsent && graph_.values[value].known; }
  int rank_of(int value) const { return graph_.values[value].desc.rank(); }

  static std::optional<std::vector<std::int64_t>> order_of(const Node& node, int rank) {
    if (node.desc.op != "Transpose" || !node.desc.domain.empty()) return std::nullopt;
    std::vector<std::int64_t> order(static_cast<std::size_t>(rank));
    std::iota(order.rbegin(), order.rend(), 0);
    const auto given = node.desc.integers("perm", order);
    return given.ok() ? std::optional(*given) : std::nullopt;
  }

  Result<void> look_at(int n) {
    const Node& node = graph_.nodes[n];
    const int x = node.inputs.empty() ? kAbsent : node.inputs[0];
    const auto order = is_known(x) ? order_of(node, rank_of(x)) : std::nullopt;
    if (order && has_twin(x)) {
      back_.push_back(n);
      if (*order == first_order(rank_of(x)) && !moves_nothing(graph_.values[x].desc.dims)) ++account_of(x).before;
      return {};
    }
    if (order && rank_of(x) >= 3 && *order == last_order(rank_of(x)) && is_known(node.outputs[0])) {
      const int y = node.outputs[0];
      region_[y] = y;
      sources_.push_back(n);
      if (!moves_nothing(graph_.values[y].desc.dims)) ++account_of(y).before;
      return {};
    }
    CONVOY_TRY(auto moved, channels_first(graph_, node, [this](int input) { return has_twin(input); }));
    if (!moved) {
      for (const int input : node.inputs) need(input);
      return {};
    }
    const int first = *std::ranges::find_if(node.inputs, [&](int input) { return has_twin(input); });
    for (const int input : node.inputs) {
      if (!has_twin(input)) continue;
      unite(first, input);
      if (is_of_conv(input)) account_of(input).absorbs = true;
    }
    if (moved->outputs_too) {
      for (const int output : node.outputs) unite(first, output);
    }
    moved_.emplace(n, std::move(*moved));
    return {};
  }

  // Whether a Transpose of what a convolution computes made it.
  bool is_of_conv(int value) const {
    if (!std::ranges::binary_search(sources_, producers_[value])) return false;
    const int maker = producers_[graph_.nodes[producers_[value]].inputs[0]];
    return maker != kAbsent && conv_form(graph_.nodes[maker]) != nullptr;
  }

  bool is_accepted(int value) {
    const Account& account = account_of(value);
    return account.after < account.before || (account.after == account.before && account.absorbs);
  }

  Result<bool> rewrite(int n) {
    if (std::ranges::binary_search(sources_, n)) {
      const int y = graph_.nodes[n].outputs[0];
      if (!is_accepted(y)) return false;
      twins_[y] = graph_.nodes[n].inputs[0];
      graph_.nodes[n].erased = !needed_[y];
      return true;
    }
    if (std::ranges::binary_search(back_, n)) {
      Node& node = graph_.nodes[n];
      const int x = node.inputs[0], y = node.outputs[0];
      if (!is_accepted(x)) return false;
      std::vector<std::int64_t> order = *order_of(node, rank_of(x));
      for (std::int64_t& dim : order) dim = last_order(rank_of(x))[dim];
      node.inputs[0] = twins_[x];
      node.desc.attributes["perm"] = order;
      if (!std::ranges::is_sorted(order)) return true;
      node.desc.op = "Identity";  // a graph's output keeps its maker
      node.desc.attributes.clear();
      if (graph_.is_output(y)) return true;
      node.erased = true;
      graph_.replace_uses(y, twins_[x]);
      return true;
    }
    const auto found = moved_.find(n);
    if (found == moved_.end()) return false;
    const int twinned = *std::ranges::find_if(graph_.nodes[n].inputs, [&](int input) { return has_twin(input); });
    if (!is_accepted(twinned)) return false;
    CONVOY_CHECK(move(n, rank_of(twinned), found->second));
    return true;
  }

  Result<void> move(int n, int rank, ChannelsFirst& moved) {
    const Node before = graph_.nodes[n];  // a copy: nodes and values move when some are added
    std::vector<int> inputs = before.inputs, outputs = before.outputs;
    for (int& input : inputs) {
      if (has_twin(input)) input = twins_[input];
    }
    for (auto& [input, constant] : moved.constants) {
      if (static_cast<int>(inputs.size()) <= input) inputs.resize(static_cast<std::size_t>(input) + 1, kAbsent);
      inputs[input] = graph_.add_constant(before.desc.name + ".channels_first", std::move(constant));
    }
    for (const int input : moved.transposed) {
      inputs[input] = twin_of(before.inputs[input]);
      add_transpose(graph_, before, before.inputs[input], inputs[input], first_order(rank));
    }
    if (moved.outputs_too) {
      for (int& output : outputs) {
        const int was = output;
        twins_[was] = output = twin_of(was);
        if (needed_[was]) add_transpose(graph_, before, output, was, last_order(rank));
      }
    }
    Node& node = graph_.nodes[n];
    node.desc = std::move(moved.desc);
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    return {};
  }

  int twin_of(int value) {
    const int twin = graph_.add_value(graph_.values[value].name + ".channels_first");
    graph_.values[twin].known = true;
    graph_.values[twin].desc =
        TensorDesc::packed(graph_.values[value].desc.type, channels_first(graph_.values[value].desc.dims));
    return twin;
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<int> producers_;
  std::vector<int> region_;  // the values that are moved together, as a forest; kAbsent: it has no twin
  std::vector<Account> accounts_;
  std::vector<bool> needed_;  // as they are, by something that does not move
  std::vector<int> twins_;
  std::vector<int> sources_, back_;  // Transposes that make a value with a twin, and that read one; ascending
  std::map<int, ChannelsFirst> moved_;
};

}  // namespace

Result<int> transpose_sinking(Graph& graph, const PassContext& context) {
  return TransposeSinking(graph, context).run();
}

}  // namespace convoy::network
