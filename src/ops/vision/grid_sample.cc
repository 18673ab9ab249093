// GridSample (any number of spatial dims up to three) and AffineGrid. Formulas: ONNX's reference implementation.
#include "ops/vision/grid_sample.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "ops/indexing.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/rows.h"
#include "ops/vision/quads_avx2.h"

namespace convoy::ops {
namespace {

using Mode = GridSampling::Mode;
using Padding = GridSampling::Padding;

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  if (x < low) {
    const double beyond = low - x;
    const double turns = std::floor(beyond / range);
    const double rest = beyond - turns * range;
    return std::fmod(turns, 2) == 0 ? low + rest : high - rest;
  }
  if (x > high) {
    const double beyond = x - high;
    const double turns = std::floor(beyond / range);
    const double rest = beyond - turns * range;
    return std::fmod(turns, 2) == 0 ? high - rest : low + rest;
  }
  return x;
}

// The inputs along one dim that a coordinate reads: index -1 is a zero of the padding.
struct AxisTaps {
  int count = 0;
  std::array<std::int64_t, 4> index;
  std::array<double, 4> weight;
};

AxisTaps axis_taps(const GridSampling& sampling, double normalized, std::int64_t dim) {
  const double size = static_cast<double>(dim);
  constexpr double kFar = GridSampling::kFar;
  double x = sampling.coordinate(normalized, size);
  x = x > -kFar ? std::min(x, kFar) : -kFar;  // NaN counts as far out
  if (sampling.mode == Mode::nearest) x = std::nearbyint(x);
  const double low = sampling.low(), high = sampling.high(size);
  if (x < low || x > high) {
    if (sampling.padding == Padding::border) x = std::clamp(x, 0.0, size - 1);
    if (sampling.padding == Padding::reflection) x = reflect(x, low, high);
  }
  AxisTaps taps;
  taps.count = static_cast<int>(sampling.taps());
  const double whole = sampling.mode == Mode::nearest ? x : std::floor(x);
  const double r = x - whole;
  std::int64_t first = static_cast<std::int64_t>(whole);
  if (sampling.mode == Mode::nearest) {
    taps.weight = {1};
  } else if (sampling.mode == Mode::linear) {
    taps.weight = {1 - r, r};
  } else {
    constexpr double a = GridSampling::kCubic;
    const auto outer = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
    const auto inner = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
    taps.weight = {outer(r + 1), inner(r), inner(1 - r), outer(2 - r)};
    --first;
  }
  for (int t = 0; t < taps.count; ++t) {
    std::int64_t& index = taps.index[t];
    index = first + t;
    if (index >= 0 && index < dim) continue;
    if (sampling.padding == Padding::zeros) index = -1;
    if (sampling.padding == Padding::border) index = index < 0 ? 0 : dim - 1;
    if (sampling.padding == Padding::reflection) {
      const double at = reflect(static_cast<double>(index), low, high);
      index = std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, dim - 1);
    }
  }
  return taps;
}

// Points whose taps are found before the channels read them: with few, each block would have all channels come into the
// caches again.
constexpr std::int64_t kBlock = 1024;

// Points in a plane whose four taps are two neighbours in each of two rows.
struct Quads {
  std::int64_t down = 0;  // from a row to the next
  std::array<std::int64_t, kBlock> offsets;
  std::array<float, 4 * kBlock> weights;

  // Whether a point is one: `x` and `y` are its coordinates, [0, 1] has the first tap and the second.
  bool set(std::int64_t at, double x, double width, double y, double height) {
    offsets[at] = 0;
    std::fill_n(&weights[4 * at], 4, 0.0F);
    if (!(x > 0 && x < width - 1 && y > 0 && y < height - 1)) return false;
    const auto column = static_cast<std::int64_t>(x), row = static_cast<std::int64_t>(y);
    const double right = x - static_cast<double>(column), low = y - static_cast<double>(row);
    if (right == 0 || low == 0) return false;  // what has no weight isn't read
    offsets[at] = row * down + column;
    weights[4 * at] = static_cast<float>((1 - low) * (1 - right));
    weights[4 * at + 1] = static_cast<float>((1 - low) * right);
    weights[4 * at + 2] = static_cast<float>(low * (1 - right));
    weights[4 * at + 3] = static_cast<float>(low * right);
    return true;
  }
};

// The taps of some points, all dims combined: where each is in a plane, and its weight.
template <class C>
struct Points {
  static constexpr std::int64_t kMostTaps = 64;
  std::int64_t count = 0;
  std::array<std::int64_t, kBlock> places;    // where their values go
  std::array<std::int64_t, kBlock + 1> ends;  // of the taps of the points before
  std::vector<std::int64_t> offsets;
  std::vector<C> weights;

  explicit Points(std::int64_t taps_of_point)
      : offsets(static_cast<std::size_t>(kBlock * taps_of_point)), weights(offsets.size()) {}

