// Measured selection with fake engines: order, budget, interruption, knobs, objectives.
#include "select/tune/tuner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/clock.h"
#include "select/choose/objective.h"
#include "select/evidence.h"
#include "select/measure/energy.h"
#include "select/testing/fake_engine.h"
#include "select/tune/knob_search.h"
#include "select/tune/rounds.h"

namespace convoy {
namespace {

using testing_support::FakeEngine;

class Tuner : public ::testing::Test {
 protected:
  Tuner() {
    problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1");
    request_.cpu = cpu_features();
    options_.mode = SelectionMode::measured;
  }

  Result<Selection> choose(const std::vector<const Engine*>& engines, const SelectionProgress& progress = {}) {
    return select(problem_, engines, options_, request_, {}, progress);
  }

  ConvProblem problem_;
  PlanRequest request_;
  SelectionOptions options_;
  FakeEngine quick_{"fake.quick", {.predicted = 2e-4}};
  FakeEngine slow_{"fake.slow", {.predicted = 1e-4, .sleep_seconds = 0.03}};
  FakeEngine wrong_{"fake.wrong", {.predicted = 0.5e-4, .wrong = true}};
};

TEST_F(Tuner, BestPredictedFirstAndWhoCannotWinIsCutOff) {
  FakeEngine naive("fake.naive", {.predicted = 3e-4, .sleep_seconds = 0.06});
  std::vector<std::string> order;
  const auto selection = choose({&naive, &quick_, &slow_}, [&](const Measurement& m, int done, int total) {
    if (m.state == MeasurementState::partial) order.push_back(m.candidate.engine);
    EXPECT_LE(done, total);
    EXPECT_EQ(total, 3);
    return true;
  });
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(order, (std::vector<std::string>{"fake.slow", "fake.quick", "fake.naive"}));
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_FALSE(selection->partial);
  for (const Measurement& m : selection->measurements) {
    const bool winner = m.candidate.engine == "fake.quick";
    EXPECT_EQ(m.state, winner ? MeasurementState::complete : MeasurementState::cut_off) << m.candidate.engine;
    EXPECT_TRUE(winner || m.samples <= 2) << m.candidate.engine;
  }
}

TEST_F(Tuner, ToTheEndNobodyIsCutOff) {
  FakeEngine naive("fake.naive", {.predicted = 3e-4, .sleep_seconds = 0.02});
  const std::vector<const Engine*> engines = {&naive, &quick_, &slow_};
  const auto selection = selection::select_to_the_end(problem_, engines, options_, request_, {}, {});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  ASSERT_EQ(selection->measurements.size(), 3U);
  for (const Measurement& m : selection->measurements) {
    EXPECT_EQ(m.state, MeasurementState::complete) << m.candidate.engine;
    EXPECT_GE(m.samples, 5) << m.candidate.engine;
  }
}

// What a program runs today: it is measured whatever is predicted of it, also where only the likely ones are.
TEST_F(Tuner, WhatIsAskedForIsMeasuredFirst) {
  const FakeEngine poor("fake.poor", {.predicted = 1}), refusing("fake.refusing", {.refusal = Refusal{}});
  options_.budget_seconds = 5;
  options_.likely_only = true;
  const std::vector<Candidate> first = {{"fake.refusing", {}}, {"fake.poor", {{"tile", 2}}}};
  std::vector<std::string> order;
  const auto selection = selection::select_with_first(problem_, std::vector<const Engine*>{&quick_, &poor, &refusing},
                                                      options_, request_, first, [&](const Measurement& m, int, int) {
                                                        const std::string name = print(m.candidate);
                                                        if (std::find(order.begin(), order.end(), name) == order.end())
                                                          order.push_back(name);
                                                        return true;
                                                      });
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(order, (std::vector<std::string>{"fake.poor{tile=2}", "fake.quick{tile=4}"}))
      << "and fake.poor{tile=4} is as unlikely as before";
  EXPECT_TRUE(selection->partial);
}

// Which are likely shows when the best of them takes longer than it was predicted to.
TEST_F(Tuner, WhatIsPredictedBelowTheBestTimeIsLikely) {
  options_.budget_seconds = 20;
  options_.likely_only = true;
  const FakeEngine likely("fake.likely", {.predicted = 1e-5, .sleep_seconds = 0.01});
  const FakeEngine behind("fake.behind", {.predicted = 1e-3}), slower("fake.slower", {.predicted = 1});
  const auto selection = choose({&likely, &behind, &slower});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.behind");
  EXPECT_EQ(std::ranges::count(selection->measurements, "fake.slower",
                               [](const Measurement& m) { return m.candidate.engine; }),
            0);
  EXPECT_TRUE(selection->partial);
}

// The likely ones' best may be hopeless beside an unlikely one.
TEST_F(Tuner, TheBestOfTheLikelyMayBeCutOffLater) {
  options_.budget_seconds = 20;
  const FakeEngine likely("fake.likely", {.predicted = 1e-5, .sleep_seconds = 0.01});
  const FakeEngine unlikely("fake.unlikely", {.predicted = 1e-3});
  const auto selection = choose({&likely, &unlikely});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.unlikely");
}

TEST_F(Tuner, OneDisturbedTimeDoesNotCutACandidateOff) {
  std::atomic<int> disturbed = 2;  // both runs of its screening
  FakeEngine unlucky("fake.unlucky", {.predicted = 1e-4, .disturbed_runs = &disturbed});
  FakeEngine steady("fake.steady", {.predicted = 2e-4, .sleep_seconds = 0.001});
  const auto selection = choose({&unlucky, &steady});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.unlucky");
}

// Not even all of its rough times: far above its prediction, it is timed beside the others first.
TEST_F(Tuner, ManyDisturbedTimesDoNotCutACandidateOff) {
  std::atomic<int> disturbed = 5;  // its screening, and its second chances
  FakeEngine unlucky("fake.unlucky", {.predicted = 2e-4, .disturbed_runs = &disturbed});
  FakeEngine steady("fake.steady", {.predicted = 1e-4, .sleep_seconds = 0.001});
  const auto selection = choose({&unlucky, &steady});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.unlucky");
  EXPECT_LE(disturbed, 0);
}

// Nor for a rough time that is near it: it yields to what is faster beyond doubt.
TEST_F(Tuner, TheHeuristicsChoiceIsTimedBeforeItYields) {
  FakeEngine expected("fake.expected", {.predicted = 0.01, .sleep_seconds = 0.01});
  FakeEngine other("fake.other", {.predicted = 0.02});
  const auto selection = choose({&expected, &other});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.other");
  EXPECT_FALSE(selection->partial);
  for (const Measurement& m : selection->measurements) EXPECT_GE(m.samples, selection::kEnoughSamples);
}

// What an interrupted tune has left: it goes on.
TEST_F(Tuner, WhatWasCutOffByDisturbedTimesIsMeasuredAgain) {
  selection::RoundStore store;
  options_.store = &store;
  const FakeEngine unlucky("fake.unlucky", {.predicted = 2e-4});
  const FakeEngine slow("fake.slow", {.predicted = 5e-3}), steady("fake.steady", {.predicted = 1e-4});
  const MeasurementKey key = measurement_key(problem_, request_, options_.caches);
  const auto put = [&](const FakeEngine& engine, double seconds, int samples, MeasurementState state) {
    Measurement m;
    m.candidate = {engine.info().name, {{"tile", 4}}};
    m.provider = engine.info().provider;
    m.median_seconds = seconds;
    m.samples = samples;
    m.state = state;
    ASSERT_TRUE(store.store(key, m).ok());
  };
  put(unlucky, 2e-2, 1, MeasurementState::cut_off);
  put(slow, 6e-3, 1, MeasurementState::cut_off);
  put(steady, 1e-3, 9, MeasurementState::complete);
  std::set<std::string> measured;
  const auto selection = choose({&unlucky, &slow, &steady}, [&](const Measurement& m, int, int) {
    measured.insert(m.candidate.engine);
    return true;
  });
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(measured, std::set<std::string>{"fake.unlucky"}) << "fake.slow takes about what was predicted";
  EXPECT_EQ(selection->candidate.engine, "fake.unlucky");
}

TEST_F(Tuner, OraclesAreMeasuredWhereTheyAreNamed) {
  FakeEngine oracle("fake.oracle", {.predicted = 1e-3, .oracle = true});
  const auto measured = [&](const std::string& filter, const std::vector<const Engine*>& engines) {
    options_.filter.engines = filter;
    std::string names;
    const auto selection = choose(engines);
    EXPECT_TRUE(selection.ok());
    for (const Measurement& m : selection->measurements) names += m.candidate.engine + " ";
    return names;
  };
  EXPECT_EQ(measured("*", {&oracle, &quick_}), "fake.quick ");
  EXPECT_EQ(measured("*,fake.*", {&oracle, &quick_}), "fake.quick ");
  EXPECT_NE(measured("*,fake.oracle", {&oracle, &quick_}).find("fake.oracle"), std::string::npos);
  EXPECT_EQ(measured("fake.*", {&oracle}), "fake.oracle ");
}

// What fails is quick: its time must not win, whenever it begins to fail.
TEST_F(Tuner, APlanThatStartsToFailIsOut) {
  for (const int good_runs : {0, 1, 2, 3, 5}) {
    FakeEngine failing("fake.failing", {.predicted = 1e-4, .good_runs = good_runs});
    FakeEngine steady("fake.steady", {.predicted = 2e-4, .sleep_seconds = 0.02});
    const auto selection = choose({&failing, &steady});
    ASSERT_TRUE(selection.ok()) << selection.error().message;
    EXPECT_EQ(selection->candidate.engine, "fake.steady") << good_runs;
    bool failed = false;
    for (const Measurement& m : selection->measurements) {
      if (m.candidate.engine != "fake.failing") continue;
      ASSERT_TRUE(m.failure.has_value()) << good_runs;
      EXPECT_NE(m.failure->message.find("out of luck"), std::string::npos);
      failed = true;
    }
    EXPECT_TRUE(failed);
  }
}

// Times with warm caches are no substitute for those that were asked for.
TEST_F(Tuner, WithoutMemoryToSweepTheCachesNothingIsTimed) {
  request_.cpu.l2_bytes = std::int64_t{1} << 50;
  const auto selection = choose({&quick_});
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(selection.error().message.find("to sweep the caches with"), std::string::npos) << selection.error().message;
  options_.caches = CacheState::warm;
  EXPECT_TRUE(choose({&quick_}).ok());
}

// A note that only plans have keeps a candidate out, whether it is measured now or was before.
TEST_F(Tuner, NotesThatOnlyPlansHaveCount) {
  FakeEngine noted("fake.noted", {.predicted = 1e-4, .plan_notes = {"STRANGE"}});
  FakeEngine plain("fake.plain", {.predicted = 2e-4, .sleep_seconds = 0.02});
  EXPECT_EQ(choose({&noted, &plain})->candidate.engine, "fake.noted");
  options_.filter.notes = "!STRANGE";
  EXPECT_EQ(choose({&noted, &plain})->candidate.engine, "fake.plain");
}

TEST_F(Tuner, LikelyOnlyMeasuresEightAndSaysThatThereAreMore) {
  std::vector<std::unique_ptr<FakeEngine>> fakes;
  std::vector<const Engine*> engines;
  for (int i = 0; i < 12; ++i) {
    const double predicted = i < 10 ? 1e-4 : 1e-3;
    fakes.push_back(
        std::make_unique<FakeEngine>("fake.e" + std::to_string(i), FakeEngine::Behaviour{.predicted = predicted}));
    engines.push_back(fakes.back().get());
  }
  options_.likely_only = true;
  auto selection = choose(engines);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->measurements.size(), 8U);
  EXPECT_TRUE(selection->partial);
  engines.erase(engines.begin() + 3, engines.begin() + 10);
  selection = choose(engines);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->measurements.size(), 3U) << "the others are predicted to take ten times as long";
  EXPECT_TRUE(selection->partial);
}

