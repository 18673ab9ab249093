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
    const BlockLoop loop(g, kernel_.tile, panels_.lines(), panels_.per_group(), team.size());
    const std::int32_t x_zero = problem().x_zero_given ? *args.x_zero_point : problem().x_zero_point;
    void* terms =
        static_cast<std::byte*>(scratch) + static_cast<std::size_t>(threads()) * panels_.lines().block_bytes();
    const std::int32_t* column_terms = panels_.column_terms(packed, x_zero, terms);

    parallel_ranges(team, loop.items(), [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* memory =
          static_cast<std::byte*>(scratch) + static_cast<std::size_t>(thread) * panels_.lines().block_bytes();
      ByteBlock block;
      TileSums<std::int32_t> sums;
      Finishing finishing(problem(), g, kernel_, args, g.taps * g.group_channels, panels_.has_row_terms());
      loop.each(begin, end,
                [&](std::int64_t group, std::int64_t first, std::int64_t count, std::int64_t panel, std::int64_t last) {
                  panels_.gather(args.x, x_zero, group, first, count, memory, block);
                  for (std::int64_t i = panel; i < last; ++i) {
                    run_panel(packed, column_terms, group, i, i == panel, block, sums, finishing);
                  }
                });
      kernel_.release();
    });
    return {};
  }

  void run_panel(const void* packed, const std::int32_t* column_terms, std::int64_t group, std::int64_t panel,
                 bool is_first, const ByteBlock& block, TileSums<std::int32_t>& sums, Finishing& finishing) const {
    const ConvGeometry& g = panels_.geometry();
    const std::int64_t column = panel * kernel_.tile.columns;  // in the group
    finishing.start(group * g.group_filters + column,
                    static_cast<int>(std::min<std::int64_t>(kernel_.tile.columns, g.group_filters - column)),
                    column_terms + panels_.first_column(group, panel), panels_.w_shift());
    Panel weights = panels_.panel(packed, group, panel);
    weights.next_rows = is_first && panels_.lines().direct();
    each_tile(block, kernel_.tile, kernel_.multiply, weights, sums, [&](std::int32_t* of_group, int first, int pixels) {
      finishing.finish(of_group, pixels, block.out.data() + first,
                       panels_.has_row_terms() ? block.terms.data() + first : nullptr);
    });
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
