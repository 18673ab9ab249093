#include "report/program_view.h"
#include "report/program_words.h"

namespace convoy::report {
namespace {

constexpr int kProgramFormat = 1;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json algorithm_json(const Convolution& convolution, std::size_t index) {
  const Algorithm& algorithm = convolution.algorithms[index];
  Json json{{"candidate", algorithm.candidate},
            {"place", algorithm.place > 0 ? Json(algorithm.place) : Json(nullptr)},
            {"seconds", or_null(algorithm.seconds)},
            {"spread", or_null(algorithm.spread)},
            {"rough", algorithm.rough},
            {"joules", or_null(algorithm.joules)},
            {"workspace_bytes", or_null(algorithm.workspace_bytes)},
            {"calls", algorithm.calls},
            {"captured", algorithm.captured},
            {"planned", algorithm.planned},
            {"permitted", algorithm.permitted},
            {"notes", or_null(algorithm.notes)}};
  if (!algorithm.failure.empty()) json["failure"] = algorithm.failure;
  if (!algorithm.detail.empty()) json["failure_detail"] = algorithm.detail;
  if (!algorithm.not_placed.empty()) json["not_placed"] = algorithm.not_placed;
  if (!algorithm.in_place_of.empty()) json["in_place_of"] = algorithm.in_place_of;
  return json;
}

Json convolution_json(const Convolution& convolution) {
  const auto named = [&](const std::optional<std::size_t>& index) {
    return index ? Json(convolution.algorithms[*index].candidate) : Json(nullptr);
  };
  Json json{{"number", convolution.number},
            {"problem", convolution.graph.problem},
            {"layer", layer_of(convolution.problem)},
            {"pass", std::string(name_of(convolution.problem.pass))},
            {"operations", convolution.graph.operations},
            {"device", convolution.graph.device},
            {"math", std::string(name_of(convolution.math.math))},
            {"math_from", convolution.math.from},
            {"calls", convolution.graph.calls},
            {"timed_calls", convolution.timed_calls},
            {"seconds", convolution.timed_calls > 0 ? Json(convolution.seconds) : Json(nullptr)},
            {"share", convolution.timed_calls > 0 ? Json(convolution.share) : Json(nullptr)},
            {"joules", or_null(convolution.joules)},
            {"gain_taken", convolution.gain_taken},
            {"gain_not_taken", convolution.gain_not_taken},
            {"benchmark", convolution.graph.benchmark},
            {"steered", convolution.graph.steered.empty() ? Json(nullptr) : Json(convolution.graph.steered)},
            {"caches", convolution.caches ? Json(std::string(name_of(*convolution.caches))) : Json(nullptr)},
            {"used", named(convolution.used)},
            {"asked", named(convolution.asked)},
            {"instead", named(convolution.instead)},
            {"best", named(convolution.best)},
            {"best_forbidden", named(convolution.best_forbidden)},
            {"best_elsewhere", named(convolution.best_elsewhere)},
            {"algorithms", Json::array()}};
  for (std::size_t i = 0; i < convolution.algorithms.size(); ++i) {
    json["algorithms"].push_back(algorithm_json(convolution, i));
  }
  return json;
}

}  // namespace

Json to_json(const ProgramReport& report, const LayoutComparison& layouts) {
  const Record& record = report.record;
  Json convolutions = Json::array(), others = Json::array(), rules = Json::array(), failures = Json::array();
  for (const Convolution& each : report.convolutions) convolutions.push_back(convolution_json(each));
  for (const RecordedGraph& graph : report.others) {
    others.push_back({{"operations", graph.operations}, {"calls", graph.calls}, {"reason", graph.reason}});
  }
  for (const RecordedRule& rule : record.rules) {
    rules.push_back({{"pattern", rule.pattern},
                     {"candidate", rule.candidate},
                     {"matched", rule.matched},
                     {"obeyed", rule.obeyed},
                     {"reason", rule.reason}});
  }
  for (const RecordedFailure& failure : record.failures) {
    Json attributes = Json::object();
    for (const auto& [name, value] : failure.attributes) attributes[name] = Json::parse(value, nullptr, false);
    failures.push_back({{"descriptor", failure.descriptor},
                        {"status", failure.status},
                        {"message", failure.message},
                        {"count", failure.count},
                        {"problem", failure.problem.empty() ? Json(nullptr) : Json(failure.problem)},
                        {"candidate", failure.candidate.empty() ? Json(nullptr) : Json(failure.candidate)},
                        {"attributes", std::move(attributes)}});
  }
  Json totals = Json::array();
  for (const LayoutTotal& total : layouts.totals) {
    totals.push_back({{"layout", std::string(name_of(total.layout, 2))},
                      {"convolutions", total.convolutions},
                      {"missing", total.missing},
                      {"converted", total.converted},
                      {"predicted_seconds", total.convolutions > 0 ? Json(total.seconds) : Json(nullptr)},
                      {"as_it_ran_seconds", total.as_it_ran},
                      {"best_as_it_is_seconds", total.best_as_it_is}});
  }
  return {{"convoy_report", kProgramFormat},
          {"programs", record.programs},
          {"processes", record.processes},
          {"unfinished", report.unfinished},
          {"cudnn", record.cudnn},
          {"run_seconds", record.seconds},
          {"benchmark", record.benchmark},
          {"database", report.database},
          {"calls", report.calls},
          {"timed_calls", report.timed_calls},
          {"seconds", report.seconds},
          {"joules", or_null(report.joules)},
          {"gain_taken", report.gain_taken},
          {"gain_not_taken", report.gain_not_taken},
          {"layouts", {{"copy_bytes_per_second", or_null(layouts.bandwidth)}, {"totals", std::move(totals)}}},
          {"rules", std::move(rules)},
          {"filters", record.filters},
          {"failures", std::move(failures)},
          {"passed_through", std::move(others)},
          {"convolutions", std::move(convolutions)}};
}

}  // namespace convoy::report
