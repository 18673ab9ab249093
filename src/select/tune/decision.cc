#include "select/tune/decision.h"

#include <fmt/format.h>

#include <algorithm>

#include "select/choose/candidates.h"
#include "select/choose/filter.h"
#include "select/choose/heuristic.h"
#include "select/choose/objective.h"
#include "select/choose/remembered.h"

namespace convoy::selection {

Result<Selection> Decision::of(Measured measured) {
  measured_ = std::move(measured);
  Selection selection;
  selection.by = measured_.any_new ? SelectedBy::measured : SelectedBy::stored;
  selection.measurements = std::move(measured_.measurements);
  sort_measurements(selection.measurements);
  for (const Measurement& m : selection.measurements) {
    if (m.failure) selection.warnings.push_back(failure_text(m));
  }
  if (measured_.lost) {
    selection.warnings.push_back("measuring ended, the device takes no more calls: " + measured_.lost->message);
  }
  if (measured_.not_stored) selection.warnings.push_back("not stored: " + measured_.not_stored->message);
  selection.partial = measured_.partial;
  if (selection.partial) {
    selection.warnings.push_back(
        fmt::format("measuring ended early, after {} of {} candidates", measured_.done, measured_.total));
  }
  const Measurement* const winner =
      best_of(selection.measurements, options_.objective, ranked_, request_.kind(),
              [&](const Measurement& m) { return may_be_chosen(problem_, m, engines_, options_.filter, request_); });
  if (winner != nullptr) {
    selection.candidate = winner->candidate;
    return selection;
  }
  return without_winner(std::move(selection));
}

Result<Selection> Decision::without_winner(Selection selection) const {
  const bool any_right = std::any_of(selection.measurements.begin(), selection.measurements.end(),
                                     [](const Measurement& m) { return !m.failure; });
  if (selection.partial && !any_right && measured_.excluded.empty()) {
    // Not one that is known to be wrong.
    std::vector<Candidate> untried(ranked_.begin(), ranked_.end());
    std::erase_if(untried, [&](const Candidate& candidate) {
      return std::any_of(selection.measurements.begin(), selection.measurements.end(),
                         [&](const Measurement& m) { return m.candidate == candidate; });
    });
    if (!untried.empty()) {
      CONVOY_TRY(Selection predicted, choose_by_heuristic(problem_, untried, engines_, options_, request_));
      selection.candidate = predicted.candidate;
      selection.by = predicted.by;
      return selection;
    }
  }
  if (any_right || !measured_.excluded.empty()) {
    return nobody(ErrorCode::unsupported, "is right and passes the filter", selection);
  }
  const auto code_of = [](const Measurement& m) { return m.failure->code; };
  const std::vector<Measurement>& all = selection.measurements;
  if (std::ranges::find(all, ErrorCode::wrong_result, code_of) != all.end()) {
    return nobody(ErrorCode::wrong_result, "gave a right result", selection);
  }
  const auto fault = std::ranges::find_if(all, [](const Measurement& m) { return !refused(m); });
  if (fault != all.end()) return nobody(code_of(*fault), "could be measured", selection);
  const std::string few = fmt::format("keeps to {} SMs (target_sms)", request_.target_sms);
  return nobody(ErrorCode::unsupported, request_.target_sms > 0 ? few : "can be planned", selection);
}

Error Decision::nobody(ErrorCode code, std::string_view what, const Selection& selection) const {
  return {code, fmt::format("no candidate for {} {}:{}\n  {}", print(problem_), what, measured_.excluded,
                            fmt::join(selection.warnings, "\n  "))};
}

}  // namespace convoy::selection
