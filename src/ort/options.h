// What a person gives the provider: options of ONNX Runtime, texts by name.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "convoy.h"
#include "ort/calls.h"

namespace convoy::ort {

struct ProviderOptions {
  std::string device;                // "cuda:0"; "": the processor. Which of its devices a session names, no option
  int threads = 0;                   // 0: as many as there are processors
  bool on_runtimes_threads = false;  // thread_pool=onnxruntime
  bool convolutions_only = false;    // claim=convolutions
  int max_shapes = 16;               // that a set of nodes keeps sessions of
  double tune_seconds = 0;           // measured for so long where a session is made; 0: not
  std::string engines, rules, plan, database, how, precision, math, objective;  // "": convoy_options' default
  std::optional<double> max_error;  // that `precision` may make, as convoy_network_plan_within has it
  std::int64_t activation_limit = -1, weight_limit = -1;
  bool deterministic = false;
  // Of the session: whether it writes a model with what was compiled in its nodes, where, and whether into the model's
  // file or beside it.
  struct Context {
    bool write = false;
    bool embed = false;
    std::string path;
  } context;
};

// From the session's configuration, whose entries for the provider begin with `prefix`, "ep.NAME.", in small letters.
// Error: invalid_argument names an option that does not exist, with those that do, or whose value is wrong.
Result<ProviderOptions> read_options(const std::map<std::string, std::string>& configuration,
                                     const std::string& prefix);

// Whether Convoy takes their values: engines, rules, ways and types by name. A plan is of one network only, and shows
// itself wrong there. Error: invalid_argument.
Result<void> check_options(const ProviderOptions& options);

// The same for Convoy. It points into `options`. Lent threads are set by who has them.
convoy_options convoy_options_of(const ProviderOptions& options);

}  // namespace convoy::ort
