// The database as its callers use it: storing, finding, several users at once, places that can't be written.
#include "convoy/tuning_database.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/provider.h"
#include "select/measure/step_measurement.h"
#include "select/tunedb/location.h"
#include "select/tunedb/sqlite.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using Access = TuningDatabase::Access;

MeasurementKey key_of(int n) {
  MeasurementKey key;
  key.problem = fmt::format("fprop:x=f32,{}x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,{}x8x4x4,nchw", n, n);
  key.device = "cpu Test";
  key.isa = "avx2";
  return key;
}

Measurement timed(const std::string& candidate, double seconds, MeasurementState state = MeasurementState::complete) {
  Measurement measurement;
  measurement.candidate = *parse_candidate(candidate);
  measurement.median_seconds = seconds;
  measurement.samples = 7;
  measurement.state = state;
  return measurement;
}

// An engine that exists for its name, revision and provider.
struct NamedEngine : Engine {
  EngineInfo information;
  NamedEngine(std::string name, int revision, std::string provider = {}) {
    information.name = std::move(name);
    information.revision = revision;
    information.provider = std::move(provider);
  }
  const EngineInfo& info() const override { return information; }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem&, const KnobValues&, const PlanRequest&) const override {
    return Error{ErrorCode::unsupported, "a name only"};
  }
};

class Database : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("convoy_database_test_{}", ::getpid());
    fs::create_directories(folder_);
    path_ = folder_ / "deep" / "er" / "tuning.db";
  }
  void TearDown() override {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_directory()) fs::permissions(entry.path(), fs::perms::owner_all);
    }
    fs::remove_all(folder_);
  }

  std::unique_ptr<TuningDatabase> open(Access access = Access::write) const {
    auto database = TuningDatabase::open(path_, access);
    EXPECT_TRUE(database.ok()) << database.error().message;
    return *std::move(database);
  }
  std::string sql(const std::string& text) const {
    const auto file = tunedb::Connection::open(path_, path_, SQLITE_OPEN_READWRITE);
    return *file->text(text);
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Database, WhatIsStoredIsFoundByItsWholeKey) {
  const auto database = open();
  Measurement full = timed("onednn.brgemm{a=1,b=-2}", 1.0 / 3);
  full.revision = 4;
  full.provider = "oneDNN 3.2.0";
  full.spread = 0.01;
  full.workspace_bytes = std::size_t{5} << 32;
  full.max_error = 0.25;
  full.max_error_absolute = 1e-7;
  full.energy_joules = 2.5;
  ASSERT_TRUE(database->store(key_of(1), full).ok());
  Measurement wrong = timed("cpu.gemm", 0);
  wrong.failure = Error{ErrorCode::wrong_result, "out[0] is 2"};
  ASSERT_TRUE(database->store(key_of(1), wrong).ok());

  const auto found = database->find(key_of(1));
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(print((*found)[0].candidate), "cpu.gemm");
  EXPECT_EQ((*found)[0].failure->message, "out[0] is 2");
  const Measurement& back = (*found)[1];
  EXPECT_EQ(back.candidate, full.candidate);
  EXPECT_EQ(back.revision, 4);
  EXPECT_EQ(back.provider, full.provider);
  EXPECT_EQ(back.median_seconds, full.median_seconds);
  EXPECT_EQ(back.workspace_bytes, full.workspace_bytes);
  EXPECT_EQ(back.energy_joules, full.energy_joules);
  EXPECT_EQ(back.state, full.state);

  std::vector<MeasurementKey> others(7, key_of(1));
  others[0].problem += ":beta=1";
  others[1].device = "cpu Other";
  others[2].isa = "portable";
  others[3].driver = "1";
  others[4].threads = 2;
  others[5].constant_weights = false;
  others[6].caches = CacheState::warm;
  for (const MeasurementKey& other : others) {
    EXPECT_TRUE(database->find(other)->empty());
    ASSERT_TRUE(database->store(other, timed("cpu.direct", 9)).ok());
    EXPECT_EQ(database->find(other)->size(), 1u);
  }
  EXPECT_EQ(database->find(key_of(1))->size(), 2u);
}

