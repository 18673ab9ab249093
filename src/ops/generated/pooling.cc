// Pools: folds over the taps of a window, or over a whole plane.
#include "ops/pooling/pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/generated/rules.h"
#include "ops/vision/col2im.h"

namespace convoy::ops::generated {
namespace {

using generate::Function;
using generate::written;

// Positions are N, C and the output's; the folded ones are the window's taps.
struct Windows {
  PoolGeometry geometry;
  TensorDesc x, y;

  const PoolAxis& axis(int d) const { return *(geometry.axes.end() - geometry.spatial_dims + d); }
  Dims taps() const {
    Dims taps;
    for (int d = 0; d < geometry.spatial_dims; ++d) taps.push_back(axis(d).kernel);
    return taps;
  }
  Coordinate tap(int d, std::int64_t offset) const {
    return {{{2 + d, axis(d).stride}, {2 + geometry.spatial_dims + d, axis(d).dilation}}, offset, {}};
  }
  Subscript input() const {
    Subscript place{x, {Coordinate::of(0), Coordinate::of(1)}};
    for (int d = 0; d < geometry.spatial_dims; ++d) place.coordinates.push_back(tap(d, -axis(d).pad));
    return place;
  }
  // 1 for the taps that count: those that read the input, or its padding, too.
  Load counted(bool padding) const {
    Load load{-1, {TensorDesc::packed(x.type, {}), {}}};
    for (int d = 0; d < geometry.spatial_dims; ++d) {
      const PoolAxis& a = axis(d);
      load.place.tensor.dims.push_back(padding ? a.in + a.pad + a.pad_end : a.in);
      load.place.tensor.strides.push_back(0);
      load.place.coordinates.push_back(tap(d, padding ? 0 : -a.pad));
    }
    return load;
  }
  // Whether all taps of all windows count.
  bool all_count(bool padding) const {
    for (int d = 0; d < geometry.spatial_dims; ++d) {
      const PoolAxis& a = axis(d);
      if (!padding && a.pad > 0) return false;
      if ((a.out - 1) * a.stride + a.extent() > a.in + a.pad + (padding ? a.pad_end : 0)) return false;
    }
    return true;
  }
};

Result<Windows> windows_of(const Described& d) {
  CONVOY_TRY(const PoolGeometry geometry, read_pooling(d.node, d.inputs[0].desc.dims));
  return Windows{geometry, d.inputs[0].desc, d.outputs[0]};
}

Computation folded(const Windows& w, double outside) {
  Computation made{
      .type = computed_in(w.x.type), .kept = w.y.dims, .folded = w.taps(), .loads = {}, .folds = {}, .stores = {}};
  made.loads.push_back({0, w.input(), outside});
  return made;
}

void store_fold(Computation& made, const TensorDesc& y) {
  const int value = static_cast<int>(made.loads.size());
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), generate::itself(value)});
}

// The greater of two, of which a NaN is none.
Expression greater() {
  return written([](auto in) { return elements::select(in(0) < in(1), in(1), in(0)); });
}

double lowest(DataType type) {
  return type == DataType::s8 ? -128 : type == DataType::u8 ? 0 : -std::numeric_limits<double>::infinity();
}

Result<Computation> max_pool(const Described& d) {
  if (d.outputs.size() > 1) return no_kernel(d, "its second output, the indices, is asked for");
  CONVOY_TRY(const Windows w, windows_of(d));
  const double least = lowest(w.x.type);
  Computation made = folded(w, least);
  made.folds.push_back({greater(), least, generate::itself(0), {}});
  store_fold(made, w.y);
  return made;
}

Result<Computation> average_pool(const Described& d) {
  CONVOY_TRY(const Windows w, windows_of(d));
  CONVOY_TRY(const std::int64_t include, d.node.integer("count_include_pad", 0));
  Computation made = folded(w, 0);
  if (w.all_count(include != 0)) {
    std::int64_t taps = 1;
    for (const std::int64_t each : made.folded) taps *= each;
    made.folds.push_back({generate::of(Function::add), 0, generate::itself(0), {written([&](auto in) {
                            return in(1) / static_cast<double>(taps);
                          })}});
    store_fold(made, w.y);
    return made;
  }
  made.loads.push_back(w.counted(include != 0));
  made.folds.push_back({generate::of(Function::add), 0, generate::itself(0), {}});
  made.folds.push_back({generate::of(Function::add), 0, generate::itself(1), {}});
  made.stores.push_back(
      {0, Subscript::broadcast(w.y, w.y.rank()), written([](auto in) { return in(2) / elements::max(in(3), 1.0); })});
  return made;
}

// (sum |x|^p)^(1/p) over the folded positions.
void fold_norm(Computation& made, std::int64_t p, const TensorDesc& y) {
  const double power = static_cast<double>(p);
  made.folds.push_back(
      {generate::of(Function::add),
       0,
       written([&](auto in) { return p == 2 ? in(0) * in(0) : elements::pow(elements::absolute(in(0)), power); }),
       {written([&](auto in) { return p == 2 ? elements::sqrt(in(1)) : elements::pow(in(1), 1 / power); })}});
  store_fold(made, y);
}

Result<Computation> lp_pool(const Described& d) {
  CONVOY_TRY(const Windows w, windows_of(d));
  CONVOY_TRY(const std::int64_t p, d.node.integer("p", 2));
  Computation made = folded(w, 0);
  fold_norm(made, p, w.y);
  return made;
}

// All spatial positions of a channel.
Computation plane(const Described& d) {
  const TensorDesc& x = d.inputs[0].desc;
  Computation made{.type = computed_in(x.type),
                   .kept = {x.dims[0], x.dims[1]},
                   .folded = Dims(x.dims.begin() + 2, x.dims.end()),
                   .loads = {},
                   .folds = {},
                   .stores = {}};
  made.loads.push_back({0, Subscript::broadcast(x, x.rank())});
  return made;
}

