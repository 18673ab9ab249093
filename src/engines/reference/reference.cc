#include "engines/reference/reference.h"

#include <algorithm>
#include <cstring>

#include "convoy/host_tensor.h"
#include "core/empty.h"
#include "core/epilogue.h"
#include "core/shared_bytes.h"
#include "core/stages.h"
#include "engines/reference/evaluator.h"

namespace convoy {
namespace {

using reference::Coords;
using reference::Evaluator;

// Zeros the channels from C up of a blocked output.
void zero_channel_padding(const TensorDesc& desc, const reference::Placement& out, void* data) {
  const std::int64_t padding = desc.padded_channels() - desc.dims[1];
  if (desc.channel_block == 1 || padding == 0) return;
  const std::size_t size = size_of(desc.type);
  reference::Placement positions = out;
  positions.dims[1] = 1;
  for (std::int64_t i = 0; i < positions.elements(); ++i) {
    Coords at = positions.coords(i);
    at[1] = desc.dims[1];
    std::memset(static_cast<char*>(data) + out.offset(at) * size, 0, padding * size);
  }
}

class ReferencePlan final : public ConvPlan, public HasStages {
 public:
  ReferencePlan(std::string engine, ConvProblem problem, std::shared_ptr<const std::byte> weights)
      : engine_(std::move(engine)), problem_(std::move(problem)), weights_(std::move(weights)) {}

  Candidate candidate() const override { return {engine_, {}}; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t retained_bytes() const override { return weights_ ? problem_.w.bytes() : 0; }

  std::vector<std::string> stages() const override { return {"products" + epilogue_text(problem_)}; }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    ConvArgs with_weights = args;
    if (weights_) with_weights.w = weights_.get();
    const Evaluator evaluator(problem_, with_weights);
    const reference::Placement& out = evaluator.geometry().out();
    parallel_ranges(context.team(), out.elements(), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) evaluator.store(out.coords(i), args.out);
    });
    zero_channel_padding(problem_.out(), out, args.out);
    return {};
  }

 private:
  std::string engine_;
  ConvProblem problem_;
  std::shared_ptr<const std::byte> weights_;
};

class ReferenceEngine final : public Engine {
 public:
  ReferenceEngine() {
    info_.name = "reference";
    info_.summary = "the oracle: plain loops, double accumulation, every problem";
    declare_everything(info_);
    info_.oracle = true;
  }
  const EngineInfo& info() const override { return info_; }

  // About 3 ns a product on one core of a 2020s server.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    return 1e-6 + flops(problem) / 2 * 3e-9 / std::max(request.threads, 1);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest& request) const override {
    std::shared_ptr<const std::byte> weights;
    if (request.constant_weights != nullptr && problem.pass != Pass::wgrad) {
      const std::size_t bytes = problem.w.bytes();
      std::shared_ptr<std::byte> copy = allocate_aligned(bytes);
      if (!copy) {
        return Error{ErrorCode::out_of_memory, "w: can't allocate " + std::to_string(bytes) + " bytes for its copy"};
      }
      std::memcpy(copy.get(), request.constant_weights, bytes);
      weights = shared_bytes(std::move(copy), bytes);
    }
    return std::unique_ptr<ConvPlan>(std::make_unique<ReferencePlan>(info_.name, problem, std::move(weights)));
  }

 private:
  EngineInfo info_;
};

// A batch of 0, no channels, an empty map: what the oracle does in no time.
class EmptyEngine final : public Engine, public TakesEmpty {
 public:
  EmptyEngine() {
    info_.name = "cpu.empty";
    info_.summary = "problems without an element to multiply (a batch of 0): nothing, or the epilogue alone";
    declare_everything(info_);
  }
  const EngineInfo& info() const override { return info_; }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest&) const override {
    if (is_empty(problem)) return std::nullopt;
    return Refusal{RefusalCode::size, "x.dims=" + to_string(problem.x.dims) + ", w.dims=" + to_string(problem.w.dims) +
                                          ": this engine takes problems without elements to multiply"};
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    return 1e-6 + static_cast<double>(problem.out().elements()) * 20e-9 / std::max(request.threads, 1);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues&,
                                         const PlanRequest&) const override {
    return std::unique_ptr<ConvPlan>(std::make_unique<ReferencePlan>(info_.name, problem, nullptr));
  }

 private:
  EngineInfo info_;
};

}  // namespace

const Engine& empty_engine() {
  static const EmptyEngine& engine = *new EmptyEngine;  // never destroyed, as below
  return engine;
}

const Engine& reference_engine() {
  static const ReferenceEngine& engine = *new ReferenceEngine;  // never destroyed: it may run while the process ends
  return engine;
}

}  // namespace convoy
