#include "engines/cpu/common/packed_plan.h"

#include <cstring>
#include <utility>

#include "core/epilogue.h"
#include "core/shared_bytes.h"
#include "core/workspace.h"

namespace convoy::cpu {
namespace {

std::size_t round_up_64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

PackedPlan::PackedPlan(ConvProblem problem, Candidate candidate, int threads, std::size_t packed_bytes,
                       std::size_t scratch_bytes, bool mixes_groups)
    : problem_(std::move(problem)),
      candidate_(std::move(candidate)),
      threads_(threads),
      packed_bytes_(round_up_64(packed_bytes)),
      scratch_bytes_(round_up_64(scratch_bytes)),
      guard_(problem_, {.beside_data = mixes_groups}) {}

Result<void> PackedPlan::keep(const void* weights) {
  if (weights == nullptr) return {};
  guard_.keep(weights);
  if (packed_bytes_ == 0) return {};  // every window lies in padding
  std::shared_ptr<std::byte> packed = allocate_aligned(packed_bytes_);
  if (!packed) {
    return Error{ErrorCode::out_of_memory,
                 "packed weights of " + print(candidate_) + " need " + std::to_string(packed_bytes_) + " bytes"};
  }
  std::memset(packed.get(), 0, packed_bytes_);  // gaps between panels are the same each time, so that they are shared
  pack(weights, packed.get(), nullptr);
  kept_ = shared_bytes(std::move(packed), packed_bytes_);
  return {};
}

std::size_t PackedPlan::workspace_bytes() const { return (kept_ ? 0 : packed_bytes_) + scratch_bytes_; }

std::vector<std::string> PackedPlan::notes() const {
  if (guard_.has_special_weights()) {
    return {"weights packed once, at plan time", "weights are not finite: outputs beside padding one by one"};
  }
  if (kept_) return {"weights packed once, at plan time"};
  return {"weights packed at each execution"};
}

std::vector<std::string> PackedPlan::stages() const {
  std::vector<std::string> stages = run_stages();
  stages.back() += epilogue_text(problem_);
  if (!kept_ && packed_bytes_ > 0) stages.insert(stages.begin(), "pack weights");
  return stages;
}

Result<void> PackedPlan::execute(const ConvArgs& args, const ExecContext& context) const {
  CONVOY_CHECK(check_workspace(*this, context));
  if (context.team().size() > threads_) {
    return Error{ErrorCode::invalid_argument, "team.size()=" + std::to_string(context.team().size()) +
                                                  ": the plan was made for " + std::to_string(threads_) + " threads"};
  }
  auto* workspace = static_cast<std::byte*>(context.workspace);
  return guard_.run(args, context.team(), [&]() -> Result<void> {
    if (kept_) return run(args, kept_.get(), workspace, context.team());
    if (packed_bytes_ > 0) pack(args.w, workspace, &context.team());
    return run(args, workspace, workspace + packed_bytes_, context.team());
  });
}

}  // namespace convoy::cpu
