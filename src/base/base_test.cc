#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/background.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/environment.h"
#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/provider_environment.h"
#include "base/side_by_side.h"
#include "base/spent.h"

namespace convoy {
namespace {

TEST(Checked, OverflowIsNoticed) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(checked_add(kMaxSize - 1, 1), kMaxSize);
  EXPECT_EQ(checked_add(kMaxSize, 1), std::nullopt);
  EXPECT_EQ(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_mul(std::int64_t{1} << 31, std::int64_t{1} << 31), std::int64_t{1} << 62);
  EXPECT_EQ(saturating_add(kMaxSize, 5), kMaxSize);
  EXPECT_EQ(saturating_add(lowest, -5), lowest);
  EXPECT_EQ(saturating_mul(-kMaxSize, 3), lowest);
  EXPECT_EQ(saturating_mul(kMaxSize, 3), kMaxSize);
  EXPECT_EQ(div_up(0, 8), 0);
  EXPECT_EQ(div_up(17, 8), 3);
  EXPECT_EQ(round_up(17, 8), 24);
  EXPECT_EQ(round_up(kMaxSize, 16), kMaxSize);
}

// The forked process doesn't have the thread that would give it back.
TEST(ForkMutex, IsFreeInAForkedProcess) {
  std::atomic<bool> held = false;
  std::thread other([&] {
    const std::lock_guard lock(fork_mutex());
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  while (!held) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) _exit(fork_mutex().try_lock() && forks() == 1 ? 0 : 1);
  other.join();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const std::unique_lock lock(fork_mutex(), std::try_to_lock);
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(forks(), 0U);
}

TEST(NoFork, AForkWaitsAndTheForkedProcessIsFree) {
  std::atomic<bool> held = false, ended = false;
  std::thread other([&] {
    const NoFork outer;
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const NoFork inner;  // while the fork waits
    ended = true;
  });
  while (!held) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    bool forks_too = false;
    { const NoFork again; }
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(0);
    int status = -1;
    forks_too = waitpid(grandchild, &status, 0) == grandchild && status == 0;
    _exit(ended && forks_too ? 0 : 1);
  }
  other.join();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const NoFork free;
}

TEST(SideBySide, EachPartOnceAndWhatIsThrownInTheCaller) {
  std::vector<std::atomic<int>> done(100);
  side_by_side(done.size(), [&](std::size_t i) { ++done[i]; });
  for (const auto& each : done) EXPECT_EQ(each, 1);
  side_by_side(0, [](std::size_t) { FAIL(); });
  for (const std::size_t bad : {0, 7}) {
    EXPECT_THROW(side_by_side(8,
                              [&](std::size_t i) {
                                if (i == bad) throw std::bad_alloc();
                              }),
                 std::bad_alloc);
  }
}

TEST(Clock, Advances) {
  const double start = monotonic_seconds();
  double now = start;
  while (now == start) now = monotonic_seconds();
  EXPECT_GT(now, start);
  EXPECT_LT(now - start, 1.0);
}

TEST(Environment, TableIsComplete) {
  for (const EnvironmentVariable& row : environment_variables()) {
    EXPECT_EQ(&describe(row.variable), &row);
    EXPECT_FALSE(row.name.empty());
    EXPECT_FALSE(row.values.empty()) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_FALSE(row.default_value.empty()) << row.name;
  }
}

TEST(Environment, EmptyCountsAsUnset) {
  const auto before = environment(Variable::data);
  ASSERT_EQ(setenv("CONVOY_DATA", "", 1), 0);
  EXPECT_EQ(environment(Variable::data), std::nullopt);
  ASSERT_EQ(setenv("CONVOY_DATA", "here", 1), 0);
  EXPECT_EQ(environment(Variable::data), "here");
  if (before) {
    setenv("CONVOY_DATA", before->c_str(), 1);
  } else {
    unsetenv("CONVOY_DATA");
  }
}

TEST(Log, LevelsFilter) {
  std::vector<std::string> lines;
  ASSERT_TRUE(set_log(LogLevel::warning, [&](LogLevel, std::string_view message) { lines.emplace_back(message); }));
  log(LogLevel::error, "e");
  log(LogLevel::warning, "w");
  log(LogLevel::info, "i");
  EXPECT_TRUE(log_enabled(LogLevel::error));
  EXPECT_FALSE(log_enabled(LogLevel::debug));
  EXPECT_FALSE(log_enabled(LogLevel::off));
  ASSERT_TRUE(set_log(LogLevel::off, {}));
  EXPECT_EQ(lines, (std::vector<std::string>{"event=e", "event=w"}));
}

TEST(Log, FieldsAreQuotedWhereTheyWouldNotReadBack) {
  std::string line;
  ASSERT_TRUE(set_log(LogLevel::info, [&](LogLevel, std::string_view message) { line = message; }));
  log(LogLevel::info, "select", {{"problem", "fprop:x=f32,1x1"}, {"engine", "cpu.direct"}, {"why", "a \"b\"\n\x01"}});
  ASSERT_TRUE(set_log(LogLevel::off, {}));
  EXPECT_EQ(line, R"(event=select problem="fprop:x=f32,1x1" engine=cpu.direct why="a \"b\"\n\u0001")");
}

// One callback may call what logs, set_log is refused there, and threads are not kept apart by a lock of the log's,
// which would be held while a callback waits for a lock of its own (an interpreter's).
TEST(Log, ACallbackMayBeSlowMayLogAndCannotSetTheLog) {
  std::atomic<int> inside = 0, both = 0, calls = 0;
  bool refused = false;
  const auto callback = [&](LogLevel, std::string_view) {
    ++calls;
    ++inside;
    log(LogLevel::error, "from the callback");  // dropped
    refused = !set_log(LogLevel::off, {}).ok();
    const double end = monotonic_seconds() + 10;
    while (both == 0 && monotonic_seconds() < end) {
      if (inside == 2) both = 1;
    }
    --inside;
  };
  ASSERT_TRUE(set_log(LogLevel::error, callback));
  std::thread other([] { log(LogLevel::error, "one"); });
  log(LogLevel::error, "two");
  other.join();
  EXPECT_EQ(both, 1) << "two threads' events are handed on one after the other";
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(refused);
  ASSERT_TRUE(set_log(LogLevel::off, {}));
  log(LogLevel::error, "to standard error, if CONVOY_LOG says so");
  EXPECT_EQ(calls, 2);
}

// What the callback uses may be destroyed once another is set.
TEST(Log, SetLogWaitsForTheCallbackBefore) {
  std::atomic<bool> entered = false, left = false;
  ASSERT_TRUE(set_log(LogLevel::error, [&](LogLevel, std::string_view) {
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left = true;
  }));
  std::thread other([] { log(LogLevel::error, "slow"); });
  while (!entered) std::this_thread::yield();
  ASSERT_TRUE(set_log(LogLevel::off, {}));
  EXPECT_TRUE(left);
  other.join();
}

TEST(Log, SettingsAreALevelAndADestination) {
  EXPECT_EQ(parse_log_setting("info").level, LogLevel::info);
  EXPECT_EQ(parse_log_setting("info").destination, "");
  EXPECT_EQ(parse_log_setting("debug:a:b").destination, "a:b");
  EXPECT_EQ(parse_log_setting("debug:a:b").error, "");
  EXPECT_NE(parse_log_setting("loud").error.find("'loud' is not one of off, error"), std::string::npos);
  EXPECT_EQ(parse_log_setting("loud").level, LogLevel::warning);
  EXPECT_NE(parse_log_setting("info:").error, "");
}

TEST(Log, TheVariableNamesAFileThatIsAppendedTo) {
  const std::string path = testing::TempDir() + "convoy_log_test.log";
  std::remove(path.c_str());
  const auto before = environment(Variable::log);
  for (const char* event : {"first", "second"}) {
    setenv("CONVOY_LOG", ("info:" + path).c_str(), 1);
    ASSERT_TRUE(set_log(LogLevel::off, {}));
    log(LogLevel::info, event, {{"problem", "p"}});
    log(LogLevel::debug, "not written");
  }
  before ? setenv("CONVOY_LOG", before->c_str(), 1) : unsetenv("CONVOY_LOG");
  ASSERT_TRUE(set_log(LogLevel::off, {}));
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with("convoy time=20")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with(" level=info event=first problem=p")) << lines[0];
  EXPECT_TRUE(lines[1].ends_with(" level=info event=second problem=p")) << lines[1];
}

