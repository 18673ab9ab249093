#include "network/run/lower.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/side_by_side.h"
#include "convert/convert.h"
#include "core/shared_bytes.h"
#include "network/assign/in_place.h"
#include "network/graph/conv_node.h"
#include "network/graph/infer.h"
#include "network/run/steps.h"
#include "ops/blocks.h"
#include "ops/on_device.h"

namespace convoy::network {
namespace {

std::string shape_text(const TensorDesc& desc) {
  std::string text = to_string(desc.dims);
  if (desc.rank() >= 3) text += " " + std::string(name_of(desc.layout(), desc.spatial_dims()));
  return text;
}

// Stands for a step of a program that is made for its memory plan only.
class NoStep final : public Step {
 public:
  Result<void> execute(std::span<const void* const>, std::span<void* const>, const ExecContext&) const override {
    return Error{ErrorCode::internal, "a step that was never made"};
  }
  std::size_t workspace_bytes() const override { return 0; }
};

class Lowering {
 public:
  // `makes_steps`: else they are NoStep.
  Lowering(Graph& graph, const Assignment& assignment, std::span<const int> exports, const Makers& makers,
           bool makes_steps = true)
      : graph_(graph),
        assignment_(assignment),
        exports_(exports.begin(), exports.end()),
        makers_(makers),
        makes_steps_(makes_steps),
        in_place_(graph, assignment) {
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
    const auto converted = conversions(graph_, assignment_, exports_);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_static(graph_, node)) continue;
      const NodeAssignment& assigned = assignment_.nodes[n];
      for (const Conversion& conversion : converted[n]) CONVOY_CHECK(add_conversion(conversion));
      CONVOY_CHECK(node.conv          ? lower_conv(node, assigned)
                   : in_place_.has(n) ? lower_in_place(node, assigned.formats.reads)
                                      : lower_op(node, assigned));
      release_inputs(node);
    }
    for (const Conversion& conversion : converted.back()) CONVOY_CHECK(add_conversion(conversion));
    for (int value : exports_) result_.export_slots.push_back(slot_of(value, {}));
    CONVOY_CHECK(lower_outputs());
    CONVOY_CHECK(finish());
    return std::move(result_);
  }

 private:
  Program& program() { return result_.program; }
  int step_count() const { return static_cast<int>(result_.program.steps.size()); }

  int add_slot(int value, Slot slot) {
    program().slots.push_back(std::move(slot));
    const int index = static_cast<int>(program().slots.size()) - 1;
    if (value != kAbsent) slots_[value].push_back(index);
    return index;
  }

  int new_storage(std::int64_t bytes, int place) {
    program().storages.push_back({{bytes, step_count(), step_count()}, place});
    return static_cast<int>(program().storages.size()) - 1;
  }

  bool is_export(int value) const { return std::find(exports_.begin(), exports_.end(), value) != exports_.end(); }

  const TensorDesc& desc_of(int slot) const { return result_.program.slots[slot].desc; }

  // The slot that holds a value as described; kAbsent: there is none.
  int find_slot(int value, const Located& located) const {
    const auto found = slots_.find(value);
    if (found == slots_.end()) return kAbsent;
    for (const int slot : found->second) {
      if (result_.program.slots[slot].place == located.place && same_bytes(desc_of(slot), located.desc)) return slot;
    }
    return kAbsent;
  }

  // That a node reads, which conversions have seen to; of a constant, made here.
  int slot_of(int value, const Format& format, int place = 0) {
    const Value& v = graph_.values[value];
    const int slot = find_slot(value, {described(v, format), place});
    return slot == kAbsent && v.constant ? add_slot(value, Slot{v.desc, Home::constant, 0, *v.constant, place}) : slot;
  }

  std::string name_of_place(int place) const { return makers_.places[static_cast<std::size_t>(place)].device->name(); }

  // What a step's plan is made for.
  PlanRequest request_of(int place, Threads threads) const {
    PlanRequest request = makers_.places[static_cast<std::size_t>(place)].request;
    if (threads == Threads::one) request.threads = 1;
    return request;
  }

