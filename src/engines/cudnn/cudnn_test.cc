// What the real cuDNN says without a GPU, where there is one: it answers for a device that it is told of.
#include "engines/cudnn/cudnn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/problem_list.h"
#include "core/provider.h"
#include "core/refines.h"
#include "core/stages.h"
#include "core/suggestions.h"
#include "device/cuda/device.h"
#include "device/cuda/nvrtc.h"
#include "engines/cudnn/ahead.h"
#include "engines/cudnn/channels_last.h"
#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/kept_plan.h"
#include "engines/cudnn/known.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/plan.h"
#include "engines/cudnn/properties.h"
#include "engines/cudnn/survey.h"
#include "engines/testing/problem_of.h"

namespace convoy::cudnn {
namespace {

using convoy::testing::problem_of;

constexpr const char* kDense = "fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1";

bool is_legacy(const Engine& engine) { return engine.info().name.find("legacy") != std::string::npos; }

std::vector<const Engine*> takers(const ConvProblem& problem, const PlanRequest& request) {
  std::vector<const Engine*> all;
  for (const Engine* engine : engines()) {
    if (!is_legacy(*engine) && !refuse(*engine, problem, request)) all.push_back(engine);
  }
  return all;
}

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

// All that needs the library and no GPU.
class WithCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto api = cuda::cudnn();
    if (!api) GTEST_SKIP() << "skipped: no cuDNN: " << api.error().message;
    if ((*api)->version < kFirstVersionWithDeviceProperties) GTEST_SKIP() << "skipped: cuDNN before 9.8 needs a device";
    api_ = *api;
    if (const std::string why = wants_driver(*api_); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
  // The library's own first calls load others and take a second.
  const Api* api_ = nullptr;
};

TEST_F(WithCudnn, TakesEveryKindOfProblem) {
  for (const char* text : {
           kDense,
           "dgrad:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:y=bf16,64x64x56x56,nhwc:pad=1x1",
           "wgrad:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:y=bf16,64x64x56x56,nhwc:pad=1x1",
           "fprop:x=f16,8x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:pad=1x1",
           "fprop:x=f32,8x64x56x56:w=f32,64x64x3x3:pad=1x1",
           "fprop:x=f32,8x64x56x56,nhwc:w=f32,64x64x3x3,nhwc:pad=1x1:math=tf32",
           "fprop:x=f64,8x16x14x14:w=f64,16x16x3x3:pad=1x1:alpha=0.5:beta=0.25",
           "fprop:x=f32,8x64x56x56:w=f32,64x1x3x3:pad=1x1:groups=64",
           "fprop:x=bf16,8x64x56x56,nhwc:w=bf16,64x2x3x3,nhwc:pad=1x1:groups=32",
           "fprop:x=f32,8x64x200:w=f32,64x64x3:pad=1",
           "fprop:x=f16,2x32x16x16x16,nhwc:w=f16,32x32x3x3x3,nhwc:pad=1x1x1",
           "fprop:x=s8,8x64x56x56,nhwc:w=s8,64x64x3x3,nhwc:y=f32,8x64x56x56,nhwc:pad=1x1:compute=s32",
           "fprop:x=s8,8x64x56x56,nhwc:w=s8,64x64x3x3,nhwc:y=s8,8x64x56x56,nhwc:pad=1x1:compute=s32",
           "fprop:x=bf16,8x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x0/0x1:stride=2x2",
           "fprop:x=f32,8x64x56x56:w=f32,64x64x3x3:pad=1x1:bias=1:act=relu",
           "fprop:x=f32,8x64x56x56:w=f32,64x64x3x3:pad=1x1:bias=1:gamma=1:act=relu",
           "fprop:x=f32,8x64x56x56,strides=401408x6272x112x2:w=f32,64x64x3x3:y=f32,8x64x56x56:pad=1x1",
           "fprop:x=f32,8x64x56x56:w=f32,64x64x3x3:pad=1x1:mode=conv",
       }) {
    const ConvProblem problem = problem_of(text);
    EXPECT_FALSE(takers(problem, on(described_h200())).empty()) << text;
    const auto tried = heuristic_candidates(problem, on(described_h200()));
    ASSERT_TRUE(tried.ok()) << text << ": " << tried.error().message;
    EXPECT_FALSE(tried->empty()) << text;
  }
}

// These run on engines that compile at run time, for which cuDNN wants the driver itself.
TEST_F(WithCudnn, FusedAndFp8GraphsAreKnown) {
  for (const char* text : {
           "fprop:x=bf16,8x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:bias=1:act=relu",
           "fprop:x=f16,8x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:pad=1x1:bias=1:act=gelu",
           "dgrad:x=f16,8x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:y=f16,8x64x56x56,nhwc:pad=1x1:act=relu",
           "fprop:x=f8_e4m3,8x64x56x56,nhwc:w=f8_e4m3,64x64x3x3,nhwc:y=bf16,8x64x56x56,nhwc:pad=1x1",
           "fprop:x=s8,8x64x56x56,nhwc:w=s8,64x64x3x3,nhwc:y=s8,8x64x56x56,nhwc:pad=1x1:bias=1:act=relu:requant="
           "channel",
       }) {
    const ConvProblem problem = problem_of(text);
    if (!takers(problem, on(described_h200())).empty()) continue;
    bool for_want_of_a_driver = false;
    for (const Engine* engine : engines()) {
      const auto refusal = refuse(*engine, problem, on(described_h200()));
      for_want_of_a_driver = for_want_of_a_driver ||
                             (refusal && refusal->reason.find("libcuda") != std::string::npos) ||
                             (refusal && refusal->code == RefusalCode::not_built);
    }
    EXPECT_TRUE(for_want_of_a_driver && !cuda::driver()) << text;
  }
}

TEST_F(WithCudnn, EveryListGivesGraphsInAllPassesAndTypes) {
  if (!std::filesystem::exists(CONVOY_PROBLEMS_DIR)) GTEST_SKIP() << "skipped: no source tree here";
  std::int64_t graphs = 0, most_engines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CONVOY_PROBLEMS_DIR)) {
    if (entry.path().extension() != ".txt") continue;
    const auto list = read_problem_list(entry.path().string());
    ASSERT_TRUE(list.ok()) << list.error().message;
    for (const ListedProblem& listed : *list) {
      for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
        for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
          ConvProblem problem = listed.problem;
          if (problem.compute != DataType::f32) continue;
          problem.pass = pass;
          problem.x.type = problem.w.type = problem.y.type = type;
          if (pass != Pass::fprop) problem.epilogue = {};
          if (outside_limits(problem, described_h200())) continue;
          const Graph graph(*api_, problem, nullptr);
          ASSERT_TRUE(graph.ok()) << print(problem) << ": " << graph.failed_part() << ": " << graph.failure().text;
          most_engines = std::max(most_engines, graph.engine_count());
          ++graphs;
        }
      }
    }
  }
  EXPECT_GT(graphs, 2000);
  // A newer cuDNN may have more than there are rows: engine.cc has their number.
  const auto rows = std::count_if(engines().begin(), engines().end(), [](const Engine* e) { return !is_legacy(*e); });
  EXPECT_LE(most_engines, rows);
}

