#include "engines/cpu/int8/int8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/problem.h"
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

// The least and largest result that fit an output type, before the cast from s32 to it.
std::pair<double, double> limits_of(DataType type) {
  switch (type) {
    case DataType::s8:
      return {-128, 127};
    case DataType::u8:
      return {0, 255};
    default:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  }
}

int8::Act act_of(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::relu:
      return int8::Act::relu;
    case ActivationKind::clip:
      return int8::Act::clip;
    case ActivationKind::leaky_relu:
      return int8::Act::leaky_relu;
    default:
      return int8::Act::identity;
  }
}

// A register tile's rows: output pixels of a group.
struct Tile {
  int rows;
  std::array<const void*, int8::max_rows> x;
  std::array<std::int32_t, int8::max_rows> terms;
  std::array<std::int64_t, int8::max_rows> out;  // where their first channels lie, in elements
};

template <class T>
void store_row(void* out, std::int64_t offset, std::int64_t stride, const std::int32_t* values, int count) {
  T* const to = static_cast<T*>(out) + offset;
  const auto value = [&](int i) {
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(values[i]);
    } else {
      return static_cast<T>(values[i]);
    }
  };
  if (stride == 1) {  // its own loop, so that it is vectorised
    for (int i = 0; i < count; ++i) to[i] = value(i);
  } else {
    for (int i = 0; i < count; ++i) to[i * stride] = value(i);
  }
}

void store(DataType type, void* out, const Tile& tile, std::int64_t channels, std::int64_t stride,
           const std::int32_t* values, int columns, int count) {
  for (int r = 0; r < tile.rows; ++r, values += columns) {
    const std::int64_t offset = tile.out[r] + channels;
    switch (type) {
      case DataType::s8:
        store_row<std::int8_t>(out, offset, stride, values, count);
        break;
      case DataType::u8:
        store_row<std::uint8_t>(out, offset, stride, values, count);
        break;
      case DataType::f32:
        store_row<float>(out, offset, stride, values, count);
        break;
      default:
        store_row<std::int32_t>(out, offset, stride, values, count);
    }
  }
}

// The bytes of z where store() will put the results, each in 32 bits.
template <class T>
void load_rows(const void* z, const Tile& tile, std::int64_t channels, std::int64_t stride, std::int32_t* values,
               int columns, int count) {
  for (int r = 0; r < tile.rows; ++r, values += columns) {
    const T* const from = static_cast<const T*>(z) + tile.out[static_cast<std::size_t>(r)] + channels;
    if (stride == 1) {  // its own loop, so that it is vectorised
      for (int i = 0; i < count; ++i) values[i] = from[i];
    } else {
      for (int i = 0; i < count; ++i) values[i] = from[i * stride];
    }
  }
}

// A thread's own: the values of a panel's columns as vectors are read of them, and tiles of sums and of a residual.
struct Columns {
  alignas(64) std::int32_t bias[int8::max_columns];
  alignas(64) float scales[int8::max_columns];
  alignas(64) std::int32_t w_zeros[int8::max_columns];
  alignas(64) std::int32_t terms[int8::max_columns];  // with the bias
  alignas(64) std::int32_t sums[int8::max_rows * int8::max_columns];
  alignas(64) std::int32_t z[int8::max_rows * int8::max_columns];
};

// `values` as they are, or where there are fewer than a panel has a copy with zeros behind them.
template <class T>
const T* padded(const T* values, int count, int columns, T* copy) {
  if (count == columns) return values;
  std::fill(std::copy_n(values, count, copy), copy + columns, T{});
  return copy;
}

class Int8Plan final : public PackedPlan {
 public:
  Int8Plan(const ConvProblem& problem, const Candidate& candidate, int threads, const Kernel& kernel,
           const Panels& panels)
      : PackedPlan(
            problem, candidate, threads, panels.packed_bytes(),
            static_cast<std::size_t>(threads) * panels.block_bytes() + panels.term_bytes() + panels.outside_bytes()),
        kernel_(kernel),
        panels_(panels) {}

  std::vector<std::string> notes() const override {
    auto notes = PackedPlan::notes();
    const bool in_place = panels_.direct() || panels_.depthwise();
    notes.push_back(in_place ? "x read in place" : "x gathered into tiles (implicit im2col)");
    return notes;
  }

