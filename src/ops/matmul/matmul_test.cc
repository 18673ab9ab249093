// MatMul, Gemm, MatMulInteger, QLinearMatMul: values from the operator specification's examples and by hand.
#include <fmt/format.h>

#include <array>
#include <random>

#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

TEST(MatMul, BatchesAndVectors) {
  const HostTensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor b = floats({3, 2}, {1, 0, 0, 1, 2, -1});
  expect_op(node_of("MatMul"), {a, b}, {floats({2, 2}, {7, -1, 16, -1})});
  expect_op(node_of("MatMul"), {floats({3}, {1, 2, 3}), b}, {floats({2}, {7, -1})});
  expect_op(node_of("MatMul"), {a, floats({3}, {1, 1, 1})}, {floats({2}, {6, 15})});
  expect_op(node_of("MatMul"), {floats({3}, {1, 2, 3}), floats({3}, {1, 1, 1})}, {floats({}, {6})});
  // Batches on the left alone, on the right alone, and broadcast against each other.
  expect_op(node_of("MatMul"), {floats({2, 1, 2}, {1, 2, 3, 4}), floats({2, 1}, {10, 1})},
            {floats({2, 1, 1}, {12, 34})});
  expect_op(node_of("MatMul"), {floats({1, 2}, {1, 2}), floats({2, 2, 1}, {1, 10, 2, 20})},
            {floats({2, 1, 1}, {21, 42})});
  expect_op(node_of("MatMul"), {floats({2, 1, 1, 1}, {2, 3}), floats({2, 1, 1}, {5, 7})},
            {floats({2, 2, 1, 1}, {10, 14, 15, 21})});
  for (const DataType type : {DataType::f64, DataType::f16, DataType::bf16, DataType::s32, DataType::u64}) {
    expect_op(node_of("MatMul"), {tensor(type, {2, 2}, {1, 2, 3, 4}), tensor(type, {2, 1}, {5, 6})},
              {tensor(type, {2, 1}, {17, 39})});
  }
  expect_op(node_of("MatMul"), {tensor(DataType::s32, {1, 1}, {65536}), tensor(DataType::s32, {1, 1}, {65537})},
            {tensor(DataType::s32, {1, 1}, {65536})});  // wraps around
  expect_op(node_of("MatMul"), {floats({2, 0}, {}), floats({0, 1}, {})}, {floats({2, 1}, {0, 0})});
  expect_refused(node_of("MatMul"), {a, a}, "3 columns against 2 rows");
  expect_refused(node_of("MatMul"), {floats({}, {1}), a}, "scalar");
  expect_refused(node_of("MatMul"), {floats({2, 1, 1}, {1, 1}), floats({3, 1, 1}, {1, 1, 1})}, "do not broadcast");
  expect_refused(node_of("MatMul"), {a, tensor(DataType::f64, {3, 1}, {1, 2, 3})}, "they must be the same");
}

TEST(MatMul, Large) {
  const std::int64_t m = 37, k = 53, n = 71;
  const auto a = spread(m * k, -1, 1), b = spread(k * n, -1, 1);
  std::vector<double> c(m * n), transposed(k * n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
    }
  }
  for (std::int64_t l = 0; l < k; ++l) {
    for (std::int64_t j = 0; j < n; ++j) transposed[j * k + l] = b[l * n + j];
  }
  expect_op(node_of("MatMul"), {floats({m, k}, a), floats({k, n}, b)}, {floats({m, n}, c)}, 1e-5);
  expect_op(node_of("MatMul"), {tensor(DataType::f64, {m, k}, a), tensor(DataType::f64, {k, n}, b)},
            {tensor(DataType::f64, {m, n}, c)}, 1e-12, 1e-12);
  expect_op(node_of("Gemm", {{"transB", std::int64_t{1}}}), {floats({m, k}, a), floats({n, k}, transposed)},
            {floats({m, n}, c)}, 1e-5);
}

