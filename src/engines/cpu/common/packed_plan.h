// The base of plans that repack their weights: once at plan time when they are constant, otherwise into the workspace
// at each execution (and the plan's notes say so).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/engine.h"
#include "convoy/host_tensor.h"
#include "core/stages.h"
#include "engines/cpu/common/padding_guard.h"

namespace convoy::cpu {

class PackedPlan : public ConvPlan, public HasStages {
 public:
  // Workspace of an execution: the packed weights (where they are not constant), then `scratch_bytes`, both aligned
  // to 64. Whoever multiplies padding, or groups by zeros of each other (mixes_groups), leaves it to the PaddingGuard.
  PackedPlan(ConvProblem problem, Candidate candidate, int threads, std::size_t packed_bytes, std::size_t scratch_bytes,
             bool mixes_groups = false);

  // Packs constant weights; does nothing when `weights` is null. Plans that pack them alike share them. Call once,
  // before the plan is shared.
  Result<void> keep(const void* weights);

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override;
  std::size_t retained_bytes() const override { return (kept_ ? packed_bytes_ : 0) + guard_.retained_bytes(); }
  std::vector<std::string> notes() const override;
  std::vector<std::string> stages() const final;
  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override;

 protected:
  const ConvProblem& problem() const { return problem_; }
  int threads() const { return threads_; }

 private:
  // The stages after the packing; the epilogue is added to the last of them.
  virtual std::vector<std::string> run_stages() const { return {"products"}; }
  // Writes all packed_bytes of `packed`. `team` is null at plan time.
  virtual void pack(const void* weights, void* packed, ThreadTeam* team) const = 0;
  virtual Result<void> run(const ConvArgs& args, const void* packed, void* scratch, ThreadTeam& team) const = 0;

  ConvProblem problem_;
  Candidate candidate_;
  int threads_;
  std::size_t packed_bytes_;
  std::size_t scratch_bytes_;
  PaddingGuard guard_;
  std::shared_ptr<const std::byte> kept_;
};

// A plan of that kind, made from `args`, that keeps constant weights.
template <class Plan, class... Args>
Result<std::unique_ptr<ConvPlan>> kept_plan(const void* constant_weights, Args&&... args) {
  auto plan = std::make_unique<Plan>(std::forward<Args>(args)...);
  CONVOY_CHECK(plan->keep(constant_weights));
  return std::unique_ptr<ConvPlan>(std::move(plan));
}

}  // namespace convoy::cpu
