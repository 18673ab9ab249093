#include "engines/cudnn/channels_last.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/declared_names.h"
#include "core/provider.h"
#include "core/refines.h"
#include "core/stages.h"
#include "core/workspace.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/layout/layout.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/plan.h"
#include "engines/cudnn/predict.h"
#include "engines/cudnn/provider.h"

namespace convoy::cudnn {
namespace {

constexpr const char* kName = "cudnn.nhwc";
constexpr const char* kKnob = "engine";
constexpr std::size_t kAlignment = 256;

bool is_channels_last(const TensorDesc& desc) { return desc.is_packed(Layout::nhwc); }

TensorDesc channels_last(const TensorDesc& desc) {
  return is_channels_last(desc) ? desc : desc.with_layout(Layout::nhwc);
}

ConvProblem channels_last(const ConvProblem& problem) {
  ConvProblem inner = problem;
  for (TensorDesc* desc : {&inner.x, &inner.w, &inner.y}) *desc = channels_last(*desc);
  return inner;
}

// A copy of an operand: of what the pass reads to channels last, or of what it computed back.
struct Copy {
  enum class Of { x, w, y, prior, z, result } operand;
  TensorDesc from, to;
};

const char* operand_name(Copy::Of operand) {
  static constexpr const char* kNames[] = {"x", "w", "y", "what out holds", "z", "out"};
  return kNames[static_cast<std::size_t>(operand)];
}

// In the order of execution; the engine runs before the last one, where that is of the result.
std::vector<Copy> copies_of(const ConvProblem& problem) {
  std::vector<Copy> copies;
  const auto copy_in = [&](Copy::Of operand, const TensorDesc& desc) {
    if (!is_channels_last(desc)) copies.push_back({operand, desc, channels_last(desc)});
  };
  const TensorDesc& out = problem.out();
  if (&out != &problem.x) copy_in(Copy::Of::x, problem.x);
  if (&out != &problem.w) copy_in(Copy::Of::w, problem.w);
  if (&out != &problem.y) copy_in(Copy::Of::y, problem.y);
  if (problem.beta != 0) copy_in(Copy::Of::prior, out);
  if (problem.epilogue.takes_z()) copy_in(Copy::Of::z, out);
  if (!is_channels_last(out)) copies.push_back({Copy::Of::result, channels_last(out), out});
  return copies;
}

class ChannelsLastPlan final : public ConvPlan, public HasStages {
 public:
  ChannelsLastPlan(std::unique_ptr<ConvPlan> inner, std::int64_t engine)
      : candidate_{kName, {{kKnob, engine}}}, inner_(std::move(inner)) {}

