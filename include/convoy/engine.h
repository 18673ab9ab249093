// Engines, candidates, refusals and plans: what every convolution engine implements and every selection works with.
// Adding one: docs/add-an-engine.md.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "convoy/convolution.h"
#include "convoy/cpu.h"
#include "convoy/device.h"
#include "convoy/result.h"
#include "convoy/thread_team.h"

namespace convoy {

// A bool is none, it would read back as a number; nor is a char, which may be meant as a word.
template <class T>
concept KnobNumber = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;

// What a knob is set to: a number, or a word where it chooses among kinds ("bands"). A word begins with a letter and
// has letters, digits, '.', '_' and '-'.
class KnobSetting {
 public:
  KnobSetting(KnobNumber auto number) : setting_(static_cast<std::int64_t>(number)) {}
  KnobSetting(std::convertible_to<std::string_view> auto const& word) : setting_(std::string(std::string_view(word))) {}

  // Null where it is a word; where it is a number.
  const std::int64_t* number() const { return std::get_if<std::int64_t>(&setting_); }
  const std::string* word() const { return std::get_if<std::string>(&setting_); }
  friend bool operator==(const KnobSetting&, const KnobSetting&) = default;

 private:
  std::variant<std::int64_t, std::string> setting_;
};
std::string print(const KnobSetting& setting);

struct KnobValue {
  std::string name;
  KnobSetting value = 0;
  friend bool operator==(const KnobValue&, const KnobValue&) = default;
};
using KnobValues = std::vector<KnobValue>;  // sorted by name

// What can be tuned about an engine for one problem.
struct Knob {
  std::string name;                 // "m", "kernel"
  std::vector<KnobSetting> values;  // that it has in some configuration; the default's first
  std::string text;                 // one line for people
};

// An engine's configurations for one problem: all combinations of its knobs' values, or, where not all of them go
// together, those that are listed. Listed ones needn't have the same knobs: "kernel=strips" may have others than
// "kernel=patches".
struct Configurations {
  std::vector<Knob> knobs;         // none: there is nothing to tune
  std::vector<KnobValues> listed;  // the default first; empty: all combinations, the first values the default
};
// The knobs' values are those that the list has; `knobs` says their names and texts.
Configurations listed_configurations(std::vector<KnobValues> listed, std::vector<Knob> knobs);

// An engine and one of its configurations: "cpu.winograd{m=4}", "cuda.depthwise{columns=7,kernel=planes,rows=4}". This
// is what is stored, printed and asked for; never an index. Who writes one may leave knobs out (completed() below).
struct Candidate {
  std::string engine;
  KnobValues knobs;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};
std::string print(const Candidate& candidate);
Result<Candidate> parse_candidate(std::string_view text);

enum class RefusalCode : std::uint8_t {
  device,
  instruction_set,
  pass,
  data_type,
  layout,
  spatial_dims,
  groups,
  channels,
  filter,
  stride,
  dilation,
  padding,
  mode,
  scaling,
  epilogue,
  alignment,
  size,
  workspace,
  filtered,
  knob,
  not_offered,  // a provider has no such implementation for the problem
  not_built,
};
std::string_view name_of(RefusalCode code);

// Why an engine can't run a problem: a value, not an error. The reason names the field at fault and its value:
// "groups=32: this engine needs C/groups to be a multiple of 8, it is 4".
struct Refusal {
  RefusalCode code = RefusalCode::not_built;
  std::string reason;
};

// x, w, y and accumulator types that go together.
struct TypeCombination {
  DataType x, w, y, compute;
  friend bool operator==(const TypeCombination&, const TypeCombination&) = default;
};
struct LayoutPair {
  Layout x, y;
};

// Notes that selection knows; engines may have others.
namespace note {
inline constexpr std::string_view winograd = "WINOGRAD";  // the wider tolerance of core/tolerance.h
inline constexpr std::string_view fft = "FFT";            // likewise
inline constexpr std::string_view tf32 = "TF32";          // f32 inputs are rounded to tf32
inline constexpr std::string_view down_convert_inputs = "DOWN_CONVERT_INPUTS";
inline constexpr std::string_view reduced_precision_reduction = "REDUCED_PRECISION_REDUCTION";
inline constexpr std::string_view runtime_compilation = "RUNTIME_COMPILATION";
inline constexpr std::string_view nondeterministic = "NONDETERMINISTIC";  // other bits each time, for this problem
}  // namespace note

// What an engine declares. The core enforces it (`refuse` below): engines don't check it again. What is not declared is
// refused, so an engine that is only named runs nothing.
struct EngineInfo {
  // max_elements of engines that compute with 64-bit indices.
  static constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();

