#include "cli/plan_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cli/tuning.h"
#include "convoy/network_plan.h"
#include "core/nearest.h"
#include "io/file.h"

namespace convoy::cli {
namespace {

bool is_how(const std::string& text) {
  return text.starts_with("uniform:") || std::ranges::find(how_names(), text) != how_names().end();
}

constexpr const char* kTf32Precision = "tf32";  // what f32 is rounded to, and no type of tensors

}  // namespace

bool restricts_engines(const SharedOptions& shared) {
  const SharedOptions usual;
  return !shared.rules_file.empty() || shared.engines != usual.engines || shared.notes != usual.notes ||
         shared.fallback || shared.deterministic || shared.no_runtime_compilation || shared.workspace_limited ||
         shared.objective != usual.objective || shared.warm || shared.all_cold;
}

const std::vector<std::string>& how_names() {
  static const auto& names = *new std::vector<std::string>{
      "tuned", "greedy", "global", "local", "uniform:nhwc", "uniform:nchw", "uniform:nchw8c", "uniform:nchw16c"};
  return names;
}

void add_how_flag(Parser app, std::string& how) {
  app.add_option("--how", how,
                 "How nodes get their layouts: tuned (by the plan that convoy tune MODEL kept, else greedy), greedy "
                 "(by region), global (the least sum of all costs), local (each node's fastest, conversions ignored), "
                 "or one layout wherever a node can work in it: uniform:nhwc, uniform:nchw, "
                 "uniform:nchw8c, uniform:nchw16c")
      .type_name("HOW")
      .capture_default_str();
}

void add_precision_flag(Parser app, std::string& precision) {
  app.add_option(
         "--precision", precision,
         "Run nodes of f32 in this type instead, wherever an engine can: bf16, f16, or tf32 (convolutions only, as "
         "--allow tf32)")
      .type_name("TYPE")
      .capture_default_str();
}

void add_parts_flag(Parser app, std::string& parts) {
  app.add_option(
         "--batch-parts", parts,
         "How a batch is run: whole, in parts of so many images one after another (4), or side by side, each on "
         "one thread (1/thread) (default what is predicted to take least)")
      .type_name("HOW");
}

Result<void> apply_parts(const std::string& parts, NetworkOptions& options) {
  if (parts.empty()) return {};
  const auto parsed = parse_batch_parts(parts);
  if (!parsed.ok()) return parsed.error().within("--batch-parts");
  options.parts = *parsed;
  return {};
}

Result<void> apply_precision(const std::string& text, NetworkOptions& options) {
  if (text == kTf32Precision) {
    options.precision = DataType::f32;
    options.math = std::max(options.math, MathMode::tf32);
    options.selection.filter.tf32 = true;
    return {};
  }
  const auto type = parse_data_type(text);
  if (!type.ok() || (*type != DataType::f32 && *type != DataType::bf16 && *type != DataType::f16)) {
    return Error{ErrorCode::invalid_argument, fmt::format("--precision: '{}' is not f32, tf32, bf16 or f16", text)};
  }
  options.precision = *type;
  return {};
}

void add_memory_flags(Parser app, MemoryFlags& flags) {
  app.add_option("--activation-limit", flags.activation_limit,
                 "The most bytes that activations may take at once: 12M (implies --how global)")
      .type_name("BYTES")
      .bytes()
      .each([&flags](const std::string&) { flags.limits_activations = true; });
  app.add_option(
         "--weight-limit", flags.weight_limit,
         "The most bytes of weights, packed for their engines, and other constants: 100M (implies --how global)")
      .type_name("BYTES")
      .bytes()
      .each([&flags](const std::string&) { flags.limits_weights = true; });
  app.add_flag("--exact", flags.exact,
               "With --activation-limit, --weight-limit or --objective memory: prove the best plan by an integer "
               "program (needs the solver CBC)");
}

std::string given_flag(const MemoryFlags& flags, const NetworkOptions& options) {
  return flags.limits_activations                            ? "--activation-limit"
         : flags.limits_weights                              ? "--weight-limit"
         : options.memory.least || options.memory.weight > 0 ? "--objective memory"
         : options.selection.objective.energy > 0            ? "--objective energy"
         : flags.exact                                       ? "--exact"
                                                             : "";
}

void add_plan_flags(Parser app, PlanFlags& flags) {
  add_how_flag(app, flags.how);
  app.add_option("--plan", flags.plan_file,
                 "Run exactly what a plan says (convoy plan writes one); what does not fit is an error that names the "
                 "line")
      .type_name("FILE");
  add_precision_flag(app, flags.precision);
  add_parts_flag(app, flags.parts);
  add_memory_flags(app, flags.memory);
  app.add_flag("--lenient", flags.lenient, "With --plan: choose again what does not fit, and say so");
  app.add_option("--skip-pass", flags.skip_passes,
                 "Leave out an improvement of the graph (convoy list passes; repeatable)")
      .type_name("PASS")
      .allow_extra_args(false);
}

void add_home_flags(Parser app, Program& program) {
  begin(app, Subject::device);
  app.add_flag("--no-graph", program.shared.no_graph,
               "On a GPU: enqueue each step of a network at each run, instead of capturing them once");
  app.add_flag("--sync", program.shared.synchronous,
               "On a GPU: wait after each step of a network, so that an error names its step");
  app.add_option("--memory-limit", program.shared.memory_limit,
                 "On a GPU: the most bytes there of a network's weights, activations, workspaces and graphs: 2G")
      .type_name("BYTES")
      .bytes()
      .each([&program](const std::string&) { program.shared.memory_limited = true; });
}

Result<NetworkOptions> planning_options(const Program& program, double default_budget) {
  const auto objective = parse_network_objective(program.shared.objective);
  if (!objective.ok()) return objective.error().within("--objective");
  Program of_engines = program;
  of_engines.shared.objective = print(objective->objective);
  CONVOY_TRY(NetworkOptions options, of_engines.network_options(default_budget));
  options.memory.least = objective->least_memory;
  options.memory.weight = objective->memory;
  return options;
}

Result<void> apply(const Program& program, const PlanFlags& flags, NetworkOptions& options) {
  CONVOY_CHECK(apply_precision(flags.precision, options));
  CONVOY_CHECK(apply_parts(flags.parts, options));
  options.how = flags.how;
  if (flags.memory.limits_activations) {
    options.memory.activation_limit = static_cast<std::int64_t>(flags.memory.activation_limit);
  }
  if (flags.memory.limits_weights) options.memory.weight_limit = static_cast<std::int64_t>(flags.memory.weight_limit);
  options.memory.exact = flags.memory.exact;
  if (const std::string flag = given_flag(flags.memory, options); !flag.empty()) {
    if (!flags.plan_file.empty()) return Error{ErrorCode::invalid_argument, flag + ": --plan says the layouts already"};
    if (flags.how == PlanFlags().how) {  // not given
      options.how = "global";
    } else if (flags.how != "global") {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("{} is for --how global: {} minimises time and keeps no limit", flag, flags.how)};
    }
    if (flags.memory.exact && !options.memory.asked()) {
      return Error{ErrorCode::invalid_argument,
                   flag + " is for --activation-limit, --weight-limit and --objective memory"};
    }
  }
  if (options.how == "tuned") {
    options.how = NetworkOptions().how;
    const bool as_kept = !program.shared.no_database && program.shared.budget < 0 && !restricts_engines(program.shared);
    if (as_kept) options.kept_plans = kept_plans_folder();
  }
  options.lenient_plan = flags.lenient;
  options.skip_passes = flags.skip_passes;
  if (flags.plan_file.empty()) {
    if (!flags.lenient) return {};
    return Error{ErrorCode::invalid_argument, "--lenient is for --plan"};
  }
  if (!flags.lenient && flags.how != PlanFlags().how) {
    return Error{ErrorCode::invalid_argument,
                 "--how: --plan says it already (with --lenient: what of it does not fit)"};
  }
  const auto bytes = io::read_file(flags.plan_file);
  if (!bytes.ok()) return bytes.error().within("--plan");
  auto plan = parse_plan({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  if (!plan.ok()) return plan.error().within("--plan").within(flags.plan_file);
  if (program.shared.threads == 0) options.threads = plan->header.threads;
  if (program.shared.allow.empty() && flags.precision != kTf32Precision) options.math = plan->header.math;
  if (flags.precision == PlanFlags().precision) options.precision = plan->header.precision;
  options.plan = std::move(*plan);
  return {};
}

bool is_global(const std::string& side) { return side.substr(0, side.find(',')) == "global"; }

Result<NetworkOptions> options_of_side(const Program& program, const std::string& side, const NetworkOptions& options,
                                       const MemoryFlags& memory) {
  NetworkOptions own = options;
  PlanFlags flags;
  flags.precision = name_of(options.precision);
  if (is_global(side)) {
    flags.memory = memory;
  } else {
    own.memory = {};
  }
  const std::size_t comma = side.find(',');
  const std::string how = side.substr(0, comma);
  if (is_how(how)) {
    flags.how = how;
    if (comma != std::string::npos) flags.parts = side.substr(comma + 1);
  } else {
    flags.plan_file = side;
  }
  std::error_code error;
  if (!is_how(how) && !std::filesystem::exists(side, error)) {
    return Error{ErrorCode::not_found, fmt::format("'{}' is no file, nor one of {}{}", side,
                                                   fmt::join(how_names(), ", "), did_you_mean(how, how_names()))};
  }
  CONVOY_CHECK(apply(program, flags, own));
  return own;
}

}  // namespace convoy::cli
