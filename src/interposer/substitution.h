// Engines that a program's cuDNN does not have, run in place of its plans: Convoy's own kernels, and those of cuDNN's
// that a program is never offered. A plan carries its substitute from when it is finalized until it is destroyed, since
// programs read a plan's workspace once.
#pragma once

#include <cudnn.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "interposer/choices.h"
#include "interposer/engines/library.h"
#include "interposer/graph_problem.h"
#include "interposer/recorder.h"

namespace convoy::interposer {

// An engine made ready for a problem on a device.
struct Substitute {
  Candidate candidate;
  std::vector<std::string> notes;
  std::size_t workspace_bytes = 0;
  const EngineLibrary* library = nullptr;
  const void* plan = nullptr;               // the library's; null: it could not be made ready
  std::string reason;                       // why
  mutable std::atomic<bool> failed{false};  // when it was executed: the program's own plans run from then on
};

// What stands in for one plan. The same object serves equal plans; none is ever destroyed.
struct StandIn {
  const Substitute* substitute;
  Operands operands;
  GraphRecord& row;
  PlanRecord& plan;
};

// What a plan is that a substitute may stand in for.
struct Replaceable {
  GraphRecord& row;
  PlanRecord& plan;
  const Operands& operands;
  bool timed =
      false;  // the program times several plans: one of them carries the substitute, so that its timing decides
};

class Substitution {
 public:
  Substitution(const Choices& choices, Recorder& recorder) : choices_(choices), recorder_(recorder) {}

  // For a plan that was just made, by what is known of its problem; null: nothing stands in. A substitute has to be
  // known to be faster, to keep the GPU for as long as its call keeps the host, to be permitted by the filters, and to
  // lose nothing (losses_of) that the plan does not lose.
  // What is faster and can't serve is in the row's record, with the reason.
  const StandIn* choose(const Replaceable& plan, const std::vector<KnownTime>& cudnns,
                        std::vector<KnownTime> substitutes);

  // The one that a rule names, whatever it takes; it too loses nothing that the plan does not lose, since the program
  // has filtered its plans by that. Error: why it can't serve.
  Result<const StandIn*> obey(const Replaceable& plan, const Candidate& wanted);

  // Runs it with what the program gave. False: the program's own plan has to.
  bool run(const StandIn& stand_in, cudnnHandle_t handle, cudnnBackendDescriptor_t variant_pack);

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  const Substitute& ready(const GraphRecord& row, const Candidate& candidate, MathMode math);
  // Why it can't serve in place of a plan; empty: it can.
  std::string unfit(const Substitute& substitute, const EngineConfig& replaced) const;
  const StandIn* put(const Replaceable& plan, const Substitute& substitute);

  const Choices& choices_;
  Recorder& recorder_;
  std::mutex mutex_;
  std::map<std::string, Substitute> substitutes_;  // by device, problem and candidate
  std::deque<StandIn> stand_ins_;
  std::map<const GraphRecord*, Candidate> carriers_;  // of rows that are timed: the configuration whose plans carry it
};

}  // namespace convoy::interposer
