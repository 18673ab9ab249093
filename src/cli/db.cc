// convoy db: what the tuning database holds, in and out as text, and its upkeep.
#include "cli/db.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/provider.h"
#include "device/cuda/device.h"
#include "io/file.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/table.h"
#include "select/choose/engine_list.h"
#include "select/choose/glob.h"
#include "select/choose/names.h"
#include "select/measure/recheck.h"

namespace convoy::cli {
namespace {

using Access = TuningDatabase::Access;

struct DbFlags {
  RecordFilter filter;
  std::string output;
  std::vector<std::string> files;
  CollectOptions collect;
  VerifyFlags verify;
  ForgetFlags forget;
};

Result<int> show_path(const Program& program, const DbFlags&) {
  CONVOY_TRY(const std::string path, TuningDatabase::default_path());
  const auto database = TuningDatabase::open(path, Access::read);
  if (!database.ok() && database.error().code != ErrorCode::not_found) return database.error();
  Json json = {{"path", path}, {"exists", database.ok()}};
  program.say(path);
  if (database.ok()) {
    CONVOY_CHECK((*database)->check());
    CONVOY_TRY(const TuningDatabaseInfo info, (*database)->info());
    std::error_code none;
    const auto bytes = std::filesystem::file_size(path, none);
    program.say(fmt::format("{}: schema {}, journal {}; {} measurements of {} problems on {} device{}",
                            report::bytes(static_cast<double>(bytes)), info.schema_version, info.journal,
                            info.measurements, info.problems, info.devices, info.devices == 1 ? "" : "s"));
    if (!info.remark.empty()) program.say(info.remark);
    const auto plans = kept_plan_files().size();
    if (plans > 0) {
      program.say(
          fmt::format("{} plan{} that convoy tune kept: {}", plans, plans == 1 ? "" : "s", kept_plans_folder()));
    }
    json.update({{"plans", plans},
                 {"bytes", bytes},
                 {"schema_version", info.schema_version},
                 {"journal", info.journal},
                 {"remark", info.remark},
                 {"devices", info.devices},
                 {"problems", info.problems},
                 {"measurements", info.measurements}});
  } else {
    program.say("not there yet; convoy tune makes it");
  }
  program.document(json);
  return kDone;
}

Result<std::vector<TuningRecord>> read_records(const RecordFilter& filter) {
  CONVOY_TRY(const auto database, open_database(Access::read));
  CONVOY_TRY(auto records, database->records());
  return matching(std::move(records), filter);
}

std::string conditions(const MeasurementKey& key) {
  return fmt::format("{}; {}{}, {} thread{}, {} caches, {} weights", key.device, key.isa,
                     key.driver.empty() ? "" : ", driver " + key.driver, key.threads, key.threads == 1 ? "" : "s",
                     name_of(key.caches), key.constant_weights ? "constant" : "variable");
}

// Empty where it is current.
std::string why_outdated(const TuningRecord& record) {
  const Measurement& m = record.measurement;
  if (is_outdated_verdict(record)) return "does not count: found wrong by an older rule; " + m.failure->message;
  if (is_current(m, all_engines())) return {};
  for (const Engine* engine : all_engines()) {
    if (engine->info().name == m.candidate.engine && engine->info().revision == m.revision && !provider_of(*engine)) {
      return fmt::format("{} can't be loaded here", m.provider);
    }
  }
  return fmt::format("outdated: revision {} {}", m.revision, m.provider);
}

Result<int> show(const Program& program, const DbFlags& flags) {
  CONVOY_TRY(auto records, read_records(flags.filter));
  // Fastest first within a key; records() keeps keys together.
  std::stable_sort(records.begin(), records.end(), [](const TuningRecord& a, const TuningRecord& b) {
    if (a.key != b.key) return a.key < b.key;
    const auto rank = [](const Measurement& m) {
      return std::pair(m.failure.has_value(), m.failure ? 0 : m.median_seconds);
    };
    return rank(a.measurement) < rank(b.measurement);
  });
  Json json = Json::array();
  for (std::size_t first = 0; first < records.size();) {
    const MeasurementKey& key = records[first].key;
    program.say(fmt::format("\n{}\n  {}", key.problem, conditions(key)));
    report::Table table;
    using report::Align;
    table.column("candidate").column("time", Align::right).column("spread", Align::right, 1);
    table.column("samples", Align::right, 3).column("state", Align::left, 2).column("workspace", Align::right, 4);
    table.column("error/tol", Align::right, 3).column("measured", Align::left, 2).column("");
    std::size_t i = first;
    for (; i < records.size() && records[i].key == key; ++i) {
      const Measurement& m = records[i].measurement;
      const bool counts = !is_outdated_verdict(records[i]);
      const std::string remark = m.failure && counts ? m.failure->message : why_outdated(records[i]);
      table.row(
          {print(m.candidate), m.failure ? "-" : report::seconds(m.median_seconds),
           m.failure ? "" : report::spread_of(m), fmt::format("{}", m.samples), std::string(name_of(m.state)),
           report::bytes(static_cast<double>(m.workspace_bytes)), report::number(m.max_error), records[i].date, remark},
          m.failure && counts ? report::Style::bad
          : remark.empty()    ? report::Style::plain
                              : report::Style::faint);
      json.push_back(Json::parse(export_lines(std::span(&records[i], 1)).substr(export_lines({}).size())));
    }
    program.say(table, 2);
    first = i;
  }
  if (records.empty()) program.say("no measurement matches");
  program.document({{"records", std::move(json)}});
  return kDone;
}

Result<int> export_records(const Program& program, const DbFlags& flags) {
  CONVOY_TRY(const auto records, read_records(flags.filter));
  const std::string text = export_lines(records);
  if (flags.output.empty()) {
    program.raw(text);
    return kDone;
  }
  CONVOY_CHECK(io::write_file(flags.output, std::as_bytes(std::span(text))));
  program.note(fmt::format("{}: {} records", flags.output, records.size()));
  return kDone;
}

Result<std::vector<TuningRecord>> records_of_export(const std::string& file) {
  CONVOY_TRY(const auto bytes, io::read_file(file));
  return parse_lines({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

Result<std::vector<TuningRecord>> records_of_database(const std::string& file) {
  CONVOY_TRY(const auto database, TuningDatabase::open(file, Access::read));
  return database->records();
}

// All files are read before anything is written.
Result<int> take_in(const Program& program, const DbFlags& flags,
                    Result<std::vector<TuningRecord>> (*read)(const std::string&)) {
  std::vector<std::vector<TuningRecord>> all;
  for (const std::string& file : flags.files) {
    CONVOY_TRY(auto records, read(file));
    all.push_back(std::move(records));
  }
  CONVOY_TRY(const auto database, open_database(Access::write));
  Json json = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CONVOY_TRY(const MergeReport report, database->merge(all[i]));
    program.say(fmt::format("{}: {} added, {} replaced what was there, {} not better than what was there",
                            flags.files[i], report.added, report.replaced, report.kept));
    const Applicable here = applicable(all[i]);
    program.say(fmt::format("  {} of {} apply to this machine{}", here.count, all[i].size(),
                            here.others.empty() ? "" : "; the others: " + listed(here.others)));
    json.push_back({{"file", flags.files[i]},
                    {"added", report.added},
                    {"replaced", report.replaced},
                    {"kept", report.kept},
                    {"applicable", here.count},
                    {"not_applicable", here.others}});
  }
  program.document({{"files", std::move(json)}});
  return kDone;
}

Result<int> collect(const Program& program, const DbFlags& flags) {
  // Nothing to collect is no reason to make a file.
  CONVOY_CHECK(open_database(Access::read));
  CONVOY_TRY(const auto database, open_database(Access::write));
  CONVOY_TRY(const CollectReport report, database->collect_garbage(all_engines(), flags.collect));
  program.say(fmt::format(
      "{} {} of old engine revisions, {} of other provider versions, {} found wrong by an older rule, {} of problems "
      "unused for {} days; {} {}",
      flags.collect.dry_run ? "would drop" : "dropped", report.old_revisions, report.old_providers, report.old_verdicts,
      report.unused, flags.collect.unused_days, report.left, flags.collect.dry_run ? "would be left" : "left"));
  if (report.unknown_providers > 0) {
    program.say(
        fmt::format("{} are of libraries that can't be loaded here: whether these versions are still current is "
                    "not known, so they were left alone",
                    report.unknown_providers));
  }
  program.document({{"dry_run", flags.collect.dry_run},
                    {"old_revisions", report.old_revisions},
                    {"old_providers", report.old_providers},
                    {"old_verdicts", report.old_verdicts},
                    {"unknown_providers", report.unknown_providers},
                    {"unused", report.unused},
                    {"left", report.left}});
  return kDone;
}

void add_filter(Parser app, RecordFilter& filter) {
  begin(app, Subject::input);
  app.add_option("--problem", filter.problems, "Problems whose string matches one of these globs").type_name("GLOB");
  app.add_option("--engines", filter.engines, "Engines that match: 'cpu.*,!cpu.winograd'").type_name("GLOB");
}

}  // namespace

bool matches(const TuningRecord& record, const RecordFilter& filter) {
  return selection::glob_list_matches(filter.problems, record.key.problem) &&
         selection::engine_list_matches(filter.engines, record.measurement.candidate.engine,
                                        record.measurement.candidate.knobs);
}

Result<void> check_matching(const RecordFilter& filter) {
  const auto known = selection::check_engine_globs(filter.engines, all_engines());
  return known.ok() ? known : known.error().within("--engines");
}

Result<std::vector<TuningRecord>> matching(std::vector<TuningRecord> records, const RecordFilter& filter) {
  const bool any = !records.empty();
  std::erase_if(records, [&](const TuningRecord& record) { return !matches(record, filter); });
  // Records may be of engines that this build has no more, so only what matches nothing is looked at.
  if (any && records.empty()) CONVOY_CHECK(check_matching(filter));
  return records;
}

std::string listed(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [what, count] : counts) text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", count, what);
  return text;
}

Applicable applicable(std::span<const TuningRecord> records) {
  std::vector<PlanRequest> places(1);
  places[0].cpu = cpu_features();
  // The driver is loaded only where it matters.
  if (std::any_of(records.begin(), records.end(), [](const auto& r) { return r.key.device.starts_with("cuda "); })) {
    const auto count = cuda::device_count();
    for (int i = 0; count.ok() && i < *count; ++i) {
      places.push_back(places[0]);
      if (auto device = cuda::describe(i); device.ok()) places.back().cuda = *std::move(device);
    }
  }
  Applicable result;
  for (const TuningRecord& record : records) {
    std::optional<std::string> why;
    for (const PlanRequest& place : places) {
      const auto here = selection::inapplicable(record.key, record.measurement, place, all_engines());
      if (!here || !why || *why == selection::kAnotherDevice) why = here;
      if (!why) break;
    }
    if (!why) {
      ++result.count;
    } else {
      ++result.others[*why == selection::kAnotherDevice ? fmt::format("{} ({})", *why, record.key.device) : *why];
    }
  }
  return result;
}

void add_db(Parser app, Program& program) {
  Parser command =
      add_subcommand(app, "db", "The tuning database: show, export, import, merge, verify, forget, clear, gc, path",
                     "  convoy db show --engines 'cpu.*'\n  convoy db export -o tuned.jsonl");
  command.require_subcommand(1);
  auto flags = std::make_shared<DbFlags>();
  const auto add = [&](const std::string& name, const std::string& description, const std::string& example,
                       const std::function<Result<int>(const Program&, const DbFlags&)>& act) -> Parser {
    Parser part = add_subcommand(command, name, description, "  convoy db " + example);
    part.callback([flags, &program, act] { program.action = [flags, &program, act] { return act(program, *flags); }; });
    return part;
  };
  Parser path = add("path", "Where it is, and what state it is in", "path", show_path);
  add_display_flags(path, program);
  Parser shown = add("show", "Every measurement, by problem", "show --problem '*3x3*'", show);
  add_filter(shown, flags->filter);
  add_display_flags(shown, program);
  Parser exported = add("export", "Its measurements as JSON lines, always in the same order", "export -o tuned.jsonl",
                        export_records);
  add_filter(exported, flags->filter);
  begin(exported, Subject::output);
  exported.add_option("-o,--output", flags->output, "The file to write (default: standard output)").type_name("FILE");
  Parser imported =
      add("import", "Take in what export wrote; where both have the same measurement, the better attested one stays",
          "import tuned.jsonl", [](const Program& p, const DbFlags& f) { return take_in(p, f, records_of_export); });
  Parser merged = add("merge", "Take in other tuning databases, by the same rule", "merge other/tuning.db",
                      [](const Program& p, const DbFlags& f) { return take_in(p, f, records_of_database); });
  for (const Parser taking : {imported, merged}) {
    taking.add_option("files", flags->files, "The files").required();
    add_display_flags(taking, program);
  }
  Parser verified = add("verify", "Measure and check a sample of it again", "verify --sample 20",
                        [](const Program& p, const DbFlags& f) { return verify_database(p, f.verify); });
  add_filter(verified, flags->verify.filter);
  begin(verified, Subject::checking);
  verified.add_option("--sample", flags->verify.sample, "How many measurements")
      .type_name("N")
      .range(1, 1'000'000)
      .capture_default_str();
  verified.add_option("--seed", flags->verify.seed, "Another number takes another sample").capture_default_str();
  verified.add_option("--budget", flags->verify.budget, "Measure for so long in all")
      .type_name("SECONDS")
      .range(0.1, 1e6)
      .capture_default_str();
  verified.add_flag("--update", flags->verify.update, "Keep the new measurements");
  verified.add_option("--device", program.shared.device, "Whose measurements: cpu (default), cuda or cuda:N")
      .type_name("DEVICE");
  add_display_flags(verified, program);
  Parser forgotten =
      add("forget", "Drop the measurements of some problems or engines", "forget --problem '*3x3*' --dry-run",
          [](const Program& p, const DbFlags& f) { return forget_records(p, f.forget); });
  add_filter(forgotten, flags->forget.filter);
  Parser cleared = add("clear", "Drop every measurement, and the plans that convoy tune kept", "clear --dry-run",
                       [](const Program& p, const DbFlags& f) { return clear_records(p, f.forget); });
  cleared.add_flag("-y,--yes", flags->forget.yes, "Do not ask: needed where there is no terminal");
  for (const Parser dropping : {forgotten, cleared}) {
    dropping.add_flag("--dry-run", flags->forget.dry_run, "Only count");
    add_display_flags(dropping, program);
  }
  Parser collected =
      add("gc", "Drop what old engine revisions measured, and problems unused for long", "gc --dry-run", collect);
  begin(collected, Subject::input);
  collected.add_option("--unused-days", flags->collect.unused_days, "Problems that were not used for so many days go")
      .type_name("DAYS")
      .range(0, 100'000)
      .capture_default_str();
  collected.add_flag("--dry-run", flags->collect.dry_run, "Only count");
  add_display_flags(collected, program);
}

}  // namespace convoy::cli
