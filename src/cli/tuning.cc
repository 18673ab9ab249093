#include "cli/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/clock.h"
#include "convoy/network_tuning.h"
#include "report/format.h"
#include "report/progress.h"
#include "select/choose/glob.h"
#include "select/measure/problem_data.h"
#include "select/tune/rounds.h"
#include "select/tune/tuner.h"

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

std::string kept_plans_folder() {
  const auto database = TuningDatabase::default_path();
  return database.ok() ? convoy::kept_plans_folder(*database) : "";
}

void add_database_flag(Parser app, Program& program) {
  app.add_flag(
      "--no-db", program.shared.no_database,
      "Neither read nor write the tuning database. Without this flag measurements are stored there, and later runs "
      "choose by them");
}

std::unique_ptr<TuningDatabase> attach_database(const Program& program, SelectionOptions& options) {
  if (program.shared.no_database) return nullptr;
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

void take_caches(const Network& network, std::span<const TensorDesc> inputs, NetworkOptions options,
                 SelectionOptions& selection) {
  if (selection.caches != CacheState::cold || options.cuda) return;
  options.how = "uniform:nchw";  // quick, and layouts don't matter
  const auto convolutions = network.convolutions(inputs, options);
  if (!convolutions.ok() || convolutions->empty()) return;
  selection.caches = convolutions->front().caches;
  selection.in_network = true;
}

void say_warnings(const Program& program, const Session& session) {
  std::set<std::string> said;
  for (const NetworkStep& step : session.steps()) {
    for (const std::string& warning : step.selection.warnings) {
      if (said.insert(warning).second) program.note(fmt::format("{}: {}", step.nodes, warning));
    }
  }
}

std::vector<ConvolutionNode> convolutions_of(const Session& session) {
  std::vector<ConvolutionNode> convolutions;
  for (const NetworkStep& step : session.steps()) {
    if (step.kind == "conv") convolutions.push_back({step.problem, step.nodes});
  }
  return convolutions;
}

std::vector<ConvolutionNode> convolutions_of(std::span<const DistinctProblem> problems) {
  constexpr std::string_view separator = ", ";
  std::vector<ConvolutionNode> convolutions;
  for (const DistinctProblem& distinct : problems) {
    const std::string& names = distinct.names;
    for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + separator.size()) {
      to = names.find(separator, from);
      convolutions.push_back({distinct.problem, names.substr(from, to - from)});
    }
  }
  return convolutions;
}

Json say_rule_uses(const Program& program, std::string_view flag, const std::vector<SelectionRule>& rules,
                   const std::vector<ConvolutionNode>& convolutions) {
  constexpr std::size_t kMostNamed = 10;
  const auto uses = rule_uses(rules, convolutions);
  if (rules.empty() || !uses.ok()) return nullptr;  // a malformed rule was an error before
  Json json = Json::array();
  std::vector<std::string> unmatched, undecided;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string text = fmt::format("{} -> {}", rules[i].pattern, print(rules[i].candidate));
    const RuleUse& use = (*uses)[i];
    if (use.matched == 0) unmatched.push_back(text);
    if (use.matched > 0 && use.decided == 0) undecided.push_back(text);
    json.push_back({{"pattern", rules[i].pattern},
                    {"candidate", print(rules[i].candidate)},
                    {"matched", use.matched},
                    {"decided", use.decided}});
  }
  const auto say = [&](const std::vector<std::string>& some, std::string_view what) {
    if (some.empty()) return;
    std::string text = fmt::format("{}: {} of {} rules {}:", flag, some.size(), rules.size(), what);
    for (std::size_t i = 0; i < std::min(some.size(), kMostNamed); ++i) text += "\n  " + some[i];
    if (some.size() > kMostNamed) text += fmt::format("\n  and {} more", some.size() - kMostNamed);
    program.note(text);
  };
  say(unmatched, "matched no convolution");
  say(undecided, "decided nothing, since rules before them match the same convolutions");
  return json;
}

std::vector<std::size_t> layer_numbers(const Session& session) {
  std::vector<std::size_t> numbers;
  std::map<std::string, std::size_t> known;
  for (const NetworkStep& step : session.steps()) {
    const std::string key = fmt::format("{} {}", print(step.problem), step.selection.rule);
    numbers.push_back(step.kind == "conv" ? known.emplace(key, known.size() + 1).first->second : 0);
  }
  return numbers;
}

