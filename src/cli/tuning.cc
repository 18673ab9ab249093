#include "cli/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/clock.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/glob.h"
#include "select/measure/problem_data.h"
#include "select/rounds.h"

namespace convoy::cli {
namespace {

// `left` is not positive where there is no budget, or none of it is left.
std::string with_time_left(double left, const std::string& text) {
  return left > 0 ? fmt::format("{} left  {}", report::seconds(left), text) : text;
}

// What was measured in the rounds before, where no database keeps it.
class RoundStore final : public MeasurementStore {
 public:
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override { return rows_[key]; }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    std::vector<Measurement>& rows = rows_[key];
    std::erase_if(rows, [&](const Measurement& m) { return m.candidate == measurement.candidate; });
    rows.push_back(measurement);
    return {};
  }

 private:
  std::map<MeasurementKey, std::vector<Measurement>> rows_;
};

}  // namespace

Result<std::unique_ptr<TuningDatabase>> open_database(TuningDatabase::Access access) {
  CONVOY_TRY(const std::string path, TuningDatabase::default_path());
  return TuningDatabase::open(path, access);
}

std::unique_ptr<TuningDatabase> attach_database(const Program& program, SelectionOptions& options) {
  const bool measures = options.mode == SelectionMode::measured;
  auto database = open_database(measures ? TuningDatabase::Access::write : TuningDatabase::Access::read);
  if (!database.ok()) {
    if (measures || database.error().code != ErrorCode::not_found) {
      program.note(fmt::format("without the tuning database: {}", database.error().message));
    }
    return nullptr;
  }
  options.store = database->get();
  return *std::move(database);
}

Result<std::unique_ptr<Session>> prepare_with_progress(const Program& program, const Network& network,
                                                       std::span<const TensorDesc> inputs,
                                                       const NetworkOptions& options) {
  if (options.selection.mode != SelectionMode::measured) return network.prepare(inputs, options);
  report::Progress bar("tuning");
  const double start = monotonic_seconds();
  const double budget = options.selection.budget_seconds;
  auto session = network.prepare(inputs, options, [&](const Measurement& measurement, int, int) {
    const double spent = monotonic_seconds() - start;
    bar.update(budget > 0 ? spent / budget : 0, with_time_left(budget - spent, print(measurement.candidate)));
    return true;
  });
  bar.finish();
  if (session.ok()) {
    program.note(fmt::format("measured engines for {}", report::seconds(monotonic_seconds() - start)));
  }
  return session;
}

void say_warnings(const Program& program, const Session& session) {
  std::set<std::string> said;
  for (const NetworkStep& step : session.steps()) {
    for (const std::string& warning : step.selection.warnings) {
      if (said.insert(warning).second) program.note(fmt::format("{}: {}", step.nodes, warning));
    }
  }
}

std::vector<DistinctProblem> distinct_problems(const Session& session) {
  std::vector<DistinctProblem> problems;
  std::map<std::string, std::size_t> index;
  for (const NetworkStep& step : session.steps()) {
    if (step.kind != "conv") continue;
    const auto [known, added] = index.emplace(print(step.problem), problems.size());
    if (added) {
      problems.push_back({step.problem, 1, step.nodes, problems.size() + 1});
    } else {
      DistinctProblem& same = problems[known->second];
      ++same.count;
      same.names += ", " + step.nodes;
    }
  }
  return problems;
}

void add_node_flag(CLI::App& app, std::string& nodes) {
  begin(app, Subject::input);
  app.add_option("--node", nodes,
                 "Only the layers whose name or problem string matches a list of globs, or the one of this number in "
                 "convoy explain's list")
      ->type_name("GLOB");
}

bool node_matches(const std::string& nodes, const std::string& names, const std::string& problem, std::size_t number) {
  if (nodes.empty()) return true;
  if (nodes.find_first_not_of("0123456789") == std::string::npos) return nodes == fmt::format("{}", number);
  if (selection::glob_list_matches(nodes, problem)) return true;
  for (std::size_t first = 0; first < names.size();) {
    const std::size_t end = std::min(names.find(", ", first), names.size());
    if (selection::glob_list_matches(nodes, names.substr(first, end - first))) return true;
    first = end + 2;
  }
  return false;
}

