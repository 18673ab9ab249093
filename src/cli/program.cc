#include "cli/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <system_error>
#include <thread>
#include <vector>

#include "convoy/selection_check.h"
#include "device/cuda/device.h"
#include "engines/cudnn/ahead.h"
#include "engines/table.h"
#include "io/file.h"
#include "select/choose/engine_list.h"
#include "select/choose/former_knobs.h"
#include "select/choose/names.h"

namespace convoy::cli {
namespace {

constexpr int kMaxThreads = 1024;

// Why standard output first failed to take something; 0: it never did.
int lost_because = 0;

void put(std::FILE* stream, std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stream);
  if (!text.ends_with('\n')) std::fputc('\n', stream);
  const bool lost = std::fflush(stream) != 0 || std::ferror(stream) != 0;
  if (lost && stream == stdout && lost_because == 0) lost_because = errno;
}

constexpr const char* kTf32 = "tf32";
constexpr const char* kReducedAccumulation = "reduced-accumulation";
constexpr const char* kDownConvert = "down-convert";

Error bad_flag(std::string_view flag, std::string_view what) {
  return {ErrorCode::invalid_argument, fmt::format("{}: {}", flag, what)};
}

// Of "cuda" and "cuda:N"; nothing for "cpu", where options that only a GPU has are errors.
Result<std::optional<int>> cuda_ordinal(const SharedOptions& shared) {
  auto ordinal = cuda::parse_device(shared.device);
  if (!ordinal.ok()) return ordinal.error().within("--device");
  if (!*ordinal && shared.sm_count > 0) return bad_flag("--sm-count", "it is for --device cuda");
  if (!*ordinal && shared.rotating) return bad_flag("--rotating", "it is for --device cuda");
  return ordinal;
}

Result<void> read_filter(const SharedOptions& shared, SelectionFilter& filter) {
  filter.deterministic_only = shared.deterministic;
  filter.runtime_compilation = !shared.no_runtime_compilation;
  filter.notes = shared.notes;
  filter.config = library_config();
  if (shared.workspace_limited) filter.workspace_limit = shared.workspace_limit;
  if (!shared.config.empty()) {
    const auto config = parse_library_config(shared.config);
    if (!config.ok()) return config.error().within("--config");
    filter.config = *config;
  }
  if (!shared.allow.empty()) {
    const auto allows = [&](const char* what) {
      return std::find(shared.allow.begin(), shared.allow.end(), what) != shared.allow.end();
    };
    filter.tf32 = allows(kTf32);
    filter.reduced_accumulation = allows(kReducedAccumulation);
    filter.down_convert_inputs = allows(kDownConvert);
  }
  return {};
}

}  // namespace

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::not_found:
    case ErrorCode::corrupt:
      return kBadInput;
    case ErrorCode::unsupported:
      return kUnsupported;
    case ErrorCode::wrong_result:
      return kWrongResult;
    case ErrorCode::out_of_memory:
    case ErrorCode::device_failed:
    case ErrorCode::internal:
      break;
  }
  return kFailed;
}

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::wrong_result:
      return "wrong_result";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device_failed:
      return "device_failed";
    case ErrorCode::internal:
      break;
  }
  return "internal";
}

void Program::say(std::string_view text) const {
  put(shared.json ? stderr : stdout, report::wrapped(text, page().width));
}

void Program::say(const report::Table& table, int indent) const {
  const report::Table::Rendered rendered = table.render(page(), indent);
  put(shared.json ? stderr : stdout, rendered.text);
  for (const std::string& head : rendered.left_out) {
    if (std::find(left_out_.begin(), left_out_.end(), head) == left_out_.end()) left_out_.push_back(head);
  }
}

void Program::raw(std::string_view text) const { put(stdout, text); }

void Program::say_left_out() const {
  if (left_out_.empty()) return;
  note(fmt::format("left out at {} columns: {} (--wide shows all)", page().width, fmt::join(left_out_, ", ")));
}

