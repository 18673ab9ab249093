#include "engines/cpu/int8/int8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/cpu.h"
#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/int8/depthwise.h"
#include "engines/cpu/int8/finishing.h"
#include "engines/cpu/int8/kernels.h"
#include "engines/cpu/int8/panels.h"

namespace convoy::cpu {
namespace {

using int8::Kernel;
using int8::Panels;

const Kernel& kernel_for(const CpuFeatures& cpu) {
  if (cpu.isa >= Isa::avx512) return cpu.avx512_vnni ? int8::avx512_vnni_kernel : int8::avx512_kernel;
  return int8::avx2_kernel;
}

// A register tile's rows: output pixels of a group.
struct Tile {
  int rows;
  std::array<const void*, int8::max_rows> x;
  std::array<std::int32_t, int8::max_rows> terms;
  std::array<std::int64_t, int8::max_rows> out;  // where their first channels lie, in elements
};

class GemmPlan final : public PackedPlan {
 public:
  GemmPlan(const ConvProblem& problem, const Candidate& candidate, int threads, const Kernel& kernel,
           const Panels& panels)
      : PackedPlan(problem, candidate, threads, panels.packed_bytes(),
                   static_cast<std::size_t>(threads) * panels.block_bytes() + panels.term_bytes()),
        kernel_(kernel),
        panels_(panels) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    notes.push_back(panels_.direct() ? "x read in place" : "x gathered into tiles (implicit im2col)");
    return notes;
  }

 private:
  std::vector<std::string> run_stages() const override {
    return {panels_.direct() ? "products" : "gather a tile of x + products"};
  }

  void pack(const void* weights, void* packed, ThreadTeam*) const override { panels_.pack(weights, packed); }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const ConvGeometry& g = panels_.geometry();
    const std::int64_t pixels = g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2];
    const std::int64_t row_tiles = (pixels + kernel_.rows - 1) / kernel_.rows;
    // A panel of weights is read once for a block of tiles. More blocks than threads, so that none waits long.
    const std::int64_t a_thread = team.size() == 1 ? row_tiles : g.groups * row_tiles / (4 * team.size());
    const std::int64_t block_tiles = std::clamp<std::int64_t>(a_thread, 1, panels_.block_tiles());
    const std::int64_t blocks = (row_tiles + block_tiles - 1) / block_tiles;
    // Few blocks for the threads (small maps): the columns are split as well, each part gathering its own tiles.
    const std::int64_t parts = std::clamp<std::int64_t>(4 * team.size() / std::max<std::int64_t>(g.groups * blocks, 1),
                                                        1, panels_.per_group());

    const std::int32_t x_zero = problem().x_zero_given ? *args.x_zero_point : problem().x_zero_point;
    void* terms = static_cast<std::byte*>(scratch) + static_cast<std::size_t>(threads()) * panels_.block_bytes();
    const std::int32_t* column_terms = panels_.column_terms(packed, x_zero, terms);

    parallel_ranges(team, g.groups * blocks * parts, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* memory = static_cast<std::byte*>(scratch) + static_cast<std::size_t>(thread) * panels_.block_bytes();
      std::int64_t gathered = -1;
      std::array<Tile, Panels::kMostBlockTiles> tiles;
      int8::Finishing finishing(problem(), g, kernel_, args, panels_.terms(), panels_.has_row_terms());
      std::int64_t count = 0;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t block = item / parts, group = block / blocks;
        if (gathered != block) {
          const std::int64_t first = block % blocks * block_tiles;
          count = std::min(block_tiles, row_tiles - first);
          for (std::int64_t t = 0; t < count; ++t) {
            gather(args.x, x_zero, group, (first + t) * kernel_.rows, pixels,
                   memory + static_cast<std::size_t>(t) * panels_.tile_bytes(), tiles[static_cast<std::size_t>(t)]);
          }
          gathered = block;
        }
        const std::int64_t part = item % parts;
        const std::int64_t last = panels_.per_group() * (part + 1) / parts;
        for (std::int64_t panel = panels_.per_group() * part / parts; panel < last; ++panel) {
          run_panel(packed, column_terms, group, panel, {tiles.data(), static_cast<std::size_t>(count)}, finishing);
        }
      }
    });
    return {};
  }

  void gather(const void* x, std::int32_t x_zero, std::int64_t group, std::int64_t first_row, std::int64_t pixels,
              void* memory, Tile& tile) const {
    tile.rows = static_cast<int>(std::min<std::int64_t>(kernel_.rows, pixels - first_row));
    panels_.gather(x, x_zero, group, first_row, tile.rows, memory, tile.x.data(), tile.terms.data(), tile.out.data());
  }

  void run_panel(const void* packed, const std::int32_t* column_terms, std::int64_t group, std::int64_t panel,
                 std::span<const Tile> tiles, int8::Finishing& finishing) const {
    const ConvGeometry& g = panels_.geometry();
    const std::int64_t column = panel * kernel_.columns;  // in the group
    finishing.start(group * g.group_filters + column,
                    static_cast<int>(std::min<std::int64_t>(kernel_.columns, g.group_filters - column)),
                    column_terms + panels_.first_column(group, panel), panels_.w_shift());
    const int8::Panel weights = panels_.panel(packed, group, panel);
    for (const Tile& tile : tiles) {
      kernel_.multiply(tile.x.data(), tile.rows, weights, finishing.sums());
      finishing.finish(tile.rows, tile.out.data(), panels_.has_row_terms() ? tile.terms.data() : nullptr);
    }
  }

  const Kernel& kernel_;
  Panels panels_;
};

