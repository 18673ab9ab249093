// The oracle with one fault, for tests of what finds faults.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "convoy/engine.h"
#include "core/stages.h"
#include "engines/reference/reference.h"

namespace convoy::testing {

inline std::int32_t through_f32(std::int32_t sum) {
  const auto rounded = static_cast<double>(static_cast<float>(sum));
  return rounded > INT32_MAX ? INT32_MAX : static_cast<std::int32_t>(rounded);
}

enum class EngineFault {
  none,
  wrong,
  wrong_inside,
  unsteady,
  depends_on_threads,
  fails,
  no_plan,
  refuses,
  crashes,
  sums_in_f32
};

class FaultyEngine final : public Engine {
 public:
  explicit FaultyEngine(EngineFault fault, std::string name = "fake.engine") : fault_(fault) {
    info_.name = std::move(name);
    declare_everything(info_);
    info_.requantize = false;
  }
  EngineInfo& declare() { return info_; }
  double predicted = 1;  // seconds

  const EngineInfo& info() const override { return info_; }
  Configurations configurations(const ConvProblem&, const PlanRequest&) const override {
    return {{{"tile", {4, 2}, "a knob"}}, {}};
  }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return predicted; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    if (fault_ == EngineFault::no_plan) return Error{ErrorCode::internal, "no plan today"};
    if (fault_ == EngineFault::refuses) return Error{ErrorCode::unsupported, "not on Mondays"};
    auto plan = std::make_unique<FaultyPlan>();
    plan->fault = fault_;
    plan->elements = problem.out().storage_elements();
    plan->last_float = problem.out().storage_elements() - 1;
    plan->name = {info_.name, {{"tile", knob_or(knobs, "tile", 4)}}};
    CONVOY_TRY(plan->right, reference_engine().plan(problem, {}, request));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  struct FaultyPlan final : ConvPlan, HasStages {
    EngineFault fault;
    std::int64_t elements, last_float;
    Candidate name;
    std::unique_ptr<ConvPlan> right;

    Candidate candidate() const override { return name; }
    std::size_t workspace_bytes() const override { return 64; }
    std::vector<std::string> stages() const override { return {"products"}; }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      static std::atomic<int> executions = 0;
      if (fault == EngineFault::fails) return Error{ErrorCode::internal, "out of luck"};
      if (fault == EngineFault::crashes) std::raise(SIGKILL);
      CONVOY_CHECK(right->execute(args, context));
      if (fault == EngineFault::sums_in_f32) {  // of a problem with y=s32
        auto* sums = static_cast<std::int32_t*>(args.out);
        for (std::int64_t i = 0; i < elements; ++i) sums[i] = through_f32(sums[i]);
      }
      auto* bits = static_cast<std::uint32_t*>(args.out) + last_float;
      if (fault == EngineFault::wrong) static_cast<float*>(args.out)[0] += 1;
      if (fault == EngineFault::wrong_inside) static_cast<float*>(args.out)[last_float * 2 / 3] += 1;
      if (fault == EngineFault::unsteady) *bits ^= ++executions & 1;  // the last bit of the last element
      if (fault == EngineFault::depends_on_threads) *bits ^= context.team().size() & 1;
      return {};
    }
  };

  EngineFault fault_;
  EngineInfo info_;
};

}  // namespace convoy::testing
