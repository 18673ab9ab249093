// GridSample: a fold over the taps of each dim, which are where the grid says.
#include "ops/vision/grid_sample.h"

#include "ops/generated/rules.h"

namespace convoy::ops::generated {
namespace {

using generate::written;
using Mode = GridSampling::Mode;
using Padding = GridSampling::Padding;

// Along one dim, of the grid's value: the coordinate, what is read there, and with which weight.
class Axis {
 public:
  Axis(const GridSampling& sampling, std::int64_t size)
      : sampling_(sampling),
        size_(static_cast<double>(size)),
        low_(sampling.low()),
        high_(sampling.high(static_cast<double>(size))) {}

  Value index(const Value& grid, const Value& tap) const {
    const Value at = whole(coordinate(grid)) + tap - (sampling_.mode == Mode::cubic ? 1.0 : 0.0);
    if (sampling_.padding == Padding::zeros) return at;
    if (sampling_.padding == Padding::border) return within(at);
    const Value outside = elements::select(at<0.0, 1.0, at> Value(size_ - 1));
    return elements::select(outside, within(elements::floor(reflected(at))), at);
  }

  Value weight(const Value& grid, const Value& tap) const {
    const Value x = coordinate(grid), r = x - whole(x);
    const auto of_taps = [&](const std::vector<Value>& weights) {
      Value chosen = weights.back();
      for (std::size_t i = weights.size() - 1; i-- > 0;) {
        chosen = elements::select(elements::equal(tap, static_cast<double>(i)), weights[i], chosen);
      }
      return chosen;
    };
    if (sampling_.mode == Mode::linear) return of_taps({1.0 - r, r});
    constexpr double a = GridSampling::kCubic;
    const auto outer = [](const Value& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const auto inner = [](const Value& d) { return ((a + 2) * d - (a + 3)) * d * d + 1.0; };
    return of_taps({outer(r + 1.0), inner(r), inner(1.0 - r), outer(2.0 - r)});
  }

 private:
  Value whole(const Value& x) const { return sampling_.mode == Mode::nearest ? x : elements::floor(x); }
  Value within(const Value& x) const { return elements::min(elements::max(x, 0.0), size_ - 1); }

  Value coordinate(const Value& grid) const {
    constexpr double kFar = GridSampling::kFar;
    Value x = sampling_.coordinate(grid, size_);
    x = elements::select(x > Value(-kFar), elements::min(x, kFar), -kFar);  // NaN counts as far out
    if (sampling_.mode == Mode::nearest) x = elements::round(x);
    if (sampling_.padding == Padding::reflection) return reflected(x);
    if (sampling_.padding == Padding::zeros) return x;
    return elements::select(elements::select(x<low_, 1.0, x> Value(high_)), within(x), x);
  }

  // Back and forth between the ends.
  Value reflected(const Value& x) const {
    const double range = high_ - low_;
    if (range <= 0) return x * 0.0 + low_;
    const Value below = x < low_, beyond = elements::select(below, low_ - x, x - high_);
    const Value turns = elements::floor(beyond / range), rest = beyond - turns * range;
    const Value even = elements::equal(turns, 2.0 * elements::floor(turns / 2.0));
    const Value from_low = low_ + rest, from_high = high_ - rest;
    return elements::select(below, elements::select(even, from_low, from_high),
                            elements::select(x > Value(high_), elements::select(even, from_high, from_low), x));
  }

  GridSampling sampling_;
  double size_, low_, high_;
};

// In f64, as the operator: coordinates of large images would be off in f32.
Result<Computation> grid_sample(const Described& d) {
  CONVOY_TRY(const GridSampling sampling, grid_sampling(d.node));
  const TensorDesc &x = d.inputs[0].desc, &grid = d.inputs[1].desc, &y = d.outputs[0];
  const int spatial = x.rank() - 2;
  const bool folds = sampling.taps() > 1;
  Computation made{.type = DataType::f64, .kept = y.dims, .folded = {}, .loads = {}, .folds = {}, .stores = {}};
  for (int i = 0; i < spatial; ++i) {  // the grid has that of the innermost dim first
    Subscript place{grid, {Coordinate::of(0)}};
    for (int k = 0; k < spatial; ++k) place.coordinates.push_back(Coordinate::of(2 + k));
    place.coordinates.push_back(Coordinate::at(spatial - 1 - i));
    made.loads.push_back({1, std::move(place)});
  }
  const TensorDesc taps = TensorDesc::packed(DataType::s32, {sampling.taps()});
  for (int i = 0; i < spatial && folds; ++i) {
    made.folded.push_back(sampling.taps());
    made.loads.push_back({.input = -1, .place = {taps, {Coordinate::of(y.rank() + i)}}, .counts = true});
  }
  const auto axis = [&](int i) { return Axis(sampling, x.dims[2 + static_cast<std::size_t>(i)]); };
  const auto tap = [&](int i, auto in) { return folds ? in(spatial + i) : Value(0.0); };
  Subscript place{x, {Coordinate::of(0), Coordinate::of(1)}};
  for (int i = 0; i < spatial; ++i) {
    place.coordinates.push_back(
        Coordinate::computed(written([&](auto in) { return axis(i).index(in(i), tap(i, in)); })));
  }
  const int element = static_cast<int>(made.loads.size());
  made.loads.push_back({0, std::move(place)});
  if (folds) {
    made.folds.push_back({generate::of(generate::Function::add),
                          0,
                          written([&](auto in) {
                            Value weight = axis(0).weight(in(0), tap(0, in));
                            for (int i = 1; i < spatial; ++i) weight = weight * axis(i).weight(in(i), tap(i, in));
                            // What has no weight isn't read: it may be infinite.
                            return elements::select(elements::equal(weight, 0.0), 0.0, weight * in(element));
                          }),
                          {}});
  }
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), generate::itself(folds ? element + 1 : element)});
  return made;
}

constexpr NamedRule kGridSampleRules[] = {{"GridSample", grid_sample}};

}  // namespace

std::span<const NamedRule> grid_sample_rules() { return kGridSampleRules; }

}  // namespace convoy::ops::generated
