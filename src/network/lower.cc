#include "network/lower.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "network/conv_node.h"
#include "convert/convert.h"
#include "network/infer.h"
#include "network/layout.h"
#include "network/steps.h"

namespace convoy::network {
namespace {

std::int64_t physical_memory() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
}

std::string shape_text(const TensorDesc& desc) {
  std::string text = to_string(desc.dims);
  if (desc.rank() >= 3) text += " " + std::string(name_of(desc.layout(), desc.spatial_dims()));
  return text;
}

class Lowering {
 public:
  Lowering(Graph& graph, const std::vector<Layout>& layouts, std::span<const int> exports, Selector& selector)
      : graph_(graph), layouts_(layouts), exports_(exports.begin(), exports.end()), selector_(selector) {
    reads_left_.assign(graph.values.size(), 0);
    for (const Node& node : graph.nodes) {
      for (int input : node.inputs) {
        if (input != kAbsent) ++reads_left_[input];
      }
    }
    // The first time a value is a graph output it can be written there; kAbsent: it is none.
    output_of_.assign(graph.values.size(), kAbsent);
    for (std::size_t k = graph.outputs.size(); k-- > 0;) output_of_[graph.outputs[k]] = static_cast<int>(k);
  }

  Result<Lowered> run() {
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const int id = graph_.inputs[i];
      add_slot(id, Slot{graph_.values[id].desc, Home::input, static_cast<int>(i), {}});
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_static(graph_, node) || !is_convolution(node)) continue;
      CONVOY_TRY(const ConvNode conv, conv_problem(node, inputs_of(graph_, node)));
      const HostTensor* weights = graph_.constant_of(node.inputs[conv_weight_input(node.desc)]);
      selector_.announce(in_layout(selector_.allowed(conv.problem), layouts_[n]), node.desc.name,
                         weights != nullptr ? weights->data.get() : nullptr);
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (is_static(graph_, node)) {
        CONVOY_CHECK(is_convolution(node) ? lower_conv(node, layouts_[n]) : lower_op(node, layouts_[n]));
        release_inputs(node);
      }
    }
    for (int value : exports_) result_.export_slots.push_back(slot_of(value, Layout::nchw));
    CONVOY_CHECK(lower_outputs());
    CONVOY_CHECK(finish());
    return std::move(result_);
  }

 private:
  Program& program() { return result_.program; }
  int step_count() const { return static_cast<int>(result_.program.steps.size()); }

  int add_slot(int value, Slot slot) {
    const Layout layout = slot.desc.is_packed(Layout::nchw) ? Layout::nchw : Layout::nhwc;
    program().slots.push_back(std::move(slot));
    const int index = static_cast<int>(program().slots.size()) - 1;
    slots_.emplace(std::pair{value, layout}, index);
    return index;
  }

  int new_storage(std::int64_t bytes) {
    program().storages.push_back({bytes, step_count(), step_count()});
    return static_cast<int>(program().storages.size()) - 1;
  }

  bool is_export(int value) const { return std::find(exports_.begin(), exports_.end(), value) != exports_.end(); }

  // The slot that holds a value in a layout, with a conversion step where it is only there in another one.
  int slot_of(int value, Layout layout) {
    const Value& v = graph_.values[value];
    if (v.constant) {
      const auto found = slots_.find({value, Layout::nchw});
      if (found != slots_.end()) return found->second;
      return add_slot(value, Slot{v.desc, Home::constant, 0, *v.constant});
    }
    if (!has_layout(v)) layout = Layout::nchw;
    for (Layout have : {layout, Layout::nchw, Layout::nhwc}) {
      const auto found = slots_.find({value, have});
      if (found == slots_.end()) continue;
      if (have == layout || same_bytes(v.desc.dims, have, layout)) return found->second;
      return add_conversion(value, found->second, layout);
    }
    return kAbsent;  // not reached: nodes come after the nodes they read
  }

  int add_conversion(int value, int from, Layout layout) {
    const TensorDesc& source = program().slots[from].desc;
    const TensorDesc target = source.with_layout(layout);
    ProgramStep step;
    step.step = make_convert_step(source, target);
    step.info.kind = "convert";
    step.info.nodes = graph_.values[value].name;
    step.info.implementation = "convert " + std::string(name_of(source.layout(), source.spatial_dims())) + " to " +
                               std::string(name_of(target.layout(), target.spatial_dims()));
    step.info.output_shape = shape_text(target);
    step.inputs = {from};
    Slot slot{target, Home::arena, 0, {}};
    const int output = output_of_[value];
    if (layout == Layout::nchw && output != kAbsent) {
      slot.home = Home::output;
      slot.index = output;
      written_outputs_[output] = true;
    } else {
      slot.index = new_storage(target.bytes());
    }
    const int index = add_slot(value, std::move(slot));
    step.outputs = {index};
    program().steps.push_back(std::move(step));
    return index;
  }

  // The slot a step writes a value to: the graph output itself where the layouts agree, else the arena.
  int output_slot(int value, const TensorDesc& desc, int in_place_slot) {
    Slot slot{desc, Home::arena, 0, {}};
    const int output = value == kAbsent ? kAbsent : output_of_[value];
    if (output != kAbsent && same_bytes(desc.dims, desc.layout(), Layout::nchw)) {
      slot.home = Home::output;
      slot.index = output;
      written_outputs_[output] = true;
    } else if (in_place_slot != kAbsent) {
      slot.index = program().slots[in_place_slot].index;
    } else {
      slot.index = new_storage(desc.bytes());
    }
    if (value != kAbsent) return add_slot(value, std::move(slot));
    program().slots.push_back(std::move(slot));
    return static_cast<int>(program().slots.size()) - 1;
  }

  TensorDesc desc_in(int value, Layout layout) const {
    const Value& v = graph_.values[value];
    return has_layout(v) ? v.desc.with_layout(layout) : v.desc;
  }

  Result<void> lower_conv(const Node& node, Layout layout) {
    CONVOY_TRY(ConvNode conv, conv_problem(node, inputs_of(graph_, node)));
    conv.problem = selector_.allowed(std::move(conv.problem));
    ConvProblem problem = in_layout(conv.problem, layout);
    const auto input = [&](int index) {
      return index >= 0 && index < static_cast<int>(node.inputs.size()) ? node.inputs[index] : kAbsent;
    };
    const int weights = input(conv_weight_input(node.desc));
    const int bias = problem.epilogue.bias ? input(conv_bias_input(node)) : kAbsent;
    const HostTensor* constant_weights = graph_.constant_of(weights);
    const void* weight_data = constant_weights ? constant_weights->data.get() : nullptr;
    auto chosen = selector_.choose(problem, node.desc.name, weight_data);
    if (!chosen.ok()) {
      // An engine that a rule names may take the other layout only: then this node works in that one.
      const Layout other = layout == Layout::nchw ? Layout::nhwc : Layout::nchw;
      auto chosen_other = selector_.choose(in_layout(conv.problem, other), node.desc.name, weight_data);
      if (!chosen_other.ok()) return chosen.error();
      layout = other;
      problem = in_layout(conv.problem, layout);
      chosen = std::move(chosen_other);
    }
    Selection& selection = *chosen;

    ProgramStep step;
    step.inputs.assign(kConvStepInputs, kAbsent);
    step.inputs[0] = slot_of(input(conv_data_input(node.desc)), layout);
    if (constant_weights == nullptr) step.inputs[1] = slot_of(weights, Layout::nchw);
    DataType bias_type = bias_type_of(problem);
    if (const HostTensor* constant = graph_.constant_of(bias)) {
      CONVOY_TRY(HostTensor ready, converted(*constant, TensorDesc::packed(bias_type, constant->desc.dims)));
      program().slots.push_back(Slot{ready.desc, Home::constant, 0, std::move(ready)});
      step.inputs[2] = static_cast<int>(program().slots.size()) - 1;
    } else if (bias != kAbsent) {
      step.inputs[2] = slot_of(bias, Layout::nchw);
      bias_type = graph_.values[bias].desc.type;
    }
    if (const int z = input(node.fusion.residual); z != kAbsent) {
      CONVOY_TRY(step.inputs[3], residual_slot(z, layout));
    }
    if (const int slopes = input(node.fusion.slopes); slopes != kAbsent) step.inputs[4] = slot_of(slopes, Layout::nchw);
    if (const int scales = input(node.fusion.scales); scales != kAbsent) step.inputs[5] = slot_of(scales, Layout::nchw);
    if (problem.x_zero_given) step.inputs[6] = slot_of(input(2), Layout::nchw);

    if (selection.rule.empty()) step.switchable = selector_.switchable(problem);
    if (step.switchable >= 0) {
      CONVOY_TRY(auto plans, selector_.plans(step.switchable, weight_data));
      selection = {plans[0]->candidate(), "given"};
      step.info.implementation = print(plans[0]->candidate());
      for (auto& plan : plans) {
        auto own = make_conv_step(std::move(plan), conv, bias_type);
        (step.step == nullptr ? step.step : step.others.emplace_back()) = std::move(own);
      }
    } else {
      auto plan = selector_.plan(problem, selection.candidate, weight_data);
      if (!plan.ok()) return plan.error().within(describe(node));
      step.info.implementation = print((*plan)->candidate());
      step.step = make_conv_step(std::move(*plan), std::move(conv), bias_type);
    }
    step.info.kind = "conv";
    step.info.nodes = joined(node.sources);
    step.info.problem = problem;
    step.info.selection = selection;
    step.info.output_shape = shape_text(problem.out());
    step.outputs = {output_slot(node.outputs[0], problem.out(), kAbsent)};
    program().steps.push_back(std::move(step));
    return {};
  }

  // z is described like out, so a constant one has to be brought into the layout here.
  Result<int> residual_slot(int value, Layout layout) {
    const HostTensor* constant = graph_.constant_of(value);
    if (constant == nullptr) return slot_of(value, layout);
    CONVOY_TRY(HostTensor ready, converted(*constant, constant->desc.with_layout(layout)));
    program().slots.push_back(Slot{ready.desc, Home::constant, 0, std::move(ready)});
    return static_cast<int>(program().slots.size()) - 1;
  }

  Result<void> lower_op(const Node& node, Layout layout) {
    const ops::Operator* op = ops::find_operator(node.desc.domain, node.desc.op);
    if (op == nullptr) return Error{ErrorCode::unsupported, describe(node) + ": operator not supported"};
    std::vector<ops::Input> inputs = inputs_of(graph_, node);
    ProgramStep step;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int value = node.inputs[i];
      step.inputs.push_back(value == kAbsent ? kAbsent : slot_of(value, layout));
      if (value != kAbsent) inputs[i].desc = desc_in(value, layout);
    }
    // Inference again, for outputs that nobody named: the operator may still write them.
    auto inferred = op->infer(node.desc, inputs_of(graph_, node));
    if (!inferred.ok()) return inferred.error().within(describe(node));
    std::vector<TensorDesc> outputs = std::move(*inferred);
    for (TensorDesc& desc : outputs) {
      if (desc.rank() >= 3) desc = desc.with_layout(layout);
    }
    auto plan = op->plan(node.desc, inputs, outputs, selector_.request());
    if (!plan.ok()) return plan.error().within(describe(node));
    const int shared = in_place_slot(node, *op, step, inputs, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int value = i < node.outputs.size() ? node.outputs[i] : kAbsent;
      step.outputs.push_back(output_slot(value, outputs[i], i == 0 ? shared : kAbsent));
    }
    step.info.kind = "op";
    step.info.nodes = joined(node.sources);
    step.info.implementation = print((*plan)->candidate());
    if (!outputs.empty()) step.info.output_shape = shape_text(outputs[0]);
    step.step = make_op_step(std::move(*plan));
    program().steps.push_back(std::move(step));
    return {};
  }

  // The input slot whose memory the first output may take over: in the arena, read here for the last time, of the same
  // placement.
  int in_place_slot(const Node& node, const ops::Operator& op, const ProgramStep& step,
                    std::span<const ops::Input> inputs, std::span<const TensorDesc> outputs) const {
    const int index = op.in_place_input(node.desc);
    if (index < 0 || index >= static_cast<int>(inputs.size()) || outputs.empty()) return kAbsent;
    const int value = node.inputs[index];
    if (value == kAbsent || reads_left_[value] != 1 || is_export(value) || output_of_[value] != kAbsent) return kAbsent;
    const Slot& slot = result_.program.slots[step.inputs[index]];
    const TensorDesc& from = inputs[index].desc;
    const TensorDesc& to = outputs[0];
    const bool same_place = (from.dims == to.dims && from.strides == to.strides) ||
                            (from.is_packed(Layout::nchw) && to.is_packed(Layout::nchw));
    if (slot.home != Home::arena || size_of(from.type) != size_of(to.type) || from.bytes() != to.bytes() ||
        !same_place) {
      return kAbsent;
    }
    return step.inputs[index];
  }

  void release_inputs(const Node& node) {
    for (int input : node.inputs) {
      if (input == kAbsent || --reads_left_[input] > 0) continue;
      if (!is_export(input) && output_of_[input] == kAbsent) graph_.values[input].constant.reset();
    }
  }

  Result<void> lower_outputs() {
    for (std::size_t k = 0; k < graph_.outputs.size(); ++k) {
      const int value = graph_.outputs[k];
      const int output = static_cast<int>(k);
      if (!graph_.values[value].known) continue;  // made at run time
      if (written_outputs_[output]) continue;
      const int slot = slot_of(value, Layout::nchw);
      if (!written_outputs_[output]) program().copies.push_back({slot, output});
    }
    return {};
  }

  // Lifetimes, then places.
  Result<void> finish() {
    Program& p = program();
    const auto used = [&](int slot, int step) {
      if (slot == kAbsent || p.slots[slot].home != Home::arena) return;
      Lifetime& life = p.storages[p.slots[slot].index];
      life.last = std::max(life.last, step);
    };
    for (int s = 0; s < step_count(); ++s) {
      for (int slot : p.steps[s].inputs) used(slot, s);
      for (int slot : p.steps[s].outputs) used(slot, s);
      const auto count = [&](const Step& step) {
        p.workspace_bytes = std::max(p.workspace_bytes, step.workspace_bytes());
        p.weight_bytes += step.retained_bytes();
      };
      count(*p.steps[s].step);
      for (const auto& other : p.steps[s].others) count(*other);
    }
    for (int slot : result_.export_slots) used(slot, step_count());
    for (const OutputCopy& copy : p.copies) used(copy.slot, step_count());
    const std::int64_t memory = physical_memory();
    for (const Slot& slot : p.slots) {
      if (slot.home == Home::constant) p.weight_bytes += static_cast<std::size_t>(slot.constant.desc.bytes());
    }
    for (const auto& [key, slot] : slots_) {
      const TensorDesc& desc = p.slots[slot].desc;
      if (desc.bytes() > memory) {
        return too_large("tensor '" + graph_.values[key.first].name + "' of dims " + to_string(desc.dims),
                         desc.bytes());
      }
    }
    p.memory = plan_memory(p.storages);
    if (p.memory.arena_bytes > memory) return too_large("the activations", p.memory.arena_bytes);
    if (p.workspace_bytes > static_cast<std::size_t>(memory)) {
      return too_large("the workspace", static_cast<std::int64_t>(p.workspace_bytes));
    }
    return {};
  }

  static Error too_large(const std::string& what, std::int64_t bytes) {
    return {ErrorCode::out_of_memory, what + " would need " + std::to_string(bytes) + " bytes, the machine has " +
                                          std::to_string(physical_memory())};
  }

  Graph& graph_;
  const std::vector<Layout>& layouts_;
  std::vector<int> exports_;
  Selector& selector_;
  Lowered result_;
  std::map<std::pair<int, Layout>, int> slots_;  // (value, layout) -> slot
  std::vector<int> reads_left_;                  // by value
  std::vector<int> output_of_;                   // by value
  std::map<int, bool> written_outputs_;
};

}  // namespace

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "+") + name;
  return text;
}

bool is_static(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int id) { return id == kAbsent || graph.values[id].known; }) &&
         can_infer(graph, node);
}

Result<Lowered> lower(Graph& graph, const std::vector<Layout>& layouts, std::span<const int> exports,
                      Selector& selector) {
  return Lowering(graph, layouts, exports, selector).run();
}

}  // namespace convoy::network
