// Files of other schema versions, of other programs, and damaged ones.
#include "select/tunedb/schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "convoy/tuning_database.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using Access = TuningDatabase::Access;

// What a Convoy with schema version 1 wrote; never changes.
constexpr const char* kVersion1 = R"sql(
PRAGMA application_id = 1131312761;
PRAGMA user_version = 1;
CREATE TABLE devices (id INTEGER PRIMARY KEY, class TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE problems (id INTEGER PRIMARY KEY, problem TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE measurements (
  problem_id INTEGER NOT NULL REFERENCES problems (id), device_id INTEGER NOT NULL REFERENCES devices (id),
  isa TEXT NOT NULL, driver TEXT NOT NULL, threads INTEGER NOT NULL,
  weights TEXT NOT NULL CHECK (weights IN ('constant', 'variable')),
  caches TEXT NOT NULL CHECK (caches IN ('cold', 'warm')), engine TEXT NOT NULL, knobs TEXT NOT NULL,
  revision INTEGER NOT NULL, provider TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('partial', 'cut_off', 'complete')), seconds REAL NOT NULL, spread REAL NOT NULL,
  samples INTEGER NOT NULL, workspace_bytes INTEGER NOT NULL, error REAL NOT NULL, error_absolute REAL NOT NULL,
  failure_code TEXT, failure TEXT, date TEXT NOT NULL,
  UNIQUE (problem_id, device_id, isa, driver, threads, weights, caches, engine, knobs, revision, provider)) STRICT;
INSERT INTO devices VALUES (1, 'cpu Test l1d=32K l2=1M l3=8M');
INSERT INTO problems VALUES (7, 'fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nchw');
INSERT INTO measurements VALUES (7, 1, 'avx2', '', 2, 'constant', 'cold', 'cpu.winograd', '{m=4}', 3, '', 'complete',
  1.25e-5, 0.02, 50, 4096, 0.125, 1e-6, NULL, NULL, '2026-10-01T08:00:00Z');
INSERT INTO measurements VALUES (7, 1, 'avx2', '', 2, 'constant', 'cold', 'cpu.gemm', '', 1, '', 'complete',
  0, 0, 1, 0, 9, 1, 'wrong_result', 'out[0,0,0,0] is 2, the oracle says 1', '2026-10-02T08:00:00Z');
)sql";

