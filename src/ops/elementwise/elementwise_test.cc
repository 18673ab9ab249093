#include "ops/operator_row.h"
#include "ops/support.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

TEST(UnaryMath, FollowsTheStandardLibrary) {
  struct Case {
    const char* op;
    double low, high;
    double (*formula)(double);
  };
  const Case cases[] = {
      {"Abs", -3, 3, [](double x) { return std::abs(x); }},
      {"Neg", -3, 3, [](double x) { return -x; }},
      {"Sign", -3, 3, [](double x) { return double((x > 0) - (x < 0)); }},
      {"Exp", -9, 9, [](double x) { return std::exp(x); }},
      {"Log", 0.1, 9, [](double x) { return std::log(x); }},
      {"Sqrt", 0, 9, [](double x) { return std::sqrt(x); }},
      {"Reciprocal", 0.5, 9, [](double x) { return 1 / x; }},
      {"Floor", -9, 9, [](double x) { return std::floor(x); }},
      {"Ceil", -9, 9, [](double x) { return std::ceil(x); }},
      {"Erf", -3, 3, [](double x) { return std::erf(x); }},
      {"Sin", -9, 9, [](double x) { return std::sin(x); }},
      {"Cos", -9, 9, [](double x) { return std::cos(x); }},
      {"Tan", -1, 1, [](double x) { return std::tan(x); }},
      {"Asin", -1, 1, [](double x) { return std::asin(x); }},
      {"Acos", -1, 1, [](double x) { return std::acos(x); }},
      {"Atan", -9, 9, [](double x) { return std::atan(x); }},
      {"Sinh", -3, 3, [](double x) { return std::sinh(x); }},
      {"Cosh", -3, 3, [](double x) { return std::cosh(x); }},
      {"Asinh", -9, 9, [](double x) { return std::asinh(x); }},
      {"Acosh", 1, 9, [](double x) { return std::acosh(x); }},
      {"Atanh", -0.9, 0.9, [](double x) { return std::atanh(x); }},
  };
  for (const Case& each : cases) {
    const std::vector<double> values = spread(3 * 4 * 5, each.low, each.high);
    std::vector<double> expected;
    for (const double value : values) expected.push_back(each.formula(static_cast<float>(value)));
    expect_op(node_of(each.op), {floats({1, 3, 4, 5}, values)}, {floats({1, 3, 4, 5}, expected)}, 1e-6, 2e-6);
  }
}

TEST(UnaryMath, RoundsHalvesToEven) {
  expect_op(node_of("Round"), {floats({6}, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4})}, {floats({6}, {0, 2, 2, 0, -2, 2})});
}

TEST(UnaryMath, IntegersWrapAtTheLowestValue) {
  expect_op(node_of("Abs"), {tensor(DataType::s8, {3}, {-128, -5, 5})}, {tensor(DataType::s8, {3}, {-128, 5, 5})});
  expect_op(node_of("Neg"), {tensor(DataType::s16, {2}, {-32768, 7})}, {tensor(DataType::s16, {2}, {-32768, -7})});
  expect_op(node_of("Sign"), {tensor(DataType::u8, {2}, {0, 200})}, {tensor(DataType::u8, {2}, {0, 1})});
}

