#include "network/prepare/improve.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/log.h"
#include "network/assign/kept_plan.h"
#include "network/assign/layout_rules.h"
#include "network/assign/plan.h"
#include "network/assign/threads.h"
#include "network/cost/caches.h"
#include "network/cost/chooser.h"
#include "network/graph/image_wise.h"
#include "network/graph/pass.h"

namespace convoy::network {
namespace {

// What a network at home on a GPU is not prepared with, yet.
Result<void> check_home(const NetworkOptions& options) {
  const bool in_parts = options.parts && *options.parts != BatchParts{};
  const std::string what = options.how.starts_with("uniform:nchw") && options.how != "uniform:nchw"
                               ? fmt::format("how='{}'", options.how)
                           : in_parts               ? fmt::format("parts {}", print(*options.parts))
                           : options.memory.asked() ? std::string("a goal for memory")
                                                    : std::string();
  if (what.empty()) return {};
  return Error{ErrorCode::unsupported,
               fmt::format("{}: networks on a GPU do not have this yet, only networks on the processor", what)};
}

Result<PrepareSettings> completed(PrepareSettings settings) {
  if (settings.options.threads < 1) {
    return Error{ErrorCode::invalid_argument,
                 "threads=" + std::to_string(settings.options.threads) + " must be at least 1"};
  }
  const DataType precision = settings.options.precision;
  if (precision != DataType::f32 && precision != DataType::bf16 && precision != DataType::f16) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("precision='{}' is not one of f32, bf16, f16", name_of(precision))};
  }
  const std::shared_ptr<ThreadTeam>& lent = settings.options.team;
  if (lent && lent->size() != settings.options.threads) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("team has {} threads, threads={}", lent->size(), settings.options.threads)};
  }
  if (settings.options.cuda) CONVOY_CHECK(check_home(settings.options));
  if (!settings.options.cuda && settings.options.device_memory_limit) {
    return Error{ErrorCode::invalid_argument, "a limit of a GPU's memory: the network's home is the processor"};
  }
  if (!settings.team) settings.team = lent ? lent : make_cpu_team(settings.options.threads);
  return settings;
}

Result<Improved> improve_whole(Graph graph, const PrepareSettings& settings) {
  const PassContext context{*settings.team, settings.options.cpu, settings.options.cuda.has_value()};
  if (auto log = run_passes(graph, context, settings.options.skip_passes); !log.ok()) return log.error();
  NetworkPlanHeader header = header_of(graph, settings.options);
  return Improved{std::move(graph), settings, std::move(header)};
}

// The same for one part of the batch. `whole` is the graph without passes.
Result<Improved> improve_part(const Graph& whole, const PrepareSettings& given, NetworkPlanHeader header,
                              const BatchParts& parts) {
  const auto images = batch_of(whole);
  if (!images || parts.images < 1 || *images % parts.images != 0) {
    return Error{ErrorCode::invalid_argument, fmt::format("parts {} don't make up a batch of {} images", print(parts),
                                                          images ? std::to_string(*images) : "unknown")};
  }
  if (!given.places.empty()) {
    return Error{ErrorCode::unsupported, fmt::format("parts {}: they run on the processor only", print(parts))};
  }
  PrepareSettings settings = given;
  if (parts.a_thread_each) settings.options.threads = 1;
  auto& limit = settings.options.memory.activation_limit;
  const std::int64_t count = *images / parts.images;
  if (limit && parts.a_thread_each) *limit /= std::min<std::int64_t>(given.options.threads, count);
  CONVOY_TRY(Improved improved, improve_whole(with_batch(whole, parts.images), settings));
  improved.header = std::move(header);
  improved.header.parts = parts;
  improved.part_count = count;
  return improved;
}

// Threads share the way from memory, by which the weights come for each part: VGG-16's 550 MB take 7 ms longer beside
// another thread that reads them, ResNet-50's 100 MB 0.8 (Zen 5).
constexpr double kSharedBytesPerSecond = 80e9;

double sharing_seconds(const Improved& improved) {
  double bytes = 0;
  for (const Value& value : improved.graph.values) {
    if (value.constant) bytes += static_cast<double>(value.constant->desc.bytes());
  }
  const auto parts = static_cast<double>(improved.part_count), threads = static_cast<double>(improved.header.threads);
  const double readers = improved.header.parts.a_thread_each ? std::min(threads, parts) : threads;
  return parts * (readers - 1) / readers * bytes / kSharedBytesPerSecond;
}

// Parts that begin between cache lines are copied from the inputs and to the outputs (run/execution.cc): of a batch of
// 8 sums of 65,207 f32 that takes longer than all sums.
constexpr double kCopiedBytesPerSecond = 40e9;

double copying_seconds(const Improved& improved) {
  constexpr std::int64_t kLine = 64;
  double bytes = 0;
  for (const std::vector<int>* values : {&improved.graph.inputs, &improved.graph.outputs}) {
    for (const int v : *values) {
      const std::int64_t part = improved.graph.values[v].desc.bytes();
      if (part % kLine != 0) bytes += static_cast<double>(part);
    }
  }
  const auto parts = static_cast<double>(improved.part_count), threads = static_cast<double>(improved.header.threads);
  return (parts - 1) * bytes / kCopiedBytesPerSecond /
         (improved.header.parts.a_thread_each ? std::min(threads, parts - 1) : 1);
}

