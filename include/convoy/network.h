// Networks: an ONNX model, made ready for concrete input sizes and run. Before and after main as
// convoy/plan_cache.h says it of convolutions: networks may be loaded, prepared, run and tuned as long as the process
// runs code; only sessions with onednn.* steps return `unsupported` once oneDNN's own statics are destroyed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/host_tensor.h"
#include "convoy/network_plan.h"
#include "convoy/selection.h"
#include "convoy/thread_team.h"

namespace convoy {

// An input or output of a model as the file declares it.
struct NetworkValue {
  std::string name;
  DataType type = DataType::f32;
  bool known_rank = true;
  Dims dims;                           // -1 where the size is free
  std::vector<std::string> dim_names;  // "" or the symbolic name, one per dim
  // Inputs: dims, with sizes for the free ones where the model's metadata ("convoy.size.NAME") has some: what to take
  // where nothing else decides.
  Dims proposed_dims;
};

// What the memory of activations and weights is to be, in plans that `how` "global" makes; other ways don't take one.
struct MemoryGoal {
  std::optional<std::int64_t> activation_limit;  // bytes of Session::activation_bytes(), of all runs at once
  std::optional<std::int64_t> weight_limit;      // bytes of Session::weight_bytes()
  bool least = false;                            // of activations as few as possible, and then the least time
  double weight = 0;   // of activation bytes over the least there are, beside seconds over the least there are; 0: none
  bool exact = false;  // proved, or found, by an integer program where prices leave a gap: needs the program CBC
  bool asked() const { return activation_limit || weight_limit || least || weight > 0; }
};

// What a network's plan is to be small in: "time", "memory" (of activations, and then time), "energy" (where it can be
// measured: `unsupported` when a plan is made where not), or weights between time and one of the others,
// "time=1,memory=0.5": each term is the plan's value over the least that any has, by costs of its steps. But for time
// for how = "global" only. "workspace" is one for choosing engines (parse_objective), with time only. Error:
// invalid_argument.
struct NetworkObjective {
  Objective objective;  // SelectionOptions::objective
  bool least_memory = false;
  double memory = 0;  // MemoryGoal::weight
};
Result<NetworkObjective> parse_network_objective(std::string_view text);

struct NetworkOptions {
  int threads = 1;
  CpuFeatures cpu = cpu_features();  // the processor's, or capped
  SelectionOptions selection;
  MathMode math = MathMode::strict;  // of its convolutions
  // What nodes of f32 may run in instead: bf16 or f16, tensors and all; f32: they stay what they are. All run so that
  // can; with how = "global" and "local" those that are faster so. Weights are rounded when the network is prepared,
  // sums are f32.
  DataType precision = DataType::f32;
  // By node (its line in a plan, whichever fusions that undoes): what running it in `precision`, and nothing else, adds
  // to the outputs' relative error; with precision = f32 of convolutions, what `math` adds. Empty: it does not matter.
  // Else those not listed stay f32, strictly, and with how = "global" the errors' squares add up to error_limit's at
  // most.
  std::map<std::string, double> precision_errors;
  double error_limit = 0;
  // How nodes get their layouts (docs/plans.md): "greedy", "global", "local", or one layout wherever a node can work in
  // it: "uniform:nhwc", "uniform:nchw", "uniform:nchw8c", "uniform:nchw16c".
  std::string how = "greedy";
  MemoryGoal memory;
  // Obeyed in place of `how` and of choosing. What does not fit is an error that names the line; with lenient_plan it
  // is chosen again, and Session::remarks() says so. Parts of a network whose sizes are known when it runs only are in
  // no plan.
  std::optional<NetworkPlan> plan;
  bool lenient_plan = false;
  // A folder of plans that choose_plan() kept (convoy/network_tuning.h): one that is there for this graph, processor,
  // threads and math is obeyed in place of `how`; empty: none. One that doesn't fit is a remark, and `how` decides.
  std::string kept_plans;
  std::vector<std::string> skip_passes;  // improvements of the graph to leave out (network_passes())
  // Nothing: as the plan says that is obeyed, else what is predicted to take least. Parts that the network can't be run
  // in, or that don't make up the batch, are an error.
  std::optional<BatchParts> parts;
  // The caller's threads, as many as `threads`; null: OpenMP's. Sessions run on them, measuring doesn't. oneDNN has
  // threads of its own, OpenMP's in any case: selection.filter.engines = "!onednn.*" keeps convolutions from it.
  std::shared_ptr<ThreadTeam> team;
  bool team_serves_several = false;  // several threads may be in its run() at once; else a session runs once at a time
  // The GPU that is the network's home (docs/gpu-networks.md); nothing: the processor. Weights and activations lie
  // there; what it doesn't run goes to the processor, with copies as steps, and Session::remarks() says so. `how` is
  // "greedy" or "uniform:" with nhwc or nchw: greedy takes nhwc throughout where convolutions are of 16 bits or tf32.
  std::optional<CudaDevice> cuda;
  bool graphs = true;  // on a GPU: steps that follow each other are captured at the second run, launched at others
  bool synchronous = false;  // on a GPU: waits after each step, so that an error is that of the step it names
  // On a GPU: bytes there of weights, activations, workspaces and graphs, of all runs at once. Where a single run takes
  // more, the error says what it takes and of which batch one would fit.
  std::optional<std::int64_t> device_memory_limit;
};

// One step of a prepared network, in execution order, for reports.
struct NetworkStep {
  std::string kind;            // "conv", "op", "convert" (a layout change)
  std::string nodes;           // names of the ONNX nodes it computes, "conv1+bn1+relu1"
  std::string implementation;  // candidate of a conv; provider and name of an op ("onednn.pooling", "ops.gather")
  ConvProblem problem;         // conv only
  Selection selection;         // conv only
  std::string step_problem;    // op and convert: "op:Relu:x=...", which convoy bench times; empty: known when it runs
  std::string output_shape;    // "1x64x56x56 nhwc"
  int threads = 1;             // of the processor, that it runs on
  std::string device = "cpu";  // or "cuda:0"; a copy's is the one that it is not of the processor
  // What it reads and writes first, as it lies; nothing where that is a constant, or known only when it runs.
  std::optional<TensorDesc> reads, writes;
  // The steps that make what it reads, in the order of its inputs, each once; -1 - i: the network's i-th input.
  std::vector<int> inputs;
  std::size_t workspace_bytes = 0;
};

// A piece of the memory for activations, and the steps that it is kept for, both ends included: the last may be the one
// behind all, where it is an output.
struct ActivationBuffer {
  std::int64_t offset = 0, bytes = 0;
  int first = 0, last = 0;
};

// A distinct convolution of a network for concrete input shapes: what preparing it asks an engine for.
struct NetworkConvolution {
  ConvProblem problem;
  bool constant_weights = true;  // otherwise they are computed by the network, or an input of it
  std::int64_t count = 1;
  std::string nodes;                     // of all its occurrences, "conv1+bn1+relu1, conv2"
  CacheState caches = CacheState::cold;  // with which it is timed alone: cold ones are warm in a network that is small
};

struct RunStatistics {
  double seconds = 0;
  // Per step, where they are asked for: once, the mean where it runs for several parts of the batch.
  std::vector<double> step_seconds;
  // On a GPU, from the first step on it to the last, both included: `seconds` without bringing inputs there and outputs
  // back.
  std::optional<double> device_seconds;
  // What is asked for. On a GPU `seconds` is then more than a run takes otherwise.
  bool each_step = true;
};

// When the steps of a run, and what each thread did of them, began and ended: seconds from its start.
struct RunTrace {
  struct Span {
    int step = 0;
    int thread = 0;
    double begin = 0, end = 0;
  };
  std::vector<Span> steps;    // thread 0, which calls; what runs on a GPU by its clock
  std::vector<Span> threads;  // of steps that share work among Convoy's threads; oneDNN has its own and doesn't say.
                              // Where threads have a part of the batch each: the steps of each
  double seconds = 0;
};

// A network for concrete input shapes. Any number of threads may run it at once: they share its steps and their packed
// weights, and each run has memory of its own. So many go on side by side as the processor has threads for (its
// logical_cpus by NetworkOptions::threads), the others wait: for throughput threads = 1 and as many callers as there
// are processors. Memory for runs is made as runs need it, and kept.
class Session {
 public:
  virtual ~Session() = default;
  // Inputs by position, packed nchw, of the shapes and types prepared for. Outputs by position, packed nchw.
  virtual Result<std::vector<HostTensor>> run(std::span<const HostTensor> inputs,
                                              RunStatistics* statistics = nullptr) = 0;
  // The same run, its outputs in the caller's memory where `outputs` (one each) has some; the others get theirs. Steps
  // write there in place where it is aligned to 64 bytes, else it is filled by one copy; it overlaps with no other
  // tensor of the run. Its desc is as outputs() has it; of an output that has none there it says how many bytes there
  // are at most, is afterwards what the output is, and the output is copied. Errors: invalid_argument names the output.
  virtual Result<void> run_into(std::span<const HostTensor> inputs, std::span<HostTensor> outputs,
                                RunStatistics* statistics = nullptr) = 0;
  // The same run of a network at home on a GPU, on tensors there (packed nchw, aligned to 256 bytes): it is enqueued on
  // `stream` (a CUstream of the GPU; null: the default stream) and not waited for. Runs on several streams go on side
  // by side, each with memory of its own, where there is room for it; else one begins when another is done. For each of
  // the last 8 sets of pointers there is a graph. Where the caller captures the stream, the run goes into his graph,
  // with memory of its own that the session keeps: such a graph is launched while the session lives, and not twice at
  // once. Error: unsupported where a step runs on the processor.
  virtual Result<void> enqueue(std::span<const void* const> inputs, std::span<void* const> outputs, void* stream) = 0;
  // What the outputs are, packed nchw; nothing for those whose sizes are known when it has run only.
  virtual const std::vector<std::optional<TensorDesc>>& outputs() const = 0;
  // The same run, timed in full. It takes a little longer.
  virtual Result<RunTrace> trace(std::span<const HostTensor> inputs) = 0;
  virtual const std::vector<NetworkStep>& steps() const = 0;  // of a part of the batch, if it runs in parts
  virtual BatchParts parts() const = 0;
  // How often a step runs, one time after another: once, but for parts.
  virtual int turns() const = 0;
  // On the processor, in the order in which they are first needed; of parts side by side those of one.
  virtual std::vector<ActivationBuffer> activations() const = 0;
  // What preparing it had to decide otherwise than its plan says, and why.
  virtual const std::vector<std::string>& remarks() const = 0;
  virtual std::size_t activation_bytes() const = 0;  // of the memory plan: of one run
  virtual std::size_t weight_bytes() const = 0;
  virtual std::size_t workspace_bytes() const = 0;  // of one run
  // The most runs that have gone on side by side, at least 1: activations and workspace are there so many times.
  virtual int runs_at_once() const = 0;
  // Of the GPU that is its home, held now: weights, and of every run there was at once activations, workspace and
  // graphs. Weights that sessions share count in each. 0: its home is the processor.
  virtual std::size_t device_bytes() const = 0;
};

// A convolution of a network and the candidates that a session holds plans of.
struct ConvolutionCandidates {
  ConvProblem problem;
  std::vector<Candidate> candidates;  // not empty
};

// A session that can be switched between candidates, for comparing them where they run.
class SwitchableSession : public Session {
 public:
  // While nothing runs. From the next run on, every step with the i-th problem that it was prepared with runs on this
  // candidate of it. At first all run on their candidate 0, which is the one that steps() names, with
  // SelectedBy::given.
  virtual void use(std::size_t i, std::size_t candidate) = 0;
};

// What a model's file says of itself, as ONNX's ModelProto has it; empty, or 0, where it says nothing.
struct ModelInfo {
  std::string producer_name, producer_version, domain, description, graph_name, graph_description;
  std::int64_t version = 0;
  // metadata_props, whatever it has there. ONNX gives some keys a meaning (docs/MetadataProps.md of its repository):
  // "Image.NominalPixelRange", "Image.BitmapPixelFormat".
  std::map<std::string, std::string> metadata;
};

class Network {
 public:
  virtual ~Network() = default;
  // Reads and checks a model; external data is looked up in its folder only. An unknown operator fails with
  // `unsupported` and the list of all of them with node names.
  // A path of the form "zoo:NAME" is a model built by zoo_model.
  static Result<std::unique_ptr<Network>> load(const std::string& path);
  static Result<std::unique_ptr<Network>> parse(std::span<const std::byte> onnx, const std::string& name,
                                                const std::string& external_data_folder = {});

