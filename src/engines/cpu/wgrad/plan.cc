#include "engines/cpu/wgrad/plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/stages.h"
#include "engines/cpu/common/padding_guard.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/wgrad/design.h"

namespace convoy::cpu {
namespace {

struct Range {
  std::int64_t first, last;
};

// Of positions first .. last - 1 of a dim of y those whose tap lies in x; its place in x is position * stride + shift.
Range inside(std::int64_t first, std::int64_t last, std::int64_t stride, std::int64_t shift, std::int64_t size) {
  const std::int64_t begin = shift < 0 ? (-shift + stride - 1) / stride : 0;
  const std::int64_t end = size > shift ? (size - shift + stride - 1) / stride : 0;
  return {std::max(first, begin), std::min(last, end)};
}

// Loops whose steps follow on each other become one, the inner one.
void join(WgradPositions& p) {
  const auto follow = [&](int outer, int inner) {
    return p.x_steps[outer] == p.counts[inner] * p.x_steps[inner] &&
           p.y_steps[outer] == p.counts[inner] * p.y_steps[inner];
  };
  if (follow(1, 2)) {
    p.counts[2] *= std::exchange(p.counts[1], 1);
    if (follow(0, 2)) p.counts[2] *= std::exchange(p.counts[0], 1);
  } else if (follow(0, 1)) {
    p.counts[1] *= std::exchange(p.counts[0], 1);
  }
}

// Of tensors of Real, float or double.
template <class Real>
class WgradPlan final : public ConvPlan, public HasStages {
 public:
  WgradPlan(const ConvProblem& problem, Candidate candidate, const PlanRequest& request, WgradDesign design)
      : problem_(problem),
        candidate_(std::move(candidate)),
        threads_(request.threads),
        design_(std::move(design)),
        guard_(problem) {}

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override {
    return sizeof(Real) *
           static_cast<std::size_t>(design_.slices * padded(design_.kept_floats()) + threads_ * own_floats());
  }
  std::size_t retained_bytes() const override {
    return design_.channels.size() * sizeof(WgradTileRows) + design_.taps.size() * sizeof(std::int64_t);
  }
  std::vector<std::string> stages() const override { return {"copy panels of y + products", "store w"}; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    return guard_.run(args, context.team(), [&] { return run(args, context); });
  }

 private:
  Result<void> run(const ConvArgs& args, const ExecContext& context) const {
    auto* const sums = static_cast<Real*>(context.workspace);
    const std::int64_t count = design_.item_count(), kept = padded(design_.kept_floats()), slices = design_.slices;
    const std::int64_t blocks = design_.block_count();
    // Items of a slice follow one another.
    parallel_ranges(context.team(), slices * count, [&](std::int64_t begin, std::int64_t end, int thread) {
      Own own{.sums = sums, .panel = sums + slices * kept + thread * own_floats(), .x = nullptr, .tile = nullptr};
      own.x = own.panel + padded(design_.panel_floats());
      own.tile = own.x + padded(design_.x_floats());
      while (begin < end) {
        const std::int64_t slice = begin / count, first = begin % count, last = std::min(count, first + end - begin);
        own.sums = sums + slice * kept;
        if (!design_.one_block()) std::fill(own.sums + sums_at(first), own.sums + sums_at(last), Real{0});
        each_block(blocks * slice / slices, blocks * (slice + 1) / slices,
                   [&](const WgradBlock& block) { add_block(args, first, last, block, own); });
        if (slices == 1 && !design_.one_block()) store_items(first, last, sums, args);
        begin += last - first;
      }
    });
    if (slices == 1) return {};
    parallel_ranges(context.team(), count, [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t first = sums_at(begin), last = sums_at(end);
      for (std::int64_t slice = 1; slice < slices; ++slice) {
        const Real* const more = sums + slice * kept;
#pragma GCC ivdep
        for (std::int64_t i = first; i < last; ++i) sums[i] += more[i];
      }
      store_items(begin, end, sums, args);
    });
    return {};
  }

  static std::int64_t padded(std::int64_t floats) { return (floats + 15) / 16 * 16; }
  std::int64_t own_floats() const {
    const std::int64_t tile = design_.one_block() ? design_.tile_floats(design_.channels.back()) : 0;
    return padded(design_.panel_floats()) + padded(design_.x_floats()) + padded(tile);
  }

  // Where the sums of an item begin; of one behind the last: where they end.
  std::int64_t sums_at(std::int64_t item) const {
    return item < design_.item_count() ? design_.item(item).sums : design_.kept_floats();
  }

