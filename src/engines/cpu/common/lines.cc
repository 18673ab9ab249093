#include "engines/cpu/common/lines.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace convoy::cpu {
namespace {

// `count` values that lie side by side, each with `shift` added.
template <class T>
void shifted(const T* from, std::int64_t count, T shift, T* to) {
  if (shift == 0) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i] + shift);
  }
}

// Short runs in moves of 16 bytes, of which the last overlaps the one before it.
void copy_run(const void* from, void* to, std::int64_t bytes) {
  constexpr std::int64_t kMove = 16, kShort = 256;
  if (bytes < kMove || bytes > kShort) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  const auto* const x = static_cast<const std::byte*>(from);
  auto* const y = static_cast<std::byte*>(to);
  for (std::int64_t i = 0; i < bytes - kMove; i += kMove) std::memcpy(y + i, x + i, kMove);
  std::memcpy(y + bytes - kMove, x + bytes - kMove, kMove);
}

}  // namespace

template <class T>
Lines<T>::Lines(const ConvGeometry& geometry, const TileShape& tile, std::int64_t panels, T shift)
    : geometry_(geometry),
      tile_(tile),
      panels_(panels),
      shift_(shift),
      terms_(geometry.taps * geometry.group_channels) {
  const ConvGeometry& g = geometry_;
  const std::int64_t together = tile.steps_together;
  pointwise_ = g.taps == 1;
  for (int i = 0; i < 3; ++i) pointwise_ = pointwise_ && g.pre[i] == 0 && g.post[i] == 0;
  // With nothing between pixels, rows are equally far apart.
  bool packed = g.x.spatial[2] == g.channels && g.x.batch == g.x_size[0] * g.x_size[1] * g.x_size[2] * g.channels;
  for (int i = 0; i < 3; ++i) packed = packed && g.stride[i] == 1;
  rows_are_runs_ = shift == 0 && g.x.channel == 1 &&
                   (g.filter[2] == 1 || (g.dilation[2] == 1 && g.x.spatial[2] == g.group_channels));
  direct_ = pointwise_ && shift == 0 && g.x.channel == 1 && g.group_channels % (kPerStep * together) == 0 &&
            (together == 1 || packed);
  plan_lines();
}

// A line of a block: what a row of the filter reads for `pixels` outputs of a row, in pixels of x.
template <class T>
std::int64_t Lines<T>::line_pixels(std::int64_t pixels) const {
  const ConvGeometry& g = geometry_;
  if (one_by_one_) return g.filter[2];
  return line_step_ > 1 ? pixels : (pixels - 1) * g.stride[2] + (g.filter[2] - 1) * g.dilation[2] + 1;
}

template <class T>
std::int64_t Lines<T>::padded_steps(std::int64_t run_terms) const {
  return ceil_div(run_terms, kPerStep * tile_.steps_together) * tile_.steps_together;
}

// Precondition: one_by_one_ is false, runs and line_step_ are those of lines.
template <class T>
bool Lines<T>::reads_one_by_one() const {
  const ConvGeometry& g = geometry_;
  if (!std::is_same_v<T, std::uint8_t> && run_terms_ != kPerStep * padded_steps(run_terms_)) return true;
  const std::int64_t most = std::min<std::int64_t>(Block::kMostTiles * tile_.rows, g.y_size[2]);
  if (line_pixels(most) > most * g.filter[2]) return true;  // far dilation, strides above the filter
  if (tile_.steps_together == 1) return false;
  // Cycles of a tile of AMX: 64 for 16 steps; gathering a pixel, some for each row of the filter and 32 bytes each.
  constexpr double kStep = 4, kRow = 15, kBytes = 32, kLeast = 0.6;
  const double filled = filled_rows();
  const double products = kStep * static_cast<double>(panels_);
  const std::int64_t runs = terms_ / run_terms_;
  const double lines = products * static_cast<double>(runs * padded_steps(run_terms_)) / filled;
  const double a_pixel =
      kRow * static_cast<double>(g.filter[0] * g.filter[1]) + static_cast<double>(terms_ * sizeof(T)) / kBytes;
  const double gathered = products * static_cast<double>(padded_steps(terms_)) + a_pixel * tile_.rows;
  return filled < kLeast || lines > gathered;
}

