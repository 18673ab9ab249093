// Which plan of a network is fastest: races, what the solver learns from them, what is kept.
#include "network/tune/plan_choice.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "network/assign/kept_plan.h"
#include "network/cost/measure_step.h"
#include "network/testing/models.h"
#include "network/testing/plans.h"
#include "network/testing/small_network.h"
#include "network/tune/seen_in_runs.h"
#include "select/measure/step_measurement.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

// The fastest of several plans is kept, and obeyed from then on.
class PlanChoiceTest : public SmallNetworkTest {
 protected:
  void SetUp() override {
    SmallNetworkTest::SetUp();
    options_.selection.store = &store_;
    folder_ = ::testing::TempDir() + "convoy-kept-plans";
    std::filesystem::remove_all(folder_);
    options_.kept_plans = folder_;
    options_.selection.budget_seconds = 60;  // more than what is done here takes on a machine that others use
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
  // Of a batch, of which no Concat is in place: what layouts take differs more.
  void take_two_images() {
    descs_ = {TensorDesc::packed(DataType::f32, {2, 3, 64, 64})};
    inputs_ = {spread({2, 3, 64, 64})};
  }
  selection::RoundStore store_;
  std::string folder_;
};

TEST_F(PlanChoiceTest, WhatTookLeastIsKeptAndFound) {
  EXPECT_FALSE(obeys_a_plan(*prepared(options_))) << "nothing is kept yet";
  const PlanChoice choice = choose({"uniform:nchw", "uniform:nhwc"});
  ASSERT_EQ(choice.plans.size(), 2u);
  for (const TimedPlan& plan : choice.plans) {
    EXPECT_GT(plan.seconds, 0);
    EXPECT_GT(plan.predicted_seconds, 0);
  }
  const auto kept = read_kept_plan(choice.kept);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_TRUE(print(*kept).starts_with(print(choice.plans[choice.fastest].plan)));
  const auto session = prepared(options_);
  EXPECT_TRUE(obeys_a_plan(*session));
  EXPECT_TRUE(session->remarks().empty());
}

// A network some of whose plans can't be made, or can't be prepared.
class Refusing final : public Network {
 public:
  Refusing(const Network& network, std::string no_plan, std::string no_session)
      : network_(network), no_plan_(std::move(no_plan)), no_session_(std::move(no_session)) {}
  const std::string& name() const override { return network_.name(); }
  const std::vector<NetworkValue>& inputs() const override { return network_.inputs(); }
  const std::vector<NetworkValue>& outputs() const override { return network_.outputs(); }
  int node_count() const override { return network_.node_count(); }
  const ModelInfo& info() const override { return network_.info(); }
  Result<std::unique_ptr<Session>> prepare(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                                           const SelectionProgress& progress) const override {
    if (options.how == no_session_) return Error{ErrorCode::out_of_memory, "no memory"};
    return network_.prepare(inputs, options, progress);
  }
  Result<std::unique_ptr<SwitchableSession>> prepare_switchable(
      std::span<const TensorDesc> inputs, const NetworkOptions& options,
      std::span<const ConvolutionCandidates> convolutions) const override {
    return network_.prepare_switchable(inputs, options, convolutions);
  }
  Result<NetworkPlan> plan(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                           const SelectionProgress& progress) const override {
    if (options.how == no_plan_) return Error{ErrorCode::unsupported, "no plan"};
    return network_.plan(inputs, options, progress);
  }
  Result<std::vector<NetworkConvolution>> convolutions(std::span<const TensorDesc> inputs,
                                                       const NetworkOptions& options) const override {
    return network_.convolutions(inputs, options);
  }