// Of every kind of value.
TEST(Environment, AWrongValueIsNamed) {
  const std::string file = testing::TempDir() + "convoy_environment_file", folder = testing::TempDir();
  std::ofstream(file) << "text";
  const std::vector<std::array<std::string, 3>> wrong = {
      {"CONVOY_ISA", "avx9", "'avx9' is not one of portable, avx2, avx512"},
      {"CONVOY_CONFIG", "fast", "'fast' is not one of full, jit-only, portable"},
      {"CONVOY_LOG", "loud", "'loud' is not one of off, error"},
      {"CONVOY_EXEC", "on", "'on' is not one of off"},
      {"CONVOY_CUDNN", file + ".so", "does not exist"},
      {"CONVOY_ONEDNN", "off", "'off' does not exist"},
      {"CONVOY_DATA", folder + "nowhere", "does not exist"},
      {"CONVOY_DB", folder, "is a folder, not a file"},
      {"CONVOY_KERNEL_CACHE", file, "is a file, not a folder"},
      {"CONVOY_RECORD_EVERY", "5m", "'5m' is no number of seconds"}};
  const std::vector<std::array<std::string, 2>> right = {{"CONVOY_ISA", "avx2"},        {"CONVOY_LOG", "info:" + file},
                                                         {"CONVOY_CUDNN", "off"},       {"CONVOY_CUDNN", folder},
                                                         {"CONVOY_DB", file + ".db"},   {"CONVOY_KERNEL_CACHE", "off"},
                                                         {"CONVOY_RECORD_EVERY", "90"}, {"CONVOY_TEST_FULL", "x"}};
  const auto fault_with = [](const std::string& name, const std::string& value) {
    const char* known = std::getenv(name.c_str());
    const std::string before = known != nullptr ? known : "";
    setenv(name.c_str(), value.c_str(), 1);
    std::string fault;
    for (const std::string& each : environment_faults()) {
      if (each.starts_with(name + ": ")) fault = each;
    }
    known != nullptr ? setenv(name.c_str(), before.c_str(), 1) : unsetenv(name.c_str());
    return fault;
  };
  for (const auto& [name, value, words] : wrong) {
    EXPECT_NE(fault_with(name, value).find(words), std::string::npos) << name << ": " << fault_with(name, value);
  }
  for (const auto& [name, value] : right) EXPECT_EQ(fault_with(name, value), "") << name;
}

