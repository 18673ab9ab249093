// Tuning in a network: sessions that switch candidates, what is stored, what choices follow.
#include "convoy/network_tuning.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/testing.h"
#include "network/cost/measure_step.h"
#include "network/kept_plan.h"
#include "network/placement.h"
#include "network/seen_in_runs.h"
#include "network/testing.h"
#include "select/rounds.h"
#include "select/step_measurement.h"

namespace convoy::network {
namespace {

class MapStore final : public MeasurementStore {
 public:
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override {
    std::vector<Measurement> found;
    for (const auto& [name, measurement] : rows[key]) found.push_back(measurement);
    return found;
  }
  Result<void> store(const MeasurementKey& key, const Measurement& measurement) override {
    rows[key][print(measurement.candidate)] = measurement;
    ++stores;
    return {};
  }
  std::map<MeasurementKey, std::map<std::string, Measurement>> rows;
  int stores = 0;
};

class NetworkTuningTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loaded = Network::load("zoo:squeezenet1_1");
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    network_ = std::move(*loaded);
    descs_ = {TensorDesc::packed(DataType::f32, {1, 3, 64, 64})};
    inputs_ = {spread({1, 3, 64, 64})};
    options_ = test_options(1);
    options_.selection.store = &store_;
    auto convolutions = network_->convolutions(descs_, options_);
    ASSERT_TRUE(convolutions.ok());
    convolutions_ = std::move(*convolutions);
  }

  NetworkTuning tune() {
    auto tuning = tune_in_network(*network_, convolutions_, inputs_, options_);
    EXPECT_TRUE(tuning.ok()) << tuning.error().message;
    return *tuning;
  }
  std::vector<std::string> chosen() {
    std::vector<std::string> names;
    const auto session = network_->prepare(descs_, options_);
    for (const NetworkStep& step : (*session)->steps()) {
      if (step.kind == "conv") names.push_back(step.selection.reason() + " " + print(step.selection.candidate));
    }
    return names;
  }

  MapStore store_;
  std::unique_ptr<Network> network_;
  std::vector<TensorDesc> descs_;
  std::vector<HostTensor> inputs_;
  NetworkOptions options_;
  std::vector<NetworkConvolution> convolutions_;
};

TEST_F(NetworkTuningTest, PlacementsOfOneNetworkAgree) {
  options_.selection.store = nullptr;
  std::vector<ConvolutionCandidates> candidates;
  for (const NetworkConvolution& convolution : convolutions_) {
    candidates.push_back({convolution.problem, {{"cpu.direct", {}}, {"reference", {}}}});
  }
  const auto one = Placement::make(*network_, inputs_, options_, candidates);
  ASSERT_TRUE(one.ok()) << one.error().message;
  for (ConvolutionCandidates& each : candidates) std::reverse(each.candidates.begin(), each.candidates.end());
  const auto other = Placement::make(*network_, inputs_, options_, candidates);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_GT(one->preparing_seconds(), 0);
  std::size_t steps = 0;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    EXPECT_EQ(one->steps(c), other->steps(c));
    steps += one->steps(c).size();
  }
  EXPECT_EQ(steps, 26U);  // its convolutions
  // The same candidate by both orders: the oracle takes several times as long as the other.
  const auto seconds = [&](const Result<Placement>& placement, std::size_t index) {
    const std::vector<std::size_t> lineup(candidates.size(), index);
    const auto statistics = placement->run(lineup);
    EXPECT_TRUE(statistics.ok());
    double sum = 0;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      for (const std::size_t step : placement->steps(c)) sum += statistics->step_seconds[step];
    }
    return sum;
  };
  EXPECT_GT(seconds(one, 1), 2 * seconds(one, 0));
  EXPECT_GT(seconds(other, 0), 2 * seconds(other, 1));
}

