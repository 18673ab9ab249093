#include "verdicts/observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "convoy/host_tensor.h"
#include "convoy/selection.h"
#include "core/tolerance.h"
#include "select/choose/candidates.h"
#include "select/measure/compare.h"

namespace convoy::testing {
namespace {

struct Contestant {
  std::unique_ptr<ConvPlan> plan;
  Arithmetic arithmetic = Arithmetic::direct;
};

std::vector<Candidate> candidates_of(const Engine& engine, const ConvProblem& problem, const PlanRequest& request,
                                     bool all_knobs) {
  const Configurations configurations = engine.configurations(problem, request);
  if (all_knobs || !configurations.listed.empty()) return selection::all_configurations(engine, problem, request);
  if (configurations.knobs.empty()) return {{engine.info().name, {}}};
  const Knob& first = configurations.knobs.front();
  std::vector<Candidate> candidates;
  for (const KnobSetting& value : first.values) candidates.push_back({engine.info().name, {{first.name, value}}});
  return candidates;
}

class ObserverPlan final : public ConvPlan {
 public:
  ObserverPlan(const ConvProblem& problem, const ObserverOptions& options, Observations& observations)
      : problem_(problem), options_(options), observations_(observations) {}

  Result<void> prepare(const PlanRequest& request) {
    if (request.constant_weights != nullptr) {
      CONVOY_TRY(weights_, HostTensor::allocate(problem_.w));
      std::memcpy(weights_.data.get(), request.constant_weights, static_cast<std::size_t>(problem_.w.bytes()));
    }
    for (const Engine* engine : all_engines()) {
      const EngineInfo& info = engine->info();
      if (info.device != DeviceKind::cpu || info.oracle || refuse(*engine, problem_, request)) continue;
      for (const Candidate& candidate : candidates_of(*engine, problem_, request, options_.all_knobs)) {
        auto plan = make_plan(problem_, candidate, all_engines(), request);
        if (!plan.ok()) {
          observations_.failed.push_back(plan.error().message);
          continue;
        }
        const auto notes = engine->notes(problem_, (*plan)->candidate().knobs, request);
        contestants_.push_back({std::move(*plan), arithmetic_of(notes)});
      }
    }
    // For problems that no other engine takes.
    CONVOY_TRY(oracle_, reference_engine().plan(problem_, {}, request));
    return {};
  }

  Candidate candidate() const override { return {"observer", {}}; }
  std::size_t workspace_bytes() const override { return oracle_->workspace_bytes(); }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    ConvArgs given = args;
    if (weights_.data) given.w = weights_.data.get();
    const Expectation expectation(problem_, given, options_.verify, context.team());
    ++observations_.convolutions;
    if (!expectation.full()) ++observations_.sampled;
    CONVOY_TRY(const HostTensor out, HostTensor::allocate(problem_.out()));
    const auto bytes = static_cast<std::size_t>(out.desc.bytes());
    HostTensor good;  // the first right one's
    for (const Contestant& contestant : contestants_) {
      const std::string name = print(contestant.plan->candidate());
      if (problem_.beta != 0) {
        std::memcpy(out.data.get(), args.out, bytes);
      } else {
        std::memset(out.data.get(), 0xff, bytes);
      }
      given.out = out.data.get();
      const std::size_t size = contestant.plan->workspace_bytes();
      const auto workspace = allocate_aligned(size);
      if (size > 0) std::memset(workspace.get(), 0xff, size);
      const auto done = contestant.plan->execute(given, {context.team(), workspace.get(), size});
      if (!done.ok()) {
        observations_.failed.push_back(fmt::format("{} on {}: {}", name, print(problem_), done.error().message));
        continue;
      }
      const Verification verified = expectation.compare(out.data.get(), contestant.arithmetic);
      if (!verified.ok()) {
        observations_.wrong.push_back(fmt::format(
            "{} on {}: out[{}] is {:.9g}, the oracle says {:.9g} ({:.3g} times the "
            "tolerance)",
            name, print(problem_), to_string(verified.worst), verified.actual, verified.expected, verified.max_error));
        continue;
      }
      EngineVerdicts& engine = observations_.engines[name];
      ++engine.right;
      if (engine.worst.empty() || verified.max_error > engine.max_error) {
        engine.max_error = verified.max_error;
        engine.worst = print(problem_);
      }
      given.out = args.out;  // what a prior output held
      plant(given, expectation, contestant, name, out, good, context.team());
      if (!good.data) {
        CONVOY_TRY(good, HostTensor::allocate(problem_.out()));
        std::memcpy(good.data.get(), out.data.get(), bytes);
      }
    }
    if (!good.data) return oracle_->execute(args, context);
    std::memcpy(args.out, good.data.get(), bytes);
    return {};
  }

