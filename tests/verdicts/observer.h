// An engine that runs every candidate of every convolution it is given, on the data it is given: put in the place of
// all engines of a network, it judges them on what a run of the network brings there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/reference/reference.h"

namespace convoy::testing {

struct ObserverOptions {
  bool all_knobs = false;       // of each engine; otherwise what is listed, or all values of its first knob
  int faults = 1;               // planted in each right output, one at a time
  double fault_tolerances = 4;  // how large, in tolerances of the element
  VerifyOptions verify;
};

struct EngineVerdicts {
  std::int64_t right = 0;
  double max_error = 0;  // in units of the tolerance, of those that are right
  std::string worst;     // its problem
};

struct Observations {
  std::int64_t convolutions = 0;  // executed
  std::int64_t sampled = 0;       // of them too large for the oracle to look at every element
  std::map<std::string, EngineVerdicts> engines;
  std::vector<std::string> wrong;   // "cpu.gemm on fprop:...: out[..] is .., the oracle says .. (.. tolerances)"
  std::vector<std::string> failed;  // what could not be planned or run
  std::int64_t planted = 0;         // faults in elements that the oracle looks at
  std::int64_t caught = 0;          // of them
  std::int64_t planted_aside = 0;   // in any element of an output that is compared whole with another right one
  std::int64_t caught_aside = 0;
  std::int64_t no_room = 0;  // not planted: out's type ends there on both sides
  std::vector<std::string> missed;
};

// Of one network; `observations` must outlive it and its plans. The output that goes on is that of a right candidate.
std::unique_ptr<Engine> make_observer(const ObserverOptions& options, Observations& observations);

}  // namespace convoy::testing
