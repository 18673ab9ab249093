#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "convoy/network_precision.h"
#include "core/text.h"

namespace convoy {
namespace {

constexpr int kMostTries = 8;
constexpr double kNear = 0.85;      // of the error that is allowed: looking on is hardly worth it
constexpr double kOfTheTime = 0.5;  // for looking at nodes one by one

double relative_error(const HostTensor& actual, const HostTensor& expected) {
  if (actual.desc.type != expected.desc.type || actual.desc.dims != expected.desc.dims)
    return std::numeric_limits<double>::infinity();
  if (!is_floating(expected.desc.type)) return 0;
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < expected.desc.elements(); ++i) {
    const double a = load_as_double(actual.desc.type, actual.data.get(), i);
    const double e = load_as_double(expected.desc.type, expected.data.get(), i);
    if (!std::isfinite(e)) continue;
    difference += (a - e) * (a - e);
    norm += e * e;
  }
  if (difference == 0) return 0;
  return std::isfinite(difference) && norm > 0 ? std::sqrt(difference / norm) : std::numeric_limits<double>::infinity();
}

class Chooser {
 public:
  Chooser(const Network& network, std::span<const NetworkInputs> inputs, const NetworkOptions& options,
          double max_error, const NetworkTuningProgress& progress)
      : network_(network), inputs_(inputs), options_(options), max_error_(max_error), progress_(progress) {
    for (const HostTensor& input : inputs.front()) descs_.push_back(input.desc);
    budget_ = std::exchange(options_.selection.budget_seconds, 0);
    options_.selection.mode = SelectionMode::heuristic;
    options_.kept_plans.clear();
    options_.plan.reset();
  }

  Result<PrecisionChoice> run() {
    show(0, "the plan in f32");
    CONVOY_TRY(best_, made(strict()));
    make_strict(best_.plan);
    show(0, "its outputs");
    CONVOY_TRY(f32_session_, prepared(best_.plan));
    CONVOY_TRY(expected_, outputs_of(*f32_session_, inputs_.size()));
    show(0, "the fastest plan and its outputs");
    CONVOY_TRY(const Made narrow, made(options_));
    CONVOY_TRY(const double narrow_error, error_of(narrow.plan, inputs_.size()));
    result_.f32_seconds = best_.seconds;
    result_.narrow_seconds = narrow.seconds;
    result_.narrow_error = narrow_error;
    name_nodes({&best_.plan, &narrow.plan});
    const std::vector<std::string> own = narrow_nodes(best_.plan);
    own_ = {own.begin(), own.end()};
    if (narrow_error <= max_error_) {
      take(narrow, narrow_error);
    } else {
      CONVOY_CHECK(look_at(narrow.plan));
      CONVOY_CHECK(search());
    }
    result_.plan = best_.plan;
    result_.predicted_seconds = best_.seconds;
    result_.narrowed = static_cast<int>(narrow_nodes(best_.plan).size());
    std::vector<std::string>& said = result_.plan.remarks;
    said.push_back(fmt::format("error {:.4g}, allowed {:.4g}", result_.error, max_error_));
    for (const NarrowedNode& node : result_.nodes)
      said.push_back(fmt::format("  {} alone: {:.4g}", node.name, node.error));
    return std::move(result_);
  }

 private:
  struct Made {
    NetworkPlan plan;
    double seconds = 0;
  };

  // A plan may have several lines for a node, one for each fusion that it undoes and one for what is left: a node is
  // named by the longest line that any of the plans has for it.
  void name_nodes(std::initializer_list<const NetworkPlan*> plans) {
    std::vector<std::string> names;
    for (const NetworkPlan* plan : plans) {
      for (const NetworkPlanLine& line : plan->lines) {
        if (line.kind != "convert") names.push_back(line.name);
      }
    }
    std::ranges::stable_sort(names, std::greater<>(), &std::string::size);
    for (const std::string& name : names) {
      for (const std::string_view part : split(name, '+')) node_of_.try_emplace(std::string(part), name);
    }
  }
  const std::string& node_of(const std::string& line) const {
    const auto found = node_of_.find(line.substr(0, line.find('+')));
    return found == node_of_.end() ? line : found->second;
  }

  // The nodes that are, and are not in the model.
  std::vector<std::string> narrow_nodes(const NetworkPlan& plan) const {
    std::vector<std::string> nodes;
    for (const NetworkPlanLine& line : plan.lines) {
      const std::string& node = node_of(line.name);
      if (line.kind == "convert" || own_.contains(node) || !is_narrow(plan.header, line)) continue;
      if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
    }
    return nodes;
  }

