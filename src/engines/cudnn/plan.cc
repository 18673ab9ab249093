#include "engines/cudnn/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "core/stages.h"
#include "core/workspace.h"
#include "engines/cudnn/capture.h"
#include "engines/cudnn/handle.h"
#include "engines/cudnn/limits.h"

namespace convoy::cudnn {
namespace {

// Execution plans of one candidate for one problem. cuDNN's plans may not be run by two threads at once, ours may: each
// execution borrows one, and another is finalised when all are borrowed.
class PlanPool {
 public:
  PlanPool(std::shared_ptr<Survey> survey, std::int64_t engine, KnobValues knobs, Descriptor first)
      : survey_(std::move(survey)), engine_(engine), knobs_(std::move(knobs)) {
    workspace_ = first.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64).value_or(0);
    json_ = first.text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    idle_.push_back(std::move(first));
  }

  const Survey& survey() const { return *survey_; }
  std::int64_t workspace() const { return workspace_; }
  const std::string& json() const { return json_; }

  Result<Descriptor> borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Descriptor plan = std::move(idle_.back());
        idle_.pop_back();
        return plan;
      }
    }
    return survey_->plan(engine_, knobs_);
  }
  void give_back(Descriptor plan) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(plan));
  }

 private:
  std::shared_ptr<Survey> survey_;
  std::int64_t engine_;
  KnobValues knobs_;
  std::int64_t workspace_ = 0;
  std::string json_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;
};

const void* advanced(const void* pointer, std::int64_t elements, DataType type) {
  if (pointer == nullptr) return nullptr;
  return static_cast<const std::byte*>(pointer) + elements * static_cast<std::int64_t>(size_of(type));
}

// Pointers of one piece.
ConvArgs args_of(const ConvArgs& args, const ConvProblem& problem, const SubProblem& piece) {
  ConvArgs part = args;
  part.x = advanced(args.x, piece.x, problem.x.type);
  part.w = advanced(args.w, piece.w, problem.w.type);
  part.y = advanced(args.y, piece.y, problem.y.type);
  const std::int64_t out = problem.pass == Pass::fprop ? piece.y : problem.pass == Pass::dgrad ? piece.x : piece.w;
  part.out = const_cast<void*>(advanced(args.out, out, problem.out().type));
  part.z = advanced(args.z, out, problem.out().type);
  part.bias = advanced(args.bias, piece.channel, problem.bias_type());
  if (problem.epilogue.requantize == Requantize::per_channel) part.scales = args.scales + piece.channel;
  return part;
}

const void* pointer_of(Uid uid, const ConvArgs& args, Pass pass) {
  switch (uid) {
    case kX:
      return pass == Pass::dgrad ? args.out : args.x;
    case kW:
      return pass == Pass::wgrad ? args.out : args.w;
    case kY:
      return pass == Pass::fprop ? args.out : args.y;
    case kBias:
      return args.bias;
    case kZ:
      return args.z;
    case kPrior:
      return args.out;
    case kScale:
      return args.scales;
    default:
      return nullptr;
  }
}

Result<void> check_pointers(const ConvProblem& p, const ConvArgs& args) {
  struct Given {
    const char* name;
    const void* pointer;
    const TensorDesc& desc;
  };
  const Pass pass = p.pass;
  const std::array<Given, 3> given = {{{"x", pointer_of(kX, args, pass), p.x},
                                       {"w", pointer_of(kW, args, pass), p.w},
                                       {"y", pointer_of(kY, args, pass), p.y}}};
  for (const auto& [name, pointer, desc] : given) {
    if (pointer == nullptr) return Error{ErrorCode::invalid_argument, fmt::format("{}: a null pointer", name)};
    if (reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(desc.alignment) != 0) {
      return Error{ErrorCode::invalid_argument, fmt::format("{}={}: the problem says that it is aligned to {} bytes",
                                                            name, pointer, desc.alignment)};
    }
  }
  return {};
}

class BackendPlan final : public ConvPlan, public HasStages, public HasPlanJson {
 public:
  struct Part {
    SubProblem piece;
    std::shared_ptr<PlanPool> pool;
  };

  BackendPlan(const Api& api, ConvProblem problem, Candidate candidate, std::vector<std::string> notes,
              CudaDevice device, std::vector<Part> parts)
      : api_(api),
        problem_(std::move(problem)),
        candidate_(std::move(candidate)),
        notes_(std::move(notes)),
        device_(std::move(device)),
        parts_(std::move(parts)) {
    for (const Part& part : parts_) workspace_ = std::max(workspace_, part.pool->workspace());
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return static_cast<std::size_t>(workspace_); }
  std::vector<std::string> notes() const override { return notes_; }
  std::string plan_json() const override { return parts_.front().pool->json(); }