// What an older rule found wrong may be right: it is not found, replaced by whatever comes, and dropped by gc.
TEST_F(Database, OutdatedVerdictsDoNotCount) {
  const auto database = open();
  Measurement wrong = timed("cpu.gemm", 0);
  wrong.failure = Error{ErrorCode::wrong_result, "1.64 times the tolerance"};
  wrong.state = MeasurementState::complete;
  Measurement right = timed("cpu.gemm", 0.5);
  right.state = MeasurementState::partial;
  TuningRecord old{key_of(1), wrong, "2026-11-20T08:00:00Z", 1};

  // Imported: replaces nothing that is there, keeps nobody out where nothing is.
  ASSERT_TRUE(database->store(key_of(1), right).ok());
  EXPECT_EQ(database->merge(std::vector{old})->kept, 1);
  EXPECT_FALSE(database->find(key_of(1))->front().failure.has_value());
  old.key = key_of(2);
  EXPECT_EQ(database->merge(std::vector{old})->added, 1);
  EXPECT_EQ(database->records()->size(), 2u);
  EXPECT_TRUE(database->find(key_of(2))->empty());
  // A partial measurement takes its place, which it would not take from a verdict of today.
  ASSERT_TRUE(database->store(key_of(2), right).ok());
  ASSERT_EQ(database->find(key_of(2))->size(), 1u);
  EXPECT_FALSE(database->find(key_of(2))->front().failure.has_value());
  ASSERT_TRUE(database->store(key_of(2), wrong).ok());
  ASSERT_TRUE(database->store(key_of(2), right).ok());
  EXPECT_TRUE(database->find(key_of(2))->front().failure.has_value());

  old.key = key_of(3);
  ASSERT_TRUE(database->merge(std::vector{old}).ok());
  const auto collected = database->collect_garbage({}, {});
  ASSERT_TRUE(collected.ok()) << collected.error().message;
  EXPECT_EQ(collected->old_verdicts, 1);
  EXPECT_EQ(collected->left, 2);
}

TEST_F(Database, AVerdictInANetworkReplacesTheOneBefore) {
  const auto database = open();
  MeasurementKey key = key_of(1);
  key.caches = CacheState::network;
  const auto state = [&] { return (*database->find(key))[0].state; };
  ASSERT_TRUE(database->store(key, timed("a", 1, MeasurementState::complete)).ok());
  ASSERT_TRUE(database->store(key, timed("a", 2, MeasurementState::partial)).ok());
  EXPECT_EQ(state(), MeasurementState::complete);
  ASSERT_TRUE(database->store(key, timed("a", 2, MeasurementState::cut_off)).ok());
  EXPECT_EQ(state(), MeasurementState::cut_off);
}

TEST_F(Database, ABetterStateIsKeptAndAnEqualOneReplaced) {
  const auto database = open();
  const auto stored = [&] { return database->find(key_of(1))->front().median_seconds; };
  ASSERT_TRUE(database->store(key_of(1), timed("a", 1, MeasurementState::partial)).ok());
  ASSERT_TRUE(database->store(key_of(1), timed("a", 2, MeasurementState::complete)).ok());
  EXPECT_EQ(stored(), 2);
  ASSERT_TRUE(database->store(key_of(1), timed("a", 3, MeasurementState::partial)).ok());
  EXPECT_EQ(stored(), 2);
  ASSERT_TRUE(database->store(key_of(1), timed("a", 4, MeasurementState::complete)).ok());
  EXPECT_EQ(stored(), 4);
  // Another revision is another row: an older Convoy on the same file keeps what it measured.
  Measurement newer = timed("a", 5, MeasurementState::partial);
  newer.revision = 2;
  ASSERT_TRUE(database->store(key_of(1), newer).ok());
  EXPECT_EQ(database->find(key_of(1))->size(), 2u);
}

TEST_F(Database, WantOfMemorySaysNothingAboutACandidate) {
  const auto database = open();
  Measurement failed = timed("a", 0);
  failed.failure = Error{ErrorCode::out_of_memory, "no memory"};
  ASSERT_TRUE(database->store(key_of(1), failed).ok());
  EXPECT_TRUE(database->find(key_of(1))->empty());
}

TEST_F(Database, ReadingMakesNoFile) {
  const auto missing = TuningDatabase::open(path_, Access::read);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_FALSE(fs::exists(folder_ / "deep"));
  fs::create_directories(folder_ / "deep" / "er");
  std::ofstream(path_).close();
  EXPECT_EQ(TuningDatabase::open(path_, Access::read).error().code, ErrorCode::not_found);
  EXPECT_EQ(fs::file_size(path_), 0u);
  EXPECT_EQ(TuningDatabase::open(folder_, Access::read).error().code, ErrorCode::invalid_argument);
}

