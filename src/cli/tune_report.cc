#include "cli/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "convoy/version.h"
#include "report/format.h"
#include "report/listing.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

Json measurements_json(const std::vector<Measurement>& measurements, const ConvProblem& problem) {
  Json list = Json::array();
  for (const Measurement& m : measurements) {
    list.push_back(report::to_json(m, problem));
    list.back()["state"] = name_of(m.state);
  }
  return list;
}

bool differs(const Tuned& tuned) {
  return !tuned.failure && tuned.untuned && !(*tuned.untuned == tuned.selection.candidate);
}

// "the same", or what would run and how many times as long it took beside the choice.
std::string without_tuning(const Tuned& tuned) {
  if (tuned.failure || !tuned.untuned) return "";
  if (!differs(tuned)) return "the same";
  for (const std::vector<Measurement>* measured : {&tuned.in_network, &tuned.alone}) {
    const auto find = [&](const Candidate& candidate) {
      return std::find_if(measured->begin(), measured->end(),
                          [&](const Measurement& m) { return !m.failure && m.candidate == candidate; });
    };
    const auto before = find(*tuned.untuned), now = find(tuned.selection.candidate);
    if (before == measured->end() || now == measured->end()) continue;
    return fmt::format("{}: {:.2f} times as long", print(*tuned.untuned), before->median_seconds / now->median_seconds);
  }
  return print(*tuned.untuned);
}

report::Listing<TimedPlan> plan_listing() {
  using report::Align;
  const auto over_first = [](const TimedPlan& plan) {
    return fmt::format("{:.3f} +-{:.1f}%", plan.over_first, 100 * plan.relative_uncertainty);
  };
  const auto measured = [](const TimedPlan& plan) { return fmt::format("{} of {}", plan.measured, plan.lines); };
  report::Listing<TimedPlan> listing;
  listing.column("plan", "how", &TimedPlan::how)
      .column("a run", "seconds", &TimedPlan::seconds, report::as_seconds, Align::right)
      .cell("x first", over_first, Align::right)
      .field("undisturbed_seconds", &TimedPlan::undisturbed_seconds)
      .column("predicted", "predicted_seconds", &TimedPlan::predicted_seconds, report::as_seconds, Align::right)
      .field("over_first", &TimedPlan::over_first)
      .field("relative_uncertainty", &TimedPlan::relative_uncertainty)
      .cell("lines measured", measured, Align::right)
      .field("lines", &TimedPlan::lines)
      .field("measured", &TimedPlan::measured)
      .field("plan", [](const TimedPlan& plan) { return print(plan.plan); });
  return listing;
}

report::Listing<Tuned> tuned_listing() {
  using report::Align;
  const auto unless_failed = [](auto value) {
    return [value](const Tuned& t) { return t.failure ? std::nullopt : std::optional(value(t)); };
  };
  const auto candidate = unless_failed([](const Tuned& t) { return print(t.selection.candidate); });
  const auto time = [](const Tuned& t) {
    const Measurement* const best = chosen(t);
    return best != nullptr ? report::seconds(best->median_seconds) : "-";
  };
  const auto spread = [](const Tuned& t) {
    const Measurement* const best = chosen(t);
    return best != nullptr ? report::spread_of(*best) : "";
  };
  report::Listing<Tuned> listing;
  listing.field("problem", [](const Tuned& t) { return print(t.convolution.problem); })
      .column(
          "count", "count", [](const Tuned& t) { return t.convolution.count; }, report::as_text, Align::right, 2)
      .field("nodes", [](const Tuned& t) { return t.convolution.nodes; })
      .field("constant_weights", [](const Tuned& t) { return t.convolution.constant_weights; })
      .field("partial", &Tuned::partial)
      .field("measured", &Tuned::measured)
      .field("candidates", [](const Tuned& t) { return measurements_json(t.alone, t.convolution.problem); })
      .field("in_network", [](const Tuned& t) { return measurements_json(t.in_network, t.convolution.problem); })
      .cell("problem", [](const Tuned& t) { return report::short_name(t.convolution.problem); })
      .field("failure", [](const Tuned& t) { return t.failure ? std::optional(t.failure->message) : std::nullopt; })
      .field("candidate", candidate)
      .field("reason", unless_failed([](const Tuned& t) { return t.selection.reason(); }))
      .cell("runs on", [candidate](const Tuned& t) { return candidate(t).value_or("-"); })
      .cell("time", time, Align::right)
      .cell("spread", spread, Align::right, 1)
      .cell(
          "known", [](const Tuned& t) { return t.alone.size(); }, Align::right, 4)
      .cell("now", &Tuned::measured, Align::right, 4)
      .cell("without tuning", without_tuning)
      .cell("state", [](const Tuned& t) { return t.failure   ? "failed"
                                                 : t.partial ? "partial"
                                                             : ""; })
      .field("untuned", [](const Tuned& t) { return t.untuned ? std::optional(print(*t.untuned)) : std::nullopt; });
  return listing;
}

}  // namespace

