// Engine selection for the convolutions of one network: each distinct query is decided once.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "convoy/network.h"
#include "convoy/selection.h"
#include "network/cost/cost_table.h"
#include "network/cost/typed_weights.h"
#include "network/graph/graph.h"

namespace convoy::network {

class Chooser {
 public:
  // `candidates` and `engines` must outlive it. `others` are places besides the processor; none: the GPU that the
  // options say is home, if they do.
  Chooser(const NetworkOptions& options, SelectionProgress progress, std::span<const ConvolutionCandidates> candidates,
          std::span<const Engine* const> engines = all_engines(), std::span<const Place> others = {});

  const NetworkOptions& options() const { return options_; }
  CostTable& costs() { return costs_; }
  // The first is the processor.
  const std::vector<Place>& places() const { return costs_.places(); }
  // Which of them the network lives in: the second, where the options have a GPU.
  int home() const { return options_.cuda ? 1 : 0; }
  const PlanRequest& request() const { return places().front().request; }

  // A node's convolution with this problem, which it is in other layouts and types, and the math mode that the options
  // allow (f32 ones: the others have nothing to give up).
  ConvQuery query(const Graph& graph, const Node& node, ConvProblem problem, Threads threads, int place);

  // Says that this will be asked for, before anything is: a measuring budget is shared among all that is announced, in
  // rounds, so that every problem gets its likely candidates before any gets its others.
  void announce(const ConvQuery& query);

  // Candidates are measured as they will run, packing at plan time or at each execution.
  Result<Selection> choose(const ConvQuery& query);
  // This candidate, if it can run the problem and the options' filter lets it; else the error says why not.
  Result<Selection> obey(const ConvQuery& query, const Candidate& candidate) const;

  // What choose() would take with what is known by now, without measuring. Nothing where it would fail.
  std::optional<Cost> estimate(const ConvQuery& query);

  // A candidate, and the bytes of weights that a network then keeps: those that its plan has packed, or the given ones.
  struct Option {
    Candidate candidate;
    Cost cost;
    std::int64_t weight_bytes = 0;
  };
  // What choose() may take of which nothing else costs less and keeps fewer bytes; the fastest first. Plans are made to
  // find out.
  const std::vector<Option>& options_of(const ConvQuery& query);

  // Which of the constructor's `candidates` has this problem; negative: none.
  int switchable(const ConvProblem& problem) const;
  const std::vector<Candidate>& candidates(int switchable) const {
    return candidates_[static_cast<std::size_t>(switchable)].candidates;
  }

  // Whether an engine that may be chosen computes in the problem's types, without converting its tensors to others.
  bool computes_in(const ConvQuery& query) const;

  // Predicted seconds of the candidate the heuristic ranks first; nothing where only the oracle, or nothing, can run
  // it.
  std::optional<double> predict(const ConvQuery& query);
  // A lower bound of it, for which no engine's provider is asked.
  double predict_at_least(const ConvQuery& query);

  // Where the network lives on a GPU: work(i) for each i below `count`, side by side, on threads that have entered the
  // device. The work may call query(), estimate(), predict() and predict_at_least(), and choose() where nothing is
  // measured, so that their answers are known when they are asked for one after another: a library of a GPU takes
  // milliseconds for each. Elsewhere nothing.
  void ask_ahead(std::size_t count, const std::function<void(std::size_t)>& work) const;

 private:
  // Each is found once.
  struct Known {
    std::mutex mutex;  // held while any but options is found
    std::optional<Result<Selection>> choice;
    std::optional<std::optional<Cost>> estimate;
    std::optional<std::vector<Option>> options;
    std::optional<std::optional<double>> prediction;
    std::optional<double> bound;
  };

  Known& known(const ConvQuery& query);
  Result<void> measure_announced();
  // By the heuristic and what the store knows.
  Result<Selection> select_unmeasured(const ConvQuery& query) const;
  std::vector<Option> find_options(const ConvQuery& query) const;

  NetworkOptions options_;
  SelectionProgress progress_;
  std::span<const ConvolutionCandidates> candidates_;
  std::span<const Engine* const> engines_;
  CostTable costs_;
  TypedWeights weights_;
  std::vector<ConvQuery> announced_;
  std::mutex mutex_;  // guards which are known
  std::unordered_map<ConvQuery, Known, HashOfConvQuery> known_;
};

}  // namespace convoy::network
