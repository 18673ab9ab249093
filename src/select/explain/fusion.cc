#include "select/explain/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "core/epilogue.h"
#include "core/stages.h"
#include "engines/cpu/common/epilogue_pass.h"
#include "engines/reference/reference.h"
#include "select/measure/caches.h"
#include "select/measure/full_speed.h"
#include "select/measure/problem_data.h"
#include "select/measure/timer.h"

namespace convoy::selection {
namespace {

// Of a budget, what is left for timing the variants once their engines are chosen; without one, so much.
constexpr double kTimingShare = 0.5;
constexpr double kUnbudgetedSeconds = 2;

ConvProblem without_epilogue(ConvProblem problem) {
  problem.alpha = 1;
  problem.epilogue = {};
  return problem;
}

// The epilogue in one pass, or in one for each of its steps in the formula's order.
std::vector<ConvProblem> passes_of(const ConvProblem& problem, bool separate) {
  if (!separate) return {problem};
  std::vector<ConvProblem> passes;
  const auto add = [&](auto set) {
    ConvProblem pass = without_epilogue(problem);
    set(pass);
    passes.push_back(std::move(pass));
  };
  if (problem.alpha != 1) add([&](ConvProblem& p) { p.alpha = problem.alpha; });
  if (problem.epilogue.bias) {
    add([&](ConvProblem& p) {
      p.epilogue.bias = true;
      p.epilogue.float_bias = problem.epilogue.float_bias;
    });
  }
  if (problem.epilogue.gamma != 0) add([&](ConvProblem& p) { p.epilogue.gamma = problem.epilogue.gamma; });
  if (problem.epilogue.activation.kind != ActivationKind::identity) {
    add([&](ConvProblem& p) { p.epilogue.activation = problem.epilogue.activation; });
  }
  return passes;
}

class Variant {
 public:
  static Result<Variant> make(std::string name, const ConvProblem& convolution, std::vector<ConvProblem> passes,
                              std::span<const Engine* const> engines, const SelectionOptions& options,
                              const PlanRequest& request) {
    Variant variant;
    variant.report.name = std::move(name);
    CONVOY_TRY(const Selection chosen, select(convolution, engines, options, request));
    CONVOY_TRY(variant.plan_, make_plan(convolution, chosen.candidate, engines, request));
    variant.report.candidate = variant.plan_->candidate();
    variant.report.stages = stages_of(*variant.plan_);
    if (variant.report.stages.empty()) variant.report.stages.push_back("products" + epilogue_text(convolution));
    for (const ConvProblem& pass : passes) variant.report.stages.push_back(epilogue_text(pass).substr(3));
    variant.passes_ = std::move(passes);
    variant.isa_ = request.cpu.isa;
    const auto engine = std::find_if(engines.begin(), engines.end(),
                                     [&](const Engine* e) { return e->info().name == chosen.candidate.engine; });
    variant.arithmetic = arithmetic_of((*engine)->info().notes);
    variant.workspace_bytes_ = variant.plan_->workspace_bytes();
    variant.workspace_ = allocate_aligned(variant.workspace_bytes_);
    if (variant.workspace_bytes_ > 0 && !variant.workspace_) {
      return Error{ErrorCode::out_of_memory,
                   fmt::format("{} bytes of workspace can't be had", variant.workspace_bytes_)};
    }
    return variant;
  }

  Result<void> run(const ConvArgs& args, ThreadTeam& team) const {
    CONVOY_CHECK(plan_->execute(args, {team, workspace_.get(), workspace_bytes_}));
    for (const ConvProblem& pass : passes_) cpu::run_epilogue_pass(pass, args, isa_, team);
    return {};
  }

  FusionVariant report;
  Arithmetic arithmetic = Arithmetic::direct;

