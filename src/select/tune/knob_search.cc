#include "select/tune/knob_search.h"

#include <algorithm>
#include <limits>

namespace convoy::selection {

KnobSearch::KnobSearch(std::string engine, Configurations configurations) : engine_(std::move(engine)) {
  tried_.insert(print(Candidate{engine_, default_knobs(configurations)}));
  listed_ = std::move(configurations.listed);
  if (!listed_.empty()) {
    size_ = static_cast<int>(listed_.size());
    return;
  }
  knobs_ = std::move(configurations.knobs);
  std::sort(knobs_.begin(), knobs_.end(), [](const Knob& a, const Knob& b) { return a.name < b.name; });
  at_.assign(knobs_.size(), 0);
  std::int64_t size = 1;
  for (const Knob& knob : knobs_) {
    size =
        std::min<std::int64_t>(size * static_cast<std::int64_t>(knob.values.size()), std::numeric_limits<int>::max());
  }
  size_ = static_cast<int>(size);
}

std::optional<Candidate> KnobSearch::next(const Candidate& best) {
  while (next_listed_ < listed_.size()) {
    if (auto candidate = try_once({engine_, listed_[next_listed_++]})) return candidate;
  }
  if (!listed_.empty()) return std::nullopt;
  for (std::size_t k = 0; k < knobs_.size() && best.knobs.size() == knobs_.size(); ++k) {
    for (const KnobSetting& value : knobs_[k].values) {
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