template <class T>
double Lines<T>::filled_rows() const {
  const std::int64_t row = geometry_.y_size[2];
  return static_cast<double>(row) / static_cast<double>(ceil_div(row, tile_.group_rows) * tile_.group_rows);
}

template <class T>
void Lines<T>::plan_lines() {
  // Processors with AMX have a second cache of 2 MB. A small block there waits for weights, which come from the third.
  const std::int64_t kBlockBytes = (tile_.steps_together > 1 ? 640 : 192) << 10;
  constexpr std::int64_t kSmallBlockBytes = 24 << 10, kFewWeights = 256 << 10;
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
  if (lines && tile_.steps_together > 1) filled_ = filled_rows();

  steps_ = terms_ / run_terms_ * padded_steps(run_terms_);

  // The largest block whose lines fit into the second cache beside a panel; into the first, where all panels fit into
  // the second: so the channels of a pixel are stored soon after one another.
  const bool few_weights = panels_ * tile_.columns * steps_ * kStepBytes <= kFewWeights;
  const std::int64_t most_bytes = few_weights ? kSmallBlockBytes : kBlockBytes, least_tiles = few_weights ? 2 : 1;
  const auto rows_of = [&](std::int64_t pixels) { return (pixels + g.y_size[2] - 2) / g.y_size[2] + 1; };
  const bool are_shared = lines && g.filter[0] == 1 && g.dilation[1] == 1 && g.stride[1] < g.filter[1];
  const auto size_of = [&](std::int64_t tiles) {
    const std::int64_t pixels = tiles * tile_.rows, rows = rows_of(pixels);
    if (!lines) return pixels * terms_;
    const bool whole_rows = are_shared && pixels >= g.y_size[2];
    return (whole_rows ? shared_lines(rows) : rows * filter_rows) * line_pixels(std::min(pixels, g.y_size[2])) *
           g.group_channels;
  };
  block_tiles_ = tile_.steps_together > 1 ? Block::kMostTiles / 2 : Block::kMostTiles;  // groups may be less than full
  while (block_tiles_ > least_tiles && size_of(block_tiles_) * static_cast<std::int64_t>(sizeof(T)) > most_bytes) {
    --block_tiles_;
  }

  may_share_ = are_shared && block_tiles_ * tile_.rows >= g.y_size[2];
  line_size_ = line_pixels(std::min(block_tiles_ * tile_.rows, g.y_size[2])) * g.group_channels;
  pixel_size_ = (line_step_ > 1 ? 1 : g.stride[2]) * g.group_channels;
  row_size_ = one_by_one_ ? kPerStep * steps_ : filter_rows * line_size_;
  if (!direct_) {
    const std::int64_t pixels = block_tiles_ * tile_.rows;
    const std::int64_t rows = one_by_one_ ? pixels : rows_of(pixels);
    // What is read behind the last line: the padding of a run, rows that a group lacks.
    const std::int64_t behind =
        kPerStep * tile_.steps_together + (tile_.steps_together > 1 ? tile_.group_rows * pixel_size_ : 0);
    block_bytes_ = (static_cast<std::size_t>(rows * row_size_ + behind) * sizeof(T) + 63) / 64 * 64;
  }
}

template <class T>
void Lines<T>::list_steps() {
  const ConvGeometry& g = geometry_;
  steps_at_.reserve(static_cast<std::size_t>(steps_));
  for (std::int64_t run = 0; run < terms_ / run_terms_; ++run) {
    const std::int64_t taps = run * run_terms_ / g.group_channels, row = taps / g.filter[2], w = taps % g.filter[2];
    runs_.push_back(row * line_size_ + w * g.dilation[2] * g.group_channels);
    const std::int64_t at = runs_.back() * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < padded_steps(run_terms_); ++i) steps_at_.push_back(at + kStepBytes * i);
  }
}

