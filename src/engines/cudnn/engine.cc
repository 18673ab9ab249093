#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/declared_names.h"
#include "core/provider.h"
#include "core/refines.h"
#include "core/suggestions.h"
#include "engines/cudnn/channels_last.h"
#include "engines/cudnn/cudnn.h"
#include "engines/cudnn/legacy.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/plan.h"
#include "engines/cudnn/predict.h"
#include "engines/cudnn/provider.h"

namespace convoy::cudnn {
namespace {

// cuDNN 9.19 has at most 85 engines for a graph, 9.28 86. Rows above what a version has refuse at once.
constexpr int kEngines = 96;

EngineInfo declare(int index) {
  EngineInfo info;
  info.name = fmt::format("cudnn.eng{}", index);
  info.revision = 2;  // 1 planned for Convoy's description of the device: up to five times as long
  info.provider = kProvider;
  info.summary = fmt::format("cuDNN's engine {} for the problem's operation graph", index);
  info.device = DeviceKind::cuda;
  info.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
  declare_asked(info);
  info.bias = info.narrow_bias = info.residual = true;
  info.activations = fused_activations();
  info.requantize = true;
  info.notes_vary = true;
  return info;
}

Refusal no_cudnn(const Error& error) { return {RefusalCode::not_built, error.message}; }

class BackendEngine final : public Engine,
                            public HasSuggestions,
                            public LoadsProvider,
                            public DeclaresNames,
                            public RefinesEstimates {
 public:
  explicit BackendEngine(int index) : index_(index), info_(declare(index)) {}

  const EngineInfo& info() const override { return info_; }
  std::optional<std::string> provider() const override { return loaded_provider(); }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    if (auto refusal = outside_limits(problem, *request.cuda)) return refusal;
    const auto pieces = surveyed_sub_problems(problem, *request.cuda, request.target_sms);
    if (!pieces) {
      if (pieces.error().code == ErrorCode::unsupported) return Refusal{RefusalCode::size, pieces.error().message};
      return no_cudnn(pieces.error());
    }
    const Survey* asked = nullptr;
    for (const SurveyedSubProblem& piece : *pieces) {
      if (piece.survey.get() == asked) continue;
      asked = piece.survey.get();
      if (auto refusal = piece.survey->refusal(index_)) {
        if (!piece.piece.where.empty()) refusal->reason = piece.piece.where + ": " + refusal->reason;
        return refusal;
      }
    }
    return std::nullopt;
  }

  std::vector<DeclaredKnob> declared_knobs() const override { return {{"k*"}}; }
  std::vector<std::string> other_notes() const override { return note_names(); }
  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    const auto asked = first_survey(problem, *request.cuda, request.target_sms);
    if (!asked) return {};
    return {(*asked)->ask(index_).knobs, {}};
  }

  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues&,
                                 const PlanRequest& request) const override {
    const auto asked = first_survey(problem, *request.cuda, request.target_sms);
    return asked ? (*asked)->notes(index_) : std::vector<std::string>();
  }

  std::vector<KnobValues> suggestions(const ConvProblem& problem, const PlanRequest& request) const override {
    const auto asked = first_survey(problem, *request.cuda, request.target_sms);
    std::vector<KnobValues> all;
    if (!asked) return all;
    Survey& survey = **asked;
    const auto add = [&](KnobValues knobs) {
      if (std::find(all.begin(), all.end(), knobs) == all.end()) all.push_back(std::move(knobs));
    };
    for (Pick& pick : survey.picks()) {
      if (pick.engine == index_) add(std::move(pick.knobs));
    }
    // The engine as it comes, all of it left to cuDNN: what PyTorch also tries, and sometimes faster than every pick.
    KnobValues automatic;
    for (const Knob& knob : survey.ask(index_).knobs) automatic.push_back({knob.name, kAutomatic});
    add(std::move(automatic));
    return all;
  }

  // As if it were cuDNN's first choice. Nobody is asked: own engines may be predicted to be faster.
  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    if (outside_limits(problem, *request.cuda)) return std::nullopt;
    return Estimate{{}, first_choice_seconds(problem, *request.cuda), false};
  }

  // Its place in the heuristics' order, asked for in parts; once it is known, whether it takes the problem.
  std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest& request, int steps) const override {
    const auto asked = first_survey(problem, *request.cuda, request.target_sms);
    if (!asked) return std::nullopt;
    Survey& survey = **asked;
    if (survey.graph() == nullptr || index_ >= survey.graph()->engine_count()) return std::nullopt;
    const double first = first_choice_seconds(problem, *request.cuda, index_);
    const int known = std::min(steps, Survey::kParts);
    const auto place = survey.named(index_, known);
    if (!place && known < Survey::kParts) {
      const auto next = survey.named(index_, known + 1);
      return Estimate{{}, at_rank(first, next ? next->rank : survey.named(known + 1)), false};
    }
    if (check(problem, request)) return std::nullopt;
    KnobValues knobs = survey.default_knobs(index_);
    if (place) return Estimate{std::move(knobs), at_rank(first, place->rank), true};
    const double certain = predict(problem, survey, index_, knobs, *request.cuda);
    return Estimate{std::move(knobs), certain, true};
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    const auto asked = first_survey(problem, *request.cuda, request.target_sms);
    if (!asked) return std::numeric_limits<double>::infinity();
    return predict(problem, **asked, index_, knobs, *request.cuda);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    return make_backend_plan(problem, info_.name, index_, knobs, request);
  }

 private:
  int index_;
  EngineInfo info_;
};

}  // namespace

