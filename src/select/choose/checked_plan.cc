#include "select/choose/checked_plan.h"

#include <fmt/format.h>

#include <utility>

#include "base/errors.h"
#include "core/empty.h"
#include "core/stages.h"
#include "device/device.h"

namespace convoy::selection {
namespace {

bool aligned(const void* pointer, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(alignment) == 0;
}

const char* name_of_out(Pass pass) { return pass == Pass::fprop ? "y" : pass == Pass::dgrad ? "x" : "w"; }

class CheckedPlan final : public ConvPlan, public HasStages {
 public:
  CheckedPlan(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem, const PlanRequest& request)
      : plan_(std::move(plan)),
        pass_(problem.pass),
        epilogue_(problem.epilogue),
        x_zero_given_(problem.x_zero_given),
        w_zero_given_(problem.w_zero_given),
        threads_(request.threads),
        device_(device_of(request)),
        workspace_bytes_(plan_->workspace_bytes()),
        x_{"x", "x", problem.x.alignment, !is_empty(problem) && pass_ != Pass::dgrad},
        w_{"w", "w", problem.w.alignment,
           !is_empty(problem) && pass_ != Pass::wgrad && request.constant_weights == nullptr},
        y_{"y", "y", problem.y.alignment, !is_empty(problem) && pass_ != Pass::fprop},
        out_{"out", name_of_out(problem.pass), problem.out().alignment, problem.out().elements() > 0},
        z_{"z", name_of_out(problem.pass), problem.out().alignment,
           problem.out().elements() > 0 && problem.epilogue.takes_z()},
        gate_{"gate", "x", problem.x.alignment, !is_empty(problem) && problem.gate} {}

  Candidate candidate() const override { return plan_->candidate(); }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t retained_bytes() const override { return plan_->retained_bytes(); }
  std::vector<std::string> notes() const override { return plan_->notes(); }
  std::string description() const override { return plan_->description(); }
  std::vector<std::string> stages() const override { return stages_of(*plan_); }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(check(x_, args.x));
    CONVOY_CHECK(check(w_, args.w));
    CONVOY_CHECK(check(y_, args.y));
    CONVOY_CHECK(check(out_, args.out));
    CONVOY_CHECK(check(z_, args.z));
    CONVOY_CHECK(check(gate_, args.gate));
    if (out_.needed) {
      if (epilogue_.bias) CONVOY_CHECK(check("bias", args.bias, "has bias=1"));
      if (epilogue_.activation.kind == ActivationKind::prelu) {
        CONVOY_CHECK(check("slopes", args.slopes, "has act=prelu"));
      }
      if (epilogue_.requantize != Requantize::none) CONVOY_CHECK(check("scales", args.scales, "is requantized"));
      if (x_zero_given_) CONVOY_CHECK(check("x_zero_point", args.x_zero_point, "has it given"));
      if (w_zero_given_) CONVOY_CHECK(check("w_zero_points", args.w_zero_points, "has them given"));
    }
    if (context.workspace_bytes < workspace_bytes_) {
      return invalid(fmt::format("workspace_bytes={}: {} needs {}", context.workspace_bytes, print(plan_->candidate()),
                                 workspace_bytes_));
    }
    if (workspace_bytes_ > 0 && context.workspace == nullptr) return invalid("workspace is null");
    if (workspace_bytes_ > 0) {
      if (!aligned(context.workspace, static_cast<std::int64_t>(device_.alignment()))) {
        return invalid(fmt::format("workspace is not aligned to {} bytes", device_.alignment()));
      }
      CONVOY_CHECK(device_.check_pointer(context.workspace, "workspace"));
    }
    if (context.queue.kind() != device_.kind()) {
      return invalid(fmt::format("queue is of the kind {}, the plan was made for {}", name_of(context.queue.kind()),
                                 device_.name()));
    }
    if (device_.kind() == DeviceKind::cpu && context.team().size() > threads_) {
      return invalid(fmt::format("team.size()={}: the plan was made for {} threads", context.team().size(), threads_));
    }
    return out_.needed ? plan_->execute(args, context) : Result<void>{};
  }

 private:
  struct Operand {
    const char* name;
    const char* described;  // the tensor of the problem that describes it
    std::int64_t alignment;
    bool needed;  // it has elements that are read or written
  };

  Result<void> check(const Operand& operand, const void* pointer) const {
    if (!operand.needed) return {};
    if (pointer == nullptr) return invalid(fmt::format("{} is null, and {} needs it", operand.name, name_of(pass_)));
    if (!aligned(pointer, operand.alignment)) {
      const auto address = reinterpret_cast<std::uintptr_t>(pointer);
      const std::uintptr_t actual = address & -address;  // its lowest bit
      return invalid(
          fmt::format("{0}: pointer {1} is aligned to {2} bytes, the problem says {3}: set {4}.alignment = "
                      "{2}, or align={2} in the problem string",
                      operand.name, pointer, actual, operand.alignment, operand.described));
    }
    return device_.check_pointer(pointer, operand.name);
  }

  // What is read a channel at a time; `why` is what of the problem needs it.
  Result<void> check(const char* name, const void* pointer, const char* why) const {
    if (pointer == nullptr) return invalid(fmt::format("{} is null, and the problem {}", name, why));
    return device_.check_pointer(pointer, name);
  }

  std::unique_ptr<ConvPlan> plan_;
  Pass pass_;
  Epilogue epilogue_;
  bool x_zero_given_, w_zero_given_;
  int threads_;
  const Device& device_;  // that pointers must be of
  std::size_t workspace_bytes_;
  Operand x_, w_, y_, out_, z_, gate_;
};

}  // namespace

std::unique_ptr<ConvPlan> checked(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem,
                                  const PlanRequest& request) {
  return std::make_unique<CheckedPlan>(std::move(plan), problem, request);
}

}  // namespace convoy::selection