  // Of all nodes, in seconds.
  std::map<std::string, double> costs_of(const NetworkPlan& plan) const {
    std::map<std::string, double> costs;
    for (const NetworkPlanLine& line : plan.lines) {
      if (line.kind != "convert" && line.cost) costs[node_of(line.name)] += line.cost->seconds;
    }
    return costs;
  }

  // The narrow nodes, those first that it takes most off: time may not last for all.
  std::vector<std::string> by_gain(const NetworkPlan& narrow) const {
    const std::map<std::string, double> costs = costs_of(narrow), f32_costs = costs_of(best_.plan);
    const auto gain = [&](const std::string& name) {
      const auto before = f32_costs.find(name), after = costs.find(name);
      return before == f32_costs.end() || after == costs.end() ? 0 : before->second - after->second;
    };
    std::vector<std::string> names = narrow_nodes(narrow);
    std::ranges::stable_sort(names, std::greater<>(), gain);
    return names;
  }

  // What gives up nothing of f32.
  NetworkOptions strict() const {
    NetworkOptions options = options_;
    options.precision = DataType::f32;
    options.math = MathMode::strict;
    return options;
  }

  // A plan that was made so, where less is allowed.
  void make_strict(NetworkPlan& plan) const {
    plan.header.math = options_.math;
    for (NetworkPlanLine& line : plan.lines) line.strict = line.kind == "conv" && options_.math != MathMode::strict;
  }

  bool is_narrow(const NetworkPlanHeader& header, const NetworkPlanLine& line) const {
    const std::string_view type = name_of(options_.precision);
    if (options_.precision != DataType::f32) return line.from.starts_with(type) || line.to.starts_with(type);
    return header.math != MathMode::strict && line.kind == "conv" && !line.strict && line.from.starts_with(type);
  }

  Result<Made> made(NetworkOptions making) const {
    making.how = "global";
    CONVOY_TRY(NetworkPlan plan, network_.plan(descs_, making));
    const double seconds = plan.cost().seconds;
    return Made{std::move(plan), seconds};
  }

  // With seconds for measuring, until the plan is of costs that were measured.
  Result<Made> made_within(double limit, double seconds) const {
    NetworkOptions making = options_;
    making.precision_errors = errors_;
    making.error_limit = limit;
    if (seconds > 0) {
      making.selection.mode = SelectionMode::measured;
      making.selection.budget_seconds = seconds;
    }
    return made(std::move(making));
  }

  Result<std::unique_ptr<Session>> prepared(const NetworkPlan& plan, bool lenient = false) const {
    NetworkOptions obeying = options_;
    obeying.plan = plan;
    obeying.lenient_plan = lenient;
    return network_.prepare(descs_, obeying);
  }

  // Of the first so many inputs.
  Result<std::vector<std::vector<HostTensor>>> outputs_of(Session& session, std::size_t count) const {
    std::vector<std::vector<HostTensor>> outputs;
    for (const NetworkInputs& each : inputs_.first(count)) {
      CONVOY_TRY(std::vector<HostTensor> result, session.run(each));
      outputs.push_back(std::move(result));
    }
    return outputs;
  }

  Result<double> error_of(const NetworkPlan& plan, std::size_t count) const {
    CONVOY_TRY(const auto session, prepared(plan));
    return error_of(*session, count);
  }
  Result<double> error_of(Session& session, std::size_t count) const {
    CONVOY_TRY(const auto outputs, outputs_of(session, count));
    double error = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      error = std::max(error, convoy::relative_error(outputs[i], expected_[i]));
    }
    return error;
  }

  void take(const Made& plan, double error) {
    if (!(plan.seconds < best_.seconds)) return;
    best_ = plan;
    result_.error = error;
  }

  double spent() const { return monotonic_seconds() - start_; }
  bool stopped(double share) const {
    return (options_.selection.stop != nullptr && *options_.selection.stop) ||
           (budget_ > 0 && spent() > share * budget_);
  }
  void show(double fraction, const std::string& what) const {
    if (progress_) progress_(fraction, what);
  }

  // The f32 plan with one node as the narrow plan has it. What has to be converted follows from that.
  NetworkPlan with_one(const std::string& node, const NetworkPlan& narrow) const {
    NetworkPlan plan{.header = best_.plan.header, .lines = {}, .remarks = {}};
    for (const NetworkPlanLine& line : best_.plan.lines) {
      if (line.kind != "convert" && node_of(line.name) != node) plan.lines.push_back(line);
    }
    for (const NetworkPlanLine& line : narrow.lines) {
      if (line.kind != "convert" && node_of(line.name) == node) plan.lines.push_back(line);
    }
    return plan;
  }

