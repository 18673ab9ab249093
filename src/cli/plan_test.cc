// convoy plan, run --plan, compare, list passes.
#include <algorithm>

#include "base/testing/surroundings.h"
#include "cli/testing/command.h"
#include "io/npy.h"

namespace convoy::cli {
namespace {

const std::string kNetwork = "zoo:resnet18";

class PlanCommand : public Command {
 protected:
  Finished with(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--threads", "1", "--no-db"});
    return run(std::move(arguments));
  }
  std::string text_of(const std::string& name) const {
    const auto bytes = io::read_file(path(name));
    return bytes.ok() ? std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()) : "";
  }
};

TEST_F(PlanCommand, IsTheSameTextTwiceAndGivesTheSameBits) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  const Finished printed = with({"plan", kNetwork});
  EXPECT_EQ(printed.out, text_of("a.plan"));
  const auto answers = [&](std::vector<std::string> how, const std::string& folder) {
    std::vector<std::string> arguments = {"run",          kNetwork,    "--random-inputs", "--deterministic",
                                          "--output-dir", path(folder)};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Finished ran = with(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    for (const auto& entry : fs::directory_iterator(path(folder))) {
      if (entry.path().extension() == ".npy") return text_of(folder + "/" + entry.path().filename().string());
    }
    return std::string();
  };
  const std::string direct = answers({}, "direct");
  EXPECT_FALSE(direct.empty());
  EXPECT_EQ(answers({"--plan", path("a.plan")}, "planned"), direct);
}

TEST_F(PlanCommand, TakesThreadsFromThePlan) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  const Finished ran = run({"run", kNetwork, "--random-inputs", "--no-db", "--plan", path("a.plan"), "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["threads"], 1);
  const Finished other =
      run({"run", kNetwork, "--random-inputs", "--no-db", "--plan", path("a.plan"), "--threads", "2"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("plan: the plan is for threads 1, there are 2"), std::string::npos) << other.err;
}

TEST_F(PlanCommand, MistakesAreNamed) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  std::string text = text_of("a.plan");
  text.replace(text.find("MaxPool"), 7, "MinPool");
  write("b.plan", text);
  const Finished refused = with({"run", kNetwork, "--random-inputs", "--plan", path("b.plan")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("plan: line 11: \"maxpool\": MinPool where the network has MaxPool"), std::string::npos)
      << refused.err;
  const Finished lenient = with({"run", kNetwork, "--random-inputs", "--plan", path("b.plan"), "--lenient"});
  EXPECT_EQ(lenient.exit_code, 0);
  EXPECT_NE(lenient.err.find("MinPool where the network has MaxPool: chosen again"), std::string::npos) << lenient.err;
  EXPECT_NE(with({"run", kNetwork, "--random-inputs", "--lenient"}).err.find("--lenient is for --plan"),
            std::string::npos);
  EXPECT_NE(with({"plan", kNetwork, "--plan", path("none.plan")}).err.find("none.plan"), std::string::npos);
  EXPECT_NE(with({"plan", kNetwork, "--how", "uniform:nchw", "--plan", path("a.plan")}).err.find("--how: --plan says"),
            std::string::npos);
  EXPECT_NE(with({"compare", kNetwork, "gredy", "uniform:nchw"}).err.find("'gredy' is no file"), std::string::npos);
  EXPECT_NE(with({"compare", kNetwork, "gredy", "uniform:nchw"}).err.find("did you mean greedy?"), std::string::npos);
  EXPECT_NE(with({"plan", kNetwork, "--how", "best"}).err.find("how='best'"), std::string::npos);
  EXPECT_NE(with({"plan", kNetwork, "--skip-pass", "conv_fusoin"}).err.find("did you mean conv_fusion"),
            std::string::npos);
  EXPECT_NE(with({"plan", kNetwork, "--skip-pass", "shape_inference"}).err.find("can't be skipped"), std::string::npos);
}

TEST_F(PlanCommand, ABudgetMeasuresWhatItsLinesCost) {
  const std::vector<std::string> small = {kNetwork, "--dim", "H=64", "--dim", "W=64", "--threads", "1"};
  const auto plan = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"plan"};
    arguments.insert(arguments.end(), small.begin(), small.end());
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished made = run(arguments);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out;
  };
  EXPECT_EQ(plan({}).find("measured"), std::string::npos);
  const auto line = [](const std::string& text, const std::string& part) {
    const std::size_t at = text.find(part);
    return text.substr(at, text.find('\n', at) - at);
  };
  const std::string measured = plan({"--budget", "10"});
  EXPECT_NE(line(measured, "MaxPool").find("us measured"), std::string::npos) << measured;
  const std::string after = plan({}), again = plan({});
  EXPECT_EQ(after, again);  // the same database, the same text
  EXPECT_EQ(line(after, "MaxPool"), line(measured, "MaxPool"));
  EXPECT_NE(line(plan({"--no-db"}), "MaxPool").find("us predicted"), std::string::npos);
}

// What a plan is obeyed with otherwise than it says is said by every command that obeys one, and is in a plan made so.
TEST_F(PlanCommand, RemarksAreSaidAndKept) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  std::string text = text_of("a.plan");
  text.replace(text.find("MaxPool"), 7, "MinPool");
  write("b.plan", text);
  const std::string chosen = "line 11: \"maxpool\": MinPool where the network has MaxPool: chosen again";
  const Finished again = with({"plan", kNetwork, "--plan", path("b.plan"), "--lenient", "-o", path("c.plan")});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("--plan: " + chosen), std::string::npos) << again.err;
  EXPECT_EQ(text_of("c.plan"), text_of("a.plan") + "# " + chosen + "\n");
  EXPECT_EQ(with({"plan", kNetwork, "--plan", path("c.plan")}).out, text_of("a.plan"));
  const Finished broken = with({"compare", kNetwork, path("a.plan"), path("b.plan"), "--rounds", "1"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.err.find(path("b.plan") + ": plan: line 11"), std::string::npos) << broken.err;
}

