#include "network/cost/measure_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/clock.h"
#include "convert/convert.h"
#include "device/device.h"
#include "ops/blocks.h"
#include "select/evidence.h"
#include "select/measure/caches.h"
#include "select/measure/energy.h"
#include "select/measure/full_speed.h"
#include "select/measure/problem_data.h"
#include "select/measure/step_measurement.h"
#include "select/measure/timer.h"

namespace convoy::network {
namespace {

using ops::Operand;
using ops::OpProblem;

constexpr double kNeverHopeless = std::numeric_limits<double>::infinity();

// ---- operators

// 0 or 1 in integers that may be indices, as fill_random in all else.
Result<HostTensor> random_input(const TensorDesc& desc, std::uint64_t seed) {
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
  if (desc.type == DataType::s64 || desc.type == DataType::s32 || desc.type == DataType::boolean) {
    for (std::int64_t i = 0; i < desc.storage_elements(); ++i) {
      store_from_double(desc.type, tensor.data.get(), i,
                        static_cast<double>((static_cast<std::uint64_t>(i) + seed) % 2));
    }
  } else {
    selection::fill_random(desc, tensor.data.get(), seed);
  }
  return tensor;
}

// An operator with its data: the plan, the tensors that it reads and those that it writes.
struct PreparedOp {
  std::unique_ptr<ops::OpPlan> plan;
  std::vector<HostTensor> inputs, outputs;
  std::vector<const void*> in;
  std::vector<void*> out;

  Result<void> run(ThreadTeam& team, Scratch& workspace) const {
    const std::size_t bytes = plan->workspace_bytes();
    CONVOY_TRY(void* const scratch, workspace.reserve(bytes));
    return plan->execute(in, out, {team, scratch, bytes});
  }
};

// The layout of all activations, which an operator needs to be one; the first where several say the same.
Result<Layout> layout_of(const OpProblem& problem) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c}) {
    const auto fits = [&](const TensorDesc& desc) { return desc.rank() < 3 || desc.is_packed(layout); };
    if (std::ranges::all_of(problem.inputs,
                            [&](const Operand& x) { return !x.present || x.constant || fits(x.desc); }) &&
        std::ranges::all_of(problem.outputs, fits)) {
      return layout;
    }
  }
  return Error{ErrorCode::unsupported,
               problem.node.op + ": its activations have to be packed, in one and the same layout"};
}

// `given`: the inputs' values, brought into the problem's layouts; none: random ones.
Result<PreparedOp> prepare(const OpProblem& problem, const PlanRequest& request, const std::vector<HostTensor>& given) {
  const ops::OperatorRow& row = *ops::find_row(problem.node.domain, problem.node.op);
  PreparedOp prepared;
  std::vector<ops::Input> inputs = ops::inputs_of(problem);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Operand& operand = problem.inputs[i];
    HostTensor tensor;
    if (operand.present && !given.empty()) {
      CONVOY_TRY(tensor, converted(given[i], operand.desc));
    } else if (operand.present && operand.values) {
      tensor = {operand.desc, operand.values};
    } else if (operand.present) {
      CONVOY_TRY(tensor, random_input(operand.desc, i + 1));
    }
    if (operand.constant) inputs[i].constant = tensor.data.get();
    prepared.in.push_back(tensor.data.get());
    prepared.inputs.push_back(std::move(tensor));
  }
  CONVOY_TRY(const Layout layout, layout_of(problem));
  if (!ops::works_in(row, problem.node, inputs, problem.outputs, layout)) {
    return Error{ErrorCode::unsupported, fmt::format("{} doesn't work in {}", problem.node.op, name_of(layout, 2))};
  }
  CONVOY_TRY(const auto inferred, row.infer(problem.node, inputs));
  if (inferred.size() != problem.outputs.size()) {
    return Error{ErrorCode::unsupported, fmt::format("{}: outputs that are left out", problem.node.op)};
  }
  CONVOY_TRY(prepared.plan, ops::plan_as_laid_out(row, problem.node, inputs, problem.outputs, request));
  for (const TensorDesc& desc : problem.outputs) {
    CONVOY_TRY(HostTensor tensor, HostTensor::allocate(desc));
    prepared.out.push_back(tensor.data.get());
    prepared.outputs.push_back(std::move(tensor));
  }
  return prepared;
}

