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
#include "report/program_report.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

std::string state_of(const Recorded& each) {
  if (each.failure) return "failed";
  if (each.selection.measurements.empty()) return "not measured";
  if (!each.inferred) return fmt::format("if it did {}", name_of(each.problem.math));
  return each.partial ? "partial" : each.measured == 0 ? "known before" : "";
}

// The table; for --json, a row each.
Json say_findings(const Program& program, const RecordTuner& tuner) {
  using report::Align;
  report::Table table;
  table.column("calls", Align::right).column("share", Align::right, 2).column("problem").column("ran", Align::left, 1);
  table.column("time", Align::right).column("best", Align::left).column("time", Align::right);
  table.column("gain x calls", Align::right).column("known", Align::right, 3).column("now", Align::right, 3).column("");
  Json json = Json::array();
  for (const Recorded& each : tuner.recorded()) {
    const Finding finding = tuner.finding(each);
    const bool gains = each.inferred && finding.gain > 0;
    const std::string math =
        each.problem.math == MathMode::reduced ? "" : fmt::format(" {}", name_of(each.problem.math));
    table.row({fmt::format("{}", each.calls), each.inferred ? report::percent(each.share) : "",
               report::short_name(each.problem) + math, each.plans.empty() ? "-" : each.plans.front().candidate,
               finding.ran_seconds > 0 ? report::seconds(finding.ran_seconds) : "-",
               finding.best != nullptr ? print(finding.best->candidate) : "-",
               finding.best != nullptr ? report::seconds(finding.best->median_seconds) : "-",
               gains ? report::seconds(finding.gain) : "", fmt::format("{}", each.selection.measurements.size()),
               fmt::format("{}", each.measured), state_of(each)},
              each.failure ? report::Style::bad
              : gains      ? report::Style::good
                           : report::Style::plain);
    Json entry = {{"problem", print(each.problem)},
                  {"calls", each.calls},
                  {"inferred", each.inferred},
                  {"share", each.share},
                  {"measured", each.measured},
                  {"known", each.selection.measurements.size()},
                  {"partial", each.partial},
                  {"ran", Json::array()},
                  {"timed_calls", finding.timed_calls},
                  {"seconds", finding.seconds},
                  {"gain_seconds", each.inferred ? Json(finding.gain) : Json()}};
    for (const report::RecordedPlan& plan : each.plans) {
      entry["ran"].push_back({{"candidate", plan.candidate}, {"calls", plan.calls}});
    }
    if (finding.ran_seconds > 0) entry["ran_seconds"] = finding.ran_seconds;
    if (!each.not_here.empty()) entry["not_measured"] = each.not_here;
    const auto put = [&](const char* name, const Measurement* m) {
      if (m != nullptr) entry[name] = {{"candidate", print(m->candidate)}, {"seconds", m->median_seconds}};
    };
    put("best", finding.best);
    put("elsewhere", finding.elsewhere);
    if (each.failure) entry["failure"] = each.failure->message;
    json.push_back(std::move(entry));
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

  std::int64_t calls = 0, timed = 0, measured = 0, settled = 0, partial = 0;
  double seconds = 0, gain = 0, elsewhere = 0;
  bool wrong = false, unsupported = false;
  for (const Recorded& each : tuner.recorded()) {
    measured += each.measured;
    partial += each.partial;
    settled += !each.partial && each.measured == 0 && !each.failure;
    wrong = wrong || (each.failure && each.failure->code == ErrorCode::wrong_result);
    unsupported = unsupported || (each.failure && each.failure->code != ErrorCode::wrong_result);
    if (!each.inferred) continue;
    const Finding finding = tuner.finding(each);
    calls += each.calls;
    timed += finding.timed_calls;
    seconds += finding.seconds;
    gain += finding.gain;
    if (finding.elsewhere != nullptr && finding.best != nullptr) {
      elsewhere +=
          (finding.best->median_seconds - finding.elsewhere->median_seconds) * static_cast<double>(finding.timed_calls);
    }
  }
  const double spent = monotonic_seconds() - tuning.start;
  program.say(
      fmt::format("\n{} of {} calls have a time: {} with what ran, {} with the best that loses no precision or "
                  "determinism by it: a "
                  "gain of {} ({})",
                  timed, calls, report::seconds(seconds), report::seconds(seconds - gain), report::seconds(gain),
                  report::percent(seconds > 0 ? gain / seconds : 0)));
  if (elsewhere > 0) {
    program.say(
        fmt::format("{} more with other math or other notes, which convoy exec --like-benchmark gives a program as "
                    "far as its own filters take them",
                    report::seconds(elsewhere)));
  }
  program.say(fmt::format("covers {:.0f}% of the calls' time, shared out {}", 100 * tuner.covered(),
                          tuner.predicted_and_known()));
  if (tuner.offered_seconds() > 0) {
    program.say(fmt::format("what cuDNN offers first was measured in {}", report::seconds(tuner.offered_seconds())));
  }
  program.say(fmt::format("{} problems, {}; {} in {}, in {}", tuner.recorded().size(),
                          settled > 0 ? fmt::format("{} had nothing open and were skipped", settled) : "none skipped",
                          measured == 0 ? "nothing to measure" : fmt::format("{} candidates measured", measured),
                          report::seconds(spent), info.path));
  if (partial > 0) {
    program.say(fmt::format("{}: {} problem{} partial; the same command goes on from here{}",
                            interrupted() ? "interrupted" : "the time ended", partial, partial == 1 ? " is" : "s are",
                            program.shared.budget < 0 ? ", --budget 5min for longer" : ""));
  }
  say_remarks(program, tuner, record, request);
  if (!info.remark.empty()) program.note(fmt::format("{}: {}", info.path, info.remark));
  program.document({{"target", tuning.name},
                    {"database", info.path},
                    {"measured", measured},
                    {"stored", store.stored},
                    {"skipped", settled},
                    {"partial", partial},
                    {"interrupted", interrupted()},
                    {"covered", tuner.covered()},
                    {"calls", calls},
                    {"timed_calls", timed},
                    {"seconds_of_what_ran", seconds},
                    {"gain_seconds", gain},
                    {"elsewhere_seconds", elsewhere},
                    {"seconds", spent},
                    {"budget_seconds", tuner.budget_seconds()},
                    {"offered_seconds", tuner.offered_seconds()},
                    {"spent", spent_json()},
                    {"plan", plan},
                    {"rules", rules},
                    {"problems", std::move(problems)}});
  return interrupted() ? kInterrupted : wrong ? kWrongResult : unsupported ? kUnsupported : kDone;
}

}  // namespace convoy::cli