TEST_F(PlanCommand, KeepsALimitOnActivations) {
  if (!is_in_path("cbc")) GTEST_SKIP() << "skipped: no cbc";
  const std::string network = "zoo:squeezenet1_1";
  // Of an engine in row-major and channels-last only the fastest plan converts where most is alive.
  const auto plan = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"plan", network, "--how", "global", "--engines", "cpu.gemm"});
    return with(flags);
  };
  const Finished least = plan({"--objective", "memory", "-o", path("least.plan")});
  ASSERT_EQ(least.exit_code, 0) << least.err;
  const auto bytes_of = [&](const std::string& plan) {
    const Finished ran = run({"run", network, "--random-inputs", "--no-db", "--plan", path(plan), "--json"});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return json::parse(ran.out)["activation_bytes"].get<std::int64_t>();
  };
  const std::int64_t bytes = bytes_of("least.plan");
  EXPECT_NE(least.err.find("activations: " + std::to_string(bytes) + " bytes"), std::string::npos) << least.err;
  const std::string limit = std::to_string(bytes);
  ASSERT_EQ(plan({"-o", path("fastest.plan")}).exit_code, 0);
  EXPECT_GT(bytes_of("fastest.plan"), bytes);
  const Finished kept = plan({"--activation-limit", limit, "--exact", "-o", path("kept.plan")});
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_NE(kept.err.find("activations: " + limit + " bytes of " + limit), std::string::npos) << kept.err;
  EXPECT_NE(kept.err.find("no other layouts within the limits take less (prices: "), std::string::npos) << kept.err;
  EXPECT_EQ(bytes_of("kept.plan"), bytes);
  const Finished none = plan({"--activation-limit", "100K"});
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_NE(none.err.find("no plan was found within 102400 bytes; the least that was found is " + limit),
            std::string::npos)
      << none.err;
  const json compared = run_json({"compare", network, "greedy", "global", "--activation-limit", "4M", "--threads", "1",
                                  "--no-db", "--rounds", "1"},
                                 0);
  EXPECT_GT(compared["plans"][1]["over_first"], 0);
}