  Result<void> add_conversion(const Conversion& conversion) {
    const auto& [value, from, to, threads] = conversion;
    ProgramStep step;
    step.threads = threads;
    step.inputs = {find_slot(value, from)};
    const Slot& source = program().slots[static_cast<std::size_t>(step.inputs[0])];
    int copy_of = -1;
    if (from.place == to.place) {
      step.place = to.place;
      if (to.place == 0) {
        step.step = make_convert_step(from.desc, to.desc);
      } else if (!makes_steps_) {
        step.step = std::make_unique<NoStep>();
      } else {
        const auto make = [conversion, request = request_of(to.place, threads),
                           name = graph_.values[value].name](ProgramStep& into) -> Result<void> {
          auto plan = ops::conversion_on_device(conversion.from.desc, conversion.to.desc, request);
          if (!plan.ok()) return plan.error().within("converting '" + name + "'");
          into.step = make_op_step(std::move(*plan));
          return {};
        };
        later_.push_back({program().steps.size(), make});
      }
      step.info.step_problem = print(ConversionProblem{from.desc, to.desc});
      const bool types = from.desc.type != to.desc.type;
      const auto text = [&](const TensorDesc& desc) {
        return (types ? std::string(name_of(desc.type)) + " " : std::string()) +
               std::string(name_of(desc.layout(), desc.spatial_dims()));
      };
      step.info.implementation = "convert " + text(from.desc) + " to " + text(to.desc);
    } else {
      step.place = std::max(from.place, to.place);  // the other one is the processor
      step.crosses = true;
      // The arena's memory is soon another step's; inputs stay until the run ends.
      const bool waits = source.home == Home::arena;
      if (source.home == Home::input) copy_of = source.index;
      step.step = make_copy_step(static_cast<std::size_t>(to.desc.bytes()),
                                 from.place == 0 ? Direction::in : Direction::out, waits);
      step.info.implementation = "copy " + name_of_place(from.place) + " to " + name_of_place(to.place);
    }
    step.info.kind = "convert";
    step.info.nodes = graph_.values[value].name;
    step.info.output_shape = shape_text(to.desc);
    step.outputs = {output_slot(value, to.desc, kAbsent, to.place)};
    program().slots[static_cast<std::size_t>(step.outputs[0])].copy_of = copy_of;
    program().steps.push_back(std::move(step));
    return {};
  }

  // Where a value that is so described is a piece of another (in_place.h); false: of none.
  bool lies_in_whole(int value, const TensorDesc& desc, Slot& slot) {
    const InPlace::View* const piece = value == kAbsent || slot.place != 0 ? nullptr : in_place_.view(value);
    if (piece == nullptr || !same_bytes(desc, described(graph_.values[value], piece->format))) return false;
    const auto [storage, is_new] = whole_storages_.try_emplace(piece->whole);
    if (is_new) storage->second = new_storage(described(graph_.values[piece->whole], piece->format).bytes(), 0);
    slot.index = storage->second;
    slot.offset = piece->offset;
    return true;
  }

  // The slot a step writes a value to: the graph output itself where the formats agree, else the place's arena.
  int output_slot(int value, const TensorDesc& desc, int in_place_slot, int place = 0) {
    Slot slot{desc, Home::arena, 0, {}, place};
    const int output = value == kAbsent || place != 0 ? kAbsent : output_of_[value];
    if (output != kAbsent && !written_outputs_[output] && same_bytes(desc, graph_.values[value].desc)) {
      slot.home = Home::output;
      slot.index = output;
      written_outputs_[output] = true;
    } else if (lies_in_whole(value, desc, slot)) {
      // made there
    } else if (in_place_slot != kAbsent) {
      slot.index = program().slots[in_place_slot].index;
      slot.offset = program().slots[in_place_slot].offset;
    } else {
      slot.index = new_storage(desc.bytes(), place);
    }
    slot.steps = {step_count()};
    return add_slot(value, std::move(slot));
  }

