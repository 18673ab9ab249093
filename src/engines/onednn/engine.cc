#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/declared_names.h"
#include "core/notes.h"
#include "engines/cost/fitted_engine.h"
#include "engines/onednn/guess.h"
#include "engines/onednn/implementations.h"
#include "engines/onednn/known.h"
#include "engines/onednn/onednn.h"
#include "engines/onednn/plan.h"
#include "engines/onednn/request.h"
#include "engines/onednn/survey.h"

namespace convoy::onednn {
namespace {

constexpr const char* kLayoutKnob = "layout";
constexpr const char* kLayouts[] = {"given", "preferred"};           // of the activations
constexpr std::int64_t kMostElements = (std::int64_t{1} << 31) - 1;  // oneDNN's kernels count in 32 bits in places

std::string_view kind_of(std::string_view family) {
  if (family.starts_with("brgconv_strided") || family.starts_with("brg_fwd")) return "batch-reduce GEMM, transposed";
  if (family.starts_with("brgconv_1x1")) return "batch-reduce GEMM for filters of 1";
  if (family.starts_with("brgconv")) return "batch-reduce GEMM";
  if (family.starts_with("brdgmm_dw")) return "batch-reduce product with a diagonal matrix, depthwise";
  if (family.starts_with("ip")) return "inner product, for one filter position";
  if (family.starts_with("gemm")) return "im2col and GEMM";
  if (family.starts_with("ref")) return "plain loops";
  if (family.ends_with("_dw")) return "direct, depthwise, generated for the problem";
  if (family.ends_with("_1x1")) return "direct for filters of 1, generated for the problem";
  return "direct, generated for the problem";
}

// The combinations oneDNN has of the types in the mask; the gradient that a backward pass computes may also be f32.
std::vector<TypeCombination> combinations(unsigned types, unsigned passes) {
  std::vector<TypeCombination> all;
  if (types & kF32) all.push_back({DataType::f32, DataType::f32, DataType::f32, DataType::f32});
  for (const auto& [bit, type] : {std::pair{kBf16, DataType::bf16}, {kF16, DataType::f16}}) {
    if (!(types & bit)) continue;
    all.push_back({type, type, type, DataType::f32});
    if (passes & kFprop) all.push_back({type, type, DataType::f32, DataType::f32});
    if (passes & kDgrad) all.push_back({DataType::f32, type, type, DataType::f32});
    if (passes & kWgrad) all.push_back({type, DataType::f32, type, DataType::f32});
  }
  if (!(types & kInt8)) return all;
  for (const DataType x : {DataType::u8, DataType::s8}) {
    for (const DataType y : {DataType::u8, DataType::s8, DataType::s32, DataType::f32}) {
      all.push_back({x, DataType::s8, y, DataType::s32});
    }
  }
  return all;
}

std::string version() { return "oneDNN " + library().version; }

// The rows without a level run the best code that the processor has, whatever a request is capped to.
bool takes_everything(const Implementation& implementation) {
  return implementation.level.empty() && implementation.family != "ref";
}

EngineInfo declare(const Implementation& implementation) {
  EngineInfo info;
  info.name = implementation.name();
  info.provider = version();
  info.summary =
      fmt::format("oneDNN's {}: {}", info.name.substr(info.name.find('.') + 1), kind_of(implementation.family));
  for (const auto& [bit, pass] : {std::pair{kFprop, Pass::fprop}, {kDgrad, Pass::dgrad}, {kWgrad, Pass::wgrad}}) {
    if (implementation.passes & bit) info.passes.push_back(pass);
  }
  info.types = combinations(implementation.types, implementation.passes);
  info.any_layouts = info.any_weight_strides = true;
  info.max_spatial_dims = 3;
  info.groups = info.strided = info.dilated = true;
  if ((implementation.passes & kFprop) != 0) {
    info.alpha_beta = info.bias = info.residual = info.any_activation = true;
  } else {  // backward passes have no epilogue
    info.activations = {ActivationKind::identity};
  }
  info.requantize = info.quantized_residual = info.zero_points = (implementation.types & kInt8) != 0;
  info.float_bias = info.bias && info.zero_points;
  info.min_isa = takes_everything(implementation) ? processor_isa() : implementation.min_isa();
  // Below, oneDNN leaves what they compute to others.
  if (implementation.family == "ip" || implementation.family.starts_with("gemm_s8")) info.min_isa = Isa::avx512;
  info.max_elements = kMostElements;
  info.oracle =
      implementation.family == "ref";  // measured only when named: it takes seconds where others take milliseconds
  // Code is generated for the problem, or (gemm) once for the process.
  if (!info.oracle) info.notes = {std::string(note::runtime_compilation)};
  info.deterministic = true;  // not thread_invariant: its split of a reduction depends on the threads
  return info;
}

// What oneDNN asks of a convolution that it computes as an inner product.
std::optional<Refusal> unfit_inner_product(const ConvProblem& p) {
  constexpr std::int64_t least_taps = 28;
  const auto no = [&](RefusalCode code, const std::string& field, std::string_view what) {
    return Refusal{code, fmt::format("{}: this engine needs {}", field, what)};
  };
  if (p.groups != 1) return no(RefusalCode::groups, fmt::format("groups={}", p.groups), "groups=1");
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial_dims(); ++i) {
    taps *= std::min(p.w.dims[2 + i], least_taps);
    if (p.y.dims[2 + i] != 1) return no(RefusalCode::size, fmt::format("y.dims[{}]={}", 2 + i, p.y.dims[2 + i]), "1");
    if (p.stride[i] != 1) return no(RefusalCode::stride, fmt::format("stride={}", to_string(p.stride)), "stride 1");
    if (p.dilation[i] != 1) {
      return no(RefusalCode::dilation, fmt::format("dilation={}", to_string(p.dilation)), "dilation 1");
    }
    if (p.pre_padding[i] + p.post_padding[i] != 0) {
      return no(RefusalCode::padding, fmt::format("pad={}/{}", to_string(p.pre_padding), to_string(p.post_padding)),
                "no padding");
    }
  }
  if (taps < least_taps)
    return no(RefusalCode::filter, fmt::format("w.dims={}", to_string(p.w.dims)), "28 taps or more");
  if (p.batch() < 2) return no(RefusalCode::size, fmt::format("x.dims[0]={}", p.batch()), "a batch of 2 or more");
  return std::nullopt;
}

std::optional<Refusal> unfit_shape(Shape shape, const ConvProblem& p) {
  const auto no = [&](RefusalCode code, const std::string& field, std::string_view what) {
    return Refusal{code, fmt::format("{}: this engine computes {} only", field, what)};
  };
  const Dims filter(p.w.dims.begin() + 2, p.w.dims.end());
  const bool unit_filter = std::all_of(filter.begin(), filter.end(), [](std::int64_t size) { return size == 1; });
  switch (shape) {
    case Shape::any:
      return std::nullopt;
    case Shape::pointwise:
      if (unit_filter) return std::nullopt;
      return no(RefusalCode::filter, fmt::format("filter={}", to_string(filter)), "filters of 1");
    case Shape::depthwise:
      if (p.groups > 1 && p.w.dims[1] == 1 && p.w.dims[0] == p.groups) return std::nullopt;
      return no(RefusalCode::groups,
                fmt::format("groups={} of {} to {} channels", p.groups, p.w.dims[1], p.w.dims[0] / p.groups),
                "depthwise problems, a channel to a channel");
    case Shape::whole_window:
      return unfit_inner_product(p);
  }
  return std::nullopt;
}

bool lacks_its_level(const Implementation& implementation, const CpuFeatures& cpu) {
  const auto needed = implementation.needs();
  return (needed != nullptr && !(cpu.*needed)) || !processor_has(implementation.level);
}

// Of these oneDNN offers the one for the best of the processor only.
bool is_outdone(const Implementation& implementation) {
  return implementation.family == "brdgmm_dw" && implementation.min_isa() < processor_isa();
}

// Rows without a level that would run what the cap forbids.
bool exceeds_the_cap(const Implementation& implementation, const CpuFeatures& cpu) {
  return takes_everything(implementation) && !cpu.avx512_vnni && processor_has("avx512_vnni");
}

std::optional<Refusal> unfit_processor(const Implementation& implementation, const CpuFeatures& cpu) {
  if (lacks_its_level(implementation, cpu)) {
    return Refusal{RefusalCode::instruction_set, fmt::format("instruction set={} here: this engine needs {}",
                                                             name_of(cpu.isa), implementation.level)};
  }
  if (is_outdone(implementation)) {
    return Refusal{RefusalCode::instruction_set,
                   fmt::format("instruction set={} here: oneDNN has this engine where there is no AVX-512 only",
                               name_of(processor_isa()))};
  }
  if (exceeds_the_cap(implementation, cpu)) {
    return Refusal{
        RefusalCode::instruction_set,
        fmt::format("instruction set={} without VNNI: this engine takes all that the processor has", name_of(cpu.isa))};
  }
  return std::nullopt;
}

class ImplementationEngine final : public cost::FittedEngine, public DeclaresNames {
 public:
  explicit ImplementationEngine(std::size_t row)
      : FittedEngine(declare(implementations()[row]), fitted_isa(implementations()[row]),
                     fitted_products(implementations()[row])),
        row_(row) {}

  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    std::vector<std::string> notes = info_.notes;
    if (const auto loss = precision_note(problem)) notes.emplace_back(*loss);
    if (loses_special_values(problem)) notes.emplace_back(note::loses_special_values);
    return notes;
  }

