// Tunes the convolutions of a program's record: what it ran is found, what it is offered measured first, the rest by
// shares of its time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/tune_record.h"
#include "report/program_report.h"
#include "report/progress.h"

namespace convoy::cli {

inline constexpr const char* kGraphEngines = "cudnn.eng";  // what the names of cuDNN's engines begin with

// Where a share of the time comes from.
enum class Share { of_what_ran, of_the_best_known, predicted, unknown };

// A problem of the record in one math mode.
struct Recorded {
  ConvProblem problem;
  std::int64_t calls = 0;
  bool inferred = true;                       // that the program allows this math mode
  bool legacy = false;                        // the program asked by cuDNN's older interface
  std::vector<report::RecordedPlan> plans;    // that ran, the most called first
  std::vector<std::optional<Candidate>> ran;  // of each plan; nothing: it can't be measured here
  std::string not_here;                       // why
  double seconds = 0;                         // of a call, before tuning
  Share source = Share::unknown;
  double share = 0;  // of the time of all calls

  Selection selection;
  std::optional<Error> failure;
  std::int64_t measured = 0;
  bool partial = true;
};

// What tuning found of one of them.
struct Finding {
  double ran_seconds = 0;                  // of the plan that was called most; 0: not known
  std::int64_t timed_calls = 0;            // of plans whose time is known
  double seconds = 0;                      // of these calls
  const Measurement* best = nullptr;       // that the program can be given
  const Measurement* elsewhere = nullptr;  // faster than that, but with other losses, or out of the older API's reach
  double gain = 0;                         // of the timed calls
};

class RecordTuner {
 public:
  RecordTuner(const Program& program, const report::Record& record, const RecordTuning& tuning,
              const SelectionOptions& options, const PlanRequest& request, WatchedStore& store);

  Result<void> run();
  std::span<const Recorded> recorded() const { return recorded_; }
  // How long it took to measure what a program is offered, of all problems.
  double offered_seconds() const { return offered_seconds_; }
  // What tuning was to take; 0: as long as it takes.
  double budget_seconds() const { return options_.budget_seconds; }
  bool same_library() const { return same_library_; }
  const std::string& here() const { return here_; }  // "cuDNN 9.14.0"
  // Of the time of all calls, as it was known before, what is measured by now.
  double covered() const;
  Finding finding(const Recorded& each) const;
  std::string predicted_and_known() const;

 private:
  // An engine's index means something for one version only.
  bool is_same_library(const std::string& cudnn);
  // A problem once, whatever device it ran on.
  void list(const report::Record& record);
  void add(ConvProblem problem, MathMode math, bool inferred, const report::RecordedGraph& graph);
  // What is asked of engines takes tens of milliseconds a problem.
  template <class Body>
  void on_all_threads(Body body);
  void find_what_ran(Recorded& each);
  // A recorded configuration with all of the engine's knobs: those that it doesn't name were left to cuDNN.
  Result<Candidate> measurable(const ConvProblem& problem, const std::string& text) const;
  // Shares of the time of the inferred problems, and the order by them.
  void weigh();
  void estimate(Recorded& each);
  double left() const;
  // Half of it to all problems alike, half by their shares.
  Result<void> share_budget();
  // All at once, where one after another each would be waited for.
  void compile_verdicts();
  // First, of all problems, what ran and what cuDNN would offer: what benchmark mode builds and times. Then what runs
  // in place of a plan.
  void measure_what_is_offered();
  // While one problem is measured the plans of the next ones are made.
  template <class List>
  void measure_quickly(List list);
  // What ran, each once.
  static std::vector<Candidate> ran_once(const Recorded& each);
  void measure(Recorded& each, double seconds, bool likely_only);
  // `some`: there are other candidates.
  template <class Select>
  void measured_so(Recorded& each, bool some, Select select);
  // With what earlier looks at other candidates found.
  void keep(Recorded& each, Selection found);
  void show(const Recorded& each, const Measurement& measurement);
  // Whether a program that runs what it ran can run this, offered or in place of a plan, and loses nothing by it. In
  // cuDNN's older API nothing else can run.
  bool can_be_given(const Recorded& each, const Measurement& m) const;
  std::vector<std::string> notes_of(const ConvProblem& problem, const Candidate& candidate) const;
  const Measurement* best_of(std::span<const Measurement> all, const Objective& objective, const Candidate& expected,
                             FunctionRef<bool(const Measurement&)> may_win) const;

  const Program& program_;
  const RecordTuning& tuning_;
  SelectionOptions options_;
  const PlanRequest& request_;
  WatchedStore& store_;
  report::Progress bar_;
  double offered_seconds_ = 0;
  bool same_library_ = true;
  std::string here_, recorded_with_;
  std::vector<Recorded> recorded_;  // what the program is inferred to do first, the largest shares first
};

}  // namespace convoy::cli
