// Checks candidates: their error against the oracle, the same bits at every execution where the engine claims
// determinism, and with every number of threads where it claims that. Nothing is timed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/selection.h"

namespace convoy::selection {

// With the candidate, all that decides a check's outcome: what a repro file holds (report/repro.h).
struct CheckSetup {
  ConvProblem problem;
  PlanRequest request;           // without weights; on a GPU threads and constant weights mean nothing
  int repeats = 3;               // executions, in turn of two plans made alike
  bool constant_weights = true;  // packed at plan time; never for wgrad, which computes them
  std::uint64_t seed = 1;        // of the data
  // Where the problem is too big for the oracle to check every element, whole outputs are compared with this one's;
  // empty: with those of the first candidate that passed.
  std::optional<Candidate> trusted;
};

// `refused`: its engine refused it when it was planned, with a reason; it is not at fault.
enum class CheckFault : std::uint8_t {
  none,
  refused,
  no_plan,
  execution,
  wrong_result,
  other_bits,
  other_bits_by_threads
};
std::string_view name_of(CheckFault fault);

enum class BitTest : std::uint8_t { not_claimed, not_run, same, different };
std::string_view name_of(BitTest result);  // "not claimed", "not run", "same bits", "other bits"

struct CheckOutcome {
  Candidate candidate;            // with all knobs, where there was a plan
  double max_error = 0;           // in units of the tolerance, the largest of all executions
  double max_error_absolute = 0;  // |out - oracle| where that was found
  std::int64_t checked = 0;       // output elements compared with the oracle
  bool full = false;              // all of them
  BitTest deterministic = BitTest::not_run;
  BitTest thread_invariant = BitTest::not_run;
  std::vector<int> thread_counts;  // that were compared
  CheckFault fault = CheckFault::none;
  std::string failure;  // a sentence; empty where fault is none
};

// Makes a problem's data and what the oracle says of it once, for any number of candidates.
class CandidateChecker {
 public:
  // Errors: the problem is invalid, no memory for the data, `setup.trusted` given but not right itself.
  static Result<CandidateChecker> make(const CheckSetup& setup, std::span<const Engine* const> engines);
  CandidateChecker(CandidateChecker&&) noexcept;
  ~CandidateChecker();

  CheckOutcome check(const Candidate& candidate);
  // What it was made with; `trusted` is set once a candidate has become it.
  const CheckSetup& setup() const;

 private:
  class State;
  explicit CandidateChecker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace convoy::selection
