#include "engines/on_copies/on_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "convert/convert.h"
#include "convert/problem.h"
#include "convoy/host_tensor.h"
#include "core/configurations.h"
#include "core/declared_names.h"
#include "core/notes.h"
#include "core/refines.h"
#include "core/stages.h"
#include "core/workspace.h"

namespace convoy {
namespace {

constexpr const char* kKnob = "engine";
constexpr std::size_t kAlignment = 64;

bool is_narrow(DataType type) { return type == DataType::bf16 || type == DataType::f16; }

// What tensors are to the other engine.
struct Form {
  const char* name;
  TensorDesc (*of)(TensorDesc desc);
  bool weights;  // those are copied, too
  bool narrows;  // bf16 and f16: operands of their type besides
};

// A converted tensor lies as the other does, in the workspace.
TensorDesc wide(TensorDesc desc) {
  if (!is_narrow(desc.type)) return desc;
  desc.type = DataType::f32;
  desc.alignment = kAlignment;
  return desc;
}

// Blocks of channels stay: own engines take them as they are.
TensorDesc channels_last(TensorDesc desc) {
  if (desc.rank() < 3 || desc.channel_block > 1 || desc.is_packed(Layout::nhwc)) return desc;
  desc = desc.with_layout(Layout::nhwc);
  desc.alignment = kAlignment;
  return desc;
}

constexpr Form kInF32{"f32", wide, true, true};
constexpr Form kNhwc{"nhwc", channels_last, false, false};

bool changes(const Form& form, const TensorDesc& desc) { return !(form.of(desc) == desc); }

// The elements in a row, padding included, where there are no gaps between them.
TensorDesc in_a_row(const TensorDesc& desc) {
  if (desc.layout() == Layout::strided) return desc;
  return TensorDesc::packed(desc.type, {1, 1, desc.storage_elements()});
}

ConvProblem in_form(const Form& form, const ConvProblem& problem) {
  ConvProblem inner = problem;
  inner.x = form.of(inner.x);
  if (form.weights) inner.w = form.of(inner.w);
  inner.y = form.of(inner.y);
  if (form.narrows) inner.epilogue.narrow_bias = false;
  return inner;
}

// The result, as the other engine writes it.
TensorDesc result_in_form(const Form& form, const ConvProblem& problem) { return in_form(form, problem).out(); }

// An operand that is converted, as its elements lie: what the engine reads before it runs, the result after.
struct Conversion {
  enum class Of { x, w, y, bias, prior, z, result } operand;
  TensorDesc from, to;
};

const char* name_of(Conversion::Of operand) {
  static constexpr const char* kNames[] = {"x", "w", "y", "bias", "what out holds", "z", "out"};
  return kNames[static_cast<std::size_t>(operand)];
}

std::vector<Conversion> conversions_of(const Form& form, const ConvProblem& problem, bool constant_weights) {
  std::vector<Conversion> conversions;
  const auto add = [&](Conversion::Of operand, const TensorDesc& from, const TensorDesc& to) {
    if (from == to) return;
    const bool alike = from.strides == to.strides && from.channel_block == to.channel_block;
    conversions.push_back({operand, alike ? in_a_row(from) : from, alike ? in_a_row(to) : to});
  };
  const auto read = [&](Conversion::Of operand, const TensorDesc& desc) { add(operand, desc, form.of(desc)); };
  const TensorDesc &out = problem.out(), result = result_in_form(form, problem);
  if (&out != &problem.x) read(Conversion::Of::x, problem.x);
  if (&out != &problem.w && form.weights && !constant_weights) read(Conversion::Of::w, problem.w);
  if (&out != &problem.y) read(Conversion::Of::y, problem.y);
  if (problem.epilogue.bias && form.narrows) {
    read(Conversion::Of::bias, TensorDesc::packed(problem.bias_type(), {out.dims[1]}));
  }
  if (problem.beta != 0) add(Conversion::Of::prior, out, result);
  if (problem.epilogue.takes_z()) add(Conversion::Of::z, out, result);
  add(Conversion::Of::result, result, out);
  return conversions;
}

std::vector<std::string> with_own(const Form& form, std::vector<std::string> notes) {
  if (form.narrows) notes.emplace_back(note::up_convert_inputs);
  return notes;
}

class CopiesPlan final : public ConvPlan, public HasStages {
 public:
  CopiesPlan(std::string engine, const Form& form, const ConvProblem& problem, const PlanRequest& request,
             std::unique_ptr<ConvPlan> inner)
      : engine_(std::move(engine)), form_(form), inner_(std::move(inner)), cpu_(request.cpu) {
    const auto reserve = [&](const TensorDesc& desc) {
      const auto bytes = static_cast<std::size_t>(desc.bytes());
      return std::exchange(workspace_, workspace_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    };
    const TensorDesc result = result_in_form(form, problem);
    if (!(result == problem.out())) out_offset_ = reserve(result);
    for (Conversion& each : conversions_of(form, problem, request.constant_weights != nullptr)) {
      const bool of_out = each.operand == Conversion::Of::prior || each.operand == Conversion::Of::result;
      const std::size_t offset = of_out ? *out_offset_ : reserve(each.to);
      conversions_.push_back({std::move(each), offset});
    }
  }

  Candidate candidate() const override {
    Candidate candidate = inner_->candidate();
    candidate.knobs.push_back({kKnob, candidate.engine});
    std::ranges::sort(candidate.knobs, {}, &KnobValue::name);
    return {engine_, std::move(candidate.knobs)};
  }
  std::size_t workspace_bytes() const override { return workspace_ + inner_->workspace_bytes(); }
  std::size_t retained_bytes() const override { return inner_->retained_bytes(); }
  std::vector<std::string> notes() const override { return with_own(form_, inner_->notes()); }
  std::string description() const override {
    const std::string rest = inner_->description();
    return fmt::format("{} in {}, {} bytes of converted tensors{}{}", print(inner_->candidate()), form_.name,
                       workspace_, rest.empty() ? "" : "; ", rest);
  }
  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    for (const auto& [each, offset] : conversions_) {
      if (each.operand != Conversion::Of::result)
        stages.push_back(fmt::format("{} to {}", name_of(each.operand), form_.name));
    }
    for (std::string& stage : stages_of(*inner_)) stages.push_back(std::move(stage));
    if (out_offset_) stages.push_back(fmt::format("out from {}", form_.name));
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(check_workspace(*this, context));
    auto* const workspace = static_cast<std::byte*>(context.workspace);
    ConvArgs inner = args;
    if (out_offset_) inner.out = workspace + *out_offset_;
    ExecContext rest = context;
    rest.workspace = workspace + workspace_;
    rest.workspace_bytes = inner_->workspace_bytes();
    for (const auto& [each, offset] : conversions_) {
      std::byte* const to = workspace + offset;
      const auto read = [&, &each = each](const void* from) {
        convert_layout(each.from, from, each.to, to, context.team(), cpu_);
        return to;
      };
      switch (each.operand) {
        case Conversion::Of::x:
          inner.x = read(args.x);
          break;
        case Conversion::Of::w:
          inner.w = read(args.w);
          break;
        case Conversion::Of::y:
          inner.y = read(args.y);
          break;
        case Conversion::Of::bias:
          inner.bias = read(args.bias);
          break;
        case Conversion::Of::z:
          inner.z = read(args.z);
          break;
        case Conversion::Of::prior:
          read(args.out);
          break;
        case Conversion::Of::result:
          CONVOY_CHECK(inner_->execute(inner, rest));
          convert_layout(each.from, to, each.to, args.out, context.team(), cpu_);
          return {};
      }
    }
    return inner_->execute(inner, rest);
  }

