// What one heuristic query is answered: cuDNN's list in another order, with what was measured or named besides.
#pragma once

#include <cudnn.h>

#include <optional>
#include <string>
#include <vector>

#include "interposer/choices.h"
#include "interposer/configurations.h"
#include "interposer/recorder.h"

namespace convoy::interposer {

struct Question {
  cudnnBackendDescriptor_t heuristic;
  const ConvProblem* problem;  // null: no problem expresses the graph
  bool fallback;               // the heuristic's mode
  bool benchmark;              // the program times what it is offered
  GraphTarget target;          // for configurations that are made here
  std::vector<KnownTime> known;
  std::optional<std::size_t> rule;  // of Choices::rules: the first that matches
  std::vector<Candidate> failed;    // they were put first before, and could not be built
  unsigned harmless = 0;            // of losses_of: what keeps nothing behind others
};

// A configuration as it may be offered.
struct Listed {
  EngineConfig engine_config;
  std::vector<std::string> notes;  // all of them
  int index = -1;                  // in cuDNN's list; -1: it is made here
  std::optional<double> seconds;   // where it was measured
  std::string forbidden;           // the filter that takes it away
  std::int64_t workspace = 0;      // bytes; read where a filter or the benchmark mode asks for it
};

struct Decision {
  bool as_ever = false;   // cuDNN answers, in its own order; nothing else is set then
  bool in_front = false;  // the one entry goes before all that cuDNN answers, in its own order
  GraphTarget target;
  std::vector<EngineConfig> cudnns;  // cuDNN's list
  // What the program is to get. Permitted ones first; strict: them alone, and of a rule its candidate alone.
  std::vector<Listed> entries;
  bool none_permitted = false;    // the filters take everything away
  bool obeyed = false;            // the rule's candidate is the first entry
  std::string disobeyed;          // why it is not; empty: it is, or this is a fallback list that doesn't have it
  std::vector<std::string> adds;  // obeyed, or like benchmark mode: what the first loses that cuDNN's first does not
  std::string not_placed;         // the fastest known, if it is not the first entry; empty: it is
  std::string not_placed_reason;
};

// Asks cuDNN for its list, which leaves the program's own configurations untouched.
Decision decide(const Question& question, const Choices& choices);

// What the first of cuDNN's list tells alone, where what it loses (losses_of) is among `accepted`, so that the program
// takes it: its order may stay where it was not measured, or nothing is known to be faster by more than measuring errs;
// it needs the fastest known in front of it where that one loses no more. Nothing: decide() has to look at all of the
// list. One place of it costs cuDNN a twentieth of all.
std::optional<Decision> decide_by_first(const Question& question, const Choices& choices, unsigned accepted);

}  // namespace convoy::interposer