class Int8Engine : public cost::FittedEngine {
 public:
  Int8Engine(const char* name, int revision, const char* summary, Isa isa) : FittedEngine(name) {
    info_.name = name;
    info_.revision = revision;
    info_.summary = summary;
    info_.passes = {Pass::fprop};
    for (DataType x : {DataType::u8, DataType::s8}) {
      for (DataType w : {DataType::s8, DataType::u8}) {
        for (DataType y : {DataType::u8, DataType::s8, DataType::s32, DataType::f32}) {
          info_.types.push_back({x, w, y, DataType::s32});
        }
      }
    }
    info_.layouts = {{Layout::nhwc, Layout::nhwc}, {Layout::nchw, Layout::nchw}};
    info_.activations = {ActivationKind::relu, ActivationKind::clip, ActivationKind::leaky_relu};
    info_.requantize = info_.quantized_residual = true;
    info_.zero_points = true;
    info_.given_zero_points = true;
    info_.min_isa = isa;
    info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.groups = info_.strided = info_.dilated = info_.flipped = true;
    info_.bias = true;
    info_.deterministic = info_.thread_invariant = true;
    info_.max_elements = EngineInfo::any_size;
  }

  const EngineInfo& info() const override { return info_; }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    const Kernel& kernel = kernel_of(request);
    const Candidate candidate{info_.name, {}};
    std::unique_ptr<PackedPlan> plan;
    if (int8::is_depthwise(problem)) {
      plan = int8::make_depthwise_plan(problem, candidate, request.threads, kernel);
    } else {
      plan = std::make_unique<GemmPlan>(problem, candidate, request.threads, kernel, Panels(problem, kernel));
    }
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  virtual const Kernel& kernel_of(const PlanRequest& request) const { return kernel_for(request.cpu); }

  // Multiply-adds at the kernel's rate, each row of a group's tile padded to the panel's width, plus a pass over the
  // gathered tiles and over the outputs. The rates are estimates from an AVX-512 core's ceilings, not fitted: 400, 150
  // and 75 G multiply-adds/s for VNNI, AVX-512 and AVX2, 1500 for AMX, 30 for depthwise (100 with VNNI); 2 G gathered
  // bytes/s and 1 G outputs/s, half of that where channels lie apart.
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const Kernel& kernel = kernel_of(request);
    const ConvGeometry g = flat_geometry(problem);
    const auto pixels = static_cast<double>(g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]);
    const double outputs = pixels * static_cast<double>(g.filters);
    if (int8::is_depthwise(problem)) {
      return {outputs * static_cast<double>(g.taps) / (kernel.channels_to_bytes ? 100e9 : 30e9) + outputs / 4e9};
    }
    const double rate = kernel.steps_together > 1  ? 1500e9
                        : !kernel.pairs_in_16_bits ? 400e9
                        : kernel.columns == 32     ? 150e9
                                                   : 75e9;
    const Panels panels(problem, kernel);
    const double terms = static_cast<double>(g.groups * panels.terms());
    const double macs = pixels * terms * static_cast<double>(panels.per_group() * kernel.columns);
    const double gathered = panels.direct() ? 0 : pixels * terms;
    const double apart = problem.x.is_packed(Layout::nhwc) ? 1 : 2;
    return {macs / rate + apart * (gathered / 2e9 + outputs / 1e9)};
  }

  EngineInfo info_;
};

class Int8AmxEngine final : public Int8Engine {
 public:
  using Int8Engine::Int8Engine;

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (!request.cpu.amx_int8 || !request.cpu.avx512_vnni) {
      return Refusal{RefusalCode::instruction_set,
                     fmt::format("instruction set={} here: this engine needs AMX-INT8 and AVX512_VNNI, too",
                                 name_of(request.cpu.isa))};
    }
    if (!amx_permitted()) {
      return Refusal{
          RefusalCode::instruction_set,
          fmt::format("instruction set={} here: Linux does not let this process use AMX", name_of(request.cpu.isa))};
    }
    if (int8::is_depthwise(problem)) {
      return Refusal{RefusalCode::groups, fmt::format("groups={}: cpu.int8 takes depthwise problems", problem.groups)};
    }
    return std::nullopt;
  }

 private:
  const Kernel& kernel_of(const PlanRequest&) const override { return int8::amx_kernel; }
};

}  // namespace

// Never destroyed: they may run while the process ends.
const Engine& int8_engine() {
  static const auto& engine = *new Int8Engine(
      "cpu.int8", 5, "s8 and u8 fprop by GEMM over implicit im2col tiles, VNNI where the processor has it", Isa::avx2);
  return engine;
}

const Engine& int8_amx_engine() {
  static const auto& engine =
      *new Int8AmxEngine("cpu.int8_amx", 1, "s8 and u8 fprop by GEMM over implicit im2col in AMX's tiles", Isa::avx512);
  return engine;
}

}  // namespace convoy::cpu
