// What becomes of measurements: which commands keep them, and how they are checked, taken in and dropped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/testing/command.h"
#include "cli/tune_network.h"
#include "convoy/engine.h"

namespace convoy::cli {
namespace {

using Database = Command;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string device_of(const std::string& exported) {
  const std::string line = exported.substr(exported.find('\n') + 1);
  return json::parse(line.substr(0, line.find('\n')))["device"];
}

TEST_F(Database, WhatIsMeasuredIsStoredByEveryCommandThatChooses) {
  const std::vector<std::vector<std::string>> measuring = {
      {"explain", kConv, "--budget", "300ms", "--threads", "1"},
      {"bench", kConv, "--budget", "5s", "--threads", "1"},
      {"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64", "--budget", "100ms"}};
  for (std::vector<std::string> command : measuring) {
    fs::remove(path("tuning.db"));
    EXPECT_EQ(run(command).exit_code, 0);
    EXPECT_GT(run_json({"db", "path"}, 0)["measurements"], 0) << command[0];
    const Finished help = run({command[0], "--help"});
    EXPECT_NE(help.out.find("--no-db"), std::string::npos);
    fs::remove(path("tuning.db"));
    command.emplace_back("--no-db");
    EXPECT_EQ(run(command).exit_code, 0);
    EXPECT_FALSE(fs::exists(path("tuning.db"))) << command[0];
  }
  // And later runs choose by it.
  EXPECT_EQ(run(measuring[1]).exit_code, 0);
  const auto reason = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"explain", kConv, "--threads", "1"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run_json(arguments, 0)["problems"][0]["chosen"]["reason"];
  };
  EXPECT_EQ(reason({}), "stored");
  EXPECT_EQ(reason({"--no-db"}), "heuristic");
  // bench measures anew what is known.
  EXPECT_GT(run_json(measuring[1], 0)["stored"], 0);
}

// Each candidate once, however often and with whichever caches it is timed; what only plans need counts as well.
TEST_F(Database, WhatARunHasMeasuredIsCounted) {
  const auto database = TuningDatabase::open(path("tuning.db"), TuningDatabase::Access::write);
  ASSERT_TRUE(database.ok()) << database.error().message;
  int told = 0;
  WatchedStore store(**database, [&](const MeasurementKey&, const Measurement&) { ++told; });
  const ConvProblem nhwc = *parse_problem("fprop:x=f32,1x8x9x9,nhwc:w=f32,8x8x3x3"),
                    nchw = *parse_problem("fprop:x=f32,1x8x9x9,nchw:w=f32,8x8x3x3");
  const auto put = [&](MeasurementKey key, const char* engine) {
    Measurement m;
    m.candidate.engine = engine;
    m.samples = 1;
    m.median_seconds = 1e-3;
    ASSERT_TRUE(store.store(key, m).ok());
  };
  for (const CacheState caches : {CacheState::cold, CacheState::cold, CacheState::network}) {
    put(measurement_key(nhwc, {}, caches), "cpu.gemm");
  }
  put(measurement_key(nhwc, {}, CacheState::cold), "cpu.direct");
  put(measurement_key(nchw, {}, CacheState::cold), "cpu.direct");
  MeasurementKey step = measurement_key(nchw, {}, CacheState::cold);
  step.problem = "convert:x=f32,1x8x9x9,nchw:y=f32,1x8x9x9,nhwc";
  put(step, "convert");
  EXPECT_EQ(store.measured(nhwc), 2);
  EXPECT_EQ(store.measured(nchw), 1);
  EXPECT_EQ(store.candidates(), 3);
  EXPECT_EQ(store.steps(), 1);
  EXPECT_EQ(store.stored, 6);
  EXPECT_EQ(told, 6);
}

TEST_F(Database, VerifyChecksWhatANetworksTuningMeasured) {
  const std::vector<std::string> sizes = {"zoo:squeezenet1_1", "--dim", "H=64", "--dim", "W=64", "--threads", "1"};
  std::vector<std::string> tune = {"tune"};
  tune.insert(tune.end(), sizes.begin(), sizes.end());
  tune.insert(tune.end(), {"--budget", "1s"});
  run_json(tune, 0);
  const json verified = run_json({"db", "verify", "--sample", "3", "--budget", "5"}, 0);
  EXPECT_GT(verified["checked"], 0);
  EXPECT_EQ(verified["failed"], 0);
  // Operators and conversions, which plans cost, are measured by convoy plan.
  EXPECT_GT(verified["repeatable"], 0);
  EXPECT_LE(verified["repeatable"], verified["records"]);

  // What was timed in the network is checked as well.
  const std::string exported = run({"db", "export"}).out;
  std::string lines = exported.substr(0, exported.find('\n') + 1);
  const std::size_t at = exported.rfind('\n', exported.find("\"fprop:")) + 1;  // a convolution's
  lines += replaced(exported.substr(at, exported.find('\n', at) + 1 - at), "\"cold\"", "\"network\"");
  fs::remove(path("tuning.db"));
  write("network.jsonl", lines);
  EXPECT_EQ(run_json({"db", "import", path("network.jsonl")}, 0)["files"][0]["applicable"], 1);
  const json network = run_json({"db", "verify"}, 0);
  EXPECT_EQ(network["checked"], 1);
  EXPECT_EQ(network["right"], 1);
  EXPECT_EQ(network["measurements"][0]["caches"], "network");
}

TEST_F(Database, VerifyThatCouldCheckNothingSaysSoAndFails) {
  ASSERT_EQ(run({"tune", kConv, "--threads", "1", "--budget", "300ms"}).exit_code, 0);
  const std::string exported = run({"db", "export"}).out;
  fs::remove(path("tuning.db"));
  write("other.jsonl", replaced(exported, device_of(exported), "cpu Elsewhere l1d=1K l2=1M l3=1M"));
  const Finished imported = run({"db", "import", path("other.jsonl")});
  EXPECT_NE(imported.out.find("  0 of "), std::string::npos) << imported.out;
  EXPECT_NE(imported.out.find("of another device (cpu Elsewhere l1d=1K l2=1M l3=1M)"), std::string::npos)
      << imported.out;
  const Finished verified = run({"db", "verify"});
  EXPECT_EQ(verified.exit_code, 1) << verified.out;
  EXPECT_NE(verified.out.find("nothing could be checked"), std::string::npos) << verified.out;
  EXPECT_NE(verified.out.find("of another device"), std::string::npos) << verified.out;
  EXPECT_EQ(run_json({"db", "verify"}, 1)["checked"], 0);
  expect_error({"db", "verify", "--engines", "cpu.gem"}, 2, "did you mean cpu.gemm?");
}

TEST_F(Database, VerifyTakesADevice) {
  ASSERT_EQ(run({"tune", kConv, "--threads", "1", "--budget", "300ms"}).exit_code, 0);
  ::setenv("CONVOY_CUDA_DRIVER", "off", 1);
  expect_error({"db", "verify", "--device", "cuda"}, 4, "no CUDA device");
  ::setenv("CONVOY_CUDA_DRIVER", FAKE_DRIVER, 1);
  for (const char* library : {"CONVOY_NVRTC", "CONVOY_NVML", "CONVOY_CUDNN"}) ::setenv(library, "off", 1);
  const json nothing = run_json({"db", "verify", "--device", "cuda:1"}, 1);
  EXPECT_EQ(nothing["not_repeatable"]["another device"], nothing["records"]);

  // A row of that GPU. Its engine can't run here, which the check finds out.
  const json gpu = run_json({"doctor"}, 0)["cuda"]["devices"][1];
  const auto size = [](std::int64_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
    if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
    return std::to_string(bytes);
  };
  const std::int64_t memory = gpu["memory_bytes"], l2 = gpu["l2_bytes"];
  const int version = gpu["driver_version"];
  const std::string driver = gpu["driver"], name = gpu["name"];
  const std::string exported = run({"db", "export", "--engines", "cpu.gemm"}).out;
  std::string lines = exported.substr(0, exported.find('\n') + 1);
  json row = json::parse(exported.substr(lines.size(), exported.find('\n', lines.size()) - lines.size()));
  row["device"] = "cuda " + name + " sms=" + std::to_string(gpu["sm_count"].get<int>()) + " l2=" + size(l2) +
                  " mem=" + std::to_string((memory + (1 << 29)) >> 30) + "G";
  row["isa"] = "sm_" + std::to_string(gpu["architecture"].get<int>());
  row["driver"] = driver + (driver.empty() ? "" : " ") + "CUDA " + std::to_string(version / 1000) + "." +
                  std::to_string(version % 1000 / 10);
  row["threads"] = 1;
  row["weights"] = "variable";
  row["candidate"] = "cuda.depthwise";
  const auto& engines = all_engines();
  const auto depthwise = std::find_if(engines.begin(), engines.end(),
                                      [](const Engine* engine) { return engine->info().name == "cuda.depthwise"; });
  ASSERT_NE(depthwise, engines.end());
  row["revision"] = (*depthwise)->info().revision;
  row["provider"] = "";
  write("gpu.jsonl", lines + row.dump() + "\n");
  const json imported = run_json({"db", "import", path("gpu.jsonl")}, 0)["files"][0];
  EXPECT_EQ(imported["applicable"], 1) << imported.dump(1) << row.dump(1);
  const json checked = run_json({"db", "verify", "--device", "cuda:1"}, 1);
  EXPECT_EQ(checked["checked"], 1) << checked.dump(1);
  EXPECT_EQ(checked["failed"], 1);
  for (const char* name : {"CONVOY_CUDA_DRIVER", "CONVOY_NVRTC", "CONVOY_NVML", "CONVOY_CUDNN"}) ::unsetenv(name);
}

TEST_F(Database, RoughTimesHaveNoSpread) {
  ASSERT_EQ(run({"tune", kConv, "--threads", "1", "--budget", "300ms", "--engines", "cpu.*"}).exit_code, 0);
  std::istringstream exported(run({"db", "export"}).out);
  std::string line, lines;
  int rows = 0;
  for (std::getline(exported, line); exported; std::getline(exported, line)) {
    json row = json::parse(line);
    if (row.contains("samples")) row["samples"] = rows++ == 0 ? 1 : 10, row["spread"] = 0;
    lines += row.dump() + "\n";
  }
  ASSERT_EQ(run({"db", "clear", "--yes"}).exit_code, 0);
  write("one.jsonl", lines);
  ASSERT_EQ(run({"db", "import", path("one.jsonl")}).exit_code, 0);
  const Finished shown = run({"db", "show"});
  EXPECT_NE(shown.out.find(" 1 sample "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find(" 10 samples "), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("0.0%"), std::string::npos) << shown.out;
}

TEST_F(Database, MeasurementsAreForgottenByNameAndClearedOnDemand) {
  const std::string other = "fprop:x=f32,1x8x7x7,nhwc:w=f32,8x8x3x3:pad=1x1";
  for (const std::string& problem : {kConv, other}) {
    ASSERT_EQ(run({"tune", problem, "--threads", "1", "--budget", "300ms"}).exit_code, 0);
  }
  const std::int64_t before = run_json({"db", "path"}, 0)["measurements"];
  const json counted = run_json({"db", "forget", "--problem", "*7x7*", "--dry-run"}, 0);
  EXPECT_GT(counted["dropped"], 0);
  EXPECT_EQ(counted["problems"], 1);
  EXPECT_EQ(run_json({"db", "path"}, 0)["measurements"], before);
  const json dropped = run_json({"db", "forget", "--problem", "*7x7*"}, 0);
  EXPECT_EQ(dropped["dropped"], counted["dropped"]);
  EXPECT_EQ(dropped["left"], before - counted["dropped"].get<std::int64_t>());
  EXPECT_EQ(run_json({"db", "path"}, 0)["problems"], 1);
  EXPECT_EQ(run_json({"db", "forget", "--problem", "*7x7*"}, 0)["dropped"], 0);
  expect_error({"db", "forget"}, 2, "--problem or --engines must say what to forget");
  expect_error({"db", "forget", "--engines", "cpu.gem"}, 2, "did you mean cpu.gemm?");

  in_child_ = [] { ::dup2(::open("/dev/null", O_RDONLY), 0); };
  expect_error({"db", "clear"}, 2, "--yes is needed");
  EXPECT_EQ(run_json({"db", "clear", "--dry-run"}, 0)["dropped"], dropped["left"]);

  // A plan that tune kept would go on being used.
  const std::filesystem::path database = run_json({"db", "path"}, 0)["path"].get<std::string>();
  const std::filesystem::path folder = std::filesystem::path(database).replace_extension("plans");
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "1-2.plan") << "convoy-plan 1\n";
  std::ofstream(folder / "mine.txt") << "not Convoy's\n";
  EXPECT_EQ(run_json({"db", "path"}, 0)["plans"], 1);
  EXPECT_EQ(run_json({"db", "clear", "--dry-run"}, 0)["plans"], 1);
  EXPECT_TRUE(std::filesystem::exists(folder / "1-2.plan"));
  const Finished cleared = run({"db", "clear", "--yes"});
  EXPECT_NE(cleared.out.find("and 1 plan that tune kept; 0 left"), std::string::npos) << cleared.out;
  EXPECT_FALSE(std::filesystem::exists(folder / "1-2.plan"));
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.txt"));
  EXPECT_EQ(run_json({"db", "path"}, 0)["measurements"], 0);
}

}  // namespace
}  // namespace convoy::cli
