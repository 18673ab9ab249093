// f16 and bf16, NHWC and NWC, channels in eights, 2 taps or more: tensor cores, a row of taps as a banded matrix,
// planes of a channel made in shared memory (depthwise_nhwc_bands.cu, .._wgrad.cu; docs/cuda-kernels.md).
#include <algorithm>
#include <cmath>
#include <tuple>

#include "engines/cuda/depthwise/prediction.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kBytesInFlight = 60 * 1024;  // wanted, of a processor
constexpr std::int64_t kMostStages = 8;

// Fitted, by least squares of logarithms, to what an H200 took for 128 images of bf16 layers, NHWC and NWC, several
// tiles each. Cycles of a processor's quarter where not said otherwise.
constexpr double kProduct = 7.6;           // m16n8k16
constexpr double kLoad = 2, kResult = 10;  // of four matrices; of a product's sums
constexpr double kCopy = 67;               // 32 times 16 bytes to shared memory, scattered as pixels' channels are
constexpr double kTranspose = 8, kStore = 8;
constexpr double kLatency = 2.3;                      // of a warp's instructions, when it is alone
constexpr double kUnit = 3400;                        // weights, first rows
constexpr double kRequests = 82e9;                    // a second that the L2 cache serves: one of each pixel of a block
constexpr double kMemory = 2.9e12;                    // bytes a second
constexpr double kUnhidden = 0.08;                    // share of the shorter time that is not hidden
constexpr double kForward = 6.2e-6, kWgrad = 8.3e-6;  // launches

bool trivial(const DepthwiseAxis& axis) { return axis.in == 1 && axis.out == 1 && axis.taps == 1 && axis.pad == 0; }

std::int64_t odd_pitch(std::int64_t chunks) { return (chunks | 1) * 16; }

// Signals lie along W, and where H is nothing the images are its rows.
DepthwiseShape bands_shape(const DepthwiseShape& from) {
  DepthwiseShape shape = from;
  auto& [depth, h, w] = shape.axes;
  if (trivial(w) && !trivial(h)) {
    std::swap(h, w);
    for (auto* strides : {&shape.in_strides, &shape.out_strides, &shape.w_strides}) {
      std::swap((*strides)[3], (*strides)[4]);
    }
  }
  if (trivial(h) && shape.batch > 1) {
    h.in = h.out = shape.batch;
    h.stride = 1;
    shape.in_strides[3] = shape.in_strides[0];
    shape.out_strides[3] = shape.out_strides[0];
    shape.batch = 1;
  }
  return shape;
}

// pixel_bands.cuh's arithmetic.
struct Bands {
  std::int64_t rows_in = 1, rows_out = 1;  // of a substep
  std::int64_t ahead = 0, open = 1;
  std::int64_t units = 1, band_units = 1, bands = 1;
  std::int64_t blocks_n = 1, step_chunks = 1, window = 8, window_chunks = 1;
  std::int64_t tiles_w = 1, blocks_w = 1, row_chunks = 1;
  std::int64_t instances = 1, groups = 1, places = 1;
};

struct Blocks : DepthwiseBlocks {
  std::int64_t stages = 2;  // of rows in shared memory
};

struct PixelBands {
  static constexpr const char* word = "pixel_bands";
  static constexpr std::array<DepthwiseKnob, 4> knobs = {{{"channels", "of a block"},
                                                          {"rows", "of a band"},
                                                          {"unroll", "units of rows a step"},
                                                          {"warp_channels", "of a warp"}}};
  static constexpr bool skips_padding = true;
  std::int64_t channels, rows, unroll, warp_channels;

  static std::vector<PixelBands> configurations(const DepthwiseShape& shape, const CudaDevice& device);
  double seconds(const DepthwiseShape& from, const CudaDevice& device) const;
  DepthwiseKernel kernel(const DepthwiseShape& from, const CudaDevice& device) const;

  Blocks blocks(const DepthwiseShape& from, const CudaDevice& device) const;
  bool runs(const DepthwiseShape& from, const CudaDevice& device) const;
  // Of bands_shape's.
  Bands bands(const DepthwiseShape& shape) const;
  std::int64_t registers(const DepthwiseShape& shape) const;
  double step_cycles(const DepthwiseShape& shape, const Bands& b, std::int64_t threads) const;
};

