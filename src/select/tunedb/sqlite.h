// SQLite with Results: a connection, a statement. Every error names the file. A fork waits while SQLite runs.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fork_mutex.h"
#include "convoy/result.h"

namespace convoy::tunedb {

// How long to wait for other processes. A transaction here takes milliseconds; whoever needs seconds is stuck.
inline constexpr int kBusyMilliseconds = 20'000;

class Statement;

class Connection {
 public:
  // `flags` are sqlite3_open_v2's; `name` is what it opens (a path, a "file:" URI, ":memory:"), `path` what errors say.
  static Result<Connection> open(const std::string& name, const std::string& path, int flags);

  // One or more statements without parameters.
  Result<void> run(const std::string& sql) const;
  // The same, tried again for a while where another process holds the file in a way that SQLite doesn't wait for.
  Result<void> run_patiently(const std::string& sql) const;
  Result<Statement> prepare(std::string_view sql) const;
  // The first column of the first row.
  Result<std::string> text(std::string_view sql) const;
  Result<std::int64_t> integer(std::string_view sql) const;
  // Runs `body` between BEGIN IMMEDIATE and COMMIT; rolls back where it fails or returns without `commit`.
  Result<void> transaction(const std::function<Result<void>()>& body, bool commit = true) const;

  // The error for a SQLite result code: corrupt, not_found, unsupported (read-only), out_of_memory or internal.
  Error error(int code) const;
  const std::string& path() const { return path_; }
  sqlite3* get() const { return handle_.get(); }
  std::int64_t changes() const { return sqlite3_changes64(get()); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const {
      const NoFork no_fork;
      sqlite3_close_v2(handle);
    }
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

class Statement {
 public:
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind_optional(const std::optional<double>& value);
  Statement& bind_optional(const std::optional<std::string>& value);

  // True: a row is there. False: no more.
  Result<bool> step();
  // Runs it to its end and makes it ready for other parameters.
  Result<void> finish();

  std::string text(int column) const;
  std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
  double real(int column) const { return sqlite3_column_double(get(), column); }
  bool is_null(int column) const { return sqlite3_column_type(get(), column) == SQLITE_NULL; }

 private:
  friend class Connection;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const {
      const NoFork no_fork;
      sqlite3_finalize(statement);
    }
  };
  sqlite3_stmt* get() const { return handle_.get(); }

  const Connection* connection_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;
};

}  // namespace convoy::tunedb