TEST_F(PlanCommand, KeepsALimitOnWeights) {
  const std::string network = "zoo:resnet18";
  const Finished none = with({"plan", network, "--how", "global", "--weight-limit", "1M"});
  EXPECT_EQ(none.exit_code, 4);
  const std::size_t at = none.err.find("no choice of engines keeps less than ");
  ASSERT_NE(at, std::string::npos) << none.err;
  const std::int64_t fewest = std::stoll(none.err.substr(at + 37));
  const std::string limit = std::to_string(fewest + fewest / 10);
  const Finished kept = with({"plan", network, "--how", "global", "--weight-limit", limit, "-o", path("kept.plan")});
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  const Finished ran = run({"run", network, "--random-inputs", "--no-db", "--plan", path("kept.plan"), "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto bytes = json::parse(ran.out)["weight_bytes"].get<std::int64_t>();
  EXPECT_LE(bytes, fewest + fewest / 10);
  EXPECT_NE(kept.err.find("weights: " + std::to_string(bytes) + " bytes of " + limit), std::string::npos) << kept.err;
}

// Where no other way is asked for.
TEST_F(PlanCommand, ALimitImpliesGlobal) {
  for (const std::vector<std::string>& limit : {std::vector<std::string>{"--activation-limit", "900M"},
                                                {"--weight-limit", "900M"},
                                                {"--objective", "memory"}}) {
    std::vector<std::string> arguments = {"plan", kNetwork, "--json"};
    arguments.insert(arguments.end(), limit.begin(), limit.end());
    const Finished made = with(arguments);
    ASSERT_EQ(made.exit_code, 0) << limit[0] << made.err;
    EXPECT_EQ(json::parse(made.out)["how"], "global") << limit[0];
  }
}

TEST_F(PlanCommand, LimitsThatAWayDoesNotTakeAreNamed) {
  const auto refused = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"plan", kNetwork};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished made = with(arguments);
    EXPECT_EQ(made.exit_code, made.err.find("energy") == std::string::npos ? 2 : 4) << made.err;
    return made.err;
  };
  EXPECT_NE(
      refused({"--how", "greedy", "--activation-limit", "9M"}).find("--activation-limit is for --how global: greedy"),
      std::string::npos);
  EXPECT_NE(refused({"--how", "local", "--objective", "memory"}).find("--objective memory is for --how global: local"),
            std::string::npos);
  EXPECT_NE(refused({"--how", "uniform:nchw", "--weight-limit", "9M"}).find("--weight-limit is for --how global"),
            std::string::npos);
  EXPECT_NE(refused({"--how", "global", "--exact"}).find("--exact is for --activation-limit, --weight-limit and"),
            std::string::npos);
  EXPECT_NE(refused({"--how", "global", "--activation-limit", "much"}).find("--activation-limit"), std::string::npos);
  EXPECT_NE(refused({"--plan", path("a.plan"), "--activation-limit", "9M"}).find("--activation-limit: --plan says"),
            std::string::npos);
  EXPECT_NE(refused({"--how", "global", "--objective", "energy"}).find("no step's energy is known"), std::string::npos);
  const Finished neither = with({"compare", kNetwork, "greedy", "uniform:nchw", "--activation-limit", "9M"});
  EXPECT_EQ(neither.exit_code, 2);
  EXPECT_NE(neither.err.find("--activation-limit is for \"global\", which no plan is"), std::string::npos)
      << neither.err;
}

TEST_F(PlanCommand, AnErrorThatCannotBeChosenByIsRefused) {
  const auto refused = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"plan", kNetwork};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished made = with(arguments);
    EXPECT_NE(made.exit_code, 0);
    return made.err;
  };
  EXPECT_NE(refused({"--max-error", "0.01"}).find("--max-error: it needs --precision bf16, f16 or tf32"),
            std::string::npos);
  EXPECT_NE(refused({"--max-error", "0.01", "--precision", "bf16", "--how", "greedy"})
                .find("--max-error: it needs --how global"),
            std::string::npos);
  const std::string both = refused({"--max-error", "0.01", "--precision", "bf16", "--allow", "tf32"});
  EXPECT_NE(both.find("precision=bf16 with math=tf32"), std::string::npos) << both;
  const std::string negative = refused({"--max-error", "-0.5", "--precision", "bf16"});
  EXPECT_NE(negative.find("--max-error: max_error=-0.5 must be at least 0"), std::string::npos) << negative;
  const std::string integers = refused({"--precision", "s8"});
  EXPECT_NE(integers.find("--precision"), std::string::npos) << integers;
  EXPECT_NE(integers.find("bf16"), std::string::npos) << integers;
}

