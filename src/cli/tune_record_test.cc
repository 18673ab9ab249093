// convoy tune RECORD: what a program asked of cuDNN, measured. Without a GPU: the records here name the CPU's engines.
#include <algorithm>

#include "cli/testing/command.h"
#include "convoy/convolution.h"

namespace convoy::cli {
namespace {

class TuneRecord : public Command {
 protected:
  static std::string graph(const std::string& problem, int calls, const std::string& engine,
                           const std::string& notes = "") {
    return R"({"problem":")" + problem + R"(","operations":"CONVOLUTION_FORWARD","device":"NVIDIA H200","calls":)" +
           std::to_string(calls) + R"(,"plans":[{"candidate":")" + engine + R"(","notes":[)" + notes + R"(],"calls":)" +
           std::to_string(calls) + R"(,"made":1}]})" + "\n";
  }
  void record(const std::string& name, const std::string& graphs) const {
    write(name, R"({"convoy_record":1,"pid":7,"program":"train.py","cudnn":91900,"seconds":1})"
                "\n" +
                    graphs);
  }
  json tune(const std::string& name, std::vector<std::string> flags = {}) const {
    std::vector<std::string> arguments = {"tune", path(name), "--threads", "1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run_json(arguments, 0);
  }
  const std::string small_ = "fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x6x6,nchw:pad=1x1";
  const std::string large_ = "fprop:x=f32,1x64x28x28,nchw:w=f32,64x64x3x3,nchw:y=f32,1x64x28x28,nchw:pad=1x1";
  const std::string half_ = "fprop:x=bf16,1x8x6x6,nchw:w=bf16,8x8x3x3,nchw:y=bf16,1x8x6x6,nchw:pad=1x1";
};

std::vector<std::string> problems_of(const json& result) {
  std::vector<std::string> names;
  for (const json& each : result["problems"]) names.push_back(each["problem"]);
  return names;
}

TEST_F(TuneRecord, TheLargestSharesComeFirstAndBothMathModes) {
  record("r.jsonl", graph(small_, 10, "cpu.gemm") + graph(large_, 10, "cpu.gemm", R"("TENSOR_CORE")") +
                        graph(half_, 1, "reference"));
  const json result = tune("r.jsonl", {"--budget", "2s"});
  const auto problem = [](const std::string& text, MathMode math) {
    ConvProblem parsed = *parse_problem(text);
    parsed.math = math;
    return print(parsed);
  };
  const std::vector<std::string> names = problems_of(result);
  ASSERT_EQ(names.size(), 5u);
  EXPECT_EQ(names[0], problem(large_, MathMode::tf32)) << "as what ran rounds";
  EXPECT_EQ(std::count(names.begin() + 1, names.begin() + 3, problem(small_, MathMode::strict)), 1);
  EXPECT_EQ(std::count(names.begin() + 1, names.begin() + 3, problem(half_, MathMode::reduced)), 1);
  EXPECT_EQ(names[3], problem(large_, MathMode::strict)) << "a program never tells";
  EXPECT_EQ(names[4], problem(small_, MathMode::tf32));
  EXPECT_GT(result["problems"][0]["share"], 0.5);
  EXPECT_TRUE(result["problems"][3]["gain_seconds"].is_null()) << "the program does not run that";
  EXPECT_EQ(result["calls"], 21);
}

TEST_F(TuneRecord, WhatRanIsMeasuredSoThatAGainCanBeSaid) {
  record("r.jsonl", graph(large_, 100, "reference"));
  const json result = tune("r.jsonl", {"--budget", "15s"});
  const json& problem = result["problems"][0];
  EXPECT_EQ(problem["timed_calls"], 100) << "the oracle, which nobody would try";
  EXPECT_GT(problem["ran_seconds"], problem["best"]["seconds"]);
  const double gain = problem["ran_seconds"].get<double>() - problem["best"]["seconds"].get<double>();
  EXPECT_NEAR(problem["gain_seconds"].get<double>(), 100 * gain, 1e-9);
  EXPECT_EQ(result["gain_seconds"], problem["gain_seconds"]);
  EXPECT_NEAR(result["covered"].get<double>(), 1, 1e-9);
  const Finished shown = run({"tune", path("r.jsonl"), "--threads", "1", "--budget", "1s"});
  EXPECT_NE(shown.out.find("100 of 100 calls have a time"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("covers 100% of the calls' time, shared out"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("by the stored time of what ran"), std::string::npos) << shown.out;
}

TEST_F(TuneRecord, AGainIsOfWhatLosesNoMore) {
  // Winograd's note is a loss that cpu.gemm has not.
  record("r.jsonl", graph(large_, 1, "cpu.gemm"));
  const json result = tune("r.jsonl", {"--engines", "cpu.gemm,cpu.winograd", "--budget", "4s"});
  for (const json& problem : result["problems"]) {
    EXPECT_EQ(problem["best"]["candidate"].get<std::string>().substr(0, 8), "cpu.gemm") << problem;
  }
}

TEST_F(TuneRecord, WhatIsSettledIsSkipped) {
  record("r.jsonl", graph(small_, 1, "cpu.gemm"));
  const std::vector<std::string> flags = {"--engines", "cpu.*"};
  json result = tune("r.jsonl", flags);
  for (int i = 0; i < 5 && result["partial"] > 0; ++i) result = tune("r.jsonl", flags);
  EXPECT_EQ(result["partial"], 0);
  result = tune("r.jsonl", flags);
  EXPECT_EQ(result["skipped"], 2);
  EXPECT_EQ(result["measured"], 0);
  EXPECT_GT(tune("r.jsonl", {"--engines", "cpu.*", "--again"})["measured"], 0);
}

TEST_F(TuneRecord, WhatRanElsewhereIsSaid) {
  record("r.jsonl", graph(small_, 3, "cudnn.eng5{k2=1}"));
  const Finished result = run({"tune", path("r.jsonl"), "--threads", "1", "--budget", "1s"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("what ran can't be measured here: "), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("0 of 3 calls have a time"), std::string::npos) << result.out;
  record("none.jsonl", R"({"operations":"NORM_FORWARD","reason":"no convolution","device":"","calls":4})"
                       "\n");
  expect_error({"tune", path("none.jsonl")}, 2, "none.jsonl: no problem in it");
}

// Two records, two databases, one of both.
TEST_F(TuneRecord, DatabasesOfSeveralRunsMerge) {
  record("a.jsonl", graph(small_, 1, "cpu.gemm"));
  record("b.jsonl", graph(half_, 1, "reference"));
  for (const std::string name : {"a", "b"}) {
    ::setenv("CONVOY_DB", path(name + ".db").c_str(), 1);
    EXPECT_GT(tune(name + ".jsonl", {"--budget", "1s"})["stored"], 0);
    EXPECT_EQ(run({"db", "export", "-o", path(name + ".lines")}).exit_code, 0);
  }
  ::setenv("CONVOY_DB", path("both.db").c_str(), 1);
  EXPECT_EQ(run({"db", "import", path("a.lines")}).exit_code, 0);
  EXPECT_EQ(run({"db", "merge", path("b.db")}).exit_code, 0);
  for (const std::string name : {"a", "b"}) {
    const json result = tune(name + ".jsonl", {"--budget", "100ms"});
    EXPECT_EQ(result["timed_calls"], 1) << name;
  }
}

}  // namespace
}  // namespace convoy::cli