// c = a . b, or 0.5 * a . b + 2 * bias, from sums in f64; variants: a or b transposed, with a bias of a column or a
// row.
void expect_gemm(DataType type, std::int64_t m, std::int64_t n, std::int64_t k, int variant, double tolerance) {
  SCOPED_TRACE(fmt::format("{} {}x{}x{}, {}", name_of(type), m, n, k, variant));
  const bool transpose_a = variant % 2 != 0, transpose_b = variant / 2 % 2 != 0, added = variant / 4 != 0;
  const auto a = spread(m * k, -1, 1), b = spread(k * n, -1, 1), bias = spread(variant % 3 == 0 ? n : m, -1, 1);
  std::vector<double> a_stored(m * k), b_stored(k * n), c(m * n);
  for (std::int64_t l = 0; l < k; ++l) {
    for (std::int64_t i = 0; i < m; ++i) a_stored[transpose_a ? l * m + i : i * k + l] = a[i * k + l];
    for (std::int64_t j = 0; j < n; ++j) b_stored[transpose_b ? j * k + l : l * n + j] = b[l * n + j];
  }
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
      if (added) c[i * n + j] = 0.5 * c[i * n + j] + 2 * (variant % 3 == 0 ? bias[j] : bias[i]);
    }
  }
  std::map<std::string, Attribute> attributes{{"transA", std::int64_t{transpose_a}},
                                              {"transB", std::int64_t{transpose_b}}};
  std::vector<HostTensor> inputs{tensor(type, transpose_a ? Dims{k, m} : Dims{m, k}, a_stored),
                                 tensor(type, transpose_b ? Dims{n, k} : Dims{k, n}, b_stored)};
  if (added) {
    attributes["alpha"] = 0.5;
    attributes["beta"] = 2.0;
    inputs.push_back(tensor(type, variant % 3 == 0 ? Dims{n} : Dims{m, 1}, bias));
  }
  expect_op(node_of("Gemm", attributes), inputs, {tensor(type, {m, n}, c)}, tolerance, tolerance);
}

// Few rows and many, parts of blocks, matrices that lie the other way, and what is added to them. In f32 those that are
// scaled are by panels, and small products of any kind.
TEST(Gemm, ByPanels) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 70, 40},
                                {3, 33, 17},
                                {4, 1, 300},
                                {7, 65, 1},
                                {97, 70, 129},
                                {15, 64, 257},
                                {70, 16, 33},
                                {33, 17, 20},
                                {40, 300, 70},  // f32 by oneDNN, and what it does not add
                                {150, 1, 90},
                                {5, 3, 0}}) {
    for (int variant = 0; variant < 8; ++variant) {
      expect_gemm(DataType::f64, m, n, k, variant, 1e-12);
      expect_gemm(DataType::f32, m, n, k, variant, 2e-5);
    }
  }
}

// Few terms a sum, and few columns, so that a vector has several rows; or few columns of a transposed matrix; halves by
// panels, too.
TEST(MatMul, ThinProducts) {
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{100, 40, 2},
                                  {300, 7, 5},
                                  {130, 261, 1},
                                  {97, 130, 1},
                                  {4, 33, 3},
                                  {5, 200, 4},
                                  {100, 4, 4},
                                  {131, 3, 8},
                                  {70, 8, 5},
                                  {65, 2, 3}}) {
      const HostTensor a = tensor(type, {2, m, k}, spread(2 * m * k, -1, 1));
      const double relative = type == DataType::f32 ? 1e-5 : 2e-2;
      for (const Dims& dims : {Dims{k, n}, Dims{2, k, n}}) {
        const std::int64_t count = dims.size() == 2 ? k * n : 2 * k * n;
        expect_as_portable(node_of("MatMul"), {a, tensor(type, dims, spread(count, -1, 1))}, relative, relative);
      }
      const HostTensor rows = tensor(type, {m, k}, spread(m * k, -1, 1)),
                       b = tensor(type, {n, k}, spread(n * k, -1, 1));
      for (const Dims& bias : {Dims{n}, Dims{m, 1}, Dims{}}) {
        const HostTensor c = tensor(type, bias, spread(TensorDesc::packed(type, bias).elements(), -1, 1));
        for (const double alpha : {1.0, 0.5}) {
          const NodeDesc node = node_of("Gemm", {{"transB", std::int64_t{1}}, {"alpha", alpha}});
          expect_as_portable(node, {rows, b, c}, relative, relative);
        }
      }
    }
  }
  for (const std::int64_t n : {1, 2, 5, 16}) {
    constexpr std::int64_t kM = 142, kK = 395;
    const HostTensor a = floats({kK, kM}, spread(kK * kM, -1, 1));
    for (const std::int64_t back : {0, 1}) {
      const HostTensor b = floats(back != 0 ? Dims{n, kK} : Dims{kK, n}, spread(n * kK, -1, 1));
      for (const Dims& bias : {Dims{n}, Dims{kM, 1}}) {
        const HostTensor c = floats(bias, spread(bias[0], -1, 1));
        const NodeDesc node = node_of("Gemm", {{"transA", std::int64_t{1}}, {"transB", back}, {"beta", 0.5}});
        expect_as_portable(node, {a, b, c}, 1e-5, 1e-4);
      }
    }
  }
}