class Schema : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("convoy_schema_test_{}", ::getpid());
    fs::create_directories(folder_);
    path_ = folder_ / "tuning.db";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void make(const std::string& sql) const {
    auto file = tunedb::Connection::open(path_, path_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    ASSERT_TRUE(file.ok());
    const auto done = file->run(sql);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(Schema, AVersion1FileMigratesAndKeepsItsRows) {
  make(kVersion1);
  const auto database = TuningDatabase::open(path_, Access::read);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const auto records = (*database)->records();
  ASSERT_TRUE(records.ok()) << records.error().message;
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ(print((*records)[0].measurement.candidate), "cpu.gemm");
  EXPECT_EQ((*records)[0].measurement.failure->code, ErrorCode::wrong_result);
  EXPECT_TRUE(is_outdated_verdict((*records)[0]));
  const TuningRecord& record = (*records)[1];
  EXPECT_EQ(print(record.measurement.candidate), "cpu.winograd{m=4}");
  EXPECT_EQ(record.measurement.median_seconds, 1.25e-5);
  EXPECT_EQ(record.measurement.revision, 3);
  EXPECT_FALSE(record.measurement.energy_joules.has_value());
  EXPECT_EQ(record.key.threads, 2);
  EXPECT_EQ(record.key.caches, CacheState::all_cold);  // what 'cold' was before version 3
  EXPECT_EQ((*database)->info()->schema_version, tunedb::current_version());
  // A problem counts as used when it was last measured, so gc doesn't take a migrated file for garbage.
  const auto file = tunedb::Connection::open(path_, path_, SQLITE_OPEN_READONLY);
  EXPECT_EQ(*file->text("SELECT last_used FROM problems"), "2026-10-02");
  EXPECT_EQ((*database)->find(record.key)->size(), 1u);  // not what the first rule found wrong
}

TEST_F(Schema, EveryStateOfTheCachesIsStored) {
  make(kVersion1);
  const auto database = TuningDatabase::open(path_, Access::write);
  ASSERT_TRUE(database.ok()) << database.error().message;
  MeasurementKey key{.problem = "p", .device = "cuda Test", .isa = "sm_90", .driver = "580.1 CUDA 13.0"};
  for (const CacheState caches :
       {CacheState::cold, CacheState::warm, CacheState::all_cold, CacheState::network, CacheState::rotating}) {
    key.caches = caches;
    const auto stored = (*database)->store(key, {.candidate = {"cuda.any", {}}, .median_seconds = 1e-5});
    ASSERT_TRUE(stored.ok()) << stored.error().message;
    EXPECT_EQ((*database)->find(key)->size(), 1u);
  }
}

// What a Convoy with schema version 3 made, from its own migrations, which never change.
TEST_F(Schema, AVersion3FileMigratesAndKeepsItsRows) {
  std::string sql;
  for (int i = 0; i < 3; ++i) sql += tunedb::migrations()[static_cast<std::size_t>(i)];
  sql += R"sql(
PRAGMA application_id = 1131312761;
PRAGMA user_version = 3;
INSERT INTO devices VALUES (1, 'cpu Test l1d=32K l2=1M l3=8M');
INSERT INTO problems VALUES (7, 'fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nchw', '2026-10-01');
INSERT INTO measurements VALUES (7, 1, 'avx2', '', 2, 'constant', 'all-cold', 'cpu.winograd', '{m=4}', 3, '', 'complete',
  1.25e-5, 0.02, 50, 4096, 0.125, 1e-6, NULL, NULL, '2026-10-01T08:00:00Z', 0.5);
)sql";
  make(sql);
  const auto database = TuningDatabase::open(path_, Access::write);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const auto records = (*database)->records();
  ASSERT_EQ(records->size(), 1u);
  TuningRecord record = records->front();
  EXPECT_EQ(print(record.measurement.candidate), "cpu.winograd{m=4}");
  EXPECT_EQ(record.key.caches, CacheState::all_cold);
  EXPECT_EQ(record.measurement.energy_joules, 0.5);
  EXPECT_EQ(record.measurement.workspace_bytes, 4096u);
  EXPECT_EQ(record.date, "2026-10-01T08:00:00Z");
  EXPECT_EQ((*database)->info()->schema_version, tunedb::current_version());
  record.key.caches = CacheState::network;
  EXPECT_TRUE((*database)->store(record.key, record.measurement).ok());
}

// Version 6 had configurations packed into numbers.
TEST_F(Schema, AVersion6FilesKnobsGetNames) {
  std::string sql;
  for (int i = 0; i < 6; ++i) sql += tunedb::migrations()[static_cast<std::size_t>(i)];
  sql += R"sql(
PRAGMA application_id = 1131312761;
PRAGMA user_version = 6;
INSERT INTO devices VALUES (1, 'cpu Test l1d=32K l2=1M l3=8M');
INSERT INTO problems VALUES (7, 'fprop:x=f32,1x8x6x6,nchw:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nchw', '2026-10-01');
INSERT INTO problems VALUES (8, 'fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3,nchw:y=f32,1x8x4x4,nhwc', '2026-10-01');
)sql";
  const auto row = [&](int problem, const char* engine, const char* knobs, double seconds) {
    sql += fmt::format(
        "INSERT INTO measurements (problem_id, device_id, isa, driver, threads, weights, caches, engine, knobs, "
        "revision, "
        "provider, state, seconds, spread, samples, workspace_bytes, error, error_absolute, date) VALUES ({}, 1, "
        "'avx2', "
        "'', 2, 'constant', 'all-cold', '{}', '{}', 3, '', 'complete', {}, 0.02, 50, 0, 0.1, 1e-6, "
        "'2026-10-01T08:00:00Z');\n",
        problem, engine, knobs, seconds);
  };
  row(7, "cpu.gemm", "{tile=83}", 1);
  row(8, "cpu.gemm", "{tile=142}", 2);
  row(8, "cpu.direct", "{tile=61}", 3);
  row(8, "cpu.winograd", "{m=4}", 4);
  row(8, "cuda.depthwise", "{tile=600562232}", 5);
  row(8, "onednn.gemm", "{layout=1}", 6);
  row(8, "somebodys.engine", "{tile=7}", 7);
  make(sql);
  const auto database = TuningDatabase::open(path_, Access::write);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const auto records = (*database)->records();
  ASSERT_TRUE(records.ok()) << records.error().message;
  std::map<double, std::string> named;
  for (const TuningRecord& record : *records) {
    named[record.measurement.median_seconds] = print(record.measurement.candidate);
    EXPECT_EQ(record.measurement.revision, 3);
  }
  const std::map<double, std::string> expected = {
      {1, "cpu.gemm{channels=8,position_vectors=3}"},
      {2, "cpu.gemm{channel_vectors=2,positions=14}"},
      {3, "cpu.direct{channel_vectors=1,positions=6}"},
      {4, "cpu.winograd{m=4}"},
      {5, "cuda.depthwise{channels=32,kernel=pixel_bands,rows=56,unroll=2,warp_channels=2}"},
      {6, "onednn.gemm{layout=preferred}"},
      {7, "somebodys.engine{tile=7}"}};
  EXPECT_EQ(named, expected);
}

