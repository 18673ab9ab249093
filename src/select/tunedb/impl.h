// What the files of the tuning database share.
#pragma once

#include <mutex>

#include "convoy/tuning_database.h"
#include "select/tunedb/sqlite.h"

namespace convoy {

struct [[gnu::visibility("hidden")]] TuningDatabase::Impl {
  tunedb::Connection connection;
  bool writable = false;
  std::string remark;  // TuningDatabaseInfo::remark
  std::mutex mutex;    // around every use of the connection

  explicit Impl(tunedb::Connection opened) : connection(std::move(opened)) {}

  // unsupported, with the remark, where it is not writable.
  Result<void> need_writable() const;
  // Within a transaction. `only_better_state`: leaves a row alone that has a better state.
  Result<void> put(const TuningRecord& record, bool only_better_state) const;
  Result<std::vector<TuningRecord>> all() const;
  // Within a transaction.
  Result<void> remove(const TuningRecord& record) const;
  Result<void> drop_unreferenced() const;  // problems and devices without a measurement
  // For a problem that was asked for: writes the day down, once a day, where nobody makes it wait.
  void note_use(const std::string& problem) const;
};

namespace tunedb {

std::string now_text();  // UTC, as in TuningRecord::date

// SQL: a row of `measurements` is an outdated verdict.
std::string outdated_verdict();

// What makes two records measurements of the same thing, as text.
std::string identity(const TuningRecord& record);

std::string_view code_name(ErrorCode code);
std::optional<ErrorCode> parse_code(std::string_view name);

// The JSON line of a record, without the line's end.
std::string record_line(const TuningRecord& record);

}  // namespace tunedb
}  // namespace convoy
