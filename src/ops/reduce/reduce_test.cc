#include "ops/element.h"
#include "ops/math_types.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

struct Reduction {
  const char* op;
  double (*formula)(const std::vector<double>&);
};

double sum_of(const std::vector<double>& v, double (*term)(double)) {
  double sum = 0;
  for (const double x : v) sum += term(x);
  return sum;
}

const Reduction kReductions[] = {
    {"ReduceSum", [](const std::vector<double>& v) { return sum_of(v, [](double x) { return x; }); }},
    {"ReduceMean", [](const std::vector<double>& v) { return sum_of(v, [](double x) { return x; }) / v.size(); }},
    {"ReduceMax", [](const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }},
    {"ReduceMin", [](const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }},
    {"ReduceProd",
     [](const std::vector<double>& v) {
       double product = 1;
       for (const double x : v) product *= x;
       return product;
     }},
    {"ReduceL1", [](const std::vector<double>& v) { return sum_of(v, [](double x) { return std::abs(x); }); }},
    {"ReduceL2", [](const std::vector<double>& v) { return std::sqrt(sum_of(v, [](double x) { return x * x; })); }},
    {"ReduceLogSum", [](const std::vector<double>& v) { return std::log(sum_of(v, [](double x) { return x; })); }},
    {"ReduceLogSumExp",
     [](const std::vector<double>& v) { return std::log(sum_of(v, [](double x) { return std::exp(x); })); }},
    {"ReduceSumSquare", [](const std::vector<double>& v) { return sum_of(v, [](double x) { return x * x; }); }},
};

// Every reduction over every set of axes of a 4-dim tensor, against its formula.
TEST(Reduce, EveryOperatorOverEverySetOfAxes) {
  const Dims dims = {2, 3, 4, 5};
  const std::vector<double> values = spread(120, 0.5, 1.5);  // positive, for the logarithms
  for (const Reduction& reduction : kReductions) {
    for (int mask = 1; mask < 16; ++mask) {
      Dims kept = dims, dropped;
      std::vector<double> axes;
      for (int d = 0; d < 4; ++d) {
        if (mask >> d & 1) {
          kept[d] = 1;
          axes.push_back(mask % 2 == 0 ? d : d - 4);
        } else {
          dropped.push_back(dims[d]);
        }
      }
      std::vector<std::vector<double>> groups(TensorDesc::packed(DataType::f32, kept).elements());
      for (int i = 0; i < 120; ++i) {
        const int at[] = {i / 60, i / 20 % 3, i / 5 % 4, i % 5};
        std::int64_t group = 0;
        for (int d = 0; d < 4; ++d) group = group * kept[d] + (kept[d] == 1 ? 0 : at[d]);
        groups[group].push_back(static_cast<float>(values[i]));
      }
      std::vector<double> expected;
      for (const auto& group : groups) expected.push_back(reduction.formula(group));
      const HostTensor axes_input = longs({static_cast<std::int64_t>(axes.size())}, axes);
      expect_op(node_of(reduction.op), {floats(dims, values), axes_input}, {floats(kept, expected)}, 1e-5);
      const std::vector<std::int64_t> axes_attribute(axes.begin(), axes.end());
      expect_op(node_of(reduction.op, {{"axes", axes_attribute}, {"keepdims", std::int64_t{0}}}, 11),
                {floats(dims, values)}, {floats(dropped, expected)}, 1e-5);
    }
  }
}

TEST(Reduce, SingleElements) {
  const std::vector<double> values = spread(60, 0.5, 3);
  for (const DataType type : {DataType::f32, DataType::f64}) {
    const HostTensor x = tensor(type, {3, 1, 20, 1}, values);
    for (const Reduction& reduction : kReductions) {
      std::vector<double> expected;
      for (std::int64_t i = 0; i < 60; ++i) expected.push_back(reduction.formula({x.at(i)}));
      expect_op(node_of(reduction.op), {x, longs({2}, {1, 3})}, {tensor(type, {3, 1, 20, 1}, expected)});
      expect_op(node_of(reduction.op, {{"keepdims", std::int64_t{0}}}), {x, longs({2}, {1, 3})},
                {tensor(type, {3, 20}, expected)});
    }
  }
}

