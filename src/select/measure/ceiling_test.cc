#include "select/measure/ceiling.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace convoy::selection {
namespace {

namespace fs = std::filesystem;

class CeilingFile : public testing::Test {
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

TEST(Roofline, IsArithmeticOrBytes) {
  const auto problem = parse_problem("fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1");
  ASSERT_TRUE(problem.ok());
  PlanRequest request;
  request.cpu.l3_bytes = 1 << 30;
  const double bytes = bytes_moved(*problem);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e9, 0, 1e12, "", true}, request), flops(*problem) / 1e9);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 0, 1e9, "", true}, request), bytes / 1e9);
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 4e9, 1e9, "", true}, request), bytes / 4e9);
  request.cpu.l3_bytes = 1024;  // it doesn't fit
  EXPECT_DOUBLE_EQ(*least_seconds(*problem, {1e15, 4e9, 1e9, "", true}, request), bytes / 1e9);
  EXPECT_FALSE(least_seconds(*problem, {}, request));
  const auto integers = parse_problem("fprop:x=s8,1x64x56x56,nhwc:w=s8,64x64x3x3:pad=1x1");
  ASSERT_TRUE(integers.ok());
  EXPECT_FALSE(least_seconds(*integers, {1e15, 4e9, 1e9, "", true}, request));
}

}  // namespace
}  // namespace convoy::selection