// Numbers of rows about the bounds of tiles and of what goes by panels: b's rows lie a power of two apart, and not.
void expect_by_panels(std::int64_t k, std::int64_t n) {
  SCOPED_TRACE(n);
  const auto plain = spread(k * n, -1, 1), bias = spread(n, -1, 1);
  auto special = plain;
  special[300 * n + 5] = INFINITY;  // of a's signs, down a column
  special[k * n - 1] = NAN;         // of the last term of the last column
  auto both = plain;
  both.insert(both.end(), special.begin(), special.end());
  for (const std::int64_t m : {7, 8, 13, 24, 49, 64, 65}) {
    SCOPED_TRACE(m);
    auto a = spread(m * k, -1, 1);
    a[(m - 1) * k + 3] = NAN;  // a row
    const auto product = [&](const std::vector<double>& b, double beta) {
      std::vector<double> c(m * n);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) c[i * n + j] = beta * bias[j];
        for (std::int64_t l = 0; l < k; ++l) {
          for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
        }
      }
      return c;
    };
    const HostTensor x = floats({m, k}, a), y = floats({k, n}, special), z = floats({n}, bias);
    const auto c = product(special, 0), more = product(special, 1);
    expect_op(node_of("MatMul"), {x, y}, {floats({m, n}, c)}, 1e-4, 1e-5);
    expect_op(node_of("Gemm"), {x, y, z}, {floats({m, n}, more)}, 1e-4, 1e-5);
    expect_op(node_of("MatMul", {{"bias", std::int64_t{1}}}), {x, y, z}, {floats({m, n}, more)}, 1e-4, 1e-5);
    auto batches = product(plain, 0);
    batches.insert(batches.end(), c.begin(), c.end());
    expect_op(node_of("MatMul"), {x, floats({2, k, n}, both)}, {floats({2, m, n}, batches)}, 1e-4, 1e-5);
  }
}

TEST(MatMul, LargeByPanels) {
  expect_by_panels(515, 512);
  expect_by_panels(773, 352);
}

// Rows of matrices times vectors of their own, or one for all of them.
TEST(MatMul, BatchesOfVectors) {
  const std::int64_t m = 37, k = 53;
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::f64}) {
    for (const std::int64_t vectors : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), vectors));
      std::vector<double> a(2 * 3 * m * k), b(vectors * k), c(2 * 3 * m);
      for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 7) - 3;
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i % 5) - 2;
      for (std::int64_t row = 0; row < 2 * 3 * m; ++row) {
        for (std::int64_t l = 0; l < k; ++l) c[row] += a[row * k + l] * b[row / m % vectors * k + l];
      }
      expect_op(node_of("MatMul"), {tensor(type, {2, 3, m, k}, a), tensor(type, {vectors, k, 1}, b)},
                {tensor(type, {2, 3, m, 1}, c)});
    }
  }
}