  std::string description() const override {
    std::string text = parts_.front().pool->survey().graph()->formula();
    const std::string advice = problem_.spatial_dims() == 3 ? unmet_advice(problem_, device_) : "";
    if (!advice.empty()) text += fmt::format("; cuDNN's advice for 3D that the problem does not follow: {}", advice);
    if (parts_.size() > 1) {
      text += fmt::format(", in {} pieces, since cuDNN is given at most {} elements a tensor:", parts_.size(),
                          kMostElements);
      for (const Part& part : parts_) text += " " + part.piece.where;
    }
    return text;
  }

  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    const std::string formula = parts_.front().pool->survey().graph()->formula();
    const auto launches = captured_launches(*this, problem_, device_.ordinal);
    if (!launches) {  // no device to capture on: what cuDNN was asked to compute at once
      for (const Part& part : parts_) stages.push_back(parts_.size() > 1 ? part.piece.where + ": " + formula : formula);
      return stages;
    }
    // Equal pieces launch alike: then each launch is told with its piece.
    const bool even = parts_.size() > 1 && launches->size() % parts_.size() == 0;
    const std::size_t per_piece = launches->size() / parts_.size();
    for (std::size_t i = 0; i < launches->size(); ++i) {
      stages.push_back((even ? parts_[i / per_piece].piece.where + ": " : "") + (*launches)[i].name);
    }
    if (stages.size() == 1) stages.front() += ": " + formula;
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(check_pointers(problem_, args));
    CONVOY_CHECK(check_workspace(*this, context));
    CONVOY_TRY(const Handle handle, borrow_handle(api_, device_.ordinal));
    const cudnnStatus_t status = api_.SetStream(handle.get(), static_cast<cudaStream_t>(context.stream()));
    if (status != CUDNN_STATUS_SUCCESS) return error_of(failure_of(api_, status), "cudnnSetStream");
    for (const Part& part : parts_) {
      CONVOY_CHECK(run(part, args_of(args, problem_, part.piece), context.workspace, handle.get()));
    }
    return {};
  }

 private:
  Result<void> run(const Part& part, const ConvArgs& args, void* workspace, cudnnHandle_t handle) const {
    std::vector<std::int64_t> uids;
    std::vector<const void*> pointers;
    for (const Uid uid : part.pool->survey().graph()->operands()) {
      uids.push_back(uid);
      pointers.push_back(pointer_of(uid, args, problem_.pass));
    }
    Descriptor pack(api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
        .finalize();
    if (!pack.ok()) return error_of(pack.failure(), print(candidate_) + ": variant pack");
    CONVOY_TRY(Descriptor plan, part.pool->borrow());
    const cudnnStatus_t status = api_.BackendExecute(handle, plan.raw(), pack.raw());
    part.pool->give_back(std::move(plan));
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return error_of(failure_of(api_, status),
                    fmt::format("{} on {}: cudnnBackendExecute", print(candidate_), convoy::print(part.piece.problem)));
  }

  const Api& api_;
  const ConvProblem problem_;
  const Candidate candidate_;
  const std::vector<std::string> notes_;
  const CudaDevice device_;
  std::vector<Part> parts_;
  std::int64_t workspace_ = 0;
};

// A kernel of no more blocks than the target occupies no more SMs.
Result<void> stays_within(const ConvPlan& plan, const ConvProblem& problem, const CudaDevice& device, int target_sms) {
  const auto launches = captured_launches(plan, problem, device.ordinal);
  if (!launches) return launches.error().within("target_sms");
  for (const Launch& launch : *launches) {
    if (launch.blocks > target_sms) {
      return Error{ErrorCode::unsupported,
                   fmt::format("target_sms={}: it starts {} blocks ({}), which spread over more", target_sms,
                               launch.blocks, launch.name)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<SurveyedSubProblem>> surveyed_sub_problems(const ConvProblem& problem, const CudaDevice& device,
                                                              int target_sms) {
  CONVOY_TRY(std::vector<SubProblem> pieces, split(problem, kMostElements));
  std::vector<SurveyedSubProblem> surveyed;
  for (SubProblem& piece : pieces) {
    CONVOY_TRY(auto asked, survey(piece.problem, device, target_sms));
    surveyed.push_back({std::move(piece), std::move(asked)});
  }
  return surveyed;
}

Result<std::shared_ptr<Survey>> first_survey(const ConvProblem& problem, const CudaDevice& device, int target_sms) {
  const auto is_small = [](const TensorDesc& desc) { return desc.storage_elements() <= kMostElements; };
  if (is_small(problem.x) && is_small(problem.w) && is_small(problem.y)) return survey(problem, device, target_sms);
  CONVOY_TRY(const auto pieces, surveyed_sub_problems(problem, device, target_sms));
  return pieces.front().survey;
}

Result<std::unique_ptr<ConvPlan>> make_backend_plan(const ConvProblem& problem, std::string engine, std::int64_t index,
                                                    const KnobValues& knobs, const PlanRequest& request) {
  CONVOY_TRY(const Api* api, cuda::cudnn());
  CONVOY_TRY(std::vector<SurveyedSubProblem> pieces, surveyed_sub_problems(problem, *request.cuda, request.target_sms));
  Survey& first = *pieces.front().survey;
  Candidate candidate{std::move(engine), first.default_knobs(index)};
  for (KnobValue& knob : candidate.knobs) knob.value = knob_or(knobs, knob.name, *knob.value.number());
  std::vector<BackendPlan::Part> parts;
  for (SurveyedSubProblem& each : pieces) {
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const BackendPlan::Part& part) {
      return &part.pool->survey() == each.survey.get();
    });
    if (same != parts.end()) {
      parts.push_back({std::move(each.piece), same->pool});
      continue;
    }
    auto plan = each.survey->plan(index, candidate.knobs);
    if (!plan) return plan.error();  // make_plan() says whose
    auto pool = std::make_shared<PlanPool>(each.survey, index, candidate.knobs, std::move(*plan));
    parts.push_back({std::move(each.piece), std::move(pool)});
  }
  if (parts.front().pool->survey().sees_device()) CONVOY_CHECK(borrow_handle(*api, request.cuda->ordinal));
  auto plan = std::make_unique<BackendPlan>(*api, problem, std::move(candidate), first.notes(index), *request.cuda,
                                            std::move(parts));
  if (request.target_sms > 0) CONVOY_CHECK(stays_within(*plan, problem, *request.cuda, request.target_sms));
  return std::unique_ptr<ConvPlan>(std::move(plan));
}

}  // namespace convoy::cudnn