OpProblem row_major(OpProblem problem) {
  const auto packed = [](TensorDesc& desc) {
    if (desc.rank() >= 3) desc = desc.with_layout(Layout::nchw);
  };
  for (Operand& input : problem.inputs) {
    if (!input.constant) packed(input.desc);
  }
  for (TensorDesc& output : problem.outputs) packed(output);
  return problem;
}

// What a value may differ by: another order of summation, or of rounding to the type.
double relative_tolerance(DataType type) {
  return type == DataType::bf16 ? 0x1p-6 : type == DataType::f16 ? 0x1p-9 : type == DataType::f64 ? 1e-10 : 1e-4;
}

void poison(const std::vector<HostTensor>& tensors, int byte) {
  for (const HostTensor& tensor : tensors) {
    std::memset(tensor.data.get(), byte, static_cast<std::size_t>(tensor.desc.bytes()));
  }
}

// The largest difference between the operator's outputs and those of the same operator in row-major.
Result<double> compare_with_row_major(const OpProblem& problem, const PreparedOp& prepared, const PlanRequest& request,
                                      ThreadTeam& team, Scratch& workspace) {
  CONVOY_TRY(const PreparedOp other, prepare(row_major(problem), request, prepared.inputs));
  poison(prepared.outputs, 0xff);
  poison(other.outputs, 0);
  CONVOY_CHECK(prepared.run(team, workspace));
  CONVOY_CHECK(other.run(team, workspace));
  double worst = 0;
  for (std::size_t i = 0; i < prepared.outputs.size(); ++i) {
    CONVOY_TRY(const HostTensor actual, converted(prepared.outputs[i], other.outputs[i].desc));
    worst = std::max(worst, difference(other.outputs[i], actual));
  }
  return worst;
}

// ---- both

std::span<std::byte> bytes_of(const HostTensor& tensor) {
  return {tensor.data.get(), static_cast<std::size_t>(tensor.desc.bytes())};
}

// What is timed: its executions, and what the step before has just written.
struct Subject {
  std::function<Result<void>()> run;
  std::span<std::byte> produced;
  std::span<std::byte> output;
  double error = 0;  // in units of what is allowed
  std::string runs_on;
  std::size_t workspace_bytes = 0;
};

struct PreparedConversion {
  HostTensor source, target;
};

Result<double> compare_with_copy(const PreparedConversion& data, const Subject& subject) {
  const bool has_gaps = data.target.desc.layout() == Layout::strided;  // which nobody writes
  const auto size = static_cast<std::size_t>(data.target.desc.bytes());
  CONVOY_TRY(const HostTensor expected, HostTensor::zeros(data.target.desc));
  copy_tensor(data.source.desc, data.source.data.get(), expected.desc, expected.data.get());
  std::memset(data.target.data.get(), has_gaps ? 0 : 0xff, size);
  CONVOY_CHECK(subject.run());
  return std::memcmp(expected.data.get(), data.target.data.get(), size) == 0 ? 0.0
                                                                             : std::numeric_limits<double>::infinity();
}

