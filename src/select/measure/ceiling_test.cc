#include "select/measure/ceiling.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "select/testing/fake_engine.h"

namespace convoy::selection {
namespace {

namespace fs = std::filesystem;

class CeilingFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("convoy_ceiling_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    const char* was = std::getenv("XDG_CACHE_HOME");
    if (was != nullptr) was_ = was;
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    request_.cpu = cpu_features();
    request_.threads = 1;
  }
  void TearDown() override {
    was_ ? ::setenv("XDG_CACHE_HOME", was_->c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }
  void write(const std::string& text) const {
    fs::create_directories(fs::path(ceilings_file()).parent_path());
    std::ofstream(ceilings_file()) << text;
  }

  fs::path folder_;
  std::optional<std::string> was_;
  PlanRequest request_;
};

TEST_F(CeilingFile, IsMeasuredOnceForEachNumberOfThreads) {
  const MachineCeiling first = machine_ceiling(request_);
  EXPECT_TRUE(first.kept);
  EXPECT_GT(first.f32_flops, 0);
  const MachineCeiling again = machine_ceiling(request_);
  EXPECT_NEAR(again.f32_flops, first.f32_flops, 1e-3 * first.f32_flops);
  EXPECT_EQ(again.date, first.date);
  request_.threads = 2;
  EXPECT_GT(machine_ceiling(request_).f32_flops, 0);
  std::ifstream in(ceilings_file());
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  EXPECT_EQ(lines, 3);  // the head and two
}

TEST_F(CeilingFile, WhatIsThereIsTakenAndDamageIsNot) {
  const std::string head = "# convoy ceilings 1: ISA THREADS F32_FLOPS CACHE_BYTES MEMORY_BYTES DATE PROCESSOR\n";
  request_.cpu.brand = "Some Processor (R)";
  request_.cpu.isa = Isa::portable;
  write(head + "portable 1 nonsense\nportable 1 8e9 2e10 1e10 2026-01-02 Some Processor (R)\n");
  EXPECT_EQ(machine_ceiling(request_).f32_flops, 8e9);
  EXPECT_EQ(machine_ceiling(request_).date, "2026-01-02");
  for (const std::string& damaged :
       {head + "portable 1 8e9", std::string("another head\nportable 1 8e9 2e10 1e10 d p\n"),
        std::string("\xff\xfe")}) {
    write(damaged);
    EXPECT_NE(machine_ceiling(request_).date, "2026-01-02");
  }
  ::setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
  const MachineCeiling homeless = machine_ceiling(request_);
  EXPECT_FALSE(homeless.kept);
  EXPECT_GT(homeless.f32_flops, 0);
}

// A ceiling that was measured while somebody else was in the way.
TEST_F(CeilingFile, IsRaisedByWhatIsAboveIt) {
  write(
      "# convoy ceilings 1: ISA THREADS F32_FLOPS CACHE_BYTES MEMORY_BYTES DATE PROCESSOR\n"
      "portable 1 1e9 2e10 1e10 2026-01-02 Some Processor\nportable 2 1e9 2e10 1e10 2026-01-02 Some Processor\n");
  request_.cpu.brand = "Some Processor";
  request_.cpu.isa = Isa::portable;
  request_.cpu.l2_bytes = 1 << 20;
  request_.cpu.l3_bytes = 1 << 30;
  const ConvProblem problem = *parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  const MachineCeiling low = machine_ceiling(request_);
  const double seconds = flops(problem) / 1.74e9;
  const auto share = [&](const MachineCeiling& ceiling) {
    return *least_seconds(problem, ceiling, request_) / seconds;
  };
  EXPECT_NEAR(share(low), 1.74, 1e-9);
  const auto raised_by = [&](const Reached& reached) { return raised(low, std::span(&reached, 1), request_); };
  EXPECT_EQ(raised_by({problem, seconds, false}).f32_flops, 1e9) << "Winograd needs fewer operations";
  EXPECT_EQ(raised_by({problem, 2 * seconds, true}).date, "2026-01-02");
  const MachineCeiling high = raised_by({problem, seconds, true});
  EXPECT_NEAR(share(high), 1, 1e-9);
  EXPECT_NE(high.date, "2026-01-02");
  EXPECT_NEAR(machine_ceiling(request_).f32_flops, high.f32_flops, 1e-3 * high.f32_flops) << "it is kept";
  EXPECT_EQ(machine_ceiling(request_).date, high.date);
  EXPECT_EQ(high.memory_bytes, 1e10);
  const ConvProblem pointwise = *parse_problem("fprop:x=f32,64x16x112x112,nhwc:w=f32,16x16x1x1");
  const double quick = (bytes_moved(pointwise) - (1 << 20)) / 4e10;
  EXPECT_NEAR(raised_by({pointwise, quick, false}).cache_bytes, 4e10, 1e3) << "bytes as well";
  request_.threads = 2;
  EXPECT_EQ(machine_ceiling(request_).f32_flops, 1e9) << "others stay";
}

TEST(Roofline, WhatIsRightReachesIt) {
  const ConvProblem problem = *parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  const testing_support::FakeEngine plain("fake.plain", {}), winograd("fake.winograd", {.notes = {"WINOGRAD"}});
  const std::vector<const Engine*> engines = {&plain, &winograd};
  const auto of = [&](const char* engine, double seconds, std::optional<Error> failure = {}) {
    const Measurement m{.candidate = {engine, {}}, .median_seconds = seconds, .samples = 1, .failure = failure};
    return reached(problem, m, engines, {});
  };
  ASSERT_TRUE(of("fake.plain", 1e-3));
  EXPECT_TRUE(of("fake.plain", 1e-3)->all_arithmetic);
  EXPECT_FALSE(of("fake.winograd", 1e-3)->all_arithmetic);
  EXPECT_FALSE(of("fake.plain", 0)) << "a clock that stood still";
  EXPECT_FALSE(of("fake.plain", 1e-3, Error{ErrorCode::wrong_result, "wrong"}));
  EXPECT_FALSE(of("fake.gone", 1e-3));
}

TEST(Roofline, IsArithmeticOrBytes) {
  const auto problem = parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  ASSERT_TRUE(problem.ok());
  PlanRequest request;
  request.cpu.l3_bytes = 1 << 30;
  request.cpu.l2_bytes = 0;
  const double bytes = bytes_moved(*problem);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e9, 0, 1e12, "", true}, request), flops(*problem) / 1e9);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 0, 1e9, "", true}, request), bytes / 1e9);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 4e9, 1e9, "", true}, request), bytes / 4e9);
  request.cpu.l2_bytes = 1 << 20;
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 4e9, 1e9, "", true}, request), (bytes - (1 << 20)) / 4e9)
      << "what the private caches may hold";
  request.cpu.l3_bytes = 1024;  // it doesn't fit
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 4e9, 1e9, "", true}, request), bytes / 1e9);
  EXPECT_FALSE(least_seconds(*problem, {}, request));
  const auto integers = parse_problem("fprop:x=s8,1x64x56x56,nhwc:w=s8,64x64x3x3:pad=1x1");
  ASSERT_TRUE(integers.ok());
  EXPECT_FALSE(least_seconds(*integers, {1e15, 4e9, 1e9, "", true}, request));
}

}  // namespace
}  // namespace convoy::selection
