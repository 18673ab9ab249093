// The tables of the tuning database, and how older files become current.
#pragma once

#include <span>
#include <string_view>

#include "select/tunedb/sqlite.h"

namespace convoy::tunedb {

// "Cnvy": SQLite's application_id of a tuning database.
inline constexpr std::int64_t kApplicationId = 0x436e7679;

// Migration i takes a file from schema version i to i + 1; the first one makes the tables. Released ones never change:
// another version is another row. The last one calls convoy_named_knobs(), which migrate() provides.
std::span<const std::string> migrations();
inline std::int64_t current_version() { return static_cast<std::int64_t>(migrations().size()); }

// The schema version of the file, 0 where nothing is in it yet. Errors: corrupt where it is another program's database,
// unsupported where a newer Convoy wrote it. Changes nothing.
Result<std::int64_t> schema_version(const Connection& connection);

// Brings the file to the current version, all in one transaction; does nothing where it is current.
Result<void> migrate(const Connection& connection);

}  // namespace convoy::tunedb