TEST_F(Database, AFileThatCannotBeWrittenCanBeRead) {
  { ASSERT_TRUE(open()->store(key_of(1), timed("a", 1)).ok()); }
  fs::permissions(folder_, static_cast<fs::perms>(0755));
  fs::permissions(folder_ / "deep", static_cast<fs::perms>(0555));
  fs::permissions(folder_ / "deep" / "er", static_cast<fs::perms>(0555));
  fs::permissions(path_, static_cast<fs::perms>(0444));
  // In a child that is not root, whom permissions don't stop.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(1);
    const auto database = TuningDatabase::open(path_, Access::read);
    if (!database.ok()) ::_exit(2);
    if ((*database)->find(key_of(1))->size() != 1) ::_exit(3);
    const auto stored = (*database)->store(key_of(1), timed("b", 1));
    if (stored.ok() || stored.error().code != ErrorCode::unsupported) ::_exit(4);
    if ((*database)->info()->remark.empty()) ::_exit(5);
    const auto writing = TuningDatabase::open(path_, Access::write);
    if (writing.ok() || writing.error().code != ErrorCode::unsupported) ::_exit(6);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Database, NetworkHomesGetARollbackJournal) {
  EXPECT_TRUE(tunedb::is_network_file_system(0x6969));
  EXPECT_TRUE(tunedb::is_network_file_system(static_cast<std::int32_t>(0xff534d42)));  // statfs's type may be signed
  EXPECT_FALSE(tunedb::is_network_file_system(0xef53));                                // ext4
  const auto database = open();
  const auto info = database->info();
  ASSERT_TRUE(info.ok());
  if (tunedb::on_network_file_system(path_)) {
    EXPECT_EQ(info->journal, "delete");
    EXPECT_NE(info->remark, "");
  } else {
    EXPECT_EQ(info->journal, "wal");
    EXPECT_EQ(info->remark, "");
  }
  EXPECT_EQ(info->path, path_);
}

TEST_F(Database, EightProcessesAndThreadsStoreAtOnce) {
  constexpr int processes = 8, threads = 4, rows = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    // Each makes the file if it is the first.
    const auto database = TuningDatabase::open(path_, Access::write);
    if (!database.ok()) std::fprintf(stderr, "%s\n", database.error().message.c_str()), ::_exit(1);
    std::vector<std::thread> team;
    std::atomic<bool> failed = false;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        for (int i = 0; i < rows; ++i) {
          const std::string own = fmt::format("p{}.t{}", p, t);
          if (!(*database)->store(key_of(1 + i), timed(own, i + 1)).ok()) failed = true;
          if (!(*database)->store(key_of(1 + i), timed("shared", i + 1)).ok()) failed = true;
          if ((*database)->find(key_of(1 + i))->size() < 2) failed = true;
        }
      });
    }
    for (std::thread& thread : team) thread.join();
    ::_exit(failed ? 2 : 0);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const auto database = open(Access::read);
  EXPECT_TRUE(database->check().ok());
  EXPECT_EQ(database->info()->measurements, (processes * threads + 1) * rows);
  EXPECT_EQ(database->info()->problems, rows);
}

TEST_F(Database, AKilledProcessLosesNothingThatWasStored) {
  for (int round = 0; round < 10; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto database = TuningDatabase::open(path_, Access::write);
      for (int i = 1;; ++i) {
        if (!(*database)->store(key_of(round * 1000000 + i), timed("a", i)).ok()) ::_exit(1);
        if (::write(pipe[1], &i, sizeof i) != sizeof i) ::_exit(1);
      }
    }
    ::close(pipe[1]);
    int stored = 0;
    ASSERT_GT(::read(pipe[0], &stored, sizeof stored), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
    ::kill(child, SIGKILL);
    while (::read(pipe[0], &stored, sizeof stored) > 0) continue;
    ::close(pipe[0]);
    ::waitpid(child, nullptr, 0);
    const auto database = open(Access::read);
    EXPECT_TRUE(database->check().ok());
    for (int i = 1; i <= stored; ++i) {
      ASSERT_EQ(database->find(key_of(round * 1000000 + i))->size(), 1u) << "round " << round << ", row " << i;
    }
  }
}