  std::optional<Refusal> check(const ConvProblem& given, const PlanRequest& request) const override {
    const AsOneImage asked(given);
    const ConvProblem& problem = asked.problem();
    if (ended()) {
      return Refusal{RefusalCode::device, "process=exiting: oneDNN's own objects are destroyed by now"};
    }
    const Implementation& implementation = implementations()[row_];
    if (auto refusal = unfit_processor(implementation, request.cpu)) return refusal;
    if (auto refusal = known_wrong(implementation, problem)) return refusal;
    if (auto refusal = unfit_shape(implementation.shape, problem)) return refusal;
    if (auto refusal = inexpressible(problem)) return refusal;
    if (survey(problem)->find(row_) != nullptr) return std::nullopt;
    return Refusal{RefusalCode::not_offered, fmt::format("x={} y={} and these sizes: oneDNN does not offer it for them",
                                                         placement(problem.x), placement(problem.y))};
  }

  std::vector<DeclaredKnob> declared_knobs() const override {
    return {{kLayoutKnob, {std::begin(kLayouts), std::end(kLayouts)}}};
  }
  std::vector<std::string> other_notes() const override {
    return {std::string(note::tf32), std::string(note::down_convert_inputs), std::string(note::loses_special_values)};
  }
  Configurations configurations(const ConvProblem& given, const PlanRequest&) const override {
    const AsOneImage asked(given);
    const ConvProblem& problem = asked.problem();
    Knob knob{kLayoutKnob, {}, "activations: as given, or reordered to what the implementation prefers"};
    const auto surveyed = survey(problem);
    for (const bool any : {false, true}) {
      if (surveyed->find(row_, any) != nullptr) knob.values.emplace_back(kLayouts[any]);
    }
    return {{std::move(knob)}, {}};
  }