template <class T>
const char* Lines<T>::how_x_is_read() const {
  if (direct_) return "x read in place";
  return one_by_one_ ? "x gathered into tiles (implicit im2col)" : "x copied into lines, for each row of the filter";
}

template <class T>
double Lines<T>::copied_bytes() const {
  if (direct_) return 0;
  const ConvGeometry& g = geometry_;
  return static_cast<double>((one_by_one_ ? terms_ : g.filter[0] * g.filter[1] * pixel_size_) * sizeof(T));
}

template <class T>
double Lines<T>::again_seconds(std::int64_t pixels) const {
  constexpr double kKept = 1 << 20, kBytesPerSecond = 15e9;  // a Xeon, 3x3 over 512 and 1024 channels
  const auto bytes = static_cast<double>(panels_ * tile_.columns * steps_ * kStepBytes);
  if (tile_.steps_together == 1 || bytes <= kKept) return 0;
  return bytes * static_cast<double>(ceil_div(pixels, block_tiles_ * tile_.rows) - 1) / kBytesPerSecond;
}

template <class T>
typename Lines<T>::Pixel Lines<T>::pixel_at(std::int64_t index) const {
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

// Where the window of p begins; x: the group's first channel.
template <class T>
const T* Lines<T>::first_read(const T* x, const Pixel& p) const {
  const ConvGeometry& g = geometry_;
  return x + p.n * g.x.batch + (p.d * g.stride[0] - g.pre[0]) * g.x.spatial[0] +
         (p.h * g.stride[1] - g.pre[1]) * g.x.spatial[1] + (p.w * g.stride[2] - g.pre[2]) * g.x.spatial[2];
}

template <class T>
bool Lines<T>::is_inside(const Pixel& p) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t at[3] = {p.d, p.h, p.w};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t first = at[i] * g.stride[i] - g.pre[i];
    if (first < 0 || first + (g.filter[i] - 1) * g.dilation[i] >= g.x_size[i]) return false;
  }
  return true;
}

// What `pixels` outputs from p on read: lines, or, one by one, what each reads: pixels of a row where they are
// pointwise, else one.
template <class T>
void Lines<T>::copy(const T* x, T fill, const Pixel& p, std::int64_t pixels, T* to) const {
  const ConvGeometry& g = geometry_;
  if (!one_by_one_) return copy_lines(x, fill, p, pixels, to);
  if (!rows_are_runs_ || !is_inside(p)) {
    for (std::int64_t i = 0; i < pixels; ++i) copy_lines(x, fill, {p.n, p.d, p.h, p.w + i}, 1, to + i * row_size_);
  } else {
    const std::int64_t row = g.filter[2] * g.group_channels, bytes = row * static_cast<std::int64_t>(sizeof(T));
    const T* from = first_read(x, p);
    for (std::int64_t d = 0; d < g.filter[0]; ++d) {
      for (std::int64_t h = 0; h < g.filter[1]; ++h) {
        const T* const read = from + d * g.dilation[0] * g.x.spatial[0] + h * g.dilation[1] * g.x.spatial[1];
        T* const written = to + (d * g.filter[1] + h) * row;
        for (std::int64_t i = 0; i < pixels; ++i) {
          copy_run(read + i * g.stride[2] * g.x.spatial[2], written + i * row_size_, bytes);
        }
      }
    }
  }
  if (std::is_same_v<T, std::uint8_t>) return;  // any byte times a weight of zero is zero; a half may be no number
  for (std::int64_t i = 0; i < pixels; ++i) std::fill(to + i * row_size_ + terms_, to + (i + 1) * row_size_, T{});
}