std::vector<DistinctProblem> distinct_problems(const Session& session) {
  std::vector<DistinctProblem> problems;
  const std::vector<std::size_t> numbers = layer_numbers(session);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    const NetworkStep& step = session.steps()[i];
    if (numbers[i] > problems.size()) {
      problems.push_back({step.problem, 1, step.nodes, numbers[i], step.nodes});
    } else {
      DistinctProblem& same = problems[numbers[i] - 1];
      ++same.count;
      same.names += ", " + step.nodes;
    }
  }
  return problems;
}

void add_node_flag(Parser app, std::string& nodes) {
  begin(app, Subject::input);
  app.add_option(
         "--node", nodes,
         "Only the layers whose name or problem string matches a list of globs, or the layer that has this number in "
         "what convoy explain MODEL lists. convoy explain takes operators by name, too")
      .type_name("GLOB");
}

bool node_matches(const std::string& nodes, const std::string& names, const std::string& problem, std::size_t number) {
  if (nodes.empty()) return true;
  if (nodes.find_first_not_of("0123456789") == std::string::npos) return nodes == fmt::format("{}", number);
  // Problem strings have commas of their own.
  if (selection::glob_matches(nodes, problem) || selection::glob_list_matches(nodes, problem)) return true;
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

std::string sm_count_advice(const ConvProblem& problem, const PlanRequest& request) {
  if (request.target_sms == 0) return "";
  const bool strict = problem.compute == DataType::f32 && problem.math == MathMode::strict;
  return fmt::format("{}leave --sm-count out, or give more",
                     strict ? "--allow tf32 permits more candidates; else " : "");
}

Result<WeightedRequest> with_constant_weights(const ConvProblem& problem, const PlanRequest& request) {
  WeightedRequest weighted{request, {}};
  if (!request.packs_weights(problem)) return weighted;
  CONVOY_TRY(weighted.weights, selection::random_weights(problem, 0));
  weighted.request.constant_weights = weighted.weights.data.get();
  return weighted;
}

Result<std::vector<ProblemReport>> measure_problems(const Program& program,
                                                    const std::vector<DistinctProblem>& problems,
                                                    const SelectionOptions& options, const PlanRequest& request,
                                                    const std::string& title, bool to_the_end) {
  report::Progress bar(title);
  selection::RoundStore store;
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
  const auto measure = [&](const selection::Slice& slice) -> Result<selection::SliceOutcome> {
    ProblemReport& report = reports[slice.problem];
    const ConvProblem& problem = report.distinct.problem;
    CONVOY_TRY(const WeightedRequest weighted, with_constant_weights(problem, request));
    if (report.answers.empty()) report.answers = list_candidates(problem, program.engines(), weighted.request);
    SelectionOptions share = options;
    share.mode = SelectionMode::measured;
    share.likely_only = slice.likely_only;
    share.budget_seconds = slice.seconds;
    if (share.store == nullptr) share.store = &store;
    const std::string name = report::short_name(problem);
    bool measured = false;
    const auto progress = [&](const Measurement& measurement, int done, int total) {
      measured = true;
      const double part = total > 0 ? static_cast<double>(done) / total : 0;
      const double fraction = budget > 0
                                  ? 1 - left() / budget
                                  : (static_cast<double>(slice.problem) + part) / static_cast<double>(problems.size());
      bar.update(std::clamp(fraction, 0.0, 1.0),
                 with_time_left(budget > 0 ? left() : 0, name + "  " + print(measurement.candidate)));
      return true;
    };
    const auto choose = to_the_end ? selection::select_to_the_end : select;
    auto selection = choose(problem, program.engines(), share, weighted.request, report.distinct.node, progress);
    report.failure.reset();
    if (selection.ok()) {
      report.selection = std::move(*selection);
    } else {
      report.failure = selection.error();
    }
    const bool settled = report.failure ? !slice.likely_only : !report.selection.partial;
    return selection::SliceOutcome{settled, measured};
  };
  CONVOY_CHECK(selection::measure_in_rounds(std::vector<double>(problems.size(), 1), left, measure));
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