const Measurement* chosen(const Tuned& tuned) {
  for (const Measurement& m : tuned.selection.measurements) {
    if (m.candidate == tuned.selection.candidate && !m.failure) return &m;
  }
  return nullptr;
}

void find_untuned(const Program& program, const SelectionOptions& options, const PlanRequest& request,
                  std::span<Tuned> all) {
  static const float packed = 0;  // stands for constant weights: choosing doesn't read them
  SelectionOptions untuned = options;
  untuned.mode = SelectionMode::heuristic;
  untuned.store = nullptr;
  untuned.rules.clear();
  for (Tuned& tuned : all) {
    PlanRequest own = request;
    if (tuned.convolution.constant_weights && request.packs_weights(tuned.convolution.problem))
      own.constant_weights = &packed;
    const auto choice = select(tuned.convolution.problem, program.engines(), untuned, own, tuned.convolution.nodes);
    if (choice.ok()) tuned.untuned = choice->candidate;
  }
}

std::string plan_text(const std::vector<Tuned>& tuned) {
  std::string text;
  for (const Tuned& t : tuned) {
    if (!t.failure) {
      text += fmt::format("{} -> {}\n", print(t.convolution.problem), print(t.selection.candidate));
    }
  }
  return text;
}

std::string plan_heading(const std::string& target, const PlanRequest& request) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  std::string name = target;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, '?');
  return fmt::format("# Chosen by convoy {} tune, for --rules.\n# model: {}\n# on: {}\n# date: {}\n", version(), name,
                     place_of(request), date);
}

Json say_results(const Program& program, const std::vector<Tuned>& all) {
  const report::Listing<Tuned> listing = tuned_listing();
  report::Table table = listing.table();
  Json json = Json::array();
  std::vector<std::string> warnings;
  for (const Tuned& tuned : all) {
    if (tuned.failure) warnings.push_back(tuned.failure->message);
    for (const std::string& warning : tuned.selection.warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
    }
    listing.add(table, tuned,
                tuned.failure    ? report::Style::bad
                : tuned.partial  ? report::Style::warning
                : differs(tuned) ? report::Style::good
                                 : report::Style::plain);
    json.push_back(listing.json(tuned));
  }
  program.say(table);
  const auto changed = std::count_if(all.begin(), all.end(), differs);
  program.say(fmt::format(
      "\n{} of {} problems run on another engine or setting than without tuning, where the time is predicted", changed,
      all.size()));
  for (const std::string& warning : warnings) program.note(warning);
  return json;
}

void say_network(const Program& program, const TunedNetwork& network) {
  std::int64_t compared = 0, other = 0;
  for (const Tuned& tuned : network.convolutions) {
    compared += !tuned.in_network.empty();
    other += !tuned.in_network.empty() && !(tuned.selection.candidate == tuned.in_network[0].candidate);
  }
  program.say(fmt::format("in the network {} problem{} compared, {} on another candidate than the heuristic's{}",
                          compared, compared == 1 ? " was" : "s were", other,
                          network.whole.tuning.speedup
                              ? fmt::format(": {:.3f} times as fast as a whole", *network.whole.tuning.speedup)
                              : ""));
  for (const std::string& remark : network.whole.tuning.remarks) program.note(remark);
}

Json say_plans(const Program& program, const PlanChoice& choice) {
  auto [table, plans] = plan_listing().both(choice.plans);
  program.say("");
  program.say(table);
  const TimedPlan& best = choice.plans[choice.fastest];
  const bool doubtful =
      std::ranges::any_of(choice.plans, [&](const TimedPlan& plan) { return plan.over_first < best.over_first; });
  if (!choice.kept.empty()) {
    program.say(fmt::format("{} is kept in {}; convoy run finds it{}", best.how, choice.kept,
                            doubtful ? " (that another takes less is not beyond doubt)" : ""));
  }
  for (const std::string& remark : choice.remarks) program.note(remark);
  Json solvers;
  if (choice.solvers) {
    solvers = {{"how", choice.plans[choice.solvers->plan].how},
               {"predicted_seconds", choice.solvers->predicted_seconds},
               {"lines", choice.solvers->lines},
               {"measured", choice.solvers->measured}};
  }
  return {{"timed", std::move(plans)}, {"fastest", best.how}, {"solvers", solvers}, {"kept", choice.kept}};
}

}  // namespace convoy::cli