 private:
  std::vector<std::string> run_stages() const override {
    return {panels_.direct() || panels_.depthwise() ? "products" : "gather a tile of x + products"};
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
    void* const outside = static_cast<std::byte*>(terms) + panels_.term_bytes();
    if (panels_.outside_bytes() > 0) std::memset(outside, x_zero, panels_.outside_bytes());

    parallel_ranges(team, g.groups * blocks * parts, [&](std::int64_t begin, std::int64_t end, int thread) {
      auto* memory = static_cast<std::byte*>(scratch) + static_cast<std::size_t>(thread) * panels_.block_bytes();
      std::int64_t gathered = -1;
      std::array<Tile, Panels::kMostBlockTiles> tiles;
      Columns own;
      std::int64_t count = 0;
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t block = item / parts, group = block / blocks;
        if (gathered != block) {
          const std::int64_t first = block % blocks * block_tiles;
          count = std::min(block_tiles, row_tiles - first);
          for (std::int64_t t = 0; t < count; ++t) {
            gather(args.x, x_zero, group, (first + t) * kernel_.rows, pixels,
                   memory + static_cast<std::size_t>(t) * panels_.tile_bytes(), outside,
                   tiles[static_cast<std::size_t>(t)]);
          }
          gathered = block;
        }
        const std::int64_t part = item % parts;
        const std::int64_t last = panels_.per_group() * (part + 1) / parts;
        for (std::int64_t panel = panels_.per_group() * part / parts; panel < last; ++panel) {
          run_panel(args, packed, column_terms, group, panel, {tiles.data(), static_cast<std::size_t>(count)}, own);
        }
      }
    });
    return {};
  }

  void gather(const void* x, std::int32_t x_zero, std::int64_t group, std::int64_t first_row, std::int64_t pixels,
              void* memory, const void* outside, Tile& tile) const {
    tile.rows = static_cast<int>(std::min<std::int64_t>(kernel_.rows, pixels - first_row));
    panels_.gather(x, x_zero, group, first_row, tile.rows, memory, outside, tile.x.data(), tile.terms.data(),
                   tile.out.data());
  }

  void run_panel(const ConvArgs& args, const void* packed, const std::int32_t* column_terms, std::int64_t group,
                 std::int64_t panel, std::span<const Tile> tiles, Columns& own) const {
    const ConvGeometry& g = panels_.geometry();
    const ConvProblem& p = problem();
    const std::int64_t column = panel * kernel_.columns;  // in the group
    const int columns = static_cast<int>(std::min<std::int64_t>(kernel_.columns, g.group_filters - column));
    const std::int64_t filter = group * g.group_filters + column;

    int8::Finish finish{};
    finish.column_terms = column_terms + panels_.first_column(group, panel);
    finish.act = act_of(p.epilogue.activation.kind);
    finish.a = p.epilogue.activation.a;
    finish.b = p.epilogue.activation.b;
    finish.to_float = p.y.type == DataType::f32;
    finish.zero_point = p.y_zero_point;
    std::tie(finish.low, finish.high) = limits_of(p.y.type);

    if (p.w_zero_given) {
      std::fill_n(own.w_zeros, kernel_.columns, 0);
      for (int i = 0; i < columns; ++i) own.w_zeros[i] = panels_.packed_w_zero(args.w_zero_points[filter + i]);
      finish.w_zeros = own.w_zeros;
    }
    if (p.epilogue.bias) {
      finish.bias = padded(static_cast<const std::int32_t*>(args.bias) + filter, columns, kernel_.columns, own.bias);
    }
    if (p.epilogue.requantize == Requantize::per_channel) {
      finish.scales = padded(args.scales + filter, columns, kernel_.columns, own.scales);
      finish.scale_stride = 1;
    } else if (p.epilogue.requantize == Requantize::per_tensor) {
      finish.scales = args.scales;
    }

    if (const auto& residual = p.epilogue.residual) {
      finish.z = own.z;
      finish.t_scale = residual->scale;
      finish.t_zero_point = residual->zero_point;
      finish.z_scale = residual->z_scale;
      finish.z_zero_point = residual->z_zero_point;
    }
    const auto load_z = p.y.type == DataType::s8 ? load_rows<std::int8_t> : load_rows<std::uint8_t>;

    const std::optional<int8::FinishBytes> in_bytes = as_bytes(finish, columns, own);
    auto* const out = static_cast<std::byte*>(args.out);
    const auto* const residual = static_cast<const std::byte*>(args.z);

    const int8::Panel weights = panels_.panel(packed, group, panel);
    std::int32_t* const c = own.sums;
    for (const Tile& tile : tiles) {
      finish.row_terms = panels_.has_row_terms() ? tile.terms.data() : nullptr;
      if (panels_.depthwise()) {
        kernel_.multiply_channels(tile.x.data(), tile.rows, panels_.x_signed(), column, columns, weights.weights,
                                  weights.steps, c);
      } else {
        kernel_.multiply(tile.x.data(), weights, c);
      }
      if (in_bytes && kernel_.finish_bytes(c, tile.rows, *in_bytes, finish.z ? residual + filter : nullptr,
                                           out + filter, tile.out.data())) {
        continue;
      }
      if (finish.z) load_z(args.z, tile, filter * g.y.channel, g.y.channel, own.z, kernel_.columns, columns);
      kernel_.finish(c, tile.rows, finish);
      store(p.y.type, args.out, tile, filter * g.y.channel, g.y.channel, c, kernel_.columns, columns);
    }
  }

  // Of a panel's Finish, where f32 can do it.
  std::optional<int8::FinishBytes> as_bytes(const int8::Finish& finish, int columns, Columns& own) const {
    const ConvProblem& p = problem();
    const bool is_signed = p.y.type == DataType::s8, relu = finish.act == int8::Act::relu;
    if (!is_signed && p.y.type != DataType::u8) return std::nullopt;
    if (panels_.geometry().y.channel != 1 || panels_.has_row_terms()) return std::nullopt;
    if (!relu && finish.act != int8::Act::identity) return std::nullopt;
    // Sums and terms are at most 8192 * 255 * 383: they don't wrap, nor do they with the bias.
    constexpr std::int32_t kMostTerms = 8192, kMostBias = 1 << 28;
    if (panels_.terms() > kMostTerms) return std::nullopt;
    for (int i = 0; i < columns; ++i) {
      if (finish.bias && (finish.bias[i] > kMostBias || finish.bias[i] < -kMostBias)) return std::nullopt;
    }
    for (int i = 0; i < kernel_.columns; ++i) {
      own.terms[i] = finish.column_terms[i] + (finish.bias ? finish.bias[i] : 0);
      if (finish.scale_stride == 0) own.scales[i] = finish.scales ? *finish.scales : 1.0f;
    }
    // Two roundings of 2^-24 each. Values of 512 and more saturate either way, and a residual's are below 384 times its
    // scales, which are rounded, too.
    constexpr double kError = 1.5 / (1 << 14);
    const double residual_error =
        1.1 / (1 << 24) * (384 * std::abs(finish.t_scale) + 768 * std::abs(finish.z_scale) + 512);
    return int8::FinishBytes{.terms = own.terms,
                             .scales = finish.scale_stride == 0 ? own.scales : finish.scales,
                             .columns = columns,
                             .relu = relu,
                             .is_signed = is_signed,
                             .has_residual = finish.z != nullptr,
                             .zero_point = p.y_zero_point,
                             .z_zero_point = static_cast<std::int32_t>(finish.z_zero_point),
                             .t_scale = static_cast<float>(finish.t_scale),
                             .z_scale = static_cast<float>(finish.z_scale),
                             .t_low = static_cast<float>(finish.low - finish.t_zero_point),
                             .t_high = static_cast<float>(finish.high - finish.t_zero_point),
                             .most_apart = static_cast<float>(0.5 - (finish.z ? residual_error : kError)),
                             .most_apart_t = static_cast<float>(0.5 - kError)};
  }

  const Kernel& kernel_;
  Panels panels_;
};

