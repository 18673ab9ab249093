#include "network/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/clock.h"
#include "device/device.h"
#include "network/assign/plan_file.h"
#include "network/assign/sides.h"
#include "network/assign/threads.h"
#include "network/conv_node.h"
#include "network/cost/caches.h"
#include "network/cost/measure_step.h"
#include "network/infer.h"
#include "network/kept_plan.h"
#include "network/lower.h"
#include "network/pass.h"
#include "network/recording_team.h"
#include "network/selector.h"
#include "network/tail.h"
#include "network/unfuse.h"
#include "select/rounds.h"

namespace convoy::network {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A place's queue and memory.
struct Lane {
  const Device* device = nullptr;
  Queue* queue = nullptr;
  std::unique_ptr<Queue> own = {};  // of a place other than the processor
  Buffer arena = {};
  Buffer workspace = {};
};

class GraphSession final : public SwitchableSession {
 public:
  GraphSession(Lowered lowered, std::vector<TensorDesc> inputs, std::vector<std::optional<TensorDesc>> outputs,
               std::vector<std::string> input_names, std::unique_ptr<Tail> tail, std::shared_ptr<ThreadTeam> team,
               std::vector<std::string> remarks)
      : program_(std::move(lowered.program)),
        export_slots_(std::move(lowered.export_slots)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        input_names_(std::move(input_names)),
        tail_(std::move(tail)),
        team_(std::move(team)),
        remarks_(std::move(remarks)) {
    for (ProgramStep& step : program_.steps) {
      const bool works = step.info.kind != "convert";  // an answer's conversion is small
      calls_team_ |= works && team_->size() > 1 && step.threads == Threads::all && step.place == 0;
      steps_.push_back(std::move(step.info));
    }
    if (tail_) {
      NetworkStep step;
      step.kind = "op";
      step.nodes = tail_->nodes();
      step.implementation = "planned at run time";
      step.threads = team_->size();
      steps_.push_back(std::move(step));
    }
  }

  // Queues and memory, and constants that are read elsewhere than on the processor.
  Result<void> allocate(std::span<const Place> places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Footprint& needed = program_.footprints[i];
      Lane& lane = lanes_.emplace_back();
      lane.device = places[i].device;
      const auto make = [&]() -> Result<void> {
        if (i > 0) {
          CONVOY_TRY(lane.own, lane.device->make_queue(1));
        }
        lane.queue = i == 0 ? team_.get() : lane.own.get();
        CONVOY_TRY(lane.arena,
                   lane.device->allocate(static_cast<std::size_t>(std::max<std::int64_t>(needed.arena_bytes, 1)),
                                         "activations"));
        CONVOY_TRY(lane.workspace, lane.device->allocate(needed.workspace_bytes, "the workspace"));
        return {};
      };
      CONVOY_CHECK(make());
    }
    CONVOY_TRY(const Entered entered, enter());
    for (Slot& slot : program_.slots) {
      if (slot.home != Home::constant || slot.place == 0) continue;
      Lane& lane = lanes_[static_cast<std::size_t>(slot.place)];
      const auto bytes = static_cast<std::size_t>(slot.constant.desc.bytes());
      CONVOY_TRY(slot.there, lane.device->allocate(bytes, "weights"));
      CONVOY_CHECK(lane.queue->copy_in(slot.there.data(), slot.constant.data.get(), bytes));
      CONVOY_CHECK(lane.queue->finish());
      slot.constant.data.reset();
    }
    return {};
  }

  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, RunStatistics* statistics) override {
    return run(inputs, statistics, nullptr);
  }

  Result<RunTrace> trace(std::span<const HostTensor> inputs) override {
    RecordingTeam team(team_->size());
    RunStatistics statistics;
    CONVOY_CHECK(run(inputs, &statistics, &team));
    return team.taken();
  }

  void use(std::size_t i, std::size_t candidate) override {
    for (ProgramStep& step : program_.steps) {
      if (step.switchable == static_cast<int>(i)) step.active = candidate;
    }
  }

