// Merging, collecting what is outdated, checking the file.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "core/provider.h"
#include "select/measure/step_measurement.h"
#include "select/tunedb/impl.h"

namespace convoy {

bool is_outdated_verdict(const TuningRecord& record) {
  const auto& failure = record.measurement.failure;
  return failure && failure->code == ErrorCode::wrong_result && record.rule < verification_rule;
}

bool better_attested(const TuningRecord& a, const TuningRecord& b) {
  const auto rank = [](const TuningRecord& record) {
    const Measurement& m = record.measurement;
    const bool wrong = m.failure && m.failure->code == ErrorCode::wrong_result;
    return std::tuple(!is_outdated_verdict(record), wrong, m.state, m.samples, -m.spread, std::string_view(record.date),
                      -m.median_seconds);
  };
  if (rank(a) != rank(b)) return rank(a) > rank(b);
  return tunedb::record_line(a) < tunedb::record_line(b);
}

Result<MergeReport> TuningDatabase::merge(std::span<const TuningRecord> records) {
  CONVOY_CHECK(impl_->need_writable());
  const std::lock_guard lock(impl_->mutex);
  MergeReport report;
  CONVOY_CHECK(impl_->connection.transaction([&]() -> Result<void> {
    CONVOY_TRY(std::vector<TuningRecord> present, impl_->all());
    std::map<std::string, TuningRecord> known;
    for (TuningRecord& record : present) known.emplace(tunedb::identity(record), std::move(record));
    for (const TuningRecord& record : records) {
      const auto [row, added] = known.emplace(tunedb::identity(record), record);
      if (!added && !better_attested(record, row->second)) {
        ++report.kept;
        continue;
      }
      ++(added ? report.added : report.replaced);
      row->second = record;
      CONVOY_CHECK(impl_->put(record, false));
    }
    return {};
  }));
  return report;
}

Result<CollectReport> TuningDatabase::collect_garbage(std::span<const Engine* const> engines,
                                                      const CollectOptions& options) {
  CONVOY_CHECK(impl_->need_writable());
  if (options.unused_days < 0) {
    return Error{ErrorCode::invalid_argument, fmt::format("unused_days={} is negative", options.unused_days)};
  }
  const std::lock_guard lock(impl_->mutex);
  const tunedb::Connection& connection = impl_->connection;
  CollectReport report;
  const auto body = [&]() -> Result<void> {
    CONVOY_TRY(const std::string oldest,
               connection.text(fmt::format("SELECT date('now', '-{} days')", options.unused_days)));
    for (const Engine* engine : engines) {
      const EngineInfo& info = engine->info();
      CONVOY_TRY(auto revisions, connection.prepare("DELETE FROM measurements WHERE engine = ? AND revision < ?"));
      CONVOY_CHECK(revisions.bind(info.name).bind(std::int64_t{info.revision}).finish());
      report.old_revisions += connection.changes();
      const std::optional<std::string> provider = provider_of(*engine);
      if (!provider) {
        CONVOY_TRY(auto rows,
                   connection.prepare("SELECT count(*) FROM measurements WHERE engine = ? AND revision = ?"));
        CONVOY_CHECK(rows.bind(info.name).bind(std::int64_t{info.revision}).step());
        report.unknown_providers += rows.integer(0);
        continue;
      }
      CONVOY_TRY(auto providers, connection.prepare("DELETE FROM measurements WHERE engine = ? AND revision = ? "
                                                    "AND provider <> ? AND substr(date, 1, 10) < ?"));
      CONVOY_CHECK(providers.bind(info.name).bind(std::int64_t{info.revision}).bind(*provider).bind(oldest).finish());
      report.old_providers += connection.changes();
    }
    CONVOY_TRY(auto steps,
               connection.prepare("DELETE FROM measurements WHERE (engine = 'convert' OR engine GLOB 'ops.*')"
                                  " AND revision < ?"));
    CONVOY_CHECK(steps.bind(std::int64_t{selection::kStepRevision}).finish());
    report.old_revisions += connection.changes();
    CONVOY_CHECK(connection.run("DELETE FROM measurements WHERE " + tunedb::outdated_verdict()));
    report.old_verdicts = connection.changes();
    CONVOY_TRY(auto unused, connection.prepare("DELETE FROM measurements WHERE problem_id IN "
                                               "(SELECT id FROM problems WHERE last_used < ?)"));
    CONVOY_CHECK(unused.bind(oldest).finish());
    report.unused = connection.changes();
    CONVOY_CHECK(impl_->drop_unreferenced());
    CONVOY_TRY(report.left, connection.integer("SELECT count(*) FROM measurements"));
    return {};
  };
  CONVOY_CHECK(connection.transaction(body, !options.dry_run));
  // Gives the space back; somebody else at work is reason enough to leave it.
  if (!options.dry_run) static_cast<void>(connection.run("VACUUM"));
  return report;
}

Result<std::int64_t> TuningDatabase::forget(const std::function<bool(const TuningRecord&)>& which, bool dry_run) {
  CONVOY_CHECK(impl_->need_writable());
  const std::lock_guard lock(impl_->mutex);
  std::int64_t dropped = 0;
  const auto body = [&]() -> Result<void> {
    CONVOY_TRY(const std::vector<TuningRecord> records, impl_->all());
    for (const TuningRecord& record : records) {
      if (!which(record)) continue;
      ++dropped;
      if (!dry_run) CONVOY_CHECK(impl_->remove(record));
    }
    return impl_->drop_unreferenced();
  };
  CONVOY_CHECK(impl_->connection.transaction(body, !dry_run));
  if (!dry_run && dropped > 0) static_cast<void>(impl_->connection.run("VACUUM"));
  return dropped;
}

Result<void> TuningDatabase::check() const {
  const std::lock_guard lock(impl_->mutex);
  CONVOY_TRY(const std::string finding, impl_->connection.text("PRAGMA integrity_check(1)"));
  if (finding != "ok") {
    return Error{ErrorCode::corrupt, fmt::format("{}: {}", impl_->connection.path(), finding)};
  }
  CONVOY_TRY(const std::string orphan, impl_->connection.text("PRAGMA foreign_key_check"));
  if (!orphan.empty()) {
    return Error{ErrorCode::corrupt, fmt::format("{}: a row of {} refers to none", impl_->connection.path(), orphan)};
  }
  return {};
}

}  // namespace convoy