void Program::note(std::string_view text) const {
  std::fflush(stdout);
  put(stderr, report::wrapped(text, report::page_of(stderr, shared.wide).width));
}

void Program::document(const Json& json) const {
  if (shared.json) put(stdout, report::dump(json));
}

Result<void> Program::finish_output() const {
  begun_.reset();
  errno = 0;
  bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  lost = ::close(STDOUT_FILENO) != 0 || lost;
  if (!lost) return {};
  const int reason = lost_because != 0 ? lost_because : errno;
  if (reason ==
      EPIPE) {  // the reader has seen enough: the end of every program in a pipeline, also where it is ignored
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return Error{ErrorCode::internal,
               fmt::format("standard output did not take everything{}",
                           reason != 0 ? ": " + std::generic_category().message(reason) : std::string())};
}

void Program::remark_on_flags() const {
  const int processors = cpu_features().logical_cpus;
  if (shared.threads <= processors || on_gpu()) return;
  note(
      fmt::format("--threads {}: this process may run on {} processor{}, so threads wait for each other ({} is the "
                  "default)",
                  shared.threads, processors, processors == 1 ? "" : "s", processors));
}

Result<int> Program::threads() const {
  if (shared.threads < 0 || shared.threads > kMaxThreads) {
    return bad_flag("--threads", fmt::format("{} is not from 1 to {}", shared.threads, kMaxThreads));
  }
  return shared.threads > 0 ? shared.threads : cpu_features().logical_cpus;
}

Result<PlanRequest> Program::plan_request() const {
  PlanRequest request;
  CONVOY_TRY(const int threads, this->threads());
  CONVOY_TRY(const std::optional<int> ordinal, cuda_ordinal(shared));
  request.cpu = cpu_features();
  if (!ordinal) {
    request.threads = threads;
    return request;
  }
  auto device = cuda::describe(*ordinal);
  if (!device.ok()) return device.error().within("--device " + shared.device);
  request.cuda = std::move(*device);
  const auto sms = cuda::target_sms(*request.cuda, shared.sm_count);
  if (!sms.ok()) return sms.error().within("--sm-count");
  request.target_sms = *sms;
  return request;
}

std::span<const Engine* const> Program::engines() const {
  return engines_on(on_gpu() ? DeviceKind::cuda : DeviceKind::cpu);
}

Result<std::vector<SelectionRule>> Program::rules_of_file(std::string_view flag, const std::string& path) const {
  const auto bytes = io::read_file(path);
  if (!bytes.ok()) return bytes.error().within(std::string(flag));
  auto rules = parse_rules({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, all_engines());
  if (!rules.ok()) return rules.error().within(fmt::format("{} {}", flag, path));
  std::vector<std::string> remarks;
  for (SelectionRule& rule : *rules) {  // where it takes a problem to tell, select() does
    rule.candidate = selection::named_today(std::move(rule.candidate), nullptr,
                                            fmt::format("{} {}: rule '{}'", flag, path, rule.pattern), remarks);
  }
  for (const std::string& remark : remarks) note(remark);
  return rules;
}

Result<SelectionOptions> Program::selection(double default_budget) const {
  SelectionOptions options;
  options.filter.engines = shared.engines;
  // Names of other devices' engines and notes are right, too: a script may be for both.
  if (const auto known = selection::check_engine_globs(shared.engines, all_engines()); !known.ok()) {
    return known.error().within("--engines");
  }
  if (const auto known = selection::check_note_globs(shared.notes, all_engines()); !known.ok()) {
    return known.error().within("--notes");
  }
  const auto here = engines();
  if (std::none_of(here.begin(), here.end(), [&](const Engine* engine) {
        return selection::engine_list_may_match(shared.engines, engine->info().name);
      })) {
    return bad_flag("--engines", fmt::format("'{}' matches no engine of --device {}", shared.engines, shared.device));
  }
  if (!shared.rules_file.empty()) {
    CONVOY_TRY(options.rules, rules_of_file("--rules", shared.rules_file));
  }
  options.strict_rules = !shared.fallback;
  const auto objective = parse_objective(shared.objective);
  if (!objective.ok()) return objective.error().within("--objective");
  options.objective = *objective;
  options.caches = shared.warm       ? CacheState::warm
                   : shared.all_cold ? CacheState::all_cold
                   : shared.rotating ? CacheState::rotating
                                     : CacheState::cold;
  CONVOY_CHECK(read_filter(shared, options.filter));
  options.budget_seconds = shared.budget >= 0 ? shared.budget : default_budget;
  if (options.budget_seconds > 0) options.mode = SelectionMode::measured;
  return options;
}

MathMode Program::math() const {
  MathMode math = MathMode::strict;
  for (const std::string& what : shared.allow)
    math = std::max(math, what == kTf32 ? MathMode::tf32 : MathMode::reduced);
  return math;
}

ConvProblem Program::allowed(ConvProblem problem) const {
  if (problem.compute == DataType::f32) problem.math = std::max(problem.math, math());
  return problem;
}

Result<NetworkOptions> Program::network_options(double default_budget) const {
  NetworkOptions options;
  CONVOY_TRY(const std::optional<int> ordinal, cuda_ordinal(shared));
  if (ordinal && shared.sm_count > 0)
    return bad_flag("--sm-count", "on a GPU it is for problems and lists of problems, not for networks");
  if (!ordinal && (shared.no_graph || shared.synchronous || shared.memory_limited)) {
    return bad_flag(shared.no_graph      ? "--no-graph"
                    : shared.synchronous ? "--sync"
                                         : "--memory-limit",
                    "it is for --device cuda");
  }
  const bool begins = ordinal && begun_ == nullptr && selection::engine_list_may_match(shared.engines, "cudnn.eng0");
  if (begins) {
    begun_ = std::make_shared<std::vector<std::jthread>>();
    begun_->emplace_back(cudnn::load_ahead);
  }
  CONVOY_TRY(const PlanRequest request, plan_request());
  if (begins) begun_->emplace_back([device = *request.cuda] { cudnn::open_ahead(device); });
  options.cuda = request.cuda;
  options.graphs = !shared.no_graph;
  options.synchronous = shared.synchronous;
  if (shared.memory_limited) options.device_memory_limit = static_cast<std::int64_t>(shared.memory_limit);
  CONVOY_TRY(options.threads, threads());
  options.cpu = cpu_features();
  CONVOY_TRY(options.selection, selection(default_budget));
  options.math = math();
  return options;
}

void add_display_flags(Parser app, Program& program) {
  begin(app, Subject::output);
  app.add_flag("--json", program.shared.json,
               "One JSON document on standard output, everything else on standard error");
  app.add_flag("--wide", program.shared.wide,
               "All columns, no line wrapped (default: as wide as the terminal or COLUMNS; files and pipes: no limit)");
}

void add_steering_flags(Parser app, Program& program) {
  SharedOptions& shared = program.shared;
  begin(app, Subject::choosing);
  app.add_option("--engines", shared.engines, "Engines that may be chosen, a list of globs: 'cpu.*,!cpu.winograd'")
      .type_name("GLOB");
  app.add_option("--notes", shared.notes, "Notes that candidates may have, a list of globs: '!WINOGRAD'")
      .type_name("GLOB");
  app.add_option("--objective", shared.objective,
                 "Minimise time (default), workspace, energy, or a weighted sum: time=1,workspace=0.2. With --how "
                 "global (plan, run, compare) also memory, the peak of activations: memory, or time=1,memory=0.5")
      .type_name("WHAT");
  app.add_option("--rules", shared.rules_file,
                 "A file of lines 'FIELD=VALUE .. -> ENGINE{knob=value}' (convoy list rule-fields)")
      .type_name("FILE");
  app.add_flag("--deterministic", shared.deterministic, "Only engines that give the same bits every time");
  app.add_option("--workspace-limit", shared.workspace_limit,
                 "The most scratch memory that a convolution may need: 64M")
      .type_name("BYTES")
      .bytes()
      .each([&shared](const std::string&) { shared.workspace_limited = true; });
}

void add_shared_flags(Parser app, Program& program, const std::string& budget_help) {
  SharedOptions& shared = program.shared;
  add_steering_flags(app, program);
  app.add_option(
         "--config", shared.config,
         "Leave engines out: full (none), jit-only (those that are compiled beforehand), portable (all but Convoy's "
         "own for processors) (default CONVOY_CONFIG, else full)")
      .type_name("NAME");
  app.add_flag("--fallback,--rules-fallback,!--strict", shared.fallback,
               "Where a rule's engine can't run a problem, warn and choose another (--strict, the default: an error)");
  app.add_option("--allow", shared.allow,
                 "Precision that f32 convolutions may lose, a list: tf32,reduced-accumulation,down-convert")
      .type_name("WHAT")
      .delimiter(',')
      .one_of({kTf32, kReducedAccumulation, kDownConvert});
  app.add_flag("--no-runtime-compilation", shared.no_runtime_compilation, "No candidate that is compiled at run time");

  begin(app, Subject::timing);
  const std::map<std::string, double> units = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}};
  app.add_option("--budget", shared.budget, budget_help).type_name("SECONDS").unit(units).range(0.0, 1e6);
  app.add_flag("--warm,!--cold", shared.warm,
               "--warm: time with the caches as the last execution left them; --cold (default): as between a network's "
               "other layers");
  app.add_flag("--all-cold", shared.all_cold, "Time with nothing of the problem in any cache").excludes("--warm");
  app.add_flag("--rotating", shared.rotating,
               "On a GPU: time executions in a row, each on tensors that the caches don't hold")
      .excludes("--warm")
      .excludes("--all-cold");

  begin(app, Subject::device);
  app.add_option("--device", shared.device, "Where to run: cpu (default), cuda or cuda:N").type_name("DEVICE");
  app.add_option("--threads", shared.threads, "Threads to run on (default: every processor)")
      .type_name("N")
      .range(1, kMaxThreads);
  app.add_option("--sm-count", shared.sm_count, "On a GPU: use so many SMs and leave the others free (default: all)")
      .type_name("N")
      .range(1, 1'000'000);
  add_display_flags(app, program);
}