 private:
  struct Made {
    Conversion conversion;
    std::size_t offset;  // of what it makes, or of the result before it, in the workspace
  };
  std::string engine_;
  const Form& form_;
  std::unique_ptr<ConvPlan> inner_;
  CpuFeatures cpu_;
  std::vector<Made> conversions_;
  std::optional<std::size_t> out_offset_;
  std::size_t workspace_ = 0;  // of the converted tensors
};

class CopiesEngine final : public Engine, public DeclaresNames, public RefinesEstimates {
 public:
  CopiesEngine(std::string name, const Form& form, std::span<const Engine* const> engines) : form_(form) {
    info_.name = std::move(name);
    info_.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
    if (form.narrows) {
      info_.summary = "bf16 and f16 in f32, on another engine: x, w and y are converted before and after";
      for (const DataType narrow : {DataType::bf16, DataType::f16}) {
        for (int which = 1; which < 8; ++which) {
          const auto type = [&](int bit) { return (which & bit) != 0 ? narrow : DataType::f32; };
          info_.types.push_back({type(1), type(2), type(4), DataType::f32});
        }
      }
    } else {
      info_.summary =
          "f32 and f64 whose channels lie apart, channels last on another engine: x and y are copied before and after";
      for (const DataType type : {DataType::f32, DataType::f64}) info_.types.push_back({type, type, type, type});
    }
    info_.min_isa = Isa::portable;
    info_.any_layouts = info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.groups = info_.strided = info_.dilated = info_.flipped = true;
    info_.alpha_beta = info_.bias = info_.residual = true;
    info_.narrow_bias = form.narrows;
    info_.any_activation = true;
    info_.deterministic = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = with_own(form, {});
    info_.notes_vary = true;
    for (const Engine* engine : engines) {
      const EngineInfo& inner = engine->info();
      if (inner.device != DeviceKind::cpu || inner.oracle || !inner.deterministic) continue;
      const auto in_f32 = [](const TypeCombination& types) { return types.compute == DataType::f32; };
      if (std::ranges::none_of(inner.types, in_f32)) continue;
      engines_.push_back(engine);
      info_.revision += inner.revision;  // what is measured of it holds as long as all of theirs
      info_.provider = inner.provider;
    }
  }
  const EngineInfo& info() const override { return info_; }

