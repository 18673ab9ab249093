// convoy verify, repro and explain.
#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

// Right engines pass both bitwise tests and leave no file.
TEST_F(Command, VerifyChecksEveryEngine) {
  const json result = run_json({"verify", kConv, "--all-engines", "--engines", "cpu.*", "--repeat", "4", "--threads",
                                "2", "--repro-folder", folder_},
                               0);
  EXPECT_EQ(result["failed"], 0);
  EXPECT_EQ(result["not_checked"], 0);
  EXPECT_GE(result["right"].get<int>(), 3);
  for (const json& check : result["checks"]) {
    EXPECT_EQ(check["fault"], "none");
    EXPECT_EQ(check["deterministic"], "same bits") << check;
    EXPECT_EQ(check["thread_invariant"], "same bits") << check;
    EXPECT_LE(check["max_error"].get<double>(), 1);
    EXPECT_EQ(check["problem"], result["checks"][0]["problem"]);
  }
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename().string().find("repro-"), std::string::npos) << entry.path();
  }
  const Finished text = run({"verify", kConv, "--engines", "cpu.direct", "--threads", "1"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("cpu.direct"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("1 right, 0 failed"), std::string::npos) << text.out;
}

// README: every candidate, so every configuration of every engine that `explain` lists.
TEST_F(Command, VerifyAllEnginesIsEveryCandidate) {
  const std::string small = "fprop:x=f32,1x16x6x6,nhwc:w=f32,16x16x3x3:pad=1x1";
  const std::vector<std::string> own = {"--engines", "cpu.*", "--threads", "1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), own.begin(), own.end());
    return arguments;
  };
  std::size_t candidates = 0, engines = 0;
  const json explained = run_json(with({"explain", small}), 0);
  for (const json& engine : explained["problems"][0]["engines"]) {
    if (!engine["can"].get<bool>() || engine.contains("excluded")) continue;
    ++engines;
    std::size_t combinations = 1;
    for (const json& knob : engine["knobs"]) combinations *= knob["values"].size();
    candidates += engine.contains("configurations") ? engine["configurations"].size() : combinations;
  }
  ASSERT_GT(candidates, engines);
  const json all = run_json(with({"verify", small, "--all-engines", "--repeat", "1"}), 0);
  EXPECT_EQ(all["checks"].size(), candidates);
  const json defaults = run_json(with({"verify", small, "--all-engines", "--defaults", "--repeat", "1"}), 0);
  EXPECT_EQ(defaults["checks"].size(), engines);
  expect_error({"verify", small, "--defaults"}, 2, "--defaults: it is for --all-engines");
}

TEST_F(Command, VerifyTakesListsAndNetworks) {
  write("list.txt", kConv + "\n2 fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x1x1\n");
  EXPECT_EQ(run_json({"verify", path("list.txt")}, 0)["checks"].size(), 2u);
  const json network = run_json(
      {"verify", "zoo:squeezenet1_1", "--dim", "H=64", "--dim", "W=64", "--repeat", "2", "--engines", "cpu.*"}, 0);
  EXPECT_GE(network["right"].get<int>(), 10);
}

TEST_F(Command, VerifySaysWhatItCannotDo) {
  expect_error({"verify", kConv, "--repeat", "0"}, 2, "--repeat");
  expect_error({"verify", kConv, "--repro-folder", path("nowhere")}, 2, "--repro-folder");
  expect_error({"verify", path("missing.onnx")}, 2, "missing.onnx");
  const json nothing =
      run_json({"verify", "wgrad:x=f32,1x8x6x6:w=f32,8x8x1x1:y=f32,1x8x6x6", "--engines", "cpu.direct"}, 4);
  EXPECT_EQ(nothing["unsupported"].size(), 1u);
  const json late = run_json({"verify", kConv, "--all-engines", "--budget", "0.000001"}, 1);
  EXPECT_GT(late["not_checked"].get<int>(), 0);
  EXPECT_EQ(late["right"], 1);
}

// A file as convoy verify writes it, of an engine that is right by now, of one that is not there, and broken ones.
TEST_F(Command, ReproRunsAFailureAgain) {
  json file = {{"convoy_repro", 1},
               {"date", "2026-11-21T12:00:00Z"},
               {"fault", "wrong_result"},
               {"failure", "out[0] is 1, the oracle says 0"},
               {"problem", kConv},
               {"engine", "reference"},
               {"knobs", json::object()},
               {"revision", 1},
               {"provider", ""},
               {"seed", 7},
               {"threads", 2},
               {"repeats", 3},
               {"constant_weights", true},
               {"compared_with", nullptr},
               {"device",
                {{"kind", "cpu"},
                 {"brand", "another processor"},
                 {"isa", "portable"},
                 {"extensions",
                  {{"avx512_vnni", false},
                   {"avx512_bf16", false},
                   {"avx512_fp16", false},
                   {"amx_tile", false},
                   {"amx_bf16", false},
                   {"amx_int8", false}}},
                 {"l1d_bytes", 32768},
                 {"l2_bytes", 1048576},
                 {"l3_bytes", 0}}},
               {"versions", {{"convoy", "0.0.1"}}}};
  write("right.json", file.dump());
  const json right = run_json({"repro", path("right.json")}, 0);
  EXPECT_EQ(right["fault"], "none");
  EXPECT_EQ(right["recorded_fault"], "wrong_result");
  const Finished text = run({"repro", path("right.json")});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("it said wrong_result: out[0] is 1"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("now it is right"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("this is another processor"), std::string::npos) << text.out;

  file["engine"] = "cpu.nobody";
  write("gone.json", file.dump());
  const json gone = run_json({"repro", path("gone.json")}, 3);
  EXPECT_EQ(gone["fault"], "no_plan");
  EXPECT_NE(gone["failure"].get<std::string>().find("cpu.nobody"), std::string::npos);

  file["engine"] = "cpu.winograd";  // of 3x3 windows and larger
  write("refused.json", file.dump());
  EXPECT_EQ(run_json({"repro", path("refused.json")}, 4)["fault"], "refused");

  file["threads"] = 0;
  write("broken.json", file.dump());
  expect_error({"repro", path("broken.json")}, 2, "repro.threads");
  write("garbage.json", "not json");
  expect_error({"repro", path("garbage.json")}, 2, "garbage.json: not a repro file");
  expect_error({"repro", path("missing.json")}, 2, "missing.json");
}

TEST_F(Command, ExplainSaysWhatDecidedAndWhyTheNextLost) {
  const json heuristic = run_json({"explain", kConv, "--engines", "cpu.*"}, 0)["problems"][0];
  EXPECT_TRUE(heuristic["chosen"]["decided_by"].get<std::string>().starts_with("the heuristic, among "));
  EXPECT_GE(heuristic["chosen"]["stages"].size(), 1u);
  EXPECT_NE(heuristic["runner_up"]["why"].get<std::string>().find("predicted to take "), std::string::npos);
  for (const json& engine : heuristic["engines"]) {
    if (engine["engine"] != "reference") continue;
    EXPECT_EQ(engine["excluded"]["code"], "filtered");
  }
  const json measured = run_json({"explain", kConv, "--engines", "cpu.*", "--budget", "5"}, 0)["problems"][0];
  EXPECT_TRUE(measured["chosen"]["decided_by"].get<std::string>().starts_with("measurement, of "));
  EXPECT_NE(measured["runner_up"]["why"].get<std::string>().find("measured to take "), std::string::npos);
  write("rules.txt", "* -> cpu.direct\n");
  const Finished by_rule = run({"explain", kConv, "--engines", "cpu.*", "--rules", path("rules.txt")});
  EXPECT_NE(by_rule.out.find("decided by rule '*': nothing else was considered"), std::string::npos) << by_rule.out;
  EXPECT_NE(by_rule.out.find("runs in "), std::string::npos) << by_rule.out;
}

TEST_F(Command, ExplainMeasuresWhatFusingIsWorth) {
  const std::vector<std::string> ask = {"explain", kConv, "--engines", "cpu.*", "--fusion", "--budget", "10"};
  const json fusion = run_json(ask, 0)["problems"][0]["fusion"];
  ASSERT_TRUE(fusion.contains("problem")) << fusion;
  EXPECT_NE(fusion["problem"].get<std::string>().find("bias=1:gamma=1:act=relu"), std::string::npos);
  ASSERT_EQ(fusion["ways"].size(), 3u) << fusion;
  EXPECT_EQ(fusion["winner"], fusion["ways"][0]["name"]);
  EXPECT_NE(run(ask).out.find(" wins by "), std::string::npos);
  const json cannot =
      run_json({"explain", "fprop:x=f64,1x8x6x6:w=f64,8x8x1x1", "--fusion"}, 0)["problems"][0]["fusion"];
  EXPECT_NE(cannot["unsupported"].get<std::string>().find("out=f64"), std::string::npos) << cannot;
}

}  // namespace
}  // namespace convoy::cli