TEST_F(PlanCommand, Tf32IsAPrecisionOfConvolutions) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--precision", "tf32"}, {"--allow", "tf32"}}) {
    std::vector<std::string> arguments = {"plan", kNetwork, "--dim", "H=64", "--dim", "W=64", "--no-db"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished made = run(arguments);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    EXPECT_NE(made.out.find("\nmath tf32\n"), std::string::npos) << made.out;
    EXPECT_EQ(made.out.find("precision"), std::string::npos) << made.out;
  }
}

TEST_F(PlanCommand, ANodeIsExplainedInItsNetwork) {
  const auto explained = [&](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"explain", kNetwork,    "--dim", "H=64",   "--dim",
                                          "W=64",    "--threads", "1",     "--no-db"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run(arguments);
  };
  const Finished pool = explained({"--node", "maxpool", "--how", "global"});
  ASSERT_EQ(pool.exit_code, 0) << pool.err;
  EXPECT_NE(pool.out.find("maxpool in its network"), std::string::npos) << pool.out;
  const json in_network = json::parse(explained({"--node", "maxpool", "--how", "global", "--json"}).out)["in_network"];
  ASSERT_EQ(in_network.size(), 1U);
  const json& ways = in_network[0]["ways"];
  ASSERT_GE(ways.size(), 5U) << ways;
  EXPECT_EQ(ways[0]["way"], "global");
  for (const json& way : ways) {
    EXPECT_EQ(way["runs_on"], "MaxPool");
    EXPECT_GT(way["seconds"], 0);
    EXPECT_LE(ways[0]["plan_seconds"], way["plan_seconds"].get<double>() * (1 + 1e-3)) << way;  // as plans print them
    EXPECT_TRUE(way["way"] != "uniform:nchw" || way["reads"] == "f32,nchw") << way;
  }
  // What a file says, by its name; a convolution by the number of its problem.
  const Finished plan = run({"plan", kNetwork, "--dim", "H=64", "--dim", "W=64", "--threads", "1", "--no-db", "--how",
                             "uniform:nchw", "-o", path("nchw.plan")});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  const Finished file = explained({"--node", "1", "--plan", path("nchw.plan")});
  ASSERT_EQ(file.exit_code, 0) << file.err;
  EXPECT_NE(file.out.find("nchw.plan"), std::string::npos) << file.out;
  EXPECT_NE(file.out.find("cheaper for the node"), std::string::npos) << file.out;
  EXPECT_NE(explained({"--node", "nosuch"}).err.find("--node: 'nosuch' matches no layer"), std::string::npos);
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--how", "global"},
                                                {"--plan", "a.plan"},
                                                {"--precision", "bf16"},
                                                {"--activation-limit", "9M"},
                                                {"--exact"},
                                                {"--lenient"},
                                                {"--skip-pass", "conv_fusion"}}) {
    std::vector<std::string> arguments = {"explain", "fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished refused = run(arguments);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find(flags[0] + " is for networks"), std::string::npos) << refused.err;
  }
}

