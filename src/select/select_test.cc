// Selection with fake engines: the policy, not the kernels.
#include <gtest/gtest.h>

#include <limits>

#include "convoy/selection.h"
#include "core/refines.h"
#include "core/suggestions.h"
#include "select/choose/candidates.h"
#include "select/explain/explain.h"
#include "select/testing/fake_engine.h"

namespace convoy {
namespace {

using testing_support::FakeEngine;

class Select : public ::testing::Test {
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

struct SuggestingEngine : FakeEngine, HasSuggestions {
  using FakeEngine::FakeEngine;
  std::vector<KnobValues> suggestions(const ConvProblem&, const PlanRequest&) const override {
    return {{}, {{"tile", 2}}, {{"tile", 4}}, {{"tile", 2}}};  // the defaults in two spellings, and one other twice
  }
};

TEST_F(Select, SuggestionsAreRankedOnceEach) {
  const SuggestingEngine engine("fake.suggests", {});
  std::string names;
  for (const Candidate& c : rank_by_heuristic(problem_, std::vector<const Engine*>{&engine}, {}, request_)) {
    names += print(c) + " ";
  }
  EXPECT_EQ(names, "fake.suggests{tile=4} fake.suggests{tile=2} ");
}

// As cuDNN's: of other configurations a provider has to be asked.
struct RefiningEngine : FakeEngine, RefinesEstimates {
  using FakeEngine::FakeEngine;
  std::optional<Estimate> estimate(const ConvProblem&, const PlanRequest&) const override {
    return Estimate{{}, 1, false};
  }
  std::optional<Estimate> refine(const ConvProblem&, const PlanRequest&, int steps) const override {
    return Estimate{{{"tile", 4}}, 2, steps > 0};
  }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    ++asked;
    return FakeEngine::configurations(problem, request);
  }
  mutable int asked = 0;
};

TEST_F(Select, WhatIsPlannedAsItWasEstimatedIsAskedForNoOtherConfiguration) {
  const RefiningEngine engine("fake.refines", {});
  const std::vector<const Engine*> engines = {&engine};
  const auto best = predict_best(problem_, engines, {}, request_);
  ASSERT_TRUE(best.has_value());
  const auto plan = make_plan(problem_, best->candidate, engines, request_);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(print((*plan)->candidate()), "fake.refines{tile=4}");
  EXPECT_EQ(engine.asked, 0);
  EXPECT_TRUE(make_plan(problem_, {"fake.refines", {{"tile", 2}}}, engines, request_).ok());
  EXPECT_FALSE(make_plan(problem_, {"fake.refines", {{"tile", 3}}}, engines, request_).ok());
  EXPECT_EQ(engine.asked, 2);
}

TEST_F(Select, ALowerBoundIsTheLeastEstimate) {
  const RefiningEngine engine("fake.refines", {});
  const auto bound = [&](const std::vector<const Engine*>& engines, const std::string& filter) {
    SelectionFilter given;
    given.engines = filter;
    return selection::predict_at_least(problem_, engines, given, request_);
  };
  EXPECT_EQ(bound({&quick_, &engine}, "*"), 1);
  EXPECT_EQ(bound({&quick_}, "*"), 2);
  EXPECT_EQ(bound({}, "*"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(bound({&quick_}, "fake.quick{tile=2}"), std::nullopt);  // of which no estimate is
}

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
  EXPECT_EQ(selection->by, SelectedBy::heuristic);
}

// What is told from the problem alone may turn out wrong when the engine is asked: a prediction may be, a selection is
// not.
TEST_F(Select, WhatCantRunAfterAllIsReplacedVisibly) {
  const FakeEngine bluffer(
      "fake.bluffer",
      {.predicted = 0.01, .refusal = Refusal{RefusalCode::not_offered, "C=4: not offered"}, .overconfident = true});
  const std::vector<const Engine*> engines = {&bluffer, &quick_, &slow_};
  EXPECT_EQ(predict_best(problem_, engines, {}, request_)->candidate.engine, "fake.bluffer");
  auto selection = select(problem_, engines, {}, request_);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
  EXPECT_EQ(selection->by, SelectedBy::heuristic);
  EXPECT_TRUE(make_plan(problem_, selection->candidate, engines, request_).ok());
  ASSERT_EQ(selection->warnings.size(), 1U);
  EXPECT_NE(selection->warnings[0].find("C=4: not offered"), std::string::npos) << selection->warnings[0];

  const std::vector<const Engine*> alone = {&bluffer};
  selection = select(problem_, alone, {}, request_);
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
}

// An estimate's knobs may turn out wrong like the rest of it.
TEST_F(Select, KnobsThatTheProblemDoesntHaveAreReplacedVisibly) {
  const FakeEngine bluffer("fake.bluffer", {.predicted = 0.01, .overconfident = true, .estimated_tile = 3});
  const std::vector<const Engine*> engines = {&bluffer, &quick_, &slow_};
  EXPECT_EQ(print(predict_best(problem_, engines, {}, request_)->candidate), "fake.bluffer{tile=3}");
  const auto selection = select(problem_, engines, {}, request_);
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(print(selection->candidate), "fake.bluffer{tile=4}");
  const auto plan = make_plan(problem_, selection->candidate, engines, request_);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(selection->warnings.size(), 1U);
  EXPECT_NE(selection->warnings[0].find("knob tile=3: the values for this problem are 4, 2"), std::string::npos)
      << selection->warnings[0];
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

TEST_F(Select, RulesDecideStrictlyOrWithAVisibleFallback) {
  const std::vector<const Engine*> engines = {&quick_, &slow_, &unable_};
  SelectionOptions options;
  options.rules = *parse_rules("node=head -> fake.unable\n* -> fake.quick{tile=2}");
  const auto by_rule = select(problem_, engines, options, request_);
  ASSERT_TRUE(by_rule.ok());
  EXPECT_EQ(print(by_rule->candidate), "fake.quick{tile=2}");
  EXPECT_EQ(by_rule->reason(), "rule '*'");

  const auto strict = select(problem_, engines, options, request_, "head");
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message.find("C=4: this engine needs 8"), std::string::npos);

  options.strict_rules = false;
  const auto fallback = select(problem_, engines, options, request_, "head");
  ASSERT_TRUE(fallback.ok());
  EXPECT_EQ(fallback->candidate.engine, "fake.slow");
  ASSERT_EQ(fallback->warnings.size(), 1u);
}

TEST_F(Select, FiltersHoldForRulesAsWell) {
  const std::vector<const Engine*> engines = {&quick_, &slow_};
  SelectionOptions options;
  options.rules = *parse_rules("* -> fake.quick");
  options.filter.engines = "!fake.quick";
  const auto strict = select(problem_, engines, options, request_);
  ASSERT_FALSE(strict.ok());
  EXPECT_NE(strict.error().message.find("rule '*': fake.quick: engines='!fake.quick'"), std::string::npos)
      << strict.error().message;
  options.strict_rules = false;
  const auto fallback = select(problem_, engines, options, request_);
  ASSERT_TRUE(fallback.ok());
  EXPECT_EQ(fallback->candidate.engine, "fake.slow");
  EXPECT_EQ(fallback->rule, "");
  EXPECT_EQ(fallback->warnings.size(), 1u);
}

// A candidate that gives up precision needs the problem's leave, whatever the filter says.
TEST_F(Select, PrecisionIsLostOnlyWhereTheProblemAllowsIt) {
  const struct {
    const char* note;
    MathMode needs;
  } losses[] = {{"TF32", MathMode::tf32},
                {"DOWN_CONVERT_INPUTS", MathMode::reduced},
                {"REDUCED_PRECISION_REDUCTION", MathMode::reduced}};
  for (const auto& loss : losses) {
    FakeEngine lossy("fake.lossy", {.predicted = 0.1, .notes = {loss.note}});
    const std::vector<const Engine*> engines = {&lossy, &quick_};
    for (const MathMode math : {MathMode::strict, MathMode::tf32, MathMode::reduced}) {
      problem_.math = math;
      const auto selection = select(problem_, engines, {}, request_);
      ASSERT_TRUE(selection.ok());
      EXPECT_EQ(selection->candidate.engine == "fake.lossy", math >= loss.needs) << loss.note << " " << name_of(math);
    }
    const auto refusal = filtered(*parse_problem("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3"), lossy, {}, {}, {});
    ASSERT_TRUE(refusal.has_value());
    EXPECT_TRUE(refusal->reason.starts_with("math=strict: ")) << refusal->reason;
  }
}

TEST_F(Select, ConfigurationsDropEnginesAndSayWhy) {
  FakeEngine own("cpu.own", {}), jit("other.jit", {.notes = {"RUNTIME_COMPILATION"}}), other("other.fixed", {});
  FakeEngine oracle("oracle", {.oracle = true}), theirs("other.plain", {.provider = "Other 1.0", .oracle = true});
  const auto kept = [&](LibraryConfig config) {
    std::string names;
    for (const FakeEngine* engine : {&own, &jit, &other, &oracle, &theirs}) {
      const auto reason = dropped_by(config, engine->info());
      if (!reason) names += engine->info().name + " ";
      const std::string start = "configuration=" + std::string(name_of(config));
      EXPECT_TRUE(!reason || reason->starts_with(start)) << *reason;
    }
    return names;
  };
  EXPECT_EQ(kept(LibraryConfig::full), "cpu.own other.jit other.fixed oracle other.plain ");
  EXPECT_EQ(kept(LibraryConfig::jit_only), "other.jit oracle ");
  EXPECT_EQ(kept(LibraryConfig::portable), "cpu.own oracle ");
  for (const LibraryConfig config : {LibraryConfig::full, LibraryConfig::jit_only, LibraryConfig::portable}) {
    EXPECT_EQ(*parse_library_config(name_of(config)), config);
  }
  EXPECT_FALSE(parse_library_config("tiny").ok());
}

TEST(SelectedBy, IsSaidInWordsMadeFromIt) {
  Selection selection;
  EXPECT_EQ(selection.reason(), "heuristic");
  selection.by = SelectedBy::network_hint;
  EXPECT_EQ(selection.reason(), "network hint");
  selection.by = SelectedBy::rule;
  selection.rule = "filter=3x3";
  EXPECT_EQ(selection.reason(), "rule 'filter=3x3'");
}

// As cuDNN's engines: one engine, whose candidates are compiled at run time or beforehand.
struct SometimesCompiled : FakeEngine {
  using FakeEngine::FakeEngine;
  std::vector<std::string> notes(const ConvProblem&, const KnobValues& knobs, const PlanRequest&) const override {
    if (knob_or(knobs, "tile", 4) == 4) return {};
    return {std::string(note::runtime_compilation)};
  }
  std::optional<Estimate> estimate(const ConvProblem&, const PlanRequest&) const override {
    return Estimate{{{"tile", 4}}, 1, true};
  }
};
struct SuggestsCompiled : SometimesCompiled, HasSuggestions {
  using SometimesCompiled::SometimesCompiled;
  std::vector<KnobValues> suggestions(const ConvProblem&, const PlanRequest&) const override { return {{{"tile", 2}}}; }
};

TEST_F(Select, JitOnlyLeavesWhatIsCompiledAtRunTimeAndNoOracle) {
  const FakeEngine fixed("other.fixed", {.predicted = 0.1});
  const FakeEngine oracle("fake.oracle", {.predicted = 0.01, .notes = {"RUNTIME_COMPILATION"}, .oracle = true});
  const SuggestsCompiled varies("other.varies", {.predicted = 3, .notes_vary = true});
  const std::vector<const Engine*> engines = {&fixed, &oracle, &varies};
  SelectionOptions options;
  options.filter.config = LibraryConfig::jit_only;
  EXPECT_EQ(dropped_by(LibraryConfig::jit_only, varies.info()), std::nullopt);
  const auto ranked = rank_by_heuristic(problem_, engines, options.filter, request_);
  ASSERT_EQ(ranked.size(), 1U);
  EXPECT_EQ(print(ranked[0]), "other.varies{tile=2}");
  for (const SelectionMode mode : {SelectionMode::heuristic, SelectionMode::measured}) {
    for (const bool all_knobs : {false, true}) {
      options.mode = mode;
      options.all_knobs = all_knobs;
      const auto selection = select(problem_, engines, options, request_);
      ASSERT_TRUE(selection.ok()) << selection.error().message;
      EXPECT_EQ(print(selection->candidate), "other.varies{tile=2}");
      for (const Measurement& m : selection->measurements) EXPECT_EQ(print(m.candidate), "other.varies{tile=2}");
    }
  }
}

// A filter that leaves an oracle only leaves nothing, unless it names the oracle.
TEST_F(Select, AnOracleIsChosenWhereItIsNamedOrNothingElseCanRun) {
  const FakeEngine oracle("fake.oracle", {.predicted = 0.01, .oracle = true});
  const auto chosen = [&](const std::string& filter, const std::vector<const Engine*>& engines) {
    SelectionOptions options;
    options.filter.engines = filter;
    const auto selection = select(problem_, engines, options, request_);
    return selection.ok() ? selection->candidate.engine : selection.error().message;
  };
  EXPECT_EQ(chosen("*", {&oracle, &quick_}), "fake.quick");
  EXPECT_EQ(chosen("*", {&oracle, &unable_}), "fake.oracle");
  EXPECT_EQ(chosen("fake.oracle", {&oracle, &quick_}), "fake.oracle");
  EXPECT_EQ(chosen("*,fake.oracle", {&oracle, &quick_}), "fake.quick");
  const std::string nothing = chosen("!fake.quick", {&oracle, &quick_});
  EXPECT_NE(nothing.find("fake.oracle: engines='!fake.quick': this engine is an oracle"), std::string::npos) << nothing;
}

TEST_F(Select, AnOracleThatNobodyNamedSaysSo) {
  const FakeEngine oracle("fake.oracle", {.oracle = true});
  const auto warnings = [&](const std::string& filter, const Engine* other) {
    SelectionOptions options;
    options.filter.engines = filter;
    return select(problem_, std::vector<const Engine*>{&oracle, other}, options, request_)->warnings;
  };
  ASSERT_EQ(warnings("*", &unable_).size(), 1U);
  EXPECT_NE(warnings("*", &unable_)[0].find("fake.oracle does, an oracle"), std::string::npos);
  EXPECT_TRUE(warnings("*", &quick_).empty());
  EXPECT_TRUE(warnings("fake.oracle", &unable_).empty());
}

// Runs on all SMs only.
struct NeedsAllSms : FakeEngine {
  using FakeEngine::FakeEngine;
  std::optional<Refusal> check(const ConvProblem&, const PlanRequest& request) const override {
    if (request.target_sms == 0) return std::nullopt;
    return Refusal{RefusalCode::device, "target_sms: it takes all"};
  }
};

// Fewer SMs are a filter, too: what they leave to an oracle alone is an error that names them.
TEST_F(Select, FewerSmsDoNotLeaveAProblemToAnOracle) {
  const FakeEngine oracle("fake.oracle", {.oracle = true});
  const NeedsAllSms all("fake.all", {});
  const std::vector<const Engine*> engines = {&oracle, &all};
  EXPECT_EQ(select(problem_, engines, {}, request_)->candidate.engine, "fake.all");
  request_.target_sms = 66;
  const auto nothing = select(problem_, engines, {}, request_);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, ErrorCode::unsupported);
  EXPECT_NE(nothing.error().message.find("fake.oracle: target_sms=66: this engine is an oracle"), std::string::npos)
      << nothing.error().message;
  const auto verdicts = selection::explain(problem_, engines, {}, request_).engines;
  ASSERT_TRUE(verdicts[0].excluded);
  EXPECT_NE(verdicts[0].excluded->reason.find("fake.all can on all SMs"), std::string::npos);
  SelectionOptions named;
  named.filter.engines = "fake.oracle";
  EXPECT_EQ(select(problem_, engines, named, request_)->candidate.engine, "fake.oracle");
  EXPECT_EQ(select(problem_, std::vector<const Engine*>{&oracle, &unable_}, {}, request_)->candidate.engine,
            "fake.oracle");
}

TEST_F(Select, ObjectivesAreParsedPrintedAndFollowed) {
  EXPECT_EQ(*parse_objective("workspace"), (Objective{.time = 0, .workspace = 1, .energy = 0}));
  EXPECT_EQ(*parse_objective("time=1,energy=0.5"), (Objective{.time = 1, .workspace = 0, .energy = 0.5}));
  EXPECT_EQ(*parse_objective(print(Objective{.time = 2, .workspace = 0.25})),
            (Objective{.time = 2, .workspace = 0.25}));
  for (const char* bad : {"", "speed", "time=", "time=-1", "time=nan", "time=0", "time=1;energy=1"}) {
    EXPECT_FALSE(parse_objective(bad).ok()) << bad;
  }
  FakeEngine hungry("fake.hungry", {.predicted = 1, .workspace = 64 << 20});
  FakeEngine modest("fake.modest", {.predicted = 3});
  const std::vector<const Engine*> engines = {&hungry, &modest};
  const auto chosen = [&](const char* objective) {
    SelectionOptions options;
    options.objective = *parse_objective(objective);
    const auto selection = select(problem_, engines, options, request_);
    return selection.ok() ? selection->candidate.engine : selection.error().message;
  };
  EXPECT_EQ(chosen("time"), "fake.hungry");
  EXPECT_EQ(chosen("workspace"), "fake.modest");
  EXPECT_EQ(chosen("time=1,workspace=0.01"), "fake.hungry");
  EXPECT_EQ(chosen("time=1,workspace=1"), "fake.modest");
  EXPECT_NE(chosen("energy").find("objective 'energy=1': energy is known by measuring only"), std::string::npos);
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