// Rows that fill vectors, pieces of them and single columns, few rows and more than stay near.
TEST(Reduce, ExtremesOfColumnsOfIntegers) {
  for (const DataType type : {DataType::s8, DataType::u8, DataType::s16, DataType::s32, DataType::boolean}) {
    const double least = type == DataType::s8    ? -128
                         : type == DataType::s16 ? -32768
                         : type == DataType::s32 ? -7e8
                                                 : 0;
    const double most = type == DataType::boolean ? 1 : type == DataType::u8 ? 255 : -least - 1;
    for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{{7, 8}, {3, 1}, {2, 93}, {500, 73}}) {
      std::vector<double> values(static_cast<std::size_t>(2 * rows * columns));
      std::vector<double> largest(static_cast<std::size_t>(2 * columns), least), smallest(largest.size(), most);
      for (int i = 0; i < 2 * rows * columns; ++i) {
        const double value = std::floor(least + (most - least + 1) * ((i * 7919LL + i / columns) % 1009) / 1009);
        const std::size_t to = static_cast<std::size_t>(i / (rows * columns) * columns + i % columns);
        values[static_cast<std::size_t>(i)] = value;
        largest[to] = std::max(largest[to], value);
        smallest[to] = std::min(smallest[to], value);
      }
      const HostTensor x = tensor(type, {2, rows, columns}, values);
      expect_op(node_of("ReduceMax"), {x, longs({1}, {1})}, {tensor(type, {2, 1, columns}, largest)});
      expect_op(node_of("ReduceMin"), {x, longs({1}, {1})}, {tensor(type, {2, 1, columns}, smallest)});
    }
  }
}

// Few columns of many rows, and rows of a few: of every number about that of what is taken at a time.
// Of every type, in rows and in columns: a sign is not taken for a bit, nor a bit for a sign.
TEST(Reduce, LargestAndLowestNumbers) {
  struct Case {
    DataType type;
    double lowest, largest;
  };
  for (const auto& [type, lowest, largest] :
       {Case{DataType::s8, -0x1p7, 127}, Case{DataType::u8, 0, 255}, Case{DataType::s16, -0x1p15, 32767},
        Case{DataType::u16, 0, 65535}, Case{DataType::s32, -0x1p31, 2147483647}, Case{DataType::u32, 0, 4294967295},
        Case{DataType::s64, -0x1p63, 0x1p62}, Case{DataType::u64, 0, 0x1.8p63}}) {
    constexpr std::int64_t kLines = 37, kTerms = 70;
    std::vector<double> values(kLines * kTerms, largest), across(kLines * kTerms, largest);
    for (std::int64_t line = 0; line < kLines; ++line) {
      values[line * kTerms + line] = lowest;
      across[line * kLines + line] = lowest;
    }
    const HostTensor rows = tensor(type, {kLines, kTerms}, values), columns = tensor(type, {kTerms, kLines}, across);
    const std::vector<double> most(kLines, largest), least(kLines, lowest);
    for (const auto& [op, made] : {std::pair{"ReduceMax", most}, {"ReduceMin", least}}) {
      expect_op(node_of(op), {rows, longs({1}, {1})}, {tensor(type, {kLines, 1}, made)}, 0, 0);
      expect_op(node_of(op), {columns, longs({1}, {0})}, {tensor(type, {1, kLines}, made)}, 0, 0);
    }
    if (size_of(type) == 8) continue;  // sums wrap around
    const std::vector<double> mean(kLines, std::trunc((largest * (kTerms - 1) + lowest) / kTerms));
    expect_op(node_of("ReduceMean"), {rows, longs({1}, {1})}, {tensor(type, {kLines, 1}, mean)}, 0, 0);
    expect_op(node_of("ReduceMean"), {columns, longs({1}, {0})}, {tensor(type, {1, kLines}, mean)}, 0, 0);
  }
}

