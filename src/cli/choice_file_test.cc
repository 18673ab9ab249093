// What convoy exec tells the programs it starts.
#include "cli/choice_file.h"

#include <gtest/gtest.h>

#include <cmath>

namespace convoy::cli {
namespace {

constexpr const char* kStrict = "fprop:x=f32,2x8x5x5,nhwc:w=f32,8x8x3x3,nhwc:y=f32,2x8x5x5,nhwc:pad=1x1";
constexpr const char* kTf32 = "fprop:x=f32,2x8x5x5,nhwc:w=f32,8x8x3x3,nhwc:y=f32,2x8x5x5,nhwc:pad=1x1:math=tf32";

TuningRecord row(const std::string& problem, const std::string& candidate, double seconds) {
  TuningRecord record;
  record.key.problem = problem;
  record.key.device = "cuda NVIDIA H200 sms=132 l2=60M mem=139G";
  record.key.isa = "sm_90";
  record.key.constant_weights = false;
  record.measurement.candidate = *parse_candidate(candidate);
  record.measurement.revision = 2;
  record.measurement.provider = "cuDNN 9.19.0";
  record.measurement.median_seconds = seconds;
  return record;
}

std::vector<KnownCost> costs(const std::vector<TuningRecord>& records, const Objective& objective = {}, int sms = 0) {
  return known_costs(records, all_engines(), objective, sms);
}

TEST(ChoiceFile, TimesAreOfTheProblemWithoutItsMath) {
  const auto known = costs({row(kStrict, "cudnn.eng5{k2=-1,k3=4}", 3e-5), row(kTf32, "cudnn.eng5{k2=-1,k3=4}", 2e-5),
                            row(kTf32, "cudnn.eng7", 1e-5)});
  ASSERT_EQ(known.size(), 2u);
  EXPECT_EQ(known[0].device, "NVIDIA H200");
  EXPECT_EQ(known[0].cudnn, "9.19.0");
  EXPECT_EQ(known[0].problem, print(*parse_problem(kStrict)));
  EXPECT_EQ(known[0].candidate, "cudnn.eng5{k3=4}") << "-1 is left to cuDNN";
  EXPECT_EQ(known[0].cost, 2e-5) << "the least";
  EXPECT_EQ(choice_file(known, {}), "convoy-choices 2\ntime\tNVIDIA H200\t9.19.0\t" + print(*parse_problem(kStrict)) +
                                        "\tcudnn.eng5{k3=4}\t2e-05\ntime\tNVIDIA H200\t9.19.0\t" +
                                        print(*parse_problem(kStrict)) + "\tcudnn.eng7\t1e-05\n");
}

TEST(ChoiceFile, ConvoysOwnEnginesCountForEveryVersionOfCudnn) {
  const std::string depthwise = "fprop:x=f32,2x8x5x5,nhwc:w=f32,8x1x3x3,nhwc:y=f32,2x8x5x5,nhwc:pad=1x1:groups=8";
  const auto own = [&](const char* engine, int revision_off) {
    TuningRecord record = row(depthwise, engine, 1e-5);
    record.measurement.provider.clear();
    for (const Engine* each : all_engines()) {
      if (each->info().name == engine) record.measurement.revision = each->info().revision + revision_off;
    }
    return record;
  };
  const auto known = costs({own("cuda.depthwise", 0), own("cuda.reference", 0), row(depthwise, "cudnn.eng5", 2e-5)});
  ASSERT_EQ(known.size(), 2u) << "an oracle is for nobody's program";
  EXPECT_EQ(known[0].candidate, "cuda.depthwise");
  EXPECT_EQ(known[0].cudnn, "-");
  EXPECT_EQ(known[1].cudnn, "9.19.0");
  EXPECT_TRUE(costs({own("cuda.depthwise", -1)}).empty()) << "of an older revision";
}

TEST(ChoiceFile, WhatCudnnCannotOfferKeepsItsMath) {
  std::vector<TuningRecord> records = {row(kStrict, "cudnn.legacy.fprop1", 5e-5),
                                       row(kTf32, "cudnn.legacy.fprop1", 1e-5)};
  for (TuningRecord& record : records) record.measurement.revision = 1;  // that engine's
  const auto known = costs(records);
  ASSERT_EQ(known.size(), 2u);
  const std::string text = choice_file(known, {});
  EXPECT_NE(text.find("\tcudnn.legacy.fprop1\t5e-05\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\tcudnn.legacy.fprop1\t1e-05\ttf32\n"), std::string::npos) << text;
}

TEST(ChoiceFile, OneStateOfTheCachesCounts) {
  TuningRecord warm = row(kStrict, "cudnn.eng5", 1e-5), cold = row(kStrict, "cudnn.eng7", 2e-5);
  warm.key.caches = CacheState::warm;
  for (const auto& records : {std::vector{warm, cold}, std::vector{cold, warm}}) {
    const auto known = costs(records);
    ASSERT_EQ(known.size(), 1u) << "a time with warm caches says nothing beside one with cold ones";
    EXPECT_EQ(known[0].candidate, "cudnn.eng7");
  }
  EXPECT_EQ(costs({warm}).size(), 1u);
}

TEST(ChoiceFile, WhatFailedIsInfinite) {
  TuningRecord failed = row(kStrict, "cudnn.eng5", 0);
  failed.measurement.failure = Error{ErrorCode::wrong_result, "wrong"};
  auto known = costs({failed, row(kStrict, "cudnn.eng7", 1e-5)});
  ASSERT_EQ(known.size(), 2u);
  EXPECT_TRUE(std::isinf(known[0].cost));
  EXPECT_NE(choice_file(known, {}).find("cudnn.eng5\tinf\n"), std::string::npos);
  known = costs({failed, row(kTf32, "cudnn.eng5", 1e-5)});
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].cost, 1e-5) << "wrong for strict math, right for tf32";
}

