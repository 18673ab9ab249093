#include "engines/cuda/pointwise/pointwise.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/declared_names.h"
#include "core/notes.h"
#include "core/suggestions.h"
#include "device/cuda/device.h"
#include "engines/cuda/pointwise/tile.h"

namespace convoy::cuda {
namespace {

constexpr const char* kName = "cuda.pointwise";
constexpr std::int64_t kMost = std::int64_t{1} << 30;  // rows, columns and terms
constexpr std::size_t kMostSuggestions = 3;

// The kernels' EpilogueArgs.
struct EpilogueArgs {
  const void* bias;
  const void* z;
  const void* slopes;
};

class PointwisePlan final : public ConvPlan {
 public:
  PointwisePlan(Pass pass, Candidate candidate, int ordinal, PointwiseLaunch launch)
      : pass_(pass), candidate_(std::move(candidate)), ordinal_(ordinal), launch_(std::move(launch)) {}

  Result<void> load(int target_sms) {
    CONVOY_TRY(const std::vector<KernelImage> images, compile_all(std::span(&launch_.request, 1)));
    CONVOY_TRY(Module module, Module::load(ordinal_, images[0], print(candidate_)));
    module_.emplace(std::move(module));
    CONVOY_TRY(kernel_, module_->kernel("pointwise", launch_.shape.dynamic_shared_bytes));
    if (target_sms > 0) CONVOY_CHECK(keep_within(ordinal_, target_sms, kernel_, launch_.shape));
    retained_ = images[0].size();
    return {};
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return retained_; }
  std::vector<std::string> notes() const override { return {std::string(note::runtime_compilation)}; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(make_current(ordinal_));
    const void* in = pass_ == Pass::dgrad ? args.y : args.x;
    const void* w = args.w;
    void* out = args.out;
    EpilogueArgs epilogue{args.bias, args.z, args.slopes};
    PointwiseSizes sizes = launch_.sizes;
    void* arguments[] = {&in, &w, &out, &epilogue, &sizes};
    return launch(kernel_, launch_.shape, arguments, static_cast<CUstream>(context.stream()));
  }

 private:
  Pass pass_;
  Candidate candidate_;
  int ordinal_;
  PointwiseLaunch launch_;
  std::optional<Module> module_;
  Kernel kernel_;
  std::size_t retained_ = 0;
};

TypeCombination all_of(DataType type) { return {type, type, type, DataType::f32}; }

bool is_one(std::int64_t value) { return value == 1; }
bool is_zero(std::int64_t value) { return value == 0; }

std::vector<Knob> knobs() {
  return {{"columns", {}, "channels of out that a block computes"},
          {"rows", {}, "pixels of out that a block computes"}};
}

class PointwiseEngine final : public Engine, public HasSuggestions, public DeclaresNames {
 public:
  PointwiseEngine() {
    info_.name = kName;
    info_.summary = "filters of 1x1, and dgrad with filters as large as their stride, on tensor cores; f16, bf16; NHWC";
    info_.device = DeviceKind::cuda;
    info_.min_architecture = 80;
    info_.passes = {Pass::fprop, Pass::dgrad};
    info_.types = {all_of(DataType::f16), all_of(DataType::bf16)};
    info_.layouts = {{Layout::nhwc, Layout::nhwc}};
    info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.strided = true;
    info_.alpha_beta = info_.bias = info_.narrow_bias = info_.residual = info_.any_activation = true;
    info_.deterministic = info_.thread_invariant = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = {std::string(note::runtime_compilation)};
  }
  const EngineInfo& info() const override { return info_; }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    const bool forward = problem.pass == Pass::fprop;
    const Dims filter(problem.w.dims.begin() + 2, problem.w.dims.end());
    if (forward ? !std::all_of(filter.begin(), filter.end(), is_one) : filter != problem.stride) {
      return Refusal{RefusalCode::filter,
                     fmt::format("w.dims={}: this engine takes filters of {}", to_string(problem.w.dims),
                                 forward ? "one pixel" : "the stride's size, " + to_string(problem.stride))};
    }
    for (const Dims* each : {&problem.pre_padding, &problem.post_padding}) {
      if (!std::all_of(each->begin(), each->end(), is_zero)) {
        return Refusal{RefusalCode::padding, "pad=" + to_string(*each) + ": this engine takes none"};
      }
    }
    for (std::size_t i = 0; !forward && i < problem.stride.size(); ++i) {
      if (problem.x.dims[2 + i] != problem.y.dims[2 + i] * problem.stride[i]) {
        return Refusal{RefusalCode::size,
                       fmt::format("x.dims[{}]={}: this engine takes y's times the stride, {}", 2 + i,
                                   problem.x.dims[2 + i], problem.y.dims[2 + i] * problem.stride[i])};
      }
    }
    if (!problem.w.is_packed(Layout::nhwc)) {
      return Refusal{RefusalCode::layout, "w: this engine takes channels last"};
    }
    const PointwiseShape shape = pointwise_shape(problem);
    if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
      return Refusal{RefusalCode::size, "a size of 0: this engine needs data to compute from"};
    }
    if (shape.k % 2 != 0 || (!forward && shape.n % 2 != 0)) {
      return Refusal{RefusalCode::channels,
                     fmt::format("w.dims={}: this engine copies channels two at a time", to_string(problem.w.dims))};
    }
    for (const TensorDesc* each : {&problem.x, &problem.w, &problem.y}) {
      if (each->alignment < 4 && each != &problem.out()) {
        return Refusal{RefusalCode::alignment, "align=2: this engine copies two channels at a time"};
      }
    }
    if (std::max({shape.m, shape.n, shape.k}) > kMost ||
        shape.m / 32 * std::max<std::int64_t>(shape.n / 16, 1) > kMost) {
      return Refusal{RefusalCode::size,
                     fmt::format("{} pixels and {} channels: this engine takes fewer", shape.m, shape.n)};
    }
    if (request.cuda && pointwise_tiles(shape, problem, *request.cuda).empty()) {
      return Refusal{RefusalCode::device, fmt::format("{} bytes of shared memory a block: this engine needs more",
                                                      request.cuda->shared_bytes_per_block)};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return {{"columns"}, {"rows"}}; }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    std::vector<KnobValues> listed;
    for (const PointwiseTile& tile : pointwise_tiles(pointwise_shape(problem), problem, *request.cuda)) {
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
    const PointwiseShape shape = pointwise_shape(problem);
    return predicted_seconds(shape, tile_for(problem, values, request), problem, *request.cuda);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& values,
                                         const PlanRequest& request) const override {
    const PointwiseTile tile = tile_for(problem, values, request);
    auto made = std::make_unique<PointwisePlan>(
        problem.pass, Candidate{kName, configuration_of(tile)}, request.cuda->ordinal,
        pointwise_launch(problem, pointwise_shape(problem), tile, *request.cuda, request.target_sms));
    if (auto loaded = made->load(request.target_sms); !loaded.ok()) return loaded.error().within(kName);
    return std::unique_ptr<ConvPlan>(std::move(made));
  }

 private:
  static PointwiseTile tile_for(const ConvProblem& problem, const KnobValues& values, const PlanRequest& request) {
    if (!values.empty()) return tile_of(values);
    return pointwise_tiles(pointwise_shape(problem), problem, *request.cuda).front();
  }

  EngineInfo info_;
};

}  // namespace

const Engine& pointwise_engine() {
  static const PointwiseEngine& engine = *new PointwiseEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