  std::string name;      // stable: "cpu.winograd"
  int revision = 1;      // raise it when results or speed change: stored measurements of older revisions are dropped
  std::string provider;  // library it comes from, with all that changes its code: "oneDNN 3.2.0"; empty: Convoy
  std::string summary;   // one line for `convoy list engines`
  DeviceKind device = DeviceKind::cpu;  // the kind it runs on
  std::optional<int> min_architecture;  // on CUDA: the oldest CudaDevice::architecture; 0: any that there is
  std::optional<Isa> min_isa;           // on the CPU: the least instruction set
  std::vector<Pass> passes;
  std::vector<TypeCombination> types;
  bool any_types = false;           // besides: all that validate() accepts
  std::vector<LayoutPair> layouts;  // packed layouts of x and y
  bool any_layouts = false;         // besides: any strides and blocking
  bool any_weight_strides = false;  // otherwise w must be packed nchw (KCRS)
  int min_spatial_dims = 1;
  int max_spatial_dims = 0;
  bool groups = false;      // takes groups > 1
  bool strided = false;     // takes stride > 1
  bool dilated = false;     // takes dilation > 1
  bool flipped = false;     // takes mode=convolution
  bool alpha_beta = false;  // takes alpha != 1 or beta != 0
  bool bias = false;
  bool narrow_bias = false;                 // takes a bias of out's 16-bit type
  bool float_bias = false;                  // takes a bias of f32 in integer problems
  bool residual = false;                    // takes gamma != 0
  std::vector<ActivationKind> activations;  // fused ones besides identity
  bool any_activation = false;              // besides: all of them
  bool requantize = false;
  bool quantized_residual = false;  // takes Epilogue::residual
  bool zero_points = false;         // takes nonzero zero points
  bool given_zero_points = false;   // takes those that come with each execution
  bool gate = false;                // takes ConvProblem::gate
  bool deterministic = false;       // same bits for the same build, device architecture and thread count
  bool thread_invariant = false;    // and for any thread count
  std::int64_t max_elements = std::numeric_limits<std::int32_t>::max();  // of any one tensor
  bool oracle = false;             // never chosen by a heuristic; measured only when named
  std::vector<std::string> notes;  // numerical and behaviour notes: "WINOGRAD", "TRANSFORMED_WEIGHTS"
  bool notes_vary = false;         // Engine::notes() says others for some problems or knobs
};

// Declares everything that a problem may be, on every device of info.device's kind: for oracles, and for tests.
void declare_everything(EngineInfo& info);

// Pointers for one execution; on CUDA all of them point into the device's memory. The tensor that the pass computes is
// `out`; its own field among x, w, y is ignored.
struct ConvArgs {
  const void* x = nullptr;
  const void* w = nullptr;  // ignored when the plan was made with constant weights
  const void* y = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;     // one per output channel, of ConvProblem::bias_type()
  const void* z = nullptr;        // described like out
  const float* slopes = nullptr;  // prelu: one per output channel
  const float* scales = nullptr;  // requantization: 1 or one per output channel
  // Zero points that are `given`, values of x's and w's types: 1 for x, one per output channel for w.
  const std::int32_t* x_zero_point = nullptr;
  const std::int32_t* w_zero_points = nullptr;
  const void* gate = nullptr;  // N x C values of x's type, aligned as x is
};

// Where and with what one execution runs.
struct ExecContext {
  Queue& queue;  // of the kind of device that the plan was made for
  void* workspace =
      nullptr;  // memory of that device: at least workspace_bytes() of the plan, aligned to 64, on CUDA 256
  std::size_t workspace_bytes = 0;

  // A processor's threads: as many as the plan was made for, or fewer.
  ThreadTeam& team() const { return static_cast<ThreadTeam&>(queue); }
  // A GPU's CUstream.
  void* stream() const { return static_cast<const CudaQueue&>(queue).stream(); }
};

class Device;  // src/device/device.h

// What a plan is made for, besides the problem.
struct PlanRequest {
  int threads = 1;
  CpuFeatures cpu = cpu_features();        // the processor's, or capped
  const void* constant_weights = nullptr;  // w, alive during plan(): it is packed once into the plan. Null: w comes
                                           // with each execution and is packed into the workspace every time. Always
                                           // null on CUDA.
  std::optional<CudaDevice> cuda = {};     // the GPU it runs on; unset: the processor
  int target_sms = 0;                      // on CUDA: leave the other SMs to somebody else; 0: all of them
  const Device* device = nullptr;          // a caller's own; null: this machine's processor, or GPU of that ordinal

