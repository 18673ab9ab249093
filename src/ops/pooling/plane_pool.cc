#include "ops/pooling/plane_pool.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "ops/movement/strided_copy.h"
#include "ops/pooling/plane_rows.h"

namespace convoy::ops {

const PlaneRows* plane_rows(Isa isa) {
  return isa >= Isa::avx512 ? &avx512::kPlaneRows : isa >= Isa::avx2 ? &avx2::kPlaneRows : nullptr;
}

namespace {

bool reads_always(const PoolAxis& axis) {
  for (std::int64_t o = 0; o < axis.out; ++o) {
    if (axis.first_tap(o) >= axis.last_tap(o)) return false;
  }
  return true;
}

// Where rows have one element, the axis before it takes their place: rows are what goes by vectors.
PoolGeometry longest_rows(PoolGeometry geometry) {
  auto& axes = geometry.axes;
  const auto is_one = [](const PoolAxis& axis) { return axis.in == 1 && axis.out == 1; };
  if (std::ranges::all_of(axes, is_one)) return geometry;
  while (is_one(axes[2])) std::ranges::rotate(axes, axes.begin() + 2);
  return geometry;
}

// Where tap k of output o reads, or its nearest that reads the input.
std::int64_t place(const PoolAxis& axis, std::int64_t o, std::int64_t k) {
  return o * axis.stride + std::clamp(k, axis.first_tap(o), axis.last_tap(o) - 1) * axis.dilation - axis.pad;
}

bool reads(const PoolAxis& axis, std::int64_t o, std::int64_t k) {
  return k >= axis.first_tap(o) && k < axis.last_tap(o);
}

// How many taps of an axis an average divides by.
float counted(PoolKind kind, const PoolAxis& axis, std::int64_t o) {
  const bool with_pad = kind == PoolKind::average_include_pad;
  return static_cast<float>(with_pad ? axis.padded_taps(o) : axis.last_tap(o) - axis.first_tap(o));
}

// Planes of one geometry and the loops for them.
struct Planes {
  const PlaneRows* loops;
  PoolKind kind;
  PoolGeometry geometry;
  DataType type;
  std::int64_t planes;

  bool sums() const { return kind != PoolKind::max; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_of(type)); }
  std::int64_t inputs() const {
    const auto& [depth, height, width] = geometry.axes;
    return depth.in * height.in * width.in;
  }
  std::int64_t outputs() const {
    const auto& [depth, height, width] = geometry.axes;
    return depth.out * height.out * width.out;
  }
  std::int64_t taps() const {
    const auto& [depth, height, width] = geometry.axes;
    return depth.kernel * height.kernel * width.kernel;
  }
};

class PlanePooling : Planes {
 public:
  explicit PlanePooling(const Planes& planes) : Planes(planes) {
    const PoolAxis& width = geometry.axes[2];
    const std::int64_t last = (width.out - 1) * width.stride + width.extent();  // with padding before
    length_ = std::max(width.pad + width.in, last) + PlaneRows::kSlack + width.stride * PlaneRows::kSlack;
    if (geometry.axes[0].kernel > 1) {
      const PoolAxis& height = geometry.axes[1];
      joined_ = std::min(height.in, (kAtOnce - 1) * height.stride + height.extent()) * width.in;
    }
    for (std::int64_t o = 0; o < width.out; ++o) divisors_.push_back(counted(kind, width, o));
  }

  std::size_t workspace_bytes(int threads) const {
    return static_cast<std::size_t>(threads * (kAtOnce * length_ + joined_)) * sizeof(float);
  }

