#include "select/tune/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "select/testing/faulty_engine.h"

namespace convoy::selection {
namespace {

using testing::EngineFault;
using testing::FaultyEngine;

CheckSetup setup(const char* problem = "fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1") {
  CheckSetup setup;
  setup.problem = *parse_problem(problem);
  setup.request.cpu = cpu_features();
  setup.request.threads = 2;
  return setup;
}

CheckOutcome check(const Engine& engine, const CheckSetup& with) {
  const Engine* engines[] = {&engine};
  auto checker = CandidateChecker::make(with, engines);
  EXPECT_TRUE(checker.ok()) << checker.error().message;
  return checker->check({engine.info().name, {{"tile", 2}}});
}

TEST(Check, AGoodEnginePassesBothBitwiseTests) {
  for (const char* problem : {"fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3:pad=1x1:beta=0.5:bias=1:gamma=1:act=relu",
                              "dgrad:x=f32,1x4x9x9,nhwc:w=f32,4x4x3x3:y=f32,1x4x7x7,nhwc",
                              "wgrad:x=f32,2x4x9x9,nchw:w=f32,4x4x3x3:y=f32,2x4x7x7,nchw"}) {
    const CheckOutcome outcome = check(FaultyEngine(EngineFault::none), setup(problem));
    EXPECT_EQ(outcome.fault, CheckFault::none) << outcome.failure;
    EXPECT_EQ(outcome.deterministic, BitTest::same);
    EXPECT_EQ(outcome.thread_invariant, BitTest::same);
    EXPECT_EQ(outcome.thread_counts, (std::vector<int>{2, 1, 3}));
    EXPECT_EQ(print(outcome.candidate), "fake.engine{tile=2}");
    EXPECT_TRUE(outcome.full);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_LE(outcome.max_error, 1);
  }
}

TEST(Check, EachFaultIsFoundAndNamed) {
  const struct {
    EngineFault engine;
    CheckFault fault;
    const char* says;
  } cases[] = {
      {EngineFault::wrong, CheckFault::wrong_result, "out[0x0x0x0] is "},
      {EngineFault::unsteady, CheckFault::other_bits, "execution 2 of 3: element 323 of the storage is "},
      {EngineFault::depends_on_threads, CheckFault::other_bits_by_threads, "1 threads after 2: element 323"},
      {EngineFault::fails, CheckFault::execution, "out of luck"},
      {EngineFault::no_plan, CheckFault::no_plan, "no plan today"},
      {EngineFault::refuses, CheckFault::refused, "not on Mondays"},
  };
  for (const auto& test : cases) {
    const CheckOutcome outcome = check(FaultyEngine(test.engine), setup());
    EXPECT_EQ(outcome.fault, test.fault) << outcome.failure;
    EXPECT_NE(outcome.failure.find(test.says), std::string::npos) << outcome.failure;
  }
}

// Each of the types, where sums reach 2^24, and none where they don't.
TEST(Check, SumsThatAreRoundedToF32AreFound) {
  for (const char* types : {"u8 s8", "s8 s8", "u8 u8", "s8 u8"}) {
    const std::string x(types, 2), w(types + 3);
    for (const char* zero_points : {"", ":zp=128,0,0", ":zp=given,0,0"}) {
      if (x == "s8" && zero_points == std::string_view(":zp=128,0,0")) continue;
      const auto problem = [&](const char* channels) {
        return fmt::format("fprop:x={0},1x{2}x5x5,nhwc:w={1},8x{2}x3x3:y=s32,1x8x3x3,nhwc{3}", x, w, channels,
                           zero_points);
      };
      const CheckOutcome outcome = check(FaultyEngine(EngineFault::sums_in_f32), setup(problem("256").c_str()));
      EXPECT_EQ(outcome.fault, CheckFault::wrong_result) << problem("256");
      const CheckOutcome few = check(FaultyEngine(EngineFault::sums_in_f32), setup(problem("16").c_str()));
      EXPECT_EQ(few.fault, CheckFault::none) << problem("16") << few.failure;
    }
  }
}

// What is not claimed is not held against an engine.
TEST(Check, OnlyClaimsAreTested) {
  FaultyEngine unsteady(EngineFault::unsteady);
  unsteady.declare().deterministic = unsteady.declare().thread_invariant = false;
  const CheckOutcome outcome = check(unsteady, setup());
  EXPECT_EQ(outcome.fault, CheckFault::none) << outcome.failure;
  EXPECT_EQ(outcome.deterministic, BitTest::not_claimed);
  EXPECT_EQ(outcome.thread_invariant, BitTest::not_claimed);

  FaultyEngine by_threads(EngineFault::depends_on_threads);
  by_threads.declare().thread_invariant = false;
  EXPECT_EQ(check(by_threads, setup()).fault, CheckFault::none);
}

// A provider claims it for an engine and takes it back for some problems.
TEST(Check, ANoteTakesTheClaimBack) {
  FaultyEngine unsteady(EngineFault::unsteady);
  unsteady.declare().thread_invariant = false;
  unsteady.declare().notes = {std::string(note::nondeterministic)};
  const CheckOutcome outcome = check(unsteady, setup());
  EXPECT_EQ(outcome.fault, CheckFault::none) << outcome.failure;
  EXPECT_EQ(outcome.deterministic, BitTest::not_claimed);
}

TEST(Check, OneExecutionTellsNothingAboutDeterminism) {
  CheckSetup once = setup();
  once.repeats = 1;
  const CheckOutcome outcome = check(FaultyEngine(EngineFault::unsteady), once);
  EXPECT_EQ(outcome.deterministic, BitTest::not_run);
}

// Too big for the oracle to check whole: of four million outputs it samples 4,096.
TEST(Check, BigProblemsAreComparedWholeWithATrustedCandidate) {
  CheckSetup big = setup("fprop:x=f32,1x1x2001x2001,nchw:w=f32,1x1x1x1,nchw");
  big.repeats = 1;
  FaultyEngine bad(EngineFault::wrong_inside, "fake.bad");
  bad.declare().thread_invariant = false;
  std::vector<const Engine*> engines = all_engines();
  engines.push_back(&bad);
  const char* good = cpu_features().isa < Isa::avx2 ? "reference" : "cpu.gemm";
  auto checker = CandidateChecker::make(big, engines);
  ASSERT_TRUE(checker.ok()) << checker.error().message;
  const CheckOutcome first = checker->check({good, {}});
  EXPECT_EQ(first.fault, CheckFault::none) << first.failure;
  EXPECT_FALSE(first.full);
  EXPECT_GE(first.checked, 4096);
  ASSERT_TRUE(checker->setup().trusted.has_value());
  EXPECT_EQ(checker->setup().trusted->engine, good);
  const CheckOutcome second = checker->check({"fake.bad", {}});
  EXPECT_EQ(second.fault, CheckFault::wrong_result);
  EXPECT_NE(second.failure.find("which passed the oracle, says"), std::string::npos) << second.failure;

  big.trusted = Candidate{"fake.nobody", {}};
  const auto orphan = CandidateChecker::make(big, engines);
  ASSERT_FALSE(orphan.ok());
  EXPECT_NE(orphan.error().message.find("fake.nobody"), std::string::npos);
}

TEST(Check, InvalidProblemsAreAnError) {
  CheckSetup broken = setup();
  broken.problem.stride = {0, 1};
  EXPECT_FALSE(CandidateChecker::make(broken, {}).ok());
}

}  // namespace
}  // namespace convoy::selection