  DeviceKind kind() const { return cuda ? DeviceKind::cuda : DeviceKind::cpu; }
  // Whether constant weights are packed into the problem's plan.
  bool packs_weights(const ConvProblem& problem) const { return !cuda && problem.pass != Pass::wgrad; }
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

// A candidate made ready. Immutable: any number of threads may execute one plan at once, each with its own context.
// Common to convolutions and to the other operators of a network (src/ops).
class Plan {
 public:
  virtual ~Plan() = default;
  virtual Candidate candidate() const = 0;                  // all knobs spelled out
  virtual std::size_t workspace_bytes() const = 0;          // scratch an execution needs
  virtual std::size_t retained_bytes() const { return 0; }  // memory the plan itself holds (packed weights, code)
  virtual std::vector<std::string> notes() const { return {}; }
  virtual std::string description() const { return {}; }  // how it is carried out, for people: parts, fusions, splits
};

class ConvPlan : public Plan {
 public:
  // On CUDA it only enqueues on the context's stream: it never waits, and errors of the launch come back at once.
  virtual Result<void> execute(const ConvArgs& args, const ExecContext& context) const = 0;
};

// What heuristic selection asks of an engine, at once.
struct Estimate {
  KnobValues knobs;     // the default configuration
  double seconds = 0;   // predict_seconds() with them
  bool certain = true;  // false: a guess from the problem alone. True may be learnt, too: select() makes sure
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual const EngineInfo& info() const = 0;

  // The limits that the declaration can't express. Called only for problems the declaration admits.
  virtual std::optional<Refusal> check(const ConvProblem&, const PlanRequest&) const { return std::nullopt; }

  // What there is to tune for this problem. Called only for problems that were not refused.
  virtual Configurations configurations(const ConvProblem&, const PlanRequest&) const { return {}; }

  // The notes of one candidate, where the problem or the knobs decide (say, that inputs are rounded to tf32).
  virtual std::vector<std::string> notes(const ConvProblem&, const KnobValues&, const PlanRequest&) const {
    return info().notes;
  }

  // Predicted seconds for the problem with these knobs: what heuristic selection ranks by.
  virtual double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const = 0;

  // certain_estimate() below, unless an engine can answer sooner, possibly without being certain. Called like check().
  virtual std::optional<Estimate> estimate(const ConvProblem&, const PlanRequest&) const;

  // The terms of the fitted model behind predict_seconds() (src/engines/cost); empty: none is.
  virtual std::vector<double> cost_terms(const ConvProblem&, const KnobValues&, const PlanRequest&) const { return {}; }

  // Called only for problems that were not refused, with a configuration of the problem's or, for the default, {}.
  virtual Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem&, const KnobValues&, const PlanRequest&) const = 0;
};

// The first reason why `engine` can't run a (valid) problem where the request says: the declaration, then check().
std::optional<Refusal> refuse(const Engine& engine, const ConvProblem& problem, const PlanRequest& request);

// Whether the declaration alone admits the problem: refuse() without check() and without finding words.
bool admits(const EngineInfo& info, const ConvProblem& problem, const PlanRequest& request);

// check(), the default of configurations() and predict_seconds() in one; nothing: check() refused.
std::optional<Estimate> certain_estimate(const Engine& engine, const ConvProblem& problem, const PlanRequest& request);

KnobValues default_knobs(const Configurations& configurations);

// The first configuration that has all of these values: the default's others where the knobs are independent.
// invalid_argument says which value there is not, or which don't go together.
Result<KnobValues> completed(const KnobValues& values, const Configurations& configurations);

// A knob's number or word; the fallback where it is absent, or the other.
std::int64_t knob_or(const KnobValues& values, std::string_view name, std::int64_t fallback);
std::string_view word_or(const KnobValues& values, std::string_view name, std::string_view fallback);

// Every engine of this build, of every kind of device, in the fixed order of src/engines/table.cc. (Defined by
// src/engines.)
const std::vector<const Engine*>& all_engines();

}  // namespace convoy
