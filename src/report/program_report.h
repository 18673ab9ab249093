// What a recorded program's convolutions took, and what they could have taken: a record (record.h) beside what the
// tuning database knows.
//
// All seconds are the database's times, multiplied by calls: nothing was timed while the program ran. Calls of an
// engine that has no time are counted apart.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report/known_times.h"
#include "report/record.h"

namespace convoy::report {

// One engine configuration of one convolution.
struct Algorithm {
  std::string candidate;                          // as recorded; knobs of -1 are left to cuDNN
  std::optional<std::vector<std::string>> notes;  // nothing: nobody knows them
  int place = 0;                                  // among what cuDNN offered, from 1; 0: it was not
  std::int64_t calls = 0;
  std::int64_t captured = 0;  // of these, into CUDA graphs
  std::string in_place_of;    // the program's plan that it stood in for
  bool planned = false;       // the program asked for a plan of it
  std::optional<double> seconds;
  std::optional<double> spread;
  bool rough = false;  // the time was cut off or is partial
  std::optional<double> joules;
  std::optional<std::int64_t> workspace_bytes;
  std::string failure;     // the plan's in the program, else the measurement's
  std::string detail;      // cuDNN's last error string
  std::string not_placed;  // why the program could not be given it
  bool permitted = false;  // see Convolution::best
};

struct Convolution {
  int number = 0;  // from 1, in the report's order
  RecordedGraph graph;
  ConvProblem problem;  // as recorded, with the inferred math
  InferredMath math;
  std::optional<CacheState> caches;   // of the times
  std::vector<Algorithm> algorithms;  // offered ones in cuDNN's order, then the fastest first, failures last
  // Indices into `algorithms`:
  std::optional<std::size_t> used;     // called most
  std::optional<std::size_t> asked;    // what a rule or a time put first, else what the program planned first
  std::optional<std::size_t> instead;  // what cuDNN's own order would have given: gain_taken counts against it
  std::optional<std::size_t> best;  // the fastest that is permitted: that can run in the program, and with no note of
                                    // lost precision or determinism that the program's own plan has not
  std::optional<std::size_t> best_forbidden;  // faster than that, but for its notes
  std::optional<std::size_t> best_elsewhere;  // faster than that, where the program calls cuDNN's older API, in which
                                              // nothing else can run
  std::int64_t timed_calls = 0;
  double seconds = 0;  // of the timed calls
  double share = 0;    // of the program's timed calls
  std::optional<double> joules;
  double gain_taken = 0;      // seconds of the timed calls; negative where steering lost
  double gain_not_taken = 0;  // against `best`
};

struct ProgramReport {
  Record record;                            // without its graphs
  std::vector<Convolution> convolutions;    // the largest shares first, then those without times, the most called first
  std::vector<RecordedGraph> others;        // what no problem expresses
  std::string database;                     // for people: where the times come from, or why there are none
  bool unfinished = false;                  // the program still runs
  std::int64_t calls = 0, timed_calls = 0;  // of convolutions
  double seconds = 0, gain_taken = 0, gain_not_taken = 0;
  std::optional<double> joules;  // where it is known of every timed call
};

// Asked for candidates that the record has no notes of; nothing: unknown.
using NotesOf = std::function<std::optional<std::vector<std::string>>(const std::string& device, const ConvProblem&,
                                                                      const Candidate&)>;

ProgramReport make_program_report(Record record, const KnownTimes& known, const NotesOf& notes_of);

// Of notes, those that say what a result loses (those of interposer/choices.cc).
std::vector<std::string> losses(const std::vector<std::string>& notes);
// Whether `notes` lose nothing that `than` doesn't.
bool loses_no_more(const std::vector<std::string>& notes, const std::vector<std::string>& than);

// What the three passes of a layer have in common, as a problem string: sizes and type, not layouts or epilogue.
std::string layer_of(const ConvProblem& problem);

}  // namespace convoy::report