// What is stored has spatial dims of 1, which no position counts.
Result<Computation> global_average(const Described& d) {
  Computation made = plane(d);
  double count = 1;
  for (const std::int64_t each : made.folded) count *= static_cast<double>(each);
  made.folds.push_back(
      {generate::of(Function::add), 0, generate::itself(0), {written([&](auto in) { return in(1) / count; })}});
  store_fold(made, d.outputs[0]);
  return made;
}

Result<Computation> global_max(const Described& d) {
  Computation made = plane(d);
  made.folds.push_back({generate::of(Function::max), lowest(d.inputs[0].desc.type), generate::itself(0), {}});
  store_fold(made, d.outputs[0]);
  return made;
}

Result<Computation> global_lp(const Described& d) {
  CONVOY_TRY(const std::int64_t p, d.node.integer("p", 2));
  Computation made = plane(d);
  fold_norm(made, p, d.outputs[0]);
  return made;
}

// Sums of quantized values over windows, in f64, of which padding is the real number 0.
Result<Computation> qlinear_average(const Described& d) {
  CONVOY_TRY(const std::int64_t last, d.node.integer("channels_last", 0));
  CONVOY_TRY(const std::int64_t include, d.node.integer("count_include_pad", 0));
  TensorDesc x = d.inputs[0].desc, y = d.outputs[0];
  for (TensorDesc* each : {&x, &y}) {
    if (last == 0) continue;
    std::rotate(each->dims.begin() + 1, each->dims.end() - 1, each->dims.end());
    std::rotate(each->strides.begin() + 1, each->strides.end() - 1, each->strides.end());
  }
  NodeDesc node = d.node;
  if (node.op == "QLinearGlobalAveragePool") {
    node.attributes = {{"kernel_shape", Dims(x.dims.begin() + 2, x.dims.end())}};
  }
  CONVOY_TRY(const PoolGeometry geometry, read_pooling(node, x.dims));
  const Windows w{geometry, x, y};
  Computation made = folded(w, 0);
  made.type = DataType::f64;
  made.loads.push_back(w.counted(false));
  made.loads.push_back(w.counted(include != 0));
  const Quantizer from = Quantizer::load(made, d, 1, 2), to = Quantizer::load(made, d, 3, 4);
  const int sum = static_cast<int>(made.loads.size()), inside = sum + 1, counted = sum + 2;
  for (const int load : {0, 1, 2}) made.folds.push_back({generate::of(Function::add), 0, generate::itself(load), {}});
  made.stores.push_back({0, Subscript::broadcast(y, y.rank()), written([&](auto in) {
                           const Value steps = from.zero < 0 ? in(sum) : in(sum)-in(from.zero) * in(inside);
                           return to.quantized(steps * in(from.scale) / elements::max(in(counted), 1.0), in, y.type);
                         })});
  return made;
}

// Columns of blocks summed back into images: over a block's taps, where a block lies so that it has the pixel there.
Result<Computation> col2im(const Described& d) {
  CONVOY_TRY(const Blocks blocks, blocks_of(d.node, d.inputs));
  const TensorDesc &x = d.inputs[0].desc, &y = d.outputs[0];
  const int spatial = static_cast<int>(blocks.image.size());
  Computation made{
      .type = computed_in(x.type), .kept = y.dims, .folded = blocks.block, .loads = {}, .folds = {}, .stores = {}};
  Subscript place{x, {Coordinate::of(0), Coordinate::of(1)}};
  Dims &dims = place.tensor.dims, &strides = place.tensor.strides;
  dims = {x.dims[0], y.dims[1]};
  strides = {x.strides[0], x.strides[1]};
  const auto add = [&](std::int64_t size, std::int64_t stride, Coordinate coordinate) {
    dims.push_back(size);
    strides.push_back(stride);
    place.coordinates.push_back(std::move(coordinate));
  };
  std::int64_t tap_stride = x.strides[1], place_stride = x.strides[2];
  for (int i = spatial - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    add(blocks.block[at], tap_stride, Coordinate::of(2 + spatial + i));
    Coordinate where{{{2 + i, blocks.block[at]}, {2 + spatial + i, 1}}, 0, {}};
    for (std::int64_t pixel = 0; pixel < blocks.image[at]; ++pixel) {
      for (std::int64_t tap = 0; tap < blocks.block[at]; ++tap) {
        const std::int64_t steps = pixel + blocks.pad[at] - tap * blocks.dilation[at];
        const bool is_there =
            steps >= 0 && steps % blocks.stride[at] == 0 && steps / blocks.stride[at] < blocks.count[at];
        where.table.push_back(is_there ? static_cast<std::int32_t>(steps / blocks.stride[at]) : -1);
      }
    }
    add(blocks.count[at], place_stride, std::move(where));
    tap_stride *= blocks.block[at];
    place_stride *= blocks.count[at];
  }
  strides[1] = tap_stride;
  made.loads.push_back({0, std::move(place)});
  made.folds.push_back({generate::of(Function::add), 0, generate::itself(0), {}});
  store_fold(made, y);
  return made;
}

constexpr NamedRule kPoolingRules[] = {
    {"Col2Im", col2im},
    {"QLinearAveragePool", qlinear_average, kMicrosoft},
    {"QLinearGlobalAveragePool", qlinear_average, kMicrosoft},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"LpPool", lp_pool},
    {"GlobalMaxPool", global_max},
    {"GlobalAveragePool", global_average},
    {"GlobalLpPool", global_lp},
};

}  // namespace

std::span<const NamedRule> pooling_rules() { return kPoolingRules; }

}  // namespace convoy::ops::generated