TEST_F(NetworkTuningTest, ASessionSwitchesBetweenCandidates) {
  options_.selection.store = nullptr;
  std::vector<ConvolutionCandidates> candidates;
  for (const NetworkConvolution& convolution : convolutions_) {
    candidates.push_back({convolution.problem, {{"cpu.direct", {}}, {"reference", {}}}});
  }
  auto session = network_->prepare_switchable(descs_, options_, candidates);
  ASSERT_TRUE(session.ok()) << session.error().message;
  RunStatistics direct, reference;
  const auto first = (*session)->run(inputs_, &direct);
  ASSERT_TRUE(first.ok());
  for (const NetworkStep& step : (*session)->steps()) {
    if (step.kind != "conv") continue;
    EXPECT_TRUE(step.implementation.starts_with("cpu.direct")) << step.implementation;
    EXPECT_EQ(step.selection.by, SelectedBy::given);
  }
  (*session)->use(1, 1);
  const auto second = (*session)->run(inputs_, &reference);
  ASSERT_TRUE(second.ok());
  expect_close((*second)[0], (*first)[0], 1e-4);
  // The oracle's plain loops take many times as long, in the steps of that problem alone.
  for (std::size_t s = 0; s < direct.step_seconds.size(); ++s) {
    const NetworkStep& step = (*session)->steps()[s];
    if (step.kind == "conv" && step.problem == candidates[1].problem) {
      EXPECT_GT(reference.step_seconds[s], 3 * direct.step_seconds[s]);
    }
  }
  (*session)->use(1, 0);
  EXPECT_TRUE((*session)->run(inputs_).ok());
}

TEST_F(NetworkTuningTest, WhatIsFoundIsStoredAndFollowedAndNotMeasuredAgain) {
  const std::vector<std::string> heuristic = chosen();
  const NetworkTuning first = tune();
  EXPECT_FALSE(first.partial);
  ASSERT_EQ(first.convolutions.size(), convolutions_.size());
  int compared = 0;
  for (const TunedConvolution& tuned : first.convolutions) {
    ASSERT_FALSE(tuned.alone.empty());
    EXPECT_GT(tuned.measured, 0);
    if (tuned.in_network.empty()) continue;
    ++compared;
    EXPECT_EQ(tuned.in_network[0].candidate, tuned.alone[0].candidate);
    EXPECT_EQ(std::count_if(tuned.in_network.begin(), tuned.in_network.end(),
                            [](const Measurement& m) { return m.state == MeasurementState::complete; }),
              1);
  }
  EXPECT_GT(compared, 0);
  const std::vector<std::string> after = chosen();
  ASSERT_EQ(after.size(), heuristic.size());
  EXPECT_TRUE(std::any_of(after.begin(), after.end(), [](const auto& name) { return name.starts_with("network "); }));

  const int stores = store_.stores;
  const NetworkTuning second = tune();
  for (const TunedConvolution& tuned : second.convolutions) EXPECT_EQ(tuned.measured, 0);
  EXPECT_EQ(store_.stores, stores);
  EXPECT_FALSE(second.partial);
  EXPECT_EQ(chosen(), after);
}

TEST_F(NetworkTuningTest, TheOneThatWonInANetworkIsChosen) {
  tune();
  for (auto& [key, rows] : store_.rows) {
    if (key.caches != CacheState::network || rows.size() < 2) continue;
    for (auto& [name, row] : rows) row.state = MeasurementState::cut_off;
    rows.rbegin()->second.state = MeasurementState::complete;
    rows.rbegin()->second.median_seconds = 1;  // the verdict counts, not the time
    const auto problem = parse_problem(key.problem);
    static const float weights = 0;
    PlanRequest request;
    request.threads = 1;
    request.cpu = options_.cpu;
    request.constant_weights = &weights;
    auto selection = select(*problem, all_engines(), options_.selection, request);
    ASSERT_TRUE(selection.ok());
    EXPECT_EQ(selection->by, SelectedBy::network_hint);
    EXPECT_EQ(print(selection->candidate), rows.rbegin()->first);
    options_.selection.caches = CacheState::all_cold;  // not as in a network
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_NE(selection->by, SelectedBy::network_hint);
    options_.selection.caches = CacheState::warm;
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::heuristic);
    options_.selection.in_network = true;  // which is small
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::network_hint);
    rows.clear();
    selection = select(*problem, all_engines(), options_.selection, request);
    EXPECT_EQ(selection->by, SelectedBy::stored) << "with cold caches";
    return;
  }
  FAIL() << "no problem was compared";
}

TEST_F(NetworkTuningTest, ABudgetEndsItAndAnotherCallGoesOn) {
  options_.selection.budget_seconds = 1e-9;
  EXPECT_TRUE(tune().partial);
  EXPECT_EQ(store_.stores, 1) << "the first convolution gets an answer";
  options_.selection.budget_seconds = 0.05;
  const NetworkTuning first = tune();
  EXPECT_TRUE(first.partial);
  const std::atomic<bool> stop = true;
  options_.selection.stop = &stop;
  const int stores = store_.stores;
  EXPECT_TRUE(tune().partial);
  EXPECT_EQ(store_.stores, stores);
  options_.selection.stop = nullptr;
  options_.selection.budget_seconds = 0;
  EXPECT_FALSE(tune().partial);
  EXPECT_GT(store_.stores, stores);
}

