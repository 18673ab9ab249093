#include "engines/cpu/wgrad/design.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu {
namespace {

// Positions of x that are so many bytes apart push each other out of the first cache.
constexpr std::int64_t kApart = 1024;

constexpr std::int64_t kMostSlices = 16;

// Cycles a position: two products or loads each.
double tile_cycles(int rows, int vectors) { return std::max(rows * vectors / 2.0, (rows + vectors) / 2.0); }

std::vector<WgradTileRows> tiles_of(std::int64_t channels, int most) {
  const std::int64_t count = (channels + most - 1) / most;
  std::vector<WgradTileRows> tiles;
  for (std::int64_t i = 0; i < count; ++i) {  // as even as they can be
    const std::int64_t first = channels * i / count;
    tiles.push_back({first, static_cast<int>(channels * (i + 1) / count - first)});
  }
  return tiles;
}

double cycles_of(const std::vector<WgradTileRows>& tiles, int vectors) {
  double cycles = 0;
  for (const WgradTileRows& tile : tiles) cycles += tile_cycles(tile.rows, vectors);
  return cycles;
}

// Panels of four vectors with few rows, or of two with many: whichever wastes less of both. Returns cycles a position.
double choose_tiles(const WgradKernels& kernels, WgradDesign& design) {
  const ConvGeometry& g = design.geometry;
  double least = 0;
  for (const int vectors : {2, 4}) {
    const std::int64_t width = vectors * kernels.lanes, panels = (g.group_filters + width - 1) / width;
    auto tiles = tiles_of(g.group_channels, vectors == 2 ? kernels.two_rows : kernels.four_rows);
    const double cycles = static_cast<double>(panels) * cycles_of(tiles, vectors);
    if (vectors == 4 && cycles >= 0.95 * least) continue;
    least = cycles;
    design.vectors = vectors;
    design.width = width;
    design.panels = panels;
    design.tiles = vectors == 2 ? kernels.two : kernels.four;
    design.channels = std::move(tiles);
  }
  return least;
}

// Filters of 1 without padding or groups: dw is a product of two matrices, either of which may be the first.
std::optional<ConvGeometry> turned(const ConvGeometry& g) {
  if (g.taps > 1 || g.groups > 1) return std::nullopt;
  for (int i = 0; i < 3; ++i) {
    if (g.pre[i] > 0 || g.post[i] > 0) return std::nullopt;
  }
  ConvGeometry t = g;
  std::swap(t.channels, t.filters);
  std::swap(t.group_channels, t.group_filters);
  std::swap(t.x, t.y);
  for (int i = 0; i < 3; ++i) {
    t.y.spatial[i] *= g.stride[i];
    t.x_size[i] = g.y_size[i];
    t.stride[i] = 1;
  }
  std::swap(t.w.out, t.w.in);
  return t;
}

// As many as their sums, cleared and read once more, are little beside x and y.
std::int64_t slices_of(const WgradDesign& design, const ConvProblem& problem) {
  const std::int64_t read = problem.x.elements() + problem.y.elements();
  const std::int64_t most = read / std::max<std::int64_t>(16 * design.kept_floats(), 1);
  return design.one_block() ? 1 : std::clamp<std::int64_t>(std::min(most, design.block_count()), 1, kMostSlices);
}

}  // namespace

const WgradKernels* wgrad_kernels_for(DataType type, Isa isa) {
  static constexpr IsaRow<WgradKernels> kF32[] = {{Isa::avx2, &avx2::wgrad_kernels},
                                                  {Isa::avx512, &avx512::wgrad_kernels}};
  static constexpr IsaRow<WgradKernels> kF64[] = {{Isa::avx2, &avx2_f64::wgrad_kernels},
                                                  {Isa::avx512, &avx512_f64::wgrad_kernels}};
  return type == DataType::f64 ? best_row<WgradKernels>(kF64, isa) : best_row<WgradKernels>(kF32, isa);
}

