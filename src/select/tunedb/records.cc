// Rows and records: reading and writing measurements.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>
#include <limits>

#include "select/tunedb/impl.h"

namespace convoy {
namespace {

using tunedb::Statement;

constexpr std::string_view kColumns =
    "p.problem, d.class, m.isa, m.driver, m.threads, m.weights, m.caches, m.engine || m.knobs, m.revision, m.provider, "
    "m.state, m.seconds, m.spread, m.samples, m.workspace_bytes, m.error, m.error_absolute, m.energy_joules, "
    "m.failure_code, m.failure, m.date, m.rule";
constexpr std::string_view kTables =
    "measurements m JOIN problems p ON p.id = m.problem_id JOIN devices d ON d.id = m.device_id";

constexpr std::array<std::pair<ErrorCode, std::string_view>, 8> kCodes = {{
    {ErrorCode::invalid_argument, "invalid_argument"},
    {ErrorCode::not_found, "not_found"},
    {ErrorCode::corrupt, "corrupt"},
    {ErrorCode::unsupported, "unsupported"},
    {ErrorCode::out_of_memory, "out_of_memory"},
    {ErrorCode::wrong_result, "wrong_result"},
    {ErrorCode::device_failed, "device_failed"},
    {ErrorCode::internal, "internal"},
}};

std::string knob_text(const Candidate& candidate) { return print(candidate).substr(candidate.engine.size()); }

// JSON and SQLite have no NaN; an error that can't be given is as bad as can be.
double number(double value) { return std::isnan(value) ? std::numeric_limits<double>::infinity() : value; }

// A row in the order of kColumns.
Result<TuningRecord> read_row(const Statement& row) {
  TuningRecord record;
  MeasurementKey& key = record.key;
  key.problem = row.text(0);
  key.device = row.text(1);
  key.isa = row.text(2);
  key.driver = row.text(3);
  key.threads = static_cast<int>(row.integer(4));
  key.constant_weights = row.text(5) == "constant";
  CONVOY_TRY(key.caches, parse_cache_state(row.text(6)));
  Measurement& measurement = record.measurement;
  CONVOY_TRY(measurement.candidate, parse_candidate(row.text(7)));
  measurement.revision = static_cast<int>(row.integer(8));
  measurement.provider = row.text(9);
  CONVOY_TRY(measurement.state, parse_measurement_state(row.text(10)));
  measurement.median_seconds = row.real(11);
  measurement.spread = row.real(12);
  measurement.samples = static_cast<int>(row.integer(13));
  measurement.workspace_bytes = static_cast<std::size_t>(row.integer(14));
  measurement.max_error = row.real(15);
  measurement.max_error_absolute = row.real(16);
  if (!row.is_null(17)) measurement.energy_joules = row.real(17);
  if (!row.is_null(18)) {
    measurement.failure = Error{tunedb::parse_code(row.text(18)).value_or(ErrorCode::internal), row.text(19)};
  }
  record.date = row.text(20);
  record.rule = static_cast<int>(row.integer(21));
  return record;
}

// The records of all rows that a statement finds.
Result<std::vector<TuningRecord>> read_all(Statement& statement, const tunedb::Connection& connection) {
  std::vector<TuningRecord> records;
  while (true) {
    CONVOY_TRY(const bool more, statement.step());
    if (!more) return records;
    auto record = read_row(statement);
    if (!record.ok()) return Error{ErrorCode::corrupt, connection.path() + ": " + record.error().message};
    records.push_back(*std::move(record));
  }
}

}  // namespace

std::string tunedb::now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string tunedb::identity(const TuningRecord& record) {
  const MeasurementKey& key = record.key;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", key.problem, key.device, key.isa, key.driver,
                     key.threads, key.constant_weights, name_of(key.caches), print(record.measurement.candidate),
                     record.measurement.revision, record.measurement.provider);
}

std::string tunedb::outdated_verdict() {
  return fmt::format("(measurements.failure_code = '{}' AND measurements.rule < {})",
                     code_name(ErrorCode::wrong_result), verification_rule);
}