  // What a Concat reads is where it has to be, and what a Split writes.
  Result<void> lower_in_place(const Node& node, const Format& format) {
    const auto placed = [&](int value) {
      Slot slot{described(graph_.values[value], format), Home::arena, 0, {}};
      return lies_in_whole(value, slot.desc, slot) ? std::optional(std::move(slot)) : std::nullopt;
    };
    std::vector<int> steps;
    for (const int input : node.inputs) {
      if (input == kAbsent || graph_.values[input].constant) continue;  // the sizes of a Split's parts
      const Slot& slot = program().slots[slot_of(input, format)];
      const auto expected = placed(input);
      if (!expected || slot.home != Home::arena || slot.index != expected->index || slot.offset != expected->offset) {
        return Error{ErrorCode::internal, describe(node) + ": its input does not lie in place"};
      }
      steps.insert(steps.end(), slot.steps.begin(), slot.steps.end());
    }
    for (const int output : node.outputs) {
      std::optional<Slot> slot = placed(output);
      if (!slot) return Error{ErrorCode::internal, describe(node) + ": its output does not lie in place"};
      slot->steps = steps;
      add_slot(output, *std::move(slot));
    }
    return {};
  }

  Result<void> lower_conv(const Node& node, const NodeAssignment& assigned) {
    const ConvProblem& problem = assigned.problem;
    const ConvInputs inputs = conv_inputs(node);
    const int place = assigned.place;
    CONVOY_CHECK(can_run_elsewhere(node, place));
    PlanRequest request = request_of(place, assigned.formats.threads);
    CONVOY_TRY(const std::optional<HostTensor> weights, constant_as(inputs.weights, problem.w));
    const bool packs_weights = weights && request.packs_weights(problem);
    const auto row_major = [&](int value) { return value == kAbsent ? kAbsent : slot_of(value, {}, place); };

    ProgramStep step;
    step.place = place;
    step.threads = assigned.formats.threads;
    step.inputs.assign(kConvStepInputs, kAbsent);
    CONVOY_TRY(step.inputs[0], slot_in(inputs.data, assigned.formats.reads, place));
    const bool made_anew = weights && !same_bytes(weights->desc, graph_.values[inputs.weights].desc);
    if (!packs_weights && made_anew) {
      step.inputs[1] = add_slot(kAbsent, Slot{weights->desc, Home::constant, 0, *weights, place});
    } else if (!packs_weights) {
      step.inputs[1] = row_major(inputs.weights);
    }
    DataType bias_type = problem.bias_type();
    if (const HostTensor* constant = graph_.constant_of(inputs.bias)) {
      CONVOY_TRY(HostTensor ready, converted(*constant, TensorDesc::packed(bias_type, constant->desc.dims)));
      step.inputs[2] = add_slot(kAbsent, Slot{ready.desc, Home::constant, 0, std::move(ready), place});
    } else if (problem.epilogue.bias) {
      step.inputs[2] = row_major(inputs.bias);
      bias_type = graph_.values[inputs.bias].desc.type;
    }
    if (inputs.residual != kAbsent) {
      CONVOY_TRY(step.inputs[3], slot_in(inputs.residual, assigned.formats.writes, place));
    }
    step.inputs[4] = row_major(inputs.slopes);
    step.inputs[5] = row_major(inputs.scales);
    if (!node.conv->scales.empty()) {
      CONVOY_TRY(step.inputs[5], slot_of_numbers(node.conv->scales, DataType::f32, place));
    }
    if (problem.x_zero_given) {
      CONVOY_TRY(step.inputs[6], slot_of_zero(inputs.x_zero, place));
    }
    if (problem.w_zero_given) {
      CONVOY_TRY(step.inputs[7], slot_of_numbers(node.conv->w_zeros, DataType::s32, place));
    }
    if (inputs.gate != kAbsent) {
      CONVOY_TRY(step.inputs[8], slot_in(inputs.gate, {Layout::nchw, assigned.formats.reads.real}, place));
    }

    auto make = [this, &node, &assigned, bias_type, request,
                 packed = packs_weights ? weights : std::nullopt](ProgramStep& into) mutable -> Result<void> {
      request.constant_weights = packed ? packed->data.get() : nullptr;
      const auto made = [&](const Candidate& candidate) -> Result<std::unique_ptr<Step>> {
        auto plan = make_plan(assigned.problem, candidate, makers_.engines, request);
        if (!plan.ok()) return plan.error().within(describe(node));
        if (into.info.implementation.empty()) into.info.implementation = print((*plan)->candidate());
        return make_conv_step(std::move(*plan), assigned.problem, bias_type);
      };
      CONVOY_TRY(into.step, made(assigned.selection.candidate));
      for (const Candidate& candidate : assigned.switches) {
        CONVOY_TRY(auto other, made(candidate));
        into.others.push_back(std::move(other));
      }
      return {};
    };
    if (!makes_steps_) {
      step.step = std::make_unique<NoStep>();
    } else if (place == 0) {
      CONVOY_CHECK(make(step));
    } else {
      later_.push_back({program().steps.size(), make});
    }
    step.switchable = assigned.switchable;
    step.info.kind = "conv";
    step.info.nodes = joined(node.sources);
    step.info.problem = problem;
    step.info.selection = assigned.selection;
    step.info.output_shape = shape_text(problem.out());
    step.outputs = {output_slot(node.outputs[0], problem.out(), kAbsent, place)};
    program().steps.push_back(std::move(step));
    return {};
  }

