// An engine of a GPU for testing/fake_driver.cc: it computes when the stream, or a graph that it was captured in, comes
// to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "device/cuda/driver.h"
#include "device/cuda/errors.h"
#include "engines/reference/reference.h"

namespace convoy::testing_support {

// Computes with the oracle in the stream's order.
class StreamEngine : public Engine {
 public:
  explicit StreamEngine(std::string name = "test.stream") {
    info_.name = std::move(name);
    declare_everything(info_);
    info_.device = DeviceKind::cuda;
  }
  EngineInfo& declared() { return info_; }
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    if (problem.x.type == DataType::f32 && wide_seconds > 0) return wide_seconds;
    return problem.epilogue.activation.kind == ActivationKind::identity ? 1e-6 : with_activation;
  }
  double wide_seconds = 0;            // that it predicts in f32; 0: those of other types
  double with_activation = 1e-6;      // seconds that it predicts
  mutable std::atomic<int> runs = 0;  // executions that were come to
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest&) const override {
    CONVOY_TRY(auto right, reference_engine().plan(problem, {}, {}));
    return std::unique_ptr<ConvPlan>(std::make_unique<Plan>(std::move(right), *this));
  }

 private:
  struct Plan : ConvPlan {
    Plan(std::unique_ptr<ConvPlan> right, const StreamEngine& engine) : right(std::move(right)), engine(engine) {}
    Candidate candidate() const override { return {engine.info_.name, {}}; }
    std::size_t workspace_bytes() const override { return 256; }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      const std::lock_guard lock(mutex);
      launches.push_back({this, args});
      const auto run = [](void* launch) {
        const auto& [plan, launched] = *static_cast<Launch*>(launch);
        const auto team = make_cpu_team(1);
        EXPECT_TRUE(plan->right->execute(launched, {*team}).ok());
        ++plan->engine.runs;
      };
      const auto status =
          (*cuda::driver())->LaunchHostFunc(static_cast<CUstream>(context.stream()), run, &launches.back());
      return cuda::check(status, "cuLaunchHostFunc", engine.info_.name);
    }
    struct Launch {
      const Plan* plan;
      ConvArgs args;
    };
    std::unique_ptr<ConvPlan> right;
    const StreamEngine& engine;
    mutable std::mutex mutex;
    mutable std::deque<Launch> launches;
  };
  EngineInfo info_;
};

}  // namespace convoy::testing_support