 private:
  const Network& network_;
  const std::string no_plan_, no_session_;
};

TEST_F(PlanChoiceTest, WhatCannotBeMadeOrPreparedLeavesTheOthers) {
  const std::vector<std::string> hows = {"uniform:nchw", "uniform:nhwc", "global"};
  const auto names = [](const PlanChoice& choice) {
    std::vector<std::string> all;
    for (const TimedPlan& plan : choice.plans) all.push_back(plan.how);
    return all;
  };
  const auto no_plan = choose_plan(Refusing(*network_, "uniform:nhwc", ""), inputs_, options_, hows);
  ASSERT_TRUE(no_plan.ok()) << no_plan.error().message;
  EXPECT_EQ(std::ranges::count(names(*no_plan), "uniform:nhwc"), 0);
  EXPECT_EQ(std::ranges::count(no_plan->remarks, "uniform:nhwc: no plan"), 1);
  const auto no_session = choose_plan(Refusing(*network_, "", "uniform:nhwc"), inputs_, options_, hows);
  ASSERT_TRUE(no_session.ok()) << no_session.error().message;
  EXPECT_EQ(std::ranges::count(names(*no_session), "uniform:nhwc"), 0);
  EXPECT_EQ(std::ranges::count(no_session->remarks, "uniform:nhwc: no memory"), 1);
  ASSERT_TRUE(no_session->solvers);
  EXPECT_TRUE(no_session->plans[no_session->solvers->plan].how.starts_with("global"));
  // The first is what all are compared with.
  EXPECT_FALSE(choose_plan(Refusing(*network_, "uniform:nchw", ""), inputs_, options_, hows).ok());
  EXPECT_FALSE(choose_plan(Refusing(*network_, "", "uniform:nchw"), inputs_, options_, hows).ok());
}

// A whole plan takes the first's place where it is faster beyond doubt.
TEST_F(PlanChoiceTest, APlanIsKeptOnEvidenceOnly) {
  const std::vector<std::string> hows = {"uniform:nchw", "uniform:nhwc"};
  const auto fastest = [&](const std::vector<double>& ratios) {
    const auto race = [&](const Network& network, std::span<const TensorDesc> descs, std::span<const Variant> variants,
                          std::span<const HostTensor>, int, const std::function<bool()>&,
                          double) -> Result<std::vector<Timed>> {
      std::vector<Timed> result(variants.size());
      for (std::size_t i = 0; i < variants.size(); ++i) {
        CONVOY_TRY(const auto session, network.prepare(descs, variants[i].options));
        result[i].steps = session->steps();
        result[i].step_seconds.assign(result[i].steps.size(), 1e-5);
        result[i].undisturbed_seconds = 1e-3;
        const std::vector<double> over_first = i == 0 ? std::vector<double>(ratios.size(), 1) : ratios;
        result[i].over_first = result[i].seconds = selection::summarize(over_first);
      }
      return result;
    };
    const auto choice = choose_plan(*network_, inputs_, options_, hows, {}, race);
    EXPECT_TRUE(choice.ok()) << choice.error().message;
    const auto kept = read_kept_plan(choice->kept);
    EXPECT_TRUE(kept && print(*kept).starts_with(print(choice->plans[choice->fastest].plan)));
    return choice->plans[choice->fastest].how;
  };
  EXPECT_EQ(fastest({0.686, 0.7, 0.68}), "uniform:nchw") << "three runs: +-100%";
  EXPECT_EQ(fastest({0.8, 0.85, 0.95, 1.1, 1.2, 0.9}), "uniform:nchw") << "0.925 +-16%";
  EXPECT_EQ(fastest({0.9, 0.91, 0.92, 0.9, 0.91, 0.9}), "uniform:nhwc");
  EXPECT_EQ(fastest({1.1, 1.11, 1.1, 1.12, 1.1, 1.1}), "uniform:nchw");
}

// Where its part of the time is over before, a race goes on until it can say which plan is faster, and no longer.
TEST_F(PlanChoiceTest, ARaceHasRoundsEnoughForAVerdict) {
  const std::vector<std::string> hows = {"uniform:nchw", "uniform:nhwc", "global"};
  options_.selection.budget_seconds = 3;
  std::vector<int> asked;
  std::size_t plans = 0;
  const auto race = [&](const Network& network, std::span<const TensorDesc> descs, std::span<const Variant> variants,
                        std::span<const HostTensor>, int, const std::function<bool()>& go_on,
                        double) -> Result<std::vector<Timed>> {
    if (asked.empty()) plans = variants.size();
    std::this_thread::sleep_for(std::chrono::duration<double>(0.6 * options_.selection.budget_seconds));
    int times = 0;
    while (go_on()) ++times;
    asked.push_back(times);
    std::vector<Timed> result(variants.size());
    for (std::size_t i = 0; i < variants.size(); ++i) {
      CONVOY_TRY(const auto session, network.prepare(descs, variants[i].options));
      result[i].steps = session->steps();
      result[i].step_seconds.assign(result[i].steps.size(), 1e-5);
      result[i].undisturbed_seconds = 1e-3;
      result[i].over_first = result[i].seconds = selection::summarize(std::vector<double>(6, i == 1 ? 0.9 : 1));
    }
    return result;
  };
  const auto choice = choose_plan(*network_, inputs_, options_, hows, {}, race);
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(asked[0], static_cast<int>(7 * plans)) << "preparing, and six rounds";
}

// Says what the heuristic's choices, operators and conversions take alone.
class SaysAlone final : public MeasurementStore {
 public:
  using Seconds = std::function<std::optional<double>(const std::string& problem)>;
  SaysAlone(const NetworkOptions& options, Seconds seconds) : options_(options), seconds_(std::move(seconds)) {}
  Result<std::vector<Measurement>> find(const MeasurementKey& key) override {
    const auto seconds = key.caches == CacheState::network ? std::nullopt : seconds_(key.problem);
    if (!seconds) return std::vector<Measurement>();
    Measurement measurement{.revision = selection::kStepRevision,
                            .provider = selection::step_provider(),
                            .median_seconds = *seconds,
                            .samples = 1};
    measurement.state = MeasurementState::complete;
    if (const auto step = parse_step(key.problem); step.ok()) {
      measurement.candidate = candidate_of(*step);
      return std::vector{measurement};
    }
    SelectionOptions alone = options_.selection;
    alone.store = nullptr;
    CONVOY_TRY(const ConvProblem problem, parse_problem(key.problem));
    CONVOY_TRY(const Selection selection, select(problem, all_engines(), alone, {.threads = 1, .cpu = options_.cpu}));
    measurement.candidate = selection.candidate;
    for (const Engine* engine : all_engines()) {
      if (engine->info().name != selection.candidate.engine) continue;
      measurement.revision = engine->info().revision;
      measurement.provider = engine->info().provider;
    }
    return std::vector{measurement};
  }
  Result<void> store(const MeasurementKey&, const Measurement&) override { return {}; }