TEST_F(NetworkTuningTest, WhatItCannotDoIsAnError) {
  options_.selection.caches = CacheState::warm;
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::unsupported);
  options_.selection.caches = CacheState::cold;
  options_.selection.objective = {.time = 1, .workspace = 1};
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::unsupported);
  options_.selection.store = nullptr;
  EXPECT_EQ(tune_in_network(*network_, convolutions_, inputs_, options_).error().code, ErrorCode::invalid_argument);
}

// The fastest of several plans is kept, and obeyed from then on.
class PlanChoiceTest : public NetworkTuningTest {
 protected:
  void SetUp() override {
    NetworkTuningTest::SetUp();
    folder_ = testing::TempDir() + "convoy-kept-plans";
    std::filesystem::remove_all(folder_);
    options_.kept_plans = folder_;
    options_.selection.budget_seconds = 2 * slowdown();
  }
  PlanChoice choose(const std::vector<std::string>& hows) {
    auto choice = choose_plan(*network_, inputs_, options_, hows);
    EXPECT_TRUE(choice.ok()) << choice.error().message;
    return *choice;
  }
  std::unique_ptr<Session> prepared(const NetworkOptions& options) {
    auto session = network_->prepare(descs_, options);
    EXPECT_TRUE(session.ok()) << session.error().message;
    return std::move(*session);
  }
  static bool obeys_a_plan(const Session& session) {
    return std::ranges::all_of(session.steps(), [](const NetworkStep& step) {
      return step.kind != "conv" || step.selection.by == SelectedBy::plan;
    });
  }
  std::string folder_;
};

TEST_F(PlanChoiceTest, WhatTookLeastIsKeptAndFound) {
  EXPECT_FALSE(obeys_a_plan(*prepared(options_))) << "nothing is kept yet";
  const PlanChoice choice = choose({"uniform:nchw", "uniform:nhwc"});
  ASSERT_EQ(choice.plans.size(), 2u);
  for (const TimedPlan& plan : choice.plans) {
    EXPECT_GE(plan.over_first, choice.plans[choice.fastest].over_first);
    EXPECT_GT(plan.seconds, 0);
    EXPECT_GT(plan.predicted_seconds, 0);
  }
  const auto text = read_kept_plan(choice.kept);
  ASSERT_TRUE(text) << choice.kept;
  EXPECT_TRUE(text->starts_with(choice.plans[choice.fastest].plan));
  const auto session = prepared(options_);
  EXPECT_TRUE(obeys_a_plan(*session));
  EXPECT_TRUE(session->remarks().empty());
}

// Says of convolutions in nchw that they take no time at all.
class PartialToNchw final : public MeasurementStore {
 public:
  explicit PartialToNchw(const NetworkOptions& options) : options_(options) {}
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override {
    const auto problem = parse_problem(key.problem);
    const bool speaks = problem.ok() && key.caches != CacheState::network && problem->x.is_packed(Layout::nchw) &&
                        problem->y.is_packed(Layout::nchw);
    if (!speaks) return std::vector<Measurement>();
    SelectionOptions alone = options_.selection;
    alone.store = nullptr;
    CONVOY_TRY(const Selection selection, select(*problem, all_engines(), alone, {.threads = 1, .cpu = options_.cpu}));
    Measurement measurement{.candidate = selection.candidate, .median_seconds = 1e-12, .samples = 1};
    for (const Engine* engine : all_engines()) {
      if (engine->info().name != selection.candidate.engine) continue;
      measurement.revision = engine->info().revision;
      measurement.provider = engine->info().provider;
    }
    measurement.state = MeasurementState::complete;
    return std::vector{measurement};
  }
  Result<void> store(const MeasurementKey&, const Measurement&) override { return {}; }

 private:
  const NetworkOptions options_;
};

