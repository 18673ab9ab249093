// Selection with fake engines: the policy, not the kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "convoy/selection.h"
#include "engines/reference/reference.h"

namespace convoy {
namespace {

// Computes with the oracle, but sleeps, lies, refuses or fails as told.
struct FakeEngine : Engine {
  struct Behaviour {
    double predicted = 1;
    double sleep_seconds = 0;
    bool wrong = false;
    std::optional<Refusal> refusal;
    std::size_t workspace = 0;
    bool deterministic = true;
  };

  FakeEngine(std::string name, Behaviour behaviour) : behaviour_(std::move(behaviour)) {
    info_.name = std::move(name);
    info_.passes = {Pass::fprop};
    info_.deterministic = behaviour_.deterministic;
  }

  const EngineInfo& info() const override { return info_; }
  std::optional<Refusal> check(const ConvProblem&, const CpuFeatures&) const override { return behaviour_.refusal; }
  std::vector<Knob> knobs(const ConvProblem&, const CpuFeatures&) const override {
    return {{"tile", {4, 2}, "a knob"}};
  }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
    return behaviour_.predicted;
  }

  struct FakePlan : ConvPlan {
    Behaviour behaviour;
    Candidate name;
    ConvProblem problem;
    std::unique_ptr<ConvPlan> right;
    Candidate candidate() const override { return name; }
    std::size_t workspace_bytes() const override { return std::max(behaviour.workspace, right->workspace_bytes()); }
    Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
      std::this_thread::sleep_for(std::chrono::duration<double>(behaviour.sleep_seconds));
      auto result = right->execute(args, context);
      if (behaviour.wrong) static_cast<float*>(args.out)[0] += 1;
      return result;
    }
  };

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    auto plan = std::make_unique<FakePlan>();
    plan->behaviour = behaviour_;
    plan->problem = problem;
    plan->name = {info_.name, {{"tile", knob_or(knobs, "tile", 4)}}};
    CONVOY_TRY(plan->right, reference_engine().plan(problem, {}, request));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  Behaviour behaviour_;
  EngineInfo info_;
};

class Select : public testing::Test {
 protected:
  Select() {
    auto parsed = parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1");
    EXPECT_TRUE(parsed.ok());
    problem_ = *parsed;
    request_.cpu = cpu_features();
  }

  ConvProblem problem_;
  PlanRequest request_;
  FakeEngine quick_{"fake.quick", {.predicted = 2}};
  FakeEngine slow_{"fake.slow", {.predicted = 1, .sleep_seconds = 0.01}};
  FakeEngine wrong_{"fake.wrong", {.predicted = 0.5, .wrong = true}};
  FakeEngine unable_{"fake.unable", {.refusal = Refusal{RefusalCode::channels, "C=4: this engine needs 8"}}};
};

TEST_F(Select, ListsEveryEngineWithItsReason) {
  const std::vector<const Engine*> engines = {&quick_, &unable_};
  const auto answers = list_candidates(problem_, engines, request_);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_FALSE(answers[0].refusal.has_value());
  EXPECT_EQ(print(answers[0].default_candidate), "fake.quick{tile=4}");
  ASSERT_TRUE(answers[1].refusal.has_value());
  EXPECT_EQ(answers[1].refusal->reason, "C=4: this engine needs 8");
}

TEST_F(Select, HeuristicTakesTheBestPrediction) {
  const std::vector<const Engine*> engines = {&quick_, &slow_};
  const auto selection = select(problem_, engines, {}, request_);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
  EXPECT_EQ(selection->reason, "heuristic");
}

TEST_F(Select, MeasuredPrefersTheQuickAndNeverTheWrong) {
  const std::vector<const Engine*> engines = {&wrong_, &slow_, &quick_};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  const auto selection = select(problem_, engines, options, request_);
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  ASSERT_EQ(selection->measurements.size(), 3u);
  const Measurement& last = selection->measurements.back();
  EXPECT_EQ(last.candidate.engine, "fake.wrong");
  ASSERT_TRUE(last.failure.has_value());
  EXPECT_EQ(last.failure->code, ErrorCode::wrong_result);
  EXPECT_NE(last.failure->message.find(print(problem_)), std::string::npos) << last.failure->message;
}