  void run(const std::byte* x, std::byte* y, const ExecContext& context) const {
    const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
    const std::int64_t in_plane = inputs(), out_rows = depth.out * height.out;
    // Some rows of a depth at a time: what has just been stored is slow to load in other pieces.
    const std::int64_t groups = (height.out + kAtOnce - 1) / kAtOnce;
    const std::int64_t work = kAtOnce * width.in * (depth.kernel + height.kernel + width.kernel) / 4;
    parallel_for_thread(
        context, planes * depth.out * groups, work, [&](std::int64_t begin, std::int64_t end, int thread) {
          float* const memory = static_cast<float*>(context.workspace) + thread * (kAtOnce * length_ + joined_);
          float* const joined = memory + kAtOnce * length_;
          std::fill_n(memory, kAtOnce * length_, sums() ? 0.0F : -std::numeric_limits<float>::infinity());
          std::vector<const void*> taps(static_cast<std::size_t>(std::max(depth.kernel, height.kernel)));
          for (std::int64_t unit = begin; unit < end; ++unit) {
            const std::int64_t plane = unit / (depth.out * groups), od = unit / groups % depth.out;
            const std::int64_t first = unit % groups * kAtOnce, last = std::min(height.out, first + kAtOnce);
            const Rows rows = joined_depths(x + plane * in_plane * size(), od, first, last, taps, joined);
            for (std::int64_t oh = first; oh < last; ++oh) {
              std::size_t found = 0;
              for (std::int64_t k = height.first_tap(oh); k < height.last_tap(oh); ++k) {
                taps[found++] = rows.at(oh * height.stride + k * height.dilation - height.pad);
              }
              loops->down(sums(), rows.type, taps.data(), static_cast<std::int64_t>(found), width.in,
                          memory + (oh - first) * length_ + width.pad);
            }
            for (std::int64_t oh = first; oh < last; ++oh) {
              const float divisor = sums() ? counted(kind, depth, od) * counted(kind, height, oh) : 1;
              const std::int64_t row = plane * out_rows + od * height.out + oh;
              loops->along(sums(), memory + (oh - first) * length_, width.kernel, width.stride, width.dilation,
                           divisors_.data(), divisor, width.out, type, y + row * width.out * size());
            }
          }
        });
  }

 private:
  static constexpr std::int64_t kAtOnce = 8;

  // Rows of one depth, those of x or what those of several became.
  struct Rows {
    const std::byte* data;
    std::int64_t begin, bytes;  // the first of them; of each
    DataType type;
    const void* at(std::int64_t h) const { return data + (h - begin) * bytes; }
  };

  // What the rows of windows [first, last) of a depth read. The rows of a depth follow one another, so that those of
  // several are joined as one.
  Rows joined_depths(const std::byte* plane, std::int64_t od, std::int64_t first, std::int64_t last,
                     std::vector<const void*>& taps, float* joined) const {
    const PoolAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
    const std::int64_t row = width.in * size();
    const auto at = [&](std::int64_t kd) {
      return plane + (od * depth.stride + kd * depth.dilation - depth.pad) * height.in * row;
    };
    const std::int64_t first_tap = depth.first_tap(od), count = depth.last_tap(od) - first_tap;
    if (count == 1) return {at(first_tap), 0, row, type};
    const std::int64_t begin = std::max<std::int64_t>(0, first * height.stride - height.pad);
    const std::int64_t end = std::min(height.in, (last - 1) * height.stride - height.pad + height.extent());
    for (std::int64_t k = 0; k < count; ++k) taps[static_cast<std::size_t>(k)] = at(first_tap + k) + begin * row;
    loops->down(sums(), type, taps.data(), count, (end - begin) * width.in, joined);
    const auto bytes = width.in * static_cast<std::int64_t>(sizeof(float));
    return {reinterpret_cast<const std::byte*>(joined), begin, bytes, DataType::f32};
  }

