// What `convoy exec --record` wrote down of a program: JSON lines, a header a process and then a line a graph
// (docs/pytorch.md). Reading, adding up, and the problem list of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::report {

struct RecordedPlan {
  std::string candidate;
  std::vector<std::string> notes;
  std::int64_t calls = 0;
  std::int64_t workspace_bytes = 0;
  std::string failure;         // why it could not be made
  std::string failure_detail;  // cuDNN's last error string then
  std::int64_t captured = 0;   // of `calls`, into CUDA graphs, whose replays nobody sees
  double seconds = 0;          // a call's, measured in the program: of PyTorch's own kernels and what replaced them
  std::string in_place_of;     // the plan that it ran in place of, whose notes are `notes`; empty: it is the program's
};

// A winner that could not be given to the program.
struct NotPlaced {
  std::string candidate;
  std::string reason;
};

struct RecordedGraph {
  std::string problem;     // empty: no problem expresses it
  std::string operations;  // "CONVOLUTION_FORWARD"
  std::string reason;      // why no problem does
  std::string device;
  std::int64_t calls = 0;
  std::vector<RecordedPlan> plans;        // the most called first
  std::vector<std::string> offered;       // by cuDNN's heuristics, best first
  bool benchmark = false;                 // the program measured what it was offered
  std::string steered;                    // what was put first; empty: cuDNN's own order
  std::vector<std::string> steered_adds;  // what it loses that cuDNN's own first does not, as a rule asked for
  std::vector<NotPlaced> not_placed;
  std::map<std::string, std::vector<std::string>>
      notes;  // of what was offered or planned; also those that known.cc adds
};

// A rule of the choice file, and what became of it.
struct RecordedRule {
  std::string pattern;
  std::string candidate;
  std::int64_t matched = 0;  // distinct graphs
  std::int64_t obeyed = 0;
  std::string reason;  // why not, the first time
};

// A descriptor that could not be finalized; distinct ones once.
struct RecordedFailure {
  std::string descriptor;  // "CUDNN_BACKEND_TENSOR_DESCRIPTOR"
  std::string status;
  std::string message;  // cuDNN's last error string
  std::int64_t count = 0;
  std::vector<std::pair<std::string, std::string>> attributes;  // as set: name, value as JSON
  std::string problem;                                          // empty: there is none
  std::string candidate;                                        // of a plan
};

struct Record {
  int processes = 0;
  std::vector<std::string> programs;  // command lines, each once
  double seconds = 0;                 // of the process that ran longest
  bool benchmark = false;             // benchmark mode was recognised in a process
  std::vector<std::string> filters;   // that the choice file had
  std::string cudnn;                  // "9.19.0"; of the last process
  std::string cudnn_file;             // its libcudnn.so.9; empty in records of before
  std::vector<RecordedGraph> graphs;  // each once, the most called first
  std::vector<RecordedRule> rules;    // in the choice file's order, of all processes
  std::vector<RecordedFailure> failures;
};

// Errors (corrupt, unsupported) name `file`, the line and the field.
Result<Record> parse_record(std::string_view text, std::string_view file);
// Whether a text begins as a record does.
bool is_record(std::string_view text);

// The math mode that the program allowed, which cuDNN is never told, and what says so.
struct InferredMath {
  MathMode math;
  std::string from;
};
// Of f32 graphs tf32 where a plan that ran rounds to it (its notes), else strict. Of the others reduced: frameworks
// filter nothing there.
InferredMath inferred_math(const RecordedGraph& graph);

// Whether the program asked by cuDNN's older interface (cudnnConvolutionForward and its like).
bool calls_legacy_api(const RecordedGraph& graph);

// What is written otherwise today, each once: "recorded: cuda.depthwise{tile=..} is written .. now". The record of an
// older Convoy has such plans and rules; they are understood wherever a record is read.
std::vector<std::string> former_names(const Record& record);

// A line a problem: how often it ran, the problem with the inferred math, the engine that ran. What has no problem is a
// comment.
std::string problem_list(const Record& record);

}  // namespace convoy::report