TEST(Reduce, FewColumnsAndShortRows) {
  for (const DataType type : {DataType::f32, DataType::f64, DataType::f16, DataType::s8, DataType::u8, DataType::s16,
                              DataType::s32, DataType::u32, DataType::s64}) {
    for (const std::int64_t columns : {1, 2, 3, 4, 7, 8, 15, 16, 17, 40}) {
      for (const std::int64_t rows : {1, 2, 3, 18, 37, 1025}) {
        std::vector<double> values(static_cast<std::size_t>(rows * columns));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 11 == 3 ? i % 7 : 0);
        std::vector<double> sums(static_cast<std::size_t>(columns)), largest(sums),
            row_sums(static_cast<std::size_t>(rows));
        std::vector<double> row_largest(row_sums);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t column = i % static_cast<std::size_t>(columns), row = i / static_cast<std::size_t>(columns);
          sums[column] += values[i];
          row_sums[row] += values[i];
          largest[column] = std::max(largest[column], values[i]);
          row_largest[row] = std::max(row_largest[row], values[i]);
        }
        SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(rows) + "x" + std::to_string(columns));
        const HostTensor x = tensor(type, {rows, columns}, values);
        expect_op(node_of("ReduceMax"), {x, longs({1}, {0})}, {tensor(type, {1, columns}, largest)}, 0, 0);
        expect_op(node_of("ReduceMax"), {x, longs({1}, {1})}, {tensor(type, {rows, 1}, row_largest)}, 0, 0);
        if (size_of(type) == 1 && rows > 100) continue;  // sums that a byte has not
        expect_op(node_of("ReduceSum"), {x, longs({1}, {0})}, {tensor(type, {1, columns}, sums)}, 0, 0);
        expect_op(node_of("ReduceSum"), {x, longs({1}, {1})}, {tensor(type, {rows, 1}, row_sums)}, 0, 0);
      }
    }
  }
}

// Many pieces of few elements, more of them than are gathered at a time.
TEST(Reduce, ExponentialsOfManyPieces) {
  const Dims dims = {1, 40, 12, 4, 3};
  std::vector<double> values(40 * 12 * 4 * 3), sums(4, 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(i * 7919 % 13) - 6;
    sums[i / 3 % 4] += std::exp(values[i]);
  }
  for (double& sum : sums) sum = std::log(sum);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::s32}) {
    std::vector<double> made = sums;
    if (type == DataType::s32) std::ranges::transform(made, made.begin(), [](double v) { return std::trunc(v); });
    expect_op(node_of("ReduceLogSumExp"), {tensor(type, dims, values), longs({4}, {0, 1, 2, 4})},
              {tensor(type, {1, 1, 1, 4, 1}, made)}, 1e-5, 1e-3);
  }
}

// Lines of few elements, a few beside each other, more of them than are gathered at a time.
TEST(Reduce, ManyShortLines) {
  for (const std::int64_t beside : {1, 2, 3, 4, 8, 9}) {
    constexpr std::int64_t kOuter = 611, kSize = 5;
    const Dims dims = {kOuter, kSize, beside}, kept = {kOuter, 1, beside};
    for (const DataType type :
         {DataType::f32, DataType::f16, DataType::f64, DataType::s8, DataType::u8, DataType::s32, DataType::s64}) {
      std::vector<double> values(static_cast<std::size_t>(kOuter * kSize * beside));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 13);
      std::vector<double> largest, sums, logarithms;
      for (std::int64_t o = 0; o < kOuter; ++o) {
        for (std::int64_t i = 0; i < beside; ++i) {
          double top = 0, sum = 0, exponentials = 0;
          for (std::int64_t k = 0; k < kSize; ++k) {
            const double v = values[static_cast<std::size_t>((o * kSize + k) * beside + i)];
            top = std::max(top, v);
            sum += v;
            exponentials += std::exp(v);
          }
          largest.push_back(top);
          sums.push_back(sum);
          logarithms.push_back(std::log(exponentials));
        }
      }
      SCOPED_TRACE(std::string(name_of(type)) + ", beside " + std::to_string(beside));
      const HostTensor x = tensor(type, dims, values), axis = longs({1}, {1});
      expect_op(node_of("ReduceMax"), {x, axis}, {tensor(type, kept, largest)}, 0, 0);
      expect_op(node_of("ReduceSum"), {x, axis}, {tensor(type, kept, sums)}, 0, 0);
      if (contains(kMathFloats, type)) {
        expect_op(node_of("ReduceLogSumExp"), {x, axis}, {tensor(type, kept, logarithms)}, 1e-5, 1e-3);
      }
    }
  }
}

