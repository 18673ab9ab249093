#include "select/explain/explain.h"

#include <gtest/gtest.h>

#include "select/testing/faulty_engine.h"
#include "select/tune/rounds.h"

namespace convoy::selection {
namespace {

using testing::EngineFault;
using testing::FaultyEngine;

class Explain : public ::testing::Test {
 protected:
  Explain() {
    request_.cpu = cpu_features();
    quick_.predicted = 1e-3;
    slow_.predicted = 2e-3;
    wrong_.predicted = 0.5e-3;
  }

  Explanation explain(const SelectionOptions& options = {}) const {
    const Engine* engines[] = {&quick_, &slow_, &wrong_};
    return selection::explain(problem_, engines, options, request_);
  }

  ConvProblem problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3:pad=1x1:bias=1");
  PlanRequest request_;
  FaultyEngine quick_{EngineFault::none, "fake.quick"};
  FaultyEngine slow_{EngineFault::none, "fake.slow"};
  FaultyEngine wrong_{EngineFault::wrong, "fake.wrong"};
};

TEST_F(Explain, TheHeuristicAndItsRunnerUp) {
  SelectionOptions options;
  options.filter.engines = "!fake.wrong";
  const Explanation explanation = explain(options);
  ASSERT_TRUE(explanation.chosen.has_value());
  EXPECT_EQ(explanation.chosen->candidate.engine, "fake.quick");
  EXPECT_EQ(explanation.decided_by, "the heuristic, among 2 candidates");
  ASSERT_TRUE(explanation.runner_up.has_value());
  EXPECT_EQ(print(*explanation.runner_up), "fake.slow{tile=4}");
  EXPECT_EQ(explanation.why_not_runner_up, "predicted to take 2.00 times as long (2 ms against 1 ms)");
  EXPECT_EQ(explanation.stages, std::vector<std::string>{"products"});
  ASSERT_EQ(explanation.passed_over.size(), 1u);
  EXPECT_EQ(explanation.passed_over[0],
            "fake.wrong{tile=4}, predicted to take 0.50 times as long (500 us against 1 ms): "
            "engines='!fake.wrong': this engine is not among them");
  ASSERT_EQ(explanation.engines.size(), 3u);
  ASSERT_TRUE(explanation.engines[2].excluded.has_value());
  EXPECT_EQ(explanation.engines[2].excluded->code, RefusalCode::filtered);
  EXPECT_EQ(explanation.engines[0].workspace_bytes, 64u);
}

TEST_F(Explain, AFilterThatLeavesOneDecides) {
  SelectionOptions options;
  options.filter.engines = "fake.slow";
  const Explanation explanation = explain(options);
  EXPECT_EQ(explanation.decided_by, "the filter: nothing else that can passes it");
  EXPECT_FALSE(explanation.runner_up.has_value());
  EXPECT_EQ(explanation.passed_over.size(), 2u);
}

// `convoy explain ... --notes '!WINOGRAD'` listed cpu.winograd as able, and could call it the runner-up.
TEST_F(Explain, EveryPartOfTheFilterKeepsEnginesOut) {
  quick_.declare().notes = {"WINOGRAD", "RUNTIME_COMPILATION", "TF32"};
  const auto excluded = [&](auto set) {
    SelectionOptions options;
    options.filter.engines = "!fake.wrong";
    set(options.filter);
    const Explanation explanation = explain(options);
    EXPECT_EQ(explanation.chosen ? explanation.chosen->candidate.engine : "nothing", "fake.slow");
    EXPECT_FALSE(explanation.runner_up.has_value());
    EXPECT_EQ(explanation.decided_by, "the filter: nothing else that can passes it");
    const auto& verdict = explanation.engines[0];
    return verdict.excluded ? verdict.excluded->reason : "";
  };
  problem_.math = MathMode::tf32;
  EXPECT_EQ(excluded([](SelectionFilter& f) { f.notes = "!WINOGRAD"; }),
            "notes='!WINOGRAD': this candidate has the note WINOGRAD");
  EXPECT_EQ(excluded([](SelectionFilter& f) { f.runtime_compilation = false; }),
            "runtime_compilation=0: this candidate is compiled at run time");
  EXPECT_EQ(excluded([](SelectionFilter& f) { f.tf32 = false; }), "tf32=0: this candidate rounds its inputs to tf32");
  problem_.math = MathMode::strict;
  EXPECT_EQ(excluded([](SelectionFilter&) {}), "math=strict: this candidate rounds its inputs to tf32");
  quick_.declare().notes = {};
  slow_.declare().name = "cpu.slow";
  SelectionOptions options;
  options.filter.config = LibraryConfig::portable;
  const Explanation explanation = explain(options);
  EXPECT_EQ(explanation.engines[0].excluded->reason,
            "configuration=portable: this engine is not one of Convoy's own for the CPU");
}

TEST_F(Explain, AnOracleIsNoRunnerUp) {
  slow_.declare().oracle = true;
  wrong_.declare().passes = {Pass::dgrad};
  const Explanation explanation = explain();
  EXPECT_FALSE(explanation.runner_up.has_value());
  EXPECT_EQ(explanation.decided_by, "nothing else can");
  ASSERT_TRUE(explanation.engines[1].excluded.has_value());
  EXPECT_NE(explanation.engines[1].excluded->reason.find("this engine is an oracle"), std::string::npos);
}

TEST_F(Explain, ARuleDecides) {
  SelectionOptions options;
  options.rules = *parse_rules("* -> fake.slow{tile=2}");
  const Explanation explanation = explain(options);
  EXPECT_EQ(explanation.decided_by, "rule '*': nothing else was considered");
  ASSERT_TRUE(explanation.runner_up.has_value());
  EXPECT_EQ(explanation.runner_up->engine, "fake.wrong") << "nobody knows yet that it is";
  EXPECT_EQ(explanation.why_not_runner_up, "predicted to take 0.25 times as long (500 us against 2 ms)");
}

TEST_F(Explain, MeasuredTimesAndWrongResults) {
  SelectionOptions options;
  options.mode = SelectionMode::measured;
  options.budget_seconds = 0.2;
  const Explanation explanation = explain(options);
  ASSERT_TRUE(explanation.chosen.has_value());
  EXPECT_EQ(explanation.decided_by, "measurement, of 3 candidates");
  ASSERT_TRUE(explanation.runner_up.has_value());
  EXPECT_TRUE(explanation.why_not_runner_up.starts_with("measured to take ")) << explanation.why_not_runner_up;
  for (const EngineVerdict& verdict : explanation.engines) ASSERT_TRUE(verdict.measured.has_value());
  EXPECT_TRUE(explanation.engines[2].measured->failure.has_value());
  ASSERT_EQ(explanation.passed_over.size(), 1u);
  EXPECT_NE(explanation.passed_over[0].find("the oracle says"), std::string::npos) << explanation.passed_over[0];
}

// What is said of times agrees with what was chosen by them.
TEST_F(Explain, TimesThatAreNotBeyondDoubtDoNotContradictTheChoice) {
  RoundStore store;
  SelectionOptions options;
  options.store = &store;
  options.filter.engines = "!fake.wrong";
  const auto put = [&](const FaultyEngine& engine, std::int64_t tile, double seconds, int samples, double spread,
                       MeasurementState state) {
    Measurement m;
    m.candidate = {engine.info().name, {{"tile", tile}}};
    m.provider = engine.info().provider;
    m.revision = engine.info().revision;
    m.median_seconds = seconds;
    m.samples = samples;
    m.spread = spread;
    m.state = state;
    ASSERT_TRUE(store.store(measurement_key(problem_, request_, options.caches), m).ok());
  };
  put(quick_, 4, 5e-3, 1, 0, MeasurementState::partial);
  put(quick_, 2, 1e-3, 1, 0, MeasurementState::partial);
  put(slow_, 4, 2e-3, 9, 0.01, MeasurementState::complete);
  Explanation explanation = explain(options);
  ASSERT_TRUE(explanation.chosen && explanation.runner_up);
  EXPECT_EQ(print(explanation.chosen->candidate), "fake.quick{tile=4}");
  EXPECT_EQ(explanation.decided_by,
            "the heuristic: of what was measured before, fake.quick{tile=2} is not faster beyond doubt");
  EXPECT_EQ(explanation.engines[0].measured->median_seconds, 5e-3) << "of what was chosen";
  EXPECT_EQ(explanation.why_not_runner_up, "predicted to take 2.00 times as long (2 ms against 1 ms)");
  put(quick_, 2, 9e-3, 9, 0, MeasurementState::complete);
  put(quick_, 4, 2.2e-3, 9, 0.05, MeasurementState::complete);
  put(slow_, 4, 2e-3, 9, 0.2, MeasurementState::complete);
  explanation = explain(options);
  EXPECT_EQ(print(explanation.chosen->candidate), "fake.quick{tile=4}");
  EXPECT_EQ(explanation.why_not_runner_up,
            "measured to take 0.91 times as long (2 ms against 2.2 ms), within the spread of 20%");
  put(slow_, 4, 2e-3, 9, 0.01, MeasurementState::complete);
  explanation = explain(options);
  EXPECT_EQ(print(explanation.chosen->candidate), "fake.slow{tile=4}");
  EXPECT_EQ(explanation.decided_by, "a measurement made before: the best of those stored");
}

TEST_F(Explain, NothingCan) {
  SelectionOptions options;
  options.filter.engines = "fake.nobody";
  const Explanation explanation = explain(options);
  EXPECT_FALSE(explanation.chosen.has_value());
  ASSERT_TRUE(explanation.nothing.has_value());
  for (const EngineVerdict& verdict : explanation.engines) EXPECT_TRUE(verdict.excluded.has_value());
}

}  // namespace
}  // namespace convoy::selection