  const std::vector<NetworkStep>& steps() const override { return steps_; }
  std::vector<ActivationBuffer> activations() const override {
    std::vector<ActivationBuffer> buffers;
    for (const Storage& storage : program_.storages) {
      if (storage.place != 0) continue;
      buffers.push_back({storage.offset, storage.life.bytes, storage.life.first, storage.life.last});
    }
    return buffers;
  }
  const std::vector<std::string>& remarks() const override { return remarks_; }
  std::size_t activation_bytes() const override {
    std::int64_t bytes = 0;
    for (const Footprint& place : program_.footprints) bytes += place.arena_bytes;
    return static_cast<std::size_t>(bytes);
  }
  std::size_t weight_bytes() const override { return program_.weight_bytes; }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const Footprint& place : program_.footprints) bytes += place.workspace_bytes;
    return bytes;
  }

 private:
  using Entered = std::vector<std::shared_ptr<void>>;

  // `recording`: in place of the team, to hear what its threads do; null: nobody asks.
  Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs, RunStatistics* statistics,
                                      RecordingTeam* recording) {
    const auto start = Clock::now();
    if (statistics) *statistics = {};
    CONVOY_CHECK(bind_inputs(inputs));
    std::vector<HostTensor> outputs(outputs_.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs_[k]) {
        CONVOY_TRY(outputs[k], HostTensor::allocate(*outputs_[k]));
      }
    }
    std::vector<const void*> in;
    std::vector<void*> out;
    CONVOY_TRY(const Entered entered, enter());
    // Awake and each on a processor of its own: oneDNN calls the same threads, but sees to neither.
    if (calls_team_) team_->run([](int) {});
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      const ProgramStep& step = program_.steps[s];
      const auto step_start = Clock::now();
      in.clear();
      out.clear();
      for (int slot : step.inputs) in.push_back(slot == kAbsent ? nullptr : data_of(slot, outputs));
      for (int slot : step.outputs) out.push_back(slot == kAbsent ? nullptr : data_of(slot, outputs));
      const Lane& lane = lanes_[static_cast<std::size_t>(step.place)];
      ThreadTeam& team = step.threads == Threads::one ? *one_thread_ : *team_;
      if (recording) recording->begin_step(team);
      Queue& on_processor = recording ? static_cast<Queue&>(*recording) : team;
      Queue& queue = step.place == 0 ? on_processor : *lane.queue;
      auto done = step.running().execute(in, out, {queue, lane.workspace.data(), lane.workspace.bytes()});
      if (done.ok() && statistics) done = lane.queue->finish();  // so that its time is the step's
      if (!done.ok()) return done.error().within("step " + std::to_string(s) + " (" + steps_[s].nodes + ")");
      if (statistics) statistics->step_seconds.push_back(seconds_since(step_start));
      if (recording) recording->end_step();
    }
    for (const OutputCopy& copy : program_.copies) {
      std::memcpy(outputs[copy.output].data.get(), data_of(copy.slot, outputs),
                  static_cast<std::size_t>(outputs[copy.output].desc.bytes()));
    }
    if (tail_) {
      const auto step_start = Clock::now();
      if (recording) recording->begin_step(*team_);
      CONVOY_CHECK(run_tail(outputs));
      if (statistics) statistics->step_seconds.push_back(seconds_since(step_start));
      if (recording) recording->end_step();
    }
    bound_.clear();
    if (statistics) statistics->seconds = seconds_since(start);
    return outputs;
  }

  Result<Entered> enter() const {
    Entered entered;
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      CONVOY_TRY(auto scope, lanes_[i].device->enter());
      entered.push_back(std::move(scope));
    }
    return entered;
  }

  Result<void> bind_inputs(std::span<const HostTensor> inputs) {
    if (inputs.size() != inputs_.size()) {
      return Error{ErrorCode::invalid_argument,
                   std::to_string(inputs.size()) + " inputs given, the network has " + std::to_string(inputs_.size())};
    }
    bound_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const HostTensor& input = inputs[i];
      if (input.desc.type != inputs_[i].type || input.desc.dims != inputs_[i].dims) {
        return Error{ErrorCode::invalid_argument,
                     "input '" + input_names_[i] + "' is " + std::string(name_of(input.desc.type)) + " " +
                         to_string(input.desc.dims) + ", the session was prepared for " +
                         std::string(name_of(inputs_[i].type)) + " " + to_string(inputs_[i].dims)};
      }
      if (!input.data || !input.desc.is_packed(Layout::nchw)) {
        return Error{ErrorCode::invalid_argument, "input '" + input_names_[i] + "' is not packed nchw"};
      }
      // Plans rely on 64 bytes of alignment; memory from elsewhere may have less.
      if (reinterpret_cast<std::uintptr_t>(input.data.get()) % 64 != 0) {
        CONVOY_TRY(HostTensor copy, converted(input, inputs_[i]));
        bound_.push_back(std::move(copy));
      } else {
        bound_.push_back(input);
      }
    }
    return {};
  }

  void* data_of(int index, std::vector<HostTensor>& outputs) {
    Slot& slot = program_.slots[index];
    switch (slot.home) {
      case Home::arena: {
        const Storage& storage = program_.storages[slot.index];
        return static_cast<std::byte*>(lanes_[static_cast<std::size_t>(storage.place)].arena.data()) + storage.offset +
               slot.offset;
      }
      case Home::input:
        return bound_[slot.index].data.get();
      case Home::output:
        return outputs[slot.index].data.get();
      case Home::constant:
        return slot.place == 0 ? static_cast<void*>(slot.constant.data.get()) : slot.there.data();
    }
    return nullptr;
  }

  Result<void> run_tail(std::vector<HostTensor>& outputs) {
    std::vector<HostTensor> exports;
    for (int slot : export_slots_) {
      auto* data = static_cast<std::byte*>(data_of(slot, outputs));
      const TensorDesc& desc = program_.slots[slot].desc;
      exports.push_back(
          {TensorDesc::packed(desc.type, desc.dims), std::shared_ptr<std::byte>(lanes_.front().arena.share(), data)});
    }
    CONVOY_TRY(std::vector<HostTensor> made, tail_->run(exports));
    const auto which = tail_->outputs();
    for (std::size_t i = 0; i < which.size(); ++i) outputs[which[i]] = std::move(made[i]);
    return {};
  }

  Program program_;
  std::vector<int> export_slots_;
  std::vector<TensorDesc> inputs_;
  std::vector<std::optional<TensorDesc>> outputs_;  // nothing for those of the tail
  std::vector<std::string> input_names_;
  std::unique_ptr<Tail> tail_;
  std::shared_ptr<ThreadTeam> team_;
  bool calls_team_ = false;                                    // does any step
  std::unique_ptr<ThreadTeam> one_thread_ = make_cpu_team(1);  // the calling one, for steps that have it alone
  std::vector<std::string> remarks_;
  std::vector<NetworkStep> steps_;
  std::vector<Lane> lanes_;  // by place
  std::vector<HostTensor> bound_;
};

