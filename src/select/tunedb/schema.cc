#include "select/tunedb/schema.h"

#include <fmt/format.h>

#include <new>
#include <vector>

#include "base/log.h"
#include "convoy/engine.h"
#include "select/choose/former_knobs.h"

namespace convoy::tunedb {
namespace {

// The table of measurements, whose rows may be of one of these states of caches; `more` are columns that came later.
std::string measurements_table(std::string_view name, std::string_view caches, std::string_view more = "") {
  return fmt::format(R"sql(
CREATE TABLE {} (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  device_id INTEGER NOT NULL REFERENCES devices (id),
  isa TEXT NOT NULL,
  driver TEXT NOT NULL,
  threads INTEGER NOT NULL,
  weights TEXT NOT NULL CHECK (weights IN ('constant', 'variable')),
  caches TEXT NOT NULL CHECK (caches IN ({})),
  engine TEXT NOT NULL,
  knobs TEXT NOT NULL,
  revision INTEGER NOT NULL,
  provider TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('partial', 'cut_off', 'complete')),
  seconds REAL NOT NULL,
  spread REAL NOT NULL,
  samples INTEGER NOT NULL,
  workspace_bytes INTEGER NOT NULL,
  error REAL NOT NULL,
  error_absolute REAL NOT NULL,
  failure_code TEXT,
  failure TEXT,
  date TEXT NOT NULL,
  {}UNIQUE (problem_id, device_id, isa, driver, threads, weights, caches, engine, knobs, revision, provider)
) STRICT;
)sql",
                     name, caches, more);
}

// A table's checks can't be altered: a table with other ones takes its place. `kept` is what a row's caches become.
std::string with_caches(std::string_view caches, std::string_view kept = "caches") {
  return measurements_table("measurements_new", caches, "energy_joules REAL,\n  ") + fmt::format(R"sql(
INSERT INTO measurements_new SELECT problem_id, device_id, isa, driver, threads, weights, {}, engine, knobs, revision,
  provider, state, seconds, spread, samples, workspace_bytes, error, error_absolute, failure_code, failure, date,
  energy_joules FROM measurements;
DROP TABLE measurements;
ALTER TABLE measurements_new RENAME TO measurements;
)sql",
                                                                                                 kept);
}

std::vector<std::string> make_migrations() {
  return {// 1: devices, problems and measurements.
          R"sql(
CREATE TABLE devices (
  id INTEGER PRIMARY KEY,
  class TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE problems (
  id INTEGER PRIMARY KEY,
  problem TEXT NOT NULL UNIQUE
) STRICT;
)sql" + measurements_table("measurements", "'cold', 'warm'"),
          // 2: energy; the day on which a problem was last asked for, so that gc knows what nobody needs.
          R"sql(
ALTER TABLE measurements ADD COLUMN energy_joules REAL;
ALTER TABLE problems ADD COLUMN last_used TEXT NOT NULL DEFAULT '';
UPDATE problems SET last_used =
  coalesce((SELECT substr(max(date), 1, 10) FROM measurements WHERE problem_id = problems.id), '');
)sql",
          // 3: caches may be 'all-cold', which 'cold' was until then.
          with_caches("'cold', 'warm', 'all-cold'", "CASE caches WHEN 'cold' THEN 'all-cold' ELSE caches END"),
          // 4: caches may be 'network'.
          with_caches("'cold', 'warm', 'all-cold', 'network'"),
          // 5: caches may be 'rotating'.
          with_caches("'cold', 'warm', 'all-cold', 'network', 'rotating'"),
          // 6: the rule that judged a result (verification_rule); until then it was 1.
          "ALTER TABLE measurements ADD COLUMN rule INTEGER NOT NULL DEFAULT 1;",
          // 7: knobs have named values (former_knobs.h).
          R"sql(
UPDATE OR REPLACE measurements
  SET knobs = convoy_named_knobs((SELECT problem FROM problems WHERE id = problem_id), engine, knobs)
  WHERE knobs LIKE '{tile=%' OR knobs LIKE '{layout=%';
)sql"};
}

// convoy_named_knobs(problem, engine, knobs): the knobs as they are written today; what can't be read stays as it is.
void named_knobs(sqlite3_context* context, int, sqlite3_value** arguments) {
  const auto text = [&](int i) {
    const auto* const value = reinterpret_cast<const char*>(sqlite3_value_text(arguments[i]));
    return std::string(value != nullptr ? value : "");
  };
  try {
    std::string knobs = text(2);
    const auto problem = parse_problem(text(0));
    const auto candidate = parse_candidate(text(1) + knobs);
    if (problem.ok() && candidate.ok()) {
      if (const auto named = selection::with_named_knobs(*candidate, &*problem)) {
        knobs = print(*named).substr(named->engine.size());
      }
    }
    sqlite3_result_text(context, knobs.data(), static_cast<int>(knobs.size()), SQLITE_TRANSIENT);
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
}

}  // namespace

std::span<const std::string> migrations() {
  static const auto& made =
      *new std::vector<std::string>(make_migrations());  // never destroyed: databases may outlive main
  return made;
}

Result<std::int64_t> schema_version(const Connection& connection) {
  std::int64_t id, version, tables, before;
  do {  // until all of them were read on one side of another process's making the tables
    CONVOY_TRY(before, connection.integer("PRAGMA application_id"));
    CONVOY_TRY(version, connection.integer("PRAGMA user_version"));
    CONVOY_TRY(tables, connection.integer("SELECT count(*) FROM sqlite_master"));
    CONVOY_TRY(id, connection.integer("PRAGMA application_id"));
  } while (id != before);
  if (id == 0 && version == 0 && tables == 0) return std::int64_t{0};
  if (id != kApplicationId) {
    return Error{ErrorCode::corrupt,
                 fmt::format("{}: a SQLite database, but not Convoy's tuning database; nothing in it was changed",
                             connection.path())};
  }
  if (version > current_version()) {
    return Error{ErrorCode::unsupported,
                 fmt::format("{}: has schema version {}, this Convoy knows up to {}; a newer Convoy wrote it, so use "
                             "that one, or name another file in CONVOY_DB",
                             connection.path(), version, current_version())};
  }
  if (version < 1) {
    return Error{ErrorCode::corrupt, fmt::format("{}: has schema version {}", connection.path(), version)};
  }
  return version;
}

Result<void> migrate(const Connection& connection) {
  return connection.transaction([&]() -> Result<void> {
    // Asked again inside: another process may have migrated it meanwhile.
    CONVOY_TRY(const std::int64_t version, schema_version(connection));
    if (version > 0 && version < current_version()) {  // a damaged file is not taken for a whole one by copying it
      CONVOY_TRY(const std::string finding, connection.text("PRAGMA integrity_check(1)"));
      if (finding != "ok") return Error{ErrorCode::corrupt, fmt::format("{}: {}", connection.path(), finding)};
    }
    const int made = sqlite3_create_function_v2(connection.get(), "convoy_named_knobs", 3, SQLITE_UTF8, nullptr,
                                                named_knobs, nullptr, nullptr, nullptr);
    if (made != SQLITE_OK) return connection.error(made);
    if (version > 0 && version < current_version()) {
      log(LogLevel::info, "tuning_database",
          {{"file", connection.path()}, {"migrated", "knobs such as tile=142 have names now: docs/tuning.md"}});
    }
    for (std::int64_t v = version; v < current_version(); ++v) {
      CONVOY_CHECK(connection.run(migrations()[static_cast<std::size_t>(v)]));
    }
    if (version == current_version()) return {};
    return connection.run(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, current_version()));
  });
}

}  // namespace convoy::tunedb