TEST_F(PlanChoiceTest, TheSolverIsAskedAgainWithWhatRunsTook) {
  if (slowdown() > 1) GTEST_SKIP() << "what sanitized runs take contradicts nothing reliably";
  options_.selection.filter.engines = "cpu.direct,cpu.gemm";
  PartialToNchw store(options_);
  options_.selection.store = &store;
  const auto in_nchw = [](const std::string& plan) {
    int count = 0;
    for (std::size_t at = 0; (at = plan.find("f32,nchw -> f32,nchw", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  const PlanChoice choice = choose({"global"});
  ASSERT_GE(choice.plans.size(), 2u) << "runs have contradicted the store";
  EXPECT_EQ(choice.plans[1].how, "global, seen 1");
  EXPECT_LT(in_nchw(choice.plans[1].plan), in_nchw(choice.plans[0].plan));
  for (const TimedPlan& plan : choice.plans) {
    EXPECT_GT(plan.seconds, 0) << plan.how;
    EXPECT_GE(plan.over_first, choice.plans[choice.fastest].over_first) << plan.how;
  }
  ASSERT_TRUE(choice.solvers);
  EXPECT_TRUE(choice.plans[choice.solvers->plan].how.starts_with("global, seen ")) << "its last answer";
  EXPECT_GT(choice.solvers->predicted_seconds, choice.plans[0].predicted_seconds) << "by what runs took";
  const PlanChoice uniform = choose({"uniform:nchw"});
  EXPECT_EQ(uniform.plans.size(), 1u) << "only where global is among the ways";
  EXPECT_FALSE(uniform.solvers);
}

TEST(SeenInRuns, TimesOfRunsStandForThoseAlone) {
  const ConvProblem problem = *parse_problem("fprop:x=f32,1x8x9x9:w=f32,8x8x3x3:pad=1x1");
  const ConvProblem other = *parse_problem("fprop:x=f32,1x8x7x7:w=f32,8x8x3x3:pad=1x1");
  const MeasurementKey key = measurement_key(problem, {.threads = 1}, CacheState::cold);
  selection::RoundStore alone;
  for (const auto& [name, seconds] : {std::pair{"cpu.gemm", 1e-3}, {"reference", 9e-3}}) {
    ASSERT_TRUE(alone.store(key, {.candidate = {name, {}}, .median_seconds = seconds}).ok());
  }
  Timed timed;
  const auto ran = [&](const ConvProblem& what, const char* engine, double seconds) {
    NetworkStep step;
    step.kind = "conv";
    step.problem = what;
    step.selection.candidate = {engine, {}};
    timed.steps.push_back(step);
    timed.step_seconds.push_back(seconds);
  };
  ran(problem, "cpu.gemm", 2e-3);
  ran(problem, "cpu.gemm", 4e-3);
  ran(problem, "cpu.direct", 5e-3);
  ran(other, "cpu.gemm", 7e-3);
  SeenInRuns seen(&alone, all_engines());
  seen.add(timed);
  const auto found = seen.find(key);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 3u);
  for (const Measurement& each : *found) {
    const std::string& engine = each.candidate.engine;
    EXPECT_DOUBLE_EQ(each.median_seconds, engine == "cpu.gemm" ? 3e-3 : engine == "reference" ? 9e-3 : 5e-3);
    EXPECT_TRUE(engine != "cpu.direct" || is_current(each, all_engines()));
  }
  seen.set_over_alone(1.5);
  seen.add(timed, 2);
  const auto later = seen.find(key);
  ASSERT_TRUE(later.ok());
  for (const Measurement& each : *later) {
    const std::string& engine = each.candidate.engine;
    const double ran = engine == "cpu.gemm" ? 4.5e-3 : 7.5e-3;  // the mean of both times
    EXPECT_DOUBLE_EQ(each.median_seconds, engine == "reference" ? 1.5 * 9e-3 : ran) << engine;
  }
  const Measurement anew{.candidate = {"reference", {}}, .median_seconds = 6e-3};
  ASSERT_TRUE(seen.store(key, anew).ok());
  const auto reference = [](MeasurementStore& store, const MeasurementKey& of) {
    const auto rows = store.find(of);
    return std::ranges::find(*rows, std::string("reference"), [](const Measurement& m) { return m.candidate.engine; })
        ->median_seconds;
  };
  EXPECT_DOUBLE_EQ(reference(seen, key), 1.5 * 6e-3);
  EXPECT_DOUBLE_EQ(reference(alone, key), 9e-3) << "nothing is stored there";
  EXPECT_EQ(SeenInRuns(nullptr, all_engines()).find(key)->size(), 0u);
  EXPECT_EQ(seen.find(measurement_key(problem, {.threads = 2}, CacheState::cold))->size(), 0u)
      << "seen with one thread";
}

TEST(SeenInRuns, OperatorsAndConversionsCountAsConvolutionsDo) {
  const auto relu = parse_step("op:Relu:x=f32,1x8x9x9,nhwc:y=f32,1x8x9x9,nhwc:opset=14");
  const auto convert = parse_step("convert:x=f32,1x8x9x9,nchw:y=f32,1x8x9x9,nhwc");
  ASSERT_TRUE(relu.ok() && convert.ok());
  const PlanRequest one{.threads = 1}, two{.threads = 2};
  selection::RoundStore alone;
  ASSERT_TRUE(alone
                  .store(measurement_key(*relu, two, CacheState::cold), {.candidate = candidate_of(*relu),
                                                                         .revision = selection::step_revision,
                                                                         .provider = selection::step_provider(),
                                                                         .median_seconds = 1e-6,
                                                                         .samples = 9})
                  .ok());
  Timed timed;
  for (const auto& [problem, seconds] : {std::pair{*relu, 4e-6}, {*relu, 6e-6}, {*convert, 7e-6}}) {
    NetworkStep step;
    step.kind = "op";
    step.step_problem = print(problem);
    step.threads = 2;
    timed.steps.push_back(step);
    timed.step_seconds.push_back(seconds);
  }
  timed.steps.emplace_back().kind = "op";  // planned when it runs: no problem
  timed.step_seconds.push_back(1);
  SeenInRuns seen(&alone, all_engines());
  seen.add(timed);
  const auto seconds_of = [&](const StepProblem& problem, const PlanRequest& request) {
    const auto found = find_step(seen, problem, request, CacheState::cold);
    return found ? found->median_seconds : 0;
  };
  EXPECT_DOUBLE_EQ(seconds_of(*relu, two), 5e-6);
  EXPECT_DOUBLE_EQ(seconds_of(*convert, two), 7e-6);
  EXPECT_EQ(seconds_of(*relu, one), 0) << "seen on two threads";
}

TEST_F(PlanChoiceTest, StepsNameTheProblemsThatThePlansLinesCost) {
  options_.how = "uniform:nhwc";
  const auto session = prepared(options_);
  int operators = 0, conversions = 0;
  for (const NetworkStep& step : session->steps()) {
    EXPECT_EQ(step.kind == "conv", step.step_problem.empty()) << step.nodes;
    if (step.kind == "conv") continue;
    const auto problem = parse_step(step.step_problem);
    ASSERT_TRUE(problem.ok()) << step.step_problem << ": " << problem.error().message;
    EXPECT_EQ(print(*problem), step.step_problem);
    ++(step.kind == "op" ? operators : conversions);
  }
  EXPECT_GT(operators, 0);
  EXPECT_GT(conversions, 0);
}

TEST_F(PlanChoiceTest, APlanTwiceIsTimedOnce) {
  options_.selection.rules = {{"*", {"cpu.gemm", {}}}};  // so measuring changes nothing
  const PlanChoice choice = choose({"uniform:nchw", "local", "uniform:nchw"});
  EXPECT_EQ(std::ranges::count(choice.plans, "uniform:nchw", &TimedPlan::how), 1);
}

TEST_F(PlanChoiceTest, APlanIsForItsThreadsSizesAndMath) {
  choose({"uniform:nchw"});
  NetworkOptions other = options_;
  other.threads = 2;
  EXPECT_FALSE(obeys_a_plan(*prepared(other)));
  other = options_;
  other.math = MathMode::reduced;
  EXPECT_FALSE(obeys_a_plan(*prepared(other)));
  EXPECT_TRUE(obeys_a_plan(*prepared(options_)));
  descs_ = {TensorDesc::packed(DataType::f32, {1, 3, 80, 80})};
  EXPECT_FALSE(obeys_a_plan(*prepared(options_)));
}

TEST_F(PlanChoiceTest, AKeptPlanThatDoesNotFitIsARemark) {
  const PlanChoice choice = choose({"uniform:nchw"});
  std::string text = choice.plans[0].plan;
  const std::size_t at = text.find("conv ");
  text.replace(at, 5, "conf ");
  ASSERT_TRUE(keep_plan(choice.kept, text).ok());
  const auto session = prepared(options_);
  EXPECT_FALSE(obeys_a_plan(*session));
  ASSERT_EQ(session->remarks().size(), 1u);
  EXPECT_NE(session->remarks()[0].find(choice.kept + " is not obeyed: "), std::string::npos) << session->remarks()[0];
  EXPECT_NE(session->remarks()[0].find("'conf'"), std::string::npos) << session->remarks()[0];
}

TEST_F(PlanChoiceTest, WhereNothingCanBeWrittenTheErrorNamesTheFile) {
  options_.kept_plans = "/proc/none";
  const std::vector<std::string> hows = {"uniform:nchw"};
  const auto choice = choose_plan(*network_, inputs_, options_, hows);
  ASSERT_FALSE(choice.ok());
  EXPECT_NE(choice.error().message.find("/proc/none/"), std::string::npos) << choice.error().message;
}

}  // namespace
}  // namespace convoy::network
