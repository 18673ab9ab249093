// What everything that a network runs takes alone: as the store of its options knows it, else predicted.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/network.h"
#include "convoy/selection.h"
#include "network/cost/place.h"
#include "network/cost/step_problem.h"

namespace convoy::network {

// A convolution as a network asks who runs it and what that takes: the key under which answers are kept, hashed without
// printing and found without copying.
struct ConvQuery {
  ConvProblem problem;            // in the layouts and types that it would run in
  std::string node = {};          // its name, where rules may speak of it; else empty
  const void* weights = nullptr;  // constant ones, of the problem's type; null: they come with each execution
  Threads threads = Threads::all;
  int place = 0;  // of Chooser::places()

  // Constant weights are alike whatever they are: packed once. Others are packed every time, which changes who is
  // fastest.
  friend bool operator==(const ConvQuery& a, const ConvQuery& b);
};

struct HashOfConvQuery {
  std::size_t operator()(const ConvQuery& query) const;
};

struct Cost {
  double seconds = 0;
  bool measured = false;              // else predicted
  double predicted = 0;               // seconds, though others were measured
  std::optional<double> joules = {};  // where they were measured
  std::string runs_on = {};           // the engine, or the operator
};

// How much longer a GPU's step takes alone than in a run: with nothing else to do it begins so long after the event
// that its time is counted from, in a captured graph when the step before ends. 2.1 to 2.4 us in half of 34 layers of
// an H200, small and large (gpu-network-plans-h200-2026-11-30).
inline constexpr double kGpuAloneOverRun = 2.2e-6;

// Costs are what steps take in a run.
class CostTable {
 public:
  // `engines` and the store must outlive it. The first place is the processor; `home` is where a step is unless said.
  CostTable(const SelectionOptions& options, std::span<const Engine* const> engines, std::vector<Place> places,
            int home = 0);

  const std::vector<Place>& places() const { return places_; }

  // What plans for it are made for: its weights are packed into them where the place does that.
  PlanRequest request_for(const ConvQuery& query) const;

  // Of a candidate. Nothing where there is no such engine.
  std::optional<Cost> of(const ConvQuery& query, const Candidate& candidate) const;
  // Of an operator or a conversion, at home where no place is said; each is looked up once.
  const Cost& of(const StepProblem& problem, Threads threads = Threads::all, std::optional<int> place = {});
  // Of a conversion at home, 0 where both say the same of the bytes.
  double seconds_of_conversion(const TensorDesc& from, const TensorDesc& to, Threads threads = Threads::all);

 private:
  struct StepKey {
    std::string problem;
    Threads threads;
    int place;
    friend auto operator<=>(const StepKey&, const StepKey&) = default;
  };

  // With which what the store knows serves as a cost, the best first; none where there is no store.
  std::vector<CacheState> serving_caches(int place) const;

  MeasurementStore* store_;
  CacheState caches_;
  bool in_network_;
  std::span<const Engine* const> engines_;
  std::vector<Place> places_;
  int home_;
  std::map<StepKey, Cost> steps_;
};

}  // namespace convoy::network
