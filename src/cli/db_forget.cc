// convoy db clear, convoy db forget: dropping measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "base/errors.h"
#include "cli/db.h"

namespace convoy::cli {
namespace {

// Asks on the terminal; a script says --yes.
Result<void> confirm(const Program& program, const std::string& question, bool yes) {
  if (yes) return {};
  if (::isatty(STDIN_FILENO) != 1) {
    return invalid("nothing was dropped: --yes is needed where there is no terminal to ask on (--dry-run only counts)");
  }
  program.note(question + " [y/N]");
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return invalid("nothing was dropped");
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Result<void> remove(const std::vector<std::filesystem::path>& plans) {
  for (const std::filesystem::path& plan : plans) {
    std::error_code error;
    std::filesystem::remove(plan, error);
    if (error)
      return Error{ErrorCode::internal, fmt::format("{}: cannot be removed: {}", plan.string(), error.message())};
  }
  return {};
}

Result<int> drop(const Program& program, const ForgetFlags& flags, const std::set<std::string>& problems,
                 const std::function<bool(const TuningRecord&)>& which,
                 const std::vector<std::filesystem::path>& plans = {}) {
  CONVOY_TRY(const auto database, open_database(TuningDatabase::Access::write));
  CONVOY_TRY(const std::int64_t dropped, database->forget(which, flags.dry_run));
  CONVOY_TRY(const TuningDatabaseInfo info, database->info());
  if (!flags.dry_run) CONVOY_CHECK(remove(plans));
  const std::int64_t left = info.measurements - (flags.dry_run ? dropped : 0);
  const auto files = static_cast<std::int64_t>(plans.size());
  program.say(fmt::format("{} {} of {}{}; {} {}", flags.dry_run ? "would drop" : "dropped",
                          counted(dropped, "measurement"),
                          counted(static_cast<std::int64_t>(problems.size()), "problem"),
                          plans.empty() ? "" : fmt::format(", and {} that tune kept", counted(files, "plan")), left,
                          flags.dry_run ? "would be left" : "left"));
  program.document({{"dry_run", flags.dry_run},
                    {"dropped", dropped},
                    {"problems", problems.size()},
                    {"plans", files},
                    {"left", left}});
  return kDone;
}

Result<std::set<std::string>> problems_that(const std::function<bool(const TuningRecord&)>& which) {
  CONVOY_TRY(const auto database, open_database(TuningDatabase::Access::read));
  CONVOY_TRY(const auto records, database->records());
  std::set<std::string> problems;
  for (const TuningRecord& record : records) {
    if (which(record)) problems.insert(record.key.problem);
  }
  return problems;
}

}  // namespace

std::vector<std::filesystem::path> kept_plan_files() {
  std::vector<std::filesystem::path> plans;
  std::error_code error;  // of a folder that is not there
  for (const auto& entry : std::filesystem::directory_iterator(kept_plans_folder(), error)) {
    if (entry.path().extension() == ".plan") plans.push_back(entry.path());
  }
  return plans;
}

Result<int> forget_records(const Program& program, const ForgetFlags& flags) {
  if (flags.filter.problems == "*" && flags.filter.engines == "*") {
    return invalid("--problem or --engines must say what to forget; convoy db clear drops everything");
  }
  const auto which = [&](const TuningRecord& record) { return matches(record, flags.filter); };
  CONVOY_TRY(const auto problems, problems_that(which));
  if (problems.empty()) CONVOY_CHECK(check_matching(flags.filter));
  return drop(program, flags, problems, which);
}

Result<int> clear_records(const Program& program, const ForgetFlags& flags) {
  const auto all = [](const TuningRecord&) { return true; };
  CONVOY_TRY(const auto problems, problems_that(all));
  const auto plans = kept_plan_files();
  if (!flags.dry_run && (!problems.empty() || !plans.empty())) {
    CONVOY_TRY(const auto database, open_database(TuningDatabase::Access::read));
    CONVOY_TRY(const TuningDatabaseInfo info, database->info());
    CONVOY_CHECK(confirm(program,
                         fmt::format("drop all {} of {} in {}{}?", counted(info.measurements, "measurement"),
                                     counted(info.problems, "problem"), info.path,
                                     plans.empty() ? "" : fmt::format(", and {} kept beside it", plans.size())),
                         flags.yes));
  }
  return drop(program, flags, problems, all, plans);
}

}  // namespace convoy::cli
