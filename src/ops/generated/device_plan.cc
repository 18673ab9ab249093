#include "ops/generated/device_plan.h"

#include "device/cuda/device.h"
#include "device/cuda/module.h"
#include "device/cuda/program.h"

namespace convoy::ops {
namespace {

class GeneratedPlan final : public OpPlan {
 public:
  GeneratedPlan(const generate::Kernel& kernel, Candidate candidate, int ordinal)
      : candidate_(std::move(candidate)),
        ordinal_(ordinal),
        inputs_(kernel.inputs),
        outputs_(kernel.outputs),
        count_(kernel.count) {
    shape_.grid.x = kernel.grid;
    shape_.block.x = kernel.block;
  }

  Result<void> load(const cuda::KernelImage& image, const std::string& name) {
    CONVOY_TRY(cuda::Module module, cuda::Module::load(ordinal_, image, name));
    module_.emplace(std::move(module));
    CONVOY_TRY(function_, module_->kernel(name));
    code_bytes_ = image.size();
    return {};
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return code_bytes_; }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    if (!module_) return {};
    std::vector<const void*> pointers;
    for (const int i : inputs_) pointers.push_back(inputs[static_cast<std::size_t>(i)]);
    for (const int i : outputs_) pointers.push_back(outputs[static_cast<std::size_t>(i)]);
    std::vector<void*> arguments;
    for (const void*& pointer : pointers) arguments.push_back(&pointer);
    std::uint64_t count = count_;
    arguments.push_back(&count);
    CONVOY_CHECK(cuda::make_current(ordinal_));
    return cuda::launch(function_, shape_, arguments, static_cast<CUstream>(context.stream()));
  }

 private:
  Candidate candidate_;
  int ordinal_;
  std::vector<int> inputs_, outputs_;
  std::uint64_t count_;
  cuda::Launch shape_;
  std::optional<cuda::Module> module_;  // none: there is nothing to do
  cuda::Kernel function_;
  std::size_t code_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<OpPlan>> device_plan(const generate::Kernel& kernel, const PlanRequest& request) {
  if (request.target_sms > 0) {
    return Error{ErrorCode::unsupported, "target_sms: generated kernels take all multiprocessors"};
  }
  CONVOY_TRY(Candidate candidate, parse_candidate("gen." + (kernel.grid == 0 ? "nothing" : kernel.schedule)));
  auto plan = std::make_unique<GeneratedPlan>(kernel, std::move(candidate), request.cuda->ordinal);
  if (kernel.grid > 0) {
    cuda::ProgramSource source{kernel.name + ".cu", kernel.text, {}, request.cuda->architecture};
    for (const generate::KernelFile& file : generate::kernel_files()) source.files.push_back({file.name, file.text});
    CONVOY_TRY(const cuda::KernelImage image, cuda::program_image(source));
    CONVOY_CHECK(plan->load(image, kernel.name));
  }
  return std::unique_ptr<OpPlan>(std::move(plan));
}

}  // namespace convoy::ops