TEST_F(WithCudnn, CandidatesSurvivePrintingAndTheirKnobsAreLegal) {
  const ConvProblem problem = problem_of(kDense);
  const PlanRequest request = on(described_h200());
  int with_knobs = 0;
  for (const Engine* engine : takers(problem, request)) {
    const Configurations configurations = engine->configurations(problem, request);
    const std::vector<Knob>& knobs = configurations.knobs;
    const Candidate candidate{engine->info().name, default_knobs(configurations)};
    const auto parsed = parse_candidate(print(candidate));
    ASSERT_TRUE(parsed.ok()) << print(candidate);
    EXPECT_EQ(*parsed, candidate);
    with_knobs += knobs.empty() ? 0 : 1;
    for (const Knob& knob : knobs) {
      EXPECT_TRUE(std::find(knob.values.begin(), knob.values.end(), kAutomatic) != knob.values.end());
      std::set<std::string> different;
      for (const KnobSetting& value : knob.values) different.insert(print(value));
      EXPECT_EQ(different.size(), knob.values.size()) << knob.name;
      EXPECT_LE(knob.values.size(), 100u) << knob.name;
    }
  }
  EXPECT_GT(with_knobs, 3);
  // What the heuristics choose first is an engine's default.
  const auto tried = heuristic_candidates(problem, request);
  ASSERT_TRUE(tried.ok() && !tried->empty());
  for (const Engine* engine : takers(problem, request)) {
    if (engine->info().name != tried->front().engine) continue;
    EXPECT_EQ(default_knobs(engine->configurations(problem, request)), tried->front().knobs);
  }
}