TEST_F(Database, MergingIsTheSameFromEitherSideAndTwiceIsOnce) {
  std::vector<TuningRecord> ours, theirs;
  for (int i = 0; i < 40; ++i) {
    TuningRecord record{key_of(1 + i / 4), timed(i % 2 == 0 ? "a" : "b", 1 + i % 7), "2026-11-21T15:41:02Z"};
    record.measurement.samples = 1 + i * 5 % 11;
    record.measurement.state = static_cast<MeasurementState>(i * 7 % 3);
    if (i % 5 != 0) ours.push_back(record);
    record.measurement.samples = 1 + i * 3 % 11;
    if (i % 3 != 0) theirs.push_back(record);
  }
  const auto merged = [&](const auto& first, const auto& second) {
    fs::remove_all(folder_ / "deep");
    const auto database = open();
    EXPECT_TRUE(database->merge(first).ok());
    EXPECT_TRUE(database->merge(second).ok());
    const auto again = database->merge(second);
    EXPECT_EQ(again->added + again->replaced, 0);
    EXPECT_EQ(again->kept, static_cast<std::int64_t>(second.size()));
    return export_lines(*database->records());
  };
  const std::string text = merged(ours, theirs);
  EXPECT_EQ(text, merged(theirs, ours));
  // The way out and in again changes nothing.
  const auto back = parse_lines(text, "export");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(merged(*back, *back), text);
}

TEST_F(Database, GarbageIsWhatOldRevisionsMeasuredAndNobodyUses) {
  const NamedEngine a("a", 2), b("b", 1, "lib 2");
  const std::vector<const Engine*> engines = {&a, &b};
  {
    const auto database = open();
    const auto put = [&](int n, const std::string& engine, int revision, const std::string& provider = {}) {
      Measurement measurement = timed(engine, 1);
      measurement.revision = revision;
      measurement.provider = provider;
      ASSERT_TRUE(database->store(key_of(n), measurement).ok());
    };
    put(1, "a", 1);           // goes: an old revision
    put(1, "a", 2);           //
    put(1, "a", 3);           // stays: a newer Convoy's
    put(1, "b", 1, "lib 2");  //
    put(1, "b", 1, "lib 1");  // goes: another provider version, old
    put(2, "b", 1, "lib 1");  // stays: another provider version, measured today
    put(3, "a", 2);           // goes: its problem was not used for long
    put(4, "c", 1);           // stays: an engine of somebody else
  }
  sql("UPDATE measurements SET date = '2020-01-01T00:00:00Z' WHERE provider = 'lib 1' AND problem_id = 1");
  sql("UPDATE problems SET last_used = '2020-01-01' WHERE id = 3");
  const auto database = open();
  CollectOptions options;
  options.dry_run = true;
  const auto counted = database->collect_garbage(engines, options);
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  EXPECT_EQ(database->info()->measurements, 8);
  options.dry_run = false;
  const auto dropped = database->collect_garbage(engines, options);
  ASSERT_TRUE(dropped.ok());
  for (const CollectReport& report : {*counted, *dropped}) {
    EXPECT_EQ(report.old_revisions, 1);
    EXPECT_EQ(report.old_providers, 1);
    EXPECT_EQ(report.unused, 1);
    EXPECT_EQ(report.left, 5);
  }
  EXPECT_EQ(database->info()->measurements, 5);
  EXPECT_EQ(database->info()->problems, 3);
  EXPECT_TRUE(database->check().ok());
}

// An engine whose library isn't here.
class AbsentEngine final : public NamedEngine, public LoadsProvider {
 public:
  using NamedEngine::NamedEngine;
  std::optional<std::string> provider() const override { return std::nullopt; }
};

TEST_F(Database, OperatorsAndConversionsAreKeptAndCollectedByTheirRevision) {
  const auto database = open();
  MeasurementKey key = key_of(1);
  for (const auto& [problem, candidate] : {std::pair("op:Relu:x=f32,3,nchw:y=f32,3,nchw", "ops.Relu"),
                                           std::pair("convert:x=f32,3,nchw:y=bf16,3,nchw", "convert")}) {
    key.problem = problem;
    Measurement measured = timed(candidate, 1);
    measured.revision = selection::kStepRevision;
    measured.provider = selection::step_provider();
    ASSERT_TRUE(database->store(key, measured).ok());
    EXPECT_TRUE(is_current(database->find(key)->front(), all_engines()));
    measured.revision = selection::kStepRevision - 1;
    ASSERT_TRUE(database->store(key, measured).ok());
    EXPECT_FALSE(is_current(measured, all_engines()));
  }
  const auto collected = database->collect_garbage(all_engines(), {});
  ASSERT_TRUE(collected.ok()) << collected.error().message;
  EXPECT_EQ(collected->old_revisions, 2);
  EXPECT_EQ(collected->left, 2);
}

