// Operators and conversions as problems with costs.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "network/assign/layout_rules.h"
#include "network/cost/measure_step.h"
#include "network/testing/plans.h"
#include "select/evidence.h"
#include "select/measure/step_measurement.h"
#include "select/tune/rounds.h"

namespace convoy::network {
namespace {

const PlanRequest kRequest{.threads = 2};
// A clock of its own, so that what others do on the machine changes nothing: a microsecond from one look to the next.
constexpr double kTick = 1e-6;
constexpr double kSoon = 1000 * kTick;  // too short to wait for the processors' full speed
std::function<double()> ticks() {
  return [seconds = 0.0]() mutable { return seconds += kTick; };
}

StepProblem step(const std::string& text) {
  auto problem = parse_step(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().message;
  return problem.ok() ? *problem : StepProblem();
}

std::string error_of(const std::string& text) {
  const auto measured = measure_step(step(text), kRequest, {.budget_seconds = kSoon, .clock = ticks()});
  return measured.ok() ? "" : measured.error().message;
}

TEST(StepProblem, IsReadByItsKind) {
  for (const char* text :
       {"op:Relu:x=f32,1x8x6x6,nhwc:y=f32,1x8x6x6,nhwc", "convert:x=f32,1x8x6x6,nhwc:y=f32,1x8x6x6,nchw8c"}) {
    EXPECT_TRUE(is_step_string(text));
    EXPECT_EQ(print(step(text)), text);
    EXPECT_EQ(bytes_moved(step(text)), 2 * 4 * 8 * 36);
    EXPECT_TRUE(selection::is_step_problem(print(step(text))));
    EXPECT_TRUE(selection::is_step(candidate_of(step(text))));
    EXPECT_GT(predict_seconds(step(text), kRequest), 0);
  }
  EXPECT_EQ(print(candidate_of(step("op:Relu:x=f32,3x4,nchw"))), "ops.Relu");
  EXPECT_FALSE(is_step_string("fprop:x=f32,1x8x6x6"));
  EXPECT_NE(parse_step("op:Relu:x=f32,3x4,nchw:y=f32,3x5,nchw").error().message.find("y="), std::string::npos);
}

TEST(StepMeasurement, OperatorsAreRightInEachLayoutThatTheyTake) {
  const char* const kOperators[] = {
      "op:MaxPool:x=f32,2x16x9x9,{}:@kernel_shape=ints,3,3:@strides=ints,2,2",
      "op:AveragePool:x=f32,2x16x9x9,{}:@kernel_shape=ints,3,3:@pads=ints,1,1,1,1",
      "op:GlobalAveragePool:x=f32,2x32x7x7,{}",
      "op:Add:x=f32,2x16x5x7,{}:x1=f32,2x16x5x7,{}",
      "op:Clip:x=f32,2x16x5x7,{}:x1=f32,scalar,values=0:x2=f32,scalar,values=0.5",
      "op:Resize:x=f32,1x16x6x6,{}:x1=none:x2=f32,4,nchw,values=1/1/2/2:@mode=text,linear",
  };
  for (std::string text : kOperators) {
    for (const char* layout : {"nchw", "nhwc", "nchw8c", "nchw16c"}) {
      std::string own = text;
      for (std::size_t at; (at = own.find("{}")) != std::string::npos;) own.replace(at, 2, layout);
      const auto measured = measure_step(step(own), kRequest, {.budget_seconds = kSoon, .clock = ticks()});
      ASSERT_TRUE(measured.ok()) << own << ": " << measured.error().message;
      const Measurement& m = measured->measurement;
      EXPECT_FALSE(m.failure) << m.failure->message;
      EXPECT_EQ(m.state, MeasurementState::complete) << own;
      EXPECT_GE(m.samples, selection::kEnoughSamples) << own;
      EXPECT_NEAR(m.median_seconds, kTick, 1e-3 * kTick);
      EXPECT_LE(m.max_error, 1);
      EXPECT_FALSE(measured->runs_on.empty());
    }
  }
}

TEST(StepMeasurement, WhatAnOperatorDoesNotTakeIsAnError) {
  EXPECT_NE(error_of("op:Softmax:x=f32,1x16x8x8,nchw8c").find("Softmax doesn't work in nchw8c"), std::string::npos);
  EXPECT_NE(error_of("op:Add:x=f32,1x16x8x8,nchw:x1=f32,1x16x8x8,nhwc").find("one and the same layout"),
            std::string::npos);
  EXPECT_NE(error_of("convert:x=f32,0x3,nchw:y=f32,0x3,nchw").find("no elements"), std::string::npos);
  PlanRequest gpu = kRequest;
  gpu.cuda = CudaDevice();
  EXPECT_FALSE(measure_step(step("op:Relu:x=f32,3x4,nchw"), gpu, {}).ok());
}

TEST(StepMeasurement, ConstantsWithoutValuesAreRandomOnes) {
  for (const char* text : {"op:Gather:x=f32,40x8,nchw:x1=s64,30,nchw,constant:@axis=int,0",
                           "op:Add:x=f32,1x64x5x5,nhwc:x1=f32,64x1x1,nchw,constant"}) {
    const auto measured = measure_step(step(text), kRequest, {.budget_seconds = kSoon, .clock = ticks()});
    ASSERT_TRUE(measured.ok()) << text << ": " << measured.error().message;
    EXPECT_FALSE(measured->measurement.failure) << measured->measurement.failure->message;
  }
}

TEST(StepMeasurement, ConversionsBesideACopy) {
  for (const char* y : {"f32,2x20x9x9,nhwc", "f32,2x20x9x9,nchw16c", "bf16,2x20x9x9,nchw"}) {
    const std::string text = std::string("convert:x=f32,2x20x9x9,nchw:y=") + y;
    const auto measured =
        measure_step(step(text), kRequest, {.budget_seconds = kSoon, .beside_copy = true, .clock = ticks()});
    ASSERT_TRUE(measured.ok()) << text << ": " << measured.error().message;
    EXPECT_FALSE(measured->measurement.failure) << measured->measurement.failure->message;
    EXPECT_NEAR(measured->copy_seconds, kTick, 1e-3 * kTick);
  }
}

TEST(StepMeasurement, DifferencesThatAreTooLarge) {
  const HostTensor a = tensor_of(DataType::f32, {4}, {1, 2, 1e-7, 100});
  EXPECT_EQ(difference(a, a), 0);
  EXPECT_LE(difference(a, tensor_of(DataType::f32, {4}, {1, 2.000001, 0, 100})), 1);
  EXPECT_GT(difference(a, tensor_of(DataType::f32, {4}, {1, 2.1, 1e-7, 100})), 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_GT(difference(a, tensor_of(DataType::f32, {4}, {1, nan, 1e-7, 100})), 1);
  const HostTensor with_nan = tensor_of(DataType::f32, {2}, {nan, 1});
  EXPECT_EQ(difference(with_nan, with_nan), 0);
  const HostTensor bytes = tensor_of(DataType::u8, {2}, {3, 200});
  EXPECT_LE(difference(bytes, tensor_of(DataType::u8, {2}, {4, 200})), 1);
  EXPECT_GT(difference(bytes, tensor_of(DataType::u8, {2}, {3, 198})), 1);
  EXPECT_GT(difference(tensor_of(DataType::s32, {1}, {7}), tensor_of(DataType::s32, {1}, {8})), 1);
}

TEST(StepMeasurement, IsStoredAndFoundAgain) {
  selection::RoundStore store;
  const std::vector<StepProblem> problems = {step("op:Relu:x=f32,1x16x8x8,nhwc"),
                                             step("op:Softmax:x=f32,1x16x8x8,nchw8c"),  // can't: passed over
                                             step("convert:x=f32,1x16x8x8,nhwc:y=f32,1x16x8x8,nchw")};
  ASSERT_TRUE(measure_steps(problems, kRequest, CacheState::cold, 0, store, false, ticks()).ok());
  for (const int i : {0, 2}) {
    const auto found = find_step(store, problems[i], kRequest, CacheState::cold);
    ASSERT_TRUE(found) << print(problems[i]);
    EXPECT_EQ(found->state, MeasurementState::complete);
  }
  EXPECT_FALSE(find_step(store, problems[1], kRequest, CacheState::cold));
  EXPECT_FALSE(find_step(store, problems[0], kRequest, CacheState::warm));
  PlanRequest other = kRequest;
  other.threads = 1;
  EXPECT_FALSE(find_step(store, problems[0], other, CacheState::cold));
  // Weights are a convolution's.
  const float weight = 0;
  other = kRequest;
  other.constant_weights = &weight;
  EXPECT_TRUE(find_step(store, problems[0], other, CacheState::cold));

  const MeasurementKey key = measurement_key(problems[0], kRequest, CacheState::cold);
  Measurement outdated = store.find(key)->front();
  outdated.revision = selection::kStepRevision - 1;
  ASSERT_TRUE(store.store(key, outdated).ok());
  EXPECT_FALSE(find_step(store, problems[0], kRequest, CacheState::cold));
  Measurement failed = outdated;
  failed.revision = selection::kStepRevision;
  failed.failure = Error{ErrorCode::wrong_result, "differs"};
  ASSERT_TRUE(store.store(key, failed).ok());
  EXPECT_FALSE(find_step(store, problems[0], kRequest, CacheState::cold));

  // What a budget has left for a large step serves until there is more.
  selection::RoundStore brief_store;
  Measurement brief = failed;
  brief.failure.reset();
  brief.state = MeasurementState::partial;
  brief.samples = 1;
  brief.median_seconds = 123;
  ASSERT_TRUE(brief_store.store(key, brief).ok());
  const auto served = find_step(brief_store, problems[0], kRequest, CacheState::cold);
  ASSERT_TRUE(served);
  EXPECT_EQ(served->median_seconds, 123);
  // Not one that is short, of few samples and far above the prediction: somebody was in its way.
  brief.median_seconds = 2.38e-3;
  ASSERT_TRUE(brief_store.store(key, brief).ok());
  ASSERT_LT(predict_seconds(problems[0], kRequest), 1e-3);
  EXPECT_FALSE(find_step(brief_store, problems[0], kRequest, CacheState::cold));
  ASSERT_TRUE(measure_steps(problems, kRequest, CacheState::cold, 0, brief_store, false, ticks()).ok());
  EXPECT_LT(find_step(brief_store, problems[0], kRequest, CacheState::cold)->median_seconds, 1);
}

TEST(StepMeasurement, ABudgetEndsIt) {
  selection::RoundStore store;
  const std::vector<StepProblem> problems(1, step("op:Relu:x=f32,1x64x256x256,nhwc"));
  ASSERT_TRUE(measure_steps(problems, kRequest, CacheState::cold, 1e-6, store).ok());
  const auto found = find_step(store, problems[0], kRequest, CacheState::cold);
  EXPECT_TRUE(!found || found->state != MeasurementState::complete);
}

// ---- in plans

NetworkOptions options_with_l2(std::int64_t bytes = 1 << 20) {
  NetworkOptions options = test_options();
  options.cpu.l2_bytes = bytes;
  return options;
}

// Warm: of a network that fits.
void remember(MeasurementStore& store, const NetworkOptions& options, const StepProblem& problem, double seconds,
              CacheState caches = CacheState::warm) {
  Measurement m;
  m.candidate = candidate_of(problem);
  m.revision = selection::kStepRevision;
  m.provider = selection::step_provider();
  m.median_seconds = seconds;
  m.samples = 9;
  m.state = MeasurementState::complete;
  PlanRequest request;
  request.threads = options.threads;
  request.cpu = options.cpu;
  ASSERT_TRUE(store.store(measurement_key(problem, request, caches), m).ok());
}

Graph pooled_convolution() {
  GraphBuilder b;
  const int x = b.node("Conv", {b.input("x", {1, 16, 24, 24}), b.constant(spread({32, 16, 1, 1}))});
  const int pooled = b.node("MaxPool", {x}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  b.output(b.node("Conv", {pooled, b.constant(spread({32, 32, 1, 1}))}));
  return b.graph;
}

std::string line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

TEST(PlanCosts, AreMeasuredWhereTheDatabaseKnows) {
  selection::RoundStore store;
  NetworkOptions options = options_with_l2();
  options.threads = 1;  // or predictions would choose how many a step has
  options.how = "uniform:nhwc";
  options.selection.store = &store;
  const auto text = [&] { return plan_for(pooled_convolution(), options); };
  const std::string before = text();
  EXPECT_NE(line_with(before, "MaxPool").find("us predicted"), std::string::npos) << before;
  EXPECT_NE(line_with(before, "convert ").find("us predicted"), std::string::npos) << before;
  remember(store, options, step("op:MaxPool:x=f32,1x32x24x24,nhwc:y=f32,1x32x23x23,nhwc:@kernel_shape=ints,2,2"),
           123e-6);
  remember(store, options, step("convert:x=f32,1x16x24x24,nchw:y=f32,1x16x24x24,nhwc"), 45.5e-6);
  const std::string after = text();
  EXPECT_NE(line_with(after, "MaxPool").find(" 123us measured"), std::string::npos) << after;
  EXPECT_NE(line_with(after, "convert ").find(" 45.5us measured"), std::string::npos) << after;
  EXPECT_EQ(after, text());
}

TEST(PlanCosts, AreWarmOnesInASmallNetworkElseColdOnes) {
  selection::RoundStore store;
  NetworkOptions options = options_with_l2();
  options.threads = 1;  // or predictions would choose how many a step has
  options.how = "uniform:nhwc";
  options.selection.store = &store;
  const auto line = [&] { return line_with(plan_for(pooled_convolution(), options), "MaxPool"); };
  const StepProblem pool = step("op:MaxPool:x=f32,1x32x24x24,nhwc:y=f32,1x32x23x23,nhwc:@kernel_shape=ints,2,2");
  for (const std::int64_t l2 : {1 << 20, 1 << 16}) {
    options.cpu.l2_bytes = l2;
    const bool small = l2 == 1 << 20;
    remember(store, options, pool, 7e-6, small ? CacheState::all_cold : CacheState::warm);
    EXPECT_NE(line().find("us predicted"), std::string::npos) << line();
    remember(store, options, pool, 123e-6, CacheState::cold);
    EXPECT_NE(line().find(" 123us measured"), std::string::npos) << line();
    if (small) remember(store, options, pool, 45e-6, CacheState::warm);
    EXPECT_NE(line().find(small ? " 45us measured" : " 123us measured"), std::string::npos) << line();
  }
}

TEST(PlanCosts, ABudgetMeasuresASmallNetworkWarm) {
  selection::RoundStore store;
  NetworkOptions options = options_with_l2();
  options.threads = 1;  // or predictions would choose how many a step has
  options.how = "uniform:nhwc";
  options.selection.store = &store;
  options.selection.mode = SelectionMode::measured;
  options.selection.budget_seconds = 5;
  options.selection.filter.engines = "cpu.direct";
  ASSERT_TRUE(plan_of(pooled_convolution(), {.options = options}).ok());
  const auto convolutions = list_convolutions(pooled_convolution(), {.options = options});
  ASSERT_TRUE(convolutions.ok());
  static const float weights = 0;
  const PlanRequest request{.threads = options.threads, .cpu = options.cpu, .constant_weights = &weights};
  for (const NetworkConvolution& convolution : *convolutions) {
    EXPECT_EQ(convolution.caches, CacheState::warm);
    EXPECT_FALSE(store.find(measurement_key(convolution.problem, request, CacheState::warm))->empty());
    EXPECT_TRUE(store.find(measurement_key(convolution.problem, request, CacheState::cold))->empty());
  }
}

TEST(PlanCosts, ABudgetMeasuresAllLines) {
  selection::RoundStore store;
  NetworkOptions options = options_with_l2();
  options.selection.mode = SelectionMode::measured;
  options.selection.budget_seconds = 20;
  options.selection.filter.engines = "cpu.direct";
  options.selection.store = &store;
  std::string plan = plan_for(pooled_convolution(), options);
  // Where others have the cores or a sanitizer watches, a line's samples may take more than its second.
  for (int again = 0; again < 20 && plan.find("predicted") != std::string::npos; ++again) {
    plan = plan_for(pooled_convolution(), options);
  }
  EXPECT_NE(plan.find("us measured"), std::string::npos) << plan;
#ifndef __SANITIZE_ADDRESS__  // instrumented, few samples are taken for disturbed ones
  EXPECT_EQ(plan.find("predicted"), std::string::npos) << plan;
#endif
}

TEST(PlanCosts, GreedyGoesByWhatConversionsWereMeasuredToTake) {
  selection::RoundStore store;
  NetworkOptions options = options_with_l2();
  options.selection.store = &store;
  const auto plan = [&](double seconds) {
    for (const char* channels : {"16x24x24", "32x23x23"}) {
      for (const auto& [from, to] : {std::pair("nchw", "nhwc"), std::pair("nhwc", "nchw")}) {
        remember(store, options,
                 step(std::string("convert:x=f32,1x") + channels + "," + from + ":y=f32,1x" + channels + "," + to),
                 seconds);
      }
    }
    return plan_for(pooled_convolution(), options);
  };
  EXPECT_EQ(plan(1).find("nhwc"), std::string::npos) << plan(1);
  EXPECT_NE(plan(1e-9).find("nhwc"), std::string::npos) << plan(1e-9);
}

TEST(PlanCosts, ARelabelCostsNothing) {
  GraphBuilder b;
  const int last =
      b.node("Transpose", {b.node("Conv", {b.input("x", {1, 16, 24, 24}), b.constant(spread({32, 16, 1, 1}))})},
             {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}});
  b.output(b.node("Neg", {last}));
  NetworkOptions options = options_with_l2();
  options.threads = 1;  // or predictions would choose how many a step has
  options.how = "uniform:nhwc";
  options.skip_passes = {"transpose_sinking"};
  const std::string plan = plan_for(b.graph, options);
  EXPECT_TRUE(line_with(plan, "relabel ").ends_with(" 0us -")) << plan;
}

}  // namespace
}  // namespace convoy::network
