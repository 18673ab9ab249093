#include "engines/cpu/inner_product/inner_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engines/cost/fitted_engine.h"
#include "engines/cpu/common/limits.h"
#include "engines/cpu/common/packed_plan.h"
#include "engines/cpu/common/problem.h"
#include "engines/cpu/inner_product/kernels.h"

namespace convoy::cpu {
namespace {

const InnerProductKernels* kernels_for(Isa isa) {
  static constexpr IsaRow<InnerProductKernels> kRows[] = {{Isa::avx2, &avx2::inner_product_kernels},
                                                          {Isa::avx512, &avx512::inner_product_kernels}};
  return best_row<InnerProductKernels>(kRows, isa);
}

// Rows of weights that are multiplied with one image after the other while they are in a core's cache.
constexpr std::int64_t kBlockBytes = 128 << 10;

std::int64_t products_of(const ConvProblem& problem) { return problem.w.elements() / problem.w.dims[0]; }

class InnerProductPlan final : public PackedPlan {
 public:
  InnerProductPlan(const ConvProblem& problem, Candidate candidate, const PlanRequest& request)
      : PackedPlan(problem, std::move(candidate), request.threads,
                   static_cast<std::size_t>(problem.w.elements() * size_of(problem.w.type)), scratch_bytes(problem)),
        kernels_(*kernels_for(request.cpu.isa)),
        geometry_(flat_geometry(problem)),
        products_(products_of(problem)) {}

 private:
  static bool is_narrow(const ConvProblem& problem) { return problem.x.type != DataType::f32; }
  // The sums, and x as f32 where it is none.
  static std::size_t scratch_bytes(const ConvProblem& problem) {
    const std::int64_t wide = is_narrow(problem) ? problem.x.elements() : 0;
    return static_cast<std::size_t>(problem.y.elements() + wide) * sizeof(float);
  }

  // A row a filter, its elements in the order of an image of x.
  void pack(const void* weights, void* packed, ThreadTeam* team) const override {
    const auto rows = [&](std::int64_t begin, std::int64_t end) {
      if (is_narrow(problem())) {
        pack_rows(static_cast<const std::uint16_t*>(weights), static_cast<std::uint16_t*>(packed), begin, end);
      } else {
        pack_rows(static_cast<const float*>(weights), static_cast<float*>(packed), begin, end);
      }
    };
    if (team == nullptr) return rows(0, geometry_.filters);
    parallel_ranges(*team, geometry_.filters, [&](std::int64_t begin, std::int64_t end, int) { rows(begin, end); });
  }

  template <class T>
  void pack_rows(const T* weights, T* packed, std::int64_t begin, std::int64_t end) const {
    const ConvGeometry& g = geometry_;
    const bool channels_last = problem().x.is_packed(Layout::nhwc);
    for (std::int64_t k = begin; k < end; ++k) {
      T* const row = packed + k * products_;
      for (std::int64_t c = 0; c < g.channels; ++c) {
        const T* const filter = weights + g.w.origin + k * g.w.out + c * g.w.in;
        std::int64_t tap = 0;
        for (std::int64_t d = 0; d < g.filter[0]; ++d) {
          for (std::int64_t h = 0; h < g.filter[1]; ++h) {
            for (std::int64_t w = 0; w < g.filter[2]; ++w, ++tap) {
              row[channels_last ? tap * g.channels + c : c * g.taps + tap] =
                  filter[d * g.w.spatial[0] + h * g.w.spatial[1] + w * g.w.spatial[2]];
            }
          }
        }
      }
    }
  }

  Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const override {
    const ConvGeometry& g = geometry_;
    const DataType type = problem().x.type;
    const EpilogueArgs epilogue = make_epilogue(problem(), args);
    auto* const sums = static_cast<float*>(scratch);
    const float* x = static_cast<const float*>(args.x);
    if (is_narrow(problem())) {
      float* const wide = sums + g.batch * g.filters;
      kernels_.widen(type, args.x, wide, g.batch * products_);
      x = wide;
    }
    const auto* const z = epilogue.gamma != 0 ? static_cast<const float*>(args.z) : nullptr;
    const std::int64_t row_bytes = products_ * size_of(problem().w.type);
    // One image needs no blocks: dots() reads four rows at a time where there are more than caches hold.
    const std::int64_t block =
        g.batch == 1 ? g.filters : std::clamp<std::int64_t>(kBlockBytes / row_bytes / kRows * kRows, kRows, 64 * kRows);
    parallel_ranges(team, (g.filters + kRows - 1) / kRows, [&](std::int64_t begin, std::int64_t end, int) {
      const std::int64_t first = begin * kRows, last = std::min(end * kRows, g.filters);
      for (std::int64_t k = first; k < last; k += block) {
        const std::int64_t count = std::min(block, last - k);
        const void* const rows = static_cast<const std::byte*>(packed) + k * row_bytes;
        for (std::int64_t n = 0; n < g.batch; ++n) {
          kernels_.dots(type, x + n * products_, rows, count, products_, sums + n * g.filters + k);
        }
      }
      for (std::int64_t n = 0; n < g.batch && first < last; ++n) {
        const std::int64_t at = n * g.filters + first;
        if (!is_narrow(problem())) {
          kernels_.finish(sums + at, epilogue, first, last - first, static_cast<float*>(args.out) + at,
                          z != nullptr ? z + at : z);
          continue;
        }
        kernels_.finish(sums + at, epilogue, first, last - first, sums + at, nullptr);
        kernels_.narrow(type, sums + at, static_cast<std::uint16_t*>(args.out) + at, last - first);
      }
    });
    return {};
  }