TEST_F(Database, ForgettingDropsWhatIsNamedAndCountsBefore) {
  const auto database = open();
  for (int n = 1; n <= 3; ++n) {
    ASSERT_TRUE(database->store(key_of(n), timed("a{tile=3}", 1)).ok());
    ASSERT_TRUE(database->store(key_of(n), timed("a{tile=4}", 1)).ok());
    ASSERT_TRUE(database->store(key_of(n), timed("b", 1)).ok());
  }
  const auto one = [&](const TuningRecord& r) {
    return r.key.problem == key_of(2).problem && print(r.measurement.candidate) == "a{tile=4}";
  };
  EXPECT_EQ(*database->forget(one, true), 1);
  EXPECT_EQ(database->info()->measurements, 9);
  EXPECT_EQ(*database->forget(one), 1);
  EXPECT_EQ(*database->forget(one), 0);
  const auto left = database->find(key_of(2));
  ASSERT_EQ(left->size(), 2u);
  EXPECT_EQ(print((*left)[0].candidate), "a{tile=3}");
  EXPECT_EQ(*database->forget([&](const TuningRecord& r) { return r.key.problem == key_of(3).problem; }), 3);
  EXPECT_EQ(database->info()->problems, 2);
  EXPECT_EQ(*database->forget([](const TuningRecord&) { return true; }), 5);
  EXPECT_EQ(database->info()->devices, 0);
  EXPECT_TRUE(database->check().ok());
}

TEST_F(Database, RowsOfALibraryThatIsNotHereAreLeftAlone) {
  const AbsentEngine absent("lib.engine", 2, "lib");
  {
    const auto database = open();
    for (const auto& [revision, provider] : {std::pair{1, "lib 1"}, {2, "lib 1"}, {2, "lib 2"}}) {
      Measurement measurement = timed("lib.engine", 1);
      measurement.revision = revision;
      measurement.provider = provider;
      ASSERT_TRUE(database->store(key_of(1), measurement).ok());
    }
  }
  sql("UPDATE measurements SET date = '2020-01-01T00:00:00Z'");
  const std::vector<const Engine*> engines = {&absent};
  const auto report = open()->collect_garbage(engines, {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->old_revisions, 1);  // Convoy's own, whatever the library
  EXPECT_EQ(report->old_providers, 0);
  EXPECT_EQ(report->unknown_providers, 2);
  EXPECT_EQ(report->left, 2);
  // Nor are they current: nobody can run them.
  Measurement measurement = timed("lib.engine", 1);
  measurement.revision = 2;
  measurement.provider = "lib";
  EXPECT_FALSE(is_current(measurement, engines));
}

TEST_F(Database, AskingForAProblemCountsAsUse) {
  { ASSERT_TRUE(open()->store(key_of(1), timed("a", 1)).ok()); }
  sql("UPDATE problems SET last_used = '2020-01-01'");
  ASSERT_EQ(open(Access::read)->find(key_of(1))->size(), 1u);
  EXPECT_GT(sql("SELECT last_used FROM problems"), "2026-01-01");
}

TEST(Location, FollowsTheVariables) {
  const auto with = [](const char* db, const char* xdg, const char* home) {
    const auto set = [](const char* name, const char* value) {
      value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
    };
    set("CONVOY_DB", db);
    set("XDG_DATA_HOME", xdg);
    set("HOME", home);
    const auto path = TuningDatabase::default_path();
    return path.ok() ? *path : "error: " + path.error().message;
  };
  EXPECT_EQ(with("a.db", "/data", "/home/me"), "a.db");
  EXPECT_EQ(with(nullptr, "/data", "/home/me"), "/data/convoy/tuning.db");
  EXPECT_EQ(with(nullptr, "relative", "/home/me"), "/home/me/.local/share/convoy/tuning.db");
  EXPECT_EQ(with("", "", "/home/me"), "/home/me/.local/share/convoy/tuning.db");
  EXPECT_TRUE(with(nullptr, nullptr, nullptr).starts_with("error: no place"));
}

}  // namespace
}  // namespace convoy
