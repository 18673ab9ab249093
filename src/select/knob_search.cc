#include "select/knob_search.h"

#include <algorithm>
#include <limits>

namespace convoy::selection {

KnobSearch::KnobSearch(std::string engine, std::vector<Knob> knobs)
    : engine_(std::move(engine)), knobs_(std::move(knobs)), at_(knobs_.size(), 0) {
  std::sort(knobs_.begin(), knobs_.end(), [](const Knob& a, const Knob& b) { return a.name < b.name; });
  Candidate first{engine_, {}};
  std::int64_t size = 1;
  for (const Knob& knob : knobs_) {
    first.knobs.push_back({knob.name, knob.values.front()});
    size =
        std::min<std::int64_t>(size * static_cast<std::int64_t>(knob.values.size()), std::numeric_limits<int>::max());
  }
  size_ = static_cast<int>(size);
  tried_.insert(print(first));
}

std::optional<Candidate> KnobSearch::next(const Candidate& best) {
  for (std::size_t k = 0; k < knobs_.size() && best.knobs.size() == knobs_.size(); ++k) {
    for (const std::int64_t value : knobs_[k].values) {
      Candidate neighbour = best;
      neighbour.knobs[k].value = value;
      if (auto candidate = try_once(std::move(neighbour))) return candidate;
    }
  }
  while (!exhausted_ && advance()) {
    Candidate candidate{engine_, {}};
    for (std::size_t k = 0; k < knobs_.size(); ++k) {
      candidate.knobs.push_back({knobs_[k].name, knobs_[k].values[at_[k]]});
    }
    if (auto untried = try_once(std::move(candidate))) return untried;
  }
  return std::nullopt;
}

std::optional<Candidate> KnobSearch::try_once(Candidate candidate) {
  if (!tried_.insert(print(candidate)).second) return std::nullopt;
  return candidate;
}

bool KnobSearch::advance() {
  for (std::size_t k = 0; k < at_.size(); ++k) {
    if (++at_[k] < knobs_[k].values.size()) return true;
    at_[k] = 0;
  }
  exhausted_ = true;
  return false;
}

}  // namespace convoy::selection