// A program's own log hears of them, too.
TEST(Environment, TheLogSaysWhatIsWrong) {
  setenv("CONVOY_RECORD_EVERY", "often", 1);
  std::string heard;
  ASSERT_TRUE(set_log(LogLevel::warning, [&](LogLevel, std::string_view text) { heard += text; }));
  EXPECT_NE(heard.find("CONVOY_RECORD_EVERY: 'often' is no number of seconds"), std::string::npos) << heard;
  unsetenv("CONVOY_RECORD_EVERY");
  ASSERT_TRUE(set_log(LogLevel::off, {}));
}

TEST(ProviderEnvironment, ShowsWhatIsSetKnownOrNot) {
  setenv("ONEDNN_VERBOSE", "1", 1);
  setenv("ONEDNN_MADE_UP", "x", 1);
  setenv("CUDNN_LOGDEST_DBG", "", 1);  // empty is as good as not set
  setenv("CUDNN_LOGERR_DBG", "1", 1);
  bool verbose = false, made_up = false;
  for (const SetVariable& variable : set_provider_variables()) {
    verbose = verbose || (variable.name == "ONEDNN_VERBOSE" && variable.value == "1" && variable.known != nullptr &&
                          variable.known->effect == ProviderEffect::logs);
    made_up = made_up || (variable.name == "ONEDNN_MADE_UP" && variable.known == nullptr);
    EXPECT_NE(variable.name, "CUDNN_LOGDEST_DBG");
  }
  EXPECT_TRUE(verbose && made_up);
  // What may change results is in the keys, what only logs is not.
  const std::string& key = result_changing_environment();
  EXPECT_NE(key.find("ONEDNN_MADE_UP=x"), std::string::npos) << key;
  EXPECT_EQ(key.find("ONEDNN_VERBOSE"), std::string::npos) << key;
  EXPECT_EQ(key.find("CUDNN_LOGERR_DBG"), std::string::npos) << key;
  for (const char* name : {"ONEDNN_VERBOSE", "ONEDNN_MADE_UP", "CUDNN_LOGDEST_DBG", "CUDNN_LOGERR_DBG"}) unsetenv(name);
}

