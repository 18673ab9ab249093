#include "engines/cuda/compiler/kernel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/epilogue.h"
#include "core/stages.h"
#include "device/cuda/device.h"
#include "device/cuda/tensor_map.h"

namespace convoy::cuda {
namespace {

constexpr std::int64_t kMostGrid = std::numeric_limits<std::int32_t>::max();

// The kernels' EpilogueArgs.
struct EpilogueArgs {
  const void* bias;
  const void* z;
  const void* slopes;
};

Result<CUtensorMap> map_of(const KernelBox& box, const void* data) {
  const std::int64_t swizzled = 2 * box.box[0];
  TensorMapSource source;
  source.type = box.type == DataType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  source.data = data;
  source.sizes.assign(box.sizes.begin(), box.sizes.end());
  for (const std::int64_t stride : box.strides) source.strides.push_back(2 * static_cast<std::uint64_t>(stride));
  source.swizzle = swizzled == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                   : swizzled == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                    : CU_TENSOR_MAP_SWIZZLE_32B;
  source.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  if (!box.windows) return tiled_map(source, {box.box.begin(), box.box.end()});
  const KernelBox::Windows& windows = *box.windows;
  source.steps.push_back(1);
  source.steps.insert(source.steps.end(), windows.stride.begin(), windows.stride.end());
  source.steps.push_back(1);
  return im2col_map(source, {windows.lower.begin(), windows.lower.end()}, {windows.upper.begin(), windows.upper.end()},
                    static_cast<std::uint32_t>(box.box[0]), static_cast<std::uint32_t>(box.box[1]));
}

class KernelPlan final : public ConvPlan, public HasStages {
 public:
  KernelPlan(Pass pass, Candidate candidate, std::vector<std::string> notes, PlannedKernels planned, int ordinal)
      : pass_(pass),
        candidate_(std::move(candidate)),
        notes_(std::move(notes)),
        planned_(std::move(planned)),
        ordinal_(ordinal) {}

  Result<void> load(int target_sms) {
    std::vector<KernelRequest> requests;
    for (const KernelLaunch& launch : planned_.kernels) {
      if (launch.shape.grid.x > kMostGrid) {
        return Error{ErrorCode::unsupported, fmt::format("the problem needs more than {} blocks", kMostGrid)};
      }
      requests.push_back(launch.request);
    }
    CONVOY_TRY(const std::vector<KernelImage> images, compile_all(requests));
    for (std::size_t i = 0; i < images.size(); ++i) {
      KernelLaunch& launch = planned_.kernels[i];
      CONVOY_TRY(Module module, Module::load(ordinal_, images[i], print(candidate_)));
      modules_.push_back(std::move(module));
      CONVOY_TRY(Kernel kernel, modules_.back().kernel(launch.entry, launch.shape.dynamic_shared_bytes));
      if (target_sms > 0) CONVOY_CHECK(keep_within(ordinal_, target_sms, kernel, launch.shape));
      kernels_.push_back(std::move(kernel));
      retained_ += images[i].size();
    }
    return {};
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(planned_.workspace_bytes); }
  std::size_t retained_bytes() const override { return retained_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    for (const KernelLaunch& launch : planned_.kernels) stages.push_back(launch.stage);
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    if (kernels_.empty()) return {};
    CONVOY_CHECK(make_current(ordinal_));
    const auto stream = static_cast<CUstream>(context.stream());
    const void* in = pass_ == Pass::dgrad ? args.y : args.x;
    const void* other = pass_ == Pass::wgrad ? args.y : args.w;
    void* out = args.out;
    void* partial = context.workspace;
    EpilogueArgs epilogue{args.bias, args.z, args.slopes};
    if (!planned_.boxes.empty()) {
      std::vector<CUtensorMap> maps;
      for (const KernelBox& box : planned_.boxes) {
        const std::array<const void*, 5> tensors = {in, other, out, args.z, args.gate};
        CONVOY_TRY(const CUtensorMap map, map_of(box, tensors[static_cast<std::size_t>(box.tensor)]));
        maps.push_back(map);
      }
      std::vector<void*> arguments;
      for (CUtensorMap& map : maps) arguments.push_back(&map);
      const bool has_out =
          std::ranges::any_of(planned_.boxes, [](const KernelBox& box) { return box.tensor == KernelTensor::out; });
      if (!has_out) arguments.push_back(&out);
      arguments.push_back(&epilogue);
      arguments.push_back(const_cast<std::byte*>(planned_.sizes.data()));
      return launch(kernels_[0], planned_.kernels[0].shape, arguments, stream);
    }
    if (kernels_.size() == 1) {
      // The driver copies the sizes, of which a kernel without them reads none.
      void* arguments[] = {&in, &other, &out, &epilogue, const_cast<std::byte*>(planned_.sizes.data())};
      return launch(kernels_[0], planned_.kernels[0].shape, arguments, stream);
    }
    void* shares[] = {&in, &other, &partial};
    CONVOY_CHECK(launch(kernels_[0], planned_.kernels[0].shape, shares, stream));
    void* sums[] = {&partial, &out, &epilogue};
    return launch(kernels_[1], planned_.kernels[1].shape, sums, stream);
  }

 private:
  Pass pass_;
  Candidate candidate_;
  std::vector<std::string> notes_;
  PlannedKernels planned_;
  int ordinal_;
  std::vector<Module> modules_;
  std::vector<Kernel> kernels_;
  std::size_t retained_ = 0;
};

}  // namespace

Result<std::unique_ptr<ConvPlan>> kernel_plan(const ConvProblem& problem, Candidate candidate,
                                              std::vector<std::string> notes, PlannedKernels planned,
                                              const PlanRequest& request) {
  const std::string engine = candidate.engine;
  if (!planned.kernels.empty()) planned.kernels.back().stage += epilogue_text(problem);
  auto made = std::make_unique<KernelPlan>(problem.pass, std::move(candidate), std::move(notes), std::move(planned),
                                           request.cuda->ordinal);
  if (auto loaded = made->load(request.target_sms); !loaded.ok()) return loaded.error().within(engine);
  return std::unique_ptr<ConvPlan>(std::move(made));
}

}  // namespace convoy::cuda