// Beside the largest nothing else counts, be it beyond what f32 holds.
TEST(Reduce, ExponentialsOfIntegers) {
  const HostTensor axis = longs({1}, {1});
  constexpr double kBig = 2147483000, kWide = 9007199254740000;
  expect_op(node_of("ReduceLogSumExp"),
            {tensor(DataType::s32, {2, 3}, {kBig, 5, -kBig, -kBig, -kBig - 300, -kBig - 600}), axis},
            {tensor(DataType::s32, {2, 1}, {kBig, -kBig})}, 0, 0);
  expect_op(node_of("ReduceLogSumExp"), {longs({1, 2}, {kWide, kWide - 40}), axis}, {longs({1, 1}, {kWide})}, 0, 0);
  std::vector<double> many(1500, 3);  // 3 + log(1500)
  expect_op(node_of("ReduceLogSumExp"), {longs({1500, 1}, many), longs({1}, {0})}, {longs({1, 1}, {10})}, 0, 0);
  expect_op(node_of("ReduceLogSumExp"), {longs({1, 1500}, many), axis}, {longs({1, 1}, {10})}, 0, 0);
}

TEST(Reduce, AxesLeftOut) {
  const HostTensor x = floats({2, 2}, {-1, 2, 3, 4});
  expect_op(node_of("ReduceSum"), {x}, {floats({1, 1}, {8})});
  expect_op(node_of("ReduceSum"), {x, absent()}, {floats({1, 1}, {8})});
  expect_op(node_of("ReduceSum", {{"noop_with_empty_axes", std::int64_t{1}}}), {x, longs({0}, {})}, {x});
  const auto of_each = [](const char* op) { return node_of(op, {{"noop_with_empty_axes", std::int64_t{1}}}); };
  for (const char* op : {"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp"}) {
    expect_op(of_each(op), {x}, {x});
  }
  expect_op(of_each("ReduceL1"), {x}, {floats({2, 2}, {1, 2, 3, 4})});
  expect_op(of_each("ReduceL2"), {x, longs({0}, {})}, {floats({2, 2}, {1, 2, 3, 4})});
  expect_op(of_each("ReduceSumSquare"), {x}, {floats({2, 2}, {1, 4, 9, 16})});
  expect_op(of_each("ReduceLogSum"), {x}, {floats({2, 2}, {NAN, std::log(2.), std::log(3.), std::log(4.)})}, 1e-6);
  expect_op(node_of("ReduceMean"), {floats({}, {3})}, {floats({}, {3})});
  expect_op(node_of("ReduceL1"), {floats({}, {-3})}, {floats({}, {3})});
  expect_refused(node_of("ReduceSum"), {x, longs({1}, {2})}, "axes[0]=2");
  expect_refused(node_of("ReduceSum", {{"axes", std::vector<std::int64_t>{0, 0}}}, 11), {x},
                 "axes[1]=0 is given twice");
}

TEST(Reduce, OfNothing) {
  const HostTensor x = floats({2, 0}, {});
  const HostTensor axis = longs({1}, {1});
  const auto twice = [](double value) { return floats({2, 1}, {value, value}); };
  expect_op(node_of("ReduceSum"), {x, axis}, {twice(0)});
  expect_op(node_of("ReduceProd"), {x, axis}, {twice(1)});
  expect_op(node_of("ReduceMax"), {x, axis}, {twice(-INFINITY)});
  expect_op(node_of("ReduceMin"), {x, axis}, {twice(INFINITY)});
  expect_op(node_of("ReduceLogSumExp"), {x, axis}, {twice(-INFINITY)});
  expect_op(node_of("ReduceMean"), {x, axis}, {twice(NAN)});
  for (const DataType type : {DataType::s8, DataType::u8, DataType::s32, DataType::boolean}) {
    const HostTensor none = tensor(type, {2, 0}, {});
    const double lowest = type == DataType::s8 ? -128 : type == DataType::s32 ? INT32_MIN : 0;
    const double highest = type == DataType::s8    ? 127
                           : type == DataType::u8  ? 255
                           : type == DataType::s32 ? INT32_MAX
                                                   : 1;
    expect_op(node_of("ReduceMax"), {none, axis}, {tensor(type, {2, 1}, {lowest, lowest})});
    expect_op(node_of("ReduceMin"), {none, axis}, {tensor(type, {2, 1}, {highest, highest})});
  }
}