 private:
  const NetworkOptions options_;
  const Seconds seconds_;
};

// Convolutions from nchw to nhwc take no time, others 20 us, and all else 10 us.
double partial_to_some(const std::string& key) {
  const auto problem = parse_problem(key);
  if (!problem.ok()) return 1e-5;
  return problem->x.is_packed(Layout::nchw) && problem->y.is_packed(Layout::nhwc) ? 1e-12 : 2e-5;
}

double some_seconds(const std::string& what) {
  return 1e-5 * static_cast<double>(1 + std::hash<std::string>()(what) % 10);
}

// A race in which two of those convolutions take a millisecond, and all else what it takes alone: what is off
// everywhere alike contradicts nothing.
Result<std::vector<Timed>> two_are_slow(const Network& network, std::span<const TensorDesc> descs,
                                        std::span<const Variant> variants, std::span<const HostTensor>, int,
                                        const std::function<bool()>&, double) {
  std::vector<Timed> result;
  for (const Variant& variant : variants) {
    CONVOY_TRY(const auto session, network.prepare(descs, variant.options));
    Timed& timed = result.emplace_back();
    timed.steps = session->steps();
    for (const NetworkStep& step : timed.steps) {
      const std::string key = step.kind == "conv" ? print(step.problem) : step.step_problem;
      const double alone = partial_to_some(key);
      timed.step_seconds.push_back(alone < 1e-9 && key.find("256x64x3x3") != std::string::npos ? 1e-3 : alone);
      timed.undisturbed_seconds += timed.step_seconds.back();
    }
    timed.seconds = selection::summarize(std::vector(3, timed.undisturbed_seconds));
    timed.over_first =
        selection::summarize(std::vector(3, timed.undisturbed_seconds / result.front().undisturbed_seconds));
  }
  return result;
}

TEST_F(PlanChoiceTest, TheSolverIsAskedAgainWithWhatRunsTook) {
  take_two_images();
  options_.selection.filter.engines = "cpu.direct";
  SaysAlone store(options_, partial_to_some);  // everything, so that nothing is measured
  options_.selection.store = &store;
  const auto choose = [&](const std::vector<std::string>& hows) {
    const auto choice = choose_plan(*network_, inputs_, options_, hows, {}, two_are_slow);
    EXPECT_TRUE(choice.ok()) << choice.error().message;
    return *choice;
  };
  const auto to_nhwc = [](const NetworkPlan& plan) {
    return std::ranges::count_if(plan.lines, [](const NetworkPlanLine& line) {
      return line.kind == "conv" && line.from == "f32,nchw" && line.to == "f32,nhwc";
    });
  };
  const PlanChoice choice = choose({"global"});
  ASSERT_GE(choice.plans.size(), 2u) << "runs have contradicted the store";
  EXPECT_EQ(choice.plans[1].how, "global, seen 1");
  EXPECT_LT(to_nhwc(choice.plans[1].plan), to_nhwc(choice.plans[0].plan));
  for (const TimedPlan& plan : choice.plans) {
    EXPECT_GT(plan.seconds, 0) << plan.how;
  }
  ASSERT_TRUE(choice.solvers);
  EXPECT_TRUE(choice.plans[choice.solvers->plan].how.starts_with("global, seen ")) << "its last answer";
  EXPECT_GT(choice.solvers->predicted_seconds, choice.plans[0].predicted_seconds) << "by what runs took";
  const PlanChoice uniform = choose({"uniform:nchw"});
  EXPECT_EQ(uniform.plans.size(), 1u) << "only where global is among the ways";
  EXPECT_FALSE(uniform.solvers);
}

// Races in which it is known what steps take. What the first race didn't have takes four times as long as that.
class KnownRaces {
 public:
  // Of runs that nobody disturbs. Others take twice as long, those of later races as many times as their number more.
  double seconds(const NetworkStep& step) const {
    const std::string key = key_of(step);
    if (key.empty()) return 0;
    return (first_.contains(key) ? 1 : 4) * some_seconds(key);
  }
  Result<std::vector<Timed>> operator()(const Network& network, std::span<const TensorDesc> descs,
                                        std::span<const Variant> variants, std::span<const HostTensor>, int,
                                        const std::function<bool()>&, double) {
    ++races;
    std::vector<Timed> result;
    for (const Variant& variant : variants) {
      CONVOY_TRY(const auto session, network.prepare(descs, variant.options));
      Timed& timed = result.emplace_back();
      timed.steps = session->steps();
      for (const NetworkStep& step : timed.steps) {
        if (races == 1) first_.insert(key_of(step));
        timed.undisturbed_seconds += races * seconds(step);
        timed.step_seconds.push_back(2 * races * seconds(step));
      }
      const double sum = 2 * timed.undisturbed_seconds, first = 2 * result.front().undisturbed_seconds;
      timed.seconds = selection::summarize(std::vector(3, sum));
      timed.over_first = selection::summarize(std::vector(3, sum / first));
    }
    return result;
  }
  int races = 0;

