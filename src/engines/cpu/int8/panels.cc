#include "engines/cpu/int8/panels.h"

#include <algorithm>
#include <cstring>

namespace convoy::cpu::int8 {
namespace {

std::int32_t value_of(DataType type, const void* data, std::int64_t index) {
  return type == DataType::s8 ? static_cast<const std::int8_t*>(data)[index]
                              : static_cast<const std::uint8_t*>(data)[index];
}

// x' of `count` channels of one pixel, `stride` apart.
std::uint8_t* shifted(const std::uint8_t* from, std::int64_t count, std::int64_t stride, std::int32_t add,
                      std::uint8_t* to) {
  if (stride == 1) {  // its own loop, so that it is vectorised
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] + add);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i * stride] + add);
  }
  return to + count;
}

// Whether pmaddubsw adds the products of these two with any x' without saturating.
bool fit_16_bits(std::int8_t a, std::int8_t b) {
  return std::max<int>(a, 0) + std::max<int>(b, 0) <= 128 && std::min<int>(a, 0) + std::min<int>(b, 0) >= -128;
}

}  // namespace

Panels::Panels(const ConvProblem& problem, const Kernel& kernel)
    : geometry_(flat_geometry(problem)),
      kernel_(kernel),
      x_type_(problem.x.type),
      w_type_(problem.w.type),
      again_(kernel.pairs_in_16_bits),
      x_shift_(x_type_ == DataType::s8 ? 128 : 0),
      x_zero_point_(problem.x_zero_point),
      x_zero_given_(problem.x_zero_given),
      w_zero_given_(problem.w_zero_given) {
  const ConvGeometry& g = geometry_;
  w_shift_ = w_type_ == DataType::u8 ? -128 : 0;
  w_zero_ = w_zero_given_ ? 0 : problem.w_zero_point + w_shift_;
  terms_ = g.taps * g.group_channels;
  const std::int64_t together = kernel.steps_together;
  steps_ = ((terms_ + 3) / 4 + together - 1) / together * together;
  per_group_ = (g.group_filters + kernel.columns - 1) / kernel.columns;

  bool pointwise = g.taps == 1;
  for (int i = 0; i < 3; ++i) pointwise = pointwise && g.pre[i] == 0 && g.post[i] == 0;
  for (int i = 0; i < 3 && together > 1; ++i) pointwise = pointwise && g.stride[i] == 1;
  direct_ = pointwise && x_type_ == DataType::u8 && !has_row_terms() && g.x.channel == 1 &&
            g.group_channels % (4 * together) == 0 && (together == 1 || problem.x.is_packed(Layout::nhwc));
  taps_side_by_side_ = g.x.channel == 1 && g.x.spatial[2] == g.group_channels && g.dilation[2] == 1;
  tile_bytes_ = direct_ ? 0 : (static_cast<std::size_t>(kernel.rows * steps_ * 4) + 63) / 64 * 64;
}

std::int64_t Panels::block_tiles() const {
  constexpr std::int64_t kBlockBytes = 192 << 10;
  // (Direct ones have no tiles; what they read of x counts.)
  const std::int64_t bytes = direct_ ? kernel_.rows * steps_ * 4 : static_cast<std::int64_t>(tile_bytes_);
  return std::clamp<std::int64_t>(kBlockBytes / std::max<std::int64_t>(1, bytes), 1, kMostBlockTiles);
}

std::size_t Panels::packed_bytes() const {
  const std::int64_t lists = again_ ? static_cast<std::int64_t>(all_panels()) * (1 + steps_) : 0;
  return again_at() + static_cast<std::size_t>(lists) * sizeof(std::int32_t);
}

Panel Panels::panel(const void* packed, std::int64_t group, std::int64_t panel) const {
  const auto* bytes = static_cast<const std::byte*>(packed);
  const std::int64_t at = group * per_group_ + panel;
  Panel found{bytes + at * panel_bytes(), steps_, nullptr, 0};
  if (again_) {
    found.again = reinterpret_cast<const std::int32_t*>(bytes + again_at()) + at * (1 + steps_) + 1;
    found.again_count = found.again[-1];
  }
  return found;
}

const std::int32_t* Panels::column_terms(const void* packed, std::int32_t x_zero_point, void* scratch) const {
  const auto* stored = reinterpret_cast<const std::int32_t*>(static_cast<const std::byte*>(packed) + terms_at());
  if (!x_zero_given_) return stored;
  const auto zx = static_cast<std::uint32_t>(x_zero_point + x_shift_);
  auto* terms = static_cast<std::int32_t*>(scratch);
  for (std::size_t i = 0; i < all_columns(); ++i) {
    terms[i] = static_cast<std::int32_t>(zx * static_cast<std::uint32_t>(stored[i]));
  }
  return terms;
}