// One value of theirs that an engine's knobs lack would stop the measuring of a problem.
TEST_F(WithCudnn, WhatTheHeuristicsNameIsAmongTheKnobsValues) {
  for (const char* text :
       {kDense, "wgrad:x=f32,128x144x56x56,nhwc:w=f32,144x1x3x3,nhwc:y=f32,128x144x56x56,nhwc:pad=1x1:groups=144"}) {
    const ConvProblem problem = problem_of(text);
    const PlanRequest request = on(described_h200());
    const auto tried = heuristic_candidates(problem, request);
    ASSERT_TRUE(tried.ok() && !tried->empty());
    for (const Candidate& candidate : *tried) {
      const auto engine = std::find_if(engines().begin(), engines().end(),
                                       [&](const Engine* e) { return e->info().name == candidate.engine; });
      if ((*engine)->check(problem, request)) continue;
      const std::vector<Knob> knobs = (*engine)->configurations(problem, request).knobs;
      for (const KnobValue& value : candidate.knobs) {
        const auto knob = std::find_if(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == value.name; });
        ASSERT_NE(knob, knobs.end()) << print(candidate);
        EXPECT_NE(std::find(knob->values.begin(), knob->values.end(), value.value), knob->values.end())
            << print(candidate) << " " << value.name;
      }
    }
  }
}