 private:
  std::unique_ptr<ConvPlan> plan_;
  std::vector<ConvProblem> passes_;
  Isa isa_ = Isa::portable;
  std::size_t workspace_bytes_ = 0;
  std::shared_ptr<std::byte> workspace_;
};

}  // namespace

Result<FusionReport> measure_fusion(const ConvProblem& problem, std::span<const Engine* const> engines,
                                    const SelectionOptions& options, const PlanRequest& request) {
  CONVOY_CHECK(validate(problem));
  if (request.kind() != DeviceKind::cpu)
    return Error{ErrorCode::unsupported, "device=cuda: the passes to compare with run on the CPU"};
  if (const auto refusal = cpu::refuse_epilogue_pass(problem, request.cpu)) {
    return Error{ErrorCode::unsupported, refusal->reason};
  }
  const ConvProblem convolution = without_epilogue(problem);
  if (epilogue_text(problem).empty()) {
    return Error{ErrorCode::invalid_argument, "the problem has no epilogue: add bias=1, gamma=1 or act=relu to it"};
  }
  SelectionOptions share = options;
  if (options.budget_seconds > 0) share.budget_seconds = options.budget_seconds * (1 - kTimingShare) / 2;
  std::vector<Variant> variants;
  CONVOY_TRY(Variant fused, Variant::make("one plan", problem, {}, engines, share, request));
  variants.push_back(std::move(fused));
  CONVOY_TRY(Variant pass, Variant::make("convolution, then one pass", convolution, passes_of(problem, false), engines,
                                         share, request));
  // The same convolution is in both: chosen once.
  SelectionOptions same = options;
  same.rules = {{"*", pass.report.candidate}};
  variants.push_back(std::move(pass));
  const auto steps = passes_of(problem, true);
  if (steps.size() > 1) {
    CONVOY_TRY(Variant separate, Variant::make("separate steps", convolution, steps, engines, same, request));
    variants.push_back(std::move(separate));
  }

  const auto team = make_cpu_team(request.threads);
  CONVOY_TRY(const ProblemData data, ProblemData::make(problem, 1, request.constant_weights));
  CONVOY_TRY(const HostTensor out, HostTensor::allocate(problem.out()));
  const ConvArgs args = data.args(out.data.get());
  const Expectation expectation(problem, args, {}, *team);
  for (Variant& variant : variants) {
    std::memset(out.data.get(), 0xff, static_cast<std::size_t>(out.desc.bytes()));
    CONVOY_CHECK(variant.run(args, *team));
    const Verification verified = expectation.compare(out.data.get(), variant.arithmetic);
    variant.report.max_error = verified.max_error;
    if (!verified.ok()) {
      return Error{ErrorCode::wrong_result, fmt::format("{} ({}): {:.3g} times the tolerance off", variant.report.name,
                                                        print(variant.report.candidate), verified.max_error)};
    }
  }

  CONVOY_TRY(CacheFlusher flusher, CacheFlusher::make(*team, request.cpu.l2_bytes));
  std::vector<Contestant> contestants;
  for (const Variant& variant : variants) {
    contestants.push_back({.body = [&args, &team, &variant] { return variant.run(args, *team); },
                           .prepare = [&flusher] { flusher.flush(); }});
  }
  const double budget = options.budget_seconds > 0 ? options.budget_seconds * kTimingShare : kUnbudgetedSeconds;
  const TimingOptions timing{.budget_seconds = budget, .at_full_speed = FullSpeed(*team, budget / 8)};
  const auto times = time_interleaved(contestants, timing, [] { return monotonic_seconds(); });
  FusionReport report;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.variants.push_back(std::move(variants[i].report));
    report.variants.back().time = times[i].summary;
    if (times[i].failure) {
      return times[i].failure->within(
          fmt::format("{} ({})", report.variants.back().name, print(report.variants.back().candidate)));
    }
    if (times[i].summary.samples == 0) {
      return Error{
          ErrorCode::unsupported,
          fmt::format("a budget of {} s is too short to time the variants side by side", options.budget_seconds)};
    }
  }
  std::stable_sort(report.variants.begin(), report.variants.end(),
                   [](const FusionVariant& a, const FusionVariant& b) { return a.time.median < b.time.median; });
  return report;
}

}  // namespace convoy::selection