Result<PrepareSettings> completed(PrepareSettings settings) {
  if (settings.options.threads < 1) {
    return Error{ErrorCode::invalid_argument,
                 "threads=" + std::to_string(settings.options.threads) + " must be at least 1"};
  }
  const DataType precision = settings.options.precision;
  if (precision != DataType::f32 && precision != DataType::bf16 && precision != DataType::f16) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("precision='{}' is not one of f32, bf16, f16", name_of(precision))};
  }
  const std::shared_ptr<ThreadTeam>& lent = settings.options.team;
  if (lent && lent->size() != settings.options.threads) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("team has {} threads, threads={}", lent->size(), settings.options.threads)};
  }
  if (!settings.team) settings.team = lent ? lent : make_cpu_team(settings.options.threads);
  return settings;
}

// The share of a budget that convolutions get first; operators and conversions, which take fewer samples and have no
// candidates, get what is left.
constexpr double kOfConvolutions = 0.8;

// What runs besides convolutions, and tiny steps on one thread, too.
Result<void> measure_on_threads(const Graph& graph, const Assignment& assignment, const NetworkOptions& options,
                                double budget_seconds) {
  const SelectionOptions& selection = options.selection;
  const double end = monotonic_seconds() + budget_seconds;
  PlanRequest request{.threads = options.threads, .cpu = options.cpu};
  const std::vector<StepProblem> on_all = step_problems(graph, assignment, Threads::all);
  const bool energy = selection.objective.energy > 0;
  CONVOY_CHECK(measure_steps(on_all, request, selection.caches, budget_seconds, *selection.store, energy));
  if (options.threads == 1) return {};
  std::vector<StepProblem> on_one = step_problems(graph, assignment, Threads::one);
  Selector knows(options, {}, {});
  std::ranges::copy_if(on_all, std::back_inserter(on_one), [&](const StepProblem& problem) {
    return may_be_better_on_one(knows.cost(problem, Threads::one).seconds, knows.cost(problem).seconds);
  });
  request.threads = 1;
  const double left = budget_seconds > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
  return measure_steps(on_one, request, selection.caches, left, *selection.store, energy);
}

constexpr int kMostPasses = 8;  // of measuring what takes least by the costs that are known