TEST(MatMul, BatchesOfDoubles) {
  const std::int64_t m = 5, k = 7, n = 40;
  const auto a = spread(2 * 3 * m * k, -1, 1), b = spread(3 * k * n, -1, 1);
  std::vector<double> c(2 * 3 * m * n);
  for (std::int64_t image = 0; image < 6; ++image) {
    for (std::int64_t i = 0; i < m * n; ++i) {
      double& sum = c[image * m * n + i];
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a[(image * m + i / n) * k + l] * b[(image % 3 * k + l) * n + i % n];
      }
    }
  }
  expect_op(node_of("MatMul"), {tensor(DataType::f64, {2, 3, m, k}, a), tensor(DataType::f64, {3, k, n}, b)},
            {tensor(DataType::f64, {2, 3, m, n}, c)}, 1e-12, 1e-12);
}

TEST(Gemm, FactorsAndBias) {
  const HostTensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const HostTensor b = floats({3, 2}, {1, 0, 0, 1, 2, -1});
  expect_op(node_of("Gemm"), {a, b}, {floats({2, 2}, {7, -1, 16, -1})});
  expect_op(node_of("Gemm"), {a, b, floats({2}, {1, 2})}, {floats({2, 2}, {8, 1, 17, 1})});
  expect_op(node_of("Gemm"), {a, b, floats({2, 1}, {1, 2})}, {floats({2, 2}, {8, 0, 18, 1})});
  expect_op(node_of("Gemm"), {a, b, floats({}, {3})}, {floats({2, 2}, {10, 2, 19, 2})});
  expect_op(node_of("Gemm"), {a, b, floats({2, 2}, {1, 2, 3, 4})}, {floats({2, 2}, {8, 1, 19, 3})});
  expect_op(node_of("Gemm", {{"alpha", 0.5}, {"beta", 2.0}}), {a, b, floats({1, 2}, {1, 2})},
            {floats({2, 2}, {5.5, 3.5, 10, 3.5})});
  expect_op(node_of("Gemm", {{"beta", 0.0}}), {a, b, floats({1, 2}, {NAN, 2})}, {floats({2, 2}, {7, -1, 16, -1})});
  expect_op(node_of("Gemm", {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}}),
            {floats({3, 2}, {1, 4, 2, 5, 3, 6}), floats({2, 3}, {1, 0, 2, 0, 1, -1})},
            {floats({2, 2}, {7, -1, 16, -1})});
  // Integers are scaled as reals and cut off; beyond their type they saturate.
  const auto bytes = [](const std::vector<double>& values) { return tensor(DataType::s8, {2, 1}, values); };
  const HostTensor two = tensor(DataType::s8, {1, 1}, {2});
  expect_op(node_of("Gemm", {{"alpha", 0.5}, {"beta", -1.5}}), {bytes({-7, 5}), two, bytes({1, 1})}, {bytes({-8, 3})});
  expect_op(node_of("Gemm", {{"alpha", 1e30}}), {bytes({-7, 5}), two}, {bytes({-128, 127})});
  expect_op(node_of("Gemm", {{"beta", NAN}}), {bytes({-7, 5}), two, bytes({1, 1})}, {bytes({0, 0})});
  expect_refused(node_of("Gemm"), {a, a}, "the inner dims differ");
  expect_refused(node_of("Gemm"), {a, b, floats({3}, {1, 2, 3})}, "input 2 has dims [3]");
  expect_refused(node_of("Gemm"), {floats({3}, {1, 2, 3}), b}, "both must be matrices");
}

