// What the command shows of itself and of long lists: help by subject, errors for options in the wrong place,
// summaries.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/beside.h"
#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(Command, HelpIsOrderedBySubject) {
  const std::vector<std::string> subjects = {"Input:", "Choosing:", "Timing:", "Device:", "Checking:", "Output:"};
  for (const std::vector<std::string>& path : std::vector<std::vector<std::string>>{{"run"},
                                                                                    {"bench"},
                                                                                    {"tune"},
                                                                                    {"explain"},
                                                                                    {"verify"},
                                                                                    {"conformance"},
                                                                                    {"repro"},
                                                                                    {"zoo"},
                                                                                    {"doctor"},
                                                                                    {"demo"},
                                                                                    {"db", "show"},
                                                                                    {"db", "verify"},
                                                                                    {"db", "gc"},
                                                                                    {"list", "engines"},
                                                                                    {"completion"},
                                                                                    {"man"}}) {
    auto arguments = path;
    arguments.emplace_back("--help");
    const Finished help = run(arguments);
    ASSERT_EQ(help.exit_code, 0) << path.back();
    EXPECT_EQ(help.out.find("\nOptions:"), std::string::npos) << "an option without a subject\n" << help.out;
    std::size_t last = 0;
    for (const std::string& subject : subjects) {
      const std::size_t at = help.out.find("\n" + subject + "\n");
      if (at == std::string::npos) continue;
      EXPECT_GT(at, last) << path.back() << ": " << subject << "\n" << help.out;
      last = at;
    }
    EXPECT_GT(last, 0U) << path.back();
  }
}

TEST_F(Command, OptionsThatCannotWorkWhereTheyAreSaySo) {
  expect_error({"explain", kConv, "--rotating"}, 2, "--rotating: it is for --device cuda");
  expect_error({"run", "zoo:resnet18", "--random-inputs", "--sm-count", "4"}, 2, "--sm-count: it is for --device cuda");
  expect_error({"run", "zoo:resnet18", "--random-inputs", "--rotating"}, 2, "--rotating: it is for --device cuda");
  expect_error({"bench", kConv, "--sm-count", "0"}, 2, "--sm-count");
}

TEST_F(Command, ArgumentsThatNothingTakesAreNamed) {
  expect_error({"--device", "cuda", "bench", kConv}, 2,
               "--device belongs behind the subcommand: convoy bench --device");
  expect_error({"bench", kConv, "cuda"}, 2, "'cuda' is one argument too many: convoy bench takes target and options");
  expect_error({"bench", kConv, "--verbose"}, 2, "--verbose is not an option of convoy bench, but of convoy run");
  expect_error({"doctor", "--wings"}, 2, "--wings is not an option");
}

TEST_F(Command, ExplainOfAListIsALineEachUntilAskedForMore) {
  write("list.txt", "2 " + kConv + "\n1 fprop:x=f32,1x24x12x12,nhwc:w=f32,32x24x1x1\n");
  const Finished summary = run({"explain", path("list.txt")});
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_LT(lines_of(summary.out).size(), 10U) << summary.out;
  EXPECT_NE(summary.out.find("--node NUMBER"), std::string::npos);
  const Finished all = run({"explain", path("list.txt"), "--all"});
  EXPECT_GT(lines_of(all.out).size(), 30U);
  EXPECT_NE(all.out.find("why it can't"), std::string::npos);
  const Finished one = run({"explain", path("list.txt"), "--node", "2"});
  EXPECT_NE(one.out.find("why it can't"), std::string::npos);
  EXPECT_EQ(one.out.find(kConv), std::string::npos);
  EXPECT_EQ(run_json({"explain", path("list.txt"), "--node", "*w=f32,32x24*"}, 0)["problems"][0]["number"], 2);
  // The document is whole in any case.
  EXPECT_GT(run_json({"explain", path("list.txt")}, 0)["problems"][0]["engines"].size(), 10U);
  expect_error({"explain", path("list.txt"), "--node", "3"}, 2, "--node: '3' matches no layer; there are 1 (");
  expect_error({"bench", path("list.txt"), "--node", "nowhere*"}, 2, "--node: 'nowhere*' matches no layer");
}

