// What a process's convolutions were: each distinct one once, with the engines that cuDNN offered for it, the plans
// that were made and how often each ran. Written as JSON lines, a header and then a line a graph; docs/pytorch.md has
// the fields.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/engine.h"
#include "interposer/graph_problem.h"

namespace convoy::interposer {

// A configuration that cuDNN's heuristics offered.
struct EngineConfig {
  Candidate candidate;
  std::vector<std::string> notes;         // cuDNN's
  std::vector<std::string> hidden_notes;  // what known.cc says of it besides
  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

struct PlanRecord {
  EngineConfig engine_config;
  std::int64_t workspace_bytes = 0;
  std::string failure;         // cuDNN's status, where it could not be made; empty: it was
  std::string failure_detail;  // and its words
  std::atomic<std::int64_t> made{0};
  std::atomic<std::int64_t> calls{0};
  std::string substitute;                    // what ran in its place: "cuda.depthwise{tile=..}"
  std::atomic<std::int64_t> substituted{0};  // so many of the calls
};

// What cuDNN's heuristics answered in one mode.
struct Query {
  std::string mode;
  std::vector<EngineConfig> engine_configs;
  std::int64_t asked = 0;  // how often
};

// What was done for a graph by rules, filters and known times.
struct Steered {
  std::optional<Candidate> first;                 // what was put first; nothing: nothing was decided
  bool reordered = false;                         // that is not cuDNN's own first
  std::vector<std::string> adds;                  // what it loses that cuDNN's first does not
  std::map<std::string, std::string> not_placed;  // winners that the program could not be given, and why
  std::vector<Candidate> failed;                  // put first, and could not be built
  std::optional<std::size_t> rule;                // the rule that matches
  bool obeyed = false;
  std::string disobeyed;  // why it was not, the first time
};

// One graph on one device.
struct GraphRecord {
  std::string problem;                 // the problem string; empty: it can't be expressed as one
  std::string operations;              // "CONVOLUTION_FORWARD"
  std::string reason;                  // why it has no problem string
  std::string device;                  // "NVIDIA H200"
  std::atomic<bool> benchmark{false};  // the program was seen to time its plans
  std::optional<ConvProblem> parsed;   // the problem
  std::vector<Query> queries;
  Steered steered;
  std::deque<PlanRecord> plans;   // at addresses that stay
  std::deque<Operands> operands;  // those of its graphs, likewise

  const ConvProblem* convolution() const { return parsed ? &*parsed : nullptr; }  // null: not expressed
  bool is_f32() const { return parsed && parsed->x.type == DataType::f32; }
  bool is_convolution() const { return operations.find("CONVOLUTION") != std::string::npos; }
};

class Recorder {
 public:
  // The row of a graph; the first call makes it. Rows stay until the process ends. `reason`: why there is no problem.
  GraphRecord& row(std::optional<ConvProblem> problem, const std::string& operations, const std::string& reason,
                   const std::string& device);
  // Where the operands of one of its graphs stay.
  const Operands* operands(GraphRecord& row, const Operands& operands);
  void asked(GraphRecord& row, const std::string& mode, std::vector<EngineConfig> engine_configs);
  // The plan of an engine configuration; those of the same configuration share a row.
  PlanRecord& plan(GraphRecord& row, EngineConfig engine_config, std::int64_t workspace_bytes, std::string failure,
                   std::string detail);

  // An engine stands in for the plan from now on; or can't, with the reason.
  void substituted(PlanRecord& plan, const Candidate& by);
  void not_substituted(GraphRecord& row, const Candidate& by, const std::string& reason);

  // All of it, as text.
  std::string lines() const;

  // What became of each of so many rules.
  struct RuleUse {
    int matched = 0, obeyed = 0;  // graphs
    std::string reason;           // why one was not, the first one
  };
  std::vector<RuleUse> rule_uses(std::size_t rules) const;

  // Around fork(), and to work on a row's `steered`.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void clear();  // in the child; the lock is held

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<GraphRecord>> rows_;
  std::vector<std::unique_ptr<GraphRecord>> parents_;  // of the process that forked: plans may still name them
};

}  // namespace convoy::interposer