Result<void> time(const Subject& subject, double bytes, const PlanRequest& request, const StepMeasuring& measuring,
                  ThreadTeam& team, StepMeasurement& result) {
  std::optional<selection::CacheFlusher> flusher, copy_flusher;
  HostTensor from, to;
  const auto half = static_cast<std::int64_t>(bytes / 2);
  if (measuring.beside_copy) {
    CONVOY_TRY(from, HostTensor::zeros(TensorDesc::packed(DataType::u8, {half})));
    CONVOY_TRY(to, HostTensor::zeros(TensorDesc::packed(DataType::u8, {half})));
  }
  if (measuring.caches != CacheState::warm) {
    const bool cold = measuring.caches == CacheState::cold;
    CONVOY_TRY(flusher, selection::CacheFlusher::make(team, request.cpu.l2_bytes,
                                                      cold ? subject.produced : std::span<std::byte>()));
    if (measuring.beside_copy) {
      CONVOY_TRY(copy_flusher, selection::CacheFlusher::make(team, request.cpu.l2_bytes,
                                                             cold ? bytes_of(from) : std::span<std::byte>()));
    }
  }
  std::vector<selection::Contestant> contestants(1);
  contestants[0].body = subject.run;
  if (flusher) {
    contestants[0].prepare = [&] { flusher->flush(); };
  } else if (team.size() > 1) {
    contestants[0].prepare = [&] {
      selection::write_in_other_parts(team, subject.produced);
      selection::write_in_other_parts(team, subject.output);
    };
  }
  if (measuring.beside_copy) {
    contestants.push_back({.body = [&]() -> Result<void> {
      parallel_ranges(team, half, [&](std::int64_t begin, std::int64_t end, int) {
        std::memcpy(to.data.get() + begin, from.data.get() + begin, static_cast<std::size_t>(end - begin));
      });
      return {};
    }});
    if (copy_flusher) contestants[1].prepare = [&] { copy_flusher->flush(); };
  }
  selection::TimingOptions options;
  options.hopeless = kNeverHopeless;
  if (measuring.beside_copy) options.min_samples = 25;
  options.budget_seconds = measuring.budget_seconds;
  options.at_full_speed = selection::FullSpeed(team, measuring.budget_seconds / 8);
  const auto timings = selection::time_interleaved(contestants, options, measuring.clock);
  Measurement& measurement = result.measurement;
  const selection::Timing& own = timings[0];
  measurement.failure = own.failure;
  measurement.median_seconds = own.summary.median;
  measurement.spread = own.summary.spread();
  measurement.samples = own.summary.samples;
  result.outliers = own.summary.outliers;
  constexpr int kEnough =
      9;  // samples, where time ends before the median is known to 2%: large steps on a busy machine
  const bool is_known = own.settled || own.failure || own.summary.samples >= kEnough;
  if (is_known) measurement.state = MeasurementState::complete;
  if (measuring.beside_copy) result.copy_seconds = timings[1].summary.median;
  return {};
}

// Of one execution.
Result<double> joules_of(const Subject& subject) {
  constexpr double kSeconds = 0.3;  // the processors' counters are read a thousand times a second
  CONVOY_TRY(selection::EnergyCounter counter, selection::EnergyCounter::open());
  CONVOY_TRY(const double before, counter.joules());
  const double start = monotonic_seconds();
  int runs = 0;
  for (; runs == 0 || monotonic_seconds() - start < kSeconds; ++runs) CONVOY_CHECK(subject.run());
  CONVOY_TRY(const double after, counter.joules());
  return (after - before) / runs;
}

Result<void> check_request(const PlanRequest& request, CacheState caches) {
  if (request.kind() != DeviceKind::cpu) {
    return Error{ErrorCode::unsupported, "operators and conversions are measured on the processor only"};
  }
  if (caches == CacheState::cold || caches == CacheState::warm || caches == CacheState::all_cold) return {};
  return Error{ErrorCode::unsupported,
               fmt::format("operators and conversions are not measured with {} caches", name_of(caches))};
}

}  // namespace