// Over axes of any kind, of which extremes, sums and products are exact.
TEST(Reduce, EveryTypeOverOneAxis) {
  struct Exact {
    const char* op;
    double start;
    double (*take)(double fold, double v);
  };
  const Exact reductions[] = {
      {"ReduceMax", -1e9, [](double fold, double v) { return std::max(fold, v); }},
      {"ReduceMin", 1e9, [](double fold, double v) { return std::min(fold, v); }},
      {"ReduceSum", 0, [](double fold, double v) { return fold + v; }},
      {"ReduceL1", 0, [](double fold, double v) { return fold + std::abs(v); }},
      {"ReduceProd", 1, [](double fold, double v) { return fold * v; }},
  };
  for (const DataType type : {DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::s64, DataType::s32,
                              DataType::s16, DataType::s8, DataType::u64, DataType::u32, DataType::u16, DataType::u8}) {
    const bool is_unsigned = contains(kUnsignedIntegers, type);
    for (const Dims& dims : {Dims{3, 5, 37}, Dims{5, 18, 3}, Dims{1, 7, 16}, Dims{2, 1, 33}}) {
      std::vector<double> values(static_cast<std::size_t>(dims[0] * dims[1] * dims[2]));
      // Few of them are no 1: products and sums are small.
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = i % 13 == 5 ? 3 : i % 11 == 7 && !is_unsigned ? -1 : 1;
      for (int axis = 0; axis < 3; ++axis) {
        Dims kept = dims;
        kept[axis] = 1;
        const Dims step = {kept[1] * kept[2], kept[2], 1};
        for (const Exact& exact : reductions) {
          std::vector<double> folds(static_cast<std::size_t>(step[0] * kept[0]), exact.start);
          for (std::size_t i = 0; i < values.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            const std::int64_t o[] = {at / (dims[1] * dims[2]), at / dims[2] % dims[1], at % dims[2]};
            std::int64_t to = 0;
            for (int d = 0; d < 3; ++d) to += d == axis ? 0 : o[d] * step[d];
            folds[static_cast<std::size_t>(to)] = exact.take(folds[static_cast<std::size_t>(to)], values[i]);
          }
          SCOPED_TRACE(std::string(exact.op) + " of " + std::string(name_of(type)));
          expect_op(node_of(exact.op), {tensor(type, dims, values), longs({1}, {static_cast<double>(axis)})},
                    {tensor(type, kept, folds)}, 0, 0);
        }
      }
    }
  }
}

// Every type, along axes that are contiguous and axes that are not, over more elements than are taken at once.
TEST(Reduce, EveryTypeInEitherDirection) {
  constexpr int kRows = 1030, kColumns = 3;
  std::vector<double> values(kRows * kColumns);
  for (int i = 0; i < kRows * kColumns; ++i) values[i] = i % 7 == 0 ? 1 : 0;
  std::vector<double> sums(kColumns, 0), row_sums(kRows, 0);
  for (int i = 0; i < kRows * kColumns; ++i) {
    sums[i % kColumns] += values[i];
    row_sums[i / kColumns] += values[i];
  }
  std::vector<double> transposed(values.size());
  for (int i = 0; i < kRows * kColumns; ++i) transposed[i % kColumns * kRows + i / kColumns] = values[i];
  for (const DataType type : {DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::s64, DataType::s32,
                              DataType::s16, DataType::u64, DataType::u32, DataType::u16}) {
    const HostTensor x = tensor(type, {kRows, kColumns}, values);
    expect_op(node_of("ReduceSum"), {x, longs({1}, {0})}, {tensor(type, {1, kColumns}, sums)});
    expect_op(node_of("ReduceSumSquare"), {x, longs({1}, {1})}, {tensor(type, {kRows, 1}, row_sums)});
    expect_op(node_of("ReduceL1"), {tensor(type, {kColumns, kRows}, transposed), longs({1}, {1})},
              {tensor(type, {kColumns, 1}, sums)});
  }
}