TEST_F(WithCudnn, ThePlanOfAnEstimateTakesOneQuery) {
  const ConvProblem problem = problem_of("fprop:x=f16,5x64x56x56,nhwc:w=f16,64x64x3x3,nhwc:pad=1x1");
  const PlanRequest request = on(described_h200());
  const auto asked = survey(problem, *request.cuda, 0);
  ASSERT_TRUE(asked.ok());
  const auto first = (*asked)->first_taker();
  ASSERT_TRUE(first.has_value());
  const Engine& engine = *engines()[static_cast<std::size_t>(*first)];
  const auto estimate = refined(engine, problem, request, Survey::kParts);
  ASSERT_TRUE(estimate.has_value());
  const auto plan = engine.plan(problem, estimate->knobs, request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ((*asked)->queries(), 1);
  // All configurations are the other modes', too; the plan has the default one of them, and the engine's notes.
  EXPECT_EQ((*plan)->candidate().knobs, default_knobs(engine.configurations(problem, request)));
  EXPECT_EQ((*plan)->notes(), engine.notes(problem, estimate->knobs, request));
  EXPECT_EQ((*asked)->queries(), 3);
}

// PyTorch tries engines as they come; of this one eng20 then takes three quarters of the time of the heuristics' pick.
// As it is done for those that cuDNN compiles, which takes a driver.
TEST_F(WithCudnn, APlanIsKeptAsItsJson) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("convoy_plans_{}", getpid());
  const cuda::CodeCache cache(folder);
  const ConvProblem problem = problem_of(kDense);
  CudaDevice device = described_h200();
  const auto asked = survey(problem, device, 0);
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  const std::int64_t engine = (*asked)->first_taker().value();
  const KnobValues knobs = (*asked)->default_knobs(engine);
  const auto plan = (*asked)->plan(engine, knobs);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Descriptor& properties = known_properties(*api_, device).descriptor;

  const PlanUse use{.problem = problem, .device = device, .engine = engine, .knobs = knobs};
  const cuda::CodeKey key = plan_key(*api_, use);
  EXPECT_FALSE(find_plan(cache, key, *api_, properties).has_value());
  keep_plan(cache, key, *plan);
  const auto kept = find_plan(cache, key, *api_, properties);
  ASSERT_TRUE(kept.has_value());
  const auto json = [](const Descriptor& of) { return of.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION); };
  EXPECT_EQ(json(*kept), json(*plan));
  const auto workspace = [](const Descriptor& of) {
    return of.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64);
  };
  EXPECT_EQ(workspace(*kept), workspace(*plan));

  ConvProblem aligned = problem;
  aligned.x.alignment = 4;
  const ConvProblem other = problem_of("fprop:x=bf16,32x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1");
  CudaDevice updated = device, smaller = device;
  updated.driver_version = 13010;
  smaller.sm_count = 16;
  Api newer = *api_;
  ++newer.version;
  KnobValues automatic = knobs;
  for (KnobValue& knob : automatic) knob.value = kAutomatic;
  std::set<std::pair<std::uint64_t, std::uint64_t>> keys = {{key.high, key.low}};
  for (const cuda::CodeKey& each : {plan_key(newer, use), plan_key(*api_, {aligned, device, false, 0, engine, knobs}),
                                    plan_key(*api_, {other, device, false, 0, engine, knobs}),
                                    plan_key(*api_, {problem, updated, false, 0, engine, knobs}),
                                    plan_key(*api_, {problem, smaller, false, 0, engine, knobs}),
                                    plan_key(*api_, {problem, device, true, 0, engine, knobs}),
                                    plan_key(*api_, {problem, device, false, 8, engine, knobs}),
                                    plan_key(*api_, {problem, device, false, 0, engine + 1, knobs}),
                                    plan_key(*api_, {problem, device, false, 0, engine, automatic})}) {
    keys.insert({each.high, each.low});
  }
  EXPECT_EQ(keys.size(), 10U);
  std::filesystem::remove_all(folder);
}

// A device that this process does not see is no error.
TEST_F(WithCudnn, IsLoadedAhead) {
  load_ahead();
  CudaDevice device = described_h200();
  device.ordinal = 7;
  open_ahead(device);
  EXPECT_FALSE(known_properties(*api_, device).own);
}

TEST_F(WithCudnn, EnginesAreAlsoSuggestedAsTheyCome) {
  const ConvProblem problem =
      problem_of("wgrad:x=f32,32x64x80x80,nhwc:w=f32,128x64x3x3,nhwc:y=f32,32x128x40x40,nhwc:pad=1x1:stride=2x2");
  const PlanRequest request = on(described_h200());
  int picked = 0;
  for (const Engine* engine : takers(problem, request)) {
    KnobValues automatic;
    for (const Knob& knob : engine->configurations(problem, request).knobs)
      automatic.push_back({knob.name, kAutomatic});
    const auto suggested = suggestions_of(*engine, problem, request);
    if (suggested.empty()) continue;  // not of the graph API
    EXPECT_EQ(std::count(suggested.begin(), suggested.end(), automatic), 1) << engine->info().name;
    picked += suggested.size() > 1;
  }
  EXPECT_GT(picked, 0);
}

