// What is stored is not measured again, and only what an engine's new revision touches is.
#include "select/choose/remembered.h"

#include <gtest/gtest.h>

#include <map>

#include "select/testing/map_store.h"

namespace convoy {
namespace {

using testing_support::MapStore;

class Remembered : public ::testing::Test {
 protected:
  Remembered() {
    problem_ = *parse_problem("fprop:x=f32,1x16x9x9,nhwc:w=f32,16x16x3x3,nchw:y=f32,1x16x9x9,nhwc:pad=1x1");
    request_.cpu = cpu_features();
    options_.mode = SelectionMode::measured;
    options_.store = &store_;
  }

  Selection choose() {
    auto selection = select(problem_, all_engines(), options_, request_);
    EXPECT_TRUE(selection.ok()) << selection.error().message;
    return *selection;
  }
  std::map<std::string, Measurement>& rows() {
    return store_.rows[measurement_key(problem_, request_, options_.caches)];
  }

  MapStore store_;
  ConvProblem problem_;
  PlanRequest request_;
  SelectionOptions options_;
};

TEST_F(Remembered, ASecondSelectionMeasuresNothingAndChoosesTheSame) {
  const Selection first = choose();
  EXPECT_EQ(first.by, SelectedBy::measured);
  const int stores = store_.stores;
  EXPECT_GE(stores, static_cast<int>(first.measurements.size()));
  const Selection second = choose();
  EXPECT_EQ(second.by, SelectedBy::stored);
  EXPECT_EQ(store_.stores, stores);
  EXPECT_EQ(second.candidate, first.candidate);
  EXPECT_EQ(second.measurements.size(), first.measurements.size());
}

TEST_F(Remembered, OfWhatIsStoredTheFastestIsChosenWhateverItsRank) {
  choose();
  for (auto& [name, row] : rows()) {
    const Measurement before = row;
    row.median_seconds = 1e-12;
    row.state = MeasurementState::complete;
    const Selection selection = choose();
    EXPECT_EQ(selection.by, SelectedBy::stored);
    EXPECT_EQ(print(selection.candidate), name);
    row = before;
  }
}

// As an interrupted tune leaves them: of few samples, some of them disturbed.
TEST_F(Remembered, RoughTimesDoNotTakeTheHeuristicsChoiceOut) {
  choose();
  options_.mode = SelectionMode::heuristic;
  options_.store = nullptr;
  const Candidate expected = choose().candidate;
  options_.store = &store_;
  int others = 0;
  for (auto& [name, row] : rows()) {
    const bool is_expected = row.candidate == expected;
    others += !is_expected;
    row.median_seconds = is_expected ? 2.38e-3 : 0.1e-3;
    row.samples = 1;
    row.state = MeasurementState::partial;
  }
  ASSERT_GT(others, 0);
  EXPECT_EQ(choose().candidate, expected);
  EXPECT_EQ(choose().by, SelectedBy::stored);
  for (auto& [name, row] : rows()) {
    row.samples = 9;
    row.state = MeasurementState::complete;
  }
  EXPECT_NE(choose().candidate, expected);
}

TEST_F(Remembered, AnotherRevisionOrProviderMeasuresThatEngineOnly) {
  choose();
  ASSERT_GE(rows().size(), 2u);
  for (auto& [name, row] : rows()) row.state = MeasurementState::complete;  // a cut-off one would rightly be open again
  for (int change = 0; change < 2; ++change) {
    Measurement& row = rows().begin()->second;
    if (change == 0) {
      row.revision = 99;
    } else {
      row.provider = "other 1.0";
    }
    row.median_seconds = 1e-12;  // would win if it counted
    row.state = MeasurementState::partial;
    std::vector<std::string> measured;
    const auto selection = select(problem_, all_engines(), options_, request_, {}, [&](const Measurement& m, int, int) {
      measured.push_back(m.candidate.engine);
      return true;
    });
    ASSERT_TRUE(selection.ok());
    EXPECT_FALSE(measured.empty());
    for (const std::string& engine : measured) EXPECT_EQ(engine, row.candidate.engine);
    EXPECT_GT(selection->measurements.front().median_seconds, 1e-12);
  }
}

TEST_F(Remembered, OtherConditionsAreOtherKeys) {
  const MeasurementKey key = measurement_key(problem_, request_, CacheState::cold);
  EXPECT_NE(key, measurement_key(problem_, request_, CacheState::warm));
  PlanRequest other = request_;
  other.threads = 2;
  EXPECT_NE(key, measurement_key(problem_, other, CacheState::cold));
  other = request_;
  other.cpu = capped(request_.cpu, Isa::portable);
  EXPECT_NE(key, measurement_key(problem_, other, CacheState::cold));
  other = request_;
  other.constant_weights = this;
  EXPECT_NE(key, measurement_key(problem_, other, CacheState::cold));
  ConvProblem unaligned = problem_;
  unaligned.x.alignment = 4;
  EXPECT_NE(key, measurement_key(unaligned, request_, CacheState::cold));
}

TEST_F(Remembered, WhatWasMeasuredLessAlignedServes) {
  const ConvProblem own = problem_;
  const auto aligned = [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    problem_ = own;
    problem_.x.alignment = x;
    problem_.w.alignment = w;
    problem_.y.alignment = y;
  };
  aligned(16, 16, 16);
  choose();
  auto& stored = rows();
  for (auto& [name, row] : stored) row.state = MeasurementState::complete;
  Measurement& last = stored.rbegin()->second;
  last.median_seconds = 1e-12;  // which nobody would predict
  options_.mode = SelectionMode::heuristic;
  aligned(64, 32, 16);
  EXPECT_EQ(choose().by, SelectedBy::stored);
  EXPECT_EQ(choose().candidate, last.candidate);
  aligned(64, 64, 8);
  EXPECT_EQ(choose().by, SelectedBy::heuristic) << "y is less aligned than what was measured";
  aligned(64, 64, 64);
  last.failure = Error{ErrorCode::unsupported, "not with 16"};
  EXPECT_EQ(choose().by, SelectedBy::stored);
  EXPECT_NE(choose().candidate, last.candidate);
  // Measuring is of its own alignment, which counts first from then on.
  options_.mode = SelectionMode::measured;
  EXPECT_EQ(choose().by, SelectedBy::measured);
  for (auto& [name, row] : stored) row.median_seconds = 1e-12;
  options_.mode = SelectionMode::heuristic;
  for (const Measurement& measurement : choose().measurements) EXPECT_GT(measurement.median_seconds, 1e-12);
}

TEST_F(Remembered, LowerAlignmentsEndAtAnElement) {
  EXPECT_EQ(selection::with_lower_alignments(problem_).size(), 4u) << "32, 16, 8 and 4 bytes";
  problem_.x.alignment = 4;
  for (TensorDesc* desc : {&problem_.w, &problem_.y}) desc->alignment = 8;
  ASSERT_EQ(selection::with_lower_alignments(problem_).size(), 1u);
  EXPECT_EQ(selection::with_lower_alignments(problem_)[0].w.alignment, 4);
}

TEST_F(Remembered, AFilterChoosesFromWhatIsStoredAndChangesNothing) {
  const Selection all = choose();
  const auto before = store_.stores;
  options_.filter.engines = "cpu.*,!" + all.candidate.engine;
  const Selection without = choose();
  EXPECT_NE(without.candidate.engine, all.candidate.engine);
  EXPECT_EQ(without.by, SelectedBy::stored);
  EXPECT_EQ(store_.stores, before);
}

TEST_F(Remembered, WithoutMeasuringTheFastestKnownIsTakenOrElseTheHeuristic) {
  options_.mode = SelectionMode::heuristic;
  EXPECT_EQ(choose().by, SelectedBy::heuristic);
  options_.mode = SelectionMode::measured;
  choose();
  // A known wrong result is never chosen, whatever was predicted or timed.
  options_.mode = SelectionMode::heuristic;
  const Candidate first = choose().candidate;
  rows()[print(first)].failure = Error{ErrorCode::wrong_result, "wrong"};
  const Selection second = choose();
  EXPECT_EQ(second.by, SelectedBy::stored);
  EXPECT_NE(second.candidate, first);
  // Where the heuristic's own choice was never measured, nobody knows whether the others are better.
  const Candidate ranked = rank_by_heuristic(problem_, all_engines(), options_.filter, request_).front();
  rows().erase(print(ranked));
  EXPECT_EQ(choose().by, SelectedBy::heuristic);
}

TEST_F(Remembered, PartialRowsAreMeasuredAgainAndCutOffOnesOnlyWithNewContestants) {
  const auto row = [](const std::string& engine, double seconds, MeasurementState state) {
    Measurement measurement;
    measurement.candidate.engine = engine;
    for (const Engine* each : all_engines()) {
      if (each->info().name == engine) measurement.revision = each->info().revision;
    }
    measurement.median_seconds = seconds;
    measurement.state = state;
    return measurement;
  };
  const MeasurementKey key;
  for (const auto& measurement :
       {row("cpu.gemm", 1, MeasurementState::complete), row("cpu.direct", 2, MeasurementState::cut_off),
        row("cpu.winograd", 9, MeasurementState::cut_off)}) {
    ASSERT_TRUE(store_.store(key, measurement).ok());
  }
  std::vector<Candidate> contestants = {{"cpu.gemm", {}}, {"cpu.direct", {}}, {"cpu.winograd", {}}};
  auto known = selection::recall(store_, key, contestants, all_engines());
  ASSERT_TRUE(known.ok());
  EXPECT_TRUE(known->open.empty());
  contestants.push_back({"cpu.depthwise", {}});
  known = selection::recall(store_, key, contestants, all_engines());
  ASSERT_EQ(known->open.size(), 2u);
  EXPECT_EQ(known->open[0].engine, "cpu.direct");
  EXPECT_EQ(known->open[1].engine, "cpu.depthwise");
  ASSERT_TRUE(store_.store(key, row("cpu.depthwise", 5, MeasurementState::partial)).ok());
  known = selection::recall(store_, key, contestants, all_engines());
  EXPECT_EQ(known->open.size(), 2u);
}

}  // namespace
}  // namespace convoy
