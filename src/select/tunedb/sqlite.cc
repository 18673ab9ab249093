#include "select/tunedb/sqlite.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/fork_mutex.h"
#include "select/tunedb/location.h"

namespace convoy::tunedb {
namespace {

constexpr int kRetryMilliseconds = 20;

}  // namespace

std::string sqlite_version() { return sqlite3_libversion(); }

Result<Connection> Connection::open(const std::string& name, const std::string& path, int flags) {
  Connection connection;
  connection.path_ = path;
  sqlite3* handle = nullptr;
  const NoFork no_fork;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  connection.handle_.reset(handle);
  if (code != SQLITE_OK) return connection.error(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  return connection;
}

Error Connection::error(int code) const {
  const std::string what = handle_ ? sqlite3_errmsg(get()) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return {ErrorCode::corrupt,
              fmt::format("{}: not a tuning database ({}); nothing in it was changed", path_, what)};
    case SQLITE_CORRUPT:
      return {
          ErrorCode::corrupt,
          fmt::format("{}: the tuning database is corrupt ({}); move it away and import an export of it", path_, what)};
    case SQLITE_CANTOPEN:
      return {ErrorCode::not_found, fmt::format("{}: can't be opened ({})", path_, what)};
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return {ErrorCode::unsupported, fmt::format("{}: can't be written ({})", path_, what)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::internal, fmt::format("{}: another process has held the tuning database for {} s ({})", path_,
                                               kBusyMilliseconds / 1000, what)};
    case SQLITE_NOMEM:
      return {ErrorCode::out_of_memory, fmt::format("{}: {}", path_, what)};
    default:
      return {ErrorCode::internal, fmt::format("{}: {}", path_, what)};
  }
}

Result<void> Connection::run(const std::string& sql) const {
  const NoFork no_fork;
  const int code = sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

Result<void> Connection::run_patiently(const std::string& sql) const {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const int code = [&] {
      const NoFork no_fork;
      return sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr);
    }();
    if (code == SQLITE_OK) return {};
    const bool late = std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(kBusyMilliseconds);
    if ((code & 0xff) != SQLITE_BUSY || late) return error(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(kRetryMilliseconds));
  }
}

Result<Statement> Connection::prepare(std::string_view sql) const {
  Statement statement;
  statement.connection_ = this;
  sqlite3_stmt* handle = nullptr;
  const NoFork no_fork;
  const int code = sqlite3_prepare_v2(get(), sql.data(), static_cast<int>(sql.size()), &handle, nullptr);
  if (code != SQLITE_OK) return error(code);
  statement.handle_.reset(handle);
  return statement;
}

Result<std::string> Connection::text(std::string_view sql) const {
  CONVOY_TRY(Statement statement, prepare(sql));
  CONVOY_TRY(const bool row, statement.step());
  return row ? statement.text(0) : std::string();
}

Result<std::int64_t> Connection::integer(std::string_view sql) const {
  CONVOY_TRY(Statement statement, prepare(sql));
  CONVOY_TRY(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

Result<void> Connection::transaction(const std::function<Result<void>()>& body, bool commit) const {
  CONVOY_CHECK(run_patiently("BEGIN IMMEDIATE"));
  Result<void> done = body();
  if (done.ok() && commit) done = run_patiently("COMMIT");
  if (!done.ok() || !commit) static_cast<void>(run("ROLLBACK"));
  return done;
}

Statement& Statement::bind(std::string_view text) {
  const NoFork no_fork;
  sqlite3_bind_text64(get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(get(), ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(get(), ++bound_, value);
  return *this;
}
Statement& Statement::bind_optional(const std::optional<double>& value) {
  if (value) return bind(*value);
  sqlite3_bind_null(get(), ++bound_);
  return *this;
}
Statement& Statement::bind_optional(const std::optional<std::string>& value) {
  if (value) return bind(std::string_view(*value));
  sqlite3_bind_null(get(), ++bound_);
  return *this;
}

Result<bool> Statement::step() {
  const NoFork no_fork;
  const int code = sqlite3_step(get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->error(code);
}

Result<void> Statement::finish() {
  Result<void> done;
  for (bool row = true; row && done.ok();) {
    const auto stepped = step();
    if (!stepped.ok()) done = stepped.error();
    row = stepped.ok() && *stepped;
  }
  const NoFork no_fork;
  sqlite3_reset(get());
  bound_ = 0;
  return done;
}

std::string Statement::text(int column) const {
  const NoFork no_fork;
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
  return data == nullptr ? std::string()
                         : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(get(), column)));
}

}  // namespace convoy::tunedb
