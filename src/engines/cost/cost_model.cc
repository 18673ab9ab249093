#include "engines/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace convoy::cost {
namespace {

constexpr int kClasses = 4;  // of data types

int class_of(DataType x) {
  switch (x) {
    case DataType::f32:
    case DataType::f64:  // as in f32, with work and bytes of its own
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
  const float times = std::log2(static_cast<float>(std::max(value, 1e-9) / usual));  // of floats: a third of the time
  return std::clamp(static_cast<double>(times), -most, most) / most;
}

double round_up(double value, double multiple) { return std::ceil(value / multiple) * multiple; }

// How many times as many channels are computed or moved where that is done by vectors of 16.
double in_vectors(double channels) { return round_up(channels, 16) / channels; }

bool any_above(const Dims& dims, std::int64_t limit) {
  return std::any_of(dims.begin(), dims.end(), [&](std::int64_t value) { return value > limit; });
}

struct Row {
  std::string_view engine;
  Pass pass;
  DataType x;
  Grouping grouping;
  Isa isa;
  Products products;
  Model model;
};
#include "engines/cost/fitted_amd.inc"    // std::array<Row, N> kAmdRows
#include "engines/cost/fitted_avx2.inc"   // std::array<Row, N> kAvx2Rows
#include "engines/cost/fitted_intel.inc"  // std::array<Row, N> kIntelRows

}  // namespace

Terms terms(const ConvProblem& p, double work_seconds, double copied_bytes) {
  const auto x_bytes = static_cast<double>(p.x.bytes());
  const auto w_bytes = static_cast<double>(p.w.bytes());
  const auto y_bytes = static_cast<double>(p.y.bytes());
  const auto groups = static_cast<double>(p.groups);
  const double channels = static_cast<double>(p.in_channels()) / groups;
  const double filters = static_cast<double>(p.out_channels()) / groups;
  const auto batch = static_cast<double>(p.batch());
  double taps = 1, positions = batch, x_positions = batch, inside = 1;
  for (int i = 0; i < p.spatial_dims(); ++i) {
    taps *= static_cast<double>(p.w.dims[2 + i]);
    positions *= static_cast<double>(p.y.dims[2 + i]);
    x_positions *= static_cast<double>(p.x.dims[2 + i]);
    inside *= static_cast<double>(p.x.dims[2 + i]) /
              static_cast<double>(p.x.dims[2 + i] + p.pre_padding[i] + p.post_padding[i]);
  }
  const double c = doublings(channels, 64, 6);
  const double k = doublings(filters, 64, 6);
  const double window = doublings(taps, 3, 5);
  const double width = doublings(static_cast<double>(p.y.dims.back()), 28, 5);
  const double map = doublings(positions, 784, 10);
  const double g = doublings(groups, 16, 6);
  const double first = p.x.strides[1] == 1 || p.x.channel_block > 1 ? 0.0 : 1.0;
  const double last = 1 - first;
  const double strided = any_above(p.stride, 1) ? 1.0 : 0.0;
  const double volume = p.spatial_dims() == 3 ? 1.0 : 0.0;
  const double pointwise = taps == 1 ? 1.0 : 0.0;
  const double grouped = p.groups > 1 ? 1.0 : 0.0;
  const bool unit_steps = strided == 0 && !any_above(p.pre_padding, 0) && !any_above(p.post_padding, 0);
  // Taps of all positions spelled out, as im2col does where it is not x itself.
  const double unrolled = taps == 1 && unit_steps ? 0
                                                  : positions * static_cast<double>(p.in_channels()) * taps *
                                                        static_cast<double>(size_of(p.x.type));
  // Channels last, a group's channels take whole vectors and cache lines, shared with other groups' as they are.
  const double by_groups = grouped * last * (x_bytes * in_vectors(channels) + y_bytes * in_vectors(filters));
  // Products and copies group by group, where channels fill cache lines (AMX's tiles) or vectors.
  const auto element = static_cast<double>(size_of(p.x.type));
  const double full_products = 2 * positions * taps * groups * round_up(channels, 64 / element) * round_up(filters, 16);
  const double full_x = groups * x_positions * round_up(channels, 16) * element;
  const double full_y = groups * positions * round_up(filters, 16) * element;
  // Channels and filters that don't fill a vector, the more the fewer they are.
  const double few_channels = std::max(0.0, -doublings(channels, 16, 4));
  const double few_filters = std::max(0.0, -doublings(filters, 16, 4));
  const double few_groups = grouped * std::max(0.0, -doublings(static_cast<double>(p.in_channels()), 16, 4));
  const double line = p.spatial_dims() == 1 ? 1.0 : 0.0;
  const double as_is = taps == 1 && unit_steps ? 1.0 : 0.0;
  const double tail = p.y.dims.back() % 16 != 0 ? 1.0 : 0.0;
  const double padded = any_above(p.pre_padding, 0) ? 1.0 : 0.0;
  const auto all_channels = static_cast<double>(p.in_channels());
  const auto all_filters = static_cast<double>(p.out_channels());
  // In microseconds or at 10 GB/s.
  return {// What is paid for; the last five for products group by group.
          copied_bytes * 1e-10, 1e-6, work_seconds, x_bytes * 1e-10, w_bytes * 1e-10, y_bytes * 1e-10, unrolled * 1e-10,
          batch * groups * 1e-6, by_groups * 1e-10, full_products * 1e-11, full_x * 1e-10, full_y * 1e-10,
          // What makes it cheaper or dearer.
          c, c * c, k, k * k, c * k, window, width, width * width, map, map * map, strided,
          any_above(p.dilation, 1) ? 1.0 : 0.0, first, p.in_channels() / p.groups % 16 != 0 ? 1.0 : 0.0,
          p.out_channels() / p.groups % 16 != 0 ? 1.0 : 0.0, doublings(x_bytes + y_bytes, 1 << 20, 5),
          doublings(w_bytes, 1 << 20, 5), line, volume, grouped, pointwise, p.batch() > 1 ? 1.0 : 0.0, padded, g, g * g,
          p.in_channels() % 16 != 0 ? 1.0 : 0.0, p.out_channels() % 16 != 0 ? 1.0 : 0.0,
          // Channels first, by what is then far apart.
          first * c, first * k, first * doublings(positions / batch, 784, 10), grouped * first,
          // Products with a vector instead of a matrix.
          filters == 1 ? 1.0 : 0.0, channels == 1 ? 1.0 : 0.0,
          // Together.
          window * c, window * k, window * width, window * window, map * c, map * k, map * width, width * c, width * k,
          strided * pointwise, strided * first, strided * window, strided * width, g * c, g * k, grouped * width,
          grouped * pointwise,
          // oneDNN's im2col of three dimensions goes element by element where strided.
          volume * strided, volume * strided * pointwise,
          // Vectors that are not full.
          last * (1 - 1 / in_vectors(all_channels)), last * (1 - 1 / in_vectors(all_filters)),
          first * (1 - 1 / in_vectors(channels)), first * (1 - 1 / in_vectors(filters)),
          // Padding, which some skip.
          doublings(inside, 1, 7),
          // Few channels and few filters: a kernel's tail is then all there is.
          few_channels, few_filters, few_channels * few_filters, few_channels * pointwise, few_filters * pointwise,
          few_channels * first, few_filters * first, few_channels * map, few_filters * map,
          // Dimensions, layouts and filters of 1 together.
          volume * pointwise, line * pointwise, volume * grouped, line * grouped, first * pointwise,
          first * pointwise * grouped, padded * pointwise, first * volume, first * line, strided * grouped,
          strided * grouped * pointwise,
          // Few channels or filters where that is said to matter more; odd channels, which bf16 takes in pairs.
          few_channels * first * pointwise, few_filters * first * pointwise, p.w.dims[1] % 2 != 0 ? 1.0 : 0.0,
          few_channels * strided, few_filters * strided, few_channels * grouped, few_filters * grouped,
          map * first * pointwise, map * pointwise, map * grouped,
          // Three channels in pairs; few groups; signals.
          p.w.dims[1] % 2 != 0 ? few_channels : 0.0, few_groups * last, few_groups * first, few_groups * map,
          line * width, line * width * width,
          // Products of x as it is: nothing is spelled out for them.
          as_is, as_is * first, as_is * first * grouped, as_is * grouped, as_is * map, as_is * first * map, as_is * c,
          as_is * k, as_is * first * few_channels, as_is * first * few_filters,
          // Rows that don't fill tiles of 16.
          tail, line * tail, width * tail, line * width * tail};
}

Grouping grouping_of(const ConvProblem& problem) {
  if (problem.groups == 1) return Grouping::dense;
  return problem.is_depthwise() ? Grouping::depthwise : Grouping::grouped;
}

FittedOn fitted_on(const CpuFeatures& cpu) {
  if (cpu.isa != Isa::avx512) return FittedOn::avx2;
  return cpu.brand.rfind("AMD", 0) == 0 ? FittedOn::amd : FittedOn::intel;
}

namespace {

// Calls see(row) for those of the engine's kernels, the most wanted first.
template <class See>
void see_rows(std::string_view engine, Isa isa, Products products, FittedOn processor, See see) {
  std::array<std::span<const Row>, 3> tables{kIntelRows, kAmdRows, kAvx2Rows};  // in FittedOn's order
  std::swap(tables[0], tables[static_cast<std::size_t>(processor)]);
  for (const std::span<const Row> rows : tables) {
    for (const Row& row : rows) {
      const bool multiplies = row.x == DataType::bf16
                                  ? row.products == products
                                  : (row.products == Products::tiles) == (products == Products::tiles);
      if (row.isa == isa && multiplies && row.engine == engine) see(row);
    }
  }
  if (products == Products::tiles) see_rows(engine, isa, Products::native, processor, see);
}

}  // namespace

const Model* find_model(std::string_view engine, Pass pass, DataType x, Grouping grouping, Isa isa, Products products,
                        FittedOn processor) {
  const Model* found = nullptr;
  see_rows(engine, isa, products, processor, [&](const Row& row) {
    const bool fits = row.pass == pass && class_of(row.x) == class_of(x) && row.grouping == grouping;
    if (fits && found == nullptr) found = &row.model;
  });
  return found;
}

double Model::seconds(const Terms& terms) const {
  double sum = 0, shape = 0;
  for (int i = 1; i < kSumTerms; ++i) sum += coefficients[i] * terms[i];
  for (int i = kSumTerms; i < kSumTerms + kShapeTerms; ++i) shape += coefficients[i] * terms[i];
  return coefficients[0] * terms[0] + sum * std::exp(shape);
}

EngineModels::EngineModels(std::string_view engine, Isa isa, Products products) {
  see_rows(engine, isa, products, fitted_on(detected_cpu_features()), [&](const Row& row) {
    const Model*& model = models_[place(row.pass, class_of(row.x), row.grouping)];
    if (model == nullptr) model = &row.model;
  });
}

std::size_t EngineModels::place(Pass pass, int type, Grouping grouping) {
  return static_cast<std::size_t>((static_cast<int>(pass) * kClasses + type) * 3 + static_cast<int>(grouping));
}

const Model* EngineModels::of(const ConvProblem& problem) const {
  const int type = class_of(problem.x.type);
  if (type < 0) return nullptr;
  return models_[place(problem.pass, type, grouping_of(problem))];
}

}  // namespace convoy::cost
