// Malformed problems through the C++ API: each error names the field at fault and its value; nothing crashes.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "convoy/selection.h"
#include "engines/testing/problem_generator.h"

namespace convoy::testing {
namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

struct Fault {
  const char* field;  // what the error must name
  std::function<void(ConvProblem&)> spoil;
};

// Each makes any valid f32 problem malformed.
const std::vector<Fault> faults = {
    {"x.dims", [](ConvProblem& p) { p.x.dims.clear(); }},
    {"x", [](ConvProblem& p) { p.x.dims.pop_back(); }},
    {"x", [](ConvProblem& p) { p.x.strides.pop_back(); }},
    {"x.dims[0]", [](ConvProblem& p) { p.x.dims[0] = 0; }},
    {"x.dims[1]", [](ConvProblem& p) { p.x.dims[1] = -3; }},
    {"x", [](ConvProblem& p) { p.x.dims[2] = huge; }},
    {"x.strides[2]", [](ConvProblem& p) { p.x.strides[2] = -1; }},
    {"x", [](ConvProblem& p) { p.x.strides[0] = huge, p.x.dims[0] = p.y.dims[0] = 3; }},
    {"x.channel_block", [](ConvProblem& p) { p.x.channel_block = 7; }},
    {"x.alignment", [](ConvProblem& p) { p.x.alignment = 24; }},
    {"x.alignment", [](ConvProblem& p) { p.x.alignment = 0; }},
    {"w.dims", [](ConvProblem& p) { p.w.dims.push_back(1), p.w.strides.push_back(1); }},
    {"w.dims[0]", [](ConvProblem& p) { p.w.dims[0] = 0; }},
    {"w.dims[1]", [](ConvProblem& p) { ++p.w.dims[1]; }},
    {"w.dims[0]", [](ConvProblem& p) { p.w.dims[0] += p.groups; }},
    {"w", [](ConvProblem& p) { p.w.dims[2] = huge; }},
    {"y.dims[0]", [](ConvProblem& p) { ++p.y.dims[0]; }},
    {"y.dims[1]", [](ConvProblem& p) { ++p.y.dims[1]; }},
    {"y.dims[2]", [](ConvProblem& p) { ++p.y.dims[2]; }},
    {"y.dims",
     [](ConvProblem& p) {
       p.y = TensorDesc::packed(DataType::f32, {1, 1});
     }},
    {"groups", [](ConvProblem& p) { p.groups = 0; }},
    {"groups", [](ConvProblem& p) { p.groups = -1; }},
    {"groups", [](ConvProblem& p) { p.groups = huge; }},
    {"stride", [](ConvProblem& p) { p.stride.clear(); }},
    {"stride[0]", [](ConvProblem& p) { p.stride[0] = 0; }},
    {"dilation[0]", [](ConvProblem& p) { p.dilation[0] = -2; }},
    {"dilation", [](ConvProblem& p) { p.dilation.push_back(1); }},
    {"pre_padding[0]", [](ConvProblem& p) { p.pre_padding[0] = -1; }},
    {"post_padding[0]", [](ConvProblem& p) { p.post_padding[0] = std::numeric_limits<std::int64_t>::min(); }},
    {"pad", [](ConvProblem& p) { p.pre_padding[0] = huge; }},
    {"alpha", [](ConvProblem& p) { p.alpha = std::numeric_limits<double>::quiet_NaN(); }},
    {"beta", [](ConvProblem& p) { p.beta = std::numeric_limits<double>::infinity(); }},
    {"gamma", [](ConvProblem& p) { p.epilogue.gamma = std::numeric_limits<double>::infinity(); }},
    {"act=clip",
     [](ConvProblem& p) {
       p.epilogue.activation = {ActivationKind::clip, 6, 0};
     }},
    {"act=relu",
     [](ConvProblem& p) {
       p.epilogue.activation = {ActivationKind::relu, 1, 0};
     }},
    {"act=elu",
     [](ConvProblem& p) {
       p.epilogue.activation = {ActivationKind::elu, std::nan(""), 0};
     }},
    {"requant", [](ConvProblem& p) { p.epilogue.requantize = Requantize::per_tensor; }},
    {"residual", [](ConvProblem& p) { p.epilogue.residual.emplace(); }},
    {"x_zero_point", [](ConvProblem& p) { p.x_zero_point = 1; }},
    {"w_zero_point", [](ConvProblem& p) { p.w_zero_point = -1; }},
    {"y_zero_point", [](ConvProblem& p) { p.y_zero_point = 5; }},
    {"compute", [](ConvProblem& p) { p.compute = DataType::s32; }},
    {"x=s64", [](ConvProblem& p) { p.x.type = DataType::s64; }},
    {"w=f64", [](ConvProblem& p) { p.w.type = DataType::f64; }},
    {"y=s8", [](ConvProblem& p) { p.y.type = DataType::s8; }},
};

// Valid f32 problems of every pass and rank.
std::vector<ConvProblem> good_problems(int count) {
  Random random(17);
  std::vector<ConvProblem> problems;
  for (int i = 0; i < count; ++i) problems.push_back(random_problem(random, {}));
  return problems;
}

TEST(ProblemErrors, NameTheField) {
  for (std::size_t i = 0; i < faults.size(); ++i) {
    for (const ConvProblem& good : good_problems(40)) {
      ConvProblem bad = good;
      faults[i].spoil(bad);
      const Result<void> result = validate(bad);
      ASSERT_FALSE(result.ok()) << "fault " << i << " (" << faults[i].field << ") was accepted in " << print(good);
      EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
      EXPECT_NE(result.error().message.find(faults[i].field), std::string::npos)
          << "fault " << i << " should be named " << faults[i].field << ": " << result.error().message;
    }
  }
}

// A malformed problem may reach the API without validate(): it must be met at the door all the same.
TEST(ProblemErrors, EveryEntryRefusesThem) {
  const auto& engines = all_engines();
  const PlanRequest request{1, cpu_features(), nullptr};
  for (std::size_t i = 0; i < faults.size(); ++i) {
    for (const ConvProblem& good : good_problems(6)) {
      ConvProblem bad = good;
      faults[i].spoil(bad);
      const auto plan = make_plan(bad, {"reference", {}}, engines, request);
      ASSERT_FALSE(plan.ok()) << faults[i].field;
      EXPECT_NE(plan.error().message.find(faults[i].field), std::string::npos) << plan.error().message;
      const auto selection = select(bad, engines, {}, request);
      ASSERT_FALSE(selection.ok()) << faults[i].field;
      EXPECT_NE(selection.error().message.find(faults[i].field), std::string::npos) << selection.error().message;
    }
  }
}

// Extreme values in any field are an error or a valid problem; engines answer for the valid ones without crashing.
TEST(ProblemErrors, ExtremeValuesNeverCrash) {
  const std::vector<std::int64_t> extremes = {std::numeric_limits<std::int64_t>::min(),
                                              -1,
                                              0,
                                              1,
                                              2,
                                              3,
                                              1 << 20,
                                              std::int64_t{1} << 31,
                                              (std::int64_t{1} << 32) + 1,
                                              std::int64_t{1} << 40,
                                              std::int64_t{1} << 62,
                                              huge};
  Random random(23);
  int valid = 0;
  for (int i = 0; i < 8000; ++i) {
    ConvProblem problem = random_problem(random, {});
    for (int edits = 1 + static_cast<int>(random.integer(0, 2)); edits > 0; --edits) {
      const std::vector<Dims*> fields = {
          &problem.x.dims,    &problem.x.strides,   &problem.w.dims,       &problem.w.strides, &problem.y.dims,
          &problem.y.strides, &problem.pre_padding, &problem.post_padding, &problem.stride,    &problem.dilation};
      Dims& field = *random.pick(fields);
      field[random.integer(0, static_cast<std::int64_t>(field.size()) - 1)] = random.pick(extremes);
      if (random.chance(0.1)) problem.groups = random.pick(extremes);
    }
    // Half of them with the output that belongs to the change.
    if (random.chance(0.5)) {
      problem.pass = Pass::fprop;
      problem.y = {};
      if (!infer(problem).ok()) continue;
    }
    const Result<void> result = validate(problem);
    if (!result.ok()) {
      EXPECT_FALSE(result.error().message.empty());
      continue;
    }
    ++valid;
    const Result<ConvProblem> again = parse_problem(print(problem));
    ASSERT_TRUE(again.ok()) << print(problem) << ": " << again.error().message;
    EXPECT_EQ(*again, problem);
    for (const EngineAnswer& answer : list_candidates(problem, all_engines(), {2, cpu_features(), nullptr})) {
      if (answer.refusal) {
        EXPECT_FALSE(answer.refusal->reason.empty()) << answer.engine->info().name;
      } else {
        EXPECT_GT(answer.predicted_seconds, 0) << answer.engine->info().name << ": " << print(problem);
      }
    }
  }
  EXPECT_GT(valid, 400);
}

}  // namespace
}  // namespace convoy::testing