  void store_items(std::int64_t begin, std::int64_t end, const Real* sums, const ConvArgs& args) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const WgradItem item = design_.item(i);
      const Real* from = sums + item.sums;
      if (design_.by_groups) store_by_groups(item, from, static_cast<Real*>(args.out));
      for (std::int64_t t = item.first_tile; t < item.last_tile; ++t) {
        store(item, design_.channels[t], from, static_cast<Real*>(args.out));
        from += design_.tile_floats(design_.channels[t]);
      }
    }
  }

  // Memory of a thread, but for `sums`, which are those of its slice.
  struct Own {
    Real *sums, *panel, *x, *tile;
  };

  // The rows, or the columns, of x that a block reads.
  Range read_of(int dim, std::int64_t first_y, std::int64_t count) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t first = first_y * g.stride[dim] - g.pre[dim];
    const std::int64_t last = first + (count - 1) * g.stride[dim] + (g.filter[dim] - 1) * g.dilation[dim] + 1;
    return {std::clamp<std::int64_t>(first, 0, g.x_size[dim]), std::clamp<std::int64_t>(last, 0, g.x_size[dim])};
  }

  // Blocks `begin` to `end`.
  template <class Body>
  void each_block(std::int64_t begin, std::int64_t end, Body body) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t columns = ceil_div(g.y_size[2], design_.block_columns);
    const std::int64_t rows = ceil_div(g.y_size[1], design_.block_rows);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t w = i % columns * design_.block_columns, h = i / columns % rows * design_.block_rows;
      const std::int64_t d = i / columns / rows % g.y_size[0];
      const std::int64_t n = i / columns / rows / g.y_size[0] * design_.block_images;
      body(WgradBlock{n, std::min(design_.block_images, g.batch - n), d, h,
                      std::min(design_.block_rows, g.y_size[1] - h), w,
                      std::min(design_.block_columns, g.y_size[2] - w)});
    }
  }

  void add_block(const ConvArgs& args, std::int64_t begin, std::int64_t end, const WgradBlock& block,
                 const Own& own) const {
    const auto* x = static_cast<const Real*>(design_.turned ? args.y : args.x);
    const auto* y = static_cast<const Real*>(design_.turned ? args.x : args.y);
    for (std::int64_t i = begin; i < end; ++i) {
      const WgradItem item = design_.item(i);
      if (design_.by_groups) {
        add_by_groups(x, y, item, block, own.sums + item.sums);
        continue;
      }
      if (design_.copies_x && (i == begin || item.panel == 0)) copy_x(x, item, block, own.x);
      copy_panel(y, item, block, own.panel);
      Real* sums = own.sums + item.sums;
      auto* const out = static_cast<Real*>(args.out);
      for (std::int64_t t = item.first_tile; t < item.last_tile; ++t) {
        const WgradTileRows& tile = design_.channels[t];
        const auto add = [&](const Sums& to) {
          add_products(design_.copies_x ? own.x : x, item, tile, block, own.panel, to);
        };
        if (!design_.one_block()) {
          add({sums, design_.width, true});
          sums += design_.tile_floats(tile);
        } else if (lies_as_sums_do(item)) {
          add({first_of(item, tile, out), design_.geometry.w.in, problem_.beta == 1});
        } else {
          add({own.tile, design_.width, false});
          store(item, tile, own.tile, out);
        }
      }
    }
  }

  // [image][row][column][filter], zeros behind the group's last filter.
  void copy_panel(const Real* y, const WgradItem& item, const WgradBlock& b, Real* to) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t width = design_.width, first = item.panel * width;
    const std::int64_t count = std::min(width, g.group_filters - first);
    const std::int64_t filter = item.group * g.group_filters + first;
    const std::int64_t step = g.y.spatial[2];
    const bool side_by_side = g.y.block == 1 && g.y.channel == 1;
    for (std::int64_t n = 0; n < b.images; ++n) {
      for (std::int64_t h = 0; h < b.rows; ++h, to += b.columns * width) {
        const Real* row = y + (b.first_image + n) * g.y.batch + b.depth * g.y.spatial[0] +
                          (b.first_row + h) * g.y.spatial[1] + b.first_column * step;
        if (side_by_side) {
          for (std::int64_t w = 0; w < b.columns; ++w) {
            std::memcpy(to + w * width, row + w * step + filter, static_cast<std::size_t>(count) * sizeof(Real));
          }
        } else {
          for (std::int64_t k = 0; k < count; ++k) {
            const Real* from = row + channel_offset(g.y, filter + k);
            for (std::int64_t w = 0; w < b.columns; ++w) to[w * width + k] = from[w * step];
          }
        }
        for (std::int64_t w = 0; count < width && w < b.columns; ++w) {
          std::fill(to + w * width + count, to + (w + 1) * width, Real{0});
        }
      }
    }
  }

  // Of an item's channels [tile][image][row][column][channel of the tile].
  void copy_x(const Real* x, const WgradItem& item, const WgradBlock& b, Real* to) const {
    const ConvGeometry& g = design_.geometry;
    const Range rows = read_of(1, b.first_row, b.rows), columns = read_of(2, b.first_column, b.columns);
    const std::int64_t positions = b.images * (rows.last - rows.first) * (columns.last - columns.first);
    const std::int64_t first = design_.channels[item.first_tile].first;
    std::int64_t position = 0;
    for (std::int64_t n = 0; n < b.images; ++n) {
      for (std::int64_t h = rows.first; h < rows.last; ++h) {
        const Real* from = x + (b.first_image + n) * g.x.batch + h * g.x.spatial[1] + columns.first * g.x.spatial[2] +
                           item.group * g.group_channels;
        for (std::int64_t w = columns.first; w < columns.last; ++w, ++position, from += g.x.spatial[2]) {
          for (std::int64_t t = item.first_tile; t < item.last_tile; ++t) {
            const WgradTileRows& tile = design_.channels[t];
            Real* const place = to + (tile.first - first) * positions + position * tile.rows;
            int r = 0;
            for (; r + 4 <= tile.rows; r += 4) std::memcpy(place + r, from + tile.first + r, 4 * sizeof(Real));
            for (; r < tile.rows; ++r) place[r] = from[tile.first + r];
          }
        }
      }
    }
  }

  // Where sums of a tile go, [tap][row][filter].
  struct Sums {
    Real* first;
    std::int64_t row_floats;
    bool add;  // to what is there
  };

  // x: the tensor, or what copy_x() made.
  void add_products(const Real* x, const WgradItem& item, const WgradTileRows& tile, const WgradBlock& b,
                    const Real* panel, const Sums& to) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t row_floats = b.columns * design_.width;
    const WgradTile add = design_.tiles[tile.rows - 1];
    // Where x has its channels for depth, row and column 0 of the block's first image, and its steps.
    std::int64_t steps[] = {g.x.batch, g.x.spatial[1], g.x.spatial[2]};
    const Real* first[kMostWgradRows];
    if (design_.copies_x) {
      const Range rows = read_of(1, b.first_row, b.rows), columns = read_of(2, b.first_column, b.columns);
      steps[2] = tile.rows;
      steps[1] = (columns.last - columns.first) * steps[2];
      steps[0] = (rows.last - rows.first) * steps[1];
      const std::int64_t before =
          (tile.first - design_.channels[item.first_tile].first) * b.images * steps[0] / tile.rows;
      for (int r = 0; r < tile.rows; ++r) first[r] = x + before + r - rows.first * steps[1] - columns.first * steps[2];
    } else {
      const std::int64_t channel = item.group * g.group_channels + tile.first;
      for (int r = 0; r < tile.rows; ++r) {
        first[r] = x + b.first_image * g.x.batch + channel_offset(g.x, channel + r);
      }
    }
    Real* sums = to.first;
    for (std::int64_t d = 0; d < g.filter[0]; ++d) {
      const std::int64_t xd = b.depth * g.stride[0] - g.pre[0] + d * g.dilation[0];
      const bool any = xd >= 0 && xd < g.x_size[0];
      for (std::int64_t h = 0; h < g.filter[1]; ++h) {
        const std::int64_t down = h * g.dilation[1] - g.pre[1];
        const Range rows = inside(b.first_row, b.first_row + b.rows, g.stride[1], down, g.x_size[1]);
        for (std::int64_t w = 0; w < g.filter[2]; ++w, sums += tile.rows * to.row_floats) {
          const std::int64_t right = w * g.dilation[2] - g.pre[2];
          const Range columns = inside(b.first_column, b.first_column + b.columns, g.stride[2], right, g.x_size[2]);
          if (!any || rows.first >= rows.last || columns.first >= columns.last) {
            for (int r = 0; r < tile.rows && !to.add; ++r)
              std::fill_n(sums + r * to.row_floats, design_.width, Real{0});
            continue;
          }
          const std::int64_t at = xd * g.x.spatial[0] + (rows.first * g.stride[1] + down) * steps[1] +
                                  (columns.first * g.stride[2] + right) * steps[2];
          const void* channels[kMostWgradRows];
          for (int r = 0; r < tile.rows; ++r) channels[r] = first[r] + at;
          WgradPositions positions{{b.images, rows.last - rows.first, columns.last - columns.first},
                                   {steps[0], g.stride[1] * steps[1], g.stride[2] * steps[2]},
                                   {b.rows * row_floats, row_floats, design_.width}};
          join(positions);
          add(channels,
              panel + (rows.first - b.first_row) * row_floats + (columns.first - b.first_column) * design_.width,
              positions, sums, to.row_floats, to.add);
        }
      }
    }
  }

  // Where all taps lie in x a window takes them together; of others those of a filter's row.
  void add_by_groups(const Real* x, const Real* y, const WgradItem& item, const WgradBlock& b, Real* sums) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t channel = item.panel * design_.width, tap_floats = g.group_channels * design_.width;
    const int filters = static_cast<int>(std::min(design_.width, g.filters - channel));
    const Real* const from = x + b.first_image * g.x.batch + channel;
    const Real* const by = y + b.first_image * g.y.batch + b.depth * g.y.spatial[0] + channel;
    const auto rows_of = [&](std::int64_t h) {
      return inside(b.first_row, b.first_row + b.rows, g.stride[1], h * g.dilation[1] - g.pre[1], g.x_size[1]);
    };
    const auto columns_of = [&](std::int64_t w) {
      return inside(b.first_column, b.first_column + b.columns, g.stride[2], w * g.dilation[2] - g.pre[2], g.x_size[2]);
    };
    for (std::int64_t d = 0; d < g.filter[0]; ++d) {
      const std::int64_t xd = b.depth * g.stride[0] - g.pre[0] + d * g.dilation[0];
      if (xd < 0 || xd >= g.x_size[0]) continue;
      // The taps of a row from w on, or a window's.
      const auto add = [&](WgradTaps kernel, std::int64_t h, std::int64_t w, Range rows, Range columns) {
        if (rows.first >= rows.last || columns.first >= columns.last) return;
        const std::int64_t down = h * g.dilation[1] - g.pre[1], right = w * g.dilation[2] - g.pre[2];
        WgradPositions positions{{b.images, rows.last - rows.first, columns.last - columns.first},
                                 {g.x.batch, g.stride[1] * g.x.spatial[1], g.stride[2] * g.x.spatial[2]},
                                 {g.y.batch, g.y.spatial[1], g.y.spatial[2]}};
        join(positions);
        kernel(from + xd * g.x.spatial[0] + (rows.first * g.stride[1] + down) * g.x.spatial[1] +
                   (columns.first * g.stride[2] + right) * g.x.spatial[2],
               g.dilation[1] * g.x.spatial[1], g.dilation[2] * g.x.spatial[2],
               by + rows.first * g.y.spatial[1] + columns.first * g.y.spatial[2], positions, filters,
               sums + ((d * g.filter[1] + h) * g.filter[2] + w) * tap_floats);
      };
      Range window{0, 0};
      if (design_.of_window != nullptr) {
        const Range rows{rows_of(0).first, rows_of(2).last}, columns{columns_of(0).first, columns_of(2).last};
        // Of few positions it saves less than the calls for the others take: 7x7.
        constexpr double kLeast = 0.6;
        const std::int64_t high = std::max<std::int64_t>(rows.last - rows.first, 0);
        const std::int64_t wide = std::max<std::int64_t>(columns.last - columns.first, 0);
        if (static_cast<double>(high * wide) >= kLeast * static_cast<double>(b.rows * b.columns)) {
          window = rows;
          add(design_.of_window, 0, 0, window, columns);
        }
      }
      for (std::int64_t h = 0; h < g.filter[1]; ++h) {
        const Range rows = rows_of(h);
        const bool some = window.first < window.last;
        const Range parts[] = {{rows.first, some ? window.first : rows.last}, window, {window.last, rows.last}};
        for (int part = 0; part < (some ? 3 : 1); ++part) {
          const bool done = part == 1;  // where all of the row's taps lie in x
          add_row(h, parts[part], done, columns_of, add);
        }
      }
    }
  }

  // A filter's row: columns where all of some taps lie in x take these together, others those that do.
  template <class ColumnsOf, class Add>
  void add_row(std::int64_t h, Range rows, bool but_whole, ColumnsOf columns_of, Add add) const {
    const std::int64_t width = design_.geometry.filter[2];
    // Of taps with the same columns.
    const auto add_alike = [&](std::int64_t w, std::int64_t last, auto range_of) {
      for (std::int64_t t = w, n; t < last; t += n) {
        const Range range = range_of(t);
        for (n = 1; t + n < last && range_of(t + n).first == range.first && range_of(t + n).last == range.last;) ++n;
        add(design_.of_taps[n - 1], h, t, rows, range);
      }
    };
    for (std::int64_t w = 0, taps; w < width; w += taps) {
      taps = std::min(width - w, design_.most_taps);
      const Range all{columns_of(w).first, columns_of(w + taps - 1).last};
      if (all.first >= all.last) {
        add_alike(w, w + taps, columns_of);
        continue;
      }
      if (!but_whole) add(design_.of_taps[taps - 1], h, w, rows, all);
      add_alike(w, w + taps, [&](std::int64_t t) { return Range{columns_of(t).first, all.first}; });
      add_alike(w, w + taps, [&](std::int64_t t) { return Range{all.last, columns_of(t).last}; });
    }
  }

  void store_by_groups(const WgradItem& item, const Real* sums, Real* out) const {
    const ConvGeometry& g = design_.geometry;
    const auto alpha = static_cast<Real>(problem_.alpha), beta = static_cast<Real>(problem_.beta);
    const std::int64_t first = item.panel * design_.width;
    for (std::int64_t k = 0; k < std::min(design_.width, g.filters - first); ++k) {
      for (std::int64_t c = 0; c < g.group_channels; ++c) {
        Real* const to = out + g.w.origin + (first + k) * g.w.out + c * g.w.in;
        for (std::int64_t i = 0; i < g.taps; ++i) {
          const Real sum = alpha * sums[(i * g.group_channels + c) * design_.width + k];
          Real& element = to[design_.taps[i]];
          element = beta == 0 ? sum : sum + beta * element;
        }
      }
    }
  }

  // Whether w has a tile of whole panels as tiles have it, so that it is summed up there.
  bool lies_as_sums_do(const WgradItem& item) const {
    const ConvGeometry& g = design_.geometry;
    return g.taps == 1 && g.w.out == 1 && (item.panel + 1) * design_.width <= g.group_filters && problem_.alpha == 1 &&
           (problem_.beta == 0 || problem_.beta == 1);
  }

  // Where w has a tile's first channel and its panel's first filter.
  Real* first_of(const WgradItem& item, const WgradTileRows& tile, Real* out) const {
    const ConvGeometry& g = design_.geometry;
    return out + g.w.origin + (item.group * g.group_filters + item.panel * design_.width) * g.w.out +
           tile.first * g.w.in;
  }

  void store(const WgradItem& item, const WgradTileRows& tile, const Real* sums, Real* out) const {
    const ConvGeometry& g = design_.geometry;
    const std::int64_t count = std::min(design_.width, g.group_filters - item.panel * design_.width);
    const auto alpha = static_cast<Real>(problem_.alpha), beta = static_cast<Real>(problem_.beta);
    Real* const to = first_of(item, tile, out);
    const auto element = [&](Real sum, Real& w) { w = beta == 0 ? alpha * sum : alpha * sum + beta * w; };
    if (g.taps == 1 && g.w.out == 1) {
      for (int r = 0; r < tile.rows; ++r) {
        for (std::int64_t k = 0; k < count; ++k) element(sums[r * design_.width + k], to[r * g.w.in + k]);
      }
      return;
    }
    const std::int64_t tap_floats = tile.rows * design_.width;
    const std::int64_t* const taps = design_.taps.data();
    for (int r = 0; r < tile.rows; ++r) {
      for (std::int64_t k = 0; k < count; ++k) {
        const Real* const from = sums + r * design_.width + k;
        Real* const w = to + k * g.w.out + r * g.w.in;
        for (std::int64_t i = 0; i < g.taps; ++i) element(from[i * tap_floats], w[taps[i]]);
      }
    }
  }

  ConvProblem problem_;
  Candidate candidate_;
  int threads_;
  WgradDesign design_;
  PaddingGuard guard_;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> make_wgrad_plan(const ConvProblem& problem, Candidate candidate,
                                                  const PlanRequest& request) {
  WgradDesign design = design_wgrad(problem, *wgrad_kernels_for(problem.x.type, request.cpu.isa), request);
  std::unique_ptr<ConvPlan> plan;
  if (problem.x.type == DataType::f64) {
    plan = std::make_unique<WgradPlan<double>>(problem, std::move(candidate), request, std::move(design));
  } else {
    plan = std::make_unique<WgradPlan<float>>(problem, std::move(candidate), request, std::move(design));
  }
  return plan;
}

}  // namespace convoy::cpu
