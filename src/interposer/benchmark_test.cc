#include "interposer/benchmark.h"

#include <gtest/gtest.h>

#include <thread>

namespace convoy::interposer {
namespace {

// What a program does with a graph, a letter a step: a list asked for (l), the fallback list (f), a plan made (m), one
// that can't be (x), an execution (r).
bool recognised(Benchmark& benchmark, const GraphRecord& row, const char* steps) {
  bool seen = false;
  for (const char* step = steps; *step != 0; ++step) {
    if (*step == 'l' || *step == 'f') benchmark.asked(row, *step == 'f');
    if (*step == 'm' || *step == 'x') seen |= benchmark.planned(row, *step == 'm', true);
    if (*step == 'r') benchmark.ran(row);
  }
  return seen;
}

TEST(Benchmark, IsRecognisedByBothListsAndASecondPlan) {
  const GraphRecord row;
  for (const char* steps : {"lfmmmmrrrr", "lfxmxmr", "lrlfmm"}) {
    Benchmark benchmark;
    EXPECT_TRUE(recognised(benchmark, row, steps)) << steps;
    EXPECT_TRUE(benchmark.on() && benchmark.ever()) << steps;
  }
  for (const char* steps : {"lmrrr", "lxxmr", "lxxxfmr", "lfmr", "lmm", "lxmmr", "lmrlmr", "lxxfmmr", "lfmrmr"}) {
    Benchmark benchmark;
    EXPECT_FALSE(recognised(benchmark, row, steps)) << steps << ": filters, workspace that can't be had";
    EXPECT_FALSE(benchmark.ever()) << steps;
  }
}

TEST(Benchmark, EndsWithAGraphThatTakesItsFirstPlan) {
  const GraphRecord row, other;
  Benchmark benchmark;
  recognised(benchmark, row, "lfmmr");
  EXPECT_TRUE(benchmark.on());
  recognised(benchmark, other, "lmr");
  EXPECT_FALSE(benchmark.on());
  EXPECT_TRUE(benchmark.ever());
}

TEST(Benchmark, ThreadsDoNotMix) {
  const GraphRecord row;
  Benchmark benchmark;
  benchmark.asked(row, false);
  std::thread([&] { recognised(benchmark, row, "lfm"); }).join();
  EXPECT_FALSE(benchmark.planned(row, true, true));
  EXPECT_FALSE(benchmark.times(row)) << "the other thread does";
  EXPECT_FALSE(benchmark.ever());
}

}  // namespace
}  // namespace convoy::interposer