TEST_F(Select, OnlyWrongCandidatesIsAnError) {
  const std::vector<const Engine*> engines = {&wrong_};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  const auto selection = select(problem_, engines, options, request_);
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::wrong_result);
}

TEST_F(Select, AllKnobsAreMeasuredOnRequest) {
  const std::vector<const Engine*> engines = {&quick_};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  options.all_knobs = true;
  const auto selection = select(problem_, engines, options, request_);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->measurements.size(), 2u);
}

TEST_F(Select, ProgressCanStopIt) {
  const std::vector<const Engine*> engines = {&quick_, &slow_};
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  const auto selection =
      select(problem_, engines, options, request_, {}, [](const Measurement&, int, int) { return false; });
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->measurements.size(), 1u);
  EXPECT_FALSE(selection->warnings.empty());
}

TEST_F(Select, RulesDecideStrictlyOrWithAVisibleFallback) {
  const std::vector<const Engine*> engines = {&quick_, &slow_, &unable_};
  SelectionOptions options;
  options.rules = *parse_rules("node=head -> fake.unable\n* -> fake.quick{tile=2}");
  const auto by_rule = select(problem_, engines, options, request_);
  ASSERT_TRUE(by_rule.ok());
  EXPECT_EQ(print(by_rule->candidate), "fake.quick{tile=2}");
  EXPECT_EQ(by_rule->reason, "rule '*'");

  const auto strict = select(problem_, engines, options, request_, "head");
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message.find("C=4: this engine needs 8"), std::string::npos);

  options.strict_rules = false;
  const auto fallback = select(problem_, engines, options, request_, "head");
  ASSERT_TRUE(fallback.ok());
  EXPECT_EQ(fallback->candidate.engine, "fake.slow");
  ASSERT_EQ(fallback->warnings.size(), 1u);
}

TEST_F(Select, UnknownEnginesAndKnobsAreNamed) {
  const std::vector<const Engine*> engines = {&quick_};
  const auto unknown = make_plan(problem_, {"fake.nobody", {}}, engines, request_);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  const auto knob = make_plan(problem_, {"fake.quick", {{"tile", 3}}}, engines, request_);
  ASSERT_FALSE(knob.ok());
  EXPECT_NE(knob.error().message.find("tile=3"), std::string::npos);
  const auto name = make_plan(problem_, {"fake.quick", {{"size", 4}}}, engines, request_);
  ASSERT_FALSE(name.ok());
  EXPECT_NE(name.error().message.find("size"), std::string::npos);
}

TEST_F(Select, NobodyCanListsEveryReason) {
  const std::vector<const Engine*> engines = {&unable_, &quick_};
  SelectionOptions options;
  options.filter.engines = "!fake.quick";
  const auto selection = select(problem_, engines, options, request_);
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
  EXPECT_NE(selection.error().message.find("this engine needs 8"), std::string::npos);
  EXPECT_NE(selection.error().message.find("!fake.quick"), std::string::npos);
}

TEST_F(Select, FiltersHoldBackWorkspaceAndNondeterminism) {
  FakeEngine hungry("fake.hungry", {.predicted = 0.1, .workspace = 1 << 20});
  FakeEngine unsteady("fake.unsteady", {.predicted = 0.2, .deterministic = false});
  const std::vector<const Engine*> engines = {&hungry, &unsteady, &quick_};
  SelectionOptions options;
  options.filter.workspace_limit = 1000;
  options.filter.deterministic_only = true;
  const auto selection = select(problem_, engines, options, request_);
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
}

}  // namespace
}  // namespace convoy