  static constexpr std::int64_t kRows = 4;  // that are multiplied at once
  const InnerProductKernels& kernels_;
  const ConvGeometry geometry_;
  const std::int64_t products_;
};

EngineInfo make_info() {
  EngineInfo info = own_engine("cpu.inner_product", 1,
                               "filters as large as x: each weight is read once, in order; f32, bf16 and f16");
  info.passes = {Pass::fprop};
  info.types = {kAllF32};
  for (const DataType half : {DataType::bf16, DataType::f16}) info.types.push_back({half, half, half, DataType::f32});
  for (const Layout x : {Layout::nhwc, Layout::nchw}) {
    for (const Layout y : {Layout::nhwc, Layout::nchw}) info.layouts.push_back({x, y});
  }
  info.strided = info.dilated = true;
  info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  info.notes = {"TRANSFORMED_WEIGHTS"};
  return info;
}

class InnerProductEngine final : public cost::FittedEngine {
 public:
  InnerProductEngine() : FittedEngine(make_info()) {}

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (auto refusal = refuse_huge_weights(problem)) return refusal;
    if (auto refusal = refuse_huge_window(problem)) return refusal;
    for (std::size_t d = 2; d < problem.x.dims.size(); ++d) {
      if (problem.x.dims[d] != problem.w.dims[d] || problem.y.dims[d] != 1) {
        return Refusal{RefusalCode::filter,
                       fmt::format("w.dims={}, x.dims={}: this engine needs a filter as large as x",
                                   to_string(problem.w.dims), to_string(problem.x.dims))};
      }
      if (problem.pre_padding[d - 2] != 0 || problem.post_padding[d - 2] != 0) {
        return Refusal{RefusalCode::padding,
                       fmt::format("pre_padding={}, post_padding={}: this engine takes none",
                                   to_string(problem.pre_padding), to_string(problem.post_padding))};
      }
    }
    return problem.x.type == DataType::f32 ? std::nullopt : check_halves(problem);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    auto plan = std::make_unique<InnerProductPlan>(problem, Candidate{info_.name, {}}, request);
    CONVOY_CHECK(plan->keep(request.constant_weights));
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  // What networks have; cpu.in_f32 takes the others.
  static std::optional<Refusal> check_halves(const ConvProblem& problem) {
    const std::string type(convoy::name_of(problem.x.type));
    const auto refuse = [&](RefusalCode code, const std::string& field, const char* needs) {
      return Refusal{code, fmt::format("{}: with x.type={} this engine needs {}", field, type, needs)};
    };
    if (problem.beta != 0) return refuse(RefusalCode::scaling, fmt::format("beta={}", problem.beta), "0");
    if (problem.epilogue.takes_z()) return refuse(RefusalCode::epilogue, "residual", "none");
    if (problem.epilogue.narrow_bias) return refuse(RefusalCode::epilogue, "bias=out", "an f32 bias");
    return std::nullopt;
  }

  // Weights are read once for a block's images: from memory those that the shared cache doesn't hold, which
  // FittedEngine counts for all engines. Not fitted: no list of problems has enough of these.
  Work work(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const auto bytes = static_cast<double>(problem.w.bytes());
    const bool in_l2 = bytes < 0.5 * static_cast<double>(request.cpu.l2_bytes);
    const bool held = request.cpu.l3_bytes == 0 || problem.w.bytes() <= request.cpu.l3_bytes;
    const double read = bytes / (!held ? kMemoryBytesPerSecond : in_l2 ? 40e9 : 20e9);
    const double lanes = request.cpu.isa == Isa::avx512 ? 16 : 8;
    const double products = static_cast<double>(problem.w.elements()) * static_cast<double>(problem.x.dims[0]);
    const double converted = problem.x.type == DataType::f32 ? 0 : products / lanes * 0.3e-9;
    // Products hide behind the weights' way, whose time predict() adds where they come from memory.
    const double both = std::max(read, products / lanes * 0.4e-9 + converted) - (held ? 0 : read);
    return {both + 0.5e-6 + static_cast<double>(problem.y.elements()) * 1e-9};
  }
};

}  // namespace

const Engine& inner_product_engine() {
  static const InnerProductEngine& engine =
      *new InnerProductEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cpu
