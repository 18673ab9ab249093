// Every element-wise operator beside its own description: what it computes of all f16 numbers, with vectors of any
// width, is what the description says in f64.
#include <cmath>
#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/evaluator.h"
#include "ops/testing/elements.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

HostTensor f16_numbers() {
  HostTensor all = *HostTensor::allocate(TensorDesc::packed(DataType::f16, {1 << 16}));
  for (std::int64_t i = 0; i < 1 << 16; ++i) {
    reinterpret_cast<std::uint16_t*>(all.data.get())[i] = static_cast<std::uint16_t>(i);
  }
  return all;
}

// Of each of them, one to go with all f16 numbers.
HostTensor partners(const std::vector<double>& values) {
  return tensor(DataType::f16, {static_cast<std::int64_t>(values.size()), 1}, values);
}

// The step between halves near x.
double step_near(double x) {
  const double least = 0x1p-24;
  return x == 0 ? least : std::max(least, std::ldexp(1, std::ilogb(x) - 10));
}

// `lost`: what sums of unlike numbers may lose, as 1 + erf(x) does where erf is near -1.
bool near(double got, double want, double lost) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got);
  if (got == want) return true;
  constexpr double kLargest = 65504;  // above it a half may be infinite
  if (std::abs(want) >= kLargest && std::abs(got) >= kLargest) return std::signbit(got) == std::signbit(want);
  return std::abs(got - want) <= step_near(want) + lost;
}

void compare(const std::string& name, const ElementRule& rule, Isa isa) {
  SCOPED_TRACE(name + " " + std::string(name_of(isa)));
  const NodeDesc node = node_of_element(name);
  const int operands = rule.operands == 0 ? 3 : rule.operands;
  std::vector<HostTensor> inputs{f16_numbers()};
  if (operands > 1) inputs.push_back(partners({-2.5, -1, -0.0, 0.25, 3, 1e4, INFINITY, NAN}));
  if (operands > 2) inputs.push_back(tensor(DataType::f16, {}, {0.5}));
  const auto got = run_op(node, inputs, {.isa = isa});
  ASSERT_TRUE(got.ok()) << got.error().message;

  const auto function = ElementFunction::of(rule, node, DataType::f64, operands);
  ASSERT_TRUE(function.ok()) << function.error().message;
  const auto program = compiled(function->expression, operands);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const TensorDesc& y = (*got)[0].desc;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    double x[3];
    ElementRow rows[3];
    for (int k = 0; k < operands; ++k) {
      x[k] = inputs[k].at(k == 0 ? i % (1 << 16) : k == 1 ? i >> 16 : 0);
      rows[k] = {&x[k], 1};
    }
    double want;
    portable::evaluate(*program, DataType::f64, rows, DataType::f64, &want, 1);
    if (rule.to_bool) want = want != 0;
    ASSERT_TRUE(near((*got)[0].at(i), want, 1.5e-7 * std::min(std::abs(x[0]), 8.0)))
        << "of " << x[0] << " and " << (operands > 1 ? x[1] : 0) << ": " << (*got)[0].at(i) << ", not " << want;
  }
}

TEST(ElementFunctions, AreWhatTheirDescriptionsSay) {
  int compared = 0;
  for (const auto& [name, rule] : element_rules()) {
    if (!contains(rule->types, DataType::f16)) continue;
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
      compare(name, *rule, isa);
      if (testing::Test::HasFatalFailure()) return;
    }
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

// f32 beside f64, over all sizes of numbers: what halves are too coarse to show.
TEST(ElementFunctions, KeepTheDigitsOfF32) {
  std::mt19937 random(1);
  std::vector<float> x;
  for (int i = 0; i < 40000; ++i) {
    const double size = std::exp2(static_cast<double>(random() % 6400) / 100 - 40);
    x.push_back(static_cast<float>(random() % 2 == 0 ? size : -size));
  }
  for (const auto& [name, rule] : element_rules()) {
    if (!contains(rule->types, DataType::f32) || rule->operands != 1) continue;
    const auto function = ElementFunction::of(*rule, node_of_element(name), DataType::f32, 1);
    ASSERT_TRUE(function.ok());
    const auto program = compiled(function->expression, 1);
    ASSERT_TRUE(program.ok());
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (isa > cpu_features().isa) continue;
      std::vector<float> y(x.size());
      const ElementRow row{x.data(), 1};
      evaluator(isa)(*program, DataType::f32, &row, DataType::f32, y.data(), static_cast<std::int64_t>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double of = static_cast<double>(x[i]);
        const ElementRow wide{&of, 1};
        double want;
        portable::evaluate(*program, DataType::f64, &wide, DataType::f64, &want, 1);
        const auto got = static_cast<double>(y[i]);
        if (std::isnan(want) ? std::isnan(got) : got == want) continue;
        // Subnormal results may be 0, and what is beyond f32 infinite.
        constexpr double kLeast = 0x1p-126, kMost = 3.4e38;
        if (std::abs(want) < kLeast && std::abs(got) <= kLeast) continue;
        if (std::abs(want) > kMost && std::abs(got) > kMost && std::signbit(got) == std::signbit(want)) continue;
        // Sums of a function and the argument itself, as of 1 + x, lose what the sum is smaller than its parts.
        ASSERT_LE(std::abs(got - want),
                  1e-6 * std::abs(want) + 2e-7 * std::min(name == "Gelu" ? 8.0 : 1.0, std::abs(of)))
            << name << " of " << of << " is " << got << ", not " << want << " " << name_of(isa);
      }
    }
  }
}

TEST(ElementFunctions, ValuesAreSharedAndBounded) {
  Expression expression;
  Value sum(expression, {Term::input, 0});
  for (int i = 0; i < Program::kMostSteps; ++i) sum = sum + 1.0;
  expression.result = sum.term_in(expression);
  EXPECT_EQ(expression.constants.size(), 1U);
  ASSERT_TRUE(compiled(expression, 1).ok());
  sum = sum + 1.0;
  expression.result = sum.term_in(expression);
  const auto program = compiled(expression, 1);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("too many steps"), std::string::npos) << program.error().message;
}

}  // namespace
}  // namespace convoy::ops
