// The property itself is tested: engines with one fault each must be caught.
#include "engines/testing/engine_property.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

namespace convoy::testing {
namespace {

// Called after a right execution, to spoil it.
using Fault = std::function<void(const ConvProblem&, const ConvArgs&, const ExecContext&)>;

class FaultyPlan final : public ConvPlan {
 public:
  FaultyPlan(ConvProblem problem, std::unique_ptr<ConvPlan> right, const Fault& fault)
      : problem_(std::move(problem)), right_(std::move(right)), fault_(fault) {}
  Candidate candidate() const override { return {"faulty", {}}; }
  std::size_t workspace_bytes() const override { return 100; }
  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(right_->execute(args, context));
    fault_(problem_, args, context);
    return {};
  }

 private:
  ConvProblem problem_;
  std::unique_ptr<ConvPlan> right_;
  const Fault& fault_;
};

class FaultyEngine final : public Engine {
 public:
  explicit FaultyEngine(Fault fault) : fault_(std::move(fault)) {
    info_.name = "faulty";
    declare_everything(info_);
    info_.requantize = info_.zero_points = info_.given_zero_points = info_.any_types = false;
    info_.types = {{DataType::f32, DataType::f32, DataType::f32, DataType::f32}};
  }
  EngineInfo& declare() { return info_; }
  const EngineInfo& info() const override { return info_; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    CONVOY_TRY(std::unique_ptr<ConvPlan> right, reference_engine().plan(problem, knobs, request));
    return std::unique_ptr<ConvPlan>(std::make_unique<FaultyPlan>(problem, std::move(right), fault_));
  }

 private:
  EngineInfo info_;
  Fault fault_;
};

float* last_element(const ConvProblem& problem, const ConvArgs& args) {
  Dims last = problem.out().dims;
  for (auto& coordinate : last) --coordinate;
  return static_cast<float*>(args.out) + problem.out().offset(last.data());
}

template <class Visit>
void for_each_element(const TensorDesc& desc, Visit visit) {
  Dims at(desc.dims.size(), 0);
  for (std::int64_t i = 0; i < desc.elements(); ++i) {
    visit(desc.offset(at.data()));
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == desc.dims[d];) at[d] = 0;
  }
}

PropertySummary check(const Engine& engine, std::int64_t count = 6) {
  PropertyOptions options;
  options.count = count;
  options.isas = {Isa::portable};
  options.max_failures = 1;
  return check_engine(engine, options);
}

void expect_caught(const char* words, Fault fault) {
  const PropertySummary summary = check(FaultyEngine(std::move(fault)));
  ASSERT_FALSE(summary.failures.empty());
  EXPECT_NE(summary.failures[0].find(words), std::string::npos) << summary.failures[0];
  EXPECT_NE(summary.failures[0].find("--problem '"), std::string::npos) << summary.failures[0];
}

TEST(EngineProperty, ARightEnginePassesAndIsCounted) {
  const PropertySummary summary = check(FaultyEngine([](auto&, auto&, auto&) {}));
  EXPECT_TRUE(summary.failures.empty()) << summary.failures[0];
  ASSERT_EQ(summary.runs.size(), 2U);
  for (const PropertyRuns& runs : summary.runs) {
    EXPECT_EQ(runs.problems, 6);
    EXPECT_EQ(runs.exact, 1);
    EXPECT_LE(runs.max_error, 1);
  }
}

// Not one that this processor lacks something for.
TEST(EngineProperty, AnEngineThatDeclaresNoInstructionSet) {
  FaultyEngine engine([](auto&, auto&, auto&) {});
  engine.declare().min_isa.reset();
  const PropertySummary summary = check(engine);
  EXPECT_FALSE(summary.unavailable);
  ASSERT_EQ(summary.failures.size(), 1U);
  EXPECT_EQ(summary.failures[0],
            "faulty declares no min_isa, so it refuses every problem: what is not declared is refused");
  EXPECT_EQ(check_concurrency(engine, 1), summary.failures[0]);
}

TEST(EngineProperty, OneWrongElement) {
  expect_caught("tolerances off", [](auto& problem, auto& args, auto&) { *last_element(problem, args) += 0.01F; });
}

TEST(EngineProperty, OneElementNotWritten) {
  expect_caught("tolerances off", [](auto& problem, auto& args, auto&) {
    std::memset(last_element(problem, args), 0xFF, sizeof(float));
  });
}

// Of y=s32: an engine whose sums pass through f32.
TEST(EngineProperty, ASumRoundedToF32) {
  FaultyEngine engine([](auto& problem, auto& args, auto&) {
    for_each_element(problem.out(), [&](std::int64_t offset) {
      std::int32_t& sum = static_cast<std::int32_t*>(args.out)[offset];
      const auto rounded = static_cast<double>(static_cast<float>(sum));
      sum = rounded > INT32_MAX ? INT32_MAX : static_cast<std::int32_t>(rounded);
    });
  });
  for (const DataType x : {DataType::u8, DataType::s8}) {
    for (const DataType w : {DataType::u8, DataType::s8}) {
      engine.declare().types = {{x, w, DataType::s32, DataType::s32}};
      engine.declare().bias = false;
      engine.declare().alpha_beta = engine.declare().residual = engine.declare().any_activation = false;
      const PropertySummary summary = check(engine, 80);
      ASSERT_FALSE(summary.failures.empty()) << name_of(x) << " " << name_of(w);
      EXPECT_NE(summary.failures[0].find("fill: limits"), std::string::npos) << summary.failures[0];
    }
  }
}