void declare_asked(EngineInfo& info) {
  info.min_architecture = 0;
  info.any_types = info.any_layouts = info.any_weight_strides = true;
  info.max_spatial_dims = 3;
  info.groups = info.strided = info.dilated = info.flipped = info.alpha_beta = true;
  info.deterministic = true;  // but for candidates with the note
  info.thread_invariant = true;
  info.max_elements = EngineInfo::any_size;
}

std::optional<std::string> loaded_provider() {
  const auto api = cuda::cudnn();
  if (!api) return std::nullopt;
  return fmt::format("{} {}", kProvider, (*api)->text);
}

std::vector<ActivationKind> fused_activations() {
  return {ActivationKind::identity, ActivationKind::relu,     ActivationKind::clip, ActivationKind::leaky_relu,
          ActivationKind::elu,      ActivationKind::sigmoid,  ActivationKind::tanh, ActivationKind::swish,
          ActivationKind::gelu,     ActivationKind::gelu_tanh};
}

std::span<const Engine* const> engines() {
  // Never destroyed: convolutions may run while the process ends.
  static const auto& engines = *[] {
    auto* all = new std::vector<const Engine*>;
    for (int index = 0; index < kEngines; ++index) all->push_back(new BackendEngine(index));
    all->push_back(&channels_last_engine());
    for (const Engine* engine : legacy_engines()) all->push_back(engine);
    return all;
  }();
  return engines;
}

Result<std::vector<Candidate>> heuristic_candidates(const ConvProblem& problem, const PlanRequest& request) {
  if (!request.cuda) return Error{ErrorCode::invalid_argument, "device=cpu: cuDNN's heuristics choose for a GPU"};
  if (auto refusal = outside_limits(problem, *request.cuda)) return Error{ErrorCode::unsupported, refusal->reason};
  CONVOY_TRY(const auto pieces, surveyed_sub_problems(problem, *request.cuda, request.target_sms));
  if (pieces.size() > 1) return Error{ErrorCode::unsupported, "the problem is run in pieces"};
  const auto& refusal = pieces.front().survey->refusal();
  if (refusal) return Error{ErrorCode::unsupported, refusal->reason};
  std::vector<Candidate> candidates;
  for (const Pick& pick : pieces.front().survey->picks()) {
    Candidate candidate{fmt::format("cudnn.eng{}", pick.engine), pick.knobs};
    if (std::find(candidates.begin(), candidates.end(), candidate) == candidates.end()) {
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace convoy::cudnn