// A line of a convolution that takes over an activation, written as two by hand.
TEST_F(PlanCommand, AFusionIsUndoneByItsLines) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("whole.plan")}).exit_code, 0);
  std::string text = text_of("whole.plan");
  const std::string fused = "\"stem.conv+stem.bn+stem.act\"";
  const std::size_t line = text.find("conv     " + fused), end = text.find('\n', line);
  ASSERT_NE(line, std::string::npos) << text;
  const std::size_t arrow = text.find(" -> ", line);
  const std::string writes = text.substr(arrow + 4, text.find(' ', arrow + 4) - arrow - 4);
  text.insert(end + 1, "op \"stem.act\" Relu " + writes + " -> " + writes + " - -\n");
  text.replace(text.find(fused), fused.size(), "\"stem.conv+stem.bn\"");
  write("apart.plan", text);

  const Finished ran = with({"run", kNetwork, "--random-inputs", "--plan", path("apart.plan"), "--verbose"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("stem.conv+stem.bn\n"), std::string::npos) << ran.out;
  const Finished compared =
      with({"compare", kNetwork, path("whole.plan"), path("apart.plan"), "--rounds", "1", "--json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_EQ(json::parse(compared.out)["differing"].size(), 3U) << compared.out;  // the whole, and what it became
  const Finished explained = with({"explain", kNetwork, "--plan", path("apart.plan"), "--node", "stem.*", "--json"});
  ASSERT_EQ(explained.exit_code, 0) << explained.err;
  const json ways = json::parse(explained.out)["in_network"][0]["ways"];
  EXPECT_NE(ways[0]["runs_on"].get<std::string>().find(", then Relu"), std::string::npos) << ways[0];
  EXPECT_EQ(ways[1]["runs_on"].get<std::string>().find(", then"), std::string::npos) << ways[1];

  const std::size_t relu = text.find("op \"stem.act\"");
  write("no_act.plan", text.erase(relu, text.find('\n', relu) + 1 - relu));
  const Finished missing = with({"run", kNetwork, "--random-inputs", "--plan", path("no_act.plan")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("node \"stem.act\": the plan has no line for it"), std::string::npos) << missing.err;
}

TEST_F(PlanCommand, SaysThatCbcIsMissing) {
  in_child_ = [] { ::setenv("PATH", "/nowhere", 1); };
  const Finished missing = with(
      {"plan", "zoo:squeezenet1_1", "--how", "global", "--objective", "memory", "--exact", "--engines", "cpu.gemm"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("--exact: the solver CBC"), std::string::npos) << missing.err;
}

TEST_F(PlanCommand, TheDocumentHasThePlanThatIsOtherwiseWritten) {
  const Finished text = with({"plan", kNetwork}), document = with({"plan", kNetwork, "--json"});
  ASSERT_EQ(document.exit_code, 0) << document.err;
  EXPECT_EQ(json::parse(document.out)["plan"].get<std::string>(), text.out);
}

TEST_F(PlanCommand, ComparesTwo) {
  const Finished compared = with({"compare", kNetwork, "uniform:nhwc", "uniform:nchw", "--rounds", "2", "--json"});
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const json document = json::parse(compared.out);
  ASSERT_EQ(document["plans"].size(), 2U);
  for (const json& side : document["plans"]) {
    EXPECT_EQ(side["turns"], 2);
    EXPECT_GT(side["over_first"], 0);
    EXPECT_GT(side["predicted_seconds"], 0);
    EXPECT_GT(side["undisturbed_seconds"], 0);
    EXPECT_LT(side["undisturbed_seconds"], 1.5 * side["seconds"].get<double>());
  }
  EXPECT_GT(document["differing"].size(), 5u);
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  const Finished same = with({"compare", kNetwork, path("a.plan"), "greedy", "--rounds", "2"});
  EXPECT_NE(same.out.find("both run the same steps"), std::string::npos) << same.out << same.err;
  // Both sides in the type that is asked for, or in that of their plan.
  ASSERT_EQ(with({"plan", kNetwork, "--precision", "bf16", "-o", path("narrow.plan")}).exit_code, 0);
  const auto types = [&](const std::string& b, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"compare", kNetwork, "greedy", b, "--rounds", "1", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json told = run_json(arguments, 0);
    return told["plans"][0]["precision"].get<std::string>() + " " + told["plans"][1]["precision"].get<std::string>();
  };
  EXPECT_EQ(types("uniform:nhwc", {"--precision", "f16"}), "f16 f16");
  EXPECT_EQ(types(path("narrow.plan"), {}), "f32 bf16");
  EXPECT_NE(with({"compare", kNetwork, "greedy", "local", "--precision", "s8"}).err.find("--precision: 's8'"),
            std::string::npos);
}

TEST_F(PlanCommand, ComparesSeveralInterleaved) {
  ASSERT_EQ(with({"plan", kNetwork, "-o", path("a.plan")}).exit_code, 0);
  const std::vector<std::string> plans = {"greedy", path("a.plan"), "local", "uniform:nchw"};
  std::vector<std::string> arguments = {"compare", kNetwork, "--rounds", "3", "--threads", "1", "--no-db", "--json"};
  arguments.insert(arguments.begin() + 2, plans.begin(), plans.end());
  const json told = run_json(arguments, 0);
  ASSERT_EQ(told["plans"].size(), plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const json& plan = told["plans"][i];
    EXPECT_EQ(plan["name"], plans[i]);
    EXPECT_EQ(plan["turns"], 3);
    EXPECT_GT(plan["seconds"], 0);
    EXPECT_GT(plan["over_first"], i == 0 ? 0.999 : 0.1);
  }
  EXPECT_EQ(told["plans"][0]["predicted_seconds"], told["plans"][1]["predicted_seconds"]) << "a file's lines, too";
  EXPECT_TRUE(told["differing"].is_null()) << "node by node two are compared";
  EXPECT_NE(with({"compare", kNetwork, "greedy"}).err.find("give two plans"), std::string::npos);
}

TEST_F(PlanCommand, TuneKeepsTheFastestOfSeveralAndRunObeysIt) {
  const auto on = [](std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
    for (const char* each : {"--dim", "H=64", "--dim", "W=64", "--threads", "1"}) arguments.emplace_back(each);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const json tuned = run_json(on({"tune", kNetwork}, {"--budget", std::to_string(15 * slowdown())}), 0);
  const json& plans = tuned["plans"];
  ASSERT_GE(plans["timed"].size(), 3u) << plans;
  // The first stays where nothing is faster beyond doubt; what may be faster still, but in doubt, is not taken.
  for (const json& plan : plans["timed"]) {
    if (plan["how"] != plans["fastest"] || plan["how"] == plans["timed"][0]["how"]) continue;
    EXPECT_LT(plan["over_first"], 1) << plan["how"];
  }
  const auto solvers =
      std::ranges::find_if(plans["timed"], [&](const json& plan) { return plan["how"] == plans["solvers"]["how"]; });
  ASSERT_NE(solvers, plans["timed"].end()) << plans["solvers"];
  EXPECT_GT(plans["solvers"]["predicted_seconds"], 0);
  EXPECT_LE(plans["solvers"]["measured"], plans["solvers"]["lines"]);
  write("solvers.plan", (*solvers)["plan"]);
  const json replayed = run_json(on({"run", kNetwork, "--random-inputs"}, {"--plan", path("solvers.plan")}), 0);
  EXPECT_GT(replayed["steps"].size(), 20u) << "the document's plans are plan files";
  const std::string kept = plans["kept"];
  EXPECT_TRUE(kept.starts_with(path("tuning.plans/"))) << kept;
  const json same = run_json(on({"compare", kNetwork, "tuned", kept}, {"--rounds", "1"}), 0);
  EXPECT_TRUE(same["differing"].empty()) << same["differing"];
  // Somebody's own choice comes first.
  const json forced = run_json(on({"run", kNetwork, "--random-inputs"}, {"--engines", "cpu.gemm"}), 0);
  for (const json& step : forced["steps"]) {
    if (step["kind"] != "conv") continue;
    EXPECT_EQ(step["implementation"].get<std::string>().substr(0, 8), "cpu.gemm");
  }
  write("tuning.plans/" + fs::path(kept).filename().string(), "convoy-plan 1\nnonsense\n");
  const Finished ran = run(on({"run", kNetwork, "--random-inputs"}));
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.err.find(kept + " is not obeyed: line 2: 'nonsense'"), std::string::npos) << ran.err;
}

TEST_F(PlanCommand, NoPlanIsKeptWhereEnginesAreRestricted) {
  const json tuned = run_json({"tune", kNetwork, "--threads", "1", "--budget", "2", "--engines", "cpu.*"}, 0);
  EXPECT_TRUE(tuned["plans"].is_null());
  EXPECT_FALSE(fs::exists(path("tuning.plans")));
}

TEST_F(PlanCommand, PassesAreListedAndLeftOut) {
  const Finished listed = run({"list", "passes", "--json"});
  ASSERT_EQ(listed.exit_code, 0);
  EXPECT_GT(json::parse(listed.out)["passes"].size(), 10u);
  const std::string fused = with({"plan", kNetwork}).out;
  const std::string apart = with({"plan", kNetwork, "--skip-pass", "conv_fusion", "--skip-pass", "affine_folding"}).out;
  EXPECT_EQ(fused.find("BatchNormalization"), std::string::npos);
  EXPECT_NE(apart.find("BatchNormalization"), std::string::npos) << apart;
}

}  // namespace
}  // namespace convoy::cli
