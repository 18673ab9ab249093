#include "network/run/steps.h"

#include "convert/convert.h"

namespace convoy::network {
namespace {

class ConvStep final : public Step {
 public:
  ConvStep(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem, DataType bias_type)
      : plan_(std::move(plan)), pass_(problem.pass), x_type_(problem.x.type) {
    plan_workspace_ = (plan_->workspace_bytes() + 63) / 64 * 64;
    if (problem.epilogue.bias && bias_type != problem.bias_type()) {
      const Dims channels = {problem.out().dims[1]};
      bias_from_ = TensorDesc::packed(bias_type, channels);
      bias_to_ = TensorDesc::packed(problem.bias_type(), channels);
      bias_workspace_ = static_cast<std::size_t>(bias_to_.bytes());
    }
  }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    ConvArgs args;
    (pass_ == Pass::fprop ? args.x : args.y) = inputs[0];
    args.w = inputs[1];
    args.bias = inputs[2];
    args.z = inputs[3];
    args.slopes = static_cast<const float*>(inputs[4]);
    args.scales = static_cast<const float*>(inputs[5]);
    args.w_zero_points = static_cast<const std::int32_t*>(inputs[7]);
    args.gate = inputs[8];
    std::int32_t x_zero = 0;
    if (context.queue.kind() != DeviceKind::cpu) {
      args.x_zero_point = static_cast<const std::int32_t*>(inputs[6]);
    } else if (inputs[6] != nullptr) {
      x_zero = static_cast<std::int32_t>(load_as_double(x_type_, inputs[6], 0));
      args.x_zero_point = &x_zero;
    }
    args.out = outputs[0];
    if (bias_workspace_ > 0) {
      std::byte* converted_bias = static_cast<std::byte*>(context.workspace) + plan_workspace_;
      copy_tensor(bias_from_, args.bias, bias_to_, converted_bias);
      args.bias = converted_bias;
    }
    return plan_->execute(args, context);
  }

  std::size_t workspace_bytes() const override { return plan_workspace_ + bias_workspace_; }
  std::size_t retained_bytes() const override { return plan_->retained_bytes(); }

 private:
  std::unique_ptr<ConvPlan> plan_;
  Pass pass_;
  DataType x_type_;
  TensorDesc bias_from_, bias_to_;
  std::size_t plan_workspace_ = 0;
  std::size_t bias_workspace_ = 0;
};

class OpStep final : public Step {
 public:
  explicit OpStep(std::unique_ptr<ops::OpPlan> plan) : plan_(std::move(plan)) {}
  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    return plan_->execute(inputs, outputs, context);
  }
  std::size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  std::size_t retained_bytes() const override { return plan_->retained_bytes(); }

 private:
  std::unique_ptr<ops::OpPlan> plan_;
};

class ConvertStep final : public Step {
 public:
  ConvertStep(TensorDesc from, TensorDesc to) : from_(std::move(from)), to_(std::move(to)) {}
  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    convert_layout(from_, inputs[0], to_, outputs[0], context.team());
    return {};
  }
  std::size_t workspace_bytes() const override { return 0; }

 private:
  TensorDesc from_, to_;
};

class CopyStep final : public Step {
 public:
  CopyStep(std::size_t bytes, Direction direction, bool waits)
      : bytes_(bytes), direction_(direction), waits_(waits || direction == Direction::out) {}
  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    Queue& queue = context.queue;
    CONVOY_CHECK(direction_ == Direction::in ? queue.copy_in(outputs[0], inputs[0], bytes_)
                                             : queue.copy_out(outputs[0], inputs[0], bytes_));
    return waits_ ? queue.finish() : Result<void>();
  }
  std::size_t workspace_bytes() const override { return 0; }

 private:
  std::size_t bytes_;
  Direction direction_;
  bool waits_;
};

}  // namespace

std::unique_ptr<Step> make_conv_step(std::unique_ptr<ConvPlan> plan, const ConvProblem& problem, DataType bias_type) {
  return std::make_unique<ConvStep>(std::move(plan), problem, bias_type);
}
std::unique_ptr<Step> make_op_step(std::unique_ptr<ops::OpPlan> plan) {
  return std::make_unique<OpStep>(std::move(plan));
}
std::unique_ptr<Step> make_copy_step(std::size_t bytes, Direction direction, bool waits) {
  return std::make_unique<CopyStep>(bytes, direction, waits);
}
std::unique_ptr<Step> make_convert_step(TensorDesc from, TensorDesc to) {
  return std::make_unique<ConvertStep>(std::move(from), std::move(to));
}

}  // namespace convoy::network