// What a plan by "greedy" takes by what is known, without measuring.
Result<double> seconds_by_greedy(const Improved& improved) {
  NetworkOptions options = improved.settings.options;
  options.selection.mode = SelectionMode::heuristic;
  decide_caches(improved.graph, options.cpu, options.selection);
  Chooser chooser(options, {}, {}, improved.settings.engines);
  std::vector<std::string> remarks;
  Graph graph = improved.graph;
  CONVOY_TRY(const Forms forms, forms_by("greedy", graph, chooser, remarks));
  CONVOY_TRY(const Assignment assignment, assign(graph, take_form(graph, forms), chooser, forms.candidates));
  const NetworkPlanCost cost = plan_of(graph, assignment, improved.header, chooser).cost();
  const bool meet = improved.settings.options.threads > 1;  // at the end of each step
  const double steps = static_cast<double>(improved.part_count) * cost.lines;
  return cost.seconds + sharing_seconds(improved) + copying_seconds(improved) +
         (meet ? steps * kSecondsOfAllThreads : 0);
}

// Of the whole batch's time, as predicted, what parts one after another have to be below. Parts side by side have to be
// below all of it: how long threads wait for each other at a step's end is in no prediction, and where both are
// predicted alike they take 0.92 to 1.01 of its time (Zen 5, two threads, bf16 and f32).
constexpr double kWorthOneByOne = 0.97, kWorthSideBySide = 1;

// The whole batch, or the parts of it that are predicted to take least, or least memory where that is asked for. Rules
// may say which convolutions of the whole they are for.
Result<Improved> improve_fastest(const Graph& graph, Improved whole) {
  const auto images = batch_of(graph);
  const PrepareSettings& settings = whole.settings;
  const bool one_way = settings.options.cuda || !images || *images < 2 || !settings.candidates.empty() ||
                       !settings.places.empty() || !settings.options.selection.rules.empty();
  if (one_way) return whole;
  const PassContext context{*settings.team, settings.options.cpu};
  if (const auto alone = check_image_wise(graph, 1, context); !alone.ok()) {
    log(LogLevel::info, "batch", {{"parts", print(BatchParts{})}, {"why", alone.error().message}});
    return whole;
  }
  if (settings.options.memory.least) return improve_part(graph, settings, whole.header, {1, false});
  const auto predicted = [](const Improved& improved) {
    auto seconds = seconds_by_greedy(improved);
    const std::string text = seconds.ok() ? fmt::format("{:.4g}", *seconds) : seconds.error().message;
    log(LogLevel::info, "batch", {{"parts", print(improved.header.parts)}, {"predicted_seconds", text}});
    return seconds;
  };
  const auto seconds_of_whole = predicted(whole);
  if (!seconds_of_whole.ok()) return whole;
  std::optional<Improved> best;
  double least = std::numeric_limits<double>::infinity();
  for (const bool a_thread_each : {true, false}) {
    if (a_thread_each && settings.options.threads == 1) continue;
    const double most = *seconds_of_whole * (a_thread_each ? kWorthSideBySide : kWorthOneByOne);
    double before = std::numeric_limits<double>::infinity();
    for (std::int64_t each = 1; each < *images; ++each) {
      if (*images % each != 0) continue;
      auto part = improve_part(graph, settings, whole.header, {each, a_thread_each});
      const auto seconds = part.ok() ? predicted(*part) : part.error();
      if (!seconds.ok() || *seconds > before) break;  // larger parts trade the caches for weights, ever more
      before = *seconds;
      if (*seconds >= std::min(least, most)) continue;
      if (each > 1 && !check_image_wise(graph, each, context).ok()) continue;
      least = *seconds;
      best = *std::move(part);
    }
  }
  return best ? *std::move(best) : std::move(whole);
}

// Those of the plan that is obeyed, which the options have or which was kept; nothing: there is none.
std::optional<BatchParts> obeyed_parts(const Improved& whole) {
  const NetworkOptions& options = whole.settings.options;
  if (options.plan) return options.plan->header.parts;
  if (options.kept_plans.empty()) return std::nullopt;
  const auto kept = read_kept_plan(kept_plan_path(options.kept_plans, whole.header, options.cpu));
  if (kept.ok()) return kept->header.parts;
  return kept.error().code == ErrorCode::not_found ? std::nullopt : std::optional(BatchParts{});
}

Result<Improved> improve_as_asked(const Graph& graph, const PrepareSettings& settings) {
  CONVOY_TRY(Improved whole, improve_whole(graph, settings));
  const std::optional<BatchParts> parts = settings.options.parts ? settings.options.parts : obeyed_parts(whole);
  if (!parts) return improve_fastest(graph, std::move(whole));
  if (*parts == BatchParts{}) return whole;
  const auto part = [&]() -> Result<Improved> {
    CONVOY_TRY(Improved improved, improve_part(graph, settings, whole.header, *parts));
    CONVOY_CHECK(check_image_wise(graph, parts->images, {*settings.team, settings.options.cpu}));
    return improved;
  };
  auto improved = part();
  const bool asked = settings.options.parts || settings.options.plan;
  return improved.ok() || asked ? std::move(improved) : std::move(whole);  // whose kept plan then is a remark
}

}  // namespace

// The caller's graph is gone when this returns, and what is released of the improved one is held by nobody else.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
Result<Improved> improve(Graph graph, const PrepareSettings& given) {
  CONVOY_TRY(const PrepareSettings settings, completed(given));
  CONVOY_TRY(Improved improved, improve_as_asked(graph, settings));
  if (!improved.settings.options.cuda) {
    decide_caches(improved.graph, improved.settings.options.cpu, improved.settings.options.selection);
  }
  return improved;
}

}  // namespace convoy::network