  std::optional<Estimate> estimate(const ConvProblem& given, const PlanRequest& request) const override {
    const AsOneImage asked(given);
    const ConvProblem& problem = asked.problem();
    const Implementation& implementation = implementations()[row_];
    if (lacks_its_level(implementation, request.cpu) || is_outdone(implementation) ||
        exceeds_the_cap(implementation, request.cpu) || ended()) {
      return std::nullopt;
    }
    const auto guessed = guess(row_, problem);
    if (!guessed || known_wrong(implementation, problem) || inexpressible(problem)) return std::nullopt;
    const auto copied = static_cast<double>(guessed->copied_bytes);
    // What was learnt is taken without asking, which takes longer than choosing may; planning asks. What was not is
    // asked about once nothing is faster: dearer than it is, it might never be; what is unlikely, once nothing else is
    // an eighth as fast.
    const double doubt = guessed->unlikely ? 8 : guessed->learnt && !guessed->sure ? 1.25 : 1;
    return Estimate{{{kLayoutKnob, kLayouts[guessed->any_layout]}},
                    predict(problem, work_on(problem, copied, request), request) * doubt,
                    guessed->learnt};
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& given, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    const AsOneImage asked(given);
    const ConvProblem& problem = asked.problem();
    const auto surveyed = survey(problem);
    const SurveyedImplementation* offer = find(*surveyed, knobs);
    if (offer == nullptr) {
      return Error{ErrorCode::unsupported,
                   fmt::format("{} is not offered with layout={}", info_.name, word_or(knobs, kLayoutKnob, {}))};
    }
    return make_convolution_plan(problem, *offer, request);
  }