  // A constant that no value of the graph is.
  template <class T>
  Result<int> slot_of_numbers(const std::vector<T>& numbers, DataType type, int place) {
    CONVOY_TRY(HostTensor made, HostTensor::allocate(TensorDesc::packed(type, {std::ssize(numbers)})));
    std::ranges::copy(numbers, made.as<T>());
    return add_slot(kAbsent, Slot{made.desc, Home::constant, 0, std::move(made), place});
  }

  // A zero point that is computed, as a convolution in `place` reads it: elsewhere than on the processor it is made s32
  // there first.
  Result<int> slot_of_zero(int value, int place) {
    constexpr std::int64_t kOnnxInt32 = 6;
    const int slot = slot_of(value, {}, place);
    if (place == 0) return slot;
    const TensorDesc given = desc_of(slot), wanted = TensorDesc::packed(DataType::s32, given.dims);
    const ops::NodeDesc cast{.op = "Cast", .domain = {}, .name = {}, .attributes = {{"to", kOnnxInt32}}};
    const ops::Input input{.present = true, .desc = given};
    CONVOY_TRY(auto plan, ops::plan_on_device(*ops::find_row("", "Cast")->implementation, cast, {&input, 1},
                                              {&wanted, 1}, request_of(place, Threads::all)));
    ProgramStep step;
    step.place = place;
    step.inputs = {slot};
    step.info.kind = "op";
    step.info.nodes = graph_.values[value].name;
    step.info.implementation = print(plan->candidate());
    step.step = make_op_step(std::move(plan));
    step.info.output_shape = shape_text(wanted);
    step.outputs = {output_slot(kAbsent, wanted, kAbsent, place)};
    program().steps.push_back(std::move(step));
    return program().steps.back().outputs[0];
  }

  Result<void> can_run_elsewhere(const Node& node, int place) const {
    const std::string what = place == 0 ? std::string() : kept_on_processor(graph_, node);
    if (what.empty()) return {};
    return Error{ErrorCode::unsupported,
                 describe(node) + ": a convolution " + what + " can't run on " + name_of_place(place)};
  }

  // A constant as it is, or for steps in the type and layout of `desc`; nothing: it is none.
  Result<std::optional<HostTensor>> constant_as(int value, const TensorDesc& desc) const {
    const HostTensor* const constant = graph_.constant_of(value);
    if (constant == nullptr) return std::optional<HostTensor>();
    const TensorDesc wanted =
        constant->desc.dims == desc.dims ? desc : TensorDesc::packed(desc.type, constant->desc.dims);
    if (same_bytes(constant->desc, wanted) || !makes_steps_) return std::optional(*constant);
    CONVOY_TRY(HostTensor ready, converted(*constant, wanted));
    return std::optional(std::move(ready));
  }

  // What a convolution reads, x or z, in the format that it wants. Conversions have seen to it but for constants.
  Result<int> slot_in(int value, const Format& format, int place) {
    const HostTensor* constant = graph_.constant_of(value);
    if (constant == nullptr) return slot_of(value, format, place);
    TensorDesc desc = constant->desc;
    if (desc.rank() >= 3) desc = desc.with_layout(format.layout);
    if (desc.type == DataType::f32) desc.type = format.real;
    if (desc == constant->desc) return slot_of(value, format, place);
    CONVOY_TRY(HostTensor ready, converted(*constant, desc));
    return add_slot(kAbsent, Slot{ready.desc, Home::constant, 0, std::move(ready), place});
  }

