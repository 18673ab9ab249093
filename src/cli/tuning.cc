#include "cli/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/measure/problem_data.h"

namespace convoy::cli {
namespace {

// `left` is not positive where there is no budget, or none of it is left.
std::string with_time_left(double left, const std::string& text) {
  return left > 0 ? fmt::format("{} left  {}", report::seconds(left), text) : text;
}

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
      problems.push_back({step.problem, 1, step.nodes});
    } else {
      DistinctProblem& same = problems[known->second];
      ++same.count;
      same.names += ", " + step.nodes;
    }
  }
  return problems;
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
  std::vector<ProblemReport> reports;
  report::Progress bar(title);
  const double start = monotonic_seconds();
  for (std::size_t i = 0; i < problems.size(); ++i) {
    ProblemReport report;
    report.distinct = problems[i];
    const ConvProblem& problem = report.distinct.problem = program.allowed(problems[i].problem);
    CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(problem, request));
    report.answers = list_candidates(problem, program.engines(), weighted.request);
    SelectionOptions share = options;
    share.mode = SelectionMode::measured;
    if (options.budget_seconds > 0) {
      const double left = options.budget_seconds - (monotonic_seconds() - start);
      // Never zero, which means no limit; the first candidate is measured whatever the budget.
      share.budget_seconds = std::max(left / static_cast<double>(problems.size() - i), 1e-6);
    }
    const std::string name = report::short_name(problem);
    auto selection = select(problem, program.engines(), share, weighted.request, problems[i].names,
                            [&](const Measurement& measurement, int done, int total) {
                              const double part = total > 0 ? static_cast<double>(done) / total : 0;
                              const double left = options.budget_seconds - (monotonic_seconds() - start);
                              bar.update((static_cast<double>(i) + part) / static_cast<double>(problems.size()),
                                         with_time_left(left, name + "  " + print(measurement.candidate)));
                              return true;
                            });
    if (selection.ok()) {
      report.selection = std::move(*selection);
    } else {
      report.failure = selection.error();
    }
    reports.push_back(std::move(report));
  }
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
