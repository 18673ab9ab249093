// What people write to steer choices: names that are misspelt, rules that match nothing, two sets of rules side by
// side.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

using Choices = Command;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Choices, MisspeltNamesAreRefusedWithTheNearest) {
  const std::string gemm = "'cpu.gem' matches no engine; did you mean cpu.gemm? (convoy list engines shows all)";
  expect_error({"explain", kConv, "--engines", "cpu.gem"}, 2, "--engines: " + gemm);
  expect_error({"explain", kConv, "--engines", "*,!cpu.gem"}, 2, "--engines: " + gemm);
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--engines", "cpu.gem"}, 2, gemm);
  expect_error({"bench", kConv, "--vs", "cpu.gem"}, 2, "--vs: " + gemm);
  expect_error({"explain", kConv, "--engines", "cudnn.*"}, 2, "'cudnn.*' matches no engine of --device cpu");
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--notes", "nosuch"}, 2, "'nosuch' matches no note");
  expect_error({"explain", kConv, "--notes", "!WINOGARD"}, 2, "--notes: 'WINOGARD' matches no note; did you mean WINO");
  EXPECT_LT(run({"explain", kConv, "--engines", "cpu.gem"}).err.size(), 200U);  // not all engines' names
}

TEST_F(Choices, NamesInRulesAreCheckedWhenTheyAreRead) {
  const auto refuses = [&](const std::string& rules, const std::string& says) {
    write("some.rules", rules);
    expect_error({"explain", kConv, "--rules", path("some.rules")}, 2, "--rules " + path("some.rules") + ": " + says);
  };
  // None of these rules matches the problem.
  refuses("filter=7x7 -> cpu.gem\n", "rules line 1: engine 'cpu.gem' does not exist; did you mean cpu.gemm?");
  refuses("\nfilter=7x7 -> cpu.winograd{n=2}\n", "rules line 2: cpu.winograd has no knob 'n'; it has m");
  refuses("filtr=7x7 -> cpu.gemm\n", "rules line 1: 'filtr=7x7': 'filtr' is not a field; did you mean filter?");
  expect_error({"explain", kConv, "--rules", path("none.rules")}, 2, "--rules: " + path("none.rules"));
}

TEST_F(Choices, TheConfigurationIsTheFlagsOrElseTheEnvironments) {
  const auto excluded = [&](std::vector<std::string> arguments) {
    return contains(run(std::move(arguments)).out, "this engine is not one of Convoy's own");
  };
  EXPECT_FALSE(excluded({"explain", kConv}));
  EXPECT_TRUE(excluded({"explain", kConv, "--config", "portable"}));
  ::setenv("CONVOY_CONFIG", "portable", 1);
  EXPECT_TRUE(excluded({"explain", kConv}));
  EXPECT_FALSE(excluded({"explain", kConv, "--config", "full"}));
  ::unsetenv("CONVOY_CONFIG");
}

TEST_F(Choices, WhatIsNoFileMayBeANetworkOfTheZoo) {
  expect_error({"run", "resnet18"}, 2, "did you mean zoo:resnet18");
  expect_error({"runn", "zoo:resnet18"}, 2, "'runn' is not a subcommand; did you mean run?");
  EXPECT_FALSE(contains(run({"run", path("resnet18")}).err, "did you mean"));
}

