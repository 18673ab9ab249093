// Engines for tests of selection: the policy, not the kernels.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "convoy/engine.h"
#include "engines/reference/reference.h"

namespace convoy::testing_support {

// Computes with the oracle, but sleeps, lies, refuses or fails as told.
struct FakeEngine : Engine {
  struct Behaviour {
    double predicted = 1;
    double sleep_seconds = 0;
    bool wrong = false;
    std::optional<Refusal> refusal;
    std::size_t workspace = 0;
    bool deterministic = true;
    std::vector<std::string> notes = {};
    double sleep_with_tile_2 = -1;               // where it is not sleep_seconds
    std::int64_t tiles = 2;                      // values of the knob: 4, 2, and from 5 on
    std::atomic<int>* disturbed_runs = nullptr;  // so many more executions take 10 ms longer
    std::atomic<int>* plans = nullptr;           // counts the plans made
    bool plan_fails = false;
    std::string provider = {};
    bool oracle = false;
    bool notes_vary = false;
    std::vector<std::string> plan_notes = {};  // of its plans alone
    int good_runs = -1;                        // so many executions of a plan, then it fails, quickly; -1: never
    bool overconfident = false;                // its estimate doesn't know of `refusal`
    std::int64_t estimated_tile = 4;           // where it is overconfident: the knob of its estimate
    DeviceKind device = DeviceKind::cpu;       // on a GPU it runs on testing/fake_driver.cc, whose memory is the host's
    std::function<Result<void>(const ExecContext&)> launch = {};  // instead of computing
    std::string plan_refusal = {};                                // why planning refuses what `refusal` lets pass
    double plan_seconds = 0;                                      // that planning takes
  };

  FakeEngine(std::string name, Behaviour behaviour) : behaviour_(std::move(behaviour)) {
    info_.name = std::move(name);
    declare_everything(info_);
    info_.passes = {Pass::fprop};
    info_.requantize = info_.zero_points = info_.given_zero_points = false;
    info_.deterministic = behaviour_.deterministic;
    info_.notes = behaviour_.notes;
    info_.provider = behaviour_.provider;
    info_.oracle = behaviour_.oracle;
    info_.notes_vary = behaviour_.notes_vary;
    info_.device = behaviour_.device;
  }

  const EngineInfo& info() const override { return info_; }
  std::optional<Refusal> check(const ConvProblem&, const PlanRequest&) const override { return behaviour_.refusal; }
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override {
    std::vector<KnobSetting> values = {4, 2};
    while (static_cast<std::int64_t>(values.size()) < behaviour_.tiles) values.emplace_back(values.size() + 3);
    return {{{"tile", values, "a knob"}}, {}};
  }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
    return behaviour_.predicted;
  }

  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    if (!behaviour_.overconfident) return Engine::estimate(problem, request);
    return Estimate{{{"tile", behaviour_.estimated_tile}}, behaviour_.predicted, true};
  }

  struct FakePlan : ConvPlan {
    Behaviour behaviour;
    Candidate name;
    std::unique_ptr<ConvPlan> right;
    mutable std::atomic<int> runs = 0;
    Candidate candidate() const override { return name; }
    std::vector<std::string> notes() const override { return behaviour.plan_notes; }
    std::size_t workspace_bytes() const override { return std::max(behaviour.workspace, right->workspace_bytes()); }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      if (behaviour.good_runs >= 0 && runs++ >= behaviour.good_runs) return Error{ErrorCode::internal, "out of luck"};
      const bool special = behaviour.sleep_with_tile_2 >= 0 && knob_or(name.knobs, "tile", 4) == 2;
      const double seconds = special ? behaviour.sleep_with_tile_2 : behaviour.sleep_seconds;
      if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      if (behaviour.disturbed_runs != nullptr && (*behaviour.disturbed_runs)-- > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      if (behaviour.launch) return behaviour.launch(context);
      const auto team = make_cpu_team(1);  // a fake GPU has none
      const bool own = context.queue.kind() != DeviceKind::cpu;
      auto result =
          right->execute(args, own ? ExecContext{*team, context.workspace, context.workspace_bytes} : context);
      if (behaviour.wrong) static_cast<float*>(args.out)[0] += 1;
      return result;
    }
  };

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    if (behaviour_.plans != nullptr) ++*behaviour_.plans;
    std::this_thread::sleep_for(std::chrono::duration<double>(behaviour_.plan_seconds));
    if (!behaviour_.plan_refusal.empty()) return Error{ErrorCode::unsupported, behaviour_.plan_refusal};
    if (behaviour_.plan_fails) return Error{ErrorCode::internal, info_.name + " can't plan"};
    auto plan = std::make_unique<FakePlan>();
    plan->behaviour = behaviour_;
    plan->name = {info_.name, {{"tile", knob_or(knobs, "tile", 4)}}};
    CONVOY_TRY(plan->right, reference_engine().plan(problem, {}, request));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  Behaviour behaviour_;
  EngineInfo info_;
};

}  // namespace convoy::testing_support