class Int8Engine final : public cost::FittedEngine {
 public:
  Int8Engine() : FittedEngine("cpu.int8") {
    info_.name = "cpu.int8";
    info_.revision = 4;
    info_.summary = "s8 and u8 fprop by GEMM over implicit im2col tiles, VNNI where the processor has it";
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
    info_.min_isa = Isa::avx2;
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
    const Kernel& kernel = kernel_for(request.cpu);
    auto plan = std::make_unique<Int8Plan>(problem, Candidate{info_.name, {}}, request.threads, kernel,
                                           Panels(problem, kernel));
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  // Multiply-adds at the kernel's rate, each row of a group's tile padded to the panel's width, plus a pass over the
  // gathered tiles and over the outputs. The rates are estimates from an AVX-512 core's ceilings, not fitted: 400, 150
  // and 75 G multiply-adds/s for VNNI, AVX-512 and AVX2, 30 for depthwise; 2 G gathered bytes/s and 1 G outputs/s, half
  // of that where channels lie apart.
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const Kernel& kernel = kernel_for(request.cpu);
    const Panels panels(problem, kernel);
    const ConvGeometry& g = panels.geometry();
    const double rate = panels.depthwise()         ? 30e9
                        : !kernel.pairs_in_16_bits ? 400e9
                        : kernel.columns == 32     ? 150e9
                                                   : 75e9;
    const auto pixels = static_cast<double>(g.batch * g.y_size[0] * g.y_size[1] * g.y_size[2]);
    const double groups = static_cast<double>(g.groups);
    const double terms = static_cast<double>(panels.terms());
    const double macs = pixels * groups * terms * static_cast<double>(panels.per_group() * kernel.columns);
    const double gathered = panels.direct() || panels.depthwise() ? 0 : pixels * groups * terms;
    const double apart = problem.x.is_packed(Layout::nhwc) ? 1 : 2;
    return {macs / rate + apart * (gathered / 2e9 + pixels * static_cast<double>(g.filters) / 1e9)};
  }

  EngineInfo info_;
};

}  // namespace

const Engine& int8_engine() {
  static const Int8Engine& engine = *new Int8Engine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