  Result<void> lower_op(const Node& node, const NodeAssignment& assigned) {
    const NodeFormats& formats = assigned.formats;
    const int place = assigned.place;
    const PlanRequest request = request_of(place, assigned.formats.threads);
    const ops::OperatorRow* row = ops::find_row(node.desc.domain, node.desc.op);
    if (row == nullptr) return Error{ErrorCode::unsupported, describe(node) + ": operator not supported"};
    const Constants convert = makes_steps_ ? Constants::all : Constants::small;
    CONVOY_TRY(NarrowedInputs narrowed, narrowed_inputs(graph_, node, formats.reads.real, convert));
    std::vector<ops::Input>& inputs = narrowed.inputs;
    // Inference again, for outputs that nobody named: the operator may still write them.
    auto inferred = row->infer(node.desc, inputs);
    if (!inferred.ok()) return inferred.error().within(describe(node));
    std::vector<TensorDesc> outputs = std::move(*inferred);
    for (TensorDesc& desc : outputs) {
      if (desc.rank() >= 3) desc = desc.with_layout(formats.writes.layout);
    }
    ProgramStep step;
    step.threads = assigned.formats.threads;
    step.place = place;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int value = node.inputs[i];
      if (narrowed.constants[i]) {
        step.inputs.push_back(
            add_slot(kAbsent, Slot{inputs[i].desc, Home::constant, 0, *narrowed.constants[i], place}));
        continue;
      }
      step.inputs.push_back(value == kAbsent ? kAbsent : slot_of(value, formats.reads, place));
      if (value != kAbsent) inputs[i].desc = described(graph_.values[value], formats.reads);
    }
    if (relabel(node, step, inputs, outputs)) return {};
    if (makes_steps_) {
      if (const auto problem = step_problem(graph_, node, formats)) step.info.step_problem = print(*problem);
      // What is constant stays until the plan is made.
      std::vector<std::shared_ptr<const void>> kept;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const HostTensor* const constant = graph_.constant_of(node.inputs[i]);
        if (narrowed.constants[i]) kept.push_back(narrowed.constants[i]->data);
        if (constant != nullptr) kept.push_back(constant->data);
      }
      const auto make = [&node, row, place, inputs, outputs, request, kept](ProgramStep& into) -> Result<void> {
        auto plan = place == 0 ? ops::plan_as_laid_out(*row, node.desc, inputs, outputs, request)
                               : ops::plan_on_device(*row->implementation, node.desc, inputs, outputs, request);
        if (!plan.ok()) return plan.error().within(describe(node));
        into.info.implementation = print((*plan)->candidate());
        into.step = make_op_step(std::move(*plan));
        return {};
      };
      if (place == 0) {
        CONVOY_CHECK(make(step));
      } else {
        later_.push_back({program().steps.size(), make});
      }
    } else {
      step.step = std::make_unique<NoStep>();
    }
    const int shared = in_place_slot(node, *row, step, inputs, outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const int value = i < node.outputs.size() ? node.outputs[i] : kAbsent;
      step.outputs.push_back(output_slot(value, outputs[i], i == 0 ? shared : kAbsent, place));
    }
    step.info.kind = "op";
    step.info.nodes = joined(node.sources);
    if (!outputs.empty()) step.info.output_shape = shape_text(outputs[0]);
    program().steps.push_back(std::move(step));
    return {};
  }

  // Where the output is the input's bytes, it is the input's memory, and there is no step. A constant is folded before;
  // a graph's output has memory of its own.
  bool relabel(const Node& node, const ProgramStep& step, std::span<const ops::Input> inputs,
               std::span<const TensorDesc> outputs) {
    if (inputs.size() != 1 || outputs.size() != 1 || !relabels(node, inputs[0].desc, outputs[0])) return false;
    Slot slot = program().slots[step.inputs[0]];
    if (slot.home == Home::constant || (node.outputs[0] != kAbsent && output_of_[node.outputs[0]] != kAbsent)) {
      return false;
    }
    slot.desc = outputs[0];
    add_slot(node.outputs[0], std::move(slot));
    return true;
  }

  // Whether a slot's memory holds another value that is still read.
  bool is_shared(int slot, int value) const {
    const Slot& mine = result_.program.slots[slot];
    return std::ranges::any_of(slots_, [&](const auto& other) {
      if (other.first == value) return false;
      if (reads_left_[other.first] == 0 && !is_export(other.first) && output_of_[other.first] == kAbsent) return false;
      return std::ranges::any_of(other.second, [&](int each) {
        const Slot& theirs = result_.program.slots[each];
        return theirs.home == mine.home && theirs.index == mine.index;
      });
    });
  }

  // The input slot whose memory the first output may take over: in the arena, read here for the last time, of the same
  // placement.
  int in_place_slot(const Node& node, const ops::OperatorRow& row, const ProgramStep& step,
                    std::span<const ops::Input> inputs, std::span<const TensorDesc> outputs) const {
    const int index = row.in_place(node.desc);
    if (index < 0 || index >= static_cast<int>(inputs.size()) || outputs.empty()) return kAbsent;
    const int value = node.inputs[index];
    if (value == kAbsent || reads_left_[value] != 1 || is_export(value) || output_of_[value] != kAbsent) return kAbsent;
    const Slot& slot = result_.program.slots[step.inputs[index]];
    // Threads of a GPU read and write in an order that only the kernel knows.
    if (slot.home != Home::arena || slot.place != 0 || !same_placement(inputs[index].desc, outputs[0]) ||
        is_shared(step.inputs[index], value)) {
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
      const int home = assignment_.converts;
      if (home == 0) {
        program().copies.push_back({slot_of(value, {}), output});
        continue;
      }
      // By way of home, where the outputs may lie.
      const TensorDesc desc = graph_.values[value].desc;
      if (slot_of(value, {}, home) == kAbsent) {
        CONVOY_CHECK(add_conversion({value, {desc, 0}, {desc, home}, Threads::all}));
      }
      output_of_[value] = output;
      CONVOY_CHECK(add_conversion({value, {desc, home}, {desc, 0}, Threads::all}));
    }
    return {};
  }

  // Of a GPU's steps: engines may compile for seconds.
  struct Later {
    std::size_t step;
    std::function<Result<void>(ProgramStep&)> make;
  };
  Result<void> make_side_by_side() {
    std::vector<Result<void>> done(later_.size());
    side_by_side(later_.size(), [&](std::size_t i) { done[i] = make(later_[i]); });
    for (const Result<void>& each : done) CONVOY_CHECK(each);
    return {};
  }

  // What engines call to plan needs the device on its thread.
  Result<void> make(const Later& later) {
    ProgramStep& step = program().steps[later.step];
    CONVOY_TRY(const auto entered, makers_.places[static_cast<std::size_t>(step.place)].device->enter());
    return later.make(step);
  }

  // Lifetimes, then places.
  Result<void> finish() {
    CONVOY_CHECK(make_side_by_side());
    Program& p = program();
    const auto used = [&](int slot, int step) {
      if (slot == kAbsent || p.slots[slot].home != Home::arena) return;
      Lifetime& life = p.storages[p.slots[slot].index].life;
      life.last = std::max(life.last, step);
    };
    p.footprints.resize(makers_.places.size());
    for (int s = 0; s < step_count(); ++s) {
      add_flow(p.steps[s]);
      for (int slot : p.steps[s].inputs) used(slot, s);
      for (int slot : p.steps[s].outputs) used(slot, s);
      std::size_t& workspace_bytes = p.footprints[static_cast<std::size_t>(p.steps[s].place)].workspace_bytes;
      const auto count = [&](const Step& step) {
        workspace_bytes = std::max(workspace_bytes, step.workspace_bytes());
        p.weight_bytes += step.retained_bytes();
      };
      count(*p.steps[s].step);
      for (const auto& other : p.steps[s].others) count(*other);
    }
    for (int slot : result_.export_slots) used(slot, step_count());
    for (const OutputCopy& copy : p.copies) used(copy.slot, step_count());
    for (Slot& slot : p.slots) {
      if (slot.home != Home::constant) continue;
      const auto bytes = static_cast<std::size_t>(slot.constant.desc.bytes());
      p.weight_bytes += bytes;
      if (!makes_steps_) continue;
      CONVOY_TRY(slot.constant, owned(std::move(slot.constant)));
      // Passes make them anew for every size.
      slot.constant.data = std::const_pointer_cast<std::byte>(shared_bytes(slot.constant.data, bytes));
    }
    for (const auto& [value, slots] : slots_) {
      for (const int slot : slots) {
        const TensorDesc& desc = p.slots[slot].desc;
        CONVOY_CHECK(
            check_memory("tensor '" + graph_.values[value].name + "' of dims " + to_string(desc.dims), desc.bytes()));
      }
    }
    for (std::size_t place = 0; place < p.footprints.size(); ++place) plan_arena(static_cast<int>(place));
    const Footprint& processor = p.footprints.front();  // other devices say it themselves
    CONVOY_CHECK(check_memory("the activations", processor.arena_bytes));
    CONVOY_CHECK(check_memory("the workspace", static_cast<std::int64_t>(processor.workspace_bytes)));
    return {};
  }

  // For reports: what it reads and writes, whose results these are, and what it has to run in.
  void add_flow(ProgramStep& step) const {
    std::vector<int>& made_by = step.info.inputs;
    for (const int index : step.inputs) {
      if (index == kAbsent) continue;
      const Slot& slot = result_.program.slots[index];
      if (slot.home == Home::constant) continue;
      if (!step.info.reads) step.info.reads = slot.desc;
      const std::vector<int> steps = slot.steps.empty() ? std::vector{-1 - slot.index} : slot.steps;
      for (const int from : steps) {
        if (std::ranges::find(made_by, from) == made_by.end()) made_by.push_back(from);
      }
    }
    if (!step.outputs.empty() && step.outputs[0] != kAbsent) step.info.writes = desc_of(step.outputs[0]);
    step.info.workspace_bytes = step.step->workspace_bytes();
    step.info.threads = request_of(step.place, step.threads).threads;
    step.info.device = name_of_place(step.place);
  }

  void plan_arena(int place) {
    std::vector<Storage*> mine;
    std::vector<Lifetime> lives;
    for (Storage& storage : program().storages) {
      if (storage.place != place) continue;
      mine.push_back(&storage);
      lives.push_back(storage.life);
    }
    const MemoryPlan plan = plan_memory(lives);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i]->offset = plan.offsets[i];
    program().footprints[static_cast<std::size_t>(place)].arena_bytes = plan.arena_bytes;
  }

  Graph& graph_;
  const Assignment& assignment_;
  std::vector<int> exports_;
  const Makers& makers_;
  bool makes_steps_;
  const InPlace in_place_;
  std::map<int, int> whole_storages_;  // by value
  Lowered result_;
  std::map<int, std::vector<int>> slots_;  // by value: each says how it lies there
  std::vector<int> reads_left_;            // by value
  std::vector<int> output_of_;             // by value
  std::map<int, bool> written_outputs_;
  std::vector<Later> later_;
};

}  // namespace