// What the filter reads for `pixels` outputs from p on; x: the group's first channel.
template <class T>
void Lines<T>::copy_lines(const T* x, T fill, const Pixel& p, std::int64_t pixels, T* to) const {
  const ConvGeometry& g = geometry_;
  T* line = to;
  for (std::int64_t d = 0; d < g.filter[0]; ++d) {
    const std::int64_t xd = p.d * g.stride[0] + d * g.dilation[0] - g.pre[0];
    for (std::int64_t h = 0; h < g.filter[1]; ++h, line += line_size_) {
      copy_line(x, fill, p, xd, p.h * g.stride[1] + h * g.dilation[1] - g.pre[1], pixels, line);
    }
  }
}

// Of a row of x what `pixels` outputs from p on read; x: the group's first channel.
template <class T>
void Lines<T>::copy_line(const T* x, T fill, const Pixel& p, std::int64_t xd, std::int64_t xh, std::int64_t pixels,
                         T* line) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t count = line_pixels(pixels);
  const std::int64_t first = p.w * g.stride[2] - g.pre[2];
  const auto outside = [&](std::int64_t begin, std::int64_t last) {
    std::fill(line + begin * g.group_channels, line + last * g.group_channels, fill);
  };
  if (xd < 0 || xd >= g.x_size[0] || xh < 0 || xh >= g.x_size[1]) return outside(0, count);
  // Of the line's pixels those inside of x: it reads first + i * line_step_.
  const std::int64_t before = std::clamp<std::int64_t>(ceil_div(-first, line_step_), 0, count);
  const std::int64_t end = std::clamp<std::int64_t>(ceil_div(g.x_size[2] - first, line_step_), before, count);
  outside(0, before);
  copy_pixels(
      x + p.n * g.x.batch + xd * g.x.spatial[0] + xh * g.x.spatial[1] + (first + before * line_step_) * g.x.spatial[2],
      end - before, line + before * g.group_channels);
  outside(end, count);
}

// Every line_step_-th pixel, their channels side by side.
template <class T>
void Lines<T>::copy_pixels(const T* from, std::int64_t count, T* to) const {
  const ConvGeometry& g = geometry_;
  const std::int64_t apart = line_step_ * g.x.spatial[2];
  if (g.x.channel == 1 && apart == g.group_channels) return shifted(from, count * apart, shift_, to);
  if (g.x.channel == 1) {
    for (std::int64_t i = 0; i < count; ++i) {
      shifted(from + i * apart, g.group_channels, shift_, to + i * g.group_channels);
    }
    return;
  }
  for (std::int64_t c = 0; c < g.group_channels; ++c) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i * g.group_channels + c] = static_cast<T>(from[c * g.x.channel + i * apart] + shift_);
    }
  }
}

// Output rows below one another that `pixels` from p on are of.
template <class T>
std::int64_t Lines<T>::rows_from(const Pixel& p, std::int64_t pixels) const {
  return std::min(ceil_div(p.w + pixels, geometry_.y_size[2]), geometry_.y_size[1] - p.h);
}

// Whether lines for all rows of a block, which are whole then, are fewer pixels to copy than lines for each.
template <class T>
bool Lines<T>::shares_lines(const Pixel& first, std::int64_t count) const {
  if (!may_share_) return false;
  const ConvGeometry& g = geometry_;
  const std::int64_t width = g.y_size[2];
  std::int64_t shared = 0, apart = 0;
  Pixel p = first;
  for (std::int64_t left = count; left > 0;) {
    const std::int64_t rows = rows_from(p, left), pixels = std::min(left, rows * width - p.w);
    shared += shared_lines(rows) * line_pixels(width);
    apart += g.filter[1] * (pixels * g.stride[2] / line_step_ + rows * (line_pixels(1) - 1));
    left -= pixels;
    p = {p.n, p.d, 0, 0};  // what follows begins an image or a plane
  }
  return shared <= apart;
}