TEST_F(WithCudnn, PredictionsFollowTheHeuristicsOrder) {
  const ConvProblem problem = problem_of(kDense);
  const PlanRequest request = on(described_h200());
  const auto tried = heuristic_candidates(problem, request);
  ASSERT_TRUE(tried.ok());
  double before = 0;
  for (const Candidate& candidate : *tried) {
    const auto engine = std::find_if(engines().begin(), engines().end(),
                                     [&](const Engine* e) { return e->info().name == candidate.engine; });
    const double seconds = (*engine)->predict_seconds(problem, candidate.knobs, request);
    EXPECT_GT(seconds, before) << print(candidate);
    before = seconds;
  }
  std::set<std::string> named;
  for (const Candidate& candidate : *tried) named.insert(candidate.engine);
  for (const Engine* engine : takers(problem, request)) {
    if (named.contains(engine->info().name)) continue;
    EXPECT_GT(engine->predict_seconds(problem, default_knobs(engine->configurations(problem, request)), request),
              before);
  }
}

TEST_F(WithCudnn, NotesTellPrecision) {
  const ConvProblem problem = problem_of("fprop:x=f32,8x64x56x56,nhwc:w=f32,64x64x3x3,nhwc:pad=1x1");
  int exact = 0, rounded = 0;
  for (const Engine* engine : takers(problem, on(described_h200()))) {
    const auto notes = engine->notes(problem, {}, on(described_h200()));
    EXPECT_EQ(has(notes, "TENSOR_CORE"), has(notes, note::tf32)) << engine->info().name;
    (has(notes, note::tf32) ? rounded : exact) += 1;
  }
  EXPECT_GT(exact, 0);
  EXPECT_GT(rounded, 0);
  for (const Engine* engine : takers(problem_of(kDense), on(described_h200()))) {
    EXPECT_FALSE(has(engine->notes(problem_of(kDense), {}, on(described_h200())), note::tf32)) << engine->info().name;
  }
}

TEST_F(WithCudnn, BadGraphsAreRefusedWithTheExpressionThatFailed) {
  // validate() would not let this through: a filter of 7 channels for an x of 32.
  ConvProblem problem = problem_of("fprop:x=f32,1x32x9x9:w=f32,4x32x3x3");
  problem.w = TensorDesc::packed(DataType::f32, {4, 7, 3, 3});
  EXPECT_FALSE(validate(problem).ok());
  const Graph graph(*api_, problem, nullptr);
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.failure().text.find("BAD_PARAM"), std::string::npos) << graph.failure().text;
  EXPECT_NE(graph.failure().text.find("wDimA[1]"), std::string::npos) << graph.failure().text;
  EXPECT_EQ(graph.failed_part(), "fprop operation");
}