  Result<void> prepare(const ConvProblem& problem, const PlanRequest& request) {
    const auto reserve = [&](const TensorDesc& desc) {
      const std::size_t offset = workspace_;
      workspace_ += (static_cast<std::size_t>(desc.bytes()) + kAlignment - 1) / kAlignment * kAlignment;
      return offset;
    };
    const TensorDesc& out = problem.out();
    if (!is_channels_last(out)) out_offset_ = reserve(channels_last(out));
    const std::vector<Copy> copies = copies_of(problem);
    std::vector<cuda::LayoutConversion::Placements> placements;
    for (const Copy& copy : copies) placements.push_back({copy.from, copy.to});
    CONVOY_TRY(std::vector<cuda::LayoutConversion> conversions,
               cuda::LayoutConversion::make_all(placements, *request.cuda, request.target_sms));
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const Copy& copy = copies[i];
      cuda::LayoutConversion& conversion = conversions[i];
      code_bytes_ += conversion.code_bytes();
      const bool of_out = copy.operand == Copy::Of::prior || copy.operand == Copy::Of::result;
      copies_.push_back({copy.operand, std::move(conversion), of_out ? *out_offset_ : reserve(copy.to)});
    }
    return {};
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return workspace_ + inner_->workspace_bytes(); }
  std::size_t retained_bytes() const override { return code_bytes_ + inner_->retained_bytes(); }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = inner_->notes();
    if (std::find(notes.begin(), notes.end(), note::runtime_compilation) == notes.end()) {
      notes.emplace_back(note::runtime_compilation);
    }
    return notes;
  }
  std::string description() const override {
    return fmt::format("{} on channels-last copies, {} bytes; {}", print(inner_->candidate()), workspace_,
                       inner_->description());
  }
  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    for (const Made& copy : copies_) {
      if (copy.operand != Copy::Of::result)
        stages.push_back(fmt::format("{} to channels last", operand_name(copy.operand)));
    }
    for (std::string& stage : stages_of(*inner_)) stages.push_back(std::move(stage));
    if (out_offset_) stages.emplace_back("out from channels last");
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(check_workspace(*this, context));
    const auto stream = static_cast<CUstream>(context.stream());
    auto* const workspace = static_cast<std::byte*>(context.workspace);
    ConvArgs inner = args;
    if (out_offset_) inner.out = workspace + *out_offset_;
    ExecContext rest = context;
    rest.workspace = workspace + workspace_;
    rest.workspace_bytes = inner_->workspace_bytes();
    for (const Made& copy : copies_) {
      std::byte* const to = workspace + copy.offset;
      switch (copy.operand) {
        case Copy::Of::x:
          CONVOY_CHECK(copy.conversion.enqueue(args.x, to, stream));
          inner.x = to;
          break;
        case Copy::Of::w:
          CONVOY_CHECK(copy.conversion.enqueue(args.w, to, stream));
          inner.w = to;
          break;
        case Copy::Of::y:
          CONVOY_CHECK(copy.conversion.enqueue(args.y, to, stream));
          inner.y = to;
          break;
        case Copy::Of::z:
          CONVOY_CHECK(copy.conversion.enqueue(args.z, to, stream));
          inner.z = to;
          break;
        case Copy::Of::prior:
          CONVOY_CHECK(copy.conversion.enqueue(args.out, to, stream));
          break;
        case Copy::Of::result:
          CONVOY_CHECK(inner_->execute(inner, rest));
          return copy.conversion.enqueue(to, args.out, stream);
      }
    }
    return inner_->execute(inner, rest);
  }

 private:
  struct Made {
    Copy::Of operand;
    cuda::LayoutConversion conversion;
    std::size_t offset;  // of the copy in the workspace
  };
  Candidate candidate_;
  std::unique_ptr<ConvPlan> inner_;
  std::vector<Made> copies_;
  std::optional<std::size_t> out_offset_;
  std::size_t workspace_ = 0;  // of the copies
  std::size_t code_bytes_ = 0;
};

