#include "network/run/dynamic_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <mutex>

#include "base/fork_mutex.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "ops/computed.h"

namespace convoy::network {
namespace {

// What a plan or a session was made for: the shapes that reached it, and the values that decide.
class Occasion {
 public:
  // Copies the values.
  static Result<Occasion> of(std::span<const HostTensor* const> inputs, const std::vector<bool>& decides) {
    Occasion made;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      HostTensor& kept = made.inputs_.emplace_back();
      if (inputs[i] == nullptr) continue;
      kept.desc = inputs[i]->desc;
      if (!decides[i]) continue;
      CONVOY_TRY(kept, converted(*inputs[i], inputs[i]->desc));
    }
    return made;
  }

  bool is(std::span<const HostTensor* const> inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const HostTensor& kept = inputs_[i];
      if (inputs[i] == nullptr) continue;
      if (!(inputs[i]->desc == kept.desc)) return false;
      const auto bytes = static_cast<std::size_t>(kept.desc.bytes());
      if (kept.data && std::memcmp(inputs[i]->data.get(), kept.data.get(), bytes) != 0) return false;
    }
    return true;
  }

  const HostTensor& input(std::size_t i) const { return inputs_[i]; }

 private:
  std::vector<HostTensor> inputs_;  // with data where the value decides
};

// The last of what was made, each for its occasion: the latest first.
template <class Made>
class Kept {
 public:
  std::shared_ptr<Made> find(std::span<const HostTensor* const> inputs) {
    const std::lock_guard lock(fork_mutex());
    const auto found = std::ranges::find_if(list_, [&](const auto& each) { return each->occasion.is(inputs); });
    if (found == list_.end()) return nullptr;
    list_.splice(list_.begin(), list_, found);
    return list_.front();
  }

  // `drop(list)`: whether there are too many.
  template <class Drop>
  void keep(std::shared_ptr<Made> made, const Drop& drop) {
    std::list<std::shared_ptr<Made>> dropped;  // they end when the mutex is free again
    const std::lock_guard lock(fork_mutex());
    list_.push_front(std::move(made));
    while (list_.size() > 1 && drop(list_)) dropped.splice(dropped.end(), list_, std::prev(list_.end()));
  }

 private:
  std::list<std::shared_ptr<Made>> list_;  // fork_mutex guards it
};

class OperatorStep final : public DynamicStep {
 public:
  OperatorStep(const Node& node, std::vector<const HostTensor*> constants, const PrepareSettings& settings)
      : node_(node),
        op_(*ops::find_operator(node.desc.domain, node.desc.op)),
        computed_(dynamic_cast<const ops::ComputedOperator*>(&op_)),
        constants_(std::move(constants)),
        decides_(node.inputs.size(), false) {
    request_.threads = settings.options.threads;
    request_.cpu = settings.options.cpu;
    for (const int input : value_inputs(node)) decides_[input] = constants_[input] == nullptr;
  }

  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs,
                                      const DynamicContext& context) override {
    auto done = computed_ != nullptr ? compute(inputs, context) : run_planned(inputs, context);
    return done.ok() ? std::move(done) : done.error().within(describe(node_));
  }

  std::string implementation() const override { return "planned at run time"; }

 private:
  struct Planned {
    Occasion occasion;
    std::vector<TensorDesc> outputs;
    std::unique_ptr<ops::OpPlan> plan;
  };
  static constexpr std::size_t kMostPlans = 4;
  // Values that are more than sizes and the like are others each time.
  static constexpr std::int64_t kMostDecidingBytes = 1024;

  Result<std::vector<HostTensor>> compute(std::span<const HostTensor* const> inputs, const DynamicContext& context) {
    const auto allocate = [&](TensorDesc desc) { return context.buffers.allocate(std::move(desc)); };
    CONVOY_TRY(std::vector<HostTensor> outputs, computed_->compute(node_.desc, known(inputs), allocate));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (node_.outputs[i] == kAbsent) outputs[i] = {};
    }
    return outputs;
  }

  Result<std::vector<HostTensor>> run_planned(std::span<const HostTensor* const> inputs,
                                              const DynamicContext& context) {
    CONVOY_TRY(const std::shared_ptr<Planned> planned, planned_for(inputs));
    std::vector<HostTensor> outputs(node_.outputs.size());
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const HostTensor* input : inputs) in.push_back(input == nullptr ? nullptr : input->data.get());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (node_.outputs[i] != kAbsent) {
        CONVOY_TRY(outputs[i], context.buffers.allocate(planned->outputs[i]));
      }
      out.push_back(outputs[i].data.get());
    }
    const std::size_t workspace_bytes = planned->plan->workspace_bytes();
    const auto workspace = workspace_bytes == 0 ? nullptr : allocate_aligned(workspace_bytes);
    if (workspace_bytes > 0 && !workspace) {
      return Error{ErrorCode::out_of_memory, fmt::format("no memory for a workspace of {} bytes", workspace_bytes)};
    }
    CONVOY_CHECK(planned->plan->execute(in, out, {context.team, workspace.get(), workspace_bytes}));
    return outputs;
  }

  Result<std::shared_ptr<Planned>> planned_for(std::span<const HostTensor* const> inputs) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != nullptr && decides_[i]) bytes += inputs[i]->desc.bytes();
    }
    const bool keeps = bytes <= kMostDecidingBytes;
    if (keeps) {
      if (auto kept = kept_.find(inputs)) return kept;
    }
    auto planned = std::make_shared<Planned>();
    if (keeps) {
      CONVOY_TRY(planned->occasion, Occasion::of(inputs, decides_));
    }
    std::vector<ops::Input> given = known(inputs);
    for (std::size_t i = 0; keeps && i < inputs.size(); ++i) {  // as long as the plan
      if (inputs[i] != nullptr && decides_[i]) given[i].constant = planned->occasion.input(i).data.get();
    }
    CONVOY_TRY(planned->outputs, inferred_outputs(node_, given));
    CONVOY_TRY(planned->plan, op_.plan(node_.desc, given, planned->outputs, request_));
    if (keeps) kept_.keep(planned, [](const auto& list) { return list.size() > kMostPlans; });
    return planned;
  }

  std::vector<ops::Input> known(std::span<const HostTensor* const> inputs) const {
    std::vector<ops::Input> known(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      known[i] = {.present = true, .desc = inputs[i]->desc};
      const HostTensor* value = constants_[i] != nullptr ? constants_[i] : decides_[i] ? inputs[i] : nullptr;
      if (value != nullptr) known[i].constant = value->data.get();
    }
    return known;
  }

  const Node node_;
  const ops::Operator& op_;
  const ops::ComputedOperator* computed_;  // null: of another kind
  const std::vector<const HostTensor*> constants_;
  std::vector<bool> decides_;
  PlanRequest request_;
  Kept<Planned> kept_;
};

