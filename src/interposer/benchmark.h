// Whether a program times what it is offered (torch.backends.cudnn.benchmark) or takes the first that can be built.
//
// cuDNN is not told. In heuristic mode PyTorch asks for the fallback list only when nothing of the first list could be
// built; in benchmark mode it asks for both, builds all plans and then runs them. So benchmark mode is recognised by a
// fallback list that was asked for before any plan of the graph was tried, and a second plan that was made before one
// ran. One of both does not suffice: a program's filters may leave nothing of the first list, and where a plan's
// workspace can't be had the next plan is made.
#pragma once

#include <atomic>

#include "interposer/recorder.h"

namespace convoy::interposer {

class Benchmark {
 public:
  // What the calling thread does with a graph, in its order.
  void asked(const GraphRecord& row, bool fallback);
  // A plan was tried; `permitted`: no filter takes it away. Whether this is what benchmark mode is recognised by.
  bool planned(const GraphRecord& row, bool made, bool permitted);
  void ran(const GraphRecord& row);

  // Whether the calling thread is seen to time this graph's plans: it has asked for both lists and made one that is
  // permitted.
  bool times(const GraphRecord& row) const;

  // What was recognised last in this process: answers to other graphs go by it.
  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool ever() const { return ever_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> on_{false}, ever_{false};
};

}  // namespace convoy::interposer
