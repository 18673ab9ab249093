// Turning any one selection option on or off after a shape was cached takes effect. There is a case for every member of
// SelectionOptions and SelectionFilter; a new member without one doesn't compile, or fails.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "convoy/plan_cache.h"
#include "select/testing/fake_engine.h"
#include "select/testing/map_store.h"

namespace convoy {
namespace {

using testing_support::FakeEngine;

// Structured bindings have to name every member: a new one doesn't compile until it is here, and then fails until it
// has a case.
std::vector<std::string> option_names() {
  const SelectionOptions options;
  [[maybe_unused]] const auto& [mode, filter, rules, strict_rules, objective, budget_seconds, likely_only, all_knobs,
                                caches, in_network, store, stop] = options;
  [[maybe_unused]] const auto& [config, engines, notes, deterministic_only, runtime_compilation, tf32,
                                reduced_accumulation, down_convert_inputs, workspace_limit] = filter;
  return {"mode",
          "rules",
          "strict_rules",
          "objective",
          "budget_seconds",
          "likely_only",
          "all_knobs",
          "caches",
          "in_network",
          "store",
          "stop",
          "filter.config",
          "filter.engines",
          "filter.notes",
          "filter.deterministic_only",
          "filter.runtime_compilation",
          "filter.tf32",
          "filter.reduced_accumulation",
          "filter.down_convert_inputs",
          "filter.workspace_limit"};
}

struct Case {
  const char* option;
  std::function<void(SelectionOptions&)> before;  // what both sides have
  std::function<void(SelectionOptions&)> turn;
  std::string expected_before, expected_after;  // the candidate, or the start of "error"
};

class Options : public ::testing::Test {
 protected:
  Options() {
    problem_ = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3,nchw:pad=1x1:math=reduced");
    request_.cpu = cpu_features();
    Measurement slow, quick;
    slow.candidate = {"other.first", {{"tile", 4}}};
    slow.median_seconds = 2;
    quick.candidate = {"cpu.second", {{"tile", 4}}};
    quick.median_seconds = 1;
    for (Measurement* m : {&slow, &quick}) {
      m->state = MeasurementState::complete;
      store_.rows[measurement_key(problem_, request_, CacheState::cold)].emplace(print(m->candidate), *m);
    }
  }

  std::vector<Case> cases();

  // "other.first{tile=4}", or "error".
  std::string choice(PlanCache& cache, const SelectionOptions& options) {
    const auto plan = cache.get({problem_, PlanSettings(engines_, options, request_)});
    return plan.ok() ? print((*plan)->selection.candidate) : "error";
  }

  // Predicted to be the best, but with everything a filter can object to, and slow.
  FakeEngine first_{
      "other.first",
      {.predicted = 1e-4,
       .sleep_seconds = 0.004,
       .workspace = 1 << 20,
       .deterministic = false,
       .notes = {"RUNTIME_COMPILATION", "TF32", "REDUCED_PRECISION_REDUCTION", "DOWN_CONVERT_INPUTS", "WINOGRAD"},
       .sleep_with_tile_2 = 0}};
  FakeEngine second_{"cpu.second", {.predicted = 0.02, .sleep_seconds = 0.001}};
  FakeEngine unable_{"cpu.unable", {.refusal = Refusal{RefusalCode::channels, "C=4: this engine needs 8"}}};
  std::vector<const Engine*> engines_ = {&first_, &second_, &unable_};
  ConvProblem problem_;
  PlanRequest request_;
  testing_support::MapStore store_;
  const std::atomic<bool> stop_{true};
};

std::vector<Case> Options::cases() {
  const std::string first = "other.first{tile=4}", second = "cpu.second{tile=4}", tuned = "other.first{tile=2}";
  const auto nothing = [](SelectionOptions&) {};
  const auto measured = [](SelectionOptions& o) { o.mode = SelectionMode::measured; };
  const auto impossible = [](SelectionOptions& o) { o.rules = *parse_rules("* -> cpu.unable"); };
  return {
      {"mode", nothing, measured, first, second},
      {"filter.config", nothing, [](auto& o) { o.filter.config = LibraryConfig::portable; }, first, second},
      {"filter.engines", nothing, [](auto& o) { o.filter.engines = "cpu.*"; }, first, second},
      {"filter.notes", nothing, [](auto& o) { o.filter.notes = "!WINOGRAD"; }, first, second},
      {"filter.deterministic_only", nothing, [](auto& o) { o.filter.deterministic_only = true; }, first, second},
      {"filter.runtime_compilation", nothing, [](auto& o) { o.filter.runtime_compilation = false; }, first, second},
      {"filter.tf32", nothing, [](auto& o) { o.filter.tf32 = false; }, first, second},
      {"filter.reduced_accumulation", nothing, [](auto& o) { o.filter.reduced_accumulation = false; }, first, second},
      {"filter.down_convert_inputs", nothing, [](auto& o) { o.filter.down_convert_inputs = false; }, first, second},
      {"filter.workspace_limit", nothing, [](auto& o) { o.filter.workspace_limit = 100'000; }, first, second},
      {"rules", nothing, [](auto& o) { o.rules = *parse_rules("groups=1 -> cpu.second{tile=4}"); }, first, second},
      {"strict_rules", impossible, [](auto& o) { o.strict_rules = false; }, "error", first},
      {"objective", nothing, [](auto& o) { o.objective = *parse_objective("workspace"); }, first, second},
      {"budget_seconds", measured, [](auto& o) { o.budget_seconds = 1e-9; }, second, first},
      // Predicted to take over twice as long as the first, and longer than that takes, the second is not tried.
      {"likely_only", measured, [](auto& o) { o.likely_only = true; }, second, first},
      {"all_knobs", measured, [](auto& o) { o.all_knobs = true; }, second, tuned},
      // What is stored was measured with cold caches.
      {"caches", [&](auto& o) { o.store = &store_; }, [](auto& o) { o.caches = CacheState::warm; }, second, first},
      {"in_network",
       [&](auto& o) {
         o.store = &store_;
         o.caches = CacheState::warm;
       },
       [](auto& o) { o.in_network = true; }, first, second},
      {"store", nothing, [&](auto& o) { o.store = &store_; }, first, second},
      {"stop", measured, [&](auto& o) { o.stop = &stop_; }, second, first},
  };
}

TEST_F(Options, EveryOptionHasACase) {
  std::set<std::string> with_case;
  for (const Case& each : cases()) with_case.insert(each.option);
  const auto names = option_names();
  EXPECT_EQ(with_case, std::set<std::string>(names.begin(), names.end()));
}

TEST_F(Options, TurningOneAfterTheShapeWasCachedTakesEffect) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.option);
    PlanCache cache;
    SelectionOptions off;
    each.before(off);
    SelectionOptions on = off;
    each.turn(on);
    EXPECT_EQ(choice(cache, off), each.expected_before);
    EXPECT_EQ(choice(cache, on), each.expected_after);
    const auto before = cache.statistics();
    EXPECT_EQ(choice(cache, off), each.expected_before);
    EXPECT_EQ(choice(cache, on), each.expected_after);
    // Both are held: going back and forth builds nothing. (Errors are not.)
    EXPECT_TRUE(each.expected_before == "error" || cache.statistics().builds == before.builds);
    EXPECT_EQ(off == on, false);
  }
}

}  // namespace
}  // namespace convoy