TEST(EngineProperty, AWritePastTheEnd) {
  expect_caught("red zone", [](auto& problem, auto& args, auto&) {
    static_cast<float*>(args.out)[problem.out().storage_elements()] = 0;
  });
}

TEST(EngineProperty, AWriteBeforeTheBeginning) {
  expect_caught("red zone", [](auto&, auto& args, auto&) { static_cast<float*>(args.out)[-1] = 0; });
}

TEST(EngineProperty, AWritePastTheWorkspace) {
  expect_caught("workspace", [](auto&, auto&, auto& context) { static_cast<char*>(context.workspace)[100] = 0; });
}

TEST(EngineProperty, WorkspaceTrustedToBeZero) {
  expect_caught("tolerances off", [](auto& problem, auto& args, auto& context) {
    *last_element(problem, args) += static_cast<const float*>(context.workspace)[0];
  });
}

TEST(EngineProperty, ASumThatDependsOnTheThreadCount) {
  expect_caught("thread_invariant", [](auto& problem, auto& args, auto& context) {
    float* element = last_element(problem, args);
    if (context.team().size() == 3) *element = std::nextafter(*element, 1e30F);
  });
}

TEST(EngineProperty, AResultThatChangesWithEachExecution) {
  int executions = 0;
  expect_caught("determinism", [&executions](auto& problem, auto& args, auto&) {
    float* element = last_element(problem, args);
    if (++executions % 2 == 0) *element = std::nextafter(*element, 1e30F);
  });
}

TEST(EngineProperty, AResultThatDependsOnTheCallingThread) {
  EXPECT_EQ(check_concurrency(FaultyEngine([](auto&, auto&, auto&) {}), 1), "");
  const auto main_thread = std::this_thread::get_id();
  const FaultyEngine engine([main_thread](auto& problem, auto& args, auto&) {
    if (std::this_thread::get_id() != main_thread) *last_element(problem, args) += 1;
  });
  EXPECT_NE(check_concurrency(engine, 1).find("four threads"), std::string::npos);
}

// As a transform does, and as a product with padding does.
TEST(EngineProperty, ASpreadNaN) {
  const auto spread = [](auto& problem, auto& args, auto&) {
    const bool dgrad = problem.pass == Pass::dgrad;
    const float first = *static_cast<const float*>(dgrad ? args.y : args.x);
    *last_element(problem, args) += 0 * first;
  };
  FaultyEngine engine(spread);
  PropertyOptions options;
  options.count = 400;
  options.isas = {Isa::portable};
  options.max_failures = 1;
  const PropertySummary summary = check_engine(engine, options);
  ASSERT_FALSE(summary.failures.empty());
  EXPECT_NE(summary.failures[0].find("--fill special"), std::string::npos) << summary.failures[0];
}

TEST(EngineProperty, ChannelPaddingLeftAsItWas) {
  FaultyEngine engine([](auto& problem, auto& args, auto&) {
    const TensorDesc& out = problem.out();
    if (out.padded_channels() == out.dims[1] || problem.pass == Pass::wgrad) return;
    float* element = last_element(problem, args);
    std::memset(element + 1, 0xFF, sizeof(float));
  });
  engine.declare().passes = {Pass::fprop};
  engine.declare().any_layouts = false;
  engine.declare().layouts = {{Layout::nchw16c, Layout::nchw16c}};
  const PropertySummary summary = check(engine);
  ASSERT_FALSE(summary.failures.empty());
  EXPECT_NE(summary.failures[0].find("channel padding"), std::string::npos) << summary.failures[0];
}

TEST(EngineProperty, AnEngineWithNarrowLimitsStillGetsProblems) {
  class Narrow final : public Engine {
   public:
    Narrow() {
      info_.name = "narrow";
      declare_everything(info_);
      info_.passes = {Pass::fprop};
    }
    const EngineInfo& info() const override { return info_; }
    std::optional<Refusal> check(const ConvProblem& p, const PlanRequest&) const override {
      for (int i = 0; i < p.spatial_dims(); ++i) {
        if (p.w.dims[2 + i] != 3) return Refusal{RefusalCode::filter, "w"};
        if (p.stride[i] != 1) return Refusal{RefusalCode::stride, "stride"};
        if (p.dilation[i] != 1) return Refusal{RefusalCode::dilation, "dilation"};
      }
      if (p.in_channels() / p.groups % 16 != 0) return Refusal{RefusalCode::channels, "channels"};
      if (p.x.alignment < 64) return Refusal{RefusalCode::alignment, "alignment"};
      return std::nullopt;
    }
    double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
    Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
      return Error{ErrorCode::internal, "not called"};
    }

   private:
    EngineInfo info_;
  };
  const Narrow engine;
  Random random(5);
  Acceptance acceptance;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(random_problem_for(random, engine, {}, options_for(engine.info()), acceptance).has_value());
  }
  EXPECT_LT(acceptance.tried, 200 * 12);
}

}  // namespace
}  // namespace convoy::testing
