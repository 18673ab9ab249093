// Opening the file, whatever state and place it is in.
#include "convoy/tuning_database.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "select/tunedb/impl.h"
#include "select/tunedb/location.h"
#include "select/tunedb/schema.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using tunedb::Connection;

constexpr const char* kSharedPlace = "its folder may be shared by several machines, so it has no write-ahead log";

// Write-ahead logs let readers and a writer work at once, but need memory that all processes share.
Result<std::string> choose_journal(const Connection& connection, bool network) {
  CONVOY_TRY(std::string mode, connection.text("PRAGMA journal_mode"));
  const std::string wanted = network ? "delete" : "wal";
  if (mode != wanted) {
    // SQLite answers with the mode that it could have.
    CONVOY_CHECK(connection.run_patiently("PRAGMA journal_mode = " + wanted));
    CONVOY_TRY(mode, connection.text("PRAGMA journal_mode"));
  }
  // Enough with a write-ahead log: a killed process loses nothing, a power failure at most the last commits.
  if (mode == "wal") CONVOY_CHECK(connection.run("PRAGMA synchronous = NORMAL"));
  return mode;
}

Result<void> make_folder(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::not_found, fmt::format("{}: its folder can't be made ({}); CONVOY_DB names another place",
                                                   path, error.message())};
  }
  return {};
}

// SQLite takes a file of a few bytes for an empty database, and would write over it.
bool begins_like_a_database(const std::string& path) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  std::string head(magic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return !file || (file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == magic);
}

bool folder_is_writable(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
}

// "file:" URI of a path.
std::string uri_of(const std::string& path, std::string_view query) {
  std::string uri = "file:";
  for (const char c : path) {
    uri += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return uri + std::string(query);
}

Result<Connection> open_read_only(const std::string& path) {
  CONVOY_TRY(Connection plain, Connection::open(path, path, SQLITE_OPEN_READONLY));
  auto version = tunedb::schema_version(plain);
  if (version.ok()) return plain;
  // In write-ahead mode, but in a folder where even readers can't keep their shared memory. Nobody can write there, so
  // the file is all there is, unless a log was left behind.
  std::error_code none;
  const bool log_left = fs::exists(path + "-wal", none) && fs::file_size(path + "-wal", none) > 0;
  if (log_left || version.error().code == ErrorCode::corrupt) return version.error();
  return Connection::open(uri_of(path, "?immutable=1"), path, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
}

// A copy in memory: for files that can't be written, whose schema may be an older one.
Result<Connection> copy_to_memory(const std::string& path) {
  CONVOY_TRY(const Connection source, open_read_only(path));
  CONVOY_TRY(Connection copy, Connection::open(":memory:", path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  const NoFork no_fork;
  sqlite3_backup* backup = sqlite3_backup_init(copy.get(), "main", source.get(), "main");
  if (backup == nullptr) return copy.error(sqlite3_errcode(copy.get()));
  const int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (code != SQLITE_DONE) return source.error(code);
  return copy;
}

Error nothing_there(const std::string& path) {
  return {ErrorCode::not_found, fmt::format("{}: there is no tuning database; convoy tune makes one", path)};
}

}  // namespace

TuningDatabase::TuningDatabase(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TuningDatabase::~TuningDatabase() = default;

Result<std::unique_ptr<TuningDatabase>> TuningDatabase::open(const std::string& path, Access access) {
  std::error_code none;
  if (fs::is_directory(path, none)) return Error{ErrorCode::invalid_argument, path + ": is a folder"};
  if (access == Access::write) CONVOY_CHECK(make_folder(path));
  std::error_code hidden;
  const bool missing = !fs::exists(path, hidden) || fs::file_size(path, hidden) == 0;
  if (hidden && hidden != std::errc::no_such_file_or_directory) {
    return Error{ErrorCode::not_found, fmt::format("{}: {}", path, hidden.message())};
  }
  if (access == Access::read && missing) return nothing_there(path);

  if (!missing && !begins_like_a_database(path)) {
    return Error{ErrorCode::corrupt, path + ": not a tuning database (nor any SQLite file); nothing in it was changed"};
  }

  const int create = access == Access::write ? SQLITE_OPEN_CREATE : 0;
  CONVOY_TRY(Connection connection, Connection::open(path, path, SQLITE_OPEN_READWRITE | create));
  bool writable = sqlite3_db_readonly(connection.get(), "main") == 0 && folder_is_writable(path);
  // Looked at before anything is changed: what is not ours, damaged or newer stays as it is.
  auto version = tunedb::schema_version(connection);
  if (!version.ok()) {
    // In a folder that can't be written, a write-ahead log's shared memory may be out of reach.
    if (writable || version.error().code == ErrorCode::corrupt) return version.error();
    version = std::int64_t{0};
  }
  std::string remark;
  if (!writable) {
    if (access == Access::write) {
      return Error{ErrorCode::unsupported, fmt::format("{}: the tuning database can't be written", path)};
    }
    CONVOY_TRY(connection, copy_to_memory(path));
    CONVOY_TRY(version, tunedb::schema_version(connection));
    remark = "it can't be written; this is a copy in memory";
  } else {
    const bool network = tunedb::on_network_file_system(path);
    CONVOY_TRY(const std::string mode, choose_journal(connection, network));
    if (mode != "wal") {
      remark = network ? kSharedPlace : "its file system has no shared memory, so it has no write-ahead log";
      log(LogLevel::info, fmt::format("{}: {}", path, remark));
    }
  }
  if (access == Access::read && *version == 0) return nothing_there(path);
  CONVOY_CHECK(connection.run("PRAGMA foreign_keys = ON"));
  if (*version < tunedb::current_version()) CONVOY_CHECK(tunedb::migrate(connection));

  auto impl = std::make_unique<Impl>(std::move(connection));
  impl->writable = writable;
  impl->remark = std::move(remark);
  return std::unique_ptr<TuningDatabase>(new TuningDatabase(std::move(impl)));
}

Result<TuningDatabaseInfo> TuningDatabase::info() const {
  const std::lock_guard lock(impl_->mutex);
  const Connection& connection = impl_->connection;
  TuningDatabaseInfo info;
  info.path = connection.path();
  info.remark = impl_->remark;
  CONVOY_TRY(info.schema_version, connection.integer("PRAGMA user_version"));
  CONVOY_TRY(info.journal, connection.text("PRAGMA journal_mode"));
  CONVOY_TRY(info.devices, connection.integer("SELECT count(*) FROM devices"));
  CONVOY_TRY(info.problems, connection.integer("SELECT count(*) FROM problems"));
  CONVOY_TRY(info.measurements, connection.integer("SELECT count(*) FROM measurements"));
  return info;
}

}  // namespace convoy