TEST_F(Schema, TheFirstMigrationMakesWhatVersion1Wrote) {
  make(std::string(tunedb::migrations()[0]));
  const auto made = tunedb::Connection::open(path_, path_, SQLITE_OPEN_READONLY);
  const auto columns = "SELECT group_concat(name || type || \"notnull\") FROM pragma_table_info('measurements')";
  const std::string ours = *made->text(columns);
  fs::remove(path_);
  make(kVersion1);
  const auto old = tunedb::Connection::open(path_, path_, SQLITE_OPEN_READONLY);
  EXPECT_EQ(ours, *old->text(columns));
}

TEST_F(Schema, ANewerFileIsRefusedAndLeftAlone) {
  make(fmt::format("{} PRAGMA user_version = {};", kVersion1, tunedb::current_version() + 1));
  const std::string before = bytes();
  for (const Access access : {Access::read, Access::write}) {
    const auto database = TuningDatabase::open(path_, access);
    ASSERT_FALSE(database.ok());
    EXPECT_EQ(database.error().code, ErrorCode::unsupported);
    EXPECT_NE(database.error().message.find("a newer Convoy wrote it"), std::string::npos);
    EXPECT_NE(database.error().message.find(path_), std::string::npos);
  }
  EXPECT_EQ(bytes(), before);
}

TEST_F(Schema, OtherDatabasesAndOtherFilesAreNamedAndLeftAlone) {
  make("CREATE TABLE bookmarks (url TEXT)");
  const std::string other_database = bytes();
  const std::string text = "These are a person's notes, not a database. " + std::string(2000, 'x');
  std::string damaged;
  {
    fs::remove(path_);
    make(kVersion1);
    damaged = bytes();
    for (std::size_t i = 4096; i < damaged.size(); ++i) damaged[i] = static_cast<char>(i * 31);
  }
  for (const std::string& content : {other_database, text, damaged}) {
    std::ofstream(path_, std::ios::binary) << content;
    for (const Access access : {Access::read, Access::write}) {
      const auto database = TuningDatabase::open(path_, access);
      Error error;
      if (database.ok()) {  // the damage is in a table
        const auto records = (*database)->records();
        ASSERT_FALSE(records.ok());
        error = records.error();
        EXPECT_FALSE((*database)->check().ok());
      } else {
        error = database.error();
      }
      EXPECT_EQ(error.code, ErrorCode::corrupt) << error.message;
      EXPECT_NE(error.message.find(path_), std::string::npos) << error.message;
    }
    if (content != damaged) {
      EXPECT_EQ(bytes(), content);
    }
  }
}

TEST_F(Schema, ATruncatedFileNeverCrashesAndNeverIsTakenForWhole) {
  make(kVersion1);
  const std::string whole = bytes();
  for (std::size_t size = 1; size < whole.size(); size += 977) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const auto database = TuningDatabase::open(path_, Access::read);
    if (database.ok()) {
      EXPECT_FALSE((*database)->check().ok() && (*database)->records().ok()) << size;
    } else {
      EXPECT_EQ(database.error().code, ErrorCode::corrupt) << size << ": " << database.error().message;
    }
  }
}

}  // namespace
}  // namespace convoy