TEST(MatMulInteger, ZeroPoints) {
  const HostTensor a = tensor(DataType::u8, {4, 3}, {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0});
  const HostTensor b = tensor(DataType::u8, {3, 2}, {1, 4, 2, 5, 3, 6});
  const auto expected = tensor(DataType::s32, {4, 2}, {-38, -83, -44, -98, -50, -113, -56, -128});
  expect_op(node_of("MatMulInteger"), {a, b, tensor(DataType::u8, {1}, {12}), tensor(DataType::u8, {1}, {0})},
            {expected});
  expect_op(node_of("MatMulInteger"), {a, b, tensor(DataType::u8, {4}, {12, 12, 12, 12}), absent()}, {expected});
  expect_op(node_of("MatMulInteger"),
            {tensor(DataType::s8, {1, 2}, {1, 2}), tensor(DataType::u8, {2, 2}, {3, 4, 5, 6}), absent(),
             tensor(DataType::u8, {2}, {1, 2})},
            {tensor(DataType::s32, {1, 2}, {10, 10})});
  expect_refused(node_of("MatMulInteger"), {a, b, tensor(DataType::s8, {1}, {0})}, "input 2 (zero point)");
  expect_refused(node_of("MatMulInteger"), {a, b, tensor(DataType::u8, {3}, {0, 0, 0})}, "one element or 4");
}

// Blocks, panels, pairs of terms, and what is left of each; a zero point a row of a and a column of b.
TEST(MatMulInteger, AllSizes) {
  std::mt19937 random(7);
  const auto bytes = [&](DataType type, Dims dims) {
    std::vector<double> values(static_cast<std::size_t>(TensorDesc::packed(type, dims).elements()));
    for (double& value : values) value = static_cast<double>(random() % 256) - (type == DataType::s8 ? 128 : 0);
    return std::pair(tensor(type, dims, values), values);
  };
  const std::pair<DataType, DataType> types[] = {
      {DataType::u8, DataType::s8}, {DataType::s8, DataType::u8}, {DataType::u8, DataType::u8}};
  for (const auto [m, k, n] : {std::array{1, 1, 1}, {1, 801, 65}, {3, 384, 32}, {13, 7, 33}, {99, 386, 70}}) {
    for (const auto& [a_type, b_type] : types) {
      const auto [a, a_values] = bytes(a_type, {2, m, k});
      const auto [b, b_values] = bytes(b_type, {1, k, n});
      const auto [a_zero, a_zeros] = bytes(a_type, {m});
      const auto [b_zero, b_zeros] = bytes(b_type, {n});
      std::vector<double> expected;
      for (int row = 0; row < 2 * m; ++row) {
        for (int j = 0; j < n; ++j) {
          double sum = 0;
          for (int l = 0; l < k; ++l)
            sum += (a_values[row * k + l] - a_zeros[row % m]) * (b_values[l * n + j] - b_zeros[j]);
          expected.push_back(sum);
        }
      }
      expect_op(node_of("MatMulInteger"), {a, b, a_zero, b_zero}, {tensor(DataType::s32, {2, m, n}, expected)});
      expect_as_portable(node_of("MatMulInteger"), {a, b, a_zero, b_zero}, 0, 0);
      expect_as_portable(
          node_of("QLinearMatMul"),
          {a, floats({}, {0.01}), a_zero, b, floats({}, {0.01}), b_zero, floats({}, {0.5}), tensor(a_type, {}, {5})}, 0,
          0);
    }
  }
  expect_op(node_of("MatMulInteger"), {tensor(DataType::u8, {2, 0}, {}), tensor(DataType::u8, {0, 1}, {})},
            {tensor(DataType::s32, {2, 1}, {0, 0})});
  expect_op(node_of("MatMulInteger"), {tensor(DataType::u8, {2, 1}, {1, 2}), tensor(DataType::u8, {1, 0}, {})},
            {tensor(DataType::s32, {2, 0}, {})});
}

TEST(QLinearMatMul, SpecificationExample) {
  const auto u8 = [](Dims dims, const std::vector<double>& values) { return tensor(DataType::u8, dims, values); };
  expect_op(node_of("QLinearMatMul"),
            {u8({2, 4}, {208, 236, 0, 238, 3, 214, 255, 29}), floats({1}, {0.0066}), u8({1}, {113}),
             u8({4, 3}, {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247}), floats({1}, {0.00705}),
             u8({1}, {114}), floats({1}, {0.0107}), u8({1}, {118})},
            {u8({2, 3}, {168, 115, 255, 1, 66, 151})});
}

