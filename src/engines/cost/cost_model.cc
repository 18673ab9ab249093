#include "engines/cost/cost_model.h"

#include <algorithm>
#include <cmath>

namespace convoy::cost {
namespace {

constexpr int kClasses = 4;  // of data types

int class_of(DataType x) {
  switch (x) {
    case DataType::f32:
      return 0;
    case DataType::bf16:
      return 1;
    case DataType::f16:
      return 2;
    case DataType::u8:
    case DataType::s8:
      return 3;
    default:
      return -1;
  }
}

// How many times `value` doubles `usual`, within +-`most`, as a part of `most`.
double doublings(double value, double usual, double most) {
  return std::clamp(std::log2(std::max(value, 1e-9) / usual), -most, most) / most;
}

bool any_above(const Dims& dims, std::int64_t limit) {
  return std::any_of(dims.begin(), dims.end(), [&](std::int64_t value) { return value > limit; });
}

struct Row {
  std::string_view engine;
  Pass pass;
  DataType x;
  Grouping grouping;
  Isa isa;
  Model model;
};
#include "engines/cost/fitted.inc"  // std::array<Row, N> kRows

}  // namespace

Terms terms(const ConvProblem& p, double work_seconds, double copied_bytes) {
  const auto x_bytes = static_cast<double>(p.x.bytes());
  const auto w_bytes = static_cast<double>(p.w.bytes());
  const auto y_bytes = static_cast<double>(p.y.bytes());
  const auto groups = static_cast<double>(p.groups);
  const double channels = static_cast<double>(p.in_channels()) / groups;
  const double filters = static_cast<double>(p.out_channels()) / groups;
  double taps = 1;
  auto positions = static_cast<double>(p.batch());
  for (int i = 0; i < p.spatial_dims(); ++i) {
    taps *= static_cast<double>(p.w.dims[2 + i]);
    positions *= static_cast<double>(p.y.dims[2 + i]);
  }
  const double c = doublings(channels, 64, 6);
  const double k = doublings(filters, 64, 6);
  const double width = doublings(static_cast<double>(p.y.dims.back()), 28, 5);
  const double map = doublings(positions, 784, 10);
  const double g = doublings(groups, 16, 6);
  const double first = p.x.strides[1] == 1 || p.x.channel_block > 1 ? 0.0 : 1.0;
  const bool unit_steps = !any_above(p.stride, 1) && !any_above(p.pre_padding, 0) && !any_above(p.post_padding, 0);
  // Taps of all positions spelled out, as im2col does where it is not x itself.
  const double unrolled = taps == 1 && unit_steps ? 0
                                                  : positions * static_cast<double>(p.in_channels()) * taps *
                                                        static_cast<double>(size_of(p.x.type));
  // In microseconds or at 10 GB/s.
  return {// What is paid for; the last for products group by group.
          copied_bytes * 1e-10, 1e-6, work_seconds, x_bytes * 1e-10, w_bytes * 1e-10, y_bytes * 1e-10, unrolled * 1e-10,
          static_cast<double>(p.batch()) * groups * 1e-6,
          // What makes it cheaper or dearer.
          c, c * c, k, k * k, c * k, doublings(taps, 3, 5), width, width * width, map, map * map,
          any_above(p.stride, 1) ? 1.0 : 0.0, any_above(p.dilation, 1) ? 1.0 : 0.0, first,
          p.in_channels() / p.groups % 16 != 0 ? 1.0 : 0.0, p.out_channels() / p.groups % 16 != 0 ? 1.0 : 0.0,
          doublings(x_bytes + y_bytes, 1 << 20, 5), doublings(w_bytes, 1 << 20, 5), p.spatial_dims() == 1 ? 1.0 : 0.0,
          p.spatial_dims() == 3 ? 1.0 : 0.0, p.groups > 1 ? 1.0 : 0.0, taps == 1 ? 1.0 : 0.0, p.batch() > 1 ? 1.0 : 0.0,
          any_above(p.pre_padding, 0) ? 1.0 : 0.0, g, g * g, p.in_channels() % 16 != 0 ? 1.0 : 0.0,
          p.out_channels() % 16 != 0 ? 1.0 : 0.0,
          // Channels first, by what is then far apart.
          first * c, first * k, first * doublings(positions / static_cast<double>(p.batch()), 784, 10),
          p.groups > 1 ? first : 0.0};
}

Grouping grouping_of(const ConvProblem& problem) {
  if (problem.groups == 1) return Grouping::dense;
  return problem.is_depthwise() ? Grouping::depthwise : Grouping::grouped;
}

const Model* find_model(std::string_view engine, Pass pass, DataType x, Grouping grouping, Isa isa) {
  const int type = class_of(x);
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) {
    return r.engine == engine && r.pass == pass && class_of(r.x) == type && r.grouping == grouping && r.isa == isa;
  });
  return row == kRows.end() ? nullptr : &row->model;
}

double Model::seconds(const Terms& terms, int threads) const {
  double sum = 0, shape = 0;
  for (int i = 1; i < kSumTerms; ++i) sum += coefficients[i] * terms[i];
  for (int i = kSumTerms; i < kSumTerms + kShapeTerms; ++i) shape += coefficients[i] * terms[i];
  return (coefficients[0] * terms[0] + sum * std::exp(shape)) / std::max(threads, 1);
}

EngineModels::EngineModels(std::string_view engine, Isa isa) {
  constexpr DataType types[kClasses] = {DataType::f32, DataType::bf16, DataType::f16, DataType::u8};
  for (int i = 0; i < static_cast<int>(models_.size()); ++i) {
    const auto pass = static_cast<Pass>(i / (3 * kClasses));
    models_[i] = find_model(engine, pass, types[i / 3 % kClasses], static_cast<Grouping>(i % 3), isa);
  }
}

const Model* EngineModels::of(const ConvProblem& problem) const {
  const int type = class_of(problem.x.type);
  if (type < 0) return nullptr;
  return models_[(static_cast<int>(problem.pass) * kClasses + type) * 3 + static_cast<int>(grouping_of(problem))];
}

}  // namespace convoy::cost
