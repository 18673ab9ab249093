#include "engines/cuda/compiler/product_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/notes.h"
#include "core/padding.h"
#include "core/pixel_stride.h"

namespace convoy::cuda {
namespace {

constexpr std::size_t kMostSuggestions = 3;

TypeCombination all_of(DataType type) { return {type, type, type, DataType::f32}; }
bool is_one(std::int64_t value) { return value == 1; }
bool is_zero(std::int64_t value) { return value == 0; }

}  // namespace

std::array<std::int64_t, 3> three(const Dims& dims, std::size_t from, std::int64_t fill) {
  std::array<std::int64_t, 3> made{fill, fill, fill};
  const std::size_t count = dims.size() - from;
  for (std::size_t i = 0; i < count; ++i) made[3 - count + i] = dims[from + i];
  return made;
}

std::optional<Refusal> refuse_windows(const ConvProblem& problem) {
  const bool forward = problem.pass == Pass::fprop;
  const Dims filter(problem.w.dims.begin() + 2, problem.w.dims.end());
  if (forward ? !std::ranges::all_of(filter, is_one) : filter != problem.stride) {
    return Refusal{RefusalCode::filter,
                   fmt::format("w.dims={}: this engine takes filters of {}", to_string(problem.w.dims),
                               forward ? "one pixel" : "the stride's size, " + to_string(problem.stride))};
  }
  for (const Dims* each : {&problem.pre_padding, &problem.post_padding}) {
    if (!std::ranges::all_of(*each, is_zero)) {
      return Refusal{RefusalCode::padding, "pad=" + to_string(*each) + ": this engine takes none"};
    }
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_placements(const ConvProblem& problem, std::int64_t multiple) {
  for (const auto& [name, desc] : {std::pair("x", &problem.x), std::pair("y", &problem.y)}) {
    const std::optional<std::int64_t> stride = pixel_stride(*desc);
    if (!stride) {
      return Refusal{RefusalCode::layout,
                     fmt::format("{}: this engine takes channels last, pixels one after another", name)};
    }
    if (*stride % multiple != 0) {
      return Refusal{RefusalCode::layout,
                     fmt::format("{}: {} elements from a pixel to the next: this engine takes multiples of {}", name,
                                 *stride, multiple)};
    }
  }
  return std::nullopt;
}

KnobValues configuration_of(const ProductTile& tile) {
  KnobValues values{{"columns", tile.n}, {"rows", tile.m}};
  if (tile.splits > 0) values.push_back({"splits", tile.splits});
  return values;
}

ProductEngine::ProductEngine(std::string name, std::string summary, std::span<const ProductTile> all) : all_(all) {
  info_.name = std::move(name);
  info_.summary = std::move(summary);
  info_.device = DeviceKind::cuda;
  info_.min_architecture = 80;
  info_.types = {all_of(DataType::f16), all_of(DataType::bf16)};
  info_.any_weight_strides = true;
  info_.max_spatial_dims = 3;
  info_.strided = true;
  info_.alpha_beta = info_.bias = info_.narrow_bias = info_.residual = info_.any_activation = true;
  info_.deterministic = info_.thread_invariant = true;
  info_.max_elements = EngineInfo::any_size;
  info_.notes = {std::string(note::runtime_compilation)};
}

std::vector<ProductTile> ProductEngine::tiles(const ConvProblem& problem, const CudaDevice& device) const {
  const std::int64_t all_columns = columns(problem);
  std::vector<std::pair<double, ProductTile>> ranked;
  for (const ProductTile& tile : all_) {
    const bool fits =
        shared_bytes(problem, tile) <= device.shared_bytes_per_block && (tile.splits <= 1 || device.architecture >= 90);
    const bool wasted = tile.n > 32 && tile.n >= 2 * all_columns;
    if (fits && !wasted && takes(problem, tile)) ranked.emplace_back(seconds(problem, tile, device), tile);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ProductTile> tiles;
  for (const auto& [time, tile] : ranked) tiles.push_back(tile);
  return tiles;
}

ProductTile ProductEngine::tile_of(const KnobValues& values) const {
  return *std::ranges::find(all_, values, [](const ProductTile& tile) { return configuration_of(tile); });
}

ProductTile ProductEngine::tile_for(const ConvProblem& problem, const KnobValues& values,
                                    const PlanRequest& request) const {
  return values.empty() ? tiles(problem, *request.cuda).front() : tile_of(values);
}

std::optional<Refusal> ProductEngine::check(const ConvProblem& problem, const PlanRequest& request) const {
  const bool wgmma = info_.min_architecture == 90;
  if (wgmma && request.cuda && request.cuda->architecture != 90) {
    return Refusal{RefusalCode::device, fmt::format("device=cuda:{}, sm_{}: this engine needs sm_90a",
                                                    request.cuda->ordinal, request.cuda->architecture)};
  }
  const auto tensors = {&problem.x, &problem.w, &problem.y};
  if (std::ranges::any_of(tensors, [](const TensorDesc* each) { return each->elements() == 0; })) {
    return Refusal{RefusalCode::size, "a size of 0: this engine needs data to compute from"};
  }
  if (auto refusal = check_problem(problem)) return refusal;
  if (!any_filters_ && !problem.w.is_packed(Layout::nhwc))
    return Refusal{RefusalCode::layout, "w: this engine takes channels last"};
  for (const TensorDesc* each : tensors) {
    if (wgmma && each->alignment < 16) {
      return Refusal{RefusalCode::alignment,
                     fmt::format("align={}: this engine copies 16 bytes at a time", each->alignment)};
    }
  }
  if (!request.cuda || !tiles(problem, *request.cuda).empty()) return std::nullopt;
  return Refusal{RefusalCode::device, fmt::format("{} bytes of shared memory a block: this engine needs more",
                                                  request.cuda->shared_bytes_per_block)};
}

std::vector<std::string> ProductEngine::notes(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const {
  std::vector<std::string> notes = info_.notes;
  if (info_.notes_vary && reads_padding(problem)) notes.emplace_back(note::multiplies_padding);
  return notes;
}

std::vector<std::string> ProductEngine::other_notes() const {
  if (!info_.notes_vary) return {};
  return {std::string(note::multiplies_padding)};
}

Configurations ProductEngine::configurations(const ConvProblem& problem, const PlanRequest& request) const {
  std::vector<KnobValues> listed;
  for (const ProductTile& tile : tiles(problem, *request.cuda)) listed.push_back(configuration_of(tile));
  return listed_configurations(std::move(listed), {{"columns", {}, "channels of out that a block computes"},
                                                   {"rows", {}, "pixels of out that a block computes"},
                                                   {"splits", {}, "blocks that share the terms"}});
}

std::vector<KnobValues> ProductEngine::suggestions(const ConvProblem& problem, const PlanRequest& request) const {
  std::vector<KnobValues> all = configurations(problem, request).listed;
  all.resize(std::min(all.size(), kMostSuggestions));
  return all;
}

double ProductEngine::predict_seconds(const ConvProblem& problem, const KnobValues& values,
                                      const PlanRequest& request) const {
  return seconds(problem, tile_for(problem, values, request), *request.cuda);
}

Result<std::unique_ptr<ConvPlan>> ProductEngine::plan(const ConvProblem& problem, const KnobValues& values,
                                                      const PlanRequest& request) const {
  return kernel_plan(problem, {info_.name, configuration_of(tile_for(problem, values, request))},
                     notes(problem, values, request), kernels(problem, values, request), request);
}

PlannedKernels ProductEngine::kernels(const ConvProblem& problem, const KnobValues& values,
                                      const PlanRequest& request) const {
  return planned(problem, tile_for(problem, values, request), *request.cuda, request.target_sms);
}

}  // namespace convoy::cuda