  // `at`: where the point's coordinates are in the grid, whose last dim has that of the innermost dim first.
  void add(const GridSampling& sampling, const TensorDesc& x, DataType grid_type, const void* grid, std::int64_t at,
           std::int64_t place) {
    const int spatial = x.rank() - 2;
    if (count == 0) ends[0] = 0;
    places[count] = place;
    std::array<std::int64_t, kMostTaps> own_offsets;
    std::array<double, kMostTaps> own_weights;
    own_offsets[0] = 0;
    own_weights[0] = 1;
    std::int64_t found = 1;
    for (int d = 0; d < spatial; ++d) {
      const AxisTaps taps = axis_taps(sampling, load_as_double(grid_type, grid, at + spatial - 1 - d), x.dims[2 + d]);
      std::array<std::int64_t, kMostTaps> next_offsets;
      std::array<double, kMostTaps> next_weights;
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < found; ++i) {
        for (int t = 0; t < taps.count; ++t) {
          if (taps.index[t] < 0 || taps.weight[t] == 0) continue;
          next_offsets[next] = own_offsets[i] + taps.index[t] * x.strides[2 + d];
          next_weights[next++] = own_weights[i] * taps.weight[t];
        }
      }
      found = next;
      std::copy_n(next_offsets.begin(), found, own_offsets.begin());
      std::copy_n(next_weights.begin(), found, own_weights.begin());
    }
    for (std::int64_t i = 0; i < found; ++i) {
      offsets[ends[count] + i] = own_offsets[i];
      weights[ends[count] + i] = static_cast<C>(own_weights[i]);
    }
    ends[count + 1] = ends[count] + found;
    ++count;
  }

  // The values of a channel. Most points have all taps that there are: 1, or 2 or 4 for each dim.
  template <class T>
  void sample(const T* plane, T* y) const {
    std::int64_t most = 0;
    for (std::int64_t p = 0; p < count; ++p) most = std::max(most, ends[p + 1] - ends[p]);
    if (most == 4) return sample_mostly<4>(plane, y);
    if (most == 8) return sample_mostly<8>(plane, y);
    if (most == 16) return sample_mostly<16>(plane, y);
    sample_mostly<1>(plane, y);
  }

 private:
  template <class T>
  C sum(const T* plane, std::int64_t first, std::int64_t taps) const {
    C sum = 0;
    for (std::int64_t i = first; i < first + taps; ++i) sum += weights[i] * static_cast<C>(plane[offsets[i]]);
    return sum;
  }
  template <int kTaps, class T>
  C sum_of(const T* plane, std::int64_t first) const {
    C sum = 0;
#pragma GCC unroll 16
    for (int k = 0; k < kTaps; ++k) sum += weights[first + k] * static_cast<C>(plane[offsets[first + k]]);
    return sum;
  }
  template <int kTaps, class T>
  void sample_mostly(const T* plane, T* y) const {
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t first = ends[p], taps = ends[p + 1] - first;
      y[places[p]] = T(taps == kTaps ? sum_of<kTaps>(plane, first) : sum(plane, first, taps));
    }
  }
};

class GridSample final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    CONVOY_CHECK(check_type(node, inputs, 1, kMathFloats));
    if (auto sampling = grid_sampling(node); !sampling.ok()) return sampling.error();
    const Dims &x = inputs[0].desc.dims, &grid = inputs[1].desc.dims;
    const std::size_t spatial = x.size() < 3 ? 0 : x.size() - 2;
    if (spatial < 1 || spatial > 3 || grid.size() != x.size() || grid[0] != x[0] ||
        grid.back() != static_cast<std::int64_t>(spatial)) {
      return bad_node(node, fmt::format("input 0 has dims [{}] and input 1 (grid) [{}], which do not fit", to_string(x),
                                        to_string(grid)));
    }
    Dims dims{x[0], x[1]};
    dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
    const bool empty = std::find(x.begin() + 2, x.end(), 0) != x.end();
    if (empty) return bad_node(node, "input 0 has dims [" + to_string(x) + "]: nothing to sample");
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest& request) const override {
    CONVOY_TRY(const GridSampling sampling, grid_sampling(node));
    const TensorDesc &x = inputs[0].desc, &y = outputs[0];
    const DataType grid_type = inputs[1].desc.type;
    const bool vectors = has_row_vectors(request) && sampling.mode == Mode::linear && x.rank() == 4;
    return dispatch<kMathFloats>(x.type, [&]<class T>(Tag<T>) {
      const bool has_quads = vectors && std::is_same_v<T, float> && x.dims[2] > 1 && x.dims[3] > 1;
      return make_plan(node, [=](auto in, auto out, const ExecContext& context) -> Result<void> {
        const int spatial = x.rank() - 2;
        const std::int64_t points = product(y.dims, 2, y.rank()), channels = x.dims[1];
        const std::int64_t plane = product(x.dims, 2, x.rank());
        const std::int64_t blocks = (points + kBlock - 1) / kBlock;
        parallel_for(context, y.dims[0] * blocks, kBlock * channels * 16, [&](std::int64_t begin, std::int64_t end) {
          const std::int64_t taps = sampling.taps();
          Points<Compute<T>> others(spatial == 1 ? taps : spatial == 2 ? taps * taps : taps * taps * taps);
          Quads quads;
          quads.down = x.strides[x.rank() - 2];
          const auto is_quad = [&](std::int64_t place, std::int64_t at) {
            const auto along = [&](int d) {
              return sampling.coordinate(load_as_double(grid_type, in[1], at + 3 - d), static_cast<double>(x.dims[d]));
            };
            return quads.set(place, along(3), static_cast<double>(x.dims[3]), along(2), static_cast<double>(x.dims[2]));
          };
          for (std::int64_t unit = begin; unit < end; ++unit) {
            const std::int64_t n = unit / blocks, first = unit % blocks * kBlock;
            const std::int64_t count = std::min(points - first, kBlock);
            others.count = 0;
            for (std::int64_t p = 0; p < count; ++p) {
              const std::int64_t at = (n * points + first + p) * spatial;
              if (!has_quads || !is_quad(p, at)) others.add(sampling, x, grid_type, in[1], at, p);
            }
            const T* const from = static_cast<const T*>(in[0]) + n * channels * plane;
            T* const to = static_cast<T*>(out[0]) + n * channels * points + first;
            for (std::int64_t c = 0; c < channels; ++c) {
              if constexpr (std::is_same_v<T, float>) {
                if (others.count < count) {
                  avx2::sum_quads(from + c * plane, quads.offsets.data(), quads.down, quads.weights.data(), count,
                                  to + c * points);
                }
              }
              others.sample(from + c * plane, to + c * points);
            }
          }
        });
        return {};
      });
    });
  }
};