Bands PixelBands::bands(const DepthwiseShape& shape) const {
  const DepthwiseAxis& h = shape.axes[1];
  const DepthwiseAxis& w = shape.axes[2];
  const bool transposed = shape.transposed;
  Bands b;
  b.rows_in = transposed ? 1 : h.stride;
  b.rows_out = transposed ? h.stride : 1;
  const std::int64_t reach_h = (h.taps - 1) * h.dilation;
  b.ahead = reach_h / h.stride;
  b.open = transposed ? std::max(reach_h + 1, h.stride) : b.ahead + 1;
  b.units = ceil_div(h.out + (transposed ? h.pad % h.stride : 0), b.rows_out);
  b.band_units = std::min(b.units, ceil_div(rows, b.rows_out));
  b.bands = ceil_div(b.units, b.band_units);
  b.blocks_n = transposed ? w.stride : 1;
  b.step_chunks = transposed ? 1 : w.stride;
  const std::int64_t reach_w = (w.taps - 1) * w.dilation;
  b.window = transposed ? reach_w / w.stride + 8 : 7 * w.stride + reach_w + 1;
  b.window_chunks = ceil_div(b.window, 8);
  const std::int64_t columns = ceil_div(w.out + (transposed ? w.pad % w.stride : 0), 8 * b.blocks_n);
  // Only sums that nothing carries from row to row can be more than one product's.
  const std::int64_t most = b.ahead == 0 ? (b.window_chunks > 12 ? 32 : 64) : 16;
  b.tiles_w = ceil_div(columns, most);
  b.blocks_w = ceil_div(columns, b.tiles_w);
  b.tiles_w = ceil_div(columns, b.blocks_w);
  b.row_chunks = (b.blocks_w - 1) * b.step_chunks + b.window_chunks;
  const std::int64_t all = shape.batch * b.bands * b.tiles_w;
  b.instances = std::clamp<std::int64_t>(std::max<std::int64_t>(16, b.blocks_w) / b.blocks_w, 1, all);
  b.groups = ceil_div(b.instances * b.blocks_w, 16);
  b.places = ceil_div(all, b.instances);
  return b;
}

Blocks PixelBands::blocks(const DepthwiseShape& from, const CudaDevice& device) const {
  const DepthwiseShape shape = bands_shape(from);
  Blocks blocks;
  const DepthwiseAxis& h = shape.axes[1];
  const std::int64_t slice = channels;
  const std::int64_t pieces = slice / 8;
  blocks.threads = 32 * slice / warp_channels;
  const std::int64_t wanted = round_up(std::clamp<std::int64_t>(registers(shape), 40, 255), 8);
  blocks.blocks_per_sm =
      std::max<std::int64_t>(1, std::min(kRegistersPerSm / (wanted * blocks.threads), 2048 / blocks.threads));
  const Bands b = bands(shape);
  const std::int64_t whole = std::max<std::int64_t>(1, 4 / pieces);
  const std::int64_t step_chunks = round_up(unroll * b.rows_in * b.instances * b.row_chunks, whole);
  const std::int64_t dy_chunks = wgrad(shape) ? round_up(unroll * b.instances * b.blocks_w, whole) : 0;
  const std::int64_t raw = (step_chunks + dy_chunks) * 8 * slice * 2;
  const auto shared_bytes = [&] {
    const std::int64_t planes = slice * odd_pitch(step_chunks + 1);
    if (wgrad(shape)) {
      const std::int64_t sums = blocks.threads / 32 * ceil_div(b.window_chunks, 2) * 16 * 9 * 4;
      return std::max(blocks.stages * raw + 2 * (planes + slice * odd_pitch(dy_chunks + 1)), sums);
    }
    const std::int64_t chunks = unroll * b.rows_out * b.blocks_n * 16 * b.groups;
    const std::int64_t spread = pieces >= 4 ? 1 : 4 / pieces;
    const std::int64_t out = slice * (ceil_div(chunks - spread, 8) * 8 + spread) * 16 + pieces * (pieces == 1   ? 0
                                                                                                  : pieces == 2 ? 64
                                                                                                                : 32);
    const std::int64_t reach = shape.transposed ? (8 * b.window_chunks - 1) * b.blocks_n + 8 * b.blocks_n
                                                : 8 * b.window_chunks + 7 * shape.axes[2].stride;
    return blocks.stages * raw + 2 * planes + round_up(2 * out, 16) + round_up(slice * h.taps * reach * 2, 16);
  };
  // Enough of what comes next in flight to hide the memory's latency.
  const std::int64_t shared_sm = std::min<std::int64_t>(kSharedPerSm, device.shared_bytes_per_sm);
  const auto blocks_by_shared = [&] { return shared_sm / (shared_bytes() + 1024); };
  blocks.stages = 2;
  blocks.blocks_per_sm = std::clamp<std::int64_t>(blocks_by_shared(), 1, blocks.blocks_per_sm);
  while (blocks.stages < kMostStages && blocks.stages * raw * blocks.blocks_per_sm < kBytesInFlight) {
    ++blocks.stages;
    if (blocks_by_shared() < blocks.blocks_per_sm || shared_bytes() > device.shared_bytes_per_block) {
      --blocks.stages;
      break;
    }
  }
  blocks.shared_bytes = shared_bytes();
  const std::int64_t slices = ceil_div(shape.out_channels, slice);
  // Few places are left to the device to spread, so that a processor which is early takes another.
  const std::int64_t slots = sms_of(device) * blocks.blocks_per_sm;
  blocks.splits = b.places;
  if (wgrad(shape) || b.places * slices > 4 * slots) {
    blocks.splits = std::clamp<std::int64_t>(slots / slices, 1, b.places);
    blocks.splits = even_shares(b.places, blocks.splits);
  }
  blocks.balance = balance_of(b.places * slices, std::min(b.places * slices, slots));
  blocks.grid = slices * blocks.splits;
  return blocks;
}