std::string_view tunedb::code_name(ErrorCode code) {
  for (const auto& [known, name] : kCodes) {
    if (known == code) return name;
  }
  return "internal";
}

std::optional<ErrorCode> tunedb::parse_code(std::string_view name) {
  for (const auto& [code, known] : kCodes) {
    if (known == name) return code;
  }
  return std::nullopt;
}

Result<void> TuningDatabase::Impl::need_writable() const {
  if (writable) return {};
  return Error{ErrorCode::unsupported, fmt::format("{}: {}", connection.path(), remark)};
}

Result<void> TuningDatabase::Impl::put(const TuningRecord& record, bool only_better_state) const {
  const MeasurementKey& key = record.key;
  const Measurement& m = record.measurement;
  CONVOY_TRY(Statement problem, connection.prepare("INSERT INTO problems (problem, last_used) VALUES (?, ?) "
                                                   "ON CONFLICT DO UPDATE SET last_used = "
                                                   "max(last_used, excluded.last_used)"));
  CONVOY_CHECK(problem.bind(key.problem).bind(record.date.substr(0, 10)).finish());
  CONVOY_TRY(Statement device, connection.prepare("INSERT OR IGNORE INTO devices (class) VALUES (?)"));
  CONVOY_CHECK(device.bind(key.device).finish());

  std::string sql =
      "INSERT INTO measurements (problem_id, device_id, isa, driver, threads, weights, caches, engine, knobs, revision,"
      " provider, state, seconds, spread, samples, workspace_bytes, error, error_absolute, energy_joules, failure_code,"
      " failure, date, rule) VALUES ((SELECT id FROM problems WHERE problem = ?), (SELECT id FROM devices WHERE class "
      "= ?),"
      " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
      " state = excluded.state, seconds = excluded.seconds, spread = excluded.spread, samples = excluded.samples,"
      " workspace_bytes = excluded.workspace_bytes, error = excluded.error, error_absolute = excluded.error_absolute,"
      " energy_joules = excluded.energy_joules, failure_code = excluded.failure_code, failure = excluded.failure,"
      " date = excluded.date, rule = excluded.rule";
  if (only_better_state) {
    const auto rank = [](std::string_view table) {
      return fmt::format("(CASE {}.state WHEN 'partial' THEN 0 WHEN 'cut_off' THEN 1 ELSE 2 END)", table);
    };
    sql += fmt::format(" WHERE {} >= {} OR (excluded.caches = 'network' AND excluded.state <> 'partial') OR {}",
                       rank("excluded"), rank("measurements"), tunedb::outdated_verdict());
  }
  std::optional<std::string> failure_code, failure;
  if (m.failure) {
    failure_code = tunedb::code_name(m.failure->code);
    failure = m.failure->message;
  }
  CONVOY_TRY(Statement row, connection.prepare(sql));
  row.bind(key.problem).bind(key.device).bind(key.isa).bind(key.driver).bind(std::int64_t{key.threads});
  row.bind(key.constant_weights ? "constant" : "variable").bind(name_of(key.caches));
  row.bind(m.candidate.engine).bind(knob_text(m.candidate)).bind(std::int64_t{m.revision}).bind(m.provider);
  row.bind(name_of(m.state)).bind(number(m.median_seconds)).bind(number(m.spread)).bind(std::int64_t{m.samples});
  row.bind(static_cast<std::int64_t>(m.workspace_bytes)).bind(number(m.max_error)).bind(number(m.max_error_absolute));
  row.bind_optional(m.energy_joules).bind_optional(failure_code).bind_optional(failure).bind(record.date);
  row.bind(std::int64_t{record.rule});
  return row.finish();
}