TEST(Reduce, IntegersAndExtremes) {
  const HostTensor x = tensor(DataType::s32, {2, 3}, {-7, 2, 3, 4, 5, 7});
  const HostTensor axis = longs({1}, {1});
  const auto pair = [](double a, double b) { return tensor(DataType::s32, {2, 1}, {a, b}); };
  expect_op(node_of("ReduceSum"), {x, axis}, {pair(-2, 16)});
  expect_op(node_of("ReduceMean"), {x, axis}, {pair(0, 5)});
  expect_op(node_of("ReduceL1"), {x, axis}, {pair(12, 16)});
  expect_op(node_of("ReduceMax"), {x, axis}, {pair(3, 7)});
  expect_op(node_of("ReduceProd"), {x, axis}, {pair(-42, 140)});
  expect_op(node_of("ReduceMax"), {tensor(DataType::boolean, {2}, {0, 1})}, {tensor(DataType::boolean, {1}, {1})});
  expect_op(node_of("ReduceMax"), {floats({3}, {1, NAN, 2})}, {floats({1}, {NAN})});
  expect_op(node_of("ReduceLogSumExp"), {floats({2}, {1000, 1000})}, {floats({1}, {1000 + std::log(2.0)})});
  expect_op(node_of("ReduceLogSumExp"), {floats({2}, {-INFINITY, -INFINITY})}, {floats({1}, {-INFINITY})});
}

// A long sum must not lose the small terms: a float accumulator would stop at 2^24.
TEST(Reduce, LongSumsKeepTheirPrecision) {
  const std::int64_t count = (1 << 24) + 4096;
  HostTensor x = *HostTensor::allocate(TensorDesc::packed(DataType::f32, {count}));
  std::fill_n(x.as<float>(), count, 1.0f);
  const auto y = run_op(node_of("ReduceSum"), {x});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ((*y)[0].at(0), static_cast<double>(count));
}

TEST(ArgMax, FirstOrLastOfEquals) {
  const HostTensor x = floats({2, 3}, {1, 5, 5, 4, 4, 0});
  const auto with = [](std::int64_t axis, std::int64_t keep, std::int64_t last) {
    return std::map<std::string, Attribute>{{"axis", axis}, {"keepdims", keep}, {"select_last_index", last}};
  };
  expect_op(node_of("ArgMax", with(1, 1, 0)), {x}, {longs({2, 1}, {1, 0})});
  expect_op(node_of("ArgMax", with(-1, 0, 1)), {x}, {longs({2}, {2, 1})});
  expect_op(node_of("ArgMin", with(0, 1, 0)), {x}, {longs({1, 3}, {0, 1, 1})});
  expect_op(node_of("ArgMax", with(1, 1, 0)), {floats({1, 3, 2, 1}, {1, 9, 5, 4, 2, 3})},
            {longs({1, 1, 2, 1}, {1, 0})});
  expect_refused(node_of("ArgMax", with(1, 1, 0)), {floats({2, 0}, {})}, "size 0 along axis 1");
}

TEST(ArgMax, LongRowsOfIntegers) {
  constexpr std::int64_t kSize = 333;
  for (const DataType type : {DataType::u8, DataType::s8, DataType::s16, DataType::s32, DataType::s64}) {
    std::vector<double> values(2 * kSize, 50);
    values[70] = values[250] = 90;               // of the first row
    values[kSize] = values[2 * kSize - 1] = 90;  // of the second
    values[99] = values[300] = values[kSize + 7] = 3;
    const HostTensor x = tensor(type, {2, kSize}, values);
    const auto with = [](std::int64_t last) {
      return std::map<std::string, Attribute>{{"axis", std::int64_t{1}}, {"select_last_index", last}};
    };
    expect_op(node_of("ArgMax", with(0)), {x}, {longs({2, 1}, {70, 0})});
    expect_op(node_of("ArgMax", with(1)), {x}, {longs({2, 1}, {250, kSize - 1})});
    expect_op(node_of("ArgMin", with(0)), {x}, {longs({2, 1}, {99, 7})});
    expect_op(node_of("ArgMin", with(1)), {x}, {longs({2, 1}, {300, 7})});
  }
}

