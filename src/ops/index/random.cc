// Random numbers: RandomNormal, RandomUniform, both like another tensor, Bernoulli, Multinomial. A network is a
// function of its inputs, so each run draws the same numbers: `seed` decides them or, where it isn't given, the node's
// name. What doesn't depend on values is drawn once, when the network is prepared. In the body of a Loop each trip
// draws its own: the node has the trips that it is in as further inputs, as many as its attribute 'trips' says
// (import.cc).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

using Generator = std::mt19937_64;

Result<std::uint64_t> seed_of(const NodeDesc& node) {
  if (node.has("seed")) {
    CONVOY_TRY(const double seed, node.real("seed", 0));
    return std::bit_cast<std::uint64_t>(seed);
  }
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same everywhere, as std::hash need not be
  for (const char c : node.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Result<int> trips_of(const NodeDesc& node) {
  CONVOY_TRY(const std::int64_t trips, node.integer("trips", 0));
  return static_cast<int>(std::clamp<std::int64_t>(trips, 0, 1 << 16));
}

Result<void> check_inputs(const NodeDesc& node, std::span<const Input> inputs, int own) {
  CONVOY_TRY(const int trips, trips_of(node));
  CONVOY_CHECK(check_counts(node, inputs, own + trips, own + trips));
  for (std::size_t i = static_cast<std::size_t>(own); i < inputs.size(); ++i) {
    if (inputs[i].desc.type != DataType::s64 || inputs[i].desc.elements() != 1)
      return bad_node(node, fmt::format("input {}, a trip, must be a single s64", i));
  }
  return {};
}

std::uint64_t seed_in(std::uint64_t seed, std::span<const void* const> trips) {
  for (const void* trip : trips)
    seed = (seed ^ static_cast<std::uint64_t>(*static_cast<const std::int64_t*>(trip))) * 0x9e3779b97f4a7c15;
  return seed;
}

Result<DataType> type_or(const NodeDesc& node, DataType fallback, TypeSet allowed) {
  if (!node.has("dtype")) return fallback;
  CONVOY_TRY(const std::int64_t number, node.integer("dtype", 0));
  CONVOY_TRY(const DataType type, data_type_of_onnx(node, number, "dtype"));
  if (contains(allowed, type)) return type;
  return bad_node(node, fmt::format("dtype={} ({}) is no type of its output", number, name_of(type)));
}

enum class Distribution : std::uint8_t { normal, uniform };

// Of a shape, or like input 0.
class Random final : public Operator {
 public:
  constexpr Random(Distribution distribution, bool like) : distribution_(distribution), like_(like) {}

  bool folds_from_shapes() const override { return like_; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_inputs(node, inputs, like_ ? 1 : 0));
    CONVOY_CHECK(limits(node));
    CONVOY_CHECK(seed_of(node));
    // Like a tensor of integers and without dtype: floats, as ONNX's functions have it.
    const bool takes_type = like_ && contains(kMathFloats, inputs[0].desc.type);
    CONVOY_TRY(const DataType type, type_or(node, takes_type ? inputs[0].desc.type : DataType::f32, kMathFloats));
    if (like_) return one_output(node, type, inputs[0].desc.dims);
    if (!node.has("shape")) return bad_node(node, "attribute 'shape' is missing");
    CONVOY_TRY(Dims dims, node.integers("shape", {}));
    for (const std::int64_t dim : dims) {
      if (dim < 0) return bad_node(node, fmt::format("attribute 'shape' has a negative dim: {}", dim));
    }
    return one_output(node, type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const auto range, limits(node));
    CONVOY_TRY(const std::uint64_t seed, seed_of(node));
    return make_plan(
        node,
        [seed, range, desc = outputs[0], distribution = distribution_, own = like_ ? 1U : 0U](
            std::span<const void* const> in, std::span<void* const> out, const ExecContext&) -> Result<void> {
          Generator generator(seed_in(seed, in.subspan(own)));
          const auto draw = [&](auto numbers) {
            for (std::int64_t i = 0; i < desc.elements(); ++i)
              store_from_double(desc.type, out[0], i, numbers(generator));
          };
          const double first = range.first, second = range.second;
          if (distribution == Distribution::normal) {
            std::normal_distribution<double> numbers;
            draw([&](Generator& g) { return first + second * numbers(g); });
          } else {
            std::uniform_real_distribution<double> numbers;
            draw([&](Generator& g) { return first + (second - first) * numbers(g); });
          }
          return {};
        });
  }

 private:
  // mean and scale, or low and high.
  Result<std::pair<double, double>> limits(const NodeDesc& node) const {
    const bool normal = distribution_ == Distribution::normal;
    CONVOY_TRY(const double first, node.real(normal ? "mean" : "low", 0));
    CONVOY_TRY(const double second, node.real(normal ? "scale" : "high", 1));
    return std::pair(first, second);
  }

  Distribution distribution_;
  bool like_;
};

// 1 with the probability that its element of the input says, else 0.
class Bernoulli final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_inputs(node, inputs, 1));
    CONVOY_CHECK(seed_of(node));
    CONVOY_TRY(const DataType type, type_or(node, inputs[0].desc.type, kMathNumeric | only(DataType::boolean)));
    return one_output(node, type, inputs[0].desc.dims);
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::uint64_t seed, seed_of(node));
    return make_plan(
        node,
        [seed, from = inputs[0].desc.type, desc = outputs[0]](
            std::span<const void* const> in, std::span<void* const> out, const ExecContext&) -> Result<void> {
          Generator generator(seed_in(seed, in.subspan(1)));
          std::uniform_real_distribution<double> numbers;
          for (std::int64_t i = 0; i < desc.elements(); ++i) {
            store_from_double(desc.type, out[0], i, numbers(generator) < load_as_double(from, in[0], i) ? 1 : 0);
          }
          return {};
        });
  }
};