// Sums, weights or rows of dy, and what the copies of a thread need, as the compiler's reports show.
std::int64_t PixelBands::registers(const DepthwiseShape& shape) const {
  const Bands b = bands(shape);
  const std::int64_t threads = 32 * channels / warp_channels, pieces = channels / 8;
  const auto more_items = [&](std::int64_t items, std::int64_t first, std::int64_t next) {
    const std::int64_t more = ceil_div(items, threads) - 1;
    return more > 0 ? first + (more - 1) * next : 0;
  };
  const std::int64_t in_items = b.instances * std::min(b.row_chunks * 8, shape.axes[2].in) * pieces;
  std::int64_t registers =
      40 + more_items(in_items, 12, 4) + 4 * (unroll * b.rows_in - 1) * ceil_div(in_items, threads);
  if (wgrad(shape)) {
    registers += more_items(b.instances * std::min(b.blocks_w * 8, shape.axes[2].out) * pieces, 12, 4);
    return registers + warp_channels * (4 * shape.axes[1].taps * ceil_div(b.window_chunks, 2) + 2 * b.open);
  }
  registers += more_items(b.groups * 16 * 8 * pieces, 6, 4);
  return registers + warp_channels * b.blocks_n * (4 * b.open + shape.axes[1].taps * b.window_chunks);
}

bool PixelBands::runs(const DepthwiseShape& from, const CudaDevice& device) const {
  if (rows > 9999) return false;  // nobody tried larger ones
  const Blocks on = blocks(from, device);
  // Before 9.0 the compiler needs a few registers more.
  const std::int64_t spare = on.threads == 512 && device.architecture < 90 ? 8 : 0;
  return registers(bands_shape(from)) + spare <= std::min<std::int64_t>(232, kRegistersPerSm / on.threads) &&
         on.shared_bytes <= device.shared_bytes_per_block && on.threads <= 512;
}

std::vector<PixelBands> PixelBands::configurations(const DepthwiseShape& shape, const CudaDevice& device) {
  std::vector<PixelBands> all;
  if (shape.volumetric() || !shape.channels_in_eights() || plane_taps(shape) == 1 || !shape.adds_up()) return all;
  if (shape.transposed && (shape.axes[1].pad < 0 || shape.axes[2].pad < 0)) return all;
  const std::int64_t rows = bands_shape(shape).axes[1].out;
  for (const std::int64_t count : {1, 2, 4, 8, 16, 32, 64}) {
    if (count > rows) continue;
    for (const auto& [unroll, warp_channels, channels] :
         {std::tuple{1, 2, 16}, {2, 2, 16}, {1, 2, 32}, {2, 2, 32}, {1, 4, 32}, {2, 4, 32}}) {
      const PixelBands bands{channels, ceil_div(rows, count), unroll, warp_channels};
      if (bands.runs(shape, device)) all.push_back(bands);
    }
  }
  return all;
}