Result<void> TuningDatabase::Impl::remove(const TuningRecord& record) const {
  const MeasurementKey& key = record.key;
  const Measurement& m = record.measurement;
  CONVOY_TRY(
      Statement row,
      connection.prepare("DELETE FROM measurements WHERE problem_id = (SELECT id FROM problems WHERE problem = ?) "
                         "AND device_id = (SELECT id FROM devices WHERE class = ?) AND isa = ? AND driver = ? "
                         "AND threads = ? AND weights = ? AND caches = ? AND engine = ? AND knobs = ? "
                         "AND revision = ? AND provider = ?"));
  row.bind(key.problem).bind(key.device).bind(key.isa).bind(key.driver).bind(std::int64_t{key.threads});
  row.bind(key.constant_weights ? "constant" : "variable").bind(name_of(key.caches));
  row.bind(m.candidate.engine).bind(knob_text(m.candidate)).bind(std::int64_t{m.revision}).bind(m.provider);
  return row.finish();
}

Result<void> TuningDatabase::Impl::drop_unreferenced() const {
  CONVOY_CHECK(connection.run("DELETE FROM problems WHERE id NOT IN (SELECT problem_id FROM measurements)"));
  return connection.run("DELETE FROM devices WHERE id NOT IN (SELECT device_id FROM measurements)");
}

void TuningDatabase::Impl::note_use(const std::string& problem) const {
  const std::string today = tunedb::now_text().substr(0, 10);
  auto older = connection.prepare("SELECT 1 FROM problems WHERE problem = ? AND last_used < ?");
  if (!older.ok()) return;
  const auto found = older->bind(problem).bind(today).step();
  static_cast<void>(older->finish());
  if (!found.ok() || !*found) return;
  auto update = connection.prepare("UPDATE problems SET last_used = ? WHERE problem = ?");
  if (!update.ok()) return;
  sqlite3_busy_timeout(connection.get(), 0);  // not worth a wait: the next reader does it
  static_cast<void>(update->bind(today).bind(problem).finish());
  sqlite3_busy_timeout(connection.get(), tunedb::kBusyMilliseconds);
}

Result<std::vector<TuningRecord>> TuningDatabase::Impl::all() const {
  CONVOY_TRY(Statement rows, connection.prepare(fmt::format(
                                 "SELECT {} FROM {} ORDER BY p.problem, d.class, m.isa, m.driver, m.threads, "
                                 "m.weights, m.caches, m.engine || m.knobs, m.revision, m.provider",
                                 kColumns, kTables)));
  return read_all(rows, connection);
}

Result<std::vector<Measurement>> TuningDatabase::find(const MeasurementKey& key) {
  const std::lock_guard lock(impl_->mutex);
  CONVOY_TRY(Statement rows, impl_->connection.prepare(fmt::format(
                                 "SELECT {} FROM {} WHERE p.problem = ? AND d.class = ? AND m.isa = ? AND m.driver = ? "
                                 "AND m.threads = ? AND m.weights = ? AND m.caches = ? "
                                 "ORDER BY m.engine || m.knobs, m.revision, m.provider",
                                 kColumns, kTables)));
  rows.bind(key.problem).bind(key.device).bind(key.isa).bind(key.driver).bind(std::int64_t{key.threads});
  rows.bind(key.constant_weights ? "constant" : "variable").bind(name_of(key.caches));
  CONVOY_TRY(std::vector<TuningRecord> records, read_all(rows, impl_->connection));
  CONVOY_CHECK(rows.finish());
  if (!records.empty() && impl_->writable) impl_->note_use(key.problem);
  std::vector<Measurement> measurements;
  for (TuningRecord& record : records) {
    if (!is_outdated_verdict(record)) measurements.push_back(std::move(record.measurement));
  }
  return measurements;
}

Result<void> TuningDatabase::store(const MeasurementKey& key, const Measurement& measurement) {
  CONVOY_CHECK(impl_->need_writable());
  if (measurement.failure && measurement.failure->code == ErrorCode::out_of_memory) return {};
  const std::lock_guard lock(impl_->mutex);
  const TuningRecord record{key, measurement, tunedb::now_text()};
  return impl_->connection.transaction([&] { return impl_->put(record, true); });
}

Result<std::vector<TuningRecord>> TuningDatabase::records() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->all();
}

}  // namespace convoy