class SessionStep final : public DynamicStep {
 public:
  SessionStep(Graph graph, std::vector<bool> by_value, const PrepareSettings& settings)
      : graph_(std::move(graph)), by_value_(std::move(by_value)), settings_(settings) {
    if (!settings.options.team) settings_.team = nullptr;  // each run has one of its own
    for (const Node& node : graph_.nodes) convolutions_ += conv_form(node) != nullptr;
  }

  Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs, const DynamicContext&) override {
    CONVOY_TRY(const std::shared_ptr<Prepared> prepared, prepared_for(inputs));
    std::vector<HostTensor> given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!by_value_[i]) given.push_back(*inputs[i]);
    }
    return prepared->session->run(given);
  }

  std::string implementation() const override {
    return fmt::format("{} nodes, {} convolutions, prepared at run time", graph_.nodes.size(), convolutions_);
  }

 private:
  struct Prepared {
    Occasion occasion;
    std::unique_ptr<Session> session;
    std::size_t bytes() const {
      return session->weight_bytes() + session->activation_bytes() + session->workspace_bytes();
    }
  };
  static constexpr std::size_t kMostSessions = 64, kMostBytes = std::size_t{256} << 20;

  Result<std::shared_ptr<Prepared>> prepared_for(std::span<const HostTensor* const> inputs) {
    if (auto kept = kept_.find(inputs)) return kept;
    auto prepared = std::make_shared<Prepared>();
    CONVOY_TRY(prepared->occasion, Occasion::of(inputs, by_value_));
    Graph graph = graph_;
    graph.inputs.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int id = graph_.inputs[i];
      Value& value = graph.values[id];
      value.known = true;
      value.desc = inputs[i]->desc;
      if (by_value_[i]) {
        value.constant = prepared->occasion.input(i);
      } else {
        graph.inputs.push_back(id);
      }
    }
    CONVOY_TRY(prepared->session, prepare_graph(std::move(graph), settings_));
    kept_.keep(prepared, [](const auto& list) {
      std::size_t bytes = 0;
      for (const auto& each : list) bytes += each->bytes();
      return list.size() > kMostSessions || bytes > kMostBytes;
    });
    return prepared;
  }

  const Graph graph_;  // its inputs in the order of the step's
  const std::vector<bool> by_value_;
  PrepareSettings settings_;
  int convolutions_ = 0;
  Kept<Prepared> kept_;
};

}  // namespace

std::unique_ptr<DynamicStep> make_operator_step(const Node& node, std::vector<const HostTensor*> constants,
                                                const PrepareSettings& settings) {
  return std::make_unique<OperatorStep>(node, std::move(constants), settings);
}

std::unique_ptr<DynamicStep> make_session_step(Graph graph, std::vector<bool> by_value,
                                               const PrepareSettings& settings) {
  return std::make_unique<SessionStep>(std::move(graph), std::move(by_value), settings);
}

}  // namespace convoy::network