// What a warp does in a step, in cycles.
double PixelBands::step_cycles(const DepthwiseShape& shape, const Bands& b, std::int64_t threads) const {
  const std::int64_t pieces = channels / 8, warps = threads / 32;
  const std::int64_t rows = b.rows_in * unroll;
  const std::int64_t pairs = ceil_div(b.window_chunks, 2);
  const std::int64_t columns = std::min(b.row_chunks * 8, shape.axes[2].in);
  double products = static_cast<double>(warp_channels * shape.axes[1].taps * b.blocks_n * b.groups * unroll);
  products *= wgrad(shape) ? static_cast<double>(pairs) : static_cast<double>(b.window_chunks) / 2;
  auto loads = static_cast<double>(warp_channels * rows * pairs * b.groups);
  auto copies = static_cast<double>(ceil_div(b.instances * columns * pieces, threads) * rows);
  auto transposed = static_cast<double>(ceil_div(rows * b.instances * b.row_chunks * pieces, 4 * warps));
  double results = 0, stores = 0;
  if (wgrad(shape)) {
    loads += static_cast<double>(ceil_div(warp_channels, 2) * unroll * b.groups);
    copies += static_cast<double>(ceil_div(b.instances * b.blocks_w * 8 * pieces, threads) * unroll);
    transposed += static_cast<double>(ceil_div(unroll * b.instances * b.blocks_w * pieces, 4 * warps));
  } else {
    results = static_cast<double>(warp_channels * b.rows_out * unroll * b.blocks_n * b.groups);
    stores = static_cast<double>(ceil_div(16 * b.groups * pieces, 4 * warps) * b.rows_out * unroll * b.blocks_n);
  }
  return kProduct * products + kLoad * loads + kResult * results + kCopy * copies + kTranspose * transposed +
         kStore * stores;
}

double PixelBands::seconds(const DepthwiseShape& from, const CudaDevice& device) const {
  const DepthwiseShape shape = bands_shape(from);
  const Bands b = bands(shape);
  const Blocks on = blocks(from, device);
  const DepthwiseAxis& h = shape.axes[1];
  std::int64_t skipped = 0;  // rows that a band which is the whole image leaves out
  if (b.bands == 1 && !shape.transposed) {
    skipped = wgrad(shape) ? std::max<std::int64_t>(0, b.ahead - h.pad / h.stride)
                           : std::clamp<std::int64_t>(h.pad / h.stride, 0, b.ahead);
  }
  const auto steps = static_cast<double>(ceil_div(b.band_units + b.ahead - skipped, unroll));
  const std::int64_t slices = ceil_div(shape.out_channels, channels);
  const bool persistent = on.splits < b.places;
  const auto places = static_cast<double>(persistent ? ceil_div(b.places, on.splits) : 1);
  const double units = static_cast<double>(slices * on.splits) / static_cast<double>(sms_of(device));  // of a processor
  const double warp = step_cycles(shape, b, on.threads);
  const auto together = static_cast<double>(on.blocks_per_sm);
  const auto wave = [&](double resident) {
    const double step = std::max(resident * static_cast<double>(on.threads) / 128 * warp, kLatency * warp);
    return places * steps * step + kUnit;
  };
  const double full = std::floor(units / together + 1e-9);
  const double rest = std::ceil(units - 1e-9) - full * together;
  const double computed = (full * wave(together) + (rest > 0 ? wave(rest) : 0)) / kClock;

  const double elements = static_cast<double>(shape.outputs()) + static_cast<double>(shape.batch * shape.in_channels) *
                                                                     static_cast<double>(h.in * shape.axes[2].in);
  const auto request = static_cast<double>(std::min(channels, shape.out_channels) * 2);
  const double moved = elements * 2 / std::min(kMemory, kRequests * request);
  return (wgrad(shape) ? kWgrad : kForward) + std::max(computed, moved) + kUnhidden * std::min(computed, moved);
}

DepthwiseKernel PixelBands::kernel(const DepthwiseShape& from, const CudaDevice& device) const {
  const DepthwiseShape shape = bands_shape(from);
  const Blocks on = blocks(from, device);
  const Bands b = bands(shape);
  DepthwiseKernel kernel(wgrad(shape) ? "depthwise_nhwc_bands_wgrad.cu" : "depthwise_nhwc_bands.cu", shape, on);
  kernel.constants.set("SLICE", channels).set("WARP_CHANNELS", warp_channels);
  kernel.constants.set("INSTANCES", b.instances).set("BLOCKS_W", b.blocks_w);
  kernel.constants.set("BAND_UNITS", b.band_units).set("UNROLL", unroll);
  kernel.constants.set("STAGES", on.stages).set("SPLITS", on.splits).set("SHARED_BYTES", on.shared_bytes);
  return kernel;
}

}  // namespace

extern constinit const DepthwiseFamily pixel_bands_family = family_of<PixelBands>();

}  // namespace convoy::cuda