TEST_F(Choices, RulesThatMatchNothingAreNamedAtTheEnd) {
  write("some.rules", "filter=5x5 -> cpu.gemm\nfilter=3x3 -> cpu.direct\nchannels=8 -> cpu.gemm\n");
  const std::vector<std::string> rules = {"--rules", path("some.rules"), "--threads", "1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), rules.begin(), rules.end());
    return arguments;
  };
  const std::string unmatched = "--rules: 1 of 3 rules matched no convolution:\n  filter=5x5 -> cpu.gemm";
  const std::string undecided = "--rules: 1 of 3 rules decided nothing";
  for (const auto& arguments : {with({"explain", kConv}), with({"bench", kConv, "--budget", "100ms"}),
                                with({"tune", kConv, "--budget", "100ms"})}) {
    const Finished result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(contains(result.err, unmatched)) << arguments[0] << ": " << result.err;
    EXPECT_TRUE(contains(result.err, undecided)) << arguments[0] << ": " << result.err;
  }
  const json uses = run_json(with({"explain", kConv}), 0)["rules"];
  EXPECT_EQ(uses[0]["matched"], 0);
  EXPECT_EQ(uses[1]["decided"], 1);
  EXPECT_EQ(uses[2]["decided"], 0);

  write("some.rules", "node=nowhere* -> cpu.gemm\nnode=* filter=1x1 -> cpu.gemm\n");
  const Finished network = run(with({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64"}));
  EXPECT_EQ(network.exit_code, 0) << network.err;
  EXPECT_TRUE(contains(network.err, "1 of 2 rules matched no convolution:\n  node=nowhere* -> cpu.gemm"))
      << network.err;
}

// The slow side is some hundred times as slow, so a busy machine decides nothing here.
TEST_F(Choices, TheOtherSideHasNoRules) {
  write("slow.rules", "filter=3x3 out_channels=64 -> reference\n");
  write("none.rules", "# none\n");
  const std::vector<std::string> network = {
      "run", "zoo:squeezenet1_1", "--random-inputs",  "--dim",   "H=64", "--dim", "W=64", "--threads", "1", "--repeat",
      "2",   "--rules",           path("slow.rules"), "--beside"};
  const auto beside = [&](const std::string& other) {
    std::vector<std::string> arguments = network;
    arguments.push_back(other);
    return run_json(arguments, 0)["beside"];
  };
  for (const std::string& other : {std::string("heuristic"), std::string("stored"), path("none.rules")}) {
    const json found = beside(other);
    EXPECT_LT(found["over_this"], 0.8) << other;
    EXPECT_GT(found["differing"], 0) << other;
    EXPECT_LT(found["differing"], found["convolutions"]) << other;
  }
  EXPECT_EQ(beside(path("slow.rules"))["differing"], 0);
  std::vector<std::string> arguments = network;
  arguments.push_back(path("slow.rules"));
  EXPECT_TRUE(contains(run(arguments).out, "both sides chose the same for all "));
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--beside", "heuristics"}, 2, "--beside");
}

TEST_F(Choices, MoreThreadsThanProcessorsAreRemarkedOnce) {
  in_child_ = [] {
    cpu_set_t mine, first;
    ::sched_getaffinity(0, sizeof mine, &mine);
    CPU_ZERO(&first);
    int processor = 0;
    while (!CPU_ISSET(processor, &mine)) ++processor;
    CPU_SET(processor, &first);
    ::sched_setaffinity(0, sizeof first, &first);
  };
  const std::string remark = "--threads 2: this process may run on 1 processor,";
  const std::string err =
      run({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64", "--threads", "2"}).err;
  EXPECT_TRUE(contains(err, remark)) << err;
  EXPECT_EQ(err.find("--threads", err.find(remark) + 1), std::string::npos) << err;
  EXPECT_FALSE(contains(run({"explain", kConv, "--threads", "1"}).err, "--threads"));
  EXPECT_FALSE(contains(run({"explain", kConv}).err, "--threads"));
}

// A model of one Relu, as protobuf writes it.
std::string relu_model() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const auto integer = [](int number, int value) {
    return std::string{static_cast<char>(number << 3), static_cast<char>(value)};
  };
  const std::string shape = field(1, integer(1, 4));
  const std::string type = field(1, integer(1, 1) + field(2, shape));
  const auto value = [&](const char* name) { return field(1, name) + field(2, type); };
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Relu");
  const std::string graph = field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"));
  return integer(1, 8) + field(7, graph) + field(8, integer(2, 13));
}

TEST_F(Choices, ExplainSaysThatAModelHasNoConvolution) {
  write("relu.onnx", relu_model());
  const Finished result = run({"explain", path("relu.onnx")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "relu.onnx: the network has no convolution")) << result.out;
  EXPECT_EQ(run_json({"explain", path("relu.onnx")}, 0)["problems"], json::array());
}

}  // namespace
}  // namespace convoy::cli
