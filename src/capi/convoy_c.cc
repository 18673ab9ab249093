// Convolutions in the C interface: handles own C++ values.
#include <fmt/format.h>

#include <algorithm>

#include "capi/caller_team.h"
#include "capi/handles.h"
#include "capi/options.h"
#include "convoy/host_tensor.h"
#include "convoy/plan_cache.h"
#include "convoy/selection.h"
#include "convoy/tuning_database.h"
#include "device/device.h"
#include "engines/table.h"

struct convoy_choice {
  convoy::Selection selection;
  std::string candidate, reason, warnings;
  std::vector<std::string> measured;  // candidates' names, in the order of selection.measurements
};

struct convoy_plan {
  std::unique_ptr<convoy::ConvPlan> plan;
  int threads = 1;
  std::shared_ptr<convoy::ThreadTeam> lent;  // null: OpenMP's
  std::optional<int> cuda;                   // the ordinal of the GPU it is for
};

namespace {

using namespace convoy;
using namespace convoy::capi;

// Of all engines, so that a rule's engine of the other kind of device is told from one that does not exist.
Result<void> choose(const convoy_problem* problem, const Chooser& chooser, convoy_choice** choice) {
  const PlanRequest& request = chooser.place.request;
  CONVOY_TRY(Selection selection,
             select(problem->problem, all_engines(), chooser.options, request, {}, chooser.progress));
  auto made = std::make_unique<convoy_choice>();
  made->candidate = print(selection.candidate);
  made->reason = selection.reason();
  made->warnings = fmt::format("{}", fmt::join(selection.warnings, "\n"));
  for (const Measurement& m : selection.measurements) made->measured.push_back(print(m.candidate));
  made->selection = std::move(selection);
  *choice = made.release();
  return {};
}

Result<void> execute(const convoy_plan& plan, const ConvArgs& args, const convoy_arguments& given) {
  if (given.stream != nullptr) return invalid("stream is not null, and the plan is for the processor");
  void* workspace = given.workspace;
  std::size_t bytes = given.workspace_bytes;
  const std::size_t needed = plan.plan->workspace_bytes();
  std::shared_ptr<std::byte> own;
  if (workspace == nullptr && needed > 0) {
    own = allocate_aligned(needed);
    if (!own) return Error{ErrorCode::out_of_memory, fmt::format("no memory for a workspace of {} bytes", needed)};
    workspace = own.get();
    bytes = needed;
  }
  const std::shared_ptr<ThreadTeam> team = plan.lent ? plan.lent : make_cpu_team(plan.threads);
  return plan.plan->execute(args, {*team, workspace, bytes});
}

Result<void> enqueue(const convoy_plan& plan, const ConvArgs& args, const convoy_arguments& given) {
  CONVOY_TRY(const cuda::DeviceScope scope, cuda::DeviceScope::enter(*plan.cuda));
  if (given.workspace == nullptr) {
    return ExecutionContext::of_this_thread().enqueue(*plan.plan, *plan.cuda, args, given.stream);
  }
  CudaQueue queue(given.stream);
  return plan.plan->execute(args, {queue, given.workspace, given.workspace_bytes});
}

}  // namespace

extern "C" {

convoy_status convoy_problem_create(const char* text, convoy_problem** problem) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(problem, "problem"));
    *problem = nullptr;
    CONVOY_CHECK(present(text, "text"));
    CONVOY_TRY(ConvProblem parsed, parse_problem(text));
    auto made = std::make_unique<convoy_problem>();
    made->text = print(parsed);
    made->problem = std::move(parsed);
    *problem = made.release();
    return {};
  });
}

void convoy_problem_destroy(convoy_problem* problem) { delete problem; }
const char* convoy_problem_text(const convoy_problem* problem) { return problem ? problem->text.c_str() : ""; }
double convoy_problem_flops(const convoy_problem* problem) { return problem ? flops(problem->problem) : 0; }

convoy_status convoy_problem_tensor(const convoy_problem* problem, convoy_operand operand, convoy_tensor* tensor) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(problem, "problem"));
    CONVOY_CHECK(present(tensor, "tensor"));
    const ConvProblem& p = problem->problem;
    const int which = number_of(operand);
    if (which != CONVOY_X && which != CONVOY_W && which != CONVOY_Y) {
      return invalid(fmt::format("operand={} is none of x, w and y", which));
    }
    const TensorDesc& desc = which == CONVOY_X ? p.x : which == CONVOY_W ? p.w : p.y;
    convoy_tensor filled = CONVOY_TENSOR_INIT;
    filled.rank = desc.rank();
    std::copy(desc.dims.begin(), desc.dims.end(), filled.dims);
    std::copy(desc.strides.begin(), desc.strides.end(), filled.strides);
    filled.channel_block = desc.channel_block;
    filled.bytes = desc.bytes();
    filled.type = name_of(desc.type).data();
    return write_struct(tensor, filled, "convoy_tensor");
  });
}