void Panels::pack(const void* weights, void* packed) const {
  const ConvGeometry& g = geometry_;
  auto* const bytes = static_cast<std::byte*>(packed);
  std::memset(packed, 0, packed_bytes());
  auto* stored_terms = reinterpret_cast<std::int32_t*>(bytes + terms_at());
  auto* lists = reinterpret_cast<std::int32_t*>(bytes + again_at());
  const auto zx = x_zero_given_ ? 1u : static_cast<std::uint32_t>(x_zero_point_ + x_shift_);
  const auto zw = static_cast<std::uint32_t>(w_zero_);
  for (std::int64_t group = 0; group < g.groups; ++group) {
    for (std::int64_t k = 0; k < g.group_filters; ++k) {
      const std::int64_t at_panel = group * per_group_ + k / kernel_.columns;
      const std::int64_t column = k % kernel_.columns;
      std::byte* const to = bytes + at_panel * panel_bytes();
      std::uint32_t column_sum = 0;  // unsigned: sums wrap
      std::int64_t term = 0;
      for (std::int64_t d = 0; d < g.filter[0]; ++d) {
        for (std::int64_t h = 0; h < g.filter[1]; ++h) {
          for (std::int64_t w = 0; w < g.filter[2]; ++w) {
            const std::int64_t tap = g.w.origin + (group * g.group_filters + k) * g.w.out + d * g.w.spatial[0] +
                                     h * g.w.spatial[1] + w * g.w.spatial[2];
            for (std::int64_t c = 0; c < g.group_channels; ++c, ++term) {
              const std::int32_t value = value_of(w_type_, weights, tap + c * g.w.in) + w_shift_;
              column_sum += static_cast<std::uint32_t>(value);
              reinterpret_cast<std::int8_t*>(to)[(term / 4 * kernel_.columns + column) * 4 + term % 4] =
                  static_cast<std::int8_t>(value);
            }
          }
        }
      }
      stored_terms[at_panel * kernel_.columns + column] =
          static_cast<std::int32_t>(zx * (static_cast<std::uint32_t>(terms_) * zw - column_sum));
    }
  }
  if (!again_) return;
  for (std::size_t i = 0; i < all_panels(); ++i) {
    halve_large_pairs(bytes + static_cast<std::int64_t>(i) * panel_bytes(),
                      lists + static_cast<std::int64_t>(i) * (1 + steps_));
  }
}

// `again`: how many, then which.
void Panels::halve_large_pairs(std::byte* weights, std::int32_t* again) const {
  const std::int64_t step_bytes = kernel_.columns * 4;
  auto* const first = reinterpret_cast<std::int8_t*>(weights);
  for (std::int64_t step = 0; step < steps_; ++step) {
    std::int8_t* const all = first + step * step_bytes;
    std::int8_t* const more = first + (steps_ + again[0]) * step_bytes;
    bool any = false;
    for (std::int64_t i = 0; i < step_bytes; i += 2) {
      if (fit_16_bits(all[i], all[i + 1])) continue;
      any = true;
      for (const std::int64_t at : {i, i + 1}) {
        more[at] = static_cast<std::int8_t>(all[at] / 2);
        all[at] = static_cast<std::int8_t>(all[at] - more[at]);
      }
    }
    if (any) again[++again[0]] = static_cast<std::int32_t>(4 * step);
  }
}

Panels::Pixel Panels::pixel_at(std::int64_t index) const {
  const std::int64_t* size = geometry_.y_size;
  Pixel pixel{};
  pixel.w = index % size[2];
  index /= size[2];
  pixel.h = index % size[1];
  index /= size[1];
  pixel.d = index % size[0];
  pixel.n = index / size[0];
  return pixel;
}

// -zw' * sum x' of a gathered row, or the factor of zw' where that comes with the execution: n * zx' - sum x'.
std::int32_t Panels::row_term(const std::uint8_t* row, const std::uint8_t* end, std::int32_t x_zero) const {
  std::uint32_t sum = 0;
  for (; row != end; ++row) sum += *row;
  if (!w_zero_given_) return static_cast<std::int32_t>(0u - static_cast<std::uint32_t>(w_zero_) * sum);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(terms_) * static_cast<std::uint32_t>(x_zero) - sum);
}

