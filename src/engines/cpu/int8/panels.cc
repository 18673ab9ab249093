#include "engines/cpu/int8/panels.h"

#include <algorithm>
#include <cstring>

namespace convoy::cpu::int8 {
namespace {

std::int32_t value_of(DataType type, const void* data, std::int64_t index) {
  return type == DataType::s8 ? static_cast<const std::int8_t*>(data)[index]
                              : static_cast<const std::uint8_t*>(data)[index];
}

// x' of `count` values that lie side by side.
void shifted(const std::uint8_t* from, std::int64_t count, std::int32_t add, std::uint8_t* to) {
  if (add == 0) {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(from[i] + add);
  }
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
  per_group_ = ceil_div(g.group_filters, kernel.columns);

  const std::int64_t together = kernel.steps_together;
  bool pointwise = g.taps == 1;
  for (int i = 0; i < 3; ++i) pointwise = pointwise && g.pre[i] == 0 && g.post[i] == 0;
  for (int i = 0; i < 3 && together > 1; ++i) pointwise = pointwise && g.stride[i] == 1;
  direct_ = pointwise && x_type_ == DataType::u8 && g.x.channel == 1 && g.group_channels % (4 * together) == 0 &&
            (together == 1 || problem.x.is_packed(Layout::nhwc));
  plan_lines();
}

// A line of a block: what a row of the filter reads for `pixels` outputs of a row, in pixels of x.
std::int64_t Panels::line_pixels(std::int64_t pixels) const {
  const ConvGeometry& g = geometry_;
  if (one_by_one_) return g.filter[2];
  return line_step_ > 1 ? pixels : (pixels - 1) * g.stride[2] + (g.filter[2] - 1) * g.dilation[2] + 1;
}

std::int64_t Panels::padded_steps(std::int64_t run_terms) const {
  return ceil_div(run_terms, 4 * kernel_.steps_together) * kernel_.steps_together;
}

// Precondition: one_by_one_ is false, runs and line_step_ are those of lines.
bool Panels::reads_one_by_one() const {
  const ConvGeometry& g = geometry_;
  const std::int64_t most = std::min<std::int64_t>(Block::most_tiles * kernel_.rows, g.y_size[2]);
  if (line_pixels(most) > most * g.filter[2]) return true;  // far dilation, strides above the filter
  if (kernel_.steps_together == 1) return false;
  // Cycles of a tile of AMX: 64 for 16 steps; gathering a pixel, some for each row of the filter and 32 bytes each.
  constexpr double kStep = 4, kRow = 15, kBytes = 32, kLeast = 0.6;
  const double filled = filled_rows();
  const double products = kStep * static_cast<double>(per_group_);
  const std::int64_t runs = terms_ / run_terms_;
  const double lines = products * static_cast<double>(runs * padded_steps(run_terms_)) / filled;
  const double a_pixel = kRow * static_cast<double>(g.filter[0] * g.filter[1]) + static_cast<double>(terms_) / kBytes;
  const double gathered = products * static_cast<double>(padded_steps(terms_)) + a_pixel * kernel_.rows;
  return filled < kLeast || lines > gathered;
}

double Panels::filled_rows() const {
  const std::int64_t row = geometry_.y_size[2];
  return static_cast<double>(row) / static_cast<double>(ceil_div(row, kernel_.group_rows) * kernel_.group_rows);
}

void Panels::plan_lines() {
  constexpr std::int64_t kBlockBytes = 192 << 10;
  const ConvGeometry& g = geometry_;
  const std::int64_t filter_rows = g.filter[0] * g.filter[1];
  const bool side_by_side = g.dilation[2] == 1 || g.filter[2] == 1;
  line_step_ = g.filter[2] == 1 ? g.stride[2] : 1;
  run_terms_ = direct_ ? terms_ : side_by_side ? g.filter[2] * g.group_channels : g.group_channels;
  one_by_one_ = !direct_ && reads_one_by_one();
  if (one_by_one_) {
    line_step_ = g.dilation[2];
    run_terms_ = terms_;
  }
  const bool lines = !direct_ && !one_by_one_;
  if (lines && kernel_.steps_together > 1) filled_ = filled_rows();

  // The largest block whose lines fit into the second cache beside a panel.
  const auto rows_of = [&](std::int64_t pixels) { return (pixels + g.y_size[2] - 2) / g.y_size[2] + 1; };
  const auto bytes_of = [&](std::int64_t tiles) {
    const std::int64_t pixels = tiles * kernel_.rows;
    if (!lines) return pixels * terms_;
    return rows_of(pixels) * filter_rows * line_pixels(std::min(pixels, g.y_size[2])) * g.group_channels;
  };
  block_tiles_ = Block::most_tiles;
  while (block_tiles_ > 1 && bytes_of(block_tiles_) > kBlockBytes) --block_tiles_;

  line_bytes_ = line_pixels(std::min(block_tiles_ * kernel_.rows, g.y_size[2])) * g.group_channels;
  pixel_bytes_ = (line_step_ > 1 ? 1 : g.stride[2]) * g.group_channels;
  steps_ = terms_ / run_terms_ * padded_steps(run_terms_);
  row_bytes_ = one_by_one_ ? 4 * steps_ : filter_rows * line_bytes_;
  if (!direct_) {
    const std::int64_t pixels = block_tiles_ * kernel_.rows;
    const std::int64_t rows = one_by_one_ ? pixels : rows_of(pixels);
    // What is read behind the last line: the padding of a run, rows that a group lacks.
    const std::int64_t behind =
        4 * kernel_.steps_together + (kernel_.steps_together > 1 ? kernel_.group_rows * pixel_bytes_ : 0);
    block_bytes_ = static_cast<std::size_t>((rows * row_bytes_ + behind + 63) / 64 * 64);
  }
}

void Panels::list_steps() {
  const ConvGeometry& g = geometry_;
  steps_at_.reserve(static_cast<std::size_t>(steps_));
  for (std::int64_t run = 0; run < terms_ / run_terms_; ++run) {
    const std::int64_t taps = run * run_terms_ / g.group_channels, row = taps / g.filter[2], w = taps % g.filter[2];
    runs_.push_back(row * line_bytes_ + w * g.dilation[2] * g.group_channels);
    for (std::int64_t i = 0; i < padded_steps(run_terms_); ++i) steps_at_.push_back(runs_.back() + 4 * i);
  }
}

const char* Panels::how_x_is_read() const {
  if (direct_) return "x read in place";
  return one_by_one_ ? "x gathered into tiles (implicit im2col)" : "x copied into lines, for each row of the filter";
}

double Panels::copied_bytes() const {
  if (direct_) return 0;
  const ConvGeometry& g = geometry_;
  return static_cast<double>(one_by_one_ ? terms_ : g.filter[0] * g.filter[1] * pixel_bytes_);
}

std::int64_t Panels::computed_columns() const {
  const std::int64_t together = kernel_.steps_together > 1 ? kernel_.columns : kernel_.columns / 2;
  return ceil_div(geometry_.group_filters, together) * together;
}

std::size_t Panels::packed_bytes() const {
  const std::int64_t lists = again_ ? static_cast<std::int64_t>(all_panels()) * (1 + steps_) : 0;
  return again_at() + static_cast<std::size_t>(lists) * sizeof(std::int32_t);
}

Panel Panels::panel(const void* packed, std::int64_t group, std::int64_t panel) const {
  const auto* bytes = static_cast<const std::byte*>(packed);
  const std::int64_t at = group * per_group_ + panel;
  Panel found{bytes + at * panel_bytes(), steps_at_.data(), steps_, nullptr, 0, 0};
  found.columns =
      static_cast<int>(std::min<std::int64_t>(kernel_.columns, geometry_.group_filters - panel * kernel_.columns));
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
      const std::int64_t run_steps = padded_steps(run_terms_);
      for (std::int64_t d = 0; d < g.filter[0]; ++d) {
        for (std::int64_t h = 0; h < g.filter[1]; ++h) {
          for (std::int64_t w = 0; w < g.filter[2]; ++w) {
            const std::int64_t tap = g.w.origin + (group * g.group_filters + k) * g.w.out + d * g.w.spatial[0] +
                                     h * g.w.spatial[1] + w * g.w.spatial[2];
            for (std::int64_t c = 0; c < g.group_channels; ++c, ++term) {
              const std::int32_t value = value_of(w_type_, weights, tap + c * g.w.in) + w_shift_;
              column_sum += static_cast<std::uint32_t>(value);
              const std::int64_t in_run = term % run_terms_, step = term / run_terms_ * run_steps + in_run / 4;
              reinterpret_cast<std::int8_t*>(to)[(step * kernel_.columns + column) * 4 + in_run % 4] =
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
    if (any) again[++again[0]] = static_cast<std::int32_t>(step);
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

// -zw' * sum x' of a pixel, or the factor of zw' where that comes with the execution: n * zx' - sum x'.
std::int32_t Panels::row_term(const std::uint8_t* pixel, std::int32_t x_zero) const {
  std::uint32_t sum = 0;
  for (const std::int64_t run : runs_) {
    for (std::int64_t i = 0; i < run_terms_; ++i) sum += pixel[run + i];
  }
  if (!w_zero_given_) return static_cast<std::int32_t>(0u - static_cast<std::uint32_t>(w_zero_) * sum);
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(terms_) * static_cast<std::uint32_t>(x_zero) - sum);
}

// What the filter reads for `pixels` outputs from p on; x: the group's first channel.
void Panels::copy_lines(const std::uint8_t* x, std::uint8_t x_zero, const Pixel& p, std::int64_t pixels,
                        std::uint8_t* to) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t count = line_pixels(pixels);
  const std::int64_t first = p.w * g.stride[2] - g.pre[2];
  // Of a line's pixels those inside of x: it reads first + i * line_step_.
  const std::int64_t before = std::clamp<std::int64_t>(ceil_div(-first, line_step_), 0, count);
  const std::int64_t end = std::clamp<std::int64_t>(ceil_div(g.x_size[2] - first, line_step_), before, count);
  const auto zeros = [&](std::int64_t begin, std::int64_t last) {
    std::memset(to + begin * g.group_channels, x_zero, static_cast<std::size_t>((last - begin) * g.group_channels));
  };
  for (std::int64_t d = 0; d < g.filter[0]; ++d) {
    const std::int64_t xd = p.d * g.stride[0] + d * g.dilation[0] - g.pre[0];
    for (std::int64_t h = 0; h < g.filter[1]; ++h, to += line_bytes_) {
      const std::int64_t xh = p.h * g.stride[1] + h * g.dilation[1] - g.pre[1];
      if (xd < 0 || xd >= g.x_size[0] || xh < 0 || xh >= g.x_size[1]) {
        zeros(0, count);
        continue;
      }
      zeros(0, before);
      copy_pixels(x + p.n * g.x.batch + xd * g.x.spatial[0] + xh * g.x.spatial[1] +
                      (first + before * line_step_) * g.x.spatial[2],
                  end - before, to + before * g.group_channels);
      zeros(end, count);
    }
  }
}

// x' of every line_step_-th pixel, their channels side by side.
void Panels::copy_pixels(const std::uint8_t* from, std::int64_t count, std::uint8_t* to) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t apart = line_step_ * g.x.spatial[2];
  if (g.x.channel == 1 && apart == g.group_channels) return shifted(from, count * apart, x_shift_, to);
  if (g.x.channel == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      shifted(from + i * apart, g.group_channels, x_shift_, to + i * g.group_channels);
    }
    return;
  }
  for (std::int64_t c = 0; c < g.group_channels; ++c) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i * g.group_channels + c] = static_cast<std::uint8_t>(from[c * g.x.channel + i * apart] + x_shift_);
    }
  }
}