convoy_status convoy_query(const convoy_problem* problem, const convoy_options* options,
                           convoy_answer_callback callback, void* user) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(problem, "problem"));
    if (callback == nullptr) return invalid("callback is null");
    CONVOY_TRY(const convoy_options given, whole(options));
    CONVOY_TRY(const ScopedRequest place, read_request(given));
    const auto& engines = engines_on(place.request.kind());
    for (const EngineAnswer& answer : list_candidates(problem->problem, engines, place.request)) {
      const std::string candidate = answer.refusal ? "" : print(answer.default_candidate);
      callback(user, answer.engine->info().name.c_str(), answer.refusal ? answer.refusal->reason.c_str() : nullptr,
               answer.refusal ? nullptr : candidate.c_str(), answer.predicted_seconds);
    }
    return {};
  });
}

convoy_status convoy_select(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(choice, "choice"));
    *choice = nullptr;
    CONVOY_CHECK(present(problem, "problem"));
    CONVOY_TRY(Chooser chooser, read_options(options));
    CONVOY_TRY(const auto database, remember(chooser));
    return choose(problem, chooser, choice);
  });
}

convoy_status convoy_tune(const convoy_problem* problem, const convoy_options* options, convoy_choice** choice) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(choice, "choice"));
    *choice = nullptr;
    CONVOY_CHECK(present(problem, "problem"));
    CONVOY_TRY(Chooser chooser, read_options(options));
    chooser.options.mode = SelectionMode::measured;
    std::unique_ptr<TuningDatabase> database;
    if (!chooser.database.empty()) {
      CONVOY_TRY(database, TuningDatabase::open(chooser.database, TuningDatabase::Access::write));
      chooser.options.store = database.get();
    }
    return choose(problem, chooser, choice);
  });
}

void convoy_choice_destroy(convoy_choice* choice) { delete choice; }
const char* convoy_choice_candidate(const convoy_choice* choice) { return choice ? choice->candidate.c_str() : ""; }
const char* convoy_choice_reason(const convoy_choice* choice) { return choice ? choice->reason.c_str() : ""; }
const char* convoy_choice_warnings(const convoy_choice* choice) {
  return choice != nullptr && !choice->warnings.empty() ? choice->warnings.c_str() : nullptr;
}
size_t convoy_choice_measured(const convoy_choice* choice) { return choice ? choice->measured.size() : 0; }

convoy_status convoy_choice_measurement(const convoy_choice* choice, size_t index, convoy_measurement* measurement) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(choice, "choice"));
    CONVOY_CHECK(present(measurement, "measurement"));
    CONVOY_CHECK(in_range(index, choice->measured.size(), "measurements"));
    const Measurement& m = choice->selection.measurements[index];
    convoy_measurement filled = CONVOY_MEASUREMENT_INIT;
    filled.candidate = choice->measured[index].c_str();
    filled.failure = m.failure ? m.failure->message.c_str() : nullptr;
    filled.median_seconds = m.median_seconds;
    filled.spread = m.spread;
    filled.workspace_bytes = static_cast<std::int64_t>(m.workspace_bytes);
    filled.max_error = m.max_error;
    return write_struct(measurement, filled, "convoy_measurement");
  });
}

convoy_status convoy_plan_create(const convoy_problem* problem, const char* candidate, const convoy_options* options,
                                 const void* constant_weights, convoy_plan** plan) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(plan, "plan"));
    *plan = nullptr;
    CONVOY_CHECK(present(problem, "problem"));
    CONVOY_CHECK(present(candidate, "candidate"));
    CONVOY_TRY(const Candidate parsed, parse_candidate(candidate));
    CONVOY_TRY(const convoy_options given, whole(options));
    CONVOY_TRY(ScopedRequest place, read_request(given));
    PlanRequest& request = place.request;
    if (request.kind() == DeviceKind::cuda && constant_weights != nullptr) {
      return invalid(fmt::format("constant_weights is not null: on {} weights come with each execution, as w",
                                 device_of(request).name()));
    }
    request.constant_weights = constant_weights;
    auto made = std::make_unique<convoy_plan>();
    CONVOY_TRY(made->plan, make_plan(problem->problem, parsed, all_engines(), request));
    made->threads = request.threads;
    made->lent = caller_team(given, request.threads);
    if (request.cuda) made->cuda = request.cuda->ordinal;
    *plan = made.release();
    return {};
  });
}

void convoy_plan_destroy(convoy_plan* plan) { delete plan; }
size_t convoy_plan_workspace_bytes(const convoy_plan* plan) { return plan ? plan->plan->workspace_bytes() : 0; }

convoy_status convoy_plan_execute(const convoy_plan* plan, const convoy_arguments* arguments) {
  return guarded([&]() -> Result<void> {
    CONVOY_CHECK(present(plan, "plan"));
    CONVOY_CHECK(present(arguments, "arguments"));
    CONVOY_TRY(const convoy_arguments given,
               read_struct<convoy_arguments>(arguments, CONVOY_ARGUMENTS_INIT, "convoy_arguments"));
    ConvArgs args;
    args.x = given.x, args.w = given.w, args.y = given.y, args.out = given.out;
    args.bias = given.bias, args.z = given.z, args.slopes = given.slopes, args.scales = given.scales;
    args.x_zero_point = given.x_zero_point, args.w_zero_points = given.w_zero_points;
    args.gate = given.gate;
    return plan->cuda ? enqueue(*plan, args, given) : execute(*plan, args, given);
  });
}

}  // extern "C"