 private:
  static std::string key_of(const NetworkStep& step) {
    return step.kind == "conv" ? print(step.problem) + print(step.selection.candidate) : step.step_problem;
  }
  std::set<std::string> first_;
};

TEST_F(PlanChoiceTest, TheLastAnswerGoesByWhatHasRunAtTheFirstRacesLevel) {
  take_two_images();
  options_.selection.budget_seconds = 60;  // these races take none
  options_.selection.filter.engines = "cpu.direct";
  SaysAlone store(options_, some_seconds);  // everything, so that nothing is measured
  options_.selection.store = &store;
  KnownRaces known;
  const std::vector<std::string> hows = {"global"};
  const auto choice = choose_plan(*network_, inputs_, options_, hows, {}, std::ref(known));
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  ASSERT_GE(known.races, 3) << "what is new is worse";
  ASSERT_TRUE(choice->solvers);
  const TimedPlan& answer = choice->plans[choice->solvers->plan];
  EXPECT_EQ(choice->solvers->measured, choice->solvers->lines);
  NetworkOptions of_answer = options_;
  of_answer.plan = answer.plan;
  of_answer.kept_plans.clear();
  double seconds = 0;
  const auto session = prepared(of_answer);
  for (const NetworkStep& step : session->steps()) seconds += known.seconds(step);
  EXPECT_NEAR(choice->solvers->predicted_seconds, seconds, 1e-3 * seconds);
  for (const TimedPlan& plan : choice->plans) EXPECT_LE(answer.over_first, 1.001 * plan.over_first) << plan.how;
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
                                                                         .revision = selection::kStepRevision,
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

TEST_F(PlanChoiceTest, NamesMayHaveArrows) {
  ::onnx::ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "in -> x", {1, 8, 16, 16});
  add_value(*model.mutable_graph()->add_output(), "y -> out", {1, 8, 16, 16});
  ::onnx::TensorProto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(::onnx::TensorProto::FLOAT);
  for (const int dim : {8, 8, 1, 1}) w.add_dims(dim);
  for (int i = 0; i < 64; ++i) w.add_float_data(0.01f * static_cast<float>(i));
  add_node(model, "Conv", "a -> b", {"in -> x", "w"}, {"y -> out"});
  const std::string bytes = model.SerializeAsString();
  network_ = *Network::parse(std::as_bytes(std::span(bytes)), "arrows");
  inputs_ = {spread({1, 8, 16, 16})};
  descs_ = {inputs_[0].desc};
  options_.selection.filter.engines = "cpu.direct";
  const PlanChoice choice = choose({"uniform:nhwc", "uniform:nchw8c"});
  EXPECT_EQ(choice.plans.size(), 2u);
  const auto kept = read_kept_plan(choice.kept);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_TRUE(same_choices(*kept, choice.plans[choice.fastest].plan)) << print(*kept);
  EXPECT_TRUE(obeys_a_plan(*prepared(options_)));
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
  std::ofstream(choice.kept) << replaced(print(choice.plans[0].plan), "conv ", "conf ");
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
