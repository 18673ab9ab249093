// The tuning database: measurements in a SQLite file that several processes may use at once, and their exchange as
// text.
//
// A measurement is on disk when store() returns: killing the process at any moment loses nothing that was stored. (In
// write-ahead mode a power failure may lose the last few; the file stays whole.) Errors, besides those named below:
//   corrupt      the file is not a tuning database, or damaged; it is left as it is
//   unsupported  a newer Convoy wrote it, or it can't be written
//   internal     another process held it for 20 s, the disk is full, input or output failed
// Every message names the file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/measurement.h"

namespace convoy {

// The revision of the rule that says which results are wrong (the tolerance of an output, and what is compared with
// it). 1 left bias, beta*out and gamma*z out of the sum whose roundings the tolerance allows for; 2 took integers
// beyond 2^24 that f32 could not hold as right in some outputs and as wrong in others.
inline constexpr int verification_rule = 3;

struct TuningRecord {
  MeasurementKey key;
  Measurement measurement;
  std::string date;              // when it was stored, UTC: "2026-11-21T15:41:02Z"
  int rule = verification_rule;  // that judged it
};

// Whether an older rule found it wrong: it may be right, so it is as if it had not been measured.
bool is_outdated_verdict(const TuningRecord& record);

// Which of two records of the same key, candidate, revision and provider to keep. In this order: one that is no
// outdated verdict, a wrong result (a time never outweighs it), the better state, more samples, the smaller spread, the
// newer date; then, so that merging gives the same from either side, the shorter time and the text of the record.
bool better_attested(const TuningRecord& a, const TuningRecord& b);

struct MergeReport {
  std::int64_t added = 0;
  std::int64_t replaced = 0;  // by the better-attested record
  std::int64_t kept = 0;      // what was there was as good or better
};

struct CollectOptions {
  int unused_days = 180;
  bool dry_run = false;  // count only
};
struct CollectReport {
  std::int64_t old_revisions = 0;      // rows of engines that have a newer revision
  std::int64_t old_providers = 0;      // rows of another version of an engine's provider, not measured for unused_days
  std::int64_t unknown_providers = 0;  // left alone: rows of engines whose library can't be loaded here
  std::int64_t old_verdicts = 0;       // wrong results by a rule that has changed since (is_outdated_verdict)
  std::int64_t unused = 0;             // rows of problems that nobody asked for in unused_days
  std::int64_t left = 0;               // rows
};

struct TuningDatabaseInfo {
  std::string path;
  std::int64_t schema_version = 0;
  std::string journal;  // "wal"; "delete" where shared memory can't be had; "memory" for a copy of a read-only file
  std::string remark;   // why it is not in write-ahead mode or can't be written; empty otherwise
  std::int64_t devices = 0, problems = 0, measurements = 0;
};

class TuningDatabase final : public MeasurementStore {
 public:
  // The variable CONVOY_DB, else convoy/tuning.db in XDG_DATA_HOME, else in ~/.local/share. invalid_argument where none
  // of CONVOY_DB, XDG_DATA_HOME and HOME is set.
  static Result<std::string> default_path();

  enum class Access {
    read,   // never makes a file. Notes the day on which a problem was asked for, and migrates an older schema, where
            // the file can be written; otherwise works on a copy in memory.
    write,  // makes the file and its folders where they are missing
  };
  // read: not_found where there is no file, or an empty one.
  static Result<std::unique_ptr<TuningDatabase>> open(const std::string& path, Access access);
  ~TuningDatabase() override;

  // Outdated verdicts are not found, and store() replaces them.
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override;
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override;

  // All of it, outdated verdicts too, ordered by key, candidate, revision and provider.
  Result<std::vector<TuningRecord>> records() const;

  // All or nothing.
  Result<MergeReport> merge(std::span<const TuningRecord> records);

  // Drops rows of old revisions of `engines`, of their providers' other versions where they are old (and the library is
  // here to say its own), outdated verdicts, and rows of problems long unused. What other engines, or newer revisions,
  // measured stays.
  Result<CollectReport> collect_garbage(std::span<const Engine* const> engines, const CollectOptions& options);

  // Drops the rows that `which` says, or only counts them.
  Result<std::int64_t> forget(const std::function<bool(const TuningRecord&)>& which, bool dry_run = false);

  // SQLite's own check of the whole file: corrupt with its first finding.
  Result<void> check() const;

  Result<TuningDatabaseInfo> info() const;

 private:
  struct Impl;
  explicit TuningDatabase(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// JSON lines that a person can read and diff: a line with the format's version, then a line a record, in the order of
// records() and with their fields always in the same order. Numbers survive the way there and back.
std::string export_lines(std::span<const TuningRecord> records);
// The same back. Errors (corrupt) name `file`, the line and the field; unsupported where the format is a newer one.
Result<std::vector<TuningRecord>> parse_lines(std::string_view text, std::string_view file);

}  // namespace convoy
