#include "engines/cpu/bf16/gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engines/cpu/common/problem.h"

namespace convoy::cpu::bf16 {
namespace {

ConvGeometry with_merged_groups(ConvGeometry g, std::int64_t merged) {
  g.groups /= merged;
  g.group_channels *= merged;
  g.group_filters *= merged;
  return g;
}

// Estimates, not fitted: a tile of 16 pixels and 16 columns takes AMX 16 cycles for 16 steps, vectors 8 a step, and
// with these each pixel some besides (a Zen 5: 14 in all with 2 steps); gathering and finishing as Lines counts them.
double cycles_of(const ConvGeometry& g, const TileShape& tile, const Lines<std::uint16_t>& lines) {
  constexpr double kBytes = 32, kRow = 15, kFinish = 3, kPixel = 8;
  const std::int64_t columns = ceil_div(g.group_filters, tile.columns / 2);
  const double a_step = tile.steps_together > 1 ? 1.0 / 16 : 0.5;
  const double products = a_step * static_cast<double>(columns * lines.steps()) / lines.filled();
  const double copied = lines.copied_bytes() / kBytes + (lines.direct() ? 0 : kRow);
  const double each = tile.steps_together > 1 ? 0 : kPixel;
  return static_cast<double>(g.groups) * (products + copied + each + kFinish * static_cast<double>(columns));
}

class GemmPlan final : public PackedPlan {
 public:
  GemmPlan(const ConvProblem& problem, const Candidate& candidate, int threads, const Kernel& kernel, const Work& work,
           Lines<std::uint16_t> lines, std::int64_t panels, std::size_t packed_bytes)
      : PackedPlan(problem, candidate, threads, packed_bytes, static_cast<std::size_t>(threads) * lines.block_bytes(),
                   work.merged > 1),
        kernel_(kernel),
        geometry_(work.geometry),
        merged_(work.merged),
        lines_(std::move(lines)),
        panels_(panels),
        panel_bytes_(static_cast<std::int64_t>(packed_bytes) / (geometry_.groups * panels)) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    notes.push_back(lines_.how_x_is_read());
    if (merged_ > 1) {
      notes.push_back(std::to_string(merged_) + " groups computed as one");
    }
    return notes;
  }

 private:
  std::vector<std::string> run_stages() const override { return {lines_.direct() ? "products" : "copy x + products"}; }

  // Of each panel: [step][column][2 channels].
  void pack(const void* weights, void* packed, ThreadTeam*) const override {
    const ConvGeometry& g = geometry_;
    const auto* const w = static_cast<const std::uint16_t*>(weights);
    const std::int64_t own_filters = g.group_filters / merged_, own_channels = g.group_channels / merged_;
    std::memset(packed, 0, static_cast<std::size_t>(g.groups * panels_ * panel_bytes_));
    for (std::int64_t k = 0; k < g.filters; ++k) {
      const std::int64_t in_group = k % g.group_filters, column = in_group % kernel_.tile.columns;
      const std::int64_t panel = k / g.group_filters * panels_ + in_group / kernel_.tile.columns;
      auto* const to = reinterpret_cast<std::uint16_t*>(static_cast<std::byte*>(packed) + panel * panel_bytes_);
      std::int64_t term = in_group / own_filters * own_channels;
      for (std::int64_t d = 0; d < g.filter[0]; ++d) {
        for (std::int64_t h = 0; h < g.filter[1]; ++h) {
          for (std::int64_t v = 0; v < g.filter[2]; ++v, term += g.group_channels) {
            const std::int64_t tap =
                g.w.origin + k * g.w.out + d * g.w.spatial[0] + h * g.w.spatial[1] + v * g.w.spatial[2];
            for (std::int64_t c = 0; c < own_channels; ++c) {
              const auto [step, element] = lines_.position_of(term + c);
              to[(step * kernel_.tile.columns + column) * 2 + element] = w[tap + c * g.w.in];
            }
          }
        }
      }
    }
  }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const EpilogueArgs epilogue = make_epilogue(problem(), args);
    const BlockLoop loop(geometry_, kernel_.tile, lines_, panels_, team.size());
    parallel_ranges(team, loop.items(), [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* const memory = static_cast<std::byte*>(scratch) + static_cast<std::size_t>(thread) * lines_.block_bytes();
      Block block;
      TileSums<float> sums;
      loop.each(begin, end,
                [&](std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t panel, std::int64_t last) {
                  lines_.gather(static_cast<const std::uint16_t*>(args.x), 0, group, first, count, memory, block);
                  for (std::int64_t i = panel; i < last; ++i) {
                    run_panel(args, epilogue, packed, group, i, i == panel, block, sums);
                  }
                });
      kernel_.release();
    });
    return {};
  }