// Calls row(where) in the filter's order; `where` is what channel 0 of the first pixel of the row of x that a row of
// the filter reads is from x, in elements; outside of x -1.
template <class Row>
void Panels::each_row(const Pixel& p, Row row) const {
  const ConvGeometry& g = geometry_;
  for (std::int64_t d = 0; d < g.filter[0]; ++d) {
    const std::int64_t xd = p.d * g.stride[0] + d * g.dilation[0] - g.pre[0];
    for (std::int64_t h = 0; h < g.filter[1]; ++h) {
      const std::int64_t xh = p.h * g.stride[1] + h * g.dilation[1] - g.pre[1];
      const bool inside = xd >= 0 && xd < g.x_size[0] && xh >= 0 && xh < g.x_size[1];
      row(inside ? p.n * g.x.batch + xd * g.x.spatial[0] + xh * g.x.spatial[1] : -1);
    }
  }
}

// Calls tap(where) likewise, for each pixel.
template <class Tap>
void Panels::each_tap(const Pixel& p, Tap tap) const {
  const ConvGeometry& g = geometry_;
  each_row(p, [&](std::int64_t row) {
    std::int64_t xw = p.w * g.stride[2] - g.pre[2];
    for (std::int64_t w = 0; w < g.filter[2]; ++w, xw += g.dilation[2]) {
      tap(row >= 0 && xw >= 0 && xw < g.x_size[2] ? row + xw * g.x.spatial[2] : -1);
    }
  });
}

// x' of all taps and channels of an output pixel; x: the group's first channel. Returns the end of what it wrote.
std::uint8_t* Panels::gather_row(const std::uint8_t* x, std::uint8_t x_zero, const Pixel& p, std::uint8_t* to) const {
  const ConvGeometry& g = geometry_;
  const auto zeros = [&](std::int64_t pixels) {
    std::memset(to, x_zero, static_cast<std::size_t>(pixels * g.group_channels));
    to += pixels * g.group_channels;
  };
  if (!taps_side_by_side_) {
    each_tap(p, [&](std::int64_t at) {
      if (at < 0) return zeros(1);
      to = shifted(x + at, g.group_channels, g.x.channel, x_shift_, to);
    });
    return to;
  }
  const std::int64_t begin = p.w * g.stride[2] - g.pre[2];
  const std::int64_t before = std::clamp<std::int64_t>(-begin, 0, g.filter[2]);
  const std::int64_t inside = std::clamp<std::int64_t>(g.x_size[2] - begin, before, g.filter[2]) - before;
  each_row(p, [&](std::int64_t row) {
    if (row < 0 || inside == 0) return zeros(g.filter[2]);
    zeros(before);
    to = shifted(x + row + (begin + before) * g.group_channels, inside * g.group_channels, 1, x_shift_, to);
    zeros(g.filter[2] - before - inside);
  });
  return to;
}

void Panels::gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first_row, int count,
                    void* tile, const void** rows, std::int32_t* row_terms, std::int64_t* out) const {
  const ConvGeometry& g = geometry_;
  const std::int32_t x_zero = x_zero_point + x_shift_;
  const auto* bytes = static_cast<const std::uint8_t*>(x);
  const std::int64_t channel = group * g.group_channels * g.x.channel;
  const std::int64_t row_bytes = steps_ * 4;
  Pixel p = pixel_at(first_row);
  for (int r = 0; r < kernel_.rows; ++r, advance(p)) {
    if (r >= count) {
      rows[r] = rows[count - 1];
      continue;
    }
    out[r] = p.n * g.y.batch + p.d * g.y.spatial[0] + p.h * g.y.spatial[1] + p.w * g.y.spatial[2];
    if (direct_) {
      rows[r] = bytes + p.n * g.x.batch + channel + p.d * g.stride[0] * g.x.spatial[0] +
                p.h * g.stride[1] * g.x.spatial[1] + p.w * g.stride[2] * g.x.spatial[2];
      continue;
    }
    auto* row = static_cast<std::uint8_t*>(tile) + r * row_bytes;
    rows[r] = row;
    const std::uint8_t* end = gather_row(bytes + channel, static_cast<std::uint8_t>(x_zero), p, row);
    if (has_row_terms()) row_terms[r] = row_term(row, end, x_zero);
    std::memset(row + (end - row), 0, static_cast<std::size_t>(row + row_bytes - end));
  }
}

}  // namespace convoy::cpu::int8
