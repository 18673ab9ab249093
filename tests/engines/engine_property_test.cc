// Every engine against the oracle on random problems that it accepts. `--count` says how many (CONVOY_TEST_FULL:
// 10,000); the flags from --problem on repeat one execution, as a failure prints them.
#include "engines/testing/engine_property.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/environment.h"

namespace {

using namespace convoy;
using namespace convoy::testing;

struct Flags {
  PropertyOptions options;
  std::string engine;  // empty: all but the oracle
  std::string json;
  // One case.
  std::string problem, candidate, isa = "avx2", fill = "normal";
  int threads = 1;
  int extensions = 1;
  int constant_weights = 0;
  std::uint64_t data_seed = 0;
};

nlohmann::json summaries = nlohmann::json::array();

// Some of a provider's implementations take narrow kinds of problems only.
bool is_provided(const Engine& engine) { return engine.info().name.starts_with("onednn."); }
constexpr int provided_attempts = 20000;

class EngineAgrees : public ::testing::Test {
 public:
  EngineAgrees(const Engine& engine, const PropertyOptions& options) : engine_(engine), options_(options) {}
  void TestBody() override {
    // A provider has dozens of rows, each generated code that takes milliseconds to make: a share of the problems each.
    if (is_provided(engine_)) {
      options_.count = (options_.count + 9) / 10;
      options_.attempts = provided_attempts;
    }
    const PropertySummary summary = check_engine(engine_, options_);
    summaries.push_back(to_json(summary));
    if (summary.unavailable)
      GTEST_SKIP() << summary.engine << ": it refuses everything on this processor for its instruction set";
    double max_error = 0;
    for (const PropertyRuns& runs : summary.runs) max_error = std::max(max_error, runs.max_error);
    std::printf("%-30s %lld problems (%lld offered), largest error %.3g of the tolerance, %.1f s\n",
                summary.engine.c_str(), static_cast<long long>(summary.problems),
                static_cast<long long>(summary.acceptance.tried), max_error, summary.seconds);
    for (const std::string& failure : summary.failures) ADD_FAILURE() << failure;
    for (const PropertyRuns& runs : summary.runs) {
      if (summary.failures.empty()) {
        EXPECT_GE(runs.problems, options_.count);
      }
    }
  }

 private:
  const Engine& engine_;
  PropertyOptions options_;
};

class EngineIsConcurrent : public ::testing::Test {
 public:
  EngineIsConcurrent(const Engine& engine, std::uint64_t seed) : engine_(engine), seed_(seed) {}
  void TestBody() override {
    EXPECT_EQ(check_concurrency(engine_, seed_, is_provided(engine_) ? provided_attempts : 400), "");
  }

 private:
  const Engine& engine_;
  std::uint64_t seed_;
};

int repeat(const Flags& flags) {
  const auto problem = parse_problem(flags.problem);
  const auto candidate = parse_candidate(flags.candidate);
  const auto isa = parse_isa(flags.isa);
  for (const auto* error : {problem.ok() ? nullptr : &problem.error(), candidate.ok() ? nullptr : &candidate.error(),
                            isa.ok() ? nullptr : &isa.error()}) {
    if (error != nullptr) return std::fprintf(stderr, "%s\n", error->message.c_str()), 2;
  }
  for (const Engine* engine : all_engines()) {
    if (engine->info().name != candidate->engine) continue;
    EngineCase test;
    test.engine = engine;
    test.problem = *problem;
    test.knobs = candidate->knobs;
    test.isa = *isa;
    test.extensions = flags.extensions != 0;
    test.threads = flags.threads;
    test.constant_weights = flags.constant_weights != 0;
    test.fill = *parse_fill(flags.fill);
    test.data_seed = flags.data_seed;
    if (const auto refusal = refuse(*engine, *problem, {1, features_of(*isa, test.extensions)})) {
      return std::fprintf(stderr, "refused: %s\n", refusal->reason.c_str()), 4;
    }
    const EngineOutcome outcome = run(test);
    std::printf("%s\n%s\nlargest error: %.3g of the tolerance\n",
                outcome.failure.empty() ? "right" : outcome.failure.c_str(), describe(test).c_str(),
                outcome.verification.max_error);
    return outcome.failure.empty() ? 0 : 3;
  }
  return std::fprintf(stderr, "no engine is named %s\n", candidate->engine.c_str()), 2;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  Flags flags;
  CLI::App app("Every engine against the oracle on random problems");
  if (environment(Variable::test_full)) flags.options.count = 10000;
  app.add_option("--count", flags.options.count, "problems an engine and instruction set");
  app.add_option("--seed", flags.options.seed, "of the problems");
  app.add_option("--engine", flags.engine, "only the engine of this name");
  app.add_option("--json", flags.json, "file for the summary");
  app.add_option("--problem", flags.problem, "repeat one execution: its problem");
  app.add_option("--candidate", flags.candidate, "engine and knobs");
  app.add_option("--isa", flags.isa);
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 64));
  app.add_option("--extensions", flags.extensions, "0: the bare instruction set");
  app.add_option("--constant-weights", flags.constant_weights);
  app.add_option("--fill", flags.fill)->check(CLI::IsMember({"normal", "spikes", "integers", "limits", "special"}));
  app.add_option("--data-seed", flags.data_seed);
  CLI11_PARSE(app, argc, argv);
  if (!flags.problem.empty()) return repeat(flags);

  for (const Engine* engine : all_engines()) {
    const std::string& name = engine->info().name;
    if (engine->info().device != DeviceKind::cpu) continue;  // those on a GPU have tests of their own, on it
    if (flags.engine.empty() ? name == "reference" : name != flags.engine) continue;
    ::testing::RegisterTest("Engines", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [engine, &flags]() -> EngineAgrees* { return new EngineAgrees(*engine, flags.options); });
    ::testing::RegisterTest(
        "EnginesFromManyThreads", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [engine, &flags]() -> EngineIsConcurrent* { return new EngineIsConcurrent(*engine, flags.options.seed); });
  }
  const int failed = RUN_ALL_TESTS();
  if (!flags.json.empty()) {
    const nlohmann::json summary = {{"processor", cpu_features().brand},
                                    {"isa", name_of(cpu_features().isa)},
                                    {"count", flags.options.count},
                                    {"seed", flags.options.seed},
                                    {"engines", summaries}};
    std::ofstream(flags.json) << summary.dump(2) << '\n';
  }
  return failed;
}