Parser add_subcommand(Parser app, const std::string& name, const std::string& description, const std::string& example) {
  return app.add_subcommand(name, description, "Example:\n" + example);
}

Result<std::pair<std::string, std::string>> split_assignment(std::string_view flag, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return bad_flag(flag, fmt::format("'{}' is not NAME=VALUE", text));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

std::string place_of(const PlanRequest& request) {
  if (!request.cuda) {
    return fmt::format("{} thread{}, {}", request.threads, request.threads == 1 ? "" : "s", request.cpu.brand);
  }
  const CudaDevice& device = *request.cuda;
  const std::string carved =
      request.target_sms > 0 ? fmt::format(", {} of {} SMs", request.target_sms, device.sm_count) : std::string();
  return fmt::format("cuda:{}, {}{}, driver {}", device.ordinal, device.name, carved,
                     device.driver.empty() ? "of an unknown version" : device.driver);
}

Json to_json(const CudaDevice& device) {
  return {{"ordinal", device.ordinal},
          {"name", device.name},
          {"architecture", device.architecture},
          {"sm_count", device.sm_count},
          {"memory_bytes", device.memory_bytes},
          {"l2_bytes", device.l2_bytes},
          {"driver", device.driver},
          {"driver_version", device.driver_version}};
}

Json place_json(const PlanRequest& request) {
  Json json = {{"threads", request.threads}};
  if (request.cuda) json["device"] = to_json(*request.cuda);
  return json;
}

std::int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
  }
  return 0;
}

}  // namespace convoy::cli