TEST_F(WithCudnn, RefusesWhatItWouldComputeWrongly) {
  for (const char* text : {"dgrad:x=f32,2x16x13x13:w=f32,16x16x3x3:y=f32,2x16x13x12:pad=1x0/1x1",
                           "wgrad:x=f32,2x16x13x13:w=f32,16x16x3x3:y=f32,2x16x13x12:pad=1x0/1x1"}) {
    const ConvProblem problem = problem_of(text);
    for (const Engine* engine : takers(problem, on(described_h200()))) {
      EXPECT_FALSE(has(engine->notes(problem, {}, on(described_h200())), note::fft))
          << engine->info().name << " " << text;
      for (const Knob& knob : engine->configurations(problem, on(described_h200())).knobs)
        EXPECT_NE(knob.name, "k3") << engine->info().name;
    }
    EXPECT_FALSE(takers(problem, on(described_h200())).empty()) << text;
  }
  // Copies that end amid a piece of 128 bytes. These engines are offered on a device only.
  const auto wrong = [&](const char* text, std::int64_t engine) {
    return known_wrong(problem_of(text), engine, 91900, {}, {}).has_value();
  };
  EXPECT_TRUE(wrong("fprop:x=f16,3x8x4x37:w=f16,8x8x3x1:pad=1x0", 72));
  EXPECT_FALSE(wrong("fprop:x=f16,4x8x4x40:w=f16,8x8x3x1:pad=1x0", 72));
  EXPECT_FALSE(wrong("fprop:x=f16,3x8x4x37,nhwc:w=f16,8x8x3x1:pad=1x0", 72));
  // What of an integer sum is computed in f32 is not known.
  const auto sums = [&](const char* text) {
    const auto refusal =
        known_wrong(problem_of(text), 0, 91900, {name_of(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)}, {});
    return refusal ? refusal->reason : "";
  };
  EXPECT_EQ(sums("fprop:x=s8,1x64x8x8,nhwc:w=s8,32x64x3x3,nhwc:y=s32,1x32x6x6,nhwc"), "");
  EXPECT_NE(sums("fprop:x=s8,1x128x8x8,nhwc:w=s8,32x128x3x3,nhwc:y=s32,1x32x6x6,nhwc").find("cuDNN rounds sums to f32"),
            std::string::npos);
  // A piece of a tensor of 2^31 elements, and a whole one that is nearly as large.
  const char* const piece =
      "fprop:x=f32,1x32x256x512x256,strides=2147483648x67108864x131072x256x1:w=f32,1x32x1x1x1:math=tf32";
  EXPECT_TRUE(wrong(piece, 71));
  EXPECT_TRUE(wrong(piece, 72));
  EXPECT_FALSE(wrong("fprop:x=f32,1x31x512x512x256:w=f32,1x31x1x1x1:math=tf32", 71));
  EXPECT_FALSE(wrong("fprop:x=f32,1x32x4x4x4,strides=8192x256x64x8x1:w=f32,1x32x1x1x1:math=tf32", 71));
  EXPECT_TRUE(wrong("wgrad:x=f16,1x96x34x18:w=f16,8x96x1x7:y=f16,1x8x36x5:pad=1x1:stride=1x3", 70));
  EXPECT_FALSE(wrong("wgrad:x=f16,1x96x34x18:w=f16,64x96x1x7:y=f16,1x64x36x5:pad=1x1:stride=1x3", 70));
}

// A newer cuDNN may want more of a device that it is told of than anybody gives.
TEST_F(WithCudnn, APropertyThatNobodyGaveIsNamed) {
  const auto given = nlohmann::json::parse(properties_json(described_h200()));
  int wanted = 0;
  for (const auto& [name, value] : given.items()) {
    auto without = given;
    without.erase(name);
    const std::string json = without.dump();
    Descriptor described(*api_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    described
        .set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                   json.c_str())
        .finalize();
    if (described.ok()) continue;
    ++wanted;
    const std::string why_not = why_not_described(*api_, json, described.failure());
    EXPECT_NE(why_not.find("nobody gave it: " + name + ";"), std::string::npos) << why_not;
  }
  EXPECT_GT(wanted, 15);
}