Result<std::vector<DistinctProblem>> with_nodes(const std::vector<DistinctProblem>& problems,
                                                const std::string& nodes) {
  constexpr std::size_t kNamed = 3;
  std::vector<DistinctProblem> meant;
  for (const DistinctProblem& distinct : problems) {
    if (node_matches(nodes, distinct.names, print(distinct.problem), distinct.number)) meant.push_back(distinct);
  }
  if (!meant.empty() || problems.empty()) return meant;
  std::string there;
  for (std::size_t i = 0; i < std::min(problems.size(), kNamed); ++i) {
    const DistinctProblem& distinct = problems[i];
    there += fmt::format("{}{} ({})", i > 0 ? ", " : "", distinct.number,
                         distinct.names.empty() ? report::short_name(distinct.problem)
                                                : distinct.names.substr(0, distinct.names.find(", ")));
  }
  if (problems.size() > kNamed) there += fmt::format(", ... up to {}", problems.size());
  return Error{ErrorCode::invalid_argument, fmt::format("--node: '{}' matches no layer; there are {}", nodes, there)};
}

Result<WeightedRequest> with_constant_weights(const ConvProblem& problem, const PlanRequest& request) {
  WeightedRequest weighted{request, {}};
  if (problem.pass == Pass::wgrad || request.cuda) return weighted;
  CONVOY_TRY(weighted.weights, HostTensor::allocate(problem.w));
  selection::fill_random(problem.w, weighted.weights.data.get(), 1);
  weighted.request.constant_weights = weighted.weights.data.get();
  return weighted;
}

Result<std::vector<ProblemReport>> measure_problems(const Program& program,
                                                    const std::vector<DistinctProblem>& problems,
                                                    const SelectionOptions& options, const PlanRequest& request,
                                                    const std::string& title) {
  report::Progress bar(title);
  RoundStore store;
  const double start = monotonic_seconds();
  const double budget = options.budget_seconds;
  const auto left = [&] {
    return budget > 0 ? budget - (monotonic_seconds() - start) : std::numeric_limits<double>::infinity();
  };
  std::vector<ProblemReport> reports;
  for (const DistinctProblem& distinct : problems) {
    ProblemReport& report = reports.emplace_back();
    report.distinct = distinct;
    report.distinct.problem = program.allowed(distinct.problem);
  }
  const auto measure = [&](const selection::Turn& turn) -> Result<selection::TurnOutcome> {
    ProblemReport& report = reports[turn.problem];
    const ConvProblem& problem = report.distinct.problem;
    CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(problem, request));
    if (report.answers.empty()) report.answers = list_candidates(problem, program.engines(), weighted.request);
    SelectionOptions share = options;
    share.mode = SelectionMode::measured;
    share.likely_only = turn.likely_only;
    share.budget_seconds = turn.seconds < 0 ? 1e-9 : turn.seconds;  // 0 would be no limit
    if (share.store == nullptr) share.store = &store;
    const std::string name = report::short_name(problem);
    bool measured = false;
    auto selection =
        select(problem, program.engines(), share, weighted.request, report.distinct.names,
               [&](const Measurement& measurement, int done, int total) {
                 measured = true;
                 const double part = total > 0 ? static_cast<double>(done) / total : 0;
                 const double fraction =
                     budget > 0 ? 1 - left() / budget
                                : (static_cast<double>(turn.problem) + part) / static_cast<double>(problems.size());
                 bar.update(std::clamp(fraction, 0.0, 1.0),
                            with_time_left(budget > 0 ? left() : 0, name + "  " + print(measurement.candidate)));
                 return true;
               });
    report.failure.reset();
    if (selection.ok()) {
      report.selection = std::move(*selection);
    } else {
      report.failure = selection.error();
    }
    const bool settled = report.failure ? !turn.likely_only : !report.selection.partial;
    return selection::TurnOutcome{settled, measured};
  };
  CONVOY_CHECK(selection::take_turns(std::vector<double>(problems.size(), 1), left, measure));
  bar.finish();
  program.note(fmt::format("measured {} problem{} in {}", problems.size(), problems.size() == 1 ? "" : "s",
                           report::seconds(monotonic_seconds() - start)));
  return reports;
}

std::vector<SelectionRule> rules_of(const std::vector<ProblemReport>& reports) {
  std::vector<SelectionRule> rules;
  for (const ProblemReport& report : reports) {
    if (!report.failure) rules.push_back({print(report.distinct.problem), report.selection.candidate});
  }
  return rules;
}

}  // namespace convoy::cli