  std::vector<DeclaredKnob> declared_knobs() const override {
    std::vector<DeclaredKnob> knobs{{kKnob}};
    for (const Engine* engine : engines_) {
      knobs.front().words.push_back(engine->info().name);
      for (DeclaredKnob& knob : declared_knobs_of(*engine)) {
        const auto known = std::ranges::find(knobs, knob.name, &DeclaredKnob::name);
        if (known == knobs.end()) {
          knobs.push_back(std::move(knob));
        } else {
          known->words.insert(known->words.end(), knob.words.begin(), knob.words.end());
        }
      }
    }
    return knobs;
  }
  std::vector<std::string> other_notes() const override {
    std::set<std::string> notes;
    for (const Engine* engine : engines_) {
      for (std::string& note : note_names_of(*engine)) notes.insert(std::move(note));
    }
    return {notes.begin(), notes.end()};
  }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    const ConvProblem inner = in_form(form_, problem);
    if (!copies_any(problem)) {
      return Refusal{RefusalCode::layout,
                     "x and y are nhwc, or have blocks of channels: this engine copies other layouts"};
    }
    if (std::ranges::any_of(engines_, [&](const Engine* engine) { return !refuse(*engine, inner, request); }))
      return {};
    return Refusal{
        RefusalCode::not_offered,
        fmt::format("x.type={}, w.type={}, y.type={}: no engine takes this in {}", convoy::name_of(problem.x.type),
                    convoy::name_of(problem.w.type), convoy::name_of(problem.y.type), form_.name)};
  }

  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    const ConvProblem inner = in_form(form_, problem);
    std::vector<KnobValues> listed;
    std::vector<Knob> knobs{{kKnob, {}, fmt::format("which engine computes in {}", form_.name)}};
    const auto add = [&](const Engine& engine, const KnobValues& values) {
      listed.push_back(with_engine(values, engine));
    };
    const auto first = chosen(inner, request);
    if (first) add(*first->engine, first->estimate.knobs);
    for (const Engine* engine : engines_) {
      if (refuse(*engine, inner, request)) continue;
      const Configurations theirs = engine->configurations(inner, request);
      for (const Knob& knob : theirs.knobs) {
        if (std::ranges::find(knobs, knob.name, &Knob::name) == knobs.end())
          knobs.push_back({knob.name, {}, knob.text});
      }
      for (const KnobValues& values : all_of(theirs)) {
        if (!first || engine != first->engine || values != first->estimate.knobs) add(*engine, values);
      }
    }
    return listed_configurations(std::move(listed), std::move(knobs));
  }

  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues& knobs,
                                 const PlanRequest& request) const override {
    const auto named = candidate_of(problem, knobs, request);
    return named ? with_own(form_, named->engine->notes(in_form(form_, problem), named->knobs, request)) : info_.notes;
  }

  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    return refine(problem, request, 0);
  }
  std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest& request, int) const override {
    if (!copies_any(problem)) return std::nullopt;
    auto best = chosen(in_form(form_, problem), request);
    if (!best) return std::nullopt;
    return Estimate{with_engine(best->estimate.knobs, *best->engine),
                    best->estimate.seconds + conversion_seconds(problem, request)};
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    const auto named = candidate_of(problem, knobs, request);
    if (!named) return std::numeric_limits<double>::infinity();
    return named->engine->predict_seconds(in_form(form_, problem), named->knobs, request) +
           conversion_seconds(problem, request);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    const ConvProblem inner_problem = in_form(form_, problem);
    PlanRequest asked = request;
    HostTensor weights;
    if (request.constant_weights != nullptr && form_.weights && changes(form_, problem.w)) {
      CONVOY_TRY(weights, HostTensor::allocate(form_.of(problem.w)));
      copy_tensor(problem.w, request.constant_weights, weights.desc, weights.data.get());
      asked.constant_weights = weights.data.get();
    }
    const auto made = [&](const Named& named) -> Result<std::unique_ptr<ConvPlan>> {
      CONVOY_TRY(auto inner, named.engine->plan(inner_problem, named.knobs, asked));
      return std::make_unique<CopiesPlan>(info_.name, form_, problem, request, std::move(inner));
    };
    Error failed{ErrorCode::unsupported, fmt::format("{}: no engine takes the problem in {}", info_.name, form_.name)};
    if (const auto named = candidate_of(problem, knobs, request)) {
      auto plan = made(*named);
      if (plan.ok() || !knobs.empty()) return plan;
      failed = plan.error();
    }
    // What is predicted to be offered may not be, and the reverse.
    for (const Engine* engine : engines_) {
      if (!knobs.empty() || refuse(*engine, inner_problem, request)) continue;
      for (const KnobValues& values : all_of(engine->configurations(inner_problem, request))) {
        if (auto plan = made({engine, values}); plan.ok()) return plan;
      }
    }
    return failed;
  }

 private:
  struct Named {
    const Engine* engine;
    KnobValues knobs;
  };
  struct Chosen {
    const Engine* engine;
    Estimate estimate;
  };

  bool copies_any(const ConvProblem& problem) const {
    return changes(form_, problem.x) || changes(form_, problem.y) || (form_.weights && changes(form_, problem.w));
  }

  static KnobValues with_engine(KnobValues knobs, const Engine& engine) {
    knobs.push_back({kKnob, engine.info().name});
    std::ranges::sort(knobs, {}, &KnobValue::name);
    return knobs;
  }

  // The engine that is predicted to be fastest in f32. As in heuristic selection, a guess is made better until the
  // least is none.
  std::optional<Chosen> chosen(const ConvProblem& inner, const PlanRequest& request) const {
    struct Guess : Chosen {
      int steps = 0;
    };
    std::vector<Guess> guesses;
    for (const Engine* engine : engines_) {
      if (!admits(engine->info(), inner, request)) continue;
      if (auto estimate = engine->estimate(inner, request)) guesses.push_back({{engine, *std::move(estimate)}});
    }
    while (!guesses.empty()) {
      const auto least = std::ranges::min_element(guesses, {}, [](const Guess& each) { return each.estimate.seconds; });
      if (least->estimate.certain) return *least;
      auto better = refined(*least->engine, inner, request, least->steps++);
      if (better) {
        least->estimate = *std::move(better);
      } else {
        guesses.erase(least);
      }
    }
    return std::nullopt;
  }

  // What the knobs name; without any, what is predicted to be fastest.
  std::optional<Named> candidate_of(const ConvProblem& problem, const KnobValues& knobs,
                                    const PlanRequest& request) const {
    const std::string_view name = word_or(knobs, kKnob, "");
    if (name.empty()) {
      auto best = chosen(in_form(form_, problem), request);
      return best ? std::optional(Named{best->engine, std::move(best->estimate.knobs)}) : std::nullopt;
    }
    const auto engine = std::ranges::find_if(engines_, [&](const Engine* each) { return each->info().name == name; });
    if (engine == engines_.end()) return std::nullopt;
    Named named{*engine, knobs};
    std::erase_if(named.knobs, [](const KnobValue& knob) { return knob.name == kKnob; });
    return named;
  }

  double conversion_seconds(const ConvProblem& problem, const PlanRequest& request) const {
    double seconds = 0;
    for (const Conversion& each : conversions_of(form_, problem, request.constant_weights != nullptr)) {
      seconds += convoy::conversion_seconds(each.from, each.to, request);
    }
    return seconds;
  }

  const Form& form_;
  std::vector<const Engine*> engines_;
  EngineInfo info_;
};

}  // namespace

std::unique_ptr<Engine> make_in_f32_engine(std::string name, std::span<const Engine* const> engines) {
  return std::make_unique<CopiesEngine>(std::move(name), kInF32, engines);
}

std::unique_ptr<Engine> make_nhwc_engine(std::string name, std::span<const Engine* const> engines) {
  return std::make_unique<CopiesEngine>(std::move(name), kNhwc, engines);
}

}  // namespace convoy