// Of the graph as it is then: fusions that are not wanted are undone.
Result<Assignment> decide(Graph& graph, const NetworkOptions& options, Selector& selector,
                          std::vector<std::string>& remarks) {
  const auto obeyed = [&](const std::string& text) -> Result<Assignment> {
    CONVOY_TRY(const PlanFile plan, parse_plan(text));
    Graph planned = graph;
    unfuse(planned, unfused_by(plan, graph));
    CONVOY_TRY(Assignment assignment, assign(planned, plan, options, selector, remarks));
    graph = std::move(planned);
    return assignment;
  };
  if (!options.plan.empty()) {
    auto assignment = obeyed(options.plan);
    return assignment.ok() ? std::move(assignment) : Result<Assignment>(assignment.error().within("plan"));
  }
  if (!options.kept_plans.empty()) {
    const std::string path = kept_plan_path(options.kept_plans, header_of(graph, options), options.cpu);
    if (const auto kept = read_kept_plan(path)) {
      auto assignment = obeyed(*kept);
      if (assignment.ok()) return assignment;
      remarks.push_back(fmt::format("{} is not obeyed: {}", path, assignment.error().message));
    }
  }
  CONVOY_TRY(const Forms forms, forms_by(options.how, graph, selector, remarks, options.memory));
  CONVOY_TRY(Assignment assignment, assign(graph, take_form(graph, forms), selector, forms.candidates));
  const bool has_threads = options.how == "global" || options.how == "local";
  if (!has_threads) choose_threads(graph, assignment, selector);
  return assignment;
}

}  // namespace

Result<std::string> plan_of(Graph graph, const PrepareSettings& given) {
  CONVOY_TRY(PrepareSettings settings, completed(given));
  const PassContext context{*settings.team, settings.options.cpu};
  if (auto log = run_passes(graph, context, settings.options.skip_passes); !log.ok()) return log.error();
  SelectionOptions& selection = settings.options.selection;
  decide_caches(graph, settings.options.cpu, selection);
  const bool measures = selection.mode == SelectionMode::measured;
  const double budget = selection.budget_seconds;
  const double end = monotonic_seconds() + budget;
  selection::RoundStore here;  // what is measured is what the lines say, with a database or without
  if (measures && selection.store == nullptr) selection.store = &here;
  std::vector<std::string> remarks;
  struct Decided {
    Graph graph;
    Assignment assignment;
  };
  const auto pass = [&]() -> Result<Decided> {
    const double left = budget > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
    if (measures) selection.budget_seconds = kOfConvolutions * left;
    remarks.clear();
    Selector chooses(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
    Decided decided{graph, {}};
    CONVOY_TRY(decided.assignment, decide(decided.graph, settings.options, chooses, remarks));
    if (!measures) return decided;
    // At least a moment: a budget of which nothing is left must not become one without an end.
    const double rest = budget > 0 ? std::max(1e-3, end - monotonic_seconds()) : 0;
    CONVOY_CHECK(measure_on_threads(decided.graph, decided.assignment, settings.options, rest));
    return decided;
  };
  // What takes least by predictions may not once it is measured, and then something else is looked at. Where the same
  // is best again, every cost of it has been measured that could be.
  const bool again = measures && settings.options.plan.empty() && settings.options.how == "global";
  selection.likely_only = again;
  const auto is_alike = [](const NodeAssignment& a, const NodeAssignment& b) {
    return a.sides == b.sides && a.problem == b.problem;
  };
  CONVOY_TRY(Decided decided, pass());
  for (int passes = 1; again && passes < kMostPasses && (budget <= 0 || monotonic_seconds() < end); ++passes) {
    CONVOY_TRY(Decided next, pass());
    const bool same = std::ranges::equal(decided.assignment.nodes, next.assignment.nodes, is_alike);
    decided = std::move(next);
    if (same) break;
  }
  Selector knows(settings.options, {}, {}, settings.engines, settings.places);
  std::string text = plan_text(decided.graph, decided.assignment, settings.options, knows);
  for (std::string remark : remarks) {  // in the file, so that nobody has to have been there
    for (std::size_t at = 0; (at = remark.find('\n', at)) != std::string::npos; at += 3) remark.replace(at, 1, "\n# ");
    text += "# " + remark + "\n";
  }
  return text;
}

Result<std::vector<NetworkConvolution>> list_convolutions(Graph graph, const PrepareSettings& given) {
  CONVOY_TRY(PrepareSettings settings, completed(given));
  const PassContext context{*settings.team, settings.options.cpu};
  if (auto log = run_passes(graph, context, settings.options.skip_passes); !log.ok()) return log.error();
  decide_caches(graph, settings.options.cpu, settings.options.selection);
  Selector selector(settings.options, {}, {}, settings.engines);
  std::vector<std::string> remarks;
  CONVOY_TRY(const Forms forms, forms_by(settings.options.how, graph, selector, remarks));
  const std::vector<Sides> sides = take_form(graph, forms);
  std::vector<NetworkConvolution> found;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_static(graph, node) || !node.conv) continue;
    NetworkConvolution convolution{.problem = in_formats(selector.allowed(node.conv->problem), sides[n]),
                                   .nodes = joined(node.sources),
                                   .caches = settings.options.selection.caches};
    convolution.constant_weights = graph.constant_of(conv_inputs(node).weights) != nullptr;
    const auto same = std::find_if(found.begin(), found.end(), [&](const NetworkConvolution& other) {
      return other.problem == convolution.problem && other.constant_weights == convolution.constant_weights;
    });
    if (same == found.end()) {
      found.push_back(std::move(convolution));
    } else {
      ++same->count;
      same->nodes += ", " + convolution.nodes;
    }
  }
  return found;
}