  // By one of the inputs: whole plans are by all, and what they show moves the limit.
  Result<void> look_at(const NetworkPlan& narrow) {
    const std::vector<std::string> names = by_gain(narrow);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (stopped(kOfTheTime)) {
        result_.remarks.push_back(
            fmt::format("the time ended after {} of {} nodes: the others stay f32", i, names.size()));
        break;
      }
      show(kOfTheTime * static_cast<double>(i) / static_cast<double>(names.size()), names[i]);
      CONVOY_TRY(const auto session, prepared(with_one(names[i], narrow), true));
      if (session->remarks() != f32_session_->remarks()) {
        result_.remarks.push_back(
            fmt::format("{} stays f32: it can't be looked at alone: {}", names[i], session->remarks().front()));
        continue;
      }
      CONVOY_TRY(const double error, error_of(*session, 1));
      result_.nodes.push_back({names[i], error});
      if (error <= max_error_) errors_[names[i]] = error;
    }
    return {};
  }

  // With limits of what errors are expected to add up to: they may add up to less, or more. What a plan narrows it
  // also converts, in ways that neither the f32 plan nor the narrow one has: they are measured where a store keeps
  // that.
  Result<void> search() {
    double limit = max_error_, least_broken = std::numeric_limits<double>::infinity();
    NetworkPlan before;
    for (int tries = 0; tries < kMostTries && !errors_.empty() && !stopped(1); ++tries) {
      show(kOfTheTime + (1 - kOfTheTime) * tries / kMostTries, "whole plans");
      const double left = options_.selection.store != nullptr && budget_ > 0 ? budget_ - spent() : 0;
      CONVOY_TRY(const Made plan, made_within(limit, left / 2));
      if (same_choices(plan.plan, before)) break;
      before = plan.plan;
      CONVOY_TRY(const double error, error_of(plan.plan, inputs_.size()));
      if (error <= max_error_) {
        take(plan, error);
        if (error >= kNear * max_error_) break;
        limit *= std::clamp(error > 0 ? 0.95 * max_error_ / error : 4.0, 1.05, 4.0);
        if (limit >= least_broken) break;
      } else {
        least_broken = std::min(least_broken, limit);
        limit *= std::isfinite(error) ? 0.95 * max_error_ / error : 0.5;
      }
    }
    return {};
  }

  const Network& network_;
  std::span<const NetworkInputs> inputs_;
  NetworkOptions options_;
  double max_error_, budget_ = 0, start_ = monotonic_seconds();
  const NetworkTuningProgress& progress_;
  std::vector<TensorDesc> descs_;
  std::vector<std::vector<HostTensor>> expected_;  // by run
  std::map<std::string, std::string> node_of_;     // each of a node's names
  std::set<std::string> own_;                      // nodes that are narrow in the model
  std::unique_ptr<Session> f32_session_;           // others share its weights where they lie on a GPU
  std::map<std::string, double> errors_;
  Made best_;
  PrecisionChoice result_;
};

}  // namespace

double relative_error(std::span<const HostTensor> actual, std::span<const HostTensor> expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double greatest = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) greatest = std::max(greatest, relative_error(actual[i], expected[i]));
  return greatest;
}

Result<PrecisionChoice> choose_precision(const Network& network, std::span<const NetworkInputs> inputs,
                                         const NetworkOptions& options, double max_error,
                                         const NetworkTuningProgress& progress) {
  if (options.precision == DataType::f32 && options.math == MathMode::strict) {
    return Error{ErrorCode::invalid_argument, "precision=f32: there is nothing to choose from"};
  }
  if (options.precision != DataType::f32 && options.math != MathMode::strict) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("precision={} with math={}: what is not narrow is strictly f32, so allow only one of them",
                             name_of(options.precision), name_of(options.math))};
  }
  if (!(max_error >= 0)) {
    return Error{ErrorCode::invalid_argument, fmt::format("max_error={} must be at least 0", max_error)};
  }
  if (inputs.empty()) return Error{ErrorCode::invalid_argument, "inputs: at least one run's are needed"};
  if (options.memory.asked()) {
    return Error{ErrorCode::unsupported, "a limit on memory and one on the error can't be had together"};
  }
  return Chooser(network, inputs, options, max_error, progress).run();
}

}  // namespace convoy