TEST(Cpu, AgreesWithTheCompilersDetection) {
  const CpuFeatures& cpu = detected_cpu_features();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  EXPECT_EQ(cpu.isa >= Isa::avx2, avx2);
  EXPECT_EQ(cpu.isa >= Isa::avx512, avx512);
  EXPECT_EQ(cpu.avx512_vnni, avx512 && __builtin_cpu_supports("avx512vnni"));
  EXPECT_EQ(cpu.avx512_vbmi, avx512 && __builtin_cpu_supports("avx512vbmi"));
  EXPECT_EQ(cpu.avx512_bf16, avx512 && __builtin_cpu_supports("avx512bf16"));
  EXPECT_GE(cpu.logical_cpus, 1);
  EXPECT_GE(cpu.l1d_bytes, 1024);
  EXPECT_GE(cpu.l2_bytes, cpu.l1d_bytes);
  EXPECT_FALSE(cpu.brand.empty());
}

TEST(Cpu, CapRemovesWhatStandsAbove) {
  CpuFeatures full;
  full.isa = Isa::avx512;
  full.avx512_vnni = full.avx512_vbmi = full.avx512_bf16 = full.avx512_fp16 = full.amx_tile = full.amx_bf16 =
      full.amx_int8 = true;
  const CpuFeatures avx2 = capped(full, Isa::avx2);
  EXPECT_EQ(avx2.isa, Isa::avx2);
  EXPECT_FALSE(avx2.avx512_vnni || avx2.avx512_vbmi || avx2.avx512_bf16 || avx2.avx512_fp16);
  EXPECT_FALSE(avx2.amx_tile || avx2.amx_bf16 || avx2.amx_int8);
  EXPECT_TRUE(capped(full, Isa::avx512).amx_int8);
  EXPECT_EQ(capped(avx2, Isa::avx512).isa, Isa::avx2);  // a cap never adds
}

TEST(Cpu, NamesRoundTrip) {
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) EXPECT_EQ(*parse_isa(name_of(isa)), isa);
  EXPECT_FALSE(parse_isa("sse9").ok());
}

TEST(BackgroundTest, DoesWhatItIsGiven) {
  std::atomic<int> done = 0;
  Background background(2);
  for (int i = 0; i < 10; ++i) {
    background.add([&](const std::stop_token&) {
      background.add([&](const std::stop_token&) { ++done; });
      ++done;
      if (done % 3 == 0) throw std::runtime_error("nobody sees it");
    });
  }
  background.finish();
  EXPECT_EQ(done, 20);
}

TEST(BackgroundTest, StopsWhatItIsAtAndDropsTheRest) {
  std::atomic<int> begun = 0, stopped = 0;
  Background background(2);
  for (int i = 0; i < 10; ++i) {
    background.add([&](const std::stop_token& stop) {
      ++begun;
      while (!stop.stop_requested()) std::this_thread::yield();
      ++stopped;
    });
  }
  while (begun < 2) std::this_thread::yield();
  background.stop();
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(stopped, 2);
  background.add([&](const std::stop_token&) { ++begun; });
  background.finish();
  EXPECT_EQ(begun, 2);
}

TEST(Spent, SumsSecondsByName) {
  EXPECT_FALSE(spent_seconds().contains("a test"));
  for (int i = 0; i < 2; ++i) {
    const Spent spent("a test");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(spent_seconds()["a test"].times, i) << "not before it has ended";
  }
  const SpentSum sum = spent_seconds().at("a test");
  EXPECT_EQ(sum.times, 2);
  EXPECT_GE(sum.seconds, 0.01);
}

}  // namespace
}  // namespace convoy
