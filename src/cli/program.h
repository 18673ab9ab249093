// What every subcommand shares: flags that mean the same everywhere, where output goes, exit codes.
//
// Human text goes to standard output. With --json standard output gets exactly one JSON document, and everything else
// goes to standard error.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "cli/description.h"
#include "cli/flags.h"
#include "convoy/network.h"
#include "report/json.h"
#include "report/table.h"

namespace convoy::cli {

using report::Json;

enum ExitCode { kDone = 0, kFailed = 1, kBadInput = 2, kWrongResult = 3, kUnsupported = 4, kInterrupted = 130 };
ExitCode exit_code(ErrorCode code);
std::string_view name_of(ErrorCode code);  // "bad input", "unsupported", ...

struct SharedOptions {
  std::string device = "cpu";
  int threads = 0;     // 0: every processor this process may use
  double budget = -1;  // seconds; negative: the subcommand's own default
  std::string engines = "*";
  std::string rules_file;
  bool fallback = false;
  bool deterministic = false;
  bool no_runtime_compilation = false;
  std::string notes = "*";
  std::uint64_t workspace_limit = 0;  // bytes
  bool workspace_limited = false;
  std::string objective = "time";
  std::string config;  // empty: CONVOY_CONFIG's
  std::vector<std::string> allow;
  bool warm = false;
  bool all_cold = false;
  bool rotating = false;
  int sm_count = 0;                            // of a GPU that a convolution may use; 0: all
  bool no_graph = false, synchronous = false;  // NetworkOptions::graphs, synchronous
  std::uint64_t memory_limit = 0;              // bytes of a GPU: NetworkOptions::device_memory_limit
  bool memory_limited = false;
  bool no_database = false;
  bool json = false;
  bool wide = false;
};

class Program {
 public:
  SharedOptions shared;
  std::function<Result<int>()> action;  // of the subcommand that was given; returns the exit code

  // A line, or several, for people, as wide as page() is: longer lines are wrapped.
  void say(std::string_view text) const;
  // A table, brought to that width. Columns that it has no room for are named by say_left_out().
  void say(const report::Table& table, int indent = 0) const;
  // Text that other programs read: to standard output as it is, however wide.
  void raw(std::string_view text) const;
  // A remark that is not part of the result: always standard error.
  void note(std::string_view text) const;
  // Ends the output of a --json run; does nothing otherwise.
  void document(const Json& json) const;
  // Of what say() writes to.
  report::Page page() const { return report::page_of(shared.json ? stderr : stdout, shared.wide); }
  bool colour() const { return page().colour; }
  // The columns that tables left out, once for all of a command, as a remark.
  void say_left_out() const;
  // Closes standard output. The error: not everything that was written there arrived (a full disk, a closed pipe).
  Result<void> finish_output() const;
  // Remarks on flags that are right but surprise: more threads than processors.
  void remark_on_flags() const;

  // The flags as the library's options. Errors name the flag. They also check --device.
  Result<int> threads() const;
  Result<PlanRequest> plan_request() const;
  bool on_gpu() const { return shared.device.starts_with("cuda"); }
  // The engine table's rows for --device.
  std::span<const Engine* const> engines() const;
  // A rules file, its names checked. Errors name the flag, the file and the line.
  Result<std::vector<SelectionRule>> rules_of_file(std::string_view flag, const std::string& path) const;
  // Heuristic without a budget (measured_by_default false, no --budget), measured otherwise.
  Result<SelectionOptions> selection(double default_budget = 0) const;
  Result<NetworkOptions> network_options(double default_budget = 0) const;
  // The problem with the math mode that --allow needs (f32 ones: the others have nothing to give up).
  ConvProblem allowed(ConvProblem problem) const;
  MathMode math() const;

 private:
  mutable std::vector<std::string> left_out_;  // heads of columns, each once
  // They begin what a network on a GPU waits for, while its file is read. Copies share them.
  mutable std::shared_ptr<std::vector<std::jthread>> begun_;
};

// Those flags of SharedOptions that steer other programs, too: engines, notes, rules, objective, determinism,
// workspace.
void add_steering_flags(Parser app, Program& program);
// All flags of SharedOptions and add_display_flags. `budget_help` says what the subcommand does without --budget.
void add_shared_flags(Parser app, Program& program, const std::string& budget_help);
// --json and --wide, which every subcommand has.
void add_display_flags(Parser app, Program& program);

// A subcommand with its one-line description and the example at the end of its help.
Parser add_subcommand(Parser app, const std::string& name, const std::string& description, const std::string& example);

// "NAME=VALUE" or an error that names the flag.
Result<std::pair<std::string, std::string>> split_assignment(std::string_view flag, const std::string& text);

// Where a request runs, for people: "2 threads, Intel(R) Xeon(R) ..", "cuda:0, NVIDIA H200, driver 580.159.04".
std::string place_of(const PlanRequest& request);
Json place_json(const PlanRequest& request);  // "threads", and a GPU's "device"
Json to_json(const CudaDevice& device);

// Peak resident memory of this process in bytes (VmHWM), 0 where the system doesn't say.
std::int64_t peak_memory_bytes();

// What this build runs with: {"convoy": "0.1.0", "oneDNN": ...}.
Json library_versions();

// One function a subcommand, each in the file of its name.
void add_run(Parser app, Program& program);
void add_bench(Parser app, Program& program);
void add_tune(Parser app, Program& program);
void add_db(Parser app, Program& program);
void add_exec(Parser app, Program& program);
void add_report(Parser app, Program& program);
void add_explain(Parser app, Program& program);
void add_conformance(Parser app, Program& program);
void add_verify(Parser app, Program& program);
void add_repro(Parser app, Program& program);
void add_plan(Parser app, Program& program);
void add_compare(Parser app, Program& program);
void add_list(Parser app, Program& program);
void add_zoo(Parser app, Program& program);
void add_doctor(Parser app, Program& program);
void add_demo(Parser app, Program& program);
void add_completion(Parser app, Program& program);  // and man

}  // namespace convoy::cli
