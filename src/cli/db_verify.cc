// convoy db verify: does what was stored still hold?
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/clock.h"
#include "cli/db.h"
#include "report/listing.h"
#include "report/progress.h"
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

// Of the measurements that match, those that this machine and build can repeat, and of these as many as are asked for.
struct RecordSample {
  std::size_t matching = 0, repeatable = 0;
  std::map<std::string, std::int64_t> elsewhere;  // why the others can't be repeated, and how many they are
  std::vector<TuningRecord> records;
};

RecordSample sample_of(std::vector<TuningRecord> records, const VerifyFlags& flags, const PlanRequest& request) {
  RecordSample sample{.matching = records.size()};
  std::erase_if(records, [&](const TuningRecord& record) {
    const auto why = selection::inapplicable(record.key, record.measurement, request, all_engines());
    if (why) ++sample.elsewhere[*why];
    return why.has_value();
  });
  sample.repeatable = records.size();
  std::mt19937_64 random(flags.seed);
  for (std::size_t i = records.size(); i > 1; --i) std::swap(records[i - 1], records[random() % i]);
  // Those that choices are made by before the rough ones.
  std::stable_partition(records.begin(), records.end(), [](const TuningRecord& record) {
    return record.measurement.state == MeasurementState::complete;
  });
  records.resize(std::min(records.size(), static_cast<std::size_t>(flags.sample)));
  sample.records = std::move(records);
  return sample;
}

struct Checked {
  TuningRecord record;
  Measurement now;
  Verdict verdict;
};

// Measures the sample again, within the budget. Error: the device was lost, or what was measured can't be stored.
Result<std::vector<Checked>> measured_again(const RecordSample& sample, const VerifyFlags& flags,
                                            const PlanRequest& request, TuningDatabase& database) {
  std::vector<Checked> all;
  report::Progress bar("verifying");
  const double start = monotonic_seconds();
  for (const TuningRecord& record : sample.records) {
    const double left = flags.budget - (monotonic_seconds() - start);
    if (left <= 0) break;
    const Candidate& candidate = record.measurement.candidate;
    const std::size_t open = sample.records.size() - all.size();
    bar.update(static_cast<double>(all.size()) / static_cast<double>(sample.records.size()), print(candidate));
    auto measured =
        selection::measure_again(record.key, candidate, request, all_engines(), left / static_cast<double>(open));
    if (!measured.ok() && measured.error().code == ErrorCode::device_failed) return measured.error();
    const bool comparable = record.key.caches != CacheState::network;
    if (flags.update && measured.ok() && comparable) CONVOY_CHECK(database.store(record.key, *measured));
    Measurement now;
    if (measured.ok()) {
      now = *std::move(measured);
    } else {
      now.failure = measured.error();
    }
    const Verdict verdict = judge(record, now);
    all.push_back({record, std::move(now), verdict});
  }
  bar.finish();
  return all;
}

report::Listing<Checked> listing_of_checked() {
  using report::Align;
  const auto time = [](const Measurement& m) { return m.failure ? "-" : report::seconds(m.median_seconds); };
  report::Listing<Checked> listing;
  listing.field("problem", [](const Checked& c) { return c.record.key.problem; })
      .column("candidate", "candidate", [](const Checked& c) { return print(c.record.measurement.candidate); })
      .field("threads", [](const Checked& c) { return c.record.key.threads; })
      .field("caches", [](const Checked& c) { return name_of(c.record.key.caches); })
      .field("stored_seconds", [](const Checked& c) { return c.record.measurement.median_seconds; })
      .cell(
          "stored", [time](const Checked& c) { return time(c.record.measurement); }, Align::right)
      .field("seconds",
             [](const Checked& c) { return c.now.failure ? std::nullopt : std::optional(c.now.median_seconds); })
      .cell(
          "now", [time](const Checked& c) { return time(c.now); }, Align::right)
      .field("error", [](const Checked& c) { return report::number_or_null(c.now.max_error); })
      .cell(
          "error/tol", [](const Checked& c) { return c.now.failure ? "-" : report::number(c.now.max_error); },
          Align::right, 1)
      .column("what it says", "verdict", [](const Checked& c) { return c.verdict.text; })
      .cell("problem", [](const Checked& c) { return c.record.key.problem; });
  return listing;
}

std::string summary_of(const RecordSample& sample, std::size_t checked, const PlanRequest& request,
                       std::map<Verdict::Kind, std::int64_t>& verdicts) {
  if (checked == 0 && sample.matching == 0) return "nothing could be checked: no measurement matches";
  if (checked == 0) {
    return fmt::format("nothing could be checked on {}: of {} measurement{}, {}", place_of(request), sample.matching,
                       sample.matching == 1 ? "" : "s", listed(sample.elsewhere));
  }
  return fmt::format(
             "checked {} of {} measurements that this machine and build can repeat: {} hold, {} changed, {} right "
             "without a time to compare, {} wrong, {} failed",
             checked, sample.repeatable, verdicts[Verdict::holds], verdicts[Verdict::changed], verdicts[Verdict::right],
             verdicts[Verdict::wrong], verdicts[Verdict::failed]) +
         (sample.elsewhere.empty() ? "" : "\nnot checked: " + listed(sample.elsewhere));
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
  const RecordSample sample = sample_of(std::move(records), flags, request);
  CONVOY_TRY(const std::vector<Checked> all, measured_again(sample, flags, request, *database));

  const report::Listing<Checked> listing = listing_of_checked();
  report::Table table = listing.table();
  Json json = Json::array();
  std::map<Verdict::Kind, std::int64_t> verdicts;
  for (const Checked& checked : all) {
    ++verdicts[checked.verdict.kind];
    listing.add(table, checked, style_of(checked.verdict.kind));
    json.push_back(listing.json(checked));
  }
  if (!table.empty()) program.say(table);
  const std::int64_t bad = verdicts[Verdict::wrong] + verdicts[Verdict::failed];
  program.say("\n" + summary_of(sample, all.size(), request, verdicts));
  program.document({{"records", sample.matching},
                    {"repeatable", sample.repeatable},
                    {"not_repeatable", sample.elsewhere},
                    {"checked", all.size()},
                    {"changed", verdicts[Verdict::changed]},
                    {"right", verdicts[Verdict::right]},
                    {"failed", bad},
                    {"measurements", std::move(json)}});
  if (verdicts[Verdict::wrong] > 0) return kWrongResult;
  return bad > 0 || all.empty() ? kFailed : kDone;
}

}  // namespace convoy::cli