WgradDesign design_wgrad(const ConvProblem& problem, const WgradKernels& kernels, const PlanRequest& request) {
  WgradDesign design;
  design.geometry = flat_geometry(problem);
  const ConvGeometry& g = design.geometry;
  const std::int64_t size = g.group_channels;
  design.by_groups = g.groups > 1 && size == g.group_filters && (size == 1 || size == 2 || size == 4) &&
                     problem.x.is_packed(Layout::nhwc) && problem.y.is_packed(Layout::nhwc);
  const double cycles = choose_tiles(kernels, design);
  if (const std::optional<ConvGeometry> other = turned(g)) {
    WgradDesign second = design;
    second.geometry = *other;
    second.turned = true;
    if (choose_tiles(kernels, second) <= 1.05 * cycles) design = std::move(second);
  }
  const std::int64_t most = WgradDesign::kMostPositions, image = g.y_size[1] * g.y_size[2];
  design.block_columns = std::min(g.y_size[2], most);
  design.block_rows = std::clamp<std::int64_t>(most / design.block_columns, 1, g.y_size[1]);
  if (image <= most && g.y_size[0] == 1) design.block_images = std::clamp<std::int64_t>(most / image, 1, g.batch);

  for (std::int64_t d = 0; d < g.filter[0]; ++d) {
    for (std::int64_t h = 0; h < g.filter[1]; ++h) {
      for (std::int64_t w = 0; w < g.filter[2]; ++w) {
        design.taps.push_back(d * g.w.spatial[0] + h * g.w.spatial[1] + w * g.w.spatial[2]);
      }
    }
  }

  if (design.by_groups) {
    design.vectors = 2;
    design.width = 2 * kernels.lanes;
    design.panels = (g.filters + design.width - 1) / design.width;
    design.of_taps = kernels.taps[size / 2];
    if (size == 1 && g.filter[1] == 3 && g.filter[2] == 3) design.of_window = kernels.window;
    design.most_taps = kMostWgradTaps / size;
    design.slices = slices_of(design, problem);
    return design;
  }

  // (With strides much of what is copied would not be read.)
  const TensorDesc& x = design.turned ? problem.y : problem.x;
  design.copies_x = x.is_packed(Layout::nhwc) && g.filter[0] == 1 && g.x_size[0] == 1 && g.stride[1] == 1 &&
                    g.stride[2] == 1 && g.x.spatial[2] * kernels.element_bytes >= kApart && design.panels * g.taps >= 8;

  // As many chunks as x needs to be in half of the second cache, and as give each of the threads as much to do.
  const auto tiles = static_cast<std::int64_t>(design.channels.size());
  const std::int64_t block_bytes =
      design.block_images * design.block_rows * design.block_columns * g.group_channels * kernels.element_bytes;
  std::int64_t chunks = (2 * block_bytes - 1) / std::max<std::int64_t>(request.cpu.l2_bytes, 256 << 10) + 1;
  chunks = std::clamp<std::int64_t>(chunks, 1, tiles);
  design.slices = slices_of(design, problem);
  const double threads = request.threads;
  double least = 0;
  for (std::int64_t c = chunks; c <= std::min(tiles, chunks + 4 * request.threads); ++c) {
    const double share = static_cast<double>(g.groups * design.panels * design.slices * c) / threads;
    const double over = std::ceil(share) / share;  // of what the thread with most to do has
    if (c > chunks && over >= 0.95 * least) continue;
    least = over;
    design.chunks = c;
  }
  return design;
}

std::int64_t WgradDesign::block_count() const {
  const ConvGeometry& g = geometry;
  return ceil_div(g.batch, block_images) * g.y_size[0] * ceil_div(g.y_size[1], block_rows) *
         ceil_div(g.y_size[2], block_columns);
}

bool WgradDesign::one_block() const {
  const ConvGeometry& g = geometry;
  return !by_groups && g.batch <= block_images && g.y_size[0] == 1 && g.y_size[1] <= block_rows &&
         g.y_size[2] <= block_columns;
}

std::int64_t WgradDesign::x_floats() const {
  if (!copies_x) return 0;
  const ConvGeometry& g = geometry;
  const std::int64_t rows = std::min(g.x_size[1], block_rows + (g.filter[1] - 1) * g.dilation[1]);
  const std::int64_t columns = std::min(g.x_size[2], block_columns + (g.filter[2] - 1) * g.dilation[2]);
  const std::int64_t tiles = (static_cast<std::int64_t>(channels.size()) + chunks - 1) / chunks;
  return block_images * rows * columns * std::min(g.group_channels, tiles * channels.front().rows + tiles);
}

WgradItem WgradDesign::item(std::int64_t index) const {
  const std::int64_t panel = index % panels, chunk = index / panels % chunks, group = index / panels / chunks;
  const std::int64_t row_floats = geometry.taps * width;  // of a channel's sums
  if (by_groups) return {0, panel, 0, 0, panel * geometry.group_channels * row_floats};
  const auto tiles = static_cast<std::int64_t>(channels.size());
  const std::int64_t first = tiles * chunk / chunks, last = tiles * (chunk + 1) / chunks;
  const std::int64_t begin = channels[first].first, end = last < tiles ? channels[last].first : geometry.group_channels;
  const std::int64_t rows = panels * (group * geometry.group_channels + begin) + panel * (end - begin);
  return {group, panel, first, last, rows * row_floats};
}

double wgrad_cycles(const WgradDesign& design) {
  const ConvGeometry& g = design.geometry;
  const auto positions = static_cast<double>(g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]);
  const double block = static_cast<double>(design.block_images * design.block_rows * design.block_columns);
  if (design.by_groups) {
    // Of a tap two loads and four products, two permutations each with groups of more than one.
    const double taps = positions * static_cast<double>(g.taps * design.panels),
                 size = static_cast<double>(g.group_channels);
    const double each = design.of_window != nullptr ? 1.6 : g.group_channels == 1 ? 2.0 : 0.5 + 1.6 * size;
    return taps * each + taps / static_cast<double>(design.most_taps);
  }
  const double taps = static_cast<double>(g.taps), panels = static_cast<double>(g.groups * design.panels);
  const auto tiles = static_cast<double>(design.channels.size());
  // (Tiles of 12 rows have more pointers than there are registers; what that costs was not measured.)
  const double share = design.channels.front().rows > 6 ? 1.4 : 1.1;
  const double products = share * cycles_of(design.channels, design.vectors) * taps * panels * positions;
  const double calls = tiles * taps * panels * positions / block;
  const double width = static_cast<double>(design.width), channels = static_cast<double>(g.group_channels);
  return products + 60 * calls + panels * positions * width + 2 * panels * channels * taps * width;
}

}  // namespace convoy::cpu