TEST(UnaryMath, Predicates) {
  const HostTensor x = floats({4}, {NAN, INFINITY, -INFINITY, 1});
  const auto bools = [](const std::vector<double>& values) {
    return tensor(DataType::boolean, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_op(node_of("IsNaN"), {x}, {bools({1, 0, 0, 0})});
  expect_op(node_of("IsInf"), {x}, {bools({0, 1, 1, 0})});
  expect_op(node_of("IsInf", {{"detect_negative", std::int64_t{0}}}), {x}, {bools({0, 1, 0, 0})});
  expect_op(node_of("Not"), {bools({0, 1})}, {bools({1, 0})});
}

TEST(Binary, BroadcastsInEveryLayout) {
  // 2x3x2x2 with itself, a channel vector as [3,1,1] and [1,3,1,1], a scalar, and a row.
  const std::vector<double> values = spread(24, -4, 4);
  const HostTensor x = floats({2, 3, 2, 2}, values);
  std::vector<double> doubled, by_channel, by_row, scaled;
  for (int i = 0; i < 24; ++i) {
    doubled.push_back(2 * values[i]);
    by_channel.push_back(values[i] - (i / 4 % 3 + 1));
    by_row.push_back(values[i] * (i % 2 == 0 ? 10 : 20));
    scaled.push_back(3 / values[i]);
  }
  expect_op(node_of("Add"), {x, x}, {floats({2, 3, 2, 2}, doubled)});
  expect_op(node_of("Sub"), {x, floats({3, 1, 1}, {1, 2, 3})}, {floats({2, 3, 2, 2}, by_channel)});
  expect_op(node_of("Sub"), {x, floats({1, 3, 1, 1}, {1, 2, 3})}, {floats({2, 3, 2, 2}, by_channel)});
  expect_op(node_of("Mul"), {x, floats({2}, {10, 20})}, {floats({2, 3, 2, 2}, by_row)});
  expect_op(node_of("Div"), {floats({}, {3}), x}, {floats({2, 3, 2, 2}, scaled)});
  expect_op(node_of("Add"), {floats({2, 1}, {1, 2}), floats({1, 3}, {10, 20, 30})},
            {floats({2, 3}, {11, 21, 31, 12, 22, 32})});
  expect_op(node_of("Add"), {floats({0, 3}, {}), floats({3}, {1, 2, 3})}, {floats({0, 3}, {})});
}

// More than a block of each; the second operand's values come again after few of y, in all of it or in each of its
// parts.
TEST(Binary, OperandsThatRepeat) {
  struct Case {
    Dims y, a, b;
  };
  const Case cases[] = {{{400, 7}, {400, 7}, {7}},
                        {{90, 5, 3}, {90, 5, 3}, {5, 1}},
                        {{500, 7}, {500, 1}, {7}},
                        {{2, 3, 20, 23}, {2, 3, 20, 23}, {2, 3, 1, 1}},
                        {{3, 40, 17, 5}, {3, 40, 17, 5}, {3, 1, 17, 5}},
                        {{2, 40, 2, 9, 3}, {2, 1, 1, 9, 3}, {40, 2, 1, 3}},
                        {{1, 6, 2, 3}, {1, 6, 2, 3}, {6, 1, 1}}};
  for (const Case& c : cases) {
    const auto rank = static_cast<int>(c.y.size());
    const auto element_of = [&](const Dims& dims, std::int64_t i) {
      std::int64_t at = 0, step = 1;
      for (int d = rank - 1, own = static_cast<int>(dims.size()) - 1; own >= 0; --d, --own) {
        at += dims[own] == 1 ? 0 : i % c.y[d] * step;
        step *= dims[own];
        i /= c.y[d];
      }
      return at;
    };
    const auto some = [](DataType type, const Dims& dims, int times) {
      std::vector<double> values;
      for (std::int64_t i = 0; i < TensorDesc::packed(type, dims).elements(); ++i) values.push_back((i * times) % 113);
      return tensor(type, dims, values);
    };
    for (const DataType type : {DataType::f32, DataType::bf16, DataType::s32, DataType::s8, DataType::s64}) {
      const HostTensor a = some(type, c.a, 7), b = some(type, c.b, 11);
      std::vector<double> largest, greater;
      for (std::int64_t i = 0; i < TensorDesc::packed(type, c.y).elements(); ++i) {
        const double left = a.at(element_of(c.a, i)), right = b.at(element_of(c.b, i));
        largest.push_back(std::max(left, right));
        greater.push_back(left > right ? 1 : 0);
      }
      expect_op(node_of("Max"), {a, b}, {tensor(type, c.y, largest)}, 0, 0);
      expect_op(node_of("Greater"), {a, b}, {tensor(DataType::boolean, c.y, greater)}, 0, 0);
      if (type != DataType::bf16) continue;
      expect_op(node_of("Where"), {tensor(DataType::boolean, c.y, greater), a, b}, {tensor(type, c.y, largest)}, 0, 0);
    }
  }
}

TEST(Binary, BroadcastAxisBeforeOpset7) {
  const HostTensor x = floats({1, 2, 1, 2}, {1, 2, 3, 4});
  const std::map<std::string, Attribute> axis = {{"broadcast", std::int64_t{1}}, {"axis", std::int64_t{1}}};
  expect_op(node_of("Add", axis, 6), {x, floats({2}, {10, 20})}, {floats({1, 2, 1, 2}, {11, 12, 23, 24})});
  expect_op(node_of("Mul", {{"broadcast", std::int64_t{1}}}, 6), {x, floats({2}, {10, 20})},
            {floats({1, 2, 1, 2}, {10, 40, 30, 80})});
  expect_refused(node_of("Add", {{"broadcast", std::int64_t{1}}, {"axis", std::int64_t{4}}}, 6),
                 {x, floats({2}, {10, 20})}, "axis=4");
}

TEST(Binary, IntegersWrapAndDivideAsOnnxSays) {
  const auto bytes = [](const std::vector<double>& values) {
    return tensor(DataType::s8, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_op(node_of("Add"), {bytes({127, -128}), bytes({1, -1})}, {bytes({-128, 127})});
  expect_op(node_of("Div"), {bytes({-7, 7, -128, 5}), bytes({2, -2, -1, 0})}, {bytes({-3, -3, -128, 0})});
  expect_op(node_of("Mod"), {bytes({-4, 7, 5, -4}), bytes({2, -3, 8, 3})}, {bytes({0, -2, 5, 2})});
  expect_op(node_of("Mod", {{"fmod", std::int64_t{1}}}), {bytes({-4, 7, 5, -4}), bytes({2, -3, 8, 3})},
            {bytes({0, 1, 5, -1})});
  expect_refused(node_of("Mod"), {floats({1}, {1}), floats({1}, {1})}, "fmod=0");
  expect_op(node_of("Mod", {}, 28), {floats({5}, {-4.5, 7, 5, 3, -3}), floats({5}, {2, -3, 8, INFINITY, INFINITY})},
            {floats({5}, {1.5, -2, 5, 3, INFINITY})});
  expect_op(node_of("BitShift", {{"direction", std::string("LEFT")}}),
            {tensor(DataType::u8, {3}, {1, 255, 1}), tensor(DataType::u8, {3}, {3, 1, 8})},
            {tensor(DataType::u8, {3}, {8, 254, 0})});
  const auto shift = [](const char* direction) { return node_of("BitShift", {{"direction", direction}}, 28); };
  expect_op(shift("RIGHT"), {bytes({-8, -1, 100, -3, 3, -5}), bytes({1, 3, 2, 8, 8, -1})},
            {bytes({-4, -1, 25, -1, 0, -1})});
  expect_op(shift("LEFT"), {bytes({-8, 1, 100}), bytes({1, 7, 8})}, {bytes({-16, -128, 0})});
  expect_refused(node_of("BitShift", {{"direction", "LEFT"}}, 27), {bytes({1}), bytes({1})}, "from opset 28 on");
  expect_refused(node_of("Add"), {bytes({1}), floats({1}, {1})}, "Add: input 0 has type s8, input 1 has type f32");
  expect_refused(node_of("Add"), {floats({2}, {1, 1}), floats({3}, {1, 1, 1})}, "do not broadcast");
}

TEST(Binary, ComparisonsAndLogic) {
  const HostTensor a = floats({4}, {1, 2, 3, NAN}), b = floats({4}, {2, 2, 2, 2});
  const auto bools = [](const std::vector<double>& values) {
    return tensor(DataType::boolean, {static_cast<std::int64_t>(values.size())}, values);
  };
  expect_op(node_of("Equal"), {a, b}, {bools({0, 1, 0, 0})});
  expect_op(node_of("Greater"), {a, b}, {bools({0, 0, 1, 0})});
  expect_op(node_of("GreaterOrEqual"), {a, b}, {bools({0, 1, 1, 0})});
  expect_op(node_of("Less"), {a, b}, {bools({1, 0, 0, 0})});
  expect_op(node_of("LessOrEqual"), {a, b}, {bools({1, 1, 0, 0})});
  expect_op(node_of("And"), {bools({0, 0, 1, 1}), bools({0, 1, 0, 1})}, {bools({0, 0, 0, 1})});
  expect_op(node_of("Or"), {bools({0, 0, 1, 1}), bools({0, 1, 0, 1})}, {bools({0, 1, 1, 1})});
  expect_op(node_of("Xor"), {bools({0, 0, 1, 1}), bools({0, 1, 0, 1})}, {bools({0, 1, 1, 0})});
}

TEST(Pow, TypesMayDiffer) {
  expect_op(node_of("Pow"), {floats({3}, {1, 2, 3}), floats({3}, {4, 0.5, 2})}, {floats({3}, {1, std::sqrt(2.0), 9})});
  expect_op(node_of("Pow"), {floats({3}, {1, 2, -3}), longs({}, {3})}, {floats({3}, {1, 8, -27})});
  expect_op(node_of("Pow"), {longs({2}, {3, -2}), longs({2}, {30, 3})}, {longs({2}, {205891132094649, -8})});
  expect_op(node_of("Pow"), {longs({2}, {9, 2}), floats({2}, {0.5, -1})}, {longs({2}, {3, 0})});
}

TEST(Variadic, AnyNumberOfOperands) {
  const HostTensor a = floats({2, 1}, {1, 5}), b = floats({3}, {2, 4, 6}), c = floats({}, {3});
  expect_op(node_of("Max"), {a, b, c}, {floats({2, 3}, {3, 4, 6, 5, 5, 6})});
  expect_op(node_of("Min"), {a, b, c}, {floats({2, 3}, {1, 1, 1, 2, 3, 3})});
  expect_op(node_of("Sum"), {a, b, c}, {floats({2, 3}, {6, 8, 10, 10, 12, 14})});
  expect_op(node_of("Mean"), {a, b, c}, {floats({2, 3}, {2, 8 / 3.0, 10 / 3.0, 10 / 3.0, 4, 14 / 3.0})});
  expect_op(node_of("Max"), {floats({2}, {NAN, 1}), floats({2}, {1, NAN})}, {floats({2}, {NAN, NAN})});
  expect_op(node_of("Sum"), {b}, {b});
  expect_op(node_of("Max"), {longs({2}, {1, 5}), longs({2}, {3, 4})}, {longs({2}, {3, 5})});
  expect_refused(node_of("Sum"), {}, "at least 1");
  const std::vector<double> values = spread(2 * 600, -4, 4);
  std::vector<double> tripled;
  for (const double value : values) tripled.push_back(3 * value);
  const HostTensor x = floats({2, 600}, values);
  expect_op(node_of("Sum"), {x, x, x}, {floats({2, 600}, tripled)});
}

// More than a program has: part after part, of which the last ends a Mean.
TEST(Variadic, HundredsOfOperands) {
  for (const std::int64_t count : {64, 65, 127, 128, 300}) {
    SCOPED_TRACE(count);
    std::vector<HostTensor> operands;
    std::vector<double> sums(24, 0), means, greatest(24, -INFINITY);
    for (std::int64_t k = 0; k < count; ++k) {
      const bool spreads = k % 7 == 3;  // a value a channel
      operands.push_back(floats(spreads ? Dims{3, 1, 1} : Dims{2, 3, 2, 2}, spread(spreads ? 3 : 24, -1.0 * k, k)));
      for (std::int64_t i = 0; i < 24; ++i) {
        const double value = operands.back().at(spreads ? i / 4 % 3 : i);
        sums[i] += value;
        greatest[i] = std::max(greatest[i], value);
      }
    }
    for (const double sum : sums) means.push_back(sum / static_cast<double>(count));
    expect_op(node_of("Sum"), operands, {floats({2, 3, 2, 2}, sums)}, 1e-2, 1e-5);
    expect_op(node_of("Mean"), operands, {floats({2, 3, 2, 2}, means)}, 1e-4, 1e-5);
    expect_op(node_of("Max"), operands, {floats({2, 3, 2, 2}, greatest)}, 0, 0);
  }
}

TEST(Where, BroadcastsAllThree) {
  expect_op(node_of("Where"), {tensor(DataType::boolean, {2, 1}, {1, 0}), floats({3}, {1, 2, 3}), floats({}, {9})},
            {floats({2, 3}, {1, 2, 3, 9, 9, 9})});
  expect_op(node_of("Where"), {tensor(DataType::boolean, {2}, {1, 0}), longs({2}, {1, 2}), longs({2}, {3, 4})},
            {longs({2}, {1, 4})});
  expect_refused(node_of("Where"), {floats({1}, {1}), floats({1}, {1}), floats({1}, {1})}, "input 0 has type f32");
}

TEST(Cast, BetweenTypes) {
  const auto to = [](std::int64_t number) { return std::map<std::string, Attribute>{{"to", number}}; };
  const HostTensor x = floats({4}, {-1.7, 0, 2.5, 300.2});
  expect_op(node_of("Cast", to(7)), {x}, {longs({4}, {-1, 0, 2, 300})});
  expect_op(node_of("Cast", to(9)), {x}, {tensor(DataType::boolean, {4}, {1, 0, 1, 1})});
  expect_op(node_of("Cast", to(11)), {floats({1}, {0.5})}, {tensor(DataType::f64, {1}, {0.5})});
  expect_op(node_of("Cast", to(10)), {floats({1}, {70000})}, {tensor(DataType::f16, {1}, {INFINITY})});
  expect_op(node_of("Cast", to(2)), {longs({3}, {1, 256, -1})}, {tensor(DataType::u8, {3}, {1, 0, 255})});
  expect_op(node_of("Cast", to(1)), {tensor(DataType::boolean, {2}, {0, 1})}, {floats({2}, {0, 1})});
  expect_op(node_of("Cast", to(13)), {floats({1}, {1.5e19})}, {tensor(DataType::u64, {1}, {1.5e19})}, 0, 1e-6);
  expect_op(node_of("Cast", to(17)), {floats({2}, {1000, -464})}, {tensor(DataType::f8_e4m3, {2}, {448, -448})});
  auto unsaturated = to(17);
  unsaturated["saturate"] = std::int64_t{0};
  expect_op(node_of("Cast", unsaturated), {floats({2}, {1000, 464})}, {tensor(DataType::f8_e4m3, {2}, {NAN, 448})});
  expect_op(node_of("Cast", {{"to", std::string("INT32")}}, 5), {x}, {tensor(DataType::s32, {4}, {-1, 0, 2, 300})});
  expect_op(node_of("CastLike"), {x, longs({1}, {0})}, {longs({4}, {-1, 0, 2, 300})});
  expect_refused(node_of("Cast", to(8)), {x}, "to=8");
  expect_refused(node_of("Cast"), {x}, "'to' is required");
  std::vector<double> many = spread(3000, -100, 100), whole;
  for (const double value : many) whole.push_back(std::trunc(value));
  expect_op(node_of("Cast", to(3)), {floats({3000}, many)}, {tensor(DataType::s8, {3000}, whole)});
}

// With vectors as without: sizes that 32 and 64 bits do not hold, NaN, whole numbers of every kind.
// f16 has 11 bits; more than a chunk of each, with a part.
TEST(Cast, WholeNumbersToHalves) {
  const NodeDesc to_f16 = node_of("Cast", {{"to", std::int64_t{10}}}),
                 to_f32 = node_of("Cast", {{"to", std::int64_t{1}}});
  const std::vector<double> some = {0, 1, -1, 2047, 2049, 2051, -2049, 65519, 65520, -70000, 2147483647},
                            halves = {0, 1, -1, 2047, 2048, 2052, -2048, 65504, INFINITY, -INFINITY, INFINITY};
  std::vector<double> values, expected, bits;
  for (std::size_t i = 0; i < 1100; ++i) {
    values.push_back(some[i % some.size()]);
    expected.push_back(halves[i % some.size()]);
    bits.push_back(i % 3 == 0 ? 1 : 0);
  }
  for (const DataType type : {DataType::s32, DataType::s64}) {
    expect_op(to_f16, {tensor(type, {1100}, values)}, {tensor(DataType::f16, {1100}, expected)}, 0, 0);
  }
  expect_op(to_f16, {tensor(DataType::boolean, {1100}, bits)}, {tensor(DataType::f16, {1100}, bits)}, 0, 0);
  expect_op(to_f32, {tensor(DataType::boolean, {1100}, bits)}, {floats({1100}, bits)}, 0, 0);
}

TEST(Cast, VectorsTruncateAsPlainLoops) {
  std::mt19937 random(5);
  for (const DataType from : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const std::int64_t to : {6, 7, 5, 12, 13, 9}) {
      expect_as_portable(node_of("Cast", {{"to", to}}), {varied(from, {2, 3, 7, 11}, random)});
      expect_as_portable(node_of("Cast", {{"to", to}}), {varied(from, {1, 2, 30, 31}, random)});
    }
  }
  const HostTensor wide = tensor(DataType::s64, {5}, {0, -1, 255, 4294967297, -2147483649});
  expect_op(node_of("Cast", {{"to", std::int64_t{6}}}), {wide},
            {tensor(DataType::s32, {5}, {0, -1, 255, 1, 2147483647})});
  expect_op(node_of("Cast", {{"to", std::int64_t{1}}}), {wide}, {floats({5}, {0, -1, 255, 4294967297, -2147483649})});
  expect_op(node_of("Cast", {{"to", std::int64_t{9}}}), {wide}, {tensor(DataType::boolean, {5}, {0, 1, 1, 1, 1})});
}

// Every pair, elements side by side and apart, more than a chunk of them: small numbers that both types hold.
TEST(Cast, BetweenAllTypes) {
  constexpr std::int64_t kCount = 600;
  const auto holds = [](DataType type, double value) {
    std::uint64_t element = 0;
    store_from_double(type, &element, 0, value);
    return load_as_double(type, &element, 0) == value;
  };
  const auto each_type = [](auto f) {
    for (int i = 0; i <= static_cast<int>(DataType::f8_e8m0); ++i) {
      if (contains(kEveryType, static_cast<DataType>(i))) f(static_cast<DataType>(i));
    }
  };
  const auto apart = [](DataType type, std::int64_t step) {
    TensorDesc desc = TensorDesc::packed(type, {kCount});
    desc.strides = {step};
    return desc;
  };
  const auto team = make_cpu_team(1);
  const auto check = [&](DataType from, DataType to, std::int64_t x_step, std::int64_t y_step) {
    std::vector<double> values;
    for (const double value : {-2.0, 0.0, 1.0, 3.0, 2.0, -1.0}) {
      if (holds(from, value) && holds(to, value)) values.push_back(value);
    }
    const HostTensor x = *HostTensor::allocate(TensorDesc::packed(from, {kCount * x_step}));
    const HostTensor y = *HostTensor::allocate(TensorDesc::packed(to, {kCount * y_step}));
    for (std::int64_t i = 0; i < kCount; ++i) {
      store_from_double(from, x.data.get(), i * x_step, values[static_cast<std::size_t>(i) % values.size()]);
    }
    const NodeDesc node = node_of("Cast", {{"to", onnx_number(to)}});
    const Input input{true, apart(from, x_step), nullptr};
    const TensorDesc output = apart(to, y_step);
    PlanRequest request;
    request.cpu = cpu_features();
    const auto plan = *find_row("", "Cast")->implementation->plan(node, {&input, 1}, {&output, 1}, request);
    const void* const in = x.data.get();
    void* const out = y.data.get();
    ASSERT_TRUE(plan->execute({&in, 1}, {&out, 1}, ExecContext{*team}).ok());
    for (std::int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(load_as_double(to, out, i * y_step), values[static_cast<std::size_t>(i) % values.size()])
          << name_of(from) << " to " << name_of(to) << ", element " << i << " of steps " << x_step << " and " << y_step;
    }
  };
  each_type([&](DataType from) {
    each_type([&](DataType to) {
      check(from, to, 1, 1);
      check(from, to, 3, 2);
    });
  });
}

TEST(Cast, ToAndFromFewBits) {
  const auto to = [](std::int64_t number) { return std::map<std::string, Attribute>{{"to", number}}; };
  const HostTensor x = floats({5}, {-9, -1.7, 2.5, 7, 15});
  // The lowest bits are kept.
  expect_op(node_of("Cast", to(22)), {x}, {tensor(DataType::s4, {5}, {7, -1, 2, 7, -1})});
  expect_op(node_of("Cast", to(21)), {x}, {tensor(DataType::u4, {5}, {7, 15, 2, 7, 15})});
  expect_op(node_of("Cast", to(26)), {x}, {tensor(DataType::s2, {5}, {-1, -1, -2, -1, -1})});
  expect_op(node_of("Cast", to(25)), {longs({2}, {-1, 6})}, {tensor(DataType::u2, {2}, {3, 2})});
  expect_op(node_of("Cast", to(1)), {tensor(DataType::s4, {2}, {-8, 7})}, {floats({2}, {-8, 7})});
  expect_op(node_of("Cast", to(3)), {tensor(DataType::u4, {2}, {0, 15})}, {tensor(DataType::s8, {2}, {0, 15})});
  expect_op(node_of("Cast", to(23)), {floats({4}, {0.3, -100, INFINITY, 2.5})},
            {tensor(DataType::f4_e2m1, {4}, {0.5, -6, 6, 2})});
  expect_op(node_of("Cast", to(18)), {floats({2}, {1000, NAN})}, {tensor(DataType::f8_e4m3fnuz, {2}, {240, NAN})});
  auto unsaturated = to(20);
  unsaturated["saturate"] = std::int64_t{0};
  expect_op(node_of("Cast", unsaturated), {floats({2}, {61440, 61439})},
            {tensor(DataType::f8_e5m2fnuz, {2}, {NAN, 57344})});
  // Powers of two.
  for (const auto& [mode, expected] : std::vector<std::pair<std::string, std::vector<double>>>{
           {"up", {4, 4, 2, 0x1p127}}, {"down", {2, 2, 2, 0x1p127}}, {"nearest", {2, 4, 2, 0x1p127}}}) {
    auto attributes = to(24);
    attributes["round_mode"] = mode;
    expect_op(node_of("Cast", attributes, 24), {floats({4}, {2.5, 3, 2, 3e38})},
              {tensor(DataType::f8_e8m0, {4}, expected)});
  }
  auto attributes = to(24);
  attributes["round_mode"] = std::string("sideways");
  expect_refused(node_of("Cast", attributes, 24), {x}, "round_mode='sideways'");
}

TEST(BitCast, KeepsTheBits) {
  const auto to = [](int type) { return node_of("BitCast", {{"to", std::int64_t{type}}}, 26); };
  const HostTensor x = floats({2, 2}, {1, -2, 0, 0.5});
  expect_op(to(6), {x}, {tensor(DataType::s32, {2, 2}, {0x3f800000, -0x40000000, 0, 0x3f000000})});
  expect_op(to(1), {tensor(DataType::u32, {1}, {0x40490fdb})}, {floats({1}, {3.14159274101257324})});
  expect_op(to(2), {tensor(DataType::s8, {2}, {-1, 5})}, {tensor(DataType::u8, {2}, {255, 5})});
  expect_op(to(1), {x}, {x});
  expect_refused(to(7), {x}, "to=s64 has not as many bits as input 0, which is f32");
  expect_refused(to(9), {tensor(DataType::u8, {1}, {2})}, "bool");
  expect_refused(to(22), {tensor(DataType::u8, {1}, {2})}, "8 bits");
}

TEST(Identity, AndDropoutPassThrough) {
  const HostTensor x = floats({1, 2, 2, 2}, spread(8, -1, 1));
  expect_op(node_of("Identity"), {x}, {x});
  expect_op(node_of("Dropout", {{"ratio", 0.3}}, 7), {x}, {x});
  expect_op(node_of("Dropout", {}, 13, 2), {x},
            {x, tensor(DataType::boolean, {1, 2, 2, 2}, std::vector<double>(8, 1))});
  expect_op(node_of("Dropout", {}, 7, 2), {x}, {x, floats({1, 2, 2, 2}, std::vector<double>(8, 1))});
  const HostTensor yes = tensor(DataType::boolean, {}, {1});
  expect_op(node_of("Dropout", {}, 13), {x, floats({}, {0}), yes}, {x});
  expect_refused(node_of("Dropout", {}, 13), {x, floats({}, {0.5}), yes}, "training_mode=1 with ratio=0.5");
}

}  // namespace
}  // namespace convoy::ops
