#include "engines/testing/engine_property.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/notes.h"

namespace convoy::testing {
namespace {

ThreadTeam& team_of(int threads) {
  static auto& teams = *new std::map<int, std::unique_ptr<ThreadTeam>>;  // never destroyed: threads may still run
  auto& team = teams[threads];
  if (!team) team = make_cpu_team(threads);
  return *team;
}

std::string explain(const ConvProblem& problem, const Verification& verification) {
  return fmt::format("out[{}] is {:.9g}, the oracle says {:.9g}: {:.3g} tolerances off ({} elements compared)",
                     fmt::join(verification.worst, ","), verification.actual, verification.expected,
                     verification.max_error, verification.checked) +
         (verification.worst.size() > 1 && verification.worst[1] >= problem.out().dims[1] ? ", in the channel padding"
                                                                                          : "");
}

// Whether every offer was refused for an instruction set that this processor does not have.
bool lacks_the_processor(const Acceptance& acceptance) {
  return acceptance.refusals.size() == 1 && acceptance.refusals.contains("instruction_set");
}

// What keeps an engine from running anything anywhere; empty: nothing does.
std::string undeclared(const EngineInfo& info) {
  if (info.device != DeviceKind::cpu || info.min_isa) return {};
  return info.name + " declares no min_isa, so it refuses every problem: what is not declared is refused";
}

KnobValues random_knobs(Random& random, const Configurations& configurations) {
  if (!configurations.listed.empty()) return random.pick(configurations.listed);
  KnobValues values;
  for (const Knob& knob : configurations.knobs) {
    if (!knob.values.empty() && random.chance(0.7)) values.push_back({knob.name, random.pick(knob.values)});
  }
  std::sort(values.begin(), values.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return values;
}

}  // namespace

std::string describe(const EngineCase& test) {
  const std::string candidate = print(Candidate{test.engine->info().name, test.knobs});
  const std::string problem = print(test.problem);
  return fmt::format(
      "  problem:   {0}\n  candidate: {1}\n"
      "  isa: {2}, extensions: {7}, threads: {3}, constant weights: {4}, fill: {5}, data seed: {6}\n"
      "  repeat:    build/tests/engine_property_test --problem '{0}' --candidate '{1}' --isa {2} --threads {3} "
      "--constant-weights {4:d} --fill {5} --data-seed {6} "
      "--extensions {7:d}",
      problem, candidate, name_of(test.isa), test.threads, test.constant_weights, name_of(test.fill), test.data_seed,
      test.extensions);
}

CpuFeatures features_of(Isa isa, bool extensions) {
  CpuFeatures features = capped(cpu_features(), isa);
  if (!extensions) {
    features.avx512_vnni = features.avx512_bf16 = features.avx512_fp16 = false;
    features.amx_tile = features.amx_bf16 = features.amx_int8 = false;
  }
  return features;
}

EngineOutcome run(const EngineCase& test, const ConvData& data, const Expectation& expectation) {
  EngineOutcome outcome;
  PlanRequest request;
  request.threads = test.threads;
  request.cpu = features_of(test.isa, test.extensions);
  // Constant weights need to live during plan() only.
  const bool constant = test.constant_weights && test.problem.pass != Pass::wgrad;
  GuardedBuffer weights;
  if (constant) {
    weights = GuardedBuffer(test.problem.w.bytes(), test.problem.w.alignment);
    std::memcpy(weights.data(), data.weights(), weights.size());
    request.constant_weights = weights.data();
  }
  Result<std::unique_ptr<ConvPlan>> plan = test.engine->plan(test.problem, test.knobs, request);
  if (!plan.ok()) {
    outcome.failure = "plan: " + plan.error().message;
    return outcome;
  }
  weights.fill(0xFF);

  ConvArgs args = data.args();
  if (constant) args.w = nullptr;
  GuardedBuffer out = data.make_out();
  GuardedBuffer workspace((*plan)->workspace_bytes(), 64);
  args.out = out.data();
  const ExecContext context{team_of(test.threads), workspace.data(), workspace.size()};
  // The second time the workspace holds what the first left there.
  for (int repeat = 0; repeat < 2; ++repeat) {
    data.reset(out);
    if (const Result<void> done = (*plan)->execute(args, context); !done.ok()) {
      outcome.failure = "execute: " + done.error().message;
      return outcome;
    }
    if (std::string sin = data.trespass(out); !sin.empty()) {
      outcome.failure = sin;
      return outcome;
    }
    if (!workspace.intact()) {
      outcome.failure = fmt::format("it wrote outside of its workspace of {} bytes", workspace.size());
      return outcome;
    }
    if (repeat == 1 && test.engine->info().deterministic &&
        !std::equal(outcome.out.begin(), outcome.out.end(), out.data())) {
      outcome.failure = "a second execution of the plan gave other bits, though the engine declares determinism";
      return outcome;
    }
    outcome.out.assign(out.data(), out.data() + out.size());
  }
  const KnobValues knobs = (*plan)->candidate().knobs;
  const std::vector<std::string> notes = test.engine->notes(test.problem, knobs, request);
  const Arithmetic arithmetic = arithmetic_of(notes);
  const bool loses = std::find(notes.begin(), notes.end(), note::loses_special_values) != notes.end();
  outcome.verification = expectation.compare(
      out.data(), arithmetic, test.fill == Fill::small_integers && arithmetic == Arithmetic::direct, !loses);
  if (!outcome.verification.ok()) outcome.failure = explain(test.problem, outcome.verification);
  return outcome;
}

EngineOutcome run(const EngineCase& test) {
  const ConvData data(test.problem, test.data_seed, test.fill);
  return run(test, data, Expectation(test.problem, data.args(), {}, team_of(1)));
}

std::string check_concurrency(const Engine& engine, std::uint64_t seed, int attempts) {
  if (std::string fault = undeclared(engine.info()); !fault.empty()) return fault;
  if (engine.info().min_isa > cpu_features().isa) return {};
  Random random(seed);
  Acceptance acceptance;
  for (int i = 0; i < 6; ++i) {
    const auto problem =
        random_problem_for(random, engine, {1, cpu_features()}, options_for(engine.info()), acceptance, attempts);
    if (!problem && acceptance.accepted == 0 && lacks_the_processor(acceptance)) return {};
    if (!problem) return "no problem found that it accepts";
    const ConvData data(*problem, random.next(), Fill::normal);
    PlanRequest request;
    request.cpu = cpu_features();
    if (i % 2 == 0 && problem->pass != Pass::wgrad) request.constant_weights = data.weights();
    const auto plan = engine.plan(*problem, {}, request);
    if (!plan.ok()) return print(*problem) + ": " + plan.error().message;
    constexpr int workers = 4;
    std::vector<GuardedBuffer> outs;
    for (int w = 0; w <= workers; ++w) outs.push_back(data.make_out());
    std::array<std::string, workers + 1> errors;
    const auto work = [&](int w) {
      const auto team = make_cpu_team(1);
      GuardedBuffer workspace((*plan)->workspace_bytes(), 64);
      ConvArgs args = data.args();
      args.out = outs[w].data();
      for (int repeat = 0; repeat < 5; ++repeat) {
        data.reset(outs[w]);
        const auto done = (*plan)->execute(args, {*team, workspace.data(), workspace.size()});
        if (!done.ok()) errors[w] = done.error().message;
      }
    };
    work(workers);
    std::vector<std::thread> threads;
    for (int w = 0; w < workers; ++w) threads.emplace_back(work, w);
    for (std::thread& thread : threads) thread.join();
    for (int w = 0; w <= workers; ++w) {
      if (!errors[w].empty()) return print(*problem) + ": " + errors[w];
      if (std::memcmp(outs[w].data(), outs[workers].data(), outs[w].size()) != 0) {
        return print(*problem) + ": executed from four threads at once, a plan gave other bits than alone";
      }
    }
  }
  return {};
}

PropertySummary check_engine(const Engine& engine, const PropertyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  PropertySummary summary;
  summary.engine = engine.info().name;
  if (std::string fault = undeclared(engine.info()); !fault.empty()) {
    summary.failures.push_back(std::move(fault));
    return summary;
  }
  std::vector<Isa> isas;
  for (const Isa isa : options.isas) {
    if (isa <= cpu_features().isa && isa >= engine.info().min_isa) isas.push_back(isa);
  }
  for (const Isa isa : isas) {
    for (const int threads : options.threads) summary.runs.push_back({.isa = isa, .threads = threads});
  }

  Random random(options.seed);
  const auto finished = [&] {
    return std::all_of(summary.runs.begin(), summary.runs.end(),
                       [&](const PropertyRuns& runs) { return runs.problems >= options.count; });
  };
  for (std::int64_t i = 0; !isas.empty() && !finished(); ++i) {
    const bool exact = i % 4 == 3, limits = i % 8 == 5;
    ProblemOptions problems = options_for(engine.info());
    problems.exact = exact;
    problems.long_sums = limits;
    const Isa wanted = isas[i % isas.size()];
    std::optional<ConvProblem> problem = random_problem_for(random, engine, {1, capped(cpu_features(), wanted)},
                                                            problems, summary.acceptance, options.attempts);
    if (!problem && summary.acceptance.accepted == 0 && lacks_the_processor(summary.acceptance)) {
      summary.unavailable = true;
      break;
    }
    if (!problem) {
      summary.failures.push_back(fmt::format("{}: no problem found that it accepts under {} in {} offers; refusals: {}",
                                             summary.engine, name_of(wanted), options.attempts,
                                             nlohmann::json(summary.acceptance.refusals).dump()));
      break;
    }
    ++summary.problems;
    EngineCase test;
    test.engine = &engine;
    test.problem = std::move(*problem);
    test.fill = exact        ? Fill::small_integers
                : i % 4 == 2 ? Fill::special
                : i % 8 == 1 ? Fill::spikes
                : limits     ? Fill::limits
                             : Fill::normal;
    test.data_seed = random.next() >> 32;
    const ConvData data(test.problem, test.data_seed, test.fill);
    const Expectation expectation(test.problem, data.args(), {}, team_of(flops(test.problem) < 1e6 ? 1 : 2));
    for (const Isa isa : isas) {
      test.extensions = random.chance(0.6);
      if (refuse(engine, test.problem, {1, features_of(isa, test.extensions)})) test.extensions = true;
      const PlanRequest request{1, features_of(isa, test.extensions)};
      if (refuse(engine, test.problem, request)) continue;
      test.isa = isa;
      test.constant_weights = random.chance(0.5);
      test.knobs =
          random.chance(0.5) ? random_knobs(random, engine.configurations(test.problem, request)) : KnobValues{};
      std::vector<std::byte> first;
      for (PropertyRuns& runs : summary.runs) {
        if (runs.isa != isa) continue;
        test.threads = runs.threads;
        EngineOutcome outcome = run(test, data, expectation);
        ++runs.problems;
        runs.exact += exact;
        runs.special += test.fill == Fill::special;
        runs.constant_weights += test.constant_weights;
        runs.random_knobs += !test.knobs.empty();
        if (outcome.verification.max_error > runs.max_error) {
          runs.max_error = outcome.verification.max_error;
          runs.worst = print(test.problem);
        }
        if (outcome.failure.empty() && engine.info().thread_invariant) {
          if (first.empty()) first = outcome.out;
          if (first != outcome.out) {
            outcome.failure = "other bits than with another thread count, though the engine declares thread_invariant";
          }
        }
        if (!outcome.failure.empty()) summary.failures.push_back(outcome.failure + "\n" + describe(test));
      }
    }
    if (static_cast<int>(summary.failures.size()) >= options.max_failures) break;
  }
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

nlohmann::json to_json(const PropertySummary& summary) {
  nlohmann::json runs = nlohmann::json::array();
  for (const PropertyRuns& run : summary.runs) {
    runs.push_back({{"isa", name_of(run.isa)},
                    {"threads", run.threads},
                    {"problems", run.problems},
                    {"exact", run.exact},
                    {"special", run.special},
                    {"constant_weights", run.constant_weights},
                    {"random_knobs", run.random_knobs},
                    {"max_error", run.max_error},
                    {"worst", run.worst}});
  }
  return {{"engine", summary.engine},
          {"problems", summary.problems},
          {"offered", summary.acceptance.tried},
          {"accepted", summary.acceptance.accepted},
          {"refusals", summary.acceptance.refusals},
          {"runs", runs},
          {"unavailable", summary.unavailable},
          {"failures", summary.failures},
          {"seconds", summary.seconds}};
}

}  // namespace convoy::testing