Result<Lowered> lower(Graph& graph, const Assignment& assignment, std::span<const int> exports, const Makers& makers) {
  return Lowering(graph, assignment, exports, makers).run();
}

Result<ActivationBytes> activation_bytes(const Graph& graph, const std::vector<NodeFormats>& formats,
                                         std::span<const int> exports) {
  Assignment assignment;
  for (std::size_t n = 0; n < formats.size(); ++n) {
    NodeAssignment& assigned = assignment.nodes.emplace_back(NodeAssignment{.formats = formats[n]});
    if (graph.nodes[n].conv) assigned.problem = in_formats(graph.nodes[n].conv->problem, formats[n]);
  }
  Graph own = graph;  // whose constants are released
  const Place processor{.device = &convoy::processor()};
  CONVOY_TRY(const Lowered lowered, Lowering(own, assignment, exports, {{&processor, 1}, {}}, false).run());
  const Program& program = lowered.program;
  ActivationBytes bytes{.arena = program.footprints.front().arena_bytes,
                        .constants = static_cast<std::int64_t>(program.weight_bytes)};
  std::vector<Lifetime> lives;
  for (const Storage& storage : program.storages) lives.push_back(storage.life);
  bytes.live = most_alive(lives);
  return bytes;
}

}  // namespace convoy::network