// y[n, (d), h, w] = theta[n] * (x, y, (z), 1) over a grid of the size's spatial dims on [-1, 1].
class AffineGrid final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {1}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 2, 2));
    if (auto align = node.integer("align_corners", 0); !align.ok()) return align.error();
    CONVOY_TRY(const Dims size, constant_integers(node, inputs, 1));
    const Dims& theta = inputs[0].desc.dims;
    const std::int64_t spatial = static_cast<std::int64_t>(size.size()) - 2;
    if ((spatial != 2 && spatial != 3) || theta != Dims{size[0], spatial, spatial + 1}) {
      return bad_node(node, fmt::format("theta has dims [{}] and size is [{}], which do not fit", to_string(theta),
                                        to_string(size)));
    }
    Dims dims{size[0]};
    dims.insert(dims.end(), size.begin() + 2, size.end());
    dims.push_back(spatial);
    return one_output(node, inputs[0].desc.type, std::move(dims));
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t align, node.integer("align_corners", 0));
    return make_plan(node, [align, y = outputs[0]](auto in, auto out, const ExecContext& context) -> Result<void> {
      const int spatial = y.rank() - 2;
      const std::int64_t points = product(y.dims, 1, y.rank() - 1);
      parallel_for(context, y.dims[0] * points, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          double place[4] = {0, 0, 0, 1};
          place[spatial] = 1;
          std::int64_t rest = unit % points;
          for (int i = 0; i < spatial; ++i) {  // x first
            const std::int64_t dim = y.dims[spatial - i];
            const double at = static_cast<double>(rest % dim);
            rest /= dim;
            place[i] = align == 0 ? (2 * at + 1) / static_cast<double>(dim) - 1
                       : dim == 1 ? 0
                                  : 2 * at / static_cast<double>(dim - 1) - 1;
          }
          const std::int64_t theta = unit / points * spatial * (spatial + 1);
          for (int r = 0; r < spatial; ++r) {
            double sum = 0;
            for (int i = 0; i <= spatial; ++i) {
              sum += load_as_double(y.type, in[0], theta + r * (spatial + 1) + i) * place[i];
            }
            store_from_double(y.type, out[0], unit * spatial + r, sum);
          }
        }
      });
      return {};
    });
  }
};

const GridSample grid_sample;
const AffineGrid affine_grid;

}  // namespace

Result<GridSampling> grid_sampling(const NodeDesc& node) {
  GridSampling sampling;
  CONVOY_TRY(const std::string mode, node.text("mode", "linear"));
  CONVOY_TRY(const std::string padding, node.text("padding_mode", "zeros"));
  CONVOY_TRY(const std::int64_t align, node.integer("align_corners", 0));
  sampling.align_corners = align != 0;
  if (mode == "nearest") {
    sampling.mode = GridSampling::Mode::nearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sampling.mode = GridSampling::Mode::cubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return bad_node(node, "mode='" + mode + "' is not linear, nearest or cubic");
  }
  if (padding == "border") {
    sampling.padding = GridSampling::Padding::border;
  } else if (padding == "reflection") {
    sampling.padding = GridSampling::Padding::reflection;
  } else if (padding != "zeros") {
    return bad_node(node, "padding_mode='" + padding + "' is not zeros, border or reflection");
  }
  return sampling;
}

std::vector<OperatorRow> grid_sample_rows() {
  return {{"GridSample", &grid_sample, images::grid_sample, Rate::others, values::mixed, in_place::never,
           layouts::row_major, kMathFloats},
          {"AffineGrid", &affine_grid, images::each_alone, Rate::others, values::mixed, in_place::never,
           layouts::row_major, kMathFloats}};
}

}  // namespace convoy::ops
