// convoy report of networks and plans.
#include <algorithm>

#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

class NetworkReportCommand : public Command {
 protected:
  static std::vector<std::string> with(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "report");
    arguments.insert(arguments.end(), {"--threads", "1", "--no-db", "--rounds", "2"});
    return arguments;
  }
  std::string text_of(const std::string& name) const {
    std::ifstream in(path(name));
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
};

TEST_F(NetworkReportCommand, HasEveryStepOfEveryPlanWithWhatItTakes) {
  const json made =
      run_json(with({"zoo:resnet18", "--peer", "other=12.5ms", "-o", path("r.html"), "-o", path("r.json")}), 0);
  EXPECT_EQ(json::parse(text_of("r.json"), nullptr, false), made);
  EXPECT_NE(text_of("r.html").find("<title>zoo:resnet18</title>"), std::string::npos);
  std::vector<std::string> names;
  for (const json& plan : made["plans"]) names.push_back(plan["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"global", "greedy", "local", "uniform:nhwc"}));
  EXPECT_EQ(made["peers"], json::parse(R"([{"name": "other", "seconds": 0.0125}])"));
  for (const json& plan : made["plans"]) {
    double shares = 0, predicted = 0;
    for (std::size_t i = 0; i < plan["steps"].size(); ++i) {
      const json& step = plan["steps"][i];
      shares += step["share"].get<double>();
      EXPECT_GT(step["seconds"], 0) << step;
      ASSERT_TRUE(step["predicted_seconds"].is_number()) << step;  // every step of this network is in the plan
      predicted += step["predicted_seconds"].get<double>();
      ASSERT_FALSE(step["inputs"].empty()) << step;
      for (const json& from : step["inputs"]) EXPECT_LT(from.get<int>(), static_cast<int>(i));
    }
    EXPECT_NEAR(shares, 1, 1e-9);
    EXPECT_NEAR(predicted, plan["predicted_seconds"], 1e-9);
    EXPECT_EQ(plan["live_bytes"].size(), plan["steps"].size());
    const auto most = *std::ranges::max_element(plan["live_bytes"]);
    EXPECT_GT(most, 0);
    EXPECT_LE(most.get<std::int64_t>(), plan["activation_bytes"].get<std::int64_t>());
  }
  // Of each convolution that the first plan runs, who can and who can't.
  for (const json& step : made["plans"][0]["steps"]) {
    if (step["kind"] != "conv") continue;
    const json& facts = made["problems"][step["problem"].get<std::string>()];
    const std::string runs_on = step["runs_on"];
    EXPECT_TRUE(facts["predicted_seconds"].contains(runs_on.substr(0, runs_on.find('{')))) << step;
    EXPECT_FALSE(facts["refusals"].empty());
    EXPECT_TRUE(facts["runner_up"].is_string());
  }
}

TEST_F(NetworkReportCommand, ShowsPlanFilesAndFindsTheModel) {
  ASSERT_EQ(run({"plan", "zoo:resnet18", "--how", "uniform:nchw", "--threads", "1", "--no-db", "-o", path("a.plan")})
                .exit_code,
            0);
  const json made = run_json({"report", path("a.plan"), "uniform:nhwc", "--no-db", "--rounds", "1"}, 0);
  EXPECT_EQ(made["threads"], 1);  // the plan's
  EXPECT_EQ(made["network"], "zoo:resnet18");
  ASSERT_EQ(made["plans"].size(), 2U);
  EXPECT_EQ(made["plans"][0]["name"], path("a.plan"));
  for (const json& step : made["plans"][0]["steps"]) EXPECT_NE(step["kind"], "convert");
  EXPECT_EQ(made["plans"][0]["conversions"], 0);
  EXPECT_GT(made["plans"][1]["conversions"], 0);
}

TEST_F(NetworkReportCommand, MistakesAreNamed) {
  expect_error(with({"zoo:resnet18", "sideways"}), 2, "'sideways' is no file, nor one of tuned, greedy");
  expect_error(with({"zoo:resnet18", "greedy", "greedy"}), 2, "'greedy' is given twice");
  expect_error(with({"zoo:resnet18", "--peer", "ort=fast"}), 2, "--peer ort=fast: 'fast' is no time");
  expect_error(with({"zoo:resnet18", "-o", path("r.txt")}), 2, "a network's report is .html or .json");
  expect_error(with({"zoo:resnet18", "--node", "1"}), 2, "for the record of a program");
  write("r.jsonl", "{\"convoy_record\": 1}\n");
  expect_error(with({path("r.jsonl"), "greedy"}), 2, "neither a network (zoo:NAME, FILE.onnx) nor a plan");
  write("elsewhere.plan", "convoy-plan 1\nnetwork \"gone\"\nthreads 1\nisa avx2\nmath strict\ngraph 1\n");
  expect_error(with({path("elsewhere.plan")}), 2, "name the model first");
}

}  // namespace
}  // namespace convoy::cli
