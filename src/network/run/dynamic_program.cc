#include "network/run/dynamic_program.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/shared_bytes.h"
#include "network/graph/infer.h"
#include "network/graph/pass.h"
#include "network/run/control_step.h"
#include "network/run/islands.h"

namespace convoy::network {
namespace {

constexpr int kMostNamesInRow = 8;

// Passes that do something before shapes are known.
Result<void> simplify(Graph& graph, const PrepareSettings& settings) {
  const PassContext context{*settings.team, settings.options.cpu};
  const auto& skip = settings.options.skip_passes;
  for (const std::string_view name : {"topological_order", "control_flow", "identity_removal", "constant_folding",
                                      "dead_node_removal", "topological_order"}) {
    if (std::ranges::find(skip, name) != skip.end()) continue;
    const auto all = passes();
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](const Pass& pass) { return pass.name == name; });
    CONVOY_CHECK(last->run(graph, context));
    CONVOY_CHECK(check(graph));
  }
  return {};
}

// A network's initializers may lie in memory that the program outlives.
Result<void> own_constants(Graph& graph) {
  for (Value& value : graph.values) {
    if (!value.constant) continue;
    CONVOY_TRY(value.constant, owned(*std::move(value.constant)));
  }
  for (Node& node : graph.nodes) {
    for (std::shared_ptr<const Graph>& body : node.bodies) {
      Graph own = *body;
      CONVOY_CHECK(own_constants(own));
      body = std::make_shared<const Graph>(std::move(own));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DynamicProgram>> DynamicProgram::make(Graph graph, const PrepareSettings& settings) {
  CONVOY_CHECK(simplify(graph, settings));
  CONVOY_CHECK(own_constants(graph));
  std::unique_ptr<DynamicProgram> program(new DynamicProgram(std::move(graph), settings));
  CONVOY_CHECK(program->make_units());
  program->find_last_reads();
  return program;
}

Result<void> DynamicProgram::make_units() {
  const auto readers = graph_.readers();
  for (const std::vector<int>& nodes : islands_of(graph_)) {
    if (is_island(graph_, nodes)) {
      add_island(nodes, readers);
    } else {
      CONVOY_CHECK(add_node(graph_.nodes[nodes.front()]));
    }
  }
  return {};
}

Result<void> DynamicProgram::add_node(const Node& node) {
  std::vector<const HostTensor*> constants;
  for (const int input : node.inputs) constants.push_back(graph_.constant_of(input));
  const bool is_operator = node.bodies.empty();
  std::unique_ptr<DynamicStep> step;
  if (is_operator) {
    step = make_operator_step(node, std::move(constants), settings_);
  } else {
    CONVOY_TRY(step, make_control_step(node, constants, settings_));
  }
  add_unit(std::move(step), node.inputs, node.outputs, node.sources, is_operator);
  return {};
}

void DynamicProgram::add_island(std::span<const int> nodes, const std::vector<std::vector<int>>& readers) {
  Graph island;
  island.name = graph_.name;
  std::map<int, int> there;  // by value
  std::vector<int> inputs, outputs;
  std::vector<bool> by_value;
  std::vector<std::string> names;
  for (const int n : nodes) {
    Node node = graph_.nodes[n];
    const std::vector<int> deciding = value_inputs(node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const int value = node.inputs[i];
      if (value == kAbsent) continue;
      const auto [entry, is_new] = there.try_emplace(value, kAbsent);
      if (is_new) {
        const Value& known = graph_.values[value];
        entry->second =
            known.constant ? island.add_constant(known.name, *known.constant) : island.add_value(known.name);
        if (!known.constant) {
          inputs.push_back(value);
          by_value.push_back(false);
          island.inputs.push_back(entry->second);
        }
      }
      node.inputs[i] = entry->second;
      const auto at = std::ranges::find(inputs, value);
      if (at != inputs.end() && std::ranges::find(deciding, static_cast<int>(i)) != deciding.end()) {
        by_value[static_cast<std::size_t>(at - inputs.begin())] = true;
      }
    }
    for (int& output : node.outputs) {
      if (output == kAbsent) continue;
      const int value = output;
      output = there[value] = island.add_value(graph_.values[value].name);
      const bool read_outside = std::ranges::any_of(
          readers[value], [&](int reader) { return std::ranges::find(nodes, reader) == nodes.end(); });
      if (!read_outside && !graph_.is_output(value)) continue;
      outputs.push_back(value);
      island.outputs.push_back(output);
    }
    names.insert(names.end(), node.sources.begin(), node.sources.end());
    island.nodes.push_back(std::move(node));
  }
  add_unit(make_session_step(std::move(island), std::move(by_value), settings_), std::move(inputs), std::move(outputs),
           names, false);
}

void DynamicProgram::add_unit(std::unique_ptr<DynamicStep> step, std::vector<int> inputs, std::vector<int> outputs,
                              const std::vector<std::string>& names, bool is_operator) {
  if (!is_operator || !last_is_operators_) {
    NetworkStep row;
    row.kind = "op";
    row.implementation = step->implementation();
    row.threads = settings_.options.threads;
    rows_.push_back(std::move(row));
    names_in_row_ = 0;
  }
  last_is_operators_ = is_operator;
  for (const std::string& name : names) {
    if (names_in_row_++ > kMostNamesInRow) continue;
    rows_.back().nodes += (names_in_row_ == 1 ? "" : "+") + (names_in_row_ > kMostNamesInRow ? "..." : name);
  }
  units_.push_back({std::move(step), std::move(inputs), std::move(outputs), {}, static_cast<int>(rows_.size()) - 1});
}

void DynamicProgram::find_last_reads() {
  std::vector<bool> read(graph_.values.size(), false);
  for (const int output : graph_.outputs) read[output] = true;
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    for (const auto* values : {&unit->inputs, &unit->outputs}) {
      for (const int value : *values) {
        if (value == kAbsent || read[value]) continue;
        read[value] = true;
        unit->done_with.push_back(value);
      }
    }
  }
}

Result<std::vector<HostTensor>> DynamicProgram::run(std::span<const HostTensor* const> inputs,
                                                    const DynamicContext& context, std::span<double> seconds) const {
  using Clock = std::chrono::steady_clock;
  std::vector<HostTensor> made(graph_.values.size());
  std::vector<const HostTensor*> values(graph_.values.size(), nullptr);
  for (std::size_t id = 0; id < values.size(); ++id) values[id] = graph_.constant_of(static_cast<int>(id));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor*& value = values[graph_.inputs[i]];
    if (value == nullptr) value = inputs[i];
  }
  std::vector<const HostTensor*> given;
  for (const Unit& unit : units_) {
    const auto start = seconds.empty() ? Clock::time_point() : Clock::now();
    given.clear();
    for (const int value : unit.inputs) given.push_back(value == kAbsent ? nullptr : values[value]);
    CONVOY_TRY(std::vector<HostTensor> outputs, unit.step->run(given, context));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int value = unit.outputs[i];
      if (value == kAbsent) continue;
      made[value] = std::move(outputs[i]);
      values[value] = &made[value];
    }
    for (const int value : unit.done_with) made[value].data.reset();
    if (!seconds.empty()) seconds[unit.row] += std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::vector<HostTensor> outputs;
  for (const int value : graph_.outputs) outputs.push_back(*values[value]);
  return outputs;
}

}  // namespace convoy::network
