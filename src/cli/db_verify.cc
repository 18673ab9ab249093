// convoy db verify: does what was stored still hold?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/clock.h"
#include "cli/db.h"
#include "report/format.h"
#include "report/progress.h"
#include "report/table.h"
#include "select/measure/recheck.h"

namespace convoy::cli {
namespace {

// Another time of day, another neighbour in the caches: within this factor a time has not changed.
constexpr double kSameFactor = 1.5;

struct Verdict {
  enum Kind { holds, changed, right, wrong, failed };
  Kind kind;
  std::string text;
};

Verdict judge(const TuningRecord& record, const Measurement& now) {
  const Measurement& stored = record.measurement;
  if (now.failure) {
    if (stored.failure) return {Verdict::holds, "fails as it did: " + now.failure->message};
    const bool wrong = now.failure->code == ErrorCode::wrong_result;
    return {wrong ? Verdict::wrong : Verdict::failed, now.failure->message};
  }
  if (stored.failure) return {Verdict::changed, "right now; stored as failed: " + stored.failure->message};
  if (record.key.caches == CacheState::network) return {Verdict::right, "right; the stored time is of a network"};
  if (stored.state != MeasurementState::complete) {
    return {Verdict::right, fmt::format("right; the stored time is rough ({})", name_of(stored.state))};
  }
  const double factor = now.median_seconds / stored.median_seconds;
  if (factor > kSameFactor) return {Verdict::changed, "slower"};
  if (factor < 1 / kSameFactor) return {Verdict::changed, "faster"};
  return {Verdict::holds, "holds"};
}

report::Style style_of(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::holds:
    case Verdict::right:
      return report::Style::plain;
    case Verdict::changed:
      return report::Style::warning;
    case Verdict::wrong:
    case Verdict::failed:
      break;
  }
  return report::Style::bad;
}

}  // namespace

Result<int> verify_database(const Program& program, const VerifyFlags& flags) {
  CONVOY_CHECK(open_database(TuningDatabase::Access::read));
  CONVOY_TRY(const auto database,
             open_database(flags.update ? TuningDatabase::Access::write : TuningDatabase::Access::read));
  CONVOY_CHECK(database->check());
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(std::vector<TuningRecord> records, database->records());
  CONVOY_TRY(records, matching(std::move(records), flags.filter));
  const std::size_t count = records.size();
  std::map<std::string, std::int64_t> elsewhere;
  std::erase_if(records, [&](const TuningRecord& record) {
    const auto why = selection::inapplicable(record.key, record.measurement, request, all_engines());
    if (why) ++elsewhere[*why];
    return why.has_value();
  });
  const std::size_t eligible = records.size();
  std::mt19937_64 random(flags.seed);
  for (std::size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[random() % i]);
  // Those that choices are made by before the rough ones.
  std::stable_partition(records.begin(), records.end(), [](const TuningRecord& record) {
    return record.measurement.state == MeasurementState::complete;
  });
  records.resize(std::min(records.size(), static_cast<std::size_t>(flags.sample)));

  report::Table table;
  using report::Align;
  table.column("candidate")
      .column("stored", Align::right)
      .column("now", Align::right)
      .column("error/tol", Align::right, 1);
  table.column("").column("problem");
  Json json = Json::array();
  std::map<Verdict::Kind, std::int64_t> verdicts;
  std::size_t done = 0;
  report::Progress bar("verifying");
  const double start = monotonic_seconds();
  for (const TuningRecord& record : records) {
    const double left = flags.budget - (monotonic_seconds() - start);
    if (left <= 0) break;
    const Candidate& candidate = record.measurement.candidate;
    bar.update(static_cast<double>(done) / static_cast<double>(records.size()), print(candidate));
    auto measured = selection::measure_again(record.key, candidate, request, all_engines(),
                                             left / static_cast<double>(records.size() - done));
    ++done;
    if (!measured.ok() && measured.error().code == ErrorCode::device_failed) return measured.error();
    Measurement now;
    if (measured.ok()) {
      now = *std::move(measured);
    } else {
      now.failure = measured.error();
    }
    const Verdict verdict = judge(record, now);
    ++verdicts[verdict.kind];
    const auto time = [](const Measurement& m) { return m.failure ? "-" : report::seconds(m.median_seconds); };
    table.row({print(candidate), time(record.measurement), time(now), now.failure ? "-" : report::number(now.max_error),
               verdict.text, record.key.problem},
              style_of(verdict.kind));
    Json entry = {{"problem", record.key.problem},
                  {"candidate", print(candidate)},
                  {"threads", record.key.threads},
                  {"caches", name_of(record.key.caches)},
                  {"stored_seconds", record.measurement.median_seconds},
                  {"error", report::number_or_null(now.max_error)},
                  {"verdict", verdict.text}};
    if (!now.failure) entry["seconds"] = now.median_seconds;
    json.push_back(std::move(entry));
    const bool comparable = record.key.caches != CacheState::network;
    if (flags.update && measured.ok() && comparable) CONVOY_CHECK(database->store(record.key, now));
  }
  bar.finish();
  if (!table.empty()) program.say(table);
  const std::int64_t bad = verdicts[Verdict::wrong] + verdicts[Verdict::failed];
  std::string summary;
  if (done == 0) {
    summary = count == 0 ? "nothing could be checked: no measurement matches"
                         : fmt::format("nothing could be checked on {}: of {} measurement{}, {}", place_of(request),
                                       count, count == 1 ? "" : "s", listed(elsewhere));
  } else {
    summary = fmt::format(
        "checked {} of {} measurements that this machine and build can repeat: {} hold, {} changed, {} right without a "
        "time to compare, {} wrong, {} failed",
        done, eligible, verdicts[Verdict::holds], verdicts[Verdict::changed], verdicts[Verdict::right],
        verdicts[Verdict::wrong], verdicts[Verdict::failed]);
    if (!elsewhere.empty()) summary += fmt::format("\nnot checked: {}", listed(elsewhere));
  }
  program.say("\n" + summary);
  program.document({{"records", count},
                    {"repeatable", eligible},
                    {"not_repeatable", elsewhere},
                    {"checked", done},
                    {"changed", verdicts[Verdict::changed]},
                    {"right", verdicts[Verdict::right]},
                    {"failed", bad},
                    {"measurements", std::move(json)}});
  if (verdicts[Verdict::wrong] > 0) return kWrongResult;
  return bad > 0 || done == 0 ? kFailed : kDone;
}

}  // namespace convoy::cli