 private:
  // What the problem is offered with the knobs; null: nothing.
  const SurveyedImplementation* find(Survey& surveyed, const KnobValues& knobs) const {
    const std::string_view layout = word_or(knobs, kLayoutKnob, {});
    return layout.empty() ? surveyed.find(row_) : surveyed.find(row_, layout == kLayouts[true]);
  }

  // Rows without a level run what the processor has: like those of the highest.
  static Isa fitted_isa(const Implementation& implementation) {
    return implementation.level.empty() ? Isa::avx512 : implementation.min_isa();
  }

  static cost::Products fitted_products(const Implementation& implementation) {
    if (takes_everything(implementation) && processor_has("amx")) return cost::Products::tiles;
    return processor_has("avx512_bf16") ? cost::Products::native : cost::Products::emulated;
  }

  Work work(const ConvProblem& given, const KnobValues& knobs, const PlanRequest& request) const override {
    const AsOneImage asked(given);
    const ConvProblem& problem = asked.problem();
    const auto surveyed = survey(problem);
    const SurveyedImplementation* offer = find(*surveyed, knobs);
    return work_on(problem, offer != nullptr ? static_cast<double>(offer->reordered_bytes) : 0, request);
  }

  // The products at the implementation's rate, channels padded to a vector; all tensors moved once; the calls
  // themselves. Weights that come with each execution are reordered, too.
  Work work_on(const ConvProblem& problem, double copied_bytes, const PlanRequest& request) const {
    constexpr double bandwidth = 10e9;  // bytes/s of a core, cold
    constexpr double call_seconds = 3e-6;
    const Implementation& implementation = implementations()[row_];
    const bool integers = problem.compute == DataType::s32;
    const bool wide = problem.x.type == DataType::f32 && problem.w.type == DataType::f32;
    const double rate = 1e9 * (integers ? implementation.int8 : wide ? implementation.f32 : implementation.half);
    if (request.constant_weights == nullptr) copied_bytes += static_cast<double>(problem.w.bytes());
    const double seconds = flops(problem) * padding_factor(problem) / rate + bytes_moved(problem) / bandwidth +
                           call_seconds * (copied_bytes > 0 ? 3 : 1);
    return {seconds, copied_bytes,
            implementation.family == "gemm" ? beyond_fitted_seconds(problem, request)
            : implementation.family == "brgconv_1x1" && wide
                ? one_pixel_seconds(problem)
                : shared_lines_seconds(implementation, problem, request.threads, seconds),
            parts_of(implementation, problem)};
  }

  // The pointwise convolution by small products reads the weights of a single pixel slowly. The models know few such:
  // 48 to 2048 channels took 9 to 170 us longer than jit_1x1's (a Zen 4, and a Zen 3 the largest).
  static double one_pixel_seconds(const ConvProblem& problem) {
    constexpr double call_seconds = 10e-6, bytes_per_second = 35e9;
    if (problem.pass != Pass::fprop || problem.y.elements() != problem.w.dims[0]) return 0;
    return call_seconds + static_cast<double>(problem.w.bytes()) / bytes_per_second;
  }

  // The direct convolution of 8 bits divides sets of up to four vectors of filters among the threads. A set has fewer
  // where its row of outputs would end in a tile of one, and for 3x3 filters over many channels. Then two threads write
  // to one cache line of y: measured on a Zen 5, 12 to 29 ns a line, where one thread took 9; within a network, where
  // both begin together, up to 45.
  static double shared_lines_seconds(const Implementation& implementation, const ConvProblem& problem, int threads,
                                     double seconds) {
    constexpr double line_seconds = 45e-9;
    constexpr std::int64_t vector_bytes = 16, line_bytes = 64;
    if (implementation.family != "jit_int8" || problem.groups != 1) return 0;
    if (size_of(problem.y.type) != 1 || problem.x.dims[0] >= threads) return 0;
    const std::int64_t width = problem.y.dims.back(), filters = problem.w.dims[0];
    if (filters % vector_bytes != 0) return 0;
    const std::int64_t registers = problem.x_zero_point != 0 || problem.x_zero_given ? 28 : 31;
    const Dims& w = problem.w.dims;
    const bool halved = implementation.level == "avx512_vnni" && problem.x.dims[0] == 1 && w.size() == 4 && w[2] == 3 &&
                        w[3] == 3 && problem.stride.back() == 1 && w[1] % 64 == 0;
    std::int64_t set = std::min<std::int64_t>(halved ? 2 : 4, filters / vector_bytes);
    for (; set > 1; --set) {
      const std::int64_t tile = std::min(width, registers / (set + 1));
      if (filters / vector_bytes % set == 0 && width % tile != 1) break;
    }
    const bool one_set = set * vector_bytes == filters, whole_lines = set * vector_bytes % line_bytes == 0;
    if (one_set || whole_lines || (filters % threads == 0 && filters / threads % line_bytes == 0)) return 0;
    const std::int64_t lines = problem.y.elements() / filters;
    return std::max(0.0, static_cast<double>(lines) * line_seconds * threads - seconds);
  }

