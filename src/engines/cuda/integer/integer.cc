#include "engines/cuda/integer/integer.h"

#include <algorithm>
#include <optional>

#include "core/notes.h"
#include "device/cuda/device.h"
#include "engines/cuda/compiler/constants.h"
#include "engines/cuda/reference/reference_kernels.h"

namespace convoy::cuda {
namespace {

constexpr const char* kName = "cuda.integer";
constexpr int kThreads = 128;
constexpr int kChannels = 8;
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;

// Channels that are read at once: those of a pixel that lie together, in words.
int channels_at_once(const ConvProblem& problem) {
  const auto in_words = [](const TensorDesc& desc, std::size_t channels) {
    for (std::size_t i = 0; i < desc.dims.size(); ++i) {
      if (i != channels && desc.dims[i] > 1 && desc.strides[i] % 4 != 0) return false;
    }
    return desc.strides[channels] == 1 && desc.alignment % 4 == 0;
  };
  return problem.w.dims[1] % 4 == 0 && in_words(problem.x, 1) && in_words(problem.w, 1) ? 4 : 1;
}

std::int64_t blocks_of(const ConvProblem& problem) {
  const std::int64_t channels = problem.out_channels() / problem.groups;
  const std::int64_t pixels = problem.y.elements() / std::max<std::int64_t>(1, problem.out_channels());
  return (problem.groups * ((channels + kChannels - 1) / kChannels) * pixels + kThreads - 1) / kThreads;
}

class IntegerPlan final : public ConvPlan {
 public:
  IntegerPlan(ConvProblem problem, IntegerLaunch launch, int ordinal)
      : problem_(std::move(problem)), launch_(std::move(launch)), ordinal_(ordinal) {}

  Result<void> load(int target_sms) {
    CONVOY_TRY(const std::vector<KernelImage> images, compile_all(std::span(&launch_.request, 1)));
    CONVOY_TRY(Module module, Module::load(ordinal_, images[0], kName));
    module_.emplace(std::move(module));
    CONVOY_TRY(kernel_, module_->kernel("integer"));
    if (target_sms > 0) CONVOY_CHECK(keep_within(ordinal_, target_sms, kernel_, launch_.shape));
    retained_ = images[0].size();
    return {};
  }

  Candidate candidate() const override { return {kName, {}}; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return retained_; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(make_current(ordinal_));
    ReferenceArgs given = reference_args(problem_, args);
    void* out = args.out;
    void* arguments[] = {&given, &out};
    return launch(kernel_, launch_.shape, arguments, static_cast<CUstream>(context.stream()));
  }

 private:
  ConvProblem problem_;
  IntegerLaunch launch_;
  int ordinal_;
  std::optional<Module> module_;
  Kernel kernel_;
  std::size_t retained_ = 0;
};

class IntegerEngine final : public Engine {
 public:
  IntegerEngine() {
    info_.name = kName;
    info_.summary = "s8 and u8 in any layout, sums in s32, any zero points and epilogue";
    info_.device = DeviceKind::cuda;
    info_.min_architecture = 80;
    info_.passes = {Pass::fprop};
    for (const DataType x : {DataType::s8, DataType::u8}) {
      for (const DataType w : {DataType::s8, DataType::u8}) {
        for (const DataType y : {DataType::s8, DataType::u8, DataType::s32, DataType::f32}) {
          info_.types.push_back({x, w, y, DataType::s32});
        }
      }
    }
    info_.any_layouts = info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.groups = info_.strided = info_.dilated = info_.flipped = true;
    info_.alpha_beta = info_.bias = info_.float_bias = info_.residual = info_.any_activation = true;
    info_.requantize = info_.quantized_residual = info_.zero_points = info_.given_zero_points = true;
    info_.deterministic = info_.thread_invariant = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = {std::string(note::runtime_compilation)};
  }
  const EngineInfo& info() const override { return info_; }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (problem.x.channel_block > 1 || problem.y.channel_block > 1 || problem.w.channel_block > 1) {
      return Refusal{RefusalCode::layout, "this engine takes layouts without blocks of channels"};
    }
    if (problem.y.elements() == 0 || problem.w.elements() == 0) {
      return Refusal{RefusalCode::size, "a size of 0: this engine needs data to compute from"};
    }
    if (blocks_of(problem) > kMostBlocks) {
      return Refusal{RefusalCode::size, "y.dims=" + to_string(problem.y.dims) + ": this engine takes fewer elements"};
    }
    return std::nullopt;
  }

  // Not measured: an instruction for four products, and as many again around it; by single bytes four times that.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    const double per_second = request.cuda->sm_count * 2e11 / (channels_at_once(problem) == 4 ? 1 : 4);
    return 5e-6 + flops(problem) / 2 / per_second;
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    IntegerLaunch launch = integer_launch(problem, request.cuda->architecture, request.target_sms);
    auto made = std::make_unique<IntegerPlan>(problem, std::move(launch), request.cuda->ordinal);
    if (auto loaded = made->load(request.target_sms); !loaded.ok()) return loaded.error().within(kName);
    return std::unique_ptr<ConvPlan>(std::move(made));
  }

 private:
  EngineInfo info_;
};

}  // namespace

IntegerLaunch integer_launch(const ConvProblem& problem, int architecture, int target_sms) {
  const auto is_shifted = [](bool given, std::int32_t zero, DataType type) {
    return given || zero != (type == DataType::u8 ? 128 : 0);
  };
  Constants constants;
  constants.enumerations();
  constants.set("PASS", static_cast<int>(problem.pass)).set("COMPUTE_TYPE", static_cast<int>(problem.compute));
  constants.set("X_TYPE", static_cast<int>(problem.x.type)).set("W_TYPE", static_cast<int>(problem.w.type));
  constants.set("Y_TYPE", static_cast<int>(problem.y.type));
  constants.set("THREADS", kThreads).set("CHANNELS", kChannels).set("PACK", channels_at_once(problem));
  constants.set("X_ZERO", is_shifted(problem.x_zero_given, problem.x_zero_point, problem.x.type));
  constants.set("W_ZERO", is_shifted(problem.w_zero_given, problem.w_zero_point, problem.w.type));
  if (target_sms > 0) constants.work_blocks(blocks_of(problem));
  IntegerLaunch made{{"integer.cu", constants.text(), architecture}, {}};
  made.shape.grid.x = static_cast<unsigned>(blocks_of(problem));
  made.shape.block.x = kThreads;
  return made;
}

const Engine& integer_engine() {
  static const IntegerEngine& engine = *new IntegerEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy::cuda
