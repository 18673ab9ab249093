#include "cli/choice_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/open_knobs.h"
#include "select/choose/objective.h"

namespace convoy::cli {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// "NVIDIA H200" of "cuda NVIDIA H200 sms=132 l2=60M mem=139G".
std::string device_name(const std::string& device_class) {
  constexpr std::string_view kind = "cuda ";
  if (!device_class.starts_with(kind)) return {};
  return device_class.substr(kind.size(), device_class.find(" sms=") - kind.size());
}

// Of the SMs that a selection kept to; 0: it had all.
int target_sms(const std::string& isa) {
  constexpr std::string_view name = "target_sms=";
  const std::size_t at = isa.find(name);
  return at == std::string::npos ? 0 : std::atoi(isa.c_str() + at + name.size());
}

// The state of the caches that counts first is the one that networks leave.
int preference(CacheState caches) { return caches == CacheState::cold ? 0 : 1 + static_cast<int>(caches); }

// Of these engines, of the same revision; an oracle is for nobody's program.
bool can_run(std::span<const Engine* const> engines, const Measurement& measurement) {
  return std::any_of(engines.begin(), engines.end(), [&](const Engine* engine) {
    const EngineInfo& info = engine->info();
    return info.name == measurement.candidate.engine && info.revision == measurement.revision && !info.oracle;
  });
}

std::string without_math(ConvProblem problem) {
  problem.math = MathMode::strict;
  return print(problem);
}

// What was measured of one problem: by candidate, what is known of it.
struct Group {
  std::string device, cudnn, problem;
  int caches = std::numeric_limits<int>::max();  // preference() of the times
  using Name = std::pair<std::string, MathMode>;
  std::map<Name, std::vector<Measurement>> times;
  std::map<Name, bool> failed;

  void add(const Measurement& measurement, CacheState state, MathMode math) {
    const bool is_offered = measurement.candidate.engine.starts_with("cudnn.eng");
    const Name name{print(without_open_knobs(measurement.candidate)), is_offered ? MathMode::strict : math};
    if (measurement.failure) {
      failed[name] = true;
      return;
    }
    if (preference(state) > caches || !(measurement.median_seconds > 0)) return;
    if (preference(state) < caches) times.clear();
    caches = preference(state);
    times[name].push_back(measurement);
  }

  std::vector<KnownCost> costs(const Objective& objective) const {
    std::vector<Measurement> all;
    for (const auto& [candidate, measured] : times) all.insert(all.end(), measured.begin(), measured.end());
    const selection::ObjectiveScale scale = selection::scale_of(all);
    const auto cost = [&](const Measurement& m) {
      if (objective.workspace > 0 || (objective.time > 0 && objective.energy > 0)) {
        return selection::score(m, objective, scale);
      }
      return objective.energy > 0 ? m.energy_joules.value_or(kNever) : m.median_seconds;
    };
    std::vector<KnownCost> known;
    for (const auto& [name, measured] : times) {
      double least = kNever;
      for (const Measurement& m : measured) least = std::min(least, cost(m));
      if (least < kNever) known.push_back({device, cudnn, problem, name.first, least, name.second});
    }
    for (const auto& [name, yes] : failed) {
      if (!times.contains(name)) known.push_back({device, cudnn, problem, name.first, kNever, name.second});
    }
    std::sort(known.begin(), known.end(), [](const KnownCost& a, const KnownCost& b) {
      return std::tie(a.candidate, a.math) < std::tie(b.candidate, b.math);
    });
    return known;
  }
};

bool narrows(const SelectionFilter& filter) {
  return filter.engines != "*" || filter.notes != "*" || filter.deterministic_only || filter.workspace_limit;
}

}  // namespace

bool asks_for_something(const ChoiceOptions& options) {
  return narrows(options.filter) || !options.rules.empty() || options.sm_count > 0;
}

std::vector<SelectionRule> rules_for_programs(std::span<const SelectionRule> rules) {
  std::vector<SelectionRule> all(rules.begin(), rules.end());
  for (SelectionRule& rule : all) {
    if (const auto problem = parse_problem(rule.pattern)) rule.pattern = without_math(*problem);
    std::replace(rule.pattern.begin(), rule.pattern.end(), '\t', ' ');  // between terms
    rule.candidate = without_open_knobs(std::move(rule.candidate));
  }
  return all;
}

std::vector<KnownCost> known_costs(std::span<const TuningRecord> records, std::span<const Engine* const> engines,
                                   const Objective& objective, int sm_count) {
  std::map<std::string, Group> groups;
  for (const TuningRecord& record : records) {
    constexpr std::string_view provider = "cuDNN ", ours = "cuda.";
    const Measurement& measurement = record.measurement;
    const bool theirs = measurement.provider.starts_with(provider);
    const std::string device = device_name(record.key.device);
    if (device.empty() || is_outdated_verdict(record) || target_sms(record.key.isa) != sm_count ||
        (!theirs && !measurement.candidate.engine.starts_with(ours)) || !can_run(engines, measurement)) {
      continue;
    }
    const auto problem = parse_problem(record.key.problem);
    if (!problem) continue;
    const std::string text = without_math(*problem),
                      cudnn = theirs ? measurement.provider.substr(provider.size()) : "-";
    Group& group = groups[fmt::format("{}\t{}\t{}", device, cudnn, text)];
    group.device = device;
    group.cudnn = cudnn;
    group.problem = text;
    group.add(measurement, record.key.caches, problem->math);
  }
  std::vector<KnownCost> all;
  for (const auto& [key, group] : groups) {
    std::vector<KnownCost> known = group.costs(objective);
    all.insert(all.end(), std::make_move_iterator(known.begin()), std::make_move_iterator(known.end()));
  }
  return all;
}

std::string time_lines(std::span<const KnownCost> costs) {
  std::string text;
  for (const KnownCost& known : costs) {
    text +=
        fmt::format("time\t{}\t{}\t{}\t{}\t{}", known.device, known.cudnn, known.problem, known.candidate, known.cost);
    text += known.math == MathMode::strict ? "\n" : fmt::format("\t{}\n", name_of(known.math));
  }
  return text;
}

std::string choice_file(std::span<const KnownCost> costs, const ChoiceOptions& options) {
  std::string text = "convoy-choices 2\n" + time_lines(costs);
  for (const SelectionRule& rule : rules_for_programs(options.rules)) {
    text += fmt::format("rule\t{}\t{}\n", rule.pattern, print(rule.candidate));
  }
  const SelectionFilter& filter = options.filter;
  if (filter.engines != "*") text += fmt::format("filter\tengines\t{}\n", filter.engines);
  if (filter.deterministic_only) text += "filter\tdeterministic\n";
  if (filter.notes != "*") text += fmt::format("filter\tnotes\t{}\n", filter.notes);
  if (filter.workspace_limit) text += fmt::format("filter\tworkspace\t{}\n", *filter.workspace_limit);
  if (options.sm_count > 0) text += fmt::format("filter\tsm-count\t{}\n", options.sm_count);
  if (options.strict) text += "strict\n";
  if (options.like_benchmark) text += "like-benchmark\n";
  return text;
}

}  // namespace convoy::cli