// Halves round to even, what is too large or small saturates, NaN is the lowest value.
TEST(QLinearMatMul, RoundsAndSaturates) {
  const auto s8 = [](Dims dims, const std::vector<double>& values) { return tensor(DataType::s8, dims, values); };
  const HostTensor a = s8({3, 1}, {1, 3, -100}), zero = s8({}, {0}), one = floats({}, {1});
  const HostTensor b = s8({1, 4}, {1, 3, 100, -1});
  for (const double scale : {0.5, 1e30}) {
    const std::vector<double> expected =
        scale < 1 ? std::vector<double>{10, 12, 60, 10, 12, 14, 127, 8, -40, -128, -128, 60}
                  : std::vector<double>{127, 127, 127, -128, 127, 127, 127, -128, -128, -128, -128, 127};
    expect_op(node_of("QLinearMatMul"), {a, floats({}, {scale}), zero, b, one, zero, one, s8({}, {10})},
              {s8({3, 4}, expected)});
  }
  expect_op(node_of("QLinearMatMul"), {a, floats({}, {NAN}), zero, b, one, zero, one, s8({}, {10})},
            {s8({3, 4}, std::vector<double>(12, -128))});
}

TEST(Einsum, Contracts) {
  const auto of = [](const char* equation) { return node_of("Einsum", {{"equation", equation}}); };
  const HostTensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = floats({3, 2}, {1, 0, 2, -1, 0, 1});
  expect_op(of("ij,jk->ik"), {a, b}, {floats({2, 2}, {5, 1, 14, 1})});
  expect_op(of("ij, jk"), {a, b}, {floats({2, 2}, {5, 1, 14, 1})});
  expect_op(of("ij->ji"), {a}, {floats({3, 2}, {1, 4, 2, 5, 3, 6})});
  expect_op(of("ij->i"), {a}, {floats({2}, {6, 15})});
  expect_op(of("ij->"), {a}, {floats({}, {21})});
  expect_op(of("ba"), {a}, {floats({3, 2}, {1, 4, 2, 5, 3, 6})});  // the output's labels are alphabetical
  expect_op(of("ij,ij->"), {a, a}, {floats({}, {91})});
  expect_op(of("i,j->ij"), {floats({2}, {1, 2}), floats({2}, {3, 4})}, {floats({2, 2}, {3, 4, 6, 8})});
  expect_op(of("ii->i"), {floats({2, 2}, {1, 2, 3, 4})}, {floats({2}, {1, 4})});
  expect_op(of("...ii->...i"), {floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}, {floats({2, 2}, {1, 4, 5, 8})});
  // Batches that broadcast, and a label of size 1 against one that is not.
  expect_op(of("...ij,...jk->...ik"), {floats({2, 1, 1, 2}, {1, 2, 3, 4}), floats({3, 2, 1}, {1, 1, 0, 1, 2, 0})},
            {floats({2, 3, 1, 1}, {3, 2, 2, 7, 4, 6})});
  expect_op(of("bchw,bcs->bhws"), {floats({1, 2, 1, 2}, {1, 2, 3, 4}), floats({1, 2, 1}, {10, 1})},
            {floats({1, 1, 2, 1}, {13, 24})});
  expect_op(of("i,i,i->"), {longs({2}, {1, 2}), longs({2}, {3, 4}), longs({2}, {5, -6})}, {longs({}, {-33})});
  expect_op(of("ij,jk->ik"), {floats({2, 0}, {}), floats({0, 1}, {})}, {floats({2, 1}, {0, 0})});

  // Sums over what one operand alone has, products without sums, dots of each batch, more than two operands.
  expect_op(of("ij,k->k"), {a, floats({2}, {1, 2})}, {floats({2}, {21, 42})});
  expect_op(of("ij,ij->ij"), {a, a}, {floats({2, 3}, {1, 4, 9, 16, 25, 36})});
  expect_op(of("ij,ij->i"), {a, a}, {floats({2}, {14, 77})});
  expect_op(of("ij,jk,kl->il"), {a, b, a}, {floats({2, 3}, {9, 15, 21, 18, 33, 48})});
  expect_op(of("ii,ij->j"), {floats({2, 2}, {1, 2, 3, 4}), a}, {floats({3}, {17, 22, 27})});

  expect_refused(of("ij,jk->ik"), {a, a}, "dim 0 of input 1 is 2, the same label is 3 elsewhere");
  expect_refused(of("ij,jk->ik"), {a}, "2 terms for 1 inputs");
  expect_refused(of("i->i"), {a}, "term 0 names 1 dims, input 0 has [2x3]");
  expect_refused(of("ijk->i"), {a}, "term 0 names 3 dims");
  expect_refused(of("ij->ik"), {a}, "names one that no term has");
  expect_refused(of("ij->ii"), {a}, "repeats a label");
  expect_refused(of("i1->i"), {a}, "term 0 names 1 dims");
  expect_refused(of("......ij->ij"), {a}, "no list of letters");
  expect_refused(node_of("Einsum"), {a}, "term 0 names 0 dims");
}