TEST_F(Tuner, ABudgetEndsItWithWhatIsKnown) {
  options_.budget_seconds = 0.15;
  options_.all_knobs = true;
  FakeEngine endless("fake.endless", {.predicted = 1e-3, .sleep_seconds = 0.01, .tiles = 100'000});
  const double start = monotonic_seconds();
  const auto selection = choose({&endless, &quick_, &wrong_});
  const double took = monotonic_seconds() - start;
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_LT(took, 5.0);  // where all of it would take a quarter of an hour
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_TRUE(selection->partial);
  EXPECT_FALSE(selection->warnings.empty());
}

// The first likely candidate that is right, and no more.
TEST_F(Tuner, HoweverShortTheBudgetThereIsAnAnswer) {
  options_.budget_seconds = 1e-9;
  auto selection = choose({&quick_, &slow_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  ASSERT_EQ(selection->measurements.size(), 1U);
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
  EXPECT_EQ(selection->by, SelectedBy::measured);
  EXPECT_GT(selection->measurements[0].median_seconds, 0);
  EXPECT_TRUE(selection->partial);
  selection = choose({&quick_, &wrong_, &slow_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.slow") << "the first was wrong";
  EXPECT_EQ(selection->measurements.size(), 2U);
  FakeEngine hours("fake.hours", {.predicted = 3600});
  selection = choose({&hours});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_TRUE(selection->measurements.empty()) << "but it is not waited for for ever";
}

// A refusal is no failure: it says why, once, and the others are chosen among.
TEST_F(Tuner, WhatPlanningRefusesIsNotAtFault) {
  FakeEngine refusing("fake.refusing", {.predicted = 1e-5, .plan_refusal = "sms: it starts 9 blocks"});
  FakeEngine other("fake.other", {.predicted = 1e-5, .plan_refusal = "sms: it starts 8 blocks"});
  auto selection = choose({&refusing, &quick_});
  ASSERT_TRUE(selection.ok()) << selection.error().message;
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  ASSERT_EQ(selection->warnings.size(), 1U);
  EXPECT_EQ(selection->warnings[0], "fake.refusing{tile=4} on " + print(problem_) + ": sms: it starts 9 blocks");

  selection = choose({&refusing, &other});
  ASSERT_FALSE(selection.ok());
  EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
  EXPECT_NE(selection.error().message.find(" can be planned:"), std::string::npos) << selection.error().message;
  request_.target_sms = 66;
  selection = choose({&refusing, &other});
  ASSERT_FALSE(selection.ok());
  EXPECT_NE(selection.error().message.find(" keeps to 66 SMs (target_sms):"), std::string::npos)
      << selection.error().message;
  // What is wrong or fails counts for more.
  EXPECT_EQ(choose({&refusing, &wrong_}).error().code, ErrorCode::wrong_result);
  FakeEngine failing("fake.failing", {.plan_fails = true});
  EXPECT_EQ(choose({&refusing, &failing}).error().code, ErrorCode::internal);
}

// Where only launches tell who keeps to some of the SMs, choosing without measuring asks them.
TEST_F(Tuner, PredictionsPassOverWhatPlanningRefuses) {
  FakeEngine refusing("fake.refusing", {.predicted = 1e-5, .plan_refusal = "sms: it starts 9 blocks"});
  options_.mode = SelectionMode::heuristic;
  EXPECT_EQ(choose({&refusing, &quick_})->candidate.engine, "fake.refusing");
  request_.target_sms = 66;
  EXPECT_EQ(choose({&refusing, &quick_})->candidate.engine, "fake.quick");
  const auto nothing = choose({&refusing});
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, ErrorCode::unsupported);
  EXPECT_NE(nothing.error().message.find("keeps to 66 SMs"), std::string::npos) << nothing.error().message;
}

// Weights that a caller who only chooses doesn't have yet are not read: the address stands for them.
TEST_F(Tuner, PlansThatAreOnlyLookedAtReadNoWeights) {
  options_.mode = SelectionMode::heuristic;
  options_.filter.workspace_limit = 1 << 20;
  request_.constant_weights = reinterpret_cast<const void*>(64);  // a crash, were it read
  const std::vector<const Engine*> engines(all_engines().begin(), all_engines().end());
  const auto selection = choose(engines);
  ASSERT_TRUE(selection.ok()) << selection.error().message;
}

TEST_F(Tuner, ANegativeBudgetMeasuresNothing) {
  options_.budget_seconds = -1;
  const auto selection = choose({&quick_, &slow_});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
  EXPECT_EQ(selection->by, SelectedBy::heuristic);
  EXPECT_TRUE(selection->partial);
}

TEST_F(Tuner, ACandidateThatWouldNotEndInTimeIsNotStarted) {
  FakeEngine hours("fake.hours", {.predicted = 3600, .sleep_seconds = 0.3});
  options_.budget_seconds = 2;
  const auto selection = choose({&hours, &quick_});
  ASSERT_TRUE(selection.ok());
  ASSERT_EQ(selection->measurements.size(), 1u);
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_TRUE(selection->partial);
}

TEST_F(Tuner, ProgressInterruptsAndAWrongCandidateIsNotTakenForLackOfAnother) {
  const auto first_only = [](const Measurement&, int, int) { return false; };
  auto selection = choose({&quick_, &slow_}, first_only);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->measurements.size(), 1u);
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
  EXPECT_TRUE(selection->partial);
  selection = choose({&wrong_, &quick_}, first_only);
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.quick");
  EXPECT_EQ(selection->by, SelectedBy::heuristic);
}

TEST_F(Tuner, KnobsAreSearchedOnRequest) {
  FakeEngine tunable("fake.tunable", {.predicted = 1e-4, .sleep_seconds = 0.004, .sleep_with_tile_2 = 0, .tiles = 4});
  FakeEngine fixed("fake.fixed", {.predicted = 2e-4, .sleep_seconds = 0.001, .tiles = 1});
  auto selection = choose({&tunable, &fixed});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.fixed");
  options_.all_knobs = true;
  selection = choose({&tunable, &fixed});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(print(selection->candidate), "fake.tunable{tile=2}");
  EXPECT_FALSE(selection->partial);
  EXPECT_GE(selection->measurements.size(), 5u);
}

TEST_F(Tuner, WorkspaceAsTheObjectiveKeepsSlowCandidatesInTheRace) {
  FakeEngine hungry("fake.hungry", {.predicted = 1e-4, .workspace = 8 << 20});
  options_.objective = *parse_objective("workspace");
  const auto selection = choose({&hungry, &slow_});
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->candidate.engine, "fake.slow");
}

TEST_F(Tuner, EnergyIsMeasuredOrClearlyRefused) {
  options_.objective = *parse_objective("energy");
  const auto selection = choose({&quick_});
  if (selection::EnergyCounter::open().ok()) {
    ASSERT_TRUE(selection.ok()) << selection.error().message;
    EXPECT_TRUE(selection->measurements.front().energy_joules.has_value());
  } else {
    ASSERT_FALSE(selection.ok());
    EXPECT_EQ(selection.error().code, ErrorCode::unsupported);
    EXPECT_TRUE(selection.error().message.starts_with("objective 'energy=1': energy can't be measured: /sys/"))
        << selection.error().message;
  }
}

TEST(Energy, CountsPackagesAndTheirWrapping) {
  const std::filesystem::path root = std::filesystem::path(::testing::TempDir()) / "powercap_test";
  std::filesystem::remove_all(root);
  const auto write = [&](const char* zone, const char* file, const std::string& text) {
    std::filesystem::create_directories(root / zone);
    std::ofstream(root / zone / file) << text << "\n";
  };
  EXPECT_FALSE(selection::EnergyCounter::open(root).ok());
  for (const char* zone : {"intel-rapl:0", "intel-rapl:1"}) {
    write(zone, "name", zone == std::string("intel-rapl:0") ? "package-0" : "package-1");
    write(zone, "energy_uj", "1000000");
    write(zone, "max_energy_range_uj", "1999999");
  }
  write("intel-rapl:0:0", "name", "core");  // part of package-0
  write("intel-rapl:0:0", "energy_uj", "77");
  auto counter = selection::EnergyCounter::open(root);
  ASSERT_TRUE(counter.ok()) << counter.error().message;
  EXPECT_DOUBLE_EQ(*counter->joules(), 0);
  write("intel-rapl:0", "energy_uj", "1500000");
  EXPECT_DOUBLE_EQ(*counter->joules(), 0.5);
  write("intel-rapl:1", "energy_uj", "250000");  // 1.0 to 2.0, where it wraps, and 0.25 more
  EXPECT_DOUBLE_EQ(*counter->joules(), 1.75);
  std::filesystem::remove(root / "intel-rapl:1" / "energy_uj");
  const auto gone = counter->joules();
  ASSERT_FALSE(gone.ok());
  EXPECT_NE(gone.error().message.find("intel-rapl:1/energy_uj can't be read"), std::string::npos);
  std::filesystem::remove_all(root);
}

TEST(KnobSearch, ClimbsFromTheBestAndThenVisitsEverythingOnce) {
  selection::KnobSearch search("e", {{{"b", {1, 2, 3}, ""}, {"a", {10, 20}, ""}}, {}});
  EXPECT_EQ(search.size(), 6);
  Candidate best{"e", {{"a", 10}, {"b", 1}}};
  EXPECT_EQ(print(*search.next(best)), "e{a=20,b=1}");
  best.knobs[0].value = 20;  // it was better
  EXPECT_EQ(print(*search.next(best)), "e{a=20,b=2}");
  std::set<std::string> rest;
  while (const auto candidate = search.next(best)) EXPECT_TRUE(rest.insert(print(*candidate)).second);
  EXPECT_EQ(rest, (std::set<std::string>{"e{a=20,b=3}", "e{a=10,b=2}", "e{a=10,b=3}"}));
  EXPECT_EQ(selection::KnobSearch("e", {}).next({"e", {}}), std::nullopt);
  const std::vector<Knob> large(40, Knob{"k", {1, 2, 3, 4}, ""});
  EXPECT_EQ(selection::KnobSearch("e", {large, {}}).size(), std::numeric_limits<int>::max());
}

TEST(Objectives, TheWeightedSumIsOfRatiosToTheLeast) {
  const auto row = [](const char* engine, double seconds, std::size_t workspace, std::optional<double> joules) {
    Measurement m;
    m.candidate.engine = engine;
    m.median_seconds = seconds;
    m.workspace_bytes = workspace;
    m.energy_joules = joules;
    m.state = MeasurementState::complete;
    return m;
  };
  const std::vector<Measurement> rows = {row("fast", 1, 10 << 20, 9.0), row("lean", 2, 0, std::nullopt),
                                         row("cool", 3, 10 << 20, 3.0)};
  const auto best = [&](const Objective& objective) {
    const auto any = [](const Measurement&) { return true; };
    const Measurement* found = selection::best_of(rows, objective, {}, DeviceKind::cpu, any);
    return found == nullptr ? std::string("none") : found->candidate.engine;
  };
  EXPECT_EQ(best({.time = 1}), "fast");
  EXPECT_EQ(best({.time = 0, .workspace = 1}), "lean");
  EXPECT_EQ(best({.time = 0, .energy = 1}), "cool");
  EXPECT_EQ(best({.time = 1, .energy = 0.9}), "fast");     // 1 + 2.7 < 3 + 0.9
  EXPECT_EQ(best({.time = 1, .energy = 1.1}), "cool");     // 3 + 1.1 < 1 + 3.3
  EXPECT_EQ(best({.time = 1, .workspace = 0.2}), "lean");  // 2 + 0.2 < 1 + 11 * 0.2
}

// The heuristic's choice yields to what is faster beyond doubt only.
TEST(Objectives, TheExpectedWinsWithinTheDoubt) {
  const auto row = [](const char* engine, double seconds, int samples, double spread) {
    Measurement m;
    m.candidate.engine = engine;
    m.median_seconds = seconds;
    m.samples = samples;
    m.spread = spread;
    m.state = samples < 5 ? MeasurementState::partial : MeasurementState::complete;
    return m;
  };
  const auto best = [&](std::vector<Measurement> rows, Objective objective = {}) {
    const auto any = [](const Measurement&) { return true; };
    const std::vector<Candidate> ranked = {{"failed", {}}, {"expected", {}}, {"rough", {}}};
    return selection::best_of(rows, objective, ranked, DeviceKind::cpu, any)->candidate.engine;
  };
  EXPECT_EQ(best({row("lucky", 0.99, 16, 0.01), row("expected", 1, 16, 0.01)}), "expected");
  EXPECT_EQ(best({row("faster", 0.97, 16, 0.01), row("expected", 1, 16, 0.01)}), "faster");
  EXPECT_EQ(best({row("unsteady", 0.95, 16, 0.2), row("expected", 1, 16, 0.01)}), "expected");  // 7.9% of doubt
  EXPECT_EQ(best({row("rough", 0.85, 1, 0), row("expected", 1, 1, 0)}), "expected");
  EXPECT_EQ(best({row("rough", 0.8, 1, 0), row("expected", 1, 1, 0)}), "rough");
  EXPECT_EQ(best({row("lucky", 0.99, 16, 0.01), row("other", 1, 16, 0.01)}), "lucky");
  Measurement slow = row("expected", 5, 2, 0);
  slow.state = MeasurementState::cut_off;
  EXPECT_EQ(best({row("winner", 1, 1, 0), slow}), "winner");
  Measurement failed = row("failed", 0.1, 1, 0);
  failed.failure = Error{ErrorCode::wrong_result, ""};
  EXPECT_EQ(best({row("lucky", 0.99, 16, 0.01), row("expected", 1, 16, 0.01), failed}), "expected")
      << "the next of the ranked stands for one that failed";
}

// A time as short as a disturbance, of so few samples that it may be one, decides nothing.
TEST(Objectives, OneDisturbedSampleTakesNoEngineOut) {
  const std::vector<Candidate> ranked = {{"cpu.winograd", {}}, {"onednn.jit", {}}};
  const auto row = [](const char* engine, double seconds, int samples, MeasurementState state) {
    Measurement m;
    m.candidate.engine = engine;
    m.median_seconds = seconds;
    m.samples = samples;
    m.state = state;
    return m;
  };
  const auto best = [&](const Measurement& expected, const Measurement& other, DeviceKind device = DeviceKind::cpu) {
    const auto any = [](const Measurement&) { return true; };
    const std::vector<Measurement> rows = {other, expected};
    return selection::best_of(rows, {}, ranked, device, any)->candidate.engine;
  };
  using enum MeasurementState;
  const Measurement disturbed = row("cpu.winograd", 2.38e-3, 1, partial);
  const Measurement rough = row("onednn.jit", 0.5e-3, 1, partial), known = row("onednn.jit", 0.5e-3, 9, complete);
  EXPECT_EQ(best(disturbed, rough), "cpu.winograd");
  EXPECT_EQ(best(disturbed, known), "cpu.winograd");
  EXPECT_EQ(best(row("cpu.winograd", 2.38e-3, 4, cut_off), known), "cpu.winograd");
  EXPECT_EQ(best(row("cpu.winograd", 2.38e-3, 9, complete), rough), "cpu.winograd");
  EXPECT_EQ(best(row("cpu.winograd", 2.38e-3, 5, cut_off), known), "onednn.jit");
  EXPECT_EQ(best(row("cpu.winograd", 0.1, 1, cut_off), row("onednn.jit", 0.05, 1, partial)), "onednn.jit")
      << "nothing disturbs for so long";
  EXPECT_EQ(best(disturbed, rough, DeviceKind::cuda), "onednn.jit") << "a GPU's times stand";
}

}  // namespace
}  // namespace convoy