template <class T>
void Lines<T>::gather(const T* x, T fill, std::int64_t group, std::int64_t first, std::int64_t count, void* memory,
                      Block& block) const {
  const ConvGeometry& g = geometry_;
  const T* const channels = x + group * g.group_channels * g.x.channel;
  auto* to = static_cast<T*>(memory);
  // A group's rows lie equally far apart where they are of one output row, or of none.
  const bool starts_groups = tile_.steps_together > 1 && !direct_ && !one_by_one_;
  const int full = tile_.group_rows;
  int groups = 0, in_group = full;  // rows of the last group
  std::size_t rows = 0;             // those that groups lack included
  const auto fill_group = [&] {
    for (; in_group < full; ++in_group, ++rows) block.x[rows] = block.x[rows - 1];
  };
  Pixel p = pixel_at(first);
  const bool shares = shares_lines(p, count);
  const T* shared = nullptr;  // what the output row reads from its first pixel on
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t pixels = one_by_one_ && !pointwise_ ? 1 : std::min(count - done, g.y_size[2] - p.w);
    const T* at = to;
    std::int64_t apart = pixel_size_;
    if (direct_) {
      at = first_read(channels, p);
      apart = g.stride[2] * g.x.spatial[2];
    } else if (shares) {
      if (done == 0 || p.h == 0) {
        const std::int64_t lines = shared_lines(rows_from(p, count - done)), xh = p.h * g.stride[1] - g.pre[1];
        shared = to;
        for (std::int64_t i = 0; i < lines; ++i, to += line_size_) {
          copy_line(channels, fill, {p.n, p.d, p.h, 0}, p.d * g.stride[0] - g.pre[0], xh + i, g.y_size[2], to);
        }
      } else {
        shared += g.stride[1] * line_size_;
      }
      at = shared + p.w * pixel_size_;
    } else {
      copy(channels, fill, p, pixels, to);
      if (one_by_one_) apart = row_size_;
      to += one_by_one_ ? pixels * row_size_ : row_size_;
    }
    if (starts_groups) fill_group();
    std::int64_t out = p.n * g.y.batch + p.d * g.y.spatial[0] + p.h * g.y.spatial[1] + p.w * g.y.spatial[2];
    for (std::int64_t left = pixels; left > 0;) {
      if (in_group == full) in_group = 0, ++groups;
      const int here = static_cast<int>(std::min<std::int64_t>(left, full - in_group));
      for (int j = 0; j < here; ++j, ++rows, at += apart, out += g.y.spatial[2]) {
        block.x[rows] = at;
        block.out[rows] = out;
      }
      in_group += here;
      left -= here;
      block.pixels[static_cast<std::size_t>(groups - 1)] = in_group;
    }
    done += pixels;
    p.w += pixels;
    if (p.w == g.y_size[2]) p = pixel_at(first + done);
  }
  fill_group();
  block.groups = groups;
}

BlockLoop::BlockLoop(const ConvGeometry& g, const TileShape& tile, std::int64_t block_tiles, std::int64_t panels,
                     int threads)
    : groups_(g.groups),
      pixels_(g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]),
      rows_(tile.rows),
      tiles_(ceil_div(pixels_, tile.rows)),
      block_tiles_(block_tiles),
      panels_(panels),
      parts_(parts_of(threads)) {}

// So that the thread with the most to do ends soonest: one, unless there are few tiles. Reading a panel, and copying a
// tile of x, are taken for half of a tile's products with a panel.
std::int64_t BlockLoop::parts_of(int threads) const {
  std::int64_t best = 1, least = 0;
  for (std::int64_t parts = 1; parts <= std::min<std::int64_t>(threads, panels_); ++parts) {
    const std::int64_t a_thread = ceil_div(parts * groups_ * tiles_, threads);
    const std::int64_t blocks = ceil_div(a_thread, block_tiles_);
    const std::int64_t cost = ceil_div(panels_, parts) * (2 * a_thread + blocks) + a_thread;
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  return best;
}

template class Lines<std::uint8_t>;
template class Lines<std::uint16_t>;

}  // namespace convoy::cpu