TEST(ChoiceFile, WhatSaysNothingHereIsLeftOut) {
  TuningRecord cpu = row(kStrict, "cudnn.eng5", 1e-5), old = cpu, carved = cpu, verdict = cpu;
  cpu.key.device = "cpu AMD l1d=32K l2=1M l3=32M";
  old.measurement.revision = 1;
  carved.key.isa = "sm_90 target_sms=66";
  verdict.measurement.failure = Error{ErrorCode::wrong_result, "wrong"};
  verdict.rule = 1;
  EXPECT_TRUE(costs({cpu}).empty());
  EXPECT_TRUE(costs({old}).empty()) << "an older revision planned otherwise";
  EXPECT_TRUE(costs({carved}).empty());
  EXPECT_EQ(costs({carved}, {}, 66).size(), 1u);
  EXPECT_TRUE(costs({row(kStrict, "cudnn.eng5", 1e-5)}, {}, 66).empty());
  EXPECT_TRUE(costs({verdict}).empty());
  EXPECT_TRUE(costs({row(kStrict, "cudnn.legacy.fprop1", 1e-5)}).empty());
}

TEST(ChoiceFile, TheObjectiveIsTheCost) {
  TuningRecord frugal = row(kStrict, "cudnn.eng5", 3e-5), quick = row(kStrict, "cudnn.eng7", 1e-5);
  frugal.measurement.energy_joules = 0.001;
  quick.measurement.energy_joules = 0.002;
  const std::vector records = {frugal, quick, row(kStrict, "cudnn.eng8", 2e-5)};
  const auto joules = costs(records, *parse_objective("energy"));
  ASSERT_EQ(joules.size(), 2u) << "eng8's energy is not known";
  EXPECT_EQ(joules[0].cost, 0.001);
  EXPECT_EQ(joules[1].cost, 0.002);
  const auto both = costs(records, *parse_objective("time=1,energy=1"));
  ASSERT_EQ(both.size(), 2u);
  EXPECT_NEAR(both[0].cost, 4, 1e-9);
  EXPECT_NEAR(both[1].cost, 3, 1e-9);
}

TEST(ChoiceFile, FlagsAreLines) {
  ChoiceOptions options;
  EXPECT_FALSE(asks_for_something(options));
  EXPECT_EQ(choice_file({}, options), "convoy-choices 2\n");
  const auto rules =
      parse_rules("pass=fprop\tfilter=3x3 -> cudnn.eng5{k2=1,k3=-1}\n" + std::string(kTf32) + " -> cudnn.eng7\n");
  ASSERT_TRUE(rules.ok()) << rules.error().message;
  options.rules = *rules;
  options.strict = true;
  options.sm_count = 66;
  options.filter.engines = "*,!cudnn.eng9";
  options.filter.notes = "!WINOGRAD";
  options.filter.deterministic_only = true;
  options.filter.workspace_limit = 1 << 20;
  EXPECT_TRUE(asks_for_something(options));
  EXPECT_EQ(choice_file({}, options), "convoy-choices 2\nrule\tpass=fprop filter=3x3\tcudnn.eng5{k2=1}\nrule\t" +
                                          print(*parse_problem(kStrict)) +
                                          "\tcudnn.eng7\nfilter\tengines\t*,!cudnn.eng9\nfilter\tdeterministic\n"
                                          "filter\tnotes\t!WINOGRAD\nfilter\tworkspace\t1048576\nfilter\tsm-count\t66\n"
                                          "strict\n");
}

}  // namespace
}  // namespace convoy::cli