Result<std::unique_ptr<SwitchableSession>> prepare_graph(Graph graph, const PrepareSettings& given) {
  CONVOY_TRY(PrepareSettings settings, completed(given));
  const PassContext context{*settings.team, settings.options.cpu};
  if (auto log = run_passes(graph, context, settings.options.skip_passes); !log.ok()) return log.error();
  decide_caches(graph, settings.options.cpu, settings.options.selection);

  Selector selector(settings.options, settings.progress, settings.candidates, settings.engines, settings.places);
  std::vector<std::string> remarks;
  CONVOY_TRY(const Assignment assignment, decide(graph, settings.options, selector, remarks));
  PrepareSettings of_tail = settings;  // its nodes are in no plan
  of_tail.options.plan.clear();
  of_tail.options.memory = {};
  of_tail.places = {};
  std::unique_ptr<Tail> tail = std::make_unique<Tail>(graph, std::move(of_tail));
  if (tail->node_count() == 0) tail.reset();
  std::vector<TensorDesc> inputs;
  std::vector<std::string> input_names;
  for (int id : graph.inputs) {
    inputs.push_back(graph.values[id].desc);
    input_names.push_back(graph.values[id].name);
  }
  std::vector<bool> by_tail(graph.outputs.size(), false);
  if (tail) {
    for (int k : tail->outputs()) by_tail[k] = true;
  }
  std::vector<std::optional<TensorDesc>> outputs;
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    outputs.push_back(by_tail[k] ? std::nullopt : std::optional(graph.values[graph.outputs[k]].desc));
  }
  CONVOY_TRY(Lowered lowered, lower(graph, assignment, tail ? tail->exports() : std::span<const int>(),
                                    {selector.places(), settings.engines}));
  // Steps share one workspace, as large as the largest of them needs.
  const auto workspace_of = [](const ProgramStep& step) { return step.info.workspace_bytes; };
  const auto largest = std::ranges::max_element(lowered.program.steps, {}, workspace_of);
  const auto workspace_limit = settings.options.selection.filter.workspace_limit;
  if (workspace_limit && largest != lowered.program.steps.end() && workspace_of(*largest) > *workspace_limit) {
    remarks.push_back(fmt::format("workspace limit {}: {} needs {} bytes; only convolutions can be chosen by it",
                                  *workspace_limit, largest->info.nodes, workspace_of(*largest)));
  }
  auto session =
      std::make_unique<GraphSession>(std::move(lowered), std::move(inputs), std::move(outputs), std::move(input_names),
                                     std::move(tail), settings.team, std::move(remarks));
  if (const auto limit = settings.options.memory.activation_limit;
      limit && session->activation_bytes() > static_cast<std::size_t>(*limit)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("activation limit: the plan needs {} bytes, not {}", session->activation_bytes(), *limit)};
  }
  if (const auto limit = settings.options.memory.weight_limit;
      limit && session->weight_bytes() > static_cast<std::size_t>(*limit)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("weight limit: the plan keeps {} bytes, not {}", session->weight_bytes(), *limit)};
  }
  CONVOY_CHECK(session->allocate(selector.places()));
  return std::unique_ptr<SwitchableSession>(std::move(session));
}

}  // namespace convoy::network
