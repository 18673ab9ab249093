#include "cli/tune_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/spent.h"
#include "cli/interrupt.h"
#include "cli/record_tuner.h"
#include "cli/tune_report.h"
#include "cli/tuning.h"
#include "device/cuda/cudnn.h"
#include "io/file.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/program_report.h"

namespace convoy::cli {
namespace {

std::string state_of(const Recorded& each) {
  if (each.failure) return "failed";
  if (each.selection.measurements.empty()) return "not measured";
  if (!each.inferred) return fmt::format("if it did {}", name_of(each.problem.math));
  return each.partial ? "partial" : each.measured == 0 ? "known before" : "";
}

// A row of the table.
struct FoundRow {
  const Recorded& of;
  Finding finding;
  bool gains() const { return of.inferred && finding.gain > 0; }
};

report::Listing<FoundRow> listing_of_findings() {
  using report::Align;
  const auto each = [](auto value) { return [value](const FoundRow& row) { return std::invoke(value, row.of); }; };
  const auto found = [](auto value) {
    return [value](const FoundRow& row) { return std::invoke(value, row.finding); };
  };
  const auto unless_empty = [](std::string text) { return text.empty() ? std::nullopt : std::optional(text); };
  const auto problem = [](const Recorded& r) {
    const std::string math = r.problem.math == MathMode::reduced ? "" : fmt::format(" {}", name_of(r.problem.math));
    return report::short_name(r.problem) + math;
  };
  const auto ran = [](const Recorded& r) {
    Json plans = Json::array();
    for (const report::RecordedPlan& plan : r.plans) {
      plans.push_back({{"candidate", plan.candidate}, {"calls", plan.calls}});
    }
    return plans;
  };
  const auto measurement = [](const Measurement* m) {
    return m == nullptr ? std::nullopt
                        : std::optional(Json{{"candidate", print(m->candidate)}, {"seconds", m->median_seconds}});
  };
  const auto ran_seconds = [](const Finding& f) {
    return f.ran_seconds > 0 ? std::optional(f.ran_seconds) : std::nullopt;
  };
  const auto known = each([](const Recorded& r) { return r.selection.measurements.size(); });
  report::Listing<FoundRow> listing;
  listing.field("problem", each([](const Recorded& r) { return print(r.problem); }))
      .column("calls", "calls", each(&Recorded::calls), report::as_text, Align::right)
      .field("inferred", each(&Recorded::inferred))
      .field("share", each(&Recorded::share))
      .cell("share", each([](const Recorded& r) { return r.inferred ? report::percent(r.share) : ""; }), Align::right,
            2)
      .cell("problem", each(problem))
      .cell("ran", each([](const Recorded& r) { return r.plans.empty() ? "-" : r.plans.front().candidate; }),
            Align::left, 1)
      .field("measured", each(&Recorded::measured))
      .field("known", known)
      .field("partial", each(&Recorded::partial))
      .field("ran", each(ran))
      .field("timed_calls", found(&Finding::timed_calls))
      .field("seconds", found(&Finding::seconds))
      .field("gain_seconds", [](const FoundRow& row) { return row.of.inferred ? Json(row.finding.gain) : Json(); })
      .field("ran_seconds", found(ran_seconds))
      .cell("time", found([](const Finding& f) { return f.ran_seconds > 0 ? report::seconds(f.ran_seconds) : "-"; }),
            Align::right)
      .cell("best", found([](const Finding& f) { return f.best != nullptr ? print(f.best->candidate) : "-"; }))
      .cell("time",
            found([](const Finding& f) { return f.best != nullptr ? report::seconds(f.best->median_seconds) : "-"; }),
            Align::right)
      .cell(
          "gain x calls", [](const FoundRow& row) { return row.gains() ? report::seconds(row.finding.gain) : ""; },
          Align::right)
      .cell("known", known, Align::right, 3)
      .cell("now", each(&Recorded::measured), Align::right, 3)
      .cell("", each(state_of))
      .field("not_measured", each([unless_empty](const Recorded& r) { return unless_empty(r.not_here); }))
      .field("best", found([measurement](const Finding& f) { return measurement(f.best); }))
      .field("elsewhere", found([measurement](const Finding& f) { return measurement(f.elsewhere); }))
      .field("failure",
             each([unless_empty](const Recorded& r) { return unless_empty(r.failure ? r.failure->message : ""); }));
  return listing;
}

// The table; for --json, a row each.
Json say_findings(const Program& program, const RecordTuner& tuner) {
  const report::Listing<FoundRow> listing = listing_of_findings();
  report::Table table = listing.table();
  Json json = Json::array();
  for (const Recorded& each : tuner.recorded()) {
    const FoundRow row{each, tuner.finding(each)};
    listing.add(table, row,
                each.failure  ? report::Style::bad
                : row.gains() ? report::Style::good
                              : report::Style::plain);
    json.push_back(listing.json(row));
  }
  program.say(table);
  return json;
}

// What went wrong, and why what ran has no time, each once.
void say_remarks(const Program& program, const RecordTuner& tuner, const report::Record& record,
                 const PlanRequest& request) {
  std::vector<std::string> remarks;
  const auto add = [&](const std::string& text) {
    if (!text.empty() && std::find(remarks.begin(), remarks.end(), text) == remarks.end()) remarks.push_back(text);
  };
  for (const report::RecordedGraph& graph : record.graphs) {
    if (request.cuda && !graph.device.empty() && graph.device != request.cuda->name) {
      add(fmt::format("recorded on {}, measured on {}: what is stored speaks for the latter", graph.device,
                      request.cuda->name));
    }
  }
  for (const Recorded& each : tuner.recorded()) {
    if (each.inferred && !each.not_here.empty()) add("what ran can't be measured here: " + each.not_here);
    if (each.failure) add(each.failure->message);
    for (const std::string& warning : each.selection.warnings) {
      if (!each.partial) add(warning);
    }
  }
  for (const std::string& remark : remarks) program.note(remark);
}

// Where the seconds went; those of threads side by side add up.
Json spent_json() {
  Json json = Json::object();
  for (const auto& [name, sum] : spent_seconds()) json[name] = {{"seconds", sum.seconds}, {"times", sum.times}};
  return json;
}

std::string plan_text(std::span<const Recorded> all) {
  std::string text;
  for (const Recorded& each : all) {
    if (!each.failure && !each.selection.measurements.empty()) {
      text += fmt::format("{} -> {}\n", print(each.problem), print(each.selection.candidate));
    }
  }
  return text;
}

// What all problems came to.
struct Sums {
  std::int64_t calls = 0, timed = 0, measured = 0, settled = 0, partial = 0;
  double seconds = 0, gain = 0, elsewhere = 0;
  bool wrong = false, unsupported = false;
};
Sums sums_of(const RecordTuner& tuner) {
  Sums sums;
  for (const Recorded& each : tuner.recorded()) {
    sums.measured += each.measured;
    sums.partial += each.partial;
    sums.settled += !each.partial && each.measured == 0 && !each.failure;
    sums.wrong = sums.wrong || (each.failure && each.failure->code == ErrorCode::wrong_result);
    sums.unsupported = sums.unsupported || (each.failure && each.failure->code != ErrorCode::wrong_result);
    if (!each.inferred) continue;
    const Finding finding = tuner.finding(each);
    sums.calls += each.calls;
    sums.timed += finding.timed_calls;
    sums.seconds += finding.seconds;
    sums.gain += finding.gain;
    if (finding.elsewhere != nullptr && finding.best != nullptr) {
      sums.elsewhere +=
          (finding.best->median_seconds - finding.elsewhere->median_seconds) * static_cast<double>(finding.timed_calls);
    }
  }
  return sums;
}

void say_sums(const Program& program, const RecordTuner& tuner, const Sums& sums, double spent,
              const std::string& path) {
  program.say(
      fmt::format("\n{} of {} calls have a time: {} with what ran, {} with the best that loses no precision or "
                  "determinism by it: a gain of {} ({})",
                  sums.timed, sums.calls, report::seconds(sums.seconds), report::seconds(sums.seconds - sums.gain),
                  report::seconds(sums.gain), report::percent(sums.seconds > 0 ? sums.gain / sums.seconds : 0)));
  if (sums.elsewhere > 0) {
    program.say(
        fmt::format("{} more with other math or other notes, which convoy exec --like-benchmark gives a program as "
                    "far as its own filters take them",
                    report::seconds(sums.elsewhere)));
  }
  program.say(fmt::format("covers {:.0f}% of the calls' time, shared out {}", 100 * tuner.covered(),
                          tuner.predicted_and_known()));
  if (tuner.offered_seconds() > 0) {
    program.say(fmt::format("what cuDNN offers first was measured in {}", report::seconds(tuner.offered_seconds())));
  }
  program.say(
      fmt::format("{} problems, {}; {} in {}, in {}", tuner.recorded().size(),
                  sums.settled > 0 ? fmt::format("{} had nothing open and were skipped", sums.settled) : "none skipped",
                  sums.measured == 0 ? "nothing to measure" : fmt::format("{} candidates measured", sums.measured),
                  report::seconds(spent), path));
  if (sums.partial > 0) {
    program.say(fmt::format("{}: {} problem{} partial; the same command goes on from here{}",
                            interrupted() ? "interrupted" : "the time ended", sums.partial,
                            sums.partial == 1 ? " is" : "s are",
                            program.shared.budget < 0 ? ", --budget 5min for longer" : ""));
  }
}

}  // namespace

Result<int> tune_record(const Program& program, const report::Record& record, const RecordTuning& tuning,
                        const SelectionOptions& options, const PlanRequest& request, WatchedStore& store,
                        const TuningDatabase& database) {
  for (const std::string& remark : report::former_names(record)) program.note(remark);
  RecordTuner tuner(program, record, tuning, options, request, store);
  if (!tuner.same_library()) {
    program.note(fmt::format(
        "the program uses cuDNN {}, here is {} ({}): times of the latter don't serve it. CONVOY_CUDNN names "
        "another file",
        record.cudnn, tuner.here(), cuda::cudnn_report().file));
  }
  CONVOY_CHECK(tuner.run());
  const std::string plan = plan_text(tuner.recorded());
  if (!tuning.plan_file.empty()) {
    const std::string text = plan_heading(tuning.name, request) + plan;
    CONVOY_CHECK(io::write_file(tuning.plan_file, std::as_bytes(std::span(text))));
  }
  std::vector<ConvolutionNode> convolutions;
  for (const Recorded& each : tuner.recorded()) convolutions.push_back({each.problem, {}});
  const Json rules = say_rule_uses(program, "--rules", options.rules, convolutions);
  CONVOY_TRY(const TuningDatabaseInfo info, database.info());
  program.say(fmt::format("{} on {}\n", tuning.name, place_of(request)));
  Json problems = say_findings(program, tuner);

  const Sums sums = sums_of(tuner);
  const double spent = monotonic_seconds() - tuning.start;
  say_sums(program, tuner, sums, spent, info.path);
  say_remarks(program, tuner, record, request);
  if (!info.remark.empty()) program.note(fmt::format("{}: {}", info.path, info.remark));
  program.document({{"target", tuning.name},
                    {"database", info.path},
                    {"measured", sums.measured},
                    {"stored", store.stored},
                    {"skipped", sums.settled},
                    {"partial", sums.partial},
                    {"interrupted", interrupted()},
                    {"covered", tuner.covered()},
                    {"calls", sums.calls},
                    {"timed_calls", sums.timed},
                    {"seconds_of_what_ran", sums.seconds},
                    {"gain_seconds", sums.gain},
                    {"elsewhere_seconds", sums.elsewhere},
                    {"seconds", spent},
                    {"budget_seconds", tuner.budget_seconds()},
                    {"offered_seconds", tuner.offered_seconds()},
                    {"spent", spent_json()},
                    {"plan", plan},
                    {"rules", rules},
                    {"problems", std::move(problems)}});
  return interrupted() ? kInterrupted : sums.wrong ? kWrongResult : sums.unsupported ? kUnsupported : kDone;
}

}  // namespace convoy::cli