// Matrices whose rows are those of another dim in turn: by panels, which take full ones where they lie.
TEST(Einsum, RowsThatLieApart) {
  const std::int64_t batch = 3, m = 13, k = 9, n = 70;
  const auto a = spread(batch * m * k, -1, 1), b = spread(k * batch * n, -1, 1);
  std::vector<double> c(batch * m * n);
  for (std::int64_t i = 0; i < batch * m; ++i) {
    for (std::int64_t l = 0; l < k; ++l) {
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[(l * batch + i / m) * n + j];
    }
  }
  for (const DataType type : {DataType::f32, DataType::f64}) {
    expect_op(node_of("Einsum", {{"equation", "bik,kbj->bij"}}),
              {tensor(type, {batch, m, k}, a), tensor(type, {k, batch, n}, b)}, {tensor(type, {batch, m, n}, c)}, 1e-5);
  }
}

// Random equations of two or three operands beside sums in f64, element by element.
TEST(Einsum, AsPlainSums) {
  const std::string letters = "abcdef";
  const std::int64_t sizes[] = {2, 3, 1, 5, 4, 3};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return random() % n; };
    std::string equation, named;
    std::vector<std::string> terms(2 + below(2));
    std::vector<HostTensor> inputs;
    for (std::string& term : terms) {
      Dims dims;
      for (std::size_t i = 1 + below(4); i > 0; --i) {
        const char label = letters[below(6)];
        if (below(8) != 0 && term.find(label) != std::string::npos) continue;
        term += label;
        dims.push_back(sizes[label - 'a']);
        if (named.find(label) == std::string::npos) named += label;
      }
      equation += (inputs.empty() ? "" : ",") + term;
      const std::int64_t count = TensorDesc::packed(DataType::f32, dims).elements();
      inputs.push_back(floats(dims, spread(count, -2, 3)));
    }
    std::shuffle(named.begin(), named.end(), random);
    const std::string output = named.substr(0, below(named.size() + 1));
    equation += "->" + output;
    SCOPED_TRACE(equation);
    Dims dims;
    for (const char label : output) dims.push_back(sizes[label - 'a']);
    std::vector<double> sums(static_cast<std::size_t>(TensorDesc::packed(DataType::f32, dims).elements()), 0);
    std::map<char, std::int64_t> at;
    const auto offset = [&](const std::string& term) {
      std::int64_t where = 0;
      for (const char label : term) where = where * sizes[label - 'a'] + at[label];
      return where;
    };
    const std::function<void(std::size_t)> add = [&](std::size_t label) {
      if (label < named.size()) {
        for (at[named[label]] = 0; at[named[label]] < sizes[named[label] - 'a']; ++at[named[label]]) add(label + 1);
        return;
      }
      double product = 1;
      for (std::size_t i = 0; i < terms.size(); ++i) product *= inputs[i].at(offset(terms[i]));
      sums[static_cast<std::size_t>(offset(output))] += product;
    };
    add(0);
    const NodeDesc node = node_of("Einsum", {{"equation", equation}});
    expect_op(node, inputs, {floats(dims, sums)}, 2e-4, 1e-5);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace convoy::ops
