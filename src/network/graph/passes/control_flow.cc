// If and Loop whose conditions are known once sizes are: the branch that is taken, and the body once for each trip,
// take the node's place. What depends on data is decided when it runs (network/run/control_step.h); what is the same in
// all trips of such a Loop is computed before it.
#include <algorithm>
#include <map>

#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "network/graph/sequences.h"
#include "network/graph/splice.h"

namespace convoy::network {
namespace {

// A Loop of more trips, or whose trips have more nodes together, stays one.
constexpr std::int64_t kMostTrips = 1024;
constexpr std::size_t kMostNodes = 4096;
constexpr int kMostTripsTogether = 1 << 14;  // of all Loops: nested ones multiply

std::optional<bool> known_condition(const Graph& graph, int value) {
  const auto number = scalar_constant(graph, value);
  return number ? std::optional(*number != 0) : std::nullopt;
}

// What is known of the values that a trip is given.
void tell(const Graph& from, int value, Graph& body, int input) {
  if (value == kAbsent) return;
  body.values[input].known = from.values[value].known;
  body.values[input].desc = from.values[value].desc;
  body.values[input].constant = from.values[value].constant;
}

// Before anything is folded: random numbers follow from their node's name, and each trip draws its own.
void rename(Graph& trip, const std::string& prefix) {
  for (Node& node : trip.nodes) {
    node.desc.name.insert(0, prefix);
    for (std::string& source : node.sources) source.insert(0, prefix);
  }
  for (Value& value : trip.values) value.name.insert(0, prefix);
}

Result<void> give(Graph& body, std::size_t input, DataType type, std::int64_t number) {
  const NetworkValue& declared = body.input_info[input];
  const Dims dims(declared.known_rank ? declared.dims.size() : 0, 1);
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, dims)));
  if (type == DataType::s64) {
    *tensor.as<std::int64_t>() = number;
  } else {
    *tensor.as<std::uint8_t>() = number != 0;
  }
  Value& value = body.values[body.inputs[input]];
  value.known = true;
  value.desc = tensor.desc;
  value.constant = std::move(tensor);
  return {};
}

HostTensor first_axis() {
  static constexpr std::int64_t kZero = 0;
  return {TensorDesc::packed(DataType::s64, {1}),
          {std::shared_ptr<std::byte>(), reinterpret_cast<std::byte*>(const_cast<std::int64_t*>(&kZero))}};
}

class ControlFlow {
 public:
  ControlFlow(Graph& graph, const PassContext& context, int& trips_left)
      : graph_(graph), context_(context), trips_left_(trips_left) {}

