#include "engines/in_f32/in_f32.h"

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

namespace convoy {
namespace {

constexpr const char* kKnob = "engine";
constexpr std::size_t kAlignment = 64;

bool is_narrow(DataType type) { return type == DataType::bf16 || type == DataType::f16; }

// A converted tensor lies as the other does, in the workspace.
TensorDesc in_f32(TensorDesc desc) {
  if (!is_narrow(desc.type)) return desc;
  desc.type = DataType::f32;
  desc.alignment = kAlignment;
  return desc;
}

// The elements in a row, padding included, where there are no gaps between them.
TensorDesc in_a_row(const TensorDesc& desc) {
  if (desc.layout() == Layout::strided) return desc;
  return TensorDesc::packed(desc.type, {1, 1, desc.storage_elements()});
}

ConvProblem in_f32(const ConvProblem& problem) {
  ConvProblem inner = problem;
  for (TensorDesc* desc : {&inner.x, &inner.w, &inner.y}) *desc = in_f32(*desc);
  inner.epilogue.narrow_bias = false;
  return inner;
}

// An operand that is converted, as its elements lie: what the engine reads before it runs, the result after.
struct Conversion {
  enum class Of { x, w, y, bias, prior, z, result } operand;
  TensorDesc from, to;
};

const char* name_of(Conversion::Of operand) {
  static constexpr const char* names[] = {"x", "w", "y", "bias", "what out holds", "z", "out"};
  return names[static_cast<std::size_t>(operand)];
}

std::vector<Conversion> conversions_of(const ConvProblem& problem, bool constant_weights) {
  std::vector<Conversion> conversions;
  const auto read = [&](Conversion::Of operand, const TensorDesc& desc) {
    if (is_narrow(desc.type)) conversions.push_back({operand, in_a_row(desc), in_a_row(in_f32(desc))});
  };
  const TensorDesc& out = problem.out();
  if (&out != &problem.x) read(Conversion::Of::x, problem.x);
  if (&out != &problem.w && !constant_weights) read(Conversion::Of::w, problem.w);
  if (&out != &problem.y) read(Conversion::Of::y, problem.y);
  if (problem.epilogue.bias) {
    read(Conversion::Of::bias, TensorDesc::packed(problem.bias_type(), {out.dims[1]}));
  }
  if (problem.beta != 0) read(Conversion::Of::prior, out);
  if (problem.epilogue.takes_z()) read(Conversion::Of::z, out);
  if (is_narrow(out.type)) conversions.push_back({Conversion::Of::result, in_a_row(in_f32(out)), in_a_row(out)});
  return conversions;
}

std::vector<std::string> with_own(std::vector<std::string> notes) {
  notes.emplace_back(note::up_convert_inputs);
  return notes;
}

class InF32Plan final : public ConvPlan, public HasStages {
 public:
  InF32Plan(std::string engine, const ConvProblem& problem, const PlanRequest& request, std::unique_ptr<ConvPlan> inner)
      : engine_(std::move(engine)), inner_(std::move(inner)), cpu_(request.cpu) {
    const auto reserve = [&](const TensorDesc& desc) {
      const auto bytes = static_cast<std::size_t>(desc.bytes());
      return std::exchange(workspace_, workspace_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    };
    if (is_narrow(problem.out().type)) out_offset_ = reserve(in_f32(problem.out()));
    for (Conversion& each : conversions_of(problem, request.constant_weights != nullptr)) {
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
  std::vector<std::string> notes() const override { return with_own(inner_->notes()); }
  std::string description() const override {
    const std::string rest = inner_->description();
    return fmt::format("{} in f32, {} bytes of converted tensors{}{}", print(inner_->candidate()), workspace_,
                       rest.empty() ? "" : "; ", rest);
  }
  std::vector<std::string> stages() const override {
    std::vector<std::string> stages;
    for (const auto& [each, offset] : conversions_) {
      if (each.operand != Conversion::Of::result) stages.push_back(fmt::format("{} to f32", name_of(each.operand)));
    }
    for (std::string& stage : stages_of(*inner_)) stages.push_back(std::move(stage));
    if (out_offset_) stages.emplace_back("out from f32");
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    if (workspace_bytes() > 0 && (context.workspace == nullptr || context.workspace_bytes < workspace_bytes())) {
      return Error{ErrorCode::invalid_argument, fmt::format("workspace: {} bytes, {} needs {}", context.workspace_bytes,
                                                            print(candidate()), workspace_bytes())};
    }
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
  std::unique_ptr<ConvPlan> inner_;
  CpuFeatures cpu_;
  std::vector<Made> conversions_;
  std::optional<std::size_t> out_offset_;
  std::size_t workspace_ = 0;  // of the converted tensors
};

class InF32Engine final : public Engine, public DeclaresNames, public RefinesEstimates {
 public:
  InF32Engine(std::string name, std::span<const Engine* const> engines) {
    info_.name = std::move(name);
    info_.summary = "bf16 and f16 in f32, on another engine: x, w and y are converted before and after";
    info_.passes = {Pass::fprop, Pass::dgrad, Pass::wgrad};
    for (const DataType narrow : {DataType::bf16, DataType::f16}) {
      for (int which = 1; which < 8; ++which) {
        const auto type = [&](int bit) { return (which & bit) != 0 ? narrow : DataType::f32; };
        info_.types.push_back({type(1), type(2), type(4), DataType::f32});
      }
    }
    info_.min_isa = Isa::portable;
    info_.any_layouts = info_.any_weight_strides = true;
    info_.max_spatial_dims = 3;
    info_.groups = info_.strided = info_.dilated = info_.flipped = true;
    info_.alpha_beta = info_.bias = info_.narrow_bias = info_.residual = true;
    info_.any_activation = true;
    info_.deterministic = true;
    info_.max_elements = EngineInfo::any_size;
    info_.notes = {std::string(note::up_convert_inputs)};
    info_.notes_vary = true;
    for (const Engine* engine : engines) {
      const EngineInfo& inner = engine->info();
      if (inner.device != DeviceKind::cpu || inner.oracle || !inner.deterministic) continue;
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
    const ConvProblem inner = in_f32(problem);
    if (std::ranges::any_of(engines_, [&](const Engine* engine) { return !refuse(*engine, inner, request); }))
      return {};
    return Refusal{
        RefusalCode::not_offered,
        fmt::format("x.type={}, w.type={}, y.type={}: no engine takes this in f32", convoy::name_of(problem.x.type),
                    convoy::name_of(problem.w.type), convoy::name_of(problem.y.type))};
  }

  Configurations configurations(const ConvProblem& problem, const PlanRequest& request) const override {
    const ConvProblem inner = in_f32(problem);
    std::vector<KnobValues> listed;
    std::vector<Knob> knobs{{kKnob, {}, "which engine computes in f32"}};
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
    return named ? with_own(named->engine->notes(in_f32(problem), named->knobs, request)) : info_.notes;
  }

  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    return refine(problem, request, 0);
  }
  std::optional<Estimate> refine(const ConvProblem& problem, const PlanRequest& request, int) const override {
    auto best = chosen(in_f32(problem), request);
    if (!best) return std::nullopt;
    return Estimate{with_engine(best->estimate.knobs, *best->engine),
                    best->estimate.seconds + conversion_seconds(problem, request)};
  }

  double predict_seconds(const ConvProblem& problem, const KnobValues& knobs,
                         const PlanRequest& request) const override {
    const auto named = candidate_of(problem, knobs, request);
    if (!named) return std::numeric_limits<double>::infinity();
    return named->engine->predict_seconds(in_f32(problem), named->knobs, request) +
           conversion_seconds(problem, request);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    const ConvProblem wide = in_f32(problem);
    PlanRequest asked = request;
    HostTensor weights;
    if (request.constant_weights != nullptr && is_narrow(problem.w.type)) {
      CONVOY_TRY(weights, HostTensor::allocate(in_f32(problem.w)));
      copy_tensor(problem.w, request.constant_weights, weights.desc, weights.data.get());
      asked.constant_weights = weights.data.get();
    }
    const auto made = [&](const Named& named) -> Result<std::unique_ptr<ConvPlan>> {
      CONVOY_TRY(auto inner, named.engine->plan(wide, named.knobs, asked));
      return std::make_unique<InF32Plan>(info_.name, problem, request, std::move(inner));
    };
    Error failed{ErrorCode::unsupported, fmt::format("{}: no engine takes the problem in f32", info_.name)};
    if (const auto named = candidate_of(problem, knobs, request)) {
      auto plan = made(*named);
      if (plan.ok() || !knobs.empty()) return plan;
      failed = plan.error();
    }
    // What is predicted to be offered may not be, and the reverse.
    for (const Engine* engine : engines_) {
      if (!knobs.empty() || refuse(*engine, wide, request)) continue;
      for (const KnobValues& values : all_of(engine->configurations(wide, request))) {
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
      auto best = chosen(in_f32(problem), request);
      return best ? std::optional(Named{best->engine, std::move(best->estimate.knobs)}) : std::nullopt;
    }
    const auto engine = std::ranges::find_if(engines_, [&](const Engine* each) { return each->info().name == name; });
    if (engine == engines_.end()) return std::nullopt;
    Named named{*engine, knobs};
    std::erase_if(named.knobs, [](const KnobValue& knob) { return knob.name == kKnob; });
    return named;
  }

  static double conversion_seconds(const ConvProblem& problem, const PlanRequest& request) {
    double seconds = 0;
    for (const Conversion& each : conversions_of(problem, request.constant_weights != nullptr)) {
      seconds += convoy::conversion_seconds(each.from, each.to, request);
    }
    return seconds;
  }

  std::vector<const Engine*> engines_;
  EngineInfo info_;
};

}  // namespace

std::unique_ptr<Engine> make_in_f32_engine(std::string name, std::span<const Engine* const> engines) {
  return std::make_unique<InF32Engine>(std::move(name), engines);
}

}  // namespace convoy
