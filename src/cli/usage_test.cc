// What people type first: help, misspelt flags, variables that hold something else than they should.
#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

constexpr const char* kFirstLine = "Runs convolutions the fastest correct way";

TEST_F(Command, HelpIsWhatItIsElsewhere) {
  const std::string help = run({"--help"}).out;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"help"}}) {
    const Finished said = run(arguments);
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_TRUE(said.out.starts_with(kFirstLine)) << said.out;
    EXPECT_EQ(said.out, help);
  }
  EXPECT_EQ(run({"help", "run"}).out, run({"run", "--help"}).out);
  EXPECT_EQ(run({"help", "db", "show"}).out, run({"db", "show", "--help"}).out);
  EXPECT_NE(help.find("\n  help "), std::string::npos) << "it is listed";
  EXPECT_NE(run({"help", "help"}).out.find("Usage: convoy help [OPTIONS] [subcommand]"), std::string::npos);
  expect_error({"help", "rnu"}, 2, "'rnu' is not a subcommand; did you mean run?");
  expect_error({"rnu", "--help"}, 2, "'rnu' is not a subcommand; did you mean run?");
}

TEST_F(Command, AMisspeltFlagIsMendedInWords) {
  expect_error({"explain", kConv, "--thread", "1"}, 2, "--thread is not an option; did you mean --threads?");
  expect_error({"explain", kConv, "--wings"}, 2, "--wings is not an option\n");
  expect_error({"exec", "--recrod", "r.jsonl", "--", "true"}, 2, "--recrod is not an option; did you mean --record?");
  expect_error({"exec", "--rounds", "3", "--", "true"}, 2, "--rounds is not an option of convoy exec, but of ");
}

TEST_F(Command, RulesMayComeThroughAPipe) {
  ::setenv("TO_TEST", CONVOY_BINARY, 1);
  const std::string script = path("script");
  write("script",
        "exec $TO_TEST explain " + kConv + " --json --threads 1 --rules <(sleep 0.1; echo '* -> cpu.gemm')\n");
  const std::string command = "bash " + script + " > " + path("answer") + " 2> " + path("remarks");
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream answer(path("answer"));
  EXPECT_EQ(json::parse(answer)["problems"][0]["chosen"]["reason"], "rule '*'");
}

TEST_F(Command, WrongVariablesAreNamedByEveryCommand) {
  const std::vector<std::array<std::string, 3>> wrong = {
      {"CONVOY_ISA", "avx9", "CONVOY_ISA: 'avx9' is not one of portable, avx2, avx512"},
      {"CONVOY_CONFIG", "fast", "CONVOY_CONFIG: 'fast' is not one of full, jit-only, portable"},
      {"CONVOY_CUDNN", "/nowhere/libcudnn.so", "CONVOY_CUDNN: '/nowhere/libcudnn.so' does not exist"},
      {"CONVOY_ONEDNN", CONVOY_BINARY, "the oneDNN that comes with Convoy is used"},
      {"CONVOY_LOG", "loud", "CONVOY_LOG: 'loud' is not one of off, error"},
      {"CONVOY_RECORD_EVERY", "often", "CONVOY_RECORD_EVERY: 'often' is no number of seconds"},
      {"CONVOY_THREDS", "2", ""},  // near nothing: somebody else's
      {"CONVOY_CUDDN", "off", "CONVOY_CUDDN is no variable of Convoy's; did you mean CONVOY_CUDNN?"}};
  for (const auto& [name, value, words] : wrong) {
    ::setenv(name.c_str(), value.c_str(), 1);
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"list", "zoo"}, {"db", "path"}, {"explain", kConv, "--threads", "1"}}) {
      const Finished said = run(arguments);
      EXPECT_EQ(said.exit_code, 0) << name << said.err;
      EXPECT_NE(said.err.find(words), std::string::npos) << name << ": " << said.err;
      EXPECT_EQ(words.empty() && said.err.find(name) != std::string::npos, false) << said.err;
    }
    const Finished doctor = run({"doctor"});
    EXPECT_EQ(doctor.exit_code, words.empty() ? 0 : 2) << name;
    EXPECT_NE(doctor.out.find(words), std::string::npos) << doctor.out;
    ::unsetenv(name.c_str());
  }
}

TEST_F(Command, APlaceWithoutADatabaseNamesItsVariable) {
  ::unsetenv("CONVOY_DB");
  ::setenv("XDG_DATA_HOME", "/proc/nowhere", 1);  // nobody can make folders there, root neither
  const Finished said = run({"bench", kConv, "--engines", "cpu.gemm", "--budget", "10ms", "--threads", "1"});
  ::unsetenv("XDG_DATA_HOME");
  EXPECT_NE(said.err.find("its folder can't be made"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("CONVOY_DB names another place"), std::string::npos) << said.err;
}

// A list may name one of an engine's candidates.
TEST_F(Command, EnginesMayBeCandidates) {
  const std::string conv = "fprop:x=f32,1x32x28x28:w=f32,32x32x3x3:pad=1x1";
  const json named = run_json({"explain", conv, "--threads", "1", "--engines", "cpu.nhwc{engine=cpu.winograd,m=2}"}, 0);
  EXPECT_EQ(named["problems"][0]["chosen"]["candidate"], "cpu.nhwc{engine=cpu.winograd,m=2}");
  const json without = run_json(
      {"bench", conv, "--threads", "1", "--all-knobs", "--no-db", "--budget", "1", "--engines", "cpu.*,!*winograd*"},
      0);
  EXPECT_FALSE(without["problems"][0]["candidates"].empty());
  for (const json& candidate : without["problems"][0]["candidates"]) {
    EXPECT_EQ(candidate["candidate"].get<std::string>().find("winograd"), std::string::npos) << candidate;
  }
  expect_error({"explain", conv, "--engines", "cpu.winograd{n=2}"}, 2, "--engines: cpu.winograd has no knob 'n'");
  const Finished layout = run({"explain", conv, "--threads", "1", "--engines", "cpu.*"});
  EXPECT_NE(layout.out.find("cpu.nhwc{engine=cpu.winograd} runs it on copies"), std::string::npos) << layout.out;
}

TEST_F(Command, BenchToTheEndGivesNobodyUp) {
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", kConv, "--threads", "1", "--no-db", "--engines", "cpu.*,reference"});
    return more;
  };
  const json full = run_json(bench({"--full"}), 0)["problems"][0];
  ASSERT_GE(full["candidates"].size(), 4u);
  for (const json& candidate : full["candidates"]) EXPECT_GE(candidate["samples"], 5) << candidate;
  bool packs = false;
  for (const json& candidate : full["candidates"]) packs = packs || candidate.value("packed_weights_bytes", 0) > 0;
  EXPECT_TRUE(packs) << full;
  const Finished table = run(bench({"--budget", "1"}));
  EXPECT_NE(table.out.find("  packed  "), std::string::npos) << table.out;
}

}  // namespace
}  // namespace convoy::cli