  Result<int> run() {
    const auto has_bodies = [](const Node& node) { return !node.bodies.empty(); };
    int changes = 0;
    while (std::ranges::any_of(graph_.nodes, has_bodies)) {
      CONVOY_CHECK(topological_order(graph_, context_));
      CONVOY_CHECK(identity_removal(graph_, context_));
      CONVOY_CHECK(constant_folding_but_dequantize(graph_, context_));
      CONVOY_TRY(const int from_lists, resolve_sequences(graph_));  // a Loop over a list has a trip for each tensor
      std::vector<Node> nodes = std::exchange(graph_.nodes, {});
      std::vector<std::pair<int, int>> replaced;
      bool changed = from_lists > 0;
      changes += from_lists;
      for (Node& node : nodes) {
        CONVOY_TRY(const auto outputs, spliced(node));
        if (!outputs) {
          if (node.desc.op == "Loop") {
            CONVOY_TRY(const bool hoisted, hoist(node, replaced));
            changed |= hoisted;
            changes += hoisted;
          }
          graph_.nodes.push_back(std::move(node));
          continue;
        }
        changed = true;
        ++changes;
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
          if (node.outputs[i] != kAbsent) replaced.emplace_back(node.outputs[i], (*outputs)[i]);
        }
      }
      // A value that takes another's place may itself be replaced: by a node before it, so its replacement comes first.
      for (std::size_t i = 0; i < replaced.size(); ++i) {
        const auto [from, to] = replaced[i];
        graph_.replace_uses(from, to);
        for (std::size_t later = i + 1; later < replaced.size(); ++later) {
          if (replaced[later].second == from) replaced[later].second = to;
        }
      }
      if (!changed) break;
    }
    return changes;
  }

 private:
  // The values that are the node's outputs, its body's nodes being in the graph now; nothing: it stays.
  Result<std::optional<std::vector<int>>> spliced(const Node& node) {
    if (node.desc.op == "If") {
      const auto condition = known_condition(graph_, node.inputs[0]);
      if (!condition) return std::optional<std::vector<int>>();
      return std::optional(splice(*node.bodies[*condition ? 0 : 1], std::span(node.inputs).subspan(1),
                                  node.desc.name + "/", graph_, graph_.nodes));
    }
    if (node.desc.op != "Loop") return std::optional<std::vector<int>>();
    CONVOY_TRY(const auto trips, trips_of(node));
    if (!trips) return std::optional<std::vector<int>>();
    return std::optional(unrolled(node, *trips));
  }

  // The values that a Loop hands from trip to trip.
  static std::size_t carried_by(const Node& node) {
    return node.inputs.size() - 2 - static_cast<std::size_t>(node.captured);
  }

  // The body for each trip, folded with what is known in it; nothing where the number of trips is not known, or large.
  Result<std::optional<std::vector<Graph>>> trips_of(const Node& node) {
    const std::optional<std::vector<Graph>> stays;
    const auto limit = small_integers(graph_, node.inputs[0], 1);
    if (limit && limit->size() != 1) return stays;
    auto condition = node.inputs[1] == kAbsent ? true : known_condition(graph_, node.inputs[1]);
    if ((node.inputs[0] != kAbsent && !limit) || !condition) return stays;
    const std::size_t carried = carried_by(node);
    std::vector<Graph> trips;
    std::size_t nodes = 0;
    for (std::int64_t trip = 0; (!limit || trip < limit->front()) && *condition; ++trip) {
      if (trip == kMostTrips || nodes > kMostNodes || trips_left_ == 0) return stays;
      --trips_left_;
      Graph here = *node.bodies[0];
      rename(here, node.desc.name + "/" + std::to_string(trip) + "/");
      CONVOY_CHECK(give(here, 0, DataType::s64, trip));
      CONVOY_CHECK(give(here, 1, DataType::boolean, 1));
      for (std::size_t i = 2; i < node.inputs.size(); ++i) {
        const bool handed_on = i < 2 + carried && trip > 0;
        const Graph& from = handed_on ? trips.back() : graph_;
        tell(from, handed_on ? from.outputs[i - 1] : node.inputs[i], here, here.inputs[i]);
      }
      CONVOY_CHECK(ControlFlow(here, context_, trips_left_).run());
      CONVOY_CHECK(topological_order(here, context_));
      CONVOY_CHECK(identity_removal(here, context_));
      CONVOY_CHECK(constant_folding_but_dequantize(here, context_));
      condition = known_condition(here, here.outputs[0]);
      if (!condition && limit && trip + 1 == limit->front()) condition = false;  // the last trip in any case
      if (!condition) return stays;
      nodes += here.nodes.size();
      trips.push_back(std::move(here));
    }
    // Of what size each trip's result would have been is found when it runs.
    if (trips.empty() && node.outputs.size() > carried) return stays;
    return std::optional(std::move(trips));
  }

  // Whether the node can't fail whatever its inputs' values are: it may run even if there is no trip.
  static bool takes_any_values(const Node& node) {
    static constexpr std::string_view kCheckValues[] = {
        "GRU",    "Gather", "GatherElements",  "GatherND", "LSTM",    "MaxRoiPool",      "MaxUnpool",
        "OneHot", "RNN",    "ReverseSequence", "RoiAlign", "Scatter", "ScatterElements", "ScatterND"};
    return node.bodies.empty() && node.desc.domain.empty() &&
           std::ranges::find(kCheckValues, node.desc.op) == std::end(kCheckValues);
  }

  // What a Loop hands on as it got it is a value around the body that the body reads.
  static void share_unchanged(Node& loop, Graph& body, std::vector<std::pair<int, int>>& replaced) {
    const auto drop = [](auto& list, std::size_t at) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(at)); };
    for (std::size_t c = carried_by(loop); c-- > 0;) {
      const std::size_t in = 2 + c, out = 1 + c;
      const int value = body.inputs[in];
      if (body.outputs[out] != value) continue;
      if (loop.outputs[c] != kAbsent) replaced.emplace_back(loop.outputs[c], loop.inputs[in]);
      loop.inputs.push_back(loop.inputs[in]);
      drop(loop.inputs, in);
      drop(loop.outputs, c);
      ++loop.captured;
      body.inputs.push_back(value);
      body.input_info.push_back({.name = body.values[value].name, .known_rank = false});
      drop(body.inputs, in);
      drop(body.input_info, in);
      drop(body.outputs, out);
      drop(body.output_info, out);
    }
  }

  // Nodes of a Loop's body that read only what is around it go before it: the graph's nodes end with the Loop's.
  Result<bool> hoist(Node& loop, std::vector<std::pair<int, int>>& replaced) {
    Graph body = *loop.bodies[0];
    CONVOY_CHECK(topological_order(body, context_));
    CONVOY_CHECK(identity_removal(body, context_));
    const int captured = loop.captured;
    share_unchanged(loop, body, replaced);
    std::map<int, int> outside;  // by value of the body
    for (std::size_t i = loop.inputs.size() - static_cast<std::size_t>(loop.captured); i < loop.inputs.size(); ++i)
      outside.emplace(body.inputs[i], loop.inputs[i]);
    const auto is_outside = [&](int value) { return outside.contains(value); };
    const auto is_constant = [&](int value) {
      return body.constant_of(value) != nullptr ||
             (is_outside(value) && graph_.constant_of(outside.at(value)) != nullptr);
    };
    const auto is_same = [&](int value) { return value == kAbsent || is_outside(value) || is_constant(value); };
    std::vector<int> results;
    for (Node& node : body.nodes) {
      const auto decides = [&](int input) { return is_constant(node.inputs[input]); };
      if (!std::ranges::any_of(node.inputs, is_outside) || !std::ranges::all_of(node.inputs, is_same)) continue;
      if (!takes_any_values(node) || !std::ranges::all_of(value_inputs(node), decides)) continue;
      Node there = node;
      there.desc.name = loop.desc.name + "/" + node.desc.name;
      for (int& input : there.inputs) {
        if (input == kAbsent) continue;
        const auto [known, is_new] = outside.try_emplace(input, kAbsent);
        if (is_new) known->second = graph_.add_constant(body.values[input].name, *body.constant_of(input));
        input = known->second;
      }
      for (int& output : there.outputs) {
        if (output != kAbsent) output = graph_.add_value(loop.desc.name + "/" + body.values[output].name);
      }
      // Nor by its inputs' sizes.
      const auto sizes = infer_node(graph_, there);
      if (!sizes.ok() || *sizes == Knowledge::unknown) continue;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] == kAbsent) continue;
        results.push_back(node.outputs[i]);
        outside[node.outputs[i]] = there.outputs[i];
      }
      graph_.nodes.push_back(std::move(there));
      node.erased = true;
    }
    if (results.empty() && captured == loop.captured) return false;
    body.sweep();
    const auto readers = body.readers();
    for (const int value : results) {
      if (readers[value].empty() && !body.is_output(value)) continue;
      loop.inputs.push_back(outside.at(value));
      ++loop.captured;
      body.inputs.push_back(value);
      body.input_info.push_back({.name = body.values[value].name, .known_rank = false});
    }
    loop.bodies[0] = std::make_shared<const Graph>(std::move(body));
    return true;
  }

  std::vector<int> unrolled(const Node& node, const std::vector<Graph>& trips) {
    const std::size_t carried = carried_by(node);
    std::vector<int> inputs = node.inputs;
    inputs[0] = inputs[1] = kAbsent;  // constants of each trip
    std::vector<std::vector<int>> scanned(node.outputs.size() - carried);
    for (std::size_t trip = 0; trip < trips.size(); ++trip) {
      const std::vector<int> made = splice(trips[trip], inputs, "", graph_, graph_.nodes);
      std::copy_n(made.begin() + 1, carried, inputs.begin() + 2);
      for (std::size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(in_a_row(made[1 + carried + k], node));
    }
    std::vector<int> outputs(inputs.begin() + 2, inputs.begin() + 2 + static_cast<std::ptrdiff_t>(carried));
    for (const std::vector<int>& each : scanned) {
      outputs.push_back(add_node(node, "Concat", each, {{"axis", std::int64_t{0}}}));
    }
    return outputs;
  }

  // One of a scan output's rows.
  int in_a_row(int value, const Node& loop) {
    if (loop.desc.opset < 13) {
      return add_node(loop, "Unsqueeze", {value}, {{"axes", std::vector<std::int64_t>{0}}});
    }
    if (first_axis_ == kAbsent) first_axis_ = graph_.add_constant("axis 0", first_axis());
    return add_node(loop, "Unsqueeze", {value, first_axis_}, {});
  }

  int add_node(const Node& loop, const std::string& op, std::vector<int> inputs,
               std::map<std::string, ops::Attribute> attributes) {
    Node node;
    node.desc = {
        .op = op, .domain = {}, .name = loop.desc.name, .opset = loop.desc.opset, .attributes = std::move(attributes)};
    node.sources = loop.sources;
    node.inputs = std::move(inputs);
    node.outputs = {graph_.add_value(loop.desc.name + "/" + op)};
    graph_.nodes.push_back(node);
    return node.outputs[0];
  }

  Graph& graph_;
  const PassContext& context_;
  int& trips_left_;
  int first_axis_ = kAbsent;  // a constant
};

}  // namespace

Result<int> control_flow(Graph& graph, const PassContext& context) {
  int trips_left = kMostTripsTogether;
  return ControlFlow(graph, context, trips_left).run();
}

}  // namespace convoy::network
