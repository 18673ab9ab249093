// A cache of plans that threads share, and what one thread needs to run them.
// Before and after main: nothing is done before main, and what is kept is never destroyed: convolutions on the CPU may
// be planned and run as long as the process runs code, in static destructors and atexit handlers. Only onednn.* plans
// return `unsupported` once oneDNN's own statics are destroyed; planning then takes other engines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/selection.h"

namespace convoy {

// The largest power of two that divides the address, at most 64; 64 for null, which nobody reads.
std::int64_t alignment_class(const void* pointer);

// The alignments of a problem's tensors as the pointers have them, z counting for the tensor that is computed.
struct Alignments {
  std::int64_t x = 64, w = 64, y = 64;
  friend bool operator==(const Alignments&, const Alignments&) = default;
};
Alignments alignments_of(const ConvProblem& problem);  // TensorDesc::alignment
Alignments alignments_of(Pass pass, const ConvArgs& args);

// Everything besides the problem that decides which plan a problem gets. Hashed once, when it is made; copies are cheap
// and share their contents.
class PlanSettings {
 public:
  // The engines live at least as long as any cache that was asked with these settings. request.constant_weights is not
  // used: weights belong to one problem (ConstantWeights). Each lookup measures at most options.budget_seconds.
  PlanSettings(std::vector<const Engine*> engines, SelectionOptions options, PlanRequest request);

  const std::vector<const Engine*>& engines() const { return contents_->engines; }
  const SelectionOptions& options() const { return contents_->options; }
  const PlanRequest& request() const { return contents_->request; }
  std::uint64_t hash() const { return contents_->hash; }
  bool rules_speak_of_nodes() const { return contents_->rules_speak_of_nodes; }
  friend bool operator==(const PlanSettings& a, const PlanSettings& b);

 private:
  struct Contents {
    std::vector<const Engine*> engines;
    SelectionOptions options;
    PlanRequest request;
    std::uint64_t hash = 0;
    bool rules_speak_of_nodes = false;
  };
  std::shared_ptr<const Contents> contents_;
};

// Weights to be packed into the plan, once. Two that compare equal hold the same values: who changes what is at an
// address gives another version.
struct ConstantWeights {
  const void* data = nullptr;  // null: the weights come with each execution
  std::uint64_t version = 0;
  friend bool operator==(const ConstantWeights&, const ConstantWeights&) = default;
};

struct PlanQuery {
  const ConvProblem& problem;
  const PlanSettings& settings;
  Alignments alignments = alignments_of(problem);  // take the place of the problem's own
  ConstantWeights weights = {};
  std::string_view node_name = {};  // matters where a rule speaks of nodes
};

// How a plan was chosen, and the plan. Immutable: any number of threads may run it at once.
struct CachedPlan {
  ConvProblem problem;  // with the alignments it was planned for
  Selection selection;
  std::unique_ptr<const ConvPlan> plan;
  int threads = 1;
  std::optional<int> cuda;  // the ordinal of the GPU it is for; unset: the CPU
  std::size_t bytes = 0;    // memory it keeps: the plan's own, its key's and the selection's
};

struct PlanCacheLimits {
  std::size_t plans = 1024;
  std::size_t bytes = std::size_t{1} << 30;
};

struct PlanCacheStatistics {
  std::uint64_t hits = 0;       // found ready
  std::uint64_t waits = 0;      // found while another thread was building it
  std::uint64_t builds = 0;     // made, by selecting and planning
  std::uint64_t failures = 0;   // of builds; nothing is kept
  std::uint64_t evictions = 0;  // dropped to stay within the limits
  std::size_t plans = 0;        // held now
  std::size_t bytes = 0;        // by those
};
std::string print(const PlanCacheStatistics& statistics);  // "12 plans, 3456789 bytes; 100 hits, .."

// Holds the plans asked for last. Any number of threads may use it at once. However many ask for one plan at the same
// time, it is built once, and they all get it; a plan that was dropped lives on as long as someone holds it.
class PlanCache {
 public:
  explicit PlanCache(PlanCacheLimits limits = {});
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;
  ~PlanCache();

  // The plan, from the cache or made by select() and make_plan(), whose errors it returns.
  Result<std::shared_ptr<const CachedPlan>> get(const PlanQuery& query);

  // get() for the alignments that the pointers have, then an execution in this thread's ExecutionContext. On a GPU the
  // pointers are the device's, `weights` are not used, and the execution is enqueued on `stream`, a CUstream.
  Result<void> run(const ConvProblem& problem, const PlanSettings& settings, const ConvArgs& args,
                   ConstantWeights weights = {}, std::string_view node_name = {}, void* stream = nullptr);

  PlanCacheStatistics statistics() const;
  void clear();  // drops every plan that is not being built

 private:
  class State;
  std::unique_ptr<State> state_;
};

// The cache of the process.
PlanCache& shared_plan_cache();

// What executions change: the thread team and the scratch memory, which grows to the largest plan's need and is kept.
// For one thread at a time.
class ExecutionContext {
 public:
  ExecutionContext();
  ExecutionContext(const ExecutionContext&) = delete;
  ExecutionContext& operator=(const ExecutionContext&) = delete;
  ~ExecutionContext();

  // Of the calling thread; it goes away with the thread.
  static ExecutionContext& of_this_thread();

  // `threads` is what the plan was made for.
  Result<void> execute(const ConvPlan& plan, int threads, const ConvArgs& args);

  // On a GPU: enqueued on `stream` (a CUstream), with a workspace from the device's pool that is given back in the
  // stream's order. Waits for nothing.
  Result<void> enqueue(const ConvPlan& plan, int ordinal, const ConvArgs& args, void* stream);

  std::size_t workspace_bytes() const;
  void release_workspace();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace convoy
