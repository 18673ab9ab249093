// Walking an engine's configurations, however many, one candidate at a time.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::selection {

// Of combinations, first the neighbours of the best candidate so far (one knob changed), so that the search climbs;
// when those are all tried, everything else in order. Nothing is stored but what was tried. Listed ones in their order.
class KnobSearch {
 public:
  // The default candidate counts as tried.
  KnobSearch(std::string engine, Configurations configurations);

  // A candidate not tried before, now counted as tried; nothing at the end. `best`: the fastest of this engine so far.
  std::optional<Candidate> next(const Candidate& best);

  // Candidates that there are, at most 2^31 - 1.
  int size() const { return size_; }

 private:
  std::optional<Candidate> try_once(Candidate candidate);
  bool advance();  // `at_` to the next point in order

  std::string engine_;
  std::vector<Knob> knobs_;         // sorted by name, as a candidate's values are
  std::vector<KnobValues> listed_;  // instead of their combinations
  std::size_t next_listed_ = 0;
  std::set<std::string> tried_;
  std::vector<std::size_t> at_;  // per knob, index of its value
  bool exhausted_ = false;
  int size_ = 1;
};

}  // namespace convoy::selection