  virtual const std::string& name() const = 0;
  virtual const std::vector<NetworkValue>& inputs() const = 0;  // graph inputs that have no initializer
  virtual const std::vector<NetworkValue>& outputs() const = 0;
  virtual int node_count() const = 0;  // in the file, Constant nodes included
  virtual const ModelInfo& info() const = 0;

  // Shape inference, constant folding, fusion, engine selection and the memory plan for these input shapes (one per
  // input). May be called again for other shapes; sessions share weights where they can. `progress` gets each
  // convolution's tuning.
  virtual Result<std::unique_ptr<Session>> prepare(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                                                   const SelectionProgress& progress = {}) const = 0;

  // The same with several candidates for some convolutions. The others, and nodes that a rule of the options decides,
  // run on what prepare would choose for them. The batch is run as a whole where the options name no parts.
  virtual Result<std::unique_ptr<SwitchableSession>> prepare_switchable(
      std::span<const TensorDesc> inputs, const NetworkOptions& options,
      std::span<const ConvolutionCandidates> convolutions) const = 0;

  // What prepare would decide, what each step costs, and prepare's remarks. Errors: those of prepare.
  virtual Result<NetworkPlan> plan(std::span<const TensorDesc> inputs, const NetworkOptions& options,
                                   const SelectionProgress& progress = {}) const = 0;

  // The convolutions that prepare would choose engines for, in the order of their first occurrence, without choosing
  // any and without making plans; of the whole batch where the options name no parts. Those whose shapes depend on
  // values are not among them. Errors: those of prepare.
  virtual Result<std::vector<NetworkConvolution>> convolutions(std::span<const TensorDesc> inputs,
                                                               const NetworkOptions& options) const = 0;
};

// What improves a network's graph before anything is chosen, in the order they run first.
struct NetworkPass {
  std::string_view name;     // "conv_fusion"
  std::string_view summary;  // one line
  bool can_be_skipped = true;
};
std::vector<NetworkPass> network_passes();

// Networks built here, with seeded weights, the same on every machine. `zoo_model` gives the serialized ONNX model; an
// unknown name is an error that lists the names.
std::vector<std::string> zoo_names();
Result<std::string> zoo_description(const std::string& name);  // one line: what it is, which sizes it takes
Result<std::string> zoo_model(const std::string& name);

}  // namespace convoy