// With a ceiling that everything is above: predictions stop at it, but for those that need less arithmetic.
TEST_F(Command, NoPredictionIsAboveTheCeiling) {
  if (run_json({"doctor"}, 0)["processor"]["isa"] == "portable") GTEST_SKIP() << "skipped: no AVX2";
  in_child_ = [&] { ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1); };
  const std::string problem = "fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1";
  ASSERT_EQ(run({"explain", problem, "--threads", "1"}).exit_code, 0);
  std::ifstream in(path("convoy/ceilings.txt"));
  std::string head, line, isa, processor;
  ASSERT_TRUE(std::getline(in, head) && std::getline(in, line));
  std::istringstream words(line);
  double rate = 0;
  std::string threads, date;
  words >> isa >> threads >> rate >> rate >> rate >> date >> std::ws;
  std::getline(words, processor);
  write("convoy/ceilings.txt", head + "\n" + isa + " 1 1e9 1e9 1e9 " + date + " " + processor + "\n");
  const Finished explained = run({"explain", problem, "--threads", "1", "--no-db", "--wide"});
  int held = 0, winograds = 0;
  for (const std::string& row : lines_of(explained.out)) {
    if (row.starts_with("  cpu.winograd ") && row.find(" 100.0% ") == std::string::npos) ++winograds;
    if (row.starts_with("  cpu.direct ") || row.starts_with("  cpu.gemm ")) {
      EXPECT_NE(row.find(" 100.0% "), std::string::npos) << row;
      ++held;
    }
  }
  EXPECT_EQ(held, 2) << explained.out;
  EXPECT_EQ(winograds, 1) << explained.out;
}

TEST(Certainty, WhatIsWithinItsIntervalOfOneIsNoDifference) {
  const selection::Summary wide{.median = 0.279, .first_quartile = 0.1, .third_quartile = 0.9, .samples = 9};
  EXPECT_TRUE(certainty_of(wide).ends_with(" (9 runs of each, interleaved in one process), so no difference is shown"));
  const selection::Summary narrow{.median = 0.9, .first_quartile = 0.89, .third_quartile = 0.91, .samples = 40};
  EXPECT_TRUE(certainty_of(narrow).ends_with(" (40 runs of each, interleaved in one process)")) << certainty_of(narrow);
}

TEST_F(Command, BenchShowsTheCeilingAndWhatRulesWouldChoose) {
  write("a.rules", "pass=fprop -> cpu.gemm\n");
  const Finished bench = run({"bench", kConv, "--budget", "1", "--threads", "1", "--rules", path("a.rules")});
  EXPECT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_NE(bench.out.find("rule 'pass=fprop' chooses cpu.gemm"), std::string::npos) << bench.out;
  EXPECT_NE(bench.out.find("of ceiling"), std::string::npos);
  EXPECT_NE(bench.out.find("engines can't (--all says why)"), std::string::npos);
  const json document = run_json({"bench", kConv, "--budget", "1", "--threads", "1", "--rules", path("a.rules")}, 0);
  EXPECT_GT(document["problems"][0]["candidates"].size(), 1U);
  EXPECT_GT(document["ceiling"]["f32_flops_per_second"].get<double>(), 0);
  EXPECT_GT(document["problems"][0]["ceiling_seconds"].get<double>(), 0);
  EXPECT_GT(run_json({"doctor"}, 0)["ceiling"]["memory_bytes_per_second"].get<double>(), 0);
}

TEST_F(Command, TuneSaysWhatItChangedAndWhereTheChoicesAreFrom) {
  const json tuned = run_json({"tune", kConv, "--threads", "1", "-o", path("a.rules")}, 0);
  EXPECT_TRUE(tuned["problems"][0].contains("untuned"));
  std::ifstream in(path("a.rules"));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(text.find("# model: " + kConv + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# on: 1 thread, "), std::string::npos) << text;
  EXPECT_NE(text.find("# date: 2"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(tuned["plan"].get<std::string>())) << text;
  const Finished again = run({"tune", kConv, "--threads", "1"});
  EXPECT_NE(again.out.find("without tuning"), std::string::npos) << again.out;
  EXPECT_EQ(run({"explain", kConv, "--rules", path("a.rules")}).exit_code, 0);
}

TEST_F(Command, ListHasTheGpusEnginesWhereThereIsOneOrAllAreAskedFor) {
  ::setenv("CONVOY_CUDA_DRIVER", "off", 1);
  const Finished here = run({"list", "engines"});
  EXPECT_NE(here.out.find("this machine has none (--all lists them)"), std::string::npos);
  EXPECT_EQ(here.out.find("cuda.depthwise"), std::string::npos);
  EXPECT_NE(run({"list", "engines", "--all"}).out.find("cuda.depthwise"), std::string::npos);
  ::unsetenv("CONVOY_CUDA_DRIVER");
}

}  // namespace
}  // namespace convoy::cli