  void run_panel(const ConvArgs& args, const EpilogueArgs& epilogue, const void* packed, std::int64_t group,
                 std::int64_t panel, bool is_first, const Block& block, TileSums<float>& sums) const {
    const std::int64_t column = panel * kernel_.tile.columns;  // in the group
    const std::int64_t channel = group * geometry_.group_filters + column;
    const Panel weights{
        .weights = static_cast<const std::byte*>(packed) + (group * panels_ + panel) * panel_bytes_,
        .at = lines_.steps_at(),
        .steps = lines_.steps(),
        .columns = static_cast<int>(std::min<std::int64_t>(kernel_.tile.columns, geometry_.group_filters - column)),
        .next_rows = is_first && lines_.direct()};
    const auto* const z = static_cast<const std::uint16_t*>(args.z);
    each_tile(block, kernel_.tile, kernel_.multiply, weights, sums, [&](float* of_group, int first, int pixels) {
      kernel_.finish(of_group, pixels, weights.columns, epilogue, channel, z != nullptr ? z + channel : z,
                     static_cast<std::uint16_t*>(args.out) + channel, block.out.data() + first);
    });
  }

  const Kernel& kernel_;
  ConvGeometry geometry_;
  std::int64_t merged_;
  Lines<std::uint16_t> lines_;
  std::int64_t panels_;  // of a group
  std::int64_t panel_bytes_;
};

}  // namespace

Work work_of(const ConvProblem& problem, const Kernel& kernel) {
  constexpr std::int64_t kMost = 32;
  const ConvGeometry g = flat_geometry(problem);
  Work best;
  for (std::int64_t merged = 1; merged <= std::min(kMost, g.groups); merged *= 2) {
    if (g.groups % merged != 0) break;
    const ConvGeometry with = with_merged_groups(g, merged);
    const Lines<std::uint16_t> lines(with, kernel.tile, ceil_div(with.group_filters, kernel.tile.columns), 0);
    const double cycles = cycles_of(with, kernel.tile, lines);
    const std::int64_t pixels = g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2];
    const double again = static_cast<double>(with.groups) * lines.again_seconds(pixels);
    if (merged == 1 || cycles < best.cycles) best = {with, merged, cycles, again};
  }
  return best;
}

std::unique_ptr<PackedPlan> make_gemm_plan(const ConvProblem& problem, const Candidate& candidate, int threads,
                                           const Kernel& kernel) {
  const Work work = work_of(problem, kernel);
  const std::int64_t panels = ceil_div(work.geometry.group_filters, kernel.tile.columns);
  Lines<std::uint16_t> lines(work.geometry, kernel.tile, panels, 0);
  lines.list_steps();
  const std::int64_t panel_bytes = lines.steps() * kernel.tile.columns * kStepBytes;
  return std::make_unique<GemmPlan>(problem, candidate, threads, kernel, work, std::move(lines), panels,
                                    static_cast<std::size_t>(work.geometry.groups * panels * panel_bytes));
}

}  // namespace convoy::cpu::bf16
