// A network's plans side by side: what each chooses, what its lines predict, and what runs of it take. The data of
// `convoy report MODEL`, as JSON and as a page.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/network.h"
#include "report/json.h"
#include "report/refusals.h"
#include "select/measure/ceiling.h"
#include "select/measure/statistics.h"

namespace convoy::report {

struct LineCost {
  double seconds = 0;
  bool measured = false;  // else predicted
};

// A step as it ran interleaved with the other plans.
struct PlannedStep {
  NetworkStep step;
  double seconds = 0;            // median
  std::optional<LineCost> cost;  // of its line in the plan; nothing: the plan has none
};

struct NetworkPlan {
  std::string name;  // "global", "mine.plan"
  DataType precision = DataType::f32;
  std::vector<PlannedStep> steps;  // of a part of the batch, if it runs in parts
  int turns = 1;                   // how often they run, one time after another
  selection::Summary seconds;      // of a run
  double undisturbed_seconds = 0;  // of a run while nobody else uses the processor
  selection::Summary ratio;        // how many times as long as the first plan
  std::vector<std::string> remarks;
  std::vector<ActivationBuffer> activations;
  std::size_t activation_bytes = 0, weight_bytes = 0, workspace_bytes = 0;

  double predicted_seconds() const;  // all lines
  int measured_lines() const;        // of them, those whose cost was measured
  int lines() const;
  int conversions() const;
  // Of each step, what has to be kept while it runs, without its workspace.
  std::vector<std::int64_t> live_bytes() const;
};

// What is known of a convolution's problem besides what it runs on.
struct ProblemFacts {
  std::vector<std::pair<std::string, double>> predicted;  // who can: engine, seconds
  std::optional<std::string> runner_up;
  std::string why_not;                                    // of the runner-up
  std::map<std::string, std::vector<std::string>> notes;  // by engine
  std::vector<Refusals::Group> refusals;                  // who can't
  std::optional<double> least_seconds;                    // at the machine's ceiling
};

struct Peer {
  std::string name;
  double seconds = 0;
};

struct NetworkReport {
  std::string network, place, isa, date;
  std::vector<std::string> inputs;  // "data f32 1x3x224x224"
  int threads = 1;
  selection::MachineCeiling ceiling;
  std::string ceiling_text;
  std::vector<NetworkPlan> plans;             // at least one; nodes are shown as the first has them
  std::map<std::string, ProblemFacts> facts;  // by problem string, of the first plan's convolutions
  std::vector<Peer> peers;                    // times that the user gave

  const NetworkPlan& shown() const { return plans.front(); }
  const NetworkPlan* best_uniform() const;  // the fastest of "uniform:.."; null: there is none
};

// The same in every plan: of its nodes, or of the value that is converted.
std::string key_of(const NetworkStep& step);

// "f32,nhwc"; "-": nothing.
std::string side_text(const std::optional<TensorDesc>& side);

Json to_json(const NetworkPlan& plan);
Json to_json(const NetworkReport& report);
std::string html_of(const NetworkReport& report);

}  // namespace convoy::report
