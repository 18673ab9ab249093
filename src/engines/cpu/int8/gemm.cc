#include "engines/cpu/int8/gemm.h"

#include <algorithm>
#include <utility>

#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/finishing.h"
#include "engines/cpu/int8/panels.h"

namespace convoy::cpu::int8 {
namespace {

class GemmPlan final : public PackedPlan {
 public:
  GemmPlan(const ConvProblem& problem, const Candidate& candidate, int threads, const Kernel& kernel, Panels panels)
      : PackedPlan(problem, candidate, threads, panels.packed_bytes(),
                   static_cast<std::size_t>(threads) * panels.lines().block_bytes() + panels.term_bytes()),
        kernel_(kernel),
        panels_(std::move(panels)) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    notes.push_back(panels_.lines().how_x_is_read());
    return notes;
  }

 private:
  std::vector<std::string> run_stages() const override {
    return {panels_.lines().direct() ? "products" : "copy x + products"};
  }

  void pack(const void* weights, void* packed, ThreadTeam*) const override { panels_.pack(weights, packed); }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const ConvGeometry& g = panels_.geometry();
    const std::int64_t all_pixels = g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2];
    const std::int64_t tiles = ceil_div(all_pixels, kernel_.tile.rows);
    const std::int64_t parts = column_parts(g.groups * tiles, team.size());

    const std::int32_t x_zero = problem().x_zero_given ? *args.x_zero_point : problem().x_zero_point;
    void* terms =
        static_cast<std::byte*>(scratch) + static_cast<std::size_t>(threads()) * panels_.lines().block_bytes();
    const std::int32_t* column_terms = panels_.column_terms(packed, x_zero, terms);

    // Tiles of a part and group follow one another.
    parallel_ranges(team, parts * g.groups * tiles, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* memory =
          static_cast<std::byte*>(scratch) + static_cast<std::size_t>(thread) * panels_.lines().block_bytes();
      ByteBlock block;
      Finishing finishing(problem(), g, kernel_, args, g.taps * g.group_channels, panels_.has_row_terms());
      while (begin < end) {
        const std::int64_t part = begin / (g.groups * tiles), group = begin / tiles % g.groups, tile = begin % tiles;
        const std::int64_t count = std::min({panels_.lines().block_tiles(), end - begin, tiles - tile});
        const std::int64_t first = tile * kernel_.tile.rows;
        panels_.gather(args.x, x_zero, group, first, std::min(count * kernel_.tile.rows, all_pixels - first), memory,
                       block);
        const std::int64_t last = panels_.per_group() * (part + 1) / parts;
        for (std::int64_t panel = panels_.per_group() * part / parts; panel < last; ++panel) {
          run_panel(packed, column_terms, group, panel, block, finishing);
        }
        begin += count;
      }
      kernel_.release();
    });
    return {};
  }

  // In how many parts the columns are split, so that the thread with the most to do ends soonest: one, unless there are
  // few tiles. Reading a panel, and copying a tile of x, are taken for half of a tile's products with a panel.
  std::int64_t column_parts(std::int64_t tiles, int threads) const {
    std::int64_t best = 1, least = 0;
    for (std::int64_t parts = 1; parts <= std::min<std::int64_t>(threads, panels_.per_group()); ++parts) {
      const std::int64_t a_thread = ceil_div(parts * tiles, threads);
      const std::int64_t blocks = ceil_div(a_thread, panels_.lines().block_tiles());
      const std::int64_t cost = ceil_div(panels_.per_group(), parts) * (2 * a_thread + blocks) + a_thread;
      if (parts == 1 || cost < least) best = parts, least = cost;
    }
    return best;
  }

  void run_panel(const void* packed, const std::int32_t* column_terms, std::int64_t group, std::int64_t panel,
                 const ByteBlock& block, Finishing& finishing) const {
    const ConvGeometry& g = panels_.geometry();
    const std::int64_t column = panel * kernel_.tile.columns;  // in the group
    finishing.start(group * g.group_filters + column,
                    static_cast<int>(std::min<std::int64_t>(kernel_.tile.columns, g.group_filters - column)),
                    column_terms + panels_.first_column(group, panel), panels_.w_shift());
    const Panel weights = panels_.panel(packed, group, panel);
    const int group_rows = kernel_.tile.group_rows, a_tile = kernel_.tile.rows / group_rows;
    for (int tile = 0; tile < block.groups; tile += a_tile) {  // in groups
      const int first = tile * group_rows, last = std::min(a_tile, block.groups - tile) - 1;
      const int* const pixels = block.pixels.data() + tile;
      kernel_.multiply(block.x.data() + first, last * group_rows + pixels[last], weights, finishing.sums());
      for (int i = 0; i <= last; ++i) {
        const int at = i * group_rows;
        finishing.finish(at, pixels[i], block.out.data() + first + at,
                         panels_.has_row_terms() ? block.terms.data() + first + at : nullptr);
      }
    }
  }

  const Kernel& kernel_;
  Panels panels_;
};

}  // namespace

std::unique_ptr<PackedPlan> make_gemm_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                           const Kernel& kernel) {
  Panels panels(problem, kernel);
  panels.list_steps();
  return std::make_unique<GemmPlan>(problem, candidate, threads, kernel, std::move(panels));
}

}  // namespace convoy::cpu::int8
