// An engine whose problems are products of matrices in tiles, f16 and bf16 (cuda.gemm, cuda.igemm, cuda.pointwise,
// cuda.stem and cuda.volume on tensor cores, cuda.direct, cuda.gemv; cuda.direct, cuda.gemv and cuda.pointwise take
// f32, too): its configurations are the tiles that it has.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "core/declared_names.h"
#include "core/suggestions.h"
#include "engines/cuda/compiler/arithmetic.h"
#include "engines/cuda/compiler/has_kernels.h"

namespace convoy::cuda {

struct ProductTile {
  int m, n;  // of the result, a block's: pixels and channels
  int warps_m, warps_n;
  int blocks = 1;  // that a multiprocessor is to run at once, as far as registers say
  int splits = 0;  // of the terms, a block of a cluster each; 0: the engine has none
  friend bool operator==(const ProductTile&, const ProductTile&) = default;
};
KnobValues configuration_of(const ProductTile& tile);  // columns, rows, and splits where the engine has them

// D, H, W of the dims behind the first `from`; what isn't there is `fill`.
std::array<std::int64_t, 3> three(const Dims& dims, std::size_t from, std::int64_t fill = 1);

// A refusal of windows that are no product by themselves: of padding, and of filters that aren't one pixel, or as large
// as dgrad's stride.
std::optional<Refusal> refuse_windows(const ConvProblem& problem);

// A refusal of activations that aren't channels last with pixels at one distance (core/pixel_stride.h), a multiple of
// so many elements.
std::optional<Refusal> refuse_placements(const ConvProblem& problem, std::int64_t multiple);

class ProductEngine : public Engine, public HasSuggestions, public DeclaresNames, public HasKernels {
 public:
  const EngineInfo& info() const final { return info_; }
  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const final;
  // With notes_vary, that the zeros beside x are multiplied, too.
  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const final;
  std::vector<std::string> other_notes() const final;
  std::vector<DeclaredKnob> declared_knobs() const final { return {{"columns"}, {"rows"}, {"splits"}}; }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const final;
  std::vector<KnobValues> suggestions(const ConvProblem& problem, const PlanRequest& request) const final;
  double predict_seconds(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) const final;
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& values,
                                         const PlanRequest& request) const final;
  PlannedKernels kernels(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) const final;

  // Those that run, the one that is predicted to be fastest first.
  std::vector<ProductTile> tiles(const ConvProblem& problem, const CudaDevice& device) const;
  ProductTile tile_of(const KnobValues& values) const;
  // With `target_sms` (0: all) the kernel does its work with any grid, for keep_within().
  virtual PlannedKernels planned(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device,
                                 int target_sms) const = 0;

 protected:
  // With what such engines have in common declared. Those of min_architecture 90 are for wgmma: they need sm_90a, and
  // tensors that are copied 16 bytes at a time.
  ProductEngine(std::string name, std::string summary, std::span<const ProductTile> all);

  EngineInfo info_;
  bool any_filters_ = false;  // w of any strides; otherwise channels last

 private:
  // A refusal of what only this engine doesn't compute; no tensor is empty.
  virtual std::optional<Refusal> check_problem(const ConvProblem& problem) const = 0;
  virtual std::int64_t columns(const ConvProblem& problem) const = 0;  // of the result
  virtual bool takes(const ConvProblem&, const ProductTile&) const { return true; }
  virtual std::int64_t shared_bytes(const ConvProblem& problem, const ProductTile& tile) const = 0;
  virtual double seconds(const ConvProblem& problem, const ProductTile& tile, const CudaDevice& device) const = 0;
  ProductTile tile_for(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) const;

  std::span<const ProductTile> all_;
};

}  // namespace convoy::cuda
