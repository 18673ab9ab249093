#include "engines/cuda/stem/stem.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/declared_names.h"
#include "core/notes.h"
#include "core/padding.h"
#include "core/suggestions.h"
#include "device/cuda/device.h"
#include "engines/cuda/stem/tile.h"

namespace convoy::cuda {
namespace {

constexpr const char* kName = "cuda.stem";
constexpr std::int64_t kMost = std::int64_t{1} << 30;  // pixels
constexpr std::int64_t kMostChannels = 8;
constexpr std::int64_t kMostIndex = (1 << 20) - 512;  // pixels along a dim
constexpr std::int64_t kMostReach = 255;              // of a window, from its first tap to its last
constexpr std::size_t kMostSuggestions = 3;

// The kernels' EpilogueArgs.
struct EpilogueArgs {
  const void* bias;
  const void* z;
  const void* slopes;
};

class StemPlan final : public ConvPlan {
 public:
  StemPlan(Candidate candidate, int ordinal, StemLaunch launch, std::vector<std::string> notes)
      : candidate_(std::move(candidate)), ordinal_(ordinal), launch_(std::move(launch)), notes_(std::move(notes)) {}

  Result<void> load(int target_sms) {
    CONVOY_TRY(const std::vector<KernelImage> images, compile_all(std::span(&launch_.request, 1)));
    CONVOY_TRY(Module module, Module::load(ordinal_, images[0], print(candidate_)));
    module_.emplace(std::move(module));
    CONVOY_TRY(kernel_, module_->kernel("stem", launch_.shape.dynamic_shared_bytes));
    if (target_sms > 0) CONVOY_CHECK(keep_within(ordinal_, target_sms, kernel_, launch_.shape));
    retained_ = images[0].size();
    return {};
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return retained_; }
  std::vector<std::string> notes() const override { return notes_; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(make_current(ordinal_));
    const void *x = args.x, *w = args.w;
    void* out = args.out;
    EpilogueArgs epilogue{args.bias, args.z, args.slopes};
    StemSizes sizes = launch_.sizes;
    void* arguments[] = {&x, &w, &out, &epilogue, &sizes};
    return launch(kernel_, launch_.shape, arguments, static_cast<CUstream>(context.stream()));
  }

 private:
  Candidate candidate_;
  int ordinal_;
  StemLaunch launch_;
  std::optional<Module> module_;
  Kernel kernel_;
  std::size_t retained_ = 0;
  std::vector<std::string> notes_;
};

TypeCombination all_of(DataType type) { return {type, type, type, DataType::f32}; }

std::vector<Knob> knobs() {
  return {{"columns", {}, "channels of out that a block computes"},
          {"rows", {}, "pixels of out that a block computes"}};
}

class StemEngine final : public Engine, public HasSuggestions, public DeclaresNames {
 public:
  StemEngine() {
    info_.name = kName;
    info_.summary = "few channels, as a network's first layer has, on tensor cores; f16, bf16; y NHWC";
    info_.device = DeviceKind::cuda;
    info_.min_architecture = 80;
    info_.passes = {Pass::fprop};
    info_.types = {all_of(DataType::f16), all_of(DataType::bf16)};
    info_.any_layouts = info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.strided = info_.dilated = true;
    info_.alpha_beta = info_.bias = info_.narrow_bias = info_.residual = info_.any_activation = true;
    info_.deterministic = info_.thread_invariant = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = {std::string(note::runtime_compilation)};
    info_.notes_vary = true;
  }
  const EngineInfo& info() const override { return info_; }

  // The zeros beside x are multiplied, too.
  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    std::vector<std::string> notes = info_.notes;
    if (reads_padding(problem)) notes.emplace_back(note::multiplies_padding);
    return notes;
  }
  std::vector<std::string> other_notes() const override { return {std::string(note::multiplies_padding)}; }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (problem.in_channels() > kMostChannels || stem_terms(problem) > kMostStemTerms) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine takes at most {} channels and {} weights a filter",
                                 to_string(problem.w.dims), kMostChannels, kMostStemTerms)};
    }
    if (problem.x.channel_block > 1 || !problem.y.is_packed(Layout::nhwc) || !problem.w.is_packed(Layout::nhwc)) {
      return Refusal{RefusalCode::layout, "this engine takes w and y channels last, and x by strides"};
    }
    if (problem.y.elements() == 0 || stem_terms(problem) == 0) {
      return Refusal{RefusalCode::size, "a size of 0: this engine needs data to compute from"};
    }
    for (std::size_t i = 0; i < problem.dilation.size(); ++i) {
      if (problem.dilation[i] * (problem.w.dims[2 + i] - 1) > kMostReach) {
        return Refusal{RefusalCode::dilation, fmt::format("dilation={}: this engine takes windows of at most {}",
                                                          to_string(problem.dilation), kMostReach + 1)};
      }
      if (std::max({problem.x.dims[2 + i], problem.pre_padding[i], problem.stride[i] * problem.y.dims[2 + i]}) >
          kMostIndex) {
        return Refusal{RefusalCode::size, fmt::format("x.dims={}: this engine takes at most {} pixels along a dim",
                                                      to_string(problem.x.dims), kMostIndex)};
      }
    }
    std::int64_t span = (problem.in_channels() - 1) * problem.x.strides[1];
    for (std::size_t i = 0; i < problem.dilation.size(); ++i) {
      span += problem.dilation[i] * (problem.w.dims[2 + i] - 1) * problem.x.strides[2 + i];
    }
    if (span > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("x: a window spans {} elements, this engine takes {}", span, kMost)};
    }
    if (stem_pixels(problem) > kMost || problem.out_channels() > kMostIndex) {
      return Refusal{RefusalCode::size, fmt::format("{} pixels of {} channels: this engine takes fewer",
                                                    stem_pixels(problem), problem.out_channels())};
    }
    if (request.cuda && stem_tiles(problem, *request.cuda).empty()) {
      return Refusal{RefusalCode::device, fmt::format("{} bytes of shared memory a block: this engine needs more",
                                                      request.cuda->shared_bytes_per_block)};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return {{"columns"}, {"rows"}}; }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    std::vector<KnobValues> listed;
    for (const StemTile& tile : stem_tiles(problem, *request.cuda)) {
      listed.push_back(configuration_of(tile));
    }
    return listed_configurations(std::move(listed), knobs());
  }
  std::vector<KnobValues> suggestions(const ConvProblem& problem, const PlanRequest& request) const override {
    std::vector<KnobValues> all = configurations(problem, request).listed;
    all.resize(std::min(all.size(), kMostSuggestions));
    return all;
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& values,
                         const PlanRequest& request) const override {
    return predicted_seconds(problem, tile_for(problem, values, request), *request.cuda);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& values,
                                         const PlanRequest& request) const override {
    const StemTile tile = tile_for(problem, values, request);
    auto made = std::make_unique<StemPlan>(Candidate{kName, configuration_of(tile)}, request.cuda->ordinal,
                                           stem_launch(problem, tile, *request.cuda, request.target_sms),
                                           notes(problem, values, request));
    if (auto loaded = made->load(request.target_sms); !loaded.ok()) return loaded.error().within(kName);
    return std::unique_ptr<ConvPlan>(std::move(made));
  }

 private:
  static StemTile tile_for(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) {
    if (!values.empty()) return stem_tile_of(values);
    return stem_tiles(problem, *request.cuda).front();
  }

  EngineInfo info_;
};

}  // namespace

const Engine& stem_engine() {
  static const StemEngine& engine = *new StemEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