void Panels::gather(const void* x, std::int32_t x_zero_point, std::int64_t group, std::int64_t first,
                    std::int64_t count, void* lines, Block& block) const {
  const ConvGeometry& g = geometry_;
  const std::int32_t x_zero = x_zero_point + x_shift_;
  const auto* const channels = static_cast<const std::uint8_t*>(x) + group * g.group_channels * g.x.channel;
  auto* to = static_cast<std::uint8_t*>(lines);
  // A group's rows lie equally far apart where they are of one output row, or of none.
  const bool starts_groups = kernel_.steps_together > 1 && !direct_ && !one_by_one_;
  const auto full = static_cast<std::size_t>(kernel_.group_rows);
  std::size_t rows = 0;  // those that groups lack included
  const auto fill_group = [&] {
    for (; rows % full != 0; ++rows) block.x[rows] = block.x[rows - 1];
  };
  Pixel p = pixel_at(first);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t pixels = one_by_one_ ? 1 : std::min(count - done, g.y_size[2] - p.w);
    const std::uint8_t* at = to;
    std::int64_t apart = pixel_bytes_;
    if (direct_) {
      at = channels + p.n * g.x.batch + p.d * g.stride[0] * g.x.spatial[0] + p.h * g.stride[1] * g.x.spatial[1] +
           p.w * g.stride[2] * g.x.spatial[2];
      apart = g.stride[2] * g.x.spatial[2];
    } else {
      copy_lines(channels, static_cast<std::uint8_t>(x_zero), p, pixels, to);
      to += row_bytes_;
    }
    if (starts_groups) fill_group();
    std::int64_t out = p.n * g.y.batch + p.d * g.y.spatial[0] + p.h * g.y.spatial[1] + p.w * g.y.spatial[2];
    for (std::int64_t j = 0; j < pixels; ++j, ++rows, at += apart, out += g.y.spatial[2]) {
      block.x[rows] = at;
      block.out[rows] = out;
      if (has_row_terms()) block.terms[rows] = row_term(at, x_zero);
      block.pixels[rows / full] = static_cast<int>(rows % full + 1);
    }
    done += pixels;
    p.w += pixels;
    if (p.w == g.y_size[2]) p = pixel_at(first + done);
  }
  fill_group();
  block.groups = static_cast<int>(rows / full);
}

}  // namespace convoy::cpu::int8