class ChannelsLastEngine final : public Engine, public LoadsProvider, public DeclaresNames, public RefinesEstimates {
 public:
  ChannelsLastEngine() {
    info_.name = kName;
    info_.provider = kProvider;
    info_.summary = "cuDNN's engines on channels-last copies of x, w and y";
    info_.device = DeviceKind::cuda;
    info_.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
    declare_asked(info_);
    info_.bias = info_.narrow_bias = info_.residual = true;
    info_.activations = fused_activations();
    info_.requantize = true;
    info_.notes = {std::string(note::runtime_compilation)};  // the copies'
    info_.notes_vary = true;
  }
  const EngineInfo& info() const override { return info_; }
  std::optional<std::string> provider() const override { return loaded_provider(); }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (auto refusal = known_before_asking(problem, request)) return refusal;
    if (const auto api = cuda::nvrtc(); !api.ok()) return Refusal{RefusalCode::not_built, api.error().message};
    const auto asked = inner_survey(problem, request);
    if (!asked.ok()) return Refusal{RefusalCode::not_built, asked.error().message};
    if ((*asked)->refusal()) return (*asked)->refusal();
    if (!(*asked)->first_taker()) {
      return Refusal{RefusalCode::not_offered, "cuDNN's heuristics name no engine for channels-last tensors that runs"};
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return {{kKnob}}; }
  std::vector<std::string> other_notes() const override { return note_names(); }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    const auto asked = inner_survey(problem, request);
    if (!asked.ok()) return {};
    const std::vector<std::int64_t> engines = named(**asked);
    return {{{kKnob, {engines.begin(), engines.end()}, "the index of cuDNN's engine, in the heuristics' order"}}, {}};
  }

  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues& knobs,
                                 const PlanRequest& request) const override {
    std::vector<std::string> notes = info_.notes;
    const auto asked = inner_survey(problem, request);
    const auto engine = chosen(problem, knobs, request);
    if (!asked.ok() || !engine) return notes;
    for (std::string& note : (*asked)->notes(*engine)) {
      if (note != note::runtime_compilation) notes.push_back(std::move(note));
    }
    return notes;
  }

  // As cudnn.eng*'s: nobody is asked until it would win.
  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    if (known_before_asking(problem, request)) return std::nullopt;
    const double first = first_choice_seconds(channels_last(problem), *request.cuda);
    return Estimate{{}, first + copies_seconds(problem, *request.cuda), false};
  }
  std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest& request, int) const override {
    if (check(problem, request)) return std::nullopt;
    const auto engine = chosen(problem, {}, request);
    if (!engine) return std::nullopt;
    KnobValues knobs = {{kKnob, *engine}};
    const double seconds = predict_seconds(problem, knobs, request);
    return Estimate{std::move(knobs), seconds, true};
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    const auto asked = inner_survey(problem, request);
    const auto engine = chosen(problem, knobs, request);
    if (!asked.ok() || !engine) return std::numeric_limits<double>::infinity();
    const auto pick = (*asked)->best_pick(*engine);
    return predict(channels_last(problem), **asked, *engine, pick ? pick->knobs : KnobValues(), *request.cuda) +
           copies_seconds(problem, *request.cuda);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    CONVOY_TRY(const auto asked, inner_survey(problem, request));
    const auto engine = chosen(problem, knobs, request);
    if (!engine) return Error{ErrorCode::unsupported, fmt::format("{}: no engine of cuDNN's", kName)};
    const auto pick = asked->best_pick(*engine);
    CONVOY_TRY(auto made, make_backend_plan(channels_last(problem), fmt::format("cudnn.eng{}", *engine), *engine,
                                            pick ? pick->knobs : KnobValues(), request));
    auto plan = std::make_unique<ChannelsLastPlan>(std::move(made), *engine);
    if (auto prepared = plan->prepare(problem, request); !prepared.ok()) return prepared.error().within(kName);
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  static double copies_seconds(const ConvProblem& problem, const CudaDevice& device) {
    double seconds = 0;
    for (const Copy& copy : copies_of(problem)) {
      seconds += cuda::predicted_layout_seconds(copy.from, copy.to, device);
    }
    return seconds;
  }

  std::optional<Refusal> known_before_asking(const ConvProblem& problem, const PlanRequest& request) const {
    for (const auto& [name, desc] : {std::pair{"x", &problem.x}, {"w", &problem.w}, {"y", &problem.y}}) {
      if (desc->channel_block > 1) {
        return Refusal{
            RefusalCode::layout,
            fmt::format("{} is in blocks of {} channels: this engine takes strides only", name, desc->channel_block)};
      }
      if (desc->storage_elements() > kMostElements) {
        return Refusal{RefusalCode::size, fmt::format("{}.dims={}: this engine takes at most {} elements", name,
                                                      to_string(desc->dims), kMostElements)};
      }
    }
    if (is_channels_last(problem.x) && is_channels_last(problem.w) && is_channels_last(problem.y)) {
      return Refusal{RefusalCode::layout, "x, w and y are channels last: cudnn.eng* take them as they are"};
    }
    return outside_limits(channels_last(problem), *request.cuda);
  }

  static Result<std::shared_ptr<Survey>> inner_survey(const ConvProblem& problem, const PlanRequest& request) {
    return survey(channels_last(problem), *request.cuda, request.target_sms);
  }

  // The engines that the heuristics name and that take the problem, best first.
  static std::vector<std::int64_t> named(Survey& survey) {
    std::vector<std::int64_t> engines;
    for (const Pick& pick : survey.picks()) {
      if (std::find(engines.begin(), engines.end(), pick.engine) != engines.end()) continue;
      if (!survey.refusal(pick.engine)) engines.push_back(pick.engine);
    }
    return engines;
  }

  std::optional<std::int64_t> chosen(const ConvProblem& problem, const KnobValues& knobs,
                                     const PlanRequest& request) const {
    const std::int64_t engine = knob_or(knobs, kKnob, -1);
    if (engine >= 0) return engine;
    const auto asked = inner_survey(problem, request);
    if (!asked.ok()) return std::nullopt;
    return (*asked)->first_taker();
  }

  EngineInfo info_;
};

}  // namespace

const Engine& channels_last_engine() {
  static const ChannelsLastEngine& engine = *new ChannelsLastEngine;  // never destroyed: as engines()
  return engine;
}

}  // namespace convoy::cudnn