 private:
  // Faults in a right output, one at a time: in any element, or where the oracle looks at a sample only, in a corner,
  // and for compare_whole in any.
  void plant(const ConvArgs& args, const Expectation& expectation, const Contestant& contestant,
             const std::string& name, const HostTensor& out, const HostTensor& good, ThreadTeam& team) const {
    const TensorDesc& desc = out.desc;
    if (desc.elements() == 0) return;
    for (int fault = 0; fault < options_.faults; ++fault) {
      Dims at(desc.dims.size()), corner(desc.dims.size());
      for (std::size_t d = 0; d < at.size(); ++d) {
        at[d] = any(desc.dims[d]);
        corner[d] = any(2) == 0 ? 0 : desc.dims[d] - 1;
      }
      const Fault planted(*this, args, contestant.arithmetic, out, expectation.full() ? at : corner);
      if (!planted.done) {
        ++observations_.no_room;
        continue;
      }
      ++observations_.planted;
      if (!expectation.compare(out.data.get(), contestant.arithmetic).ok()) {
        ++observations_.caught;
      } else {
        observations_.missed.push_back(fmt::format("{} on {}: out[{}] {:.9g} instead of {:.9g}", name, print(problem_),
                                                   to_string(planted.at), planted.value, planted.right));
      }
    }
    if (expectation.full() || !good.data) return;
    Dims at(desc.dims.size());
    for (std::size_t d = 0; d < at.size(); ++d) at[d] = any(desc.dims[d]);
    const Fault planted(*this, args, contestant.arithmetic, out, at);
    if (!planted.done) return;
    ++observations_.planted_aside;
    const auto tolerances = expectation.tolerances(contestant.arithmetic);
    observations_.caught_aside += selection::compare_whole(good, out, tolerances, team).max_error > 1 ? 1 : 0;
  }

  std::int64_t any(std::int64_t count) const {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count));
  }

  // A fault in one element for as long as it lives.
  struct Fault {
    Fault(const ObserverPlan& plan, const ConvArgs& args, Arithmetic arithmetic, const HostTensor& out,
          const Dims& where)
        : at(where), type(out.desc.type), data(out.data.get()), offset(out.desc.offset(where.data())) {
      const ReferenceElement element = reference_element(plan.problem_, args, at.data(), arithmetic);
      right = load_as_double(type, data, offset);
      const double tolerance = element.bound + half_ulp(type, std::abs(element.exact) + element.bound);
      const double distance = plan.options_.fault_tolerances * tolerance;
      for (const double sign : {plan.any(2) == 0 ? 1.0 : -1.0, 1.0, -1.0}) {
        store_from_double(type, data, offset, element.exact + sign * distance);
        value = load_as_double(type, data, offset);
        // What is rounded to out's type is up to half a unit nearer, or ends where the type does.
        done = std::abs(value - element.exact) > 0.8 * distance;
        if (done) return;
      }
    }
    ~Fault() { store_from_double(type, data, offset, right); }
    Fault(const Fault&) = delete;
    Fault& operator=(const Fault&) = delete;

    Dims at;
    DataType type;
    std::byte* data;
    std::int64_t offset;
    double right = 0, value = 0;
    bool done = false;
  };

  ConvProblem problem_;
  ObserverOptions options_;
  Observations& observations_;
  HostTensor weights_;
  std::vector<Contestant> contestants_;
  std::unique_ptr<ConvPlan> oracle_;
  mutable std::mt19937_64 random_{1};
};

class Observer final : public Engine {
 public:
  Observer(const ObserverOptions& options, Observations& observations)
      : info_(reference_engine().info()), options_(options), observations_(observations) {
    info_.name = "observer";
    info_.oracle = false;
  }

  const EngineInfo& info() const override { return info_; }
  // As the real engines', which decide how a network lays out its tensors.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const auto best = predict_best(problem, all_engines(), {}, request);
    return best ? best->seconds : 1;
  }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    auto plan = std::make_unique<ObserverPlan>(problem, options_, observations_);
    CONVOY_CHECK(plan->prepare(request));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  EngineInfo info_;
  ObserverOptions options_;
  Observations& observations_;
};

}  // namespace

std::unique_ptr<Engine> make_observer(const ObserverOptions& options, Observations& observations) {
  return std::make_unique<Observer>(options, observations);
}

}  // namespace convoy::testing