double difference(const HostTensor& expected, const HostTensor& actual) {
  const DataType type = expected.desc.type;
  const bool narrow = type == DataType::u8 || type == DataType::s8;
  const bool whole = expected.desc == actual.desc && expected.desc.storage_elements() == expected.desc.elements();
  const auto at = [&](const HostTensor& tensor, std::int64_t i) {
    return whole ? load_as_double(type, tensor.data.get(), i) : tensor.at(i);
  };
  double largest = 0;
  for (std::int64_t i = 0; i < expected.desc.elements(); ++i) {
    const double value = std::abs(at(expected, i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  const double allowed = is_integer(type) || type == DataType::boolean
                             ? (narrow ? 1.0 : 0.5)
                             : std::max(relative_tolerance(type) * largest, std::numeric_limits<double>::min());
  double worst = 0;
  for (std::int64_t i = 0; i < expected.desc.elements(); ++i) {
    const double a = at(expected, i), b = at(actual, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double apart = std::abs(a - b) / allowed;
    worst = std::max(worst, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
  }
  return worst;
}

Result<StepMeasurement> measure_step(const StepProblem& problem, const PlanRequest& request,
                                     const StepMeasuring& measuring) {
  CONVOY_CHECK(check_request(request, measuring.caches));
  if (bytes_moved(problem) == 0) return Error{ErrorCode::invalid_argument, print(problem) + " has no elements"};
  const auto team = make_cpu_team(request.threads);
  Scratch workspace;
  PreparedOp op;
  PreparedConversion conversion;
  Subject subject;
  StepMeasurement result;
  Measurement& measurement = result.measurement;
  measurement.candidate = candidate_of(problem);
  measurement.revision = selection::kStepRevision;
  measurement.provider = selection::step_provider();
  Result<double> error = 0.0;
  if (const auto* wanted = std::get_if<ConversionProblem>(&problem)) {
    CONVOY_TRY(conversion.source, HostTensor::allocate(wanted->x));
    CONVOY_TRY(conversion.target, HostTensor::allocate(wanted->y));
    selection::fill_random(wanted->x, conversion.source.data.get(), 1);
    subject.run = [&, wanted]() -> Result<void> {  // it outlives the pointer
      convert_layout(wanted->x, conversion.source.data.get(), wanted->y, conversion.target.data.get(), *team,
                     request.cpu);
      return {};
    };
    subject.produced = bytes_of(conversion.source);
    subject.output = bytes_of(conversion.target);
    result.runs_on = fmt::format("convert {}", name_of(conversion_kind(wanted->x, wanted->y)));
    error = compare_with_copy(conversion, subject);
  } else {
    const auto& node = std::get<OpProblem>(problem);
    CONVOY_TRY(op, prepare(node, request, {}));
    subject.run = [&] { return op.run(*team, workspace); };
    for (std::size_t i = 0; i < op.inputs.size() && subject.produced.empty(); ++i) {
      if (node.inputs[i].present && !node.inputs[i].constant) subject.produced = bytes_of(op.inputs[i]);
    }
    if (!op.outputs.empty()) subject.output = bytes_of(op.outputs.front());
    result.runs_on = print(op.plan->candidate());
    measurement.workspace_bytes = op.plan->workspace_bytes();
    error = compare_with_row_major(node, op, request, *team, workspace);
  }
  if (!error.ok()) {
    measurement.failure = error.error();
  } else if (*error > 1) {
    measurement.failure = Error{
        ErrorCode::wrong_result,
        fmt::format("{}: its result differs from {}", print(problem),
                    op.plan ? "that of the same operator in row-major" : "what copying element by element gives")};
  }
  measurement.max_error = error.ok() ? *error : 0;
  if (measurement.failure) {
    measurement.state = MeasurementState::complete;
    return result;
  }
  CONVOY_CHECK(time(subject, bytes_moved(problem), request, measuring, *team, result));
  if (measuring.energy) {
    CONVOY_TRY(measurement.energy_joules, joules_of(subject));
  }
  return result;
}

std::optional<Measurement> find_step(MeasurementStore& store, const StepProblem& problem, const PlanRequest& request,
                                     CacheState caches) {
  const auto known = store.find(measurement_key(problem, request, caches));
  for (const Measurement& m : known.ok() ? *known : std::vector<Measurement>()) {
    if (m.samples == 0 || m.failure || !is_current(m, {})) continue;
    if (!selection::seems_disturbed(m, predict_seconds(problem, request), DeviceKind::cpu)) return m;
  }
  return std::nullopt;
}

Result<void> measure_steps(std::span<const StepProblem> problems, const PlanRequest& request, CacheState caches,
                           double budget_seconds, MeasurementStore& store, bool energy,
                           const std::function<double()>& clock) {
  constexpr double kMost = 1, kMostRuns = 20;  // seconds for one problem's samples, or as many as so many runs take
  const double end = clock() + budget_seconds;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const auto known = find_step(store, problems[i], request, caches);
    if (known && known->state == MeasurementState::complete && (!energy || known->energy_joules)) continue;
    const double most = std::max(kMost, kMostRuns * predict_seconds(problems[i], request));
    double share = most;
    if (budget_seconds > 0) {
      const double left = end - clock();
      if (left <= 0) return {};
      share = std::min(most, left / static_cast<double>(problems.size() - i));
    }
    const auto measured = measure_step(problems[i], request,
                                       {.caches = caches, .budget_seconds = share, .energy = energy, .clock = clock});
    if (!measured.ok() || (measured->measurement.samples == 0 && !measured->measurement.failure)) continue;
    CONVOY_CHECK(store.store(measurement_key(problems[i], request, caches), measured->measurement));
  }
  return {};
}

}  // namespace convoy::network