  // The direct convolution takes all pixels for one row where the filter has one position, and threads share rows and
  // sets of up to 64 filters: with 64 filters or fewer two threads took as long as one (0.9 to 1.1 times, a Xeon).
  static std::int64_t parts_of(const Implementation& implementation, const ConvProblem& problem) {
    constexpr std::int64_t filters_of_set = 64;
    if (implementation.family != "jit" || implementation.level != "avx512" || problem.pass != Pass::fprop) return 0;
    const Dims& window = problem.w.dims;
    if (std::any_of(window.begin() + 2, window.end(), [](std::int64_t size) { return size > 1; })) return 0;
    const std::int64_t filters = problem.w.dims[0] / problem.groups;
    return problem.x.dims[0] * problem.groups * ((filters + filters_of_set - 1) / filters_of_set);
  }

  // The models of the float GEMM are fitted with AVX-512 and without post-ops. With AVX2 (an EPYC of 512 KB L2, eleven
  // pointwise layers) its products took 1.07 to 2.14 times as long as jit_1x1's, predictions 0.8 to 0.95 times.
  static double beyond_fitted_seconds(const ConvProblem& problem, const PlanRequest& request) {
    constexpr double rate = 200e9;  // flops/s, on top of what AVX-512 takes
    const double products = request.cpu.isa < Isa::avx512 ? flops(problem) / rate : 0;
    return products + separate_epilogue_seconds(problem);
  }

  // The float GEMM computes post-ops an element at a time, after the product. Measured at 96 x 112 x 112 outputs.
  static double separate_epilogue_seconds(const ConvProblem& problem) {
    const Epilogue& epilogue = problem.epilogue;
    double each = (epilogue.bias ? 0.5e-9 : 0) + (epilogue.adds_z() ? 1e-9 : 0);
    switch (epilogue.activation.kind) {
      case ActivationKind::identity:
        break;
      case ActivationKind::relu:
      case ActivationKind::clip:
      case ActivationKind::leaky_relu:
      case ActivationKind::prelu:
        each += epilogue.adds_z() ? 20e-9 : 6e-9;
        break;
      default:
        each += 18e-9;
    }
    return each * static_cast<double>(problem.out().elements());
  }

  static std::string placement(const TensorDesc& desc) {
    const Layout layout = desc.layout();
    if (layout == Layout::strided)
      return fmt::format("{},{},strides={}", name_of(desc.type), to_string(desc.dims), to_string(desc.strides));
    return fmt::format("{},{},{}", name_of(desc.type), to_string(desc.dims), name_of(layout, desc.spatial_dims()));
  }

  // Products computed for one that is asked for: a group's channels fill vectors of 16.
  double padding_factor(const ConvProblem& problem) const {
    if (implementations()[row_].shape == Shape::depthwise) return 1;
    const auto padded = [](std::int64_t channels) {
      const std::int64_t filled = (channels + 15) / 16 * 16;
      return static_cast<double>(filled) / static_cast<double>(channels);
    };
    return padded(problem.w.dims[0] / problem.groups);
  }

  std::size_t row_;
};

}  // namespace

std::span<const Engine* const> engines() {
  // Never destroyed: convolutions may run while the process ends.
  static const auto& engines = *[] {
    auto* all = new std::vector<const Engine*>;
    for (std::size_t row = 0; row < implementations().size(); ++row) all->push_back(new ImplementationEngine(row));
    return all;
  }();
  return engines;
}

}  // namespace convoy::onednn
