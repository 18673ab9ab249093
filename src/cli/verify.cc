// convoy verify: every candidate against the oracle and against its own claims.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/clock.h"
#include "cli/checks.h"
#include "cli/inputs.h"
#include "cli/target.h"
#include "cli/tuning.h"
#include "cli/worker.h"
#include "core/provider.h"
#include "io/file.h"
#include "report/format.h"
#include "report/progress.h"
#include "report/repro.h"
#include "report/table.h"
#include "select/choose/candidates.h"
#include "select/tune/check.h"

namespace convoy::cli {
namespace {

using selection::CandidateChecker;
using selection::CheckFault;
using selection::CheckSetup;

struct CheckFlags {
  std::string target;
  bool all_engines = false;
  bool all_knobs = false;
  bool defaults = false;

  bool every_knob() const { return all_knobs || (all_engines && !defaults); }
  int repeats = 3;
  std::int64_t seed = 1;
  double timeout = 600;
  std::string repro_folder = ".";
  InputFlags input;  // only --dim
};

struct Job {
  std::size_t problem;
  Candidate candidate;
};

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// What is chosen for the problem, or with --all-engines every candidate that may be, engines in the order of the
// heuristic; the oracle only where the filter names it.
Result<std::vector<Candidate>> candidates_for(const Program& program, const DistinctProblem& distinct,
                                              SelectionOptions options, const PlanRequest& request,
                                              const CheckFlags& flags) {
  const ConvProblem& problem = distinct.problem;
  options.mode = SelectionMode::heuristic;
  CONVOY_TRY(Selection selection, select(problem, program.engines(), options, request, distinct.node));
  for (const std::string& warning : selection.warnings) program.note(warning);
  std::vector<Candidate> wanted = {selection.candidate};
  if (flags.all_engines) wanted = rank_by_heuristic(problem, program.engines(), options.filter, request);
  if (flags.every_knob()) {  // an engine may be ranked several times, with what it suggests
    std::set<std::string> seen;
    std::erase_if(wanted, [&](const Candidate& candidate) { return !seen.insert(candidate.engine).second; });
  }
  std::vector<Candidate> candidates;
  for (Candidate& candidate : wanted) {
    CONVOY_TRY(const Engine* engine, selection::runnable_engine(problem, candidate, program.engines(), request));
    if (flags.every_knob()) {
      for (Candidate& variant : selection::all_configurations(*engine, problem, request)) {
        if (filtered(problem, *engine, variant.knobs, options.filter, request)) continue;
        candidates.push_back(std::move(variant));
      }
    } else {
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

Result<std::unique_ptr<Session>> prepared(const Program& program, const CheckFlags& flags, const Network& network) {
  CONVOY_TRY(const auto descs, input_descriptions(network, flags.input));
  CONVOY_TRY(NetworkOptions options, program.network_options());
  options.parts = BatchParts{};
  return network.prepare(descs, options);
}

// The distinct convolutions of the target. A network is prepared in a child: this process must not start threads. On a
// GPU there are no children.
Result<std::vector<DistinctProblem>> problems_of(const Program& program, const CheckFlags& flags) {
  std::vector<DistinctProblem> problems;
  if (program.on_gpu()) {
    CONVOY_TRY(const Target target, open_target(flags.target, flags.input.dims));
    for (const ListedProblem& each : target.problems) {
      problems.push_back({each.problem, each.count, each.name, 0, each.name});
    }
    if (target.network == nullptr) return problems;
    CONVOY_TRY(const auto session, prepared(program, flags, *target.network));
    return distinct_problems(*session);
  }
  Error failure{ErrorCode::internal, ""};
  bool failed = false;
  run_jobs(
      1, flags.timeout,
      [&](int) {
        const auto collect = [&]() -> Result<Json> {
          CONVOY_TRY(const Target target, open_target(flags.target, flags.input.dims));
          Json found = Json::array();
          const auto add = [&](const DistinctProblem& distinct) {
            found.push_back({{"problem", print(distinct.problem)},
                             {"count", distinct.count},
                             {"names", distinct.names},
                             {"node", distinct.node}});
          };
          for (const ListedProblem& each : target.problems) add({each.problem, each.count, each.name, 0, each.name});
          if (target.network == nullptr) return found;
          CONVOY_TRY(const auto session, prepared(program, flags, *target.network));
          for (const DistinctProblem& distinct : distinct_problems(*session)) add(distinct);
          return found;
        };
        const Result<Json> found = collect();
        if (found.ok()) return report::dump(*found);
        return report::dump({{"code", static_cast<int>(found.error().code)}, {"message", found.error().message}});
      },
      [&](int, const JobOutcome& outcome) {
        const Json found = outcome.finished ? Json::parse(outcome.result, nullptr, false) : Json();
        failed = !found.is_array();
        if (found.is_object()) {
          failure = {static_cast<ErrorCode>(found["code"].get<int>()), found["message"].get<std::string>()};
        } else if (failed) {
          failure.message = fmt::format("{}: {}", flags.target, outcome.failure);
        } else {
          for (const Json& entry : found) {
            auto problem = parse_problem(entry["problem"].get<std::string>());
            if (problem.ok()) {
              problems.push_back({std::move(*problem), entry["count"], entry["names"], 0, entry["node"]});
            }
          }
        }
      });
  if (failed) return failure;
  return problems;
}

report::Repro repro_of(const CheckSetup& setup, const Candidate& candidate, const Json& result) {
  report::Repro repro;
  repro.setup = setup;
  repro.candidate = candidate;
  repro.fault = result["fault"];
  repro.failure = result["failure"];
  repro.date = now();
  repro.versions = library_versions();
  for (const Engine* engine : all_engines()) {
    if (engine->info().name != candidate.engine) continue;
    repro.revision = engine->info().revision;
    repro.provider = provider_of(*engine).value_or(engine->info().provider);
  }
  return repro;
}

Result<std::string> write_repro(const report::Repro& repro, const std::string& folder) {
  const std::string path = std::filesystem::path(folder) / report::file_name(repro);
  const std::string text = report::dump(report::to_json(repro)) + "\n";
  CONVOY_CHECK(io::write_file(path, std::as_bytes(std::span(text))));
  return path;
}

report::Table empty_table() {
  using report::Align;
  report::Table table;
  table.column("candidate").column("error/tol", Align::right).column("error", Align::right, 2);
  table.column("again", Align::left, 1).column("other threads", Align::left, 1).column("");
  return table;
}

class Verification {
 public:
  Verification(const Program& program, const CheckFlags& flags, const PlanRequest& request,
               const SelectionOptions& options)
      : program_(program), flags_(flags), request_(request), options_(options) {}

  Result<int> run() {
    CONVOY_TRY(problems_, problems_of(program_, flags_));
    for (std::size_t p = 0; p < problems_.size(); ++p) {
      auto candidates = candidates_for(program_, problems_[p], options_, request_, flags_);
      if (!candidates.ok()) {
        if (candidates.error().code != ErrorCode::unsupported) return candidates.error();
        unsupported_.push_back(print(problems_[p].problem));
        const std::string advice = sm_count_advice(problems_[p].problem, request_);
        program_.say(
            fmt::format("unsupported: {}{}{}", candidates.error().message, advice.empty() ? "" : "\n  ", advice));
        continue;
      }
      for (Candidate& candidate : *candidates) jobs_.push_back({p, std::move(candidate)});
      if (flags_.all_engines) list_refusals(problems_[p].problem);
    }
    // Preparing a network is not what the budget is for.
    if (options_.budget_seconds > 0) deadline_ = monotonic_seconds() + options_.budget_seconds;
    report::Progress bar("verifying", program_.shared.json);
    const int count = static_cast<int>(jobs_.size());
    const auto done = [&](int i, Json result) {
      take(jobs_[i], std::move(result));
      if (i + 1 == count || jobs_[i + 1].problem != jobs_[i].problem) finish_problem(jobs_[i]);
      bar.update(static_cast<double>(i + 1) / count, print(jobs_[i].candidate));
    };
    if (program_.on_gpu()) {  // a child of a process that has used CUDA can't
      for (int i = 0; i < count; ++i) done(i, check(jobs_[i]));
    } else {
      run_jobs(
          count, flags_.timeout, [&](int i) { return report::dump(check(jobs_[i])); },
          [&](int i, const JobOutcome& outcome) { done(i, read_check(outcome)); });
    }
    bar.finish();
    program_.say(fmt::format("{} right, {} failed, {} not checked{}; {} problem{} that nothing can run", right_,
                             failed_, not_checked_,
                             refused_ > 0 ? fmt::format(", {} refused when planned", refused_) : "",
                             unsupported_.size(), unsupported_.size() == 1 ? "" : "s"));
    program_.document({{"target", flags_.target},
                       {"threads", request_.threads},
                       {"rules", say_rule_uses(program_, "--rules", options_.rules, convolutions_of(problems_))},
                       {"repeats", flags_.repeats},
                       {"right", right_},
                       {"failed", failed_},
                       {"not_checked", not_checked_},
                       {"refused", refused_},
                       {"unsupported", unsupported_},
                       {"refusals", refusals_},
                       {"checks", checks_}});
    if (unwritten_) return *unwritten_;
    if (failed_ > 0) return wrong_ ? kWrongResult : kFailed;
    if (not_checked_ > 0) return kFailed;
    return unsupported_.empty() ? kDone : kUnsupported;
  }

 private:
  // In a child. The checker outlives the job: its data and the oracle's answer serve all candidates of a problem.
  Json check(const Job& job) {
    const auto skipped = [](const std::string& why) { return Json{{"fault", "not_checked"}, {"failure", why}}; };
    const bool first = &job == jobs_.data();  // there is an answer, however short the budget
    if (deadline_ > 0 && !first && monotonic_seconds() > deadline_) return skipped("the budget ended");
    if (!checker_ || checked_problem_ != job.problem) {
      checker_.reset();
      auto made = CandidateChecker::make(setup_of(job), program_.engines());
      if (!made.ok()) return skipped(made.error().message);
      checker_.emplace(std::move(*made));
      checked_problem_ = job.problem;
    }
    const auto trusted = checker_->setup().trusted;
    Json result = check_json(checker_->check(job.candidate));
    if (trusted) result["compared_with"] = print(*trusted);
    return result;
  }

  void list_refusals(const ConvProblem& problem) {
    for (const EngineAnswer& answer : list_candidates(problem, program_.engines(), request_)) {
      if (!answer.refusal) continue;
      refusals_.push_back({{"problem", print(problem)},
                           {"engine", answer.engine->info().name},
                           {"code", std::string(convoy::name_of(answer.refusal->code))},
                           {"reason", answer.refusal->reason}});
    }
  }

  CheckSetup setup_of(const Job& job) const {
    CheckSetup setup;
    setup.problem = problems_[job.problem].problem;
    setup.request = request_;
    setup.repeats = flags_.repeats;
    setup.seed = static_cast<std::uint64_t>(flags_.seed);
    return setup;
  }

  // In the parent: counts it, writes the repro file, adds it to the table.
  void take(const Job& job, Json result) {
    const std::string fault = result["fault"];
    const bool right = fault == name_of(CheckFault::none), skipped = fault == "not_checked";
    const bool refused = fault == name_of(CheckFault::refused);
    ++(right ? right_ : skipped ? not_checked_ : refused ? refused_ : failed_);
    refused_here_ = refused_here_ && refused;
    std::string remark = result["failure"];
    if (refused) {
      // The table has its names already.
      const std::string named = fmt::format("{} on {}: ", print(job.candidate), print(problems_[job.problem].problem));
      remark = "refused: " + (remark.starts_with(named) ? remark.substr(named.size()) : remark);
    } else if (!right && !skipped) {
      wrong_ = wrong_ || fault != "crash";
      CheckSetup setup = setup_of(job);
      if (result.contains("compared_with")) {
        auto trusted = parse_candidate(result["compared_with"].get<std::string>());
        if (trusted.ok()) setup.trusted = std::move(*trusted);
      }
      const auto path = write_repro(repro_of(setup, job.candidate, result), flags_.repro_folder);
      if (path.ok()) {
        result["repro"] = *path;
        remark += "; again: convoy repro " + *path;
      } else {
        unwritten_ = path.error();
      }
    }
    const auto bits = [&](const char* field) { return result.value(field, std::string("-")); };
    table_.row({result.value("candidate", print(job.candidate)), number_or_dash(result, "max_error"),
                number_or_dash(result, "max_error_absolute"), bits("deterministic"), bits("thread_invariant"), remark},
               right                ? report::Style::plain
               : skipped || refused ? report::Style::warning
                                    : report::Style::bad);
    result["problem"] = print(problems_[job.problem].problem);
    checks_.push_back(std::move(result));
  }

  void finish_problem(const Job& job) {
    const ConvProblem& problem = problems_[job.problem].problem;
    program_.say(print(problem));
    program_.say(table_, 2);
    if (refused_here_) {
      unsupported_.push_back(print(problem));
      const std::string advice = sm_count_advice(problem, request_);
      const std::string why = request_.target_sms > 0 ? fmt::format("no candidate keeps to {} SMs", request_.target_sms)
                                                      : "every candidate was refused when it was planned";
      program_.say(fmt::format("unsupported: {}{}{}", why, advice.empty() ? "" : "; ", advice));
    }
    refused_here_ = true;
    program_.say("");
    table_.clear();
  }

  const Program& program_;
  const CheckFlags& flags_;
  PlanRequest request_;
  SelectionOptions options_;
  double deadline_ = 0;
  std::vector<DistinctProblem> problems_;
  std::vector<Job> jobs_;
  std::optional<CandidateChecker> checker_;
  std::size_t checked_problem_ = 0;

  std::int64_t right_ = 0, failed_ = 0, not_checked_ = 0, refused_ = 0;
  bool refused_here_ = true;  // every candidate of the problem so far
  bool wrong_ = false;
  std::optional<Error> unwritten_;
  report::Table table_ = empty_table();
  Json checks_ = Json::array(), unsupported_ = Json::array(), refusals_ = Json::array();
};

Result<int> verify(const Program& program, const CheckFlags& flags) {
  CONVOY_TRY(const PlanRequest request, program.plan_request());
  CONVOY_TRY(const SelectionOptions options, program.selection());
  std::error_code missing;
  if (flags.defaults && (flags.all_knobs || !flags.all_engines)) {
    return Error{ErrorCode::invalid_argument, "--defaults: it is for --all-engines, without --all-knobs"};
  }
  if (!std::filesystem::is_directory(flags.repro_folder, missing)) {
    return Error{ErrorCode::not_found, fmt::format("--repro-folder {}: not a folder", flags.repro_folder)};
  }
  return Verification(program, flags, request, options).run();
}

}  // namespace

void add_verify(Parser app, Program& program) {
  Parser command = add_subcommand(
      app, "verify", "Compare engines with the oracle, and their bits with each other where they claim determinism",
      "  convoy verify zoo:mobilenet_v2 --all-engines --repeat 5\n"
      "  convoy verify problems/resnet50.txt --engines 'cpu.*'\n"
      "  convoy verify fprop:x=f32,1x64x56x56,nhwc:w=f32,64x64x3x3:pad=1x1 --all-engines --defaults");
  auto flags = std::make_shared<CheckFlags>();
  command.add_option("target", flags->target, "An ONNX file, zoo:NAME, a problem list, or a problem string").required();
  begin(command, Subject::checking);
  command.add_flag("--all-engines", flags->all_engines,
                   "All knob values of all engines that can run the problem, not only the heuristic's choice");
  command.add_flag("--defaults", flags->defaults, "With --all-engines: only each engine's default");
  command.add_flag("--all-knobs", flags->all_knobs, "Without --all-engines: every knob value of the chosen engine");
  command.add_option("--repeat", flags->repeats, "Executions of each, which must give the same bits (default 3)")
      .type_name("N")
      .range(1, 1'000'000);
  command.add_option("--seed", flags->seed, "Of the data (default 1)").type_name("N").non_negative();
  command.add_option("--timeout", flags->timeout, "A check that takes longer fails (on the CPU)")
      .type_name("SECONDS")
      .range(0.001, 1e6);
  command.add_option("--repro-folder", flags->repro_folder, "Where each failure's repro file goes (default: here)")
      .type_name("DIR");
  add_dim_flag(command, flags->input);
  add_shared_flags(command, program, "Start no check after so long (default: check all)");
  command.callback([flags, &program] { program.action = [flags, &program] { return verify(program, *flags); }; });
}

}  // namespace convoy::cli