  std::int64_t length_ = 0;  // of a row, with what is before and behind it
  std::int64_t joined_ = 0;  // elements of several depths' rows, joined
  std::vector<float> divisors_;
};

// Planes whose rows fit into registers (PlaneRows::short_plane). Of a window that reaches beyond an edge a maximum
// reads one of its own elements twice, a sum no row or a 0.
class ShortPlanePooling : Planes {
 public:
  explicit ShortPlanePooling(const Planes& planes) : Planes(planes) {
    const auto& [depth, height, width] = geometry.axes;
    plane_ = {.down_taps = depth.kernel * height.kernel,
              .rows = depth.out * height.out,
              .width = width.in,
              .along_taps = width.kernel,
              .count = width.out};
    for (std::int64_t row = 0; row < plane_.rows; ++row) {
      down_divisors_.push_back(counted(kind, depth, row / height.out) * counted(kind, height, row % height.out));
      for (std::int64_t kd = 0; kd < depth.kernel; ++kd) {
        for (std::int64_t kh = 0; kh < height.kernel; ++kh) {
          const std::int64_t d = place(depth, row / height.out, kd), h = place(height, row % height.out, kh);
          const bool taken = !sums() || (reads(depth, row / height.out, kd) && reads(height, row % height.out, kh));
          down_.push_back(taken ? (d * height.in + h) * width.in : -1);
        }
      }
    }
    along_.resize(static_cast<std::size_t>(width.kernel * loops->lanes));
    for (std::int64_t k = 0; k < width.kernel; ++k) {
      for (std::int64_t o = 0; o < width.out; ++o) {
        const std::int64_t at = sums() && !reads(width, o, k) ? width.in : place(width, o, k);
        along_[static_cast<std::size_t>(k * loops->lanes + o)] = static_cast<std::int32_t>(at);
      }
    }
    along_divisors_.assign(static_cast<std::size_t>(loops->lanes), 1);
    for (std::int64_t o = 0; o < width.out; ++o) along_divisors_[static_cast<std::size_t>(o)] = counted(kind, width, o);
  }

  static bool fits(const Planes& planes) {
    constexpr std::int64_t kMostTaps = 1 << 14;
    const auto& [depth, height, width] = planes.geometry.axes;
    const std::int64_t lanes = planes.loops->lanes, most = 2 * lanes - (planes.sums() ? 1 : 0);  // with room for a 0
    return width.in <= most && width.out <= lanes &&
           depth.out * height.out * depth.kernel * height.kernel <= kMostTaps && width.kernel <= kMostTaps;
  }

  void run(const std::byte* x, std::byte* y, const ExecContext& context) const {
    const std::int64_t in_bytes = inputs() * size(), out_bytes = outputs() * size();
    const std::int64_t work = plane_.rows * (2 * plane_.down_taps + plane_.along_taps) * loops->lanes / 4;
    parallel_for(context, planes, work, [&](std::int64_t begin, std::int64_t end) {
      PlaneRows::ShortPlane plane = plane_;
      plane.down = down_.data();
      plane.along = along_.data();
      plane.down_divisors = down_divisors_.data();
      plane.along_divisors = along_divisors_.data();
      for (std::int64_t p = begin; p < end; ++p) {
        loops->short_plane(sums(), type, plane, x + p * in_bytes, y + p * out_bytes);
      }
    });
  }

 private:
  PlaneRows::ShortPlane plane_ = {};
  std::vector<std::int64_t> down_;
  std::vector<std::int32_t> along_;
  std::vector<float> down_divisors_, along_divisors_;
};

// Planes of few outputs a row: where each output's taps lie is a table, as the same for all planes, of which some are
// taken as one.
class GatheredPooling : Planes {
 public:
  explicit GatheredPooling(const Planes& planes) : Planes(planes) {
    constexpr std::int64_t kOutputs = 128;
    const auto& [depth, height, width] = geometry.axes;
    together_ = std::max<std::int64_t>(1, kOutputs / outputs());
    step_ = (together_ * outputs() + loops->lanes - 1) / loops->lanes * loops->lanes;
    index_.assign(static_cast<std::size_t>(taps() * step_), -1);
    divisors_.assign(static_cast<std::size_t>(step_), 1);
    for (std::int64_t o = 0; o < together_ * outputs(); ++o) {
      const std::int64_t ow = o % width.out, oh = o / width.out % height.out;
      const std::int64_t od = o / (width.out * height.out) % depth.out, plane = o / outputs();
      divisors_[static_cast<std::size_t>(o)] =
          counted(kind, depth, od) * counted(kind, height, oh) * counted(kind, width, ow);
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        const std::int64_t kw = tap % width.kernel, kh = tap / width.kernel % height.kernel;
        const std::int64_t kd = tap / (width.kernel * height.kernel);
        if (sums() && !(reads(depth, od, kd) && reads(height, oh, kh) && reads(width, ow, kw))) continue;
        const std::int64_t row = place(depth, od, kd) * height.in + place(height, oh, kh);
        index_[static_cast<std::size_t>(tap * step_ + o)] =
            static_cast<std::int32_t>(plane * inputs() + row * width.in + place(width, ow, kw));
      }
    }
  }