TEST(CumSum, AlongEachAxisOfEachType) {
  const Dims dims{3, 4, 47};
  const std::int64_t steps[] = {188, 47, 1};
  for (const DataType type : {DataType::f32, DataType::f64, DataType::f16, DataType::s32, DataType::s8}) {
    std::vector<double> values(564);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 9) - 4;
    for (int axis = 0; axis < 3; ++axis) {
      for (const std::int64_t exclusive : {0, 1}) {
        for (const std::int64_t reverse : {0, 1}) {
          std::vector<double> expected(values.size());
          for (std::int64_t i = 0; i < 564; ++i) {
            const std::int64_t at = i / steps[axis] % dims[axis], first = i - at * steps[axis];
            for (std::int64_t k = 0; k < dims[axis]; ++k) {
              const bool counts = k == at ? exclusive == 0 : (k < at) == (reverse == 0);
              if (counts) expected[i] += values[first + k * steps[axis]];
            }
          }
          expect_op(node_of("CumSum", {{"exclusive", exclusive}, {"reverse", reverse}}),
                    {tensor(type, dims, values), longs({}, {static_cast<double>(axis)})},
                    {tensor(type, dims, expected)});
        }
      }
    }
  }
}

TEST(CumSum, ExclusiveAndReverse) {
  const HostTensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6}), axis = longs({}, {1});
  const auto with = [](std::int64_t exclusive, std::int64_t reverse) {
    return std::map<std::string, Attribute>{{"exclusive", exclusive}, {"reverse", reverse}};
  };
  expect_op(node_of("CumSum"), {x, axis}, {floats({2, 3}, {1, 3, 6, 4, 9, 15})});
  expect_op(node_of("CumSum", with(1, 0)), {x, axis}, {floats({2, 3}, {0, 1, 3, 0, 4, 9})});
  expect_op(node_of("CumSum", with(0, 1)), {x, axis}, {floats({2, 3}, {6, 5, 3, 15, 11, 6})});
  expect_op(node_of("CumSum", with(1, 1)), {x, axis}, {floats({2, 3}, {5, 3, 0, 11, 6, 0})});
  expect_op(node_of("CumSum"), {longs({2, 2}, {1, 2, 3, 4}), longs({1}, {-2})}, {longs({2, 2}, {1, 2, 4, 6})});
  expect_refused(node_of("CumSum"), {x, longs({}, {2})}, "axis=2");
}

TEST(CumProd, ExclusiveAndReverse) {
  const HostTensor x = floats({2, 3}, {1, 2, 3, 4, 0.5, 6}), axis = longs({}, {1});
  const auto with = [](std::int64_t exclusive, std::int64_t reverse) {
    return std::map<std::string, Attribute>{{"exclusive", exclusive}, {"reverse", reverse}};
  };
  expect_op(node_of("CumProd"), {x, axis}, {floats({2, 3}, {1, 2, 6, 4, 2, 12})});
  expect_op(node_of("CumProd", with(1, 0)), {x, axis}, {floats({2, 3}, {1, 1, 2, 1, 4, 2})});
  expect_op(node_of("CumProd", with(0, 1)), {x, axis}, {floats({2, 3}, {6, 6, 3, 12, 3, 6})});
  expect_op(node_of("CumProd", with(1, 1)), {x, axis}, {floats({2, 3}, {6, 3, 1, 3, 6, 1})});
  expect_op(node_of("CumProd"), {longs({2, 2}, {-1, 2, 3, 4}), longs({1}, {-2})}, {longs({2, 2}, {-1, 2, -3, 8})});
}

// Found by fuzzing: the logarithm of a negative sum was converted to an integer.
TEST(Reduce, IntegersThatAResultCantBe) {
  const NodeDesc node = node_of("ReduceLogSum", {{"keepdims", std::int64_t{0}}});
  expect_op(node, {longs({2}, {-3, 1}), longs({1}, {0})}, {longs({}, {0})});
  expect_op(node, {longs({2}, {-1, 1}), longs({1}, {0})}, {longs({}, {-9223372036854775808.0})});
  expect_op(node, {longs({2}, {0, 8}), longs({1}, {0})}, {longs({}, {2})});
}

}  // namespace
}  // namespace convoy::ops
