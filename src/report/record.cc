#include "report/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/json.h"
#include "select/choose/former_knobs.h"

namespace convoy::report {
namespace {

constexpr int kRecordFormat = 1;

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

RecordedPlan plan_of(const Json& json) {
  return {.candidate = json.at("candidate").get<std::string>(),
          .notes = json.value("notes", std::vector<std::string>()),
          .calls = json.at("calls").get<std::int64_t>(),
          .workspace_bytes = json.value("workspace_bytes", std::int64_t{0}),
          .failure = json.value("failure", ""),
          .failure_detail = json.value("failure_detail", ""),
          .captured = json.value("captured", std::int64_t{0}),
          .seconds = json.value("seconds", 0.0)};
}

// A distinct failure once; the attributes decide, too.
void add(std::vector<RecordedFailure>& sum, const Json& json) {
  RecordedFailure failure{.descriptor = json.at("descriptor").get<std::string>(),
                          .status = json.value("status", ""),
                          .message = json.value("message", ""),
                          .count = json.value("count", std::int64_t{1}),
                          .problem = json.value("problem", ""),
                          .candidate = json.value("candidate", "")};
  const Json attributes = json.value("attributes", Json::object());
  for (const auto& [name, value] : attributes.items()) {
    failure.attributes.emplace_back(name, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  const auto same = std::find_if(sum.begin(), sum.end(), [&](const RecordedFailure& f) {
    return f.descriptor == failure.descriptor && f.status == failure.status && f.message == failure.message &&
           f.problem == failure.problem && f.candidate == failure.candidate && f.attributes == failure.attributes;
  });
  if (same == sum.end()) {
    sum.push_back(std::move(failure));
  } else {
    same->count += failure.count;
  }
}

void add(std::vector<std::string>& sum, std::string text) {
  if (!text.empty() && !has(sum, text)) sum.push_back(std::move(text));
}

// cuDNN's notes of an offer or plan, and those that it should have besides.
std::vector<std::string> all_notes(const Json& json) {
  auto notes = json.value("notes", std::vector<std::string>());
  for (std::string& hidden : json.value("hidden_notes", std::vector<std::string>())) add(notes, std::move(hidden));
  return notes;
}

RecordedGraph graph_of(const Json& json) {
  RecordedGraph graph{.problem = json.value("problem", ""),
                      .operations = json.at("operations").get<std::string>(),
                      .reason = json.value("reason", ""),
                      .device = json.value("device", ""),
                      .calls = json.at("calls").get<std::int64_t>(),
                      .benchmark = json.value("benchmark", false),
                      .steered = json.value("steered", ""),
                      .steered_adds = json.value("steered_adds", std::vector<std::string>())};
  for (const Json& each : json.value("not_placed", Json::array())) {
    graph.not_placed.push_back({each.at("candidate").get<std::string>(), each.value("reason", "")});
  }
  for (const Json& plan : json.value("plans", Json::array())) {
    RecordedPlan& own = graph.plans.emplace_back(plan_of(plan));
    graph.notes.try_emplace(own.candidate, all_notes(plan));
    if (const auto calls = std::min(plan.value("substituted", std::int64_t{0}), own.calls); calls > 0) {
      RecordedPlan stand_in{.candidate = plan.at("substitute").get<std::string>(),
                            .notes = own.notes,
                            .calls = calls,
                            .seconds = plan.value("substitute_seconds", 0.0),
                            .in_place_of = own.candidate};
      own.calls -= calls;
      graph.plans.push_back(std::move(stand_in));
    }
  }
  for (const Json& query : json.value("queries", Json::array())) {
    for (const Json& offer : query.at("offers")) {
      std::string candidate = offer.at("candidate").get<std::string>();
      graph.notes.try_emplace(candidate, all_notes(offer));
      add(graph.offered, std::move(candidate));
    }
  }
  return graph;
}

// The same graph of another process.
void add(RecordedGraph& sum, RecordedGraph graph) {
  sum.calls += graph.calls;
  for (RecordedPlan& plan : graph.plans) {
    const auto same = std::find_if(sum.plans.begin(), sum.plans.end(), [&](const RecordedPlan& p) {
      return p.candidate == plan.candidate && p.failure == plan.failure && p.in_place_of == plan.in_place_of;
    });
    if (same == sum.plans.end()) {
      sum.plans.push_back(std::move(plan));
    } else {
      same->calls += plan.calls;
      same->captured += plan.captured;
      same->workspace_bytes = std::max(same->workspace_bytes, plan.workspace_bytes);
    }
  }
  sum.notes.merge(graph.notes);
  sum.benchmark = sum.benchmark || graph.benchmark;
  if (sum.steered.empty()) sum.steered = std::move(graph.steered);
  for (NotPlaced& each : graph.not_placed) {
    const auto same = std::find_if(sum.not_placed.begin(), sum.not_placed.end(),
                                   [&](const NotPlaced& n) { return n.candidate == each.candidate; });
    if (same == sum.not_placed.end()) sum.not_placed.push_back(std::move(each));
  }
  for (std::string& candidate : graph.offered) {
    if (!has(sum.offered, candidate)) sum.offered.push_back(std::move(candidate));
  }
}

// The rules of another process, which has read the same choice file.
void add(std::vector<RecordedRule>& sum, const Json& rules) {
  for (const Json& json : rules) {
    RecordedRule rule{.pattern = json.at("pattern").get<std::string>(),
                      .candidate = json.at("candidate").get<std::string>(),
                      .matched = json.value("matched", std::int64_t{0}),
                      .obeyed = json.value("obeyed", std::int64_t{0}),
                      .reason = json.value("reason", "")};
    const auto same = std::find_if(sum.begin(), sum.end(), [&](const RecordedRule& r) {
      return r.pattern == rule.pattern && r.candidate == rule.candidate;
    });
    if (same == sum.end()) {
      sum.push_back(std::move(rule));
      continue;
    }
    same->matched += rule.matched;
    same->obeyed += rule.obeyed;
    if (same->reason.empty()) same->reason = std::move(rule.reason);
  }
}

}  // namespace

bool is_record(std::string_view text) { return text.starts_with(R"({"convoy_record":)"); }

Result<Record> parse_record(std::string_view text, std::string_view file) {
  Record record;
  std::map<std::string, RecordedGraph> graphs;
  std::set<std::int64_t> pids;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", file, number);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return Error{ErrorCode::corrupt, where + ": no JSON object; the line may be cut off"};
    try {
      if (json.contains("convoy_record")) {
        const int format = json.at("convoy_record").get<int>();
        if (format != kRecordFormat) {
          return Error{ErrorCode::unsupported,
                       fmt::format("{}: convoy_record={}: this Convoy reads records of format {}", where, format,
                                   kRecordFormat)};
        }
        // PyTorch's hook has a part of its own, with the process's number.
        if (pids.insert(json.value("pid", std::int64_t{-1} - record.processes)).second || !json.value("hook", false)) {
          ++record.processes;
        }
        const int version = json.value("cudnn", 0);
        record.cudnn = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
        // (Only a file of cuDNN's name: who reads a record opens it.)
        if (const std::string path = json.value("cudnn_file", ""); path.find("/libcudnn.so.") != std::string::npos) {
          record.cudnn_file = path;
        }
        add(record.rules, json.value("rules", Json::array()));
        add(record.programs, json.value("program", ""));
        record.seconds = std::max(record.seconds, json.value("seconds", 0.0));
        record.benchmark = record.benchmark || json.value("benchmark", false);
        for (const Json& filter : json.value("filters", Json::array())) add(record.filters, filter.get<std::string>());
        continue;
      }
      if (record.processes == 0) return Error{ErrorCode::corrupt, where + ": convoy_record: a record begins with it"};
      if (json.contains("failure")) {
        add(record.failures, json.at("failure"));
        continue;
      }
      RecordedGraph graph = graph_of(json);
      if (!graph.problem.empty()) {
        if (const auto problem = parse_problem(graph.problem); !problem.ok()) {
          return problem.error().within(where + ": problem");
        }
      }
      const std::string key = graph.device + '\n' + graph.problem + '\n' + graph.operations + '\n' + graph.reason;
      const auto [found, added] = graphs.try_emplace(key, graph);
      if (!added) add(found->second, std::move(graph));
    } catch (const Json::exception& error) {
      return Error{ErrorCode::corrupt, fmt::format("{}: {}", where, error.what())};
    }
  }
  if (record.processes == 0) return Error{ErrorCode::corrupt, fmt::format("{}: there is no record in it", file)};
  for (auto& [key, graph] : graphs) {
    std::stable_sort(graph.plans.begin(), graph.plans.end(),
                     [](const RecordedPlan& a, const RecordedPlan& b) { return a.calls > b.calls; });
    record.graphs.push_back(std::move(graph));
  }
  std::stable_sort(record.graphs.begin(), record.graphs.end(),
                   [](const RecordedGraph& a, const RecordedGraph& b) { return a.calls > b.calls; });
  return record;
}

bool calls_legacy_api(const RecordedGraph& graph) { return graph.operations.starts_with("cudnnConvolution"); }

InferredMath inferred_math(const RecordedGraph& graph) {
  const auto problem = parse_problem(graph.problem);
  if (!problem || problem->x.type != DataType::f32) {
    return {MathMode::reduced, "its types: frameworks filter no engine of them"};
  }
  if (calls_legacy_api(graph)) return {problem->math, "the program told cuDNN"};
  for (const RecordedPlan& plan : graph.plans) {
    if (plan.calls == 0) continue;
    if (has(plan.notes, "TENSOR_CORE") || has(plan.notes, "DOWN_CONVERT_INPUTS")) {
      if (!plan.in_place_of.empty()) return {MathMode::tf32, plan.in_place_of + " was to run, which rounds f32"};
      return {MathMode::tf32, plan.candidate + " ran, which rounds f32"};
    }
  }
  return {MathMode::strict, "no plan that ran rounds f32"};
}

std::vector<std::string> former_names(const Record& record) {
  std::vector<std::string> remarks;
  const auto look_at = [&](std::string_view name) {
    auto candidate = parse_candidate(name);
    if (candidate.ok()) selection::named_today(*std::move(candidate), nullptr, "recorded", remarks);
  };
  for (const RecordedGraph& graph : record.graphs) {
    for (const RecordedPlan& plan : graph.plans) look_at(plan.candidate);
    for (const std::string& each : graph.offered) look_at(each);
    for (const NotPlaced& each : graph.not_placed) look_at(each.candidate);
    look_at(graph.steered);
  }
  for (const RecordedRule& rule : record.rules) look_at(rule.candidate);
  return remarks;
}

std::string problem_list(const Record& record) {
  std::string text =
      "# What a program asked of cuDNN (convoy exec --record). cuDNN is not told which math a program allows: it is "
      "inferred\n"
      "# from the engines that ran.\n";
  for (const RecordedGraph& graph : record.graphs) {
    if (graph.problem.empty()) {
      text += fmt::format("# {} calls of {}: {}\n", graph.calls, graph.operations, graph.reason);
      continue;
    }
    auto problem = parse_problem(graph.problem);
    if (!problem) continue;  // parse_record has read it
    problem->math = inferred_math(graph).math;
    text += fmt::format("{} {}  # {}\n", std::max<std::int64_t>(graph.calls, 1), print(*problem),
                        graph.plans.empty() ? "never ran" : graph.plans.front().candidate);
  }
  return text;
}

}  // namespace convoy::report