  static bool fits(const Planes& planes) {
    constexpr std::int64_t kMostTaps = 1 << 14;
    const std::int64_t most = planes.type == DataType::f32 ? 12 : 4;  // taps of a row of outputs
    for (const PoolAxis& axis : planes.geometry.axes) {
      if (axis.kernel > most || axis.out > kMostTaps || axis.in > kMostTaps) return false;
    }
    return planes.geometry.axes[2].out * planes.taps() <= most && planes.outputs() * planes.taps() <= kMostTaps;
  }

  void run(const std::byte* x, std::byte* y, const ExecContext& context) const {
    const std::int64_t groups = (planes + together_ - 1) / together_;
    parallel_for(context, groups, together_ * outputs() * taps(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t first = group * together_, count = std::min(together_, planes - first) * outputs();
        loops->gathered(sums(), type, x + first * inputs() * size(), index_.data(), taps(), step_, divisors_.data(),
                        count, y + first * outputs() * size());
      }
    });
  }

 private:
  std::int64_t together_ = 1, step_ = 0;
  std::vector<std::int32_t> index_;
  std::vector<float> divisors_;
};

template <class Pooling>
std::unique_ptr<OpPlan> plan_of(const NodeDesc& node, Pooling pooling, std::size_t workspace_bytes) {
  return make_plan(
      node,
      [pooling = std::move(pooling)](auto in, auto out, const ExecContext& context) -> Result<void> {
        pooling.run(static_cast<const std::byte*>(in[0]), static_cast<std::byte*>(out[0]), context);
        return {};
      },
      workspace_bytes);
}

}  // namespace

std::unique_ptr<OpPlan> plane_pooling(const NodeDesc& node, PoolKind kind, const PoolGeometry& given,
                                      const TensorDesc& x, const TensorDesc& y, const PlanRequest& request) {
  const PlaneRows* const rows = plane_rows(request.cpu.isa);
  if (rows == nullptr || x.rank() < 3) return nullptr;
  if (x.type != DataType::f32 && !contains(kHalves, x.type)) return nullptr;
  if (!x.is_packed(Layout::nchw) || !y.is_packed(Layout::nchw) || y.elements() == 0) return nullptr;
  if (!std::ranges::all_of(given.axes, reads_always)) return nullptr;
  const bool takes_single = std::ranges::all_of(given.axes, [](const PoolAxis& axis) { return axis.kernel == 1; });
  if (takes_single && kind != PoolKind::max) {  // a maximum passes over a NaN
    Dims steps = x.strides;
    for (int d = 2; d < x.rank(); ++d) steps[d] *= given.axes[3 - given.spatial_dims + d - 2].stride;
    return plan_of_copy(node, StridedCopy(size_of(x.type), y.dims, steps, y.strides));
  }
  const Planes planes{rows, kind, longest_rows(given), x.type, x.dims[0] * x.dims[1]};
  if (GatheredPooling::fits(planes)) return plan_of(node, GatheredPooling(planes), 0);
  if (ShortPlanePooling::fits(planes)) return plan_of(node, ShortPlanePooling(planes), 0);
  PlanePooling pooling(planes);
  const std::size_t workspace_bytes = pooling.workspace_bytes(request.threads);
  return plan_of(node, std::move(pooling), workspace_bytes);
}

}  // namespace convoy::ops
