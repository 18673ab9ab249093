// Engine selection for the convolutions of one network: each distinct problem is decided once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/network.h"
#include "convoy/selection.h"
#include "device/device.h"
#include "network/cost/step_problem.h"
#include "network/graph/graph.h"

namespace convoy::network {

// Where nodes can run: a device, and what plans for it are made for.
struct Place {
  const Device* device = nullptr;
  PlanRequest request = {};
};

// Of the session's: what a step runs on. One is the calling thread.
enum class Threads { all, one };

class Selector {
 public:
  // `candidates` and `engines` must outlive it. `others` are places besides the processor.
  Selector(const NetworkOptions& options, SelectionProgress progress, std::span<const ConvolutionCandidates> candidates,
           std::span<const Engine* const> engines = all_engines(), std::span<const Place> others = {});

  // The first is the processor. What follows chooses for it, unless a place is given.
  const std::vector<Place>& places() const { return places_; }
  const PlanRequest& request() const { return places_.front().request; }
  const NetworkOptions& options() const { return options_; }

  // A convolution's constant weights as the problem reads them, in its type; null where they are not constant. Those of
  // another type than the graph's are kept here.
  const void* weights_of(const Graph& graph, const Node& node, const ConvProblem& problem);

  // The problem with the math mode that the options allow (f32 ones: the others have nothing to give up).
  ConvProblem allowed(ConvProblem problem) const;

  // Says that this will be asked for, before anything is: a measuring budget is shared among all that is announced, in
  // rounds, so that every problem gets its likely candidates before any gets its others.
  void announce(const ConvProblem& problem, const std::string& node_name, const void* weights,
                Threads threads = Threads::all);

  // Decided once for each problem string and count of threads (and node name, where rules are given: they may name
  // nodes). `weights` are the constant weights, or null: candidates are measured as they will run, packing at plan time
  // or at each execution.
  Result<Selection> choose(const ConvProblem& problem, const std::string& node_name, const void* weights,
                           Threads threads = Threads::all);
  // This candidate, if it can run the problem and the options' filter lets it; else the error says why not.
  Result<Selection> obey(const ConvProblem& problem, const Candidate& candidate, const void* weights,
                         int place = 0) const;

  struct Cost {
    double seconds = 0;
    bool measured = false;              // else predicted
    double predicted = 0;               // seconds, though others were measured
    std::optional<double> joules = {};  // where they were measured
    std::string runs_on = {};           // the engine, or the operator
  };
  // What a selection's candidate takes alone, from the options' store if that knows. Nothing where its engine has no
  // prediction.
  std::optional<Cost> cost(const ConvProblem& problem, const Selection& selection, const void* weights, int place = 0,
                           Threads threads = Threads::all) const;

  // What choose() would take with what is known by now, without measuring; found once. Nothing where it would fail.
  std::optional<Cost> estimate(const ConvProblem& problem, const std::string& node_name, const void* weights,
                               Threads threads = Threads::all);

  // A candidate, and the bytes of weights that a network then keeps: those that its plan has packed, or the given ones.
  struct Option {
    Candidate candidate;
    Cost cost;
    std::int64_t weight_bytes = 0;
  };
  // What choose() may take of which nothing else costs less and keeps fewer bytes; the fastest first. Plans are made to
  // find out, once for each problem.
  const std::vector<Option>& options_of(const ConvProblem& problem, const std::string& node_name, const void* weights);

  // The same of an operator or a conversion; each is looked up once.
  Cost cost(const StepProblem& problem, Threads threads = Threads::all);
  // Of a conversion, 0 where both say the same of the bytes.
  double conversion_seconds(const TensorDesc& from, const TensorDesc& to, Threads threads = Threads::all);

  // Which of the constructor's `candidates` has this problem; negative: none.
  int switchable(const ConvProblem& problem) const;
  const std::vector<Candidate>& candidates(int switchable) const {
    return candidates_[static_cast<std::size_t>(switchable)].candidates;
  }

  // Whether an engine that may be chosen computes in the problem's types, without converting its tensors to others.
  bool computes_in(const ConvProblem& problem, const void* weights) const;

  // Predicted seconds of the candidate the heuristic ranks first; nothing where only the oracle, or nothing, can run
  // it.
  std::optional<double> predict(const ConvProblem& problem, const void* weights);

 private:
  struct Announced {
    std::string key;
    ConvProblem problem;
    std::string node_name;
    const void* weights;
    Threads threads;
  };

  std::string key_of(const ConvProblem& problem, const std::string& node_name, const void* weights,
                     Threads threads = Threads::all) const;
  Result<void> measure_announced();
  // What plans are made for: weights are packed into them where the place does that.
  PlanRequest request_for(const ConvProblem& problem, const void* weights, int place = 0,
                          Threads threads = Threads::all) const;
  // With which what the store knows serves as a cost, the best first; none where there is no store.
  std::vector<CacheState> serving_caches(int place = 0) const;

  NetworkOptions options_;
  SelectionProgress progress_;
  std::span<const ConvolutionCandidates> candidates_;
  std::span<const Engine* const> engines_;
  std::vector<Place> places_;
  std::vector<Announced> announced_;
  std::map<std::string, Result<Selection>> chosen_;
  std::map<std::string, std::optional<double>> predicted_;
  std::map<std::string, std::optional<Cost>> estimated_;
  std::map<std::string, std::vector<Option>> options_of_;
  std::map<std::pair<std::string, Threads>, Cost> step_costs_;
  std::map<std::pair<const void*, DataType>, HostTensor> narrowed_;  // weights, by those of the graph
};

}  // namespace convoy::network