// `sample_size` classes of each row, whose elements are logarithms of weights.
class Multinomial final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_inputs(node, inputs, 1));
    CONVOY_CHECK(seed_of(node));
    const TensorDesc& x = inputs[0].desc;
    if (x.rank() != 2 || x.dims[1] < 1) return bad_node(node, "input 0 must be [batch, classes], with a class");
    CONVOY_TRY(const std::int64_t samples, node.integer("sample_size", 1));
    if (samples < 0) return bad_node(node, fmt::format("sample_size={}", samples));
    CONVOY_TRY(const DataType type, type_or(node, DataType::s32, only(DataType::s32) | only(DataType::s64)));
    return one_output(node, type, {x.dims[0], samples});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::uint64_t seed, seed_of(node));
    return make_plan(
        node,
        [seed, x = inputs[0].desc, y = outputs[0]](std::span<const void* const> in, std::span<void* const> out,
                                                   const ExecContext&) -> Result<void> {
          Generator generator(seed_in(seed, in.subspan(1)));
          std::uniform_real_distribution<double> numbers;
          const std::int64_t classes = x.dims[1], samples = y.dims[1];
          std::vector<double> up_to(static_cast<std::size_t>(classes));  // the weights' running sums
          for (std::int64_t row = 0; row < x.dims[0]; ++row) {
            const auto logarithm = [&](std::int64_t c) { return load_as_double(x.type, in[0], row * classes + c); };
            double largest = -INFINITY, sum = 0;
            for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, logarithm(c));
            for (std::int64_t c = 0; c < classes; ++c) {
              // Infinite weights are equal, and finite ones nothing beside them.
              const double log = logarithm(c), weight = log == largest ? 1 : std::exp(log - largest);
              up_to[static_cast<std::size_t>(c)] = sum += std::isnan(weight) ? 0 : weight;
            }
            for (std::int64_t s = 0; s < samples; ++s) {
              const auto found = std::ranges::upper_bound(up_to, numbers(generator) * sum);
              const auto at = std::min<std::int64_t>(found - up_to.begin(), classes - 1);
              store_from_double(y.type, out[0], row * samples + s, static_cast<double>(at));
            }
          }
          return {};
        });
  }
};

constexpr Random normal(Distribution::normal, false), normal_like(Distribution::normal, true),
    uniform(Distribution::uniform, false), uniform_like(Distribution::uniform, true);
const Bernoulli bernoulli;
const Multinomial multinomial;

}  // namespace

std::vector<OperatorRow> random_rows() {
  const auto row = [](std::string_view op, const Operator* computes, TypeSet types) {
    return OperatorRow(op, computes, images::mixed, Rate::functions, values::mixed, in_place::never, layouts::row_major,
                       types);
  };
  return {row("RandomNormal", &normal, kEveryType),   row("RandomNormalLike", &normal_like, kEveryType),
          row("RandomUniform", &uniform, kEveryType), row("RandomUniformLike", &uniform_like, kEveryType),
          row("Bernoulli", &bernoulli, kMathFloats),  row("Multinomial", &multinomial, kMathFloats)};
}

}  // namespace convoy::ops