TEST_F(WithCudnn, PlansTellTheirWorkspaceAndWhatTheyAre) {
  const ConvProblem problem = problem_of(kDense);
  PlanRequest request = on(described_h200());
  int with_workspace = 0;
  for (const Engine* engine : takers(problem, request)) {
    const KnobValues knobs = default_knobs(engine->configurations(problem, request));
    const auto plan = engine->plan(problem, knobs, request);
    // What is compiled when it is planned is loaded, too, which a stub of the driver can't do.
    if (!plan.ok() && !cuda::device_count() && has(engine->notes(problem, knobs, request), note::runtime_compilation)) {
      continue;
    }
    ASSERT_TRUE(plan.ok()) << engine->info().name << ": " << plan.error().message;
    EXPECT_EQ((*plan)->candidate(), (Candidate{engine->info().name, knobs}));
    EXPECT_EQ((*plan)->notes(), engine->notes(problem, knobs, request));
    EXPECT_EQ((*plan)->description(), "conv");
    with_workspace += (*plan)->workspace_bytes() > 0 ? 1 : 0;
    const auto* json = dynamic_cast<const HasPlanJson*>(plan->get());
    ASSERT_NE(json, nullptr);
    const auto read = nlohmann::json::parse(json->plan_json(), nullptr, false);
    ASSERT_FALSE(read.is_discarded()) << json->plan_json();
    EXPECT_EQ("cudnn.eng" + std::to_string(read["engine"]["engineId"].get<int>()), engine->info().name);
  }
  EXPECT_GT(with_workspace, 0);
  // A part of a described device is a smaller device.
  request.target_sms = 66;
  const auto part = survey(problem, described_h200(), 66);
  ASSERT_TRUE(part.ok());
  const auto picks = (*part)->picks();
  ASSERT_FALSE(picks.empty());
  const auto plan = (*part)->plan(picks.front().engine, picks.front().knobs);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const auto read = nlohmann::json::parse(plan->text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION));
  const auto seen = cuda::describe(0);
  const bool own = seen.ok() && seen->name == described_h200().name;
  EXPECT_EQ(read["GPUProfile"]["multiProcessorCount"], own ? seen->sm_count : 66);
}

TEST_F(WithCudnn, BigTensorsAreSplitVisibly) {
  const ConvProblem problem =
      problem_of("fprop:x=f16,2x32x384x512x512,nhwc:w=f16,32x32x3x3x3,nhwc:pad=1x1x1");  // 6.4e9 elements a tensor
  const PlanRequest request = on(described_h200());
  const auto engine = takers(problem, request);
  ASSERT_FALSE(engine.empty());
  const auto plan =
      engine.front()->plan(problem, default_knobs(engine.front()->configurations(problem, request)), request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NE((*plan)->description().find("pieces"), std::string::npos) << (*plan)->description();
  EXPECT_NE((*plan)->description().find("batch 1-1, rows of y"), std::string::npos) << (*plan)->description();
  if (!cuda::device_count()) {
    EXPECT_GE(stages_of(**plan).size(), 4u);
  }
}

TEST_F(WithCudnn, WithoutADeviceExecutionSaysSo) {
  if (cuda::device_count()) GTEST_SKIP() << "skipped: there is a CUDA device";
  const ConvProblem problem = problem_of("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3");
  const auto engine = takers(problem, on(described_h200()));
  ASSERT_FALSE(engine.empty());
  const auto plan = engine.front()->plan(problem, {}, on(described_h200()));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  alignas(64) float data[512] = {};
  std::vector<std::byte> workspace((*plan)->workspace_bytes());
  CudaQueue queue(nullptr);
  const ExecContext context{queue, workspace.data(), workspace.size()};
  const auto ran = (*plan)->execute({.x = data, .w = data, .out = data}, context);
  ASSERT_FALSE(ran.ok());
  EXPECT_NE(ran.error().message.find("no CUDA device"), std::string::npos) << ran.error().message;
  const auto misaligned = (*plan)->execute({.x = data + 1, .w = data, .out = data}, context);
  ASSERT_FALSE(misaligned.ok());
  EXPECT_NE(misaligned.error().message.find("x="), std::string::npos) << misaligned.error().message;
}

TEST_F(WithCudnn, ThreadsShareOneSurvey) {
  const ConvProblem problem = problem_of("fprop:x=f16,3x24x31x29,nhwc:w=f16,40x24x3x3,nhwc:pad=1x1");
  std::vector<std::size_t> counts(8);
  std::vector<std::shared_ptr<Survey>> surveys(counts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    threads.emplace_back([&, i] {
      surveys[i] = *survey(problem, described_h200(), 0);
      counts[i] = takers(problem, on(described_h200())).size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(counts[i], counts[0]);
    EXPECT_EQ(surveys[i], surveys[0]);
  }
  EXPECT_GT(counts[0], 0u);
}

}  // namespace
}  // namespace convoy::cudnn
