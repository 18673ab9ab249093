#include "engines/cuda/reference/reference_kernels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "core/epilogue.h"
#include "device/cuda/device.h"
#include "engines/cuda/compiler/constants.h"

namespace convoy::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kLongSum = 2048;  // products from which a block shares a sum

ReferenceTensor tensor_of(const TensorDesc& desc) {
  ReferenceTensor t{};
  const int missing = 3 - desc.spatial_dims();
  for (int i = 0; i < 5; ++i) {
    t.dims[i] = i < 2 ? desc.dims[i] : i < 2 + missing ? 1 : desc.dims[i - missing];
    t.strides[i] = i < 2 ? desc.strides[i] : i < 2 + missing ? 0 : desc.strides[i - missing];
  }
  t.block = desc.channel_block;
  return t;
}

void spread(const Dims& values, long long fill, long long (&to)[3]) {
  const std::size_t missing = 3 - values.size();
  for (std::size_t i = 0; i < 3; ++i) to[i] = i < missing ? fill : values[i - missing];
}

// Threads that share a sum.
int team_for(const ConvProblem& problem) { return reference_terms(problem) >= kLongSum ? kThreads : 1; }

std::string constants_for(const ConvProblem& problem, int team) {
  Constants constants;
  constants.enumerations();
  constants.set("PASS", static_cast<int>(problem.pass));
  constants.set("X_TYPE", static_cast<int>(problem.x.type)).set("W_TYPE", static_cast<int>(problem.w.type));
  constants.set("Y_TYPE", static_cast<int>(problem.y.type)).set("COMPUTE_TYPE", static_cast<int>(problem.compute));
  constants.set("TEAM", team).set("THREADS", kThreads);
  return constants.text();
}

}  // namespace

ReferenceArgs reference_args(const ConvProblem& problem, const ConvArgs& args) {
  const Epilogue& epilogue = problem.epilogue;
  ReferenceArgs r{};
  r.x = tensor_of(problem.x);
  r.w = tensor_of(problem.w);
  r.y = tensor_of(problem.y);
  r.out = tensor_of(problem.out());
  const bool dgrad = problem.pass == Pass::dgrad;
  const bool wgrad = problem.pass == Pass::wgrad;
  r.a = dgrad ? args.y : args.x;
  r.b = wgrad ? args.y : args.w;
  r.a_zero = dgrad ? problem.y_zero_point : problem.x_zero_point;
  r.b_zero = wgrad ? problem.y_zero_point : problem.w_zero_point;
  if (problem.x_zero_given) r.a_zero_given = args.x_zero_point;
  if (problem.w_zero_given) r.b_zeros_given = args.w_zero_points;
  if (problem.gate) r.gate = args.gate;
  r.prior = args.out;
  r.bias = epilogue.bias ? args.bias : nullptr;
  r.narrow_bias = epilogue.narrow_bias ? 1 : 0;
  r.float_bias = epilogue.float_bias ? 1 : 0;
  r.z = args.z;
  r.slopes = epilogue.activation.kind == ActivationKind::prelu ? args.slopes : nullptr;
  r.scales = epilogue.requantize != Requantize::none ? args.scales : nullptr;
  spread(problem.pre_padding, 0, r.pad);
  spread(problem.stride, 1, r.stride);
  spread(problem.dilation, 1, r.dilation);
  r.c_per_group = problem.in_channels() / problem.groups;
  r.k_per_group = problem.out_channels() / problem.groups;
  r.alpha = problem.alpha;
  r.beta = problem.beta;
  r.gamma = epilogue.gamma;
  r.activation = static_cast<int>(epilogue.activation.kind);
  r.activation_a = epilogue.activation.a;
  r.activation_b = epilogue.activation.b;
  r.flipped = problem.mode == ConvMode::convolution ? 1 : 0;
  r.scale_per_channel = epilogue.requantize == Requantize::per_channel ? 1 : 0;
  r.rounds = epilogue.requantize != Requantize::none && is_integer(problem.out().type) ? 1 : 0;
  r.out_zero = problem.y_zero_point;
  if (const auto& residual = epilogue.residual) {
    r.residual = 1;
    r.t_zero = residual->zero_point;
    r.z_zero = residual->z_zero_point;
    r.t_scale = residual->scale;
    r.z_scale = residual->z_scale;
    std::tie(r.low, r.high) = byte_limits(problem.out().type);
  }
  return r;
}

std::int64_t reference_terms(const ConvProblem& problem) {
  if (problem.pass == Pass::wgrad) return problem.y.elements() / std::max<std::int64_t>(1, problem.out_channels());
  const std::int64_t taps = problem.w.elements() / std::max<std::int64_t>(1, problem.w.dims[0] * problem.w.dims[1]);
  return taps * (problem.pass == Pass::fprop ? problem.w.dims[1] : problem.out_channels() / problem.groups);
}

KernelRequest reference_request(const ConvProblem& problem, int architecture) {
  return {"reference.cu", constants_for(problem, team_for(problem)), architecture};
}

Result<void> compile_references(std::span<const ConvProblem> problems, int architecture) {
  std::vector<KernelRequest> requests;
  for (const ConvProblem& problem : problems) {
    KernelRequest request = reference_request(problem, architecture);
    const bool known = std::ranges::any_of(requests, [&](const auto& r) { return r.constants == request.constants; });
    if (!known) requests.push_back(std::move(request));
  }
  CONVOY_TRY([[maybe_unused]] const auto images, compile_all(requests));
  return {};
}

Result<std::shared_ptr<const ReferenceKernels>> ReferenceKernels::get(const ConvProblem& problem,
                                                                      const CudaDevice& device) {
  using Key = std::tuple<int, Pass, DataType, DataType, DataType, DataType, int>;
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::map<Key, std::shared_ptr<const ReferenceKernels>>;
  const int team = team_for(problem);
  const Key key{device.ordinal, problem.pass, problem.x.type, problem.w.type, problem.y.type, problem.compute, team};
  const std::lock_guard lock(mutex);
  if (const auto found = kept.find(key); found != kept.end()) return found->second;
  const KernelRequest request = reference_request(problem, device.architecture);
  CONVOY_TRY(const std::vector<KernelImage> images, compile_all({&request, 1}));
  CONVOY_TRY(Module module, Module::load(device.ordinal, images[0], "cuda.reference"));
  std::shared_ptr<ReferenceKernels> made(new ReferenceKernels(std::move(module), team));
  made->ordinal_ = device.ordinal;
  made->sms_ = std::max(1, device.sm_count);
  CONVOY_TRY(made->reference_, made->module_.kernel("reference"));
  CONVOY_TRY(made->evaluate_, made->module_.kernel("evaluate"));
  CONVOY_TRY(made->gather_, made->module_.kernel("gather"));
  CONVOY_TRY(made->largest_, made->module_.kernel("largest"));
  CONVOY_TRY(made->difference_, made->module_.kernel("difference"));
  kept.emplace(key, made);
  return std::shared_ptr<const ReferenceKernels>(made);
}

Launch ReferenceKernels::shape(std::int64_t elements, int team) const {
  const std::int64_t blocks = (elements + kThreads / team - 1) / (kThreads / team);
  Launch launch;
  launch.grid.x = static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, std::int64_t{sms_} * 64));
  launch.block.x = kThreads;
  return launch;
}

Result<void> ReferenceKernels::reference(const ReferenceArgs& args, std::int64_t outputs, void* out, void* stream,
                                         int target_sms) const {
  void* arguments[] = {const_cast<ReferenceArgs*>(&args), &out};
  Launch all = shape(outputs, team_);
  if (target_sms > 0) CONVOY_CHECK(keep_within(ordinal_, target_sms, reference_, all));
  return launch(reference_, all, arguments, static_cast<CUstream>(stream));
}

Result<void> ReferenceKernels::evaluate(const ReferenceArgs& args, const std::int64_t* indices, std::int64_t count,
                                        ReferenceRecord* records, void* stream) const {
  void* arguments[] = {const_cast<ReferenceArgs*>(&args), &indices, &count, &records};
  return launch(evaluate_, shape(count, team_), arguments, static_cast<CUstream>(stream));
}

Result<void> ReferenceKernels::gather(const ReferenceArgs& args, const void* out, const std::int64_t* indices,
                                      std::int64_t count, double* values, double* padding, void* stream) const {
  void* arguments[] = {const_cast<ReferenceArgs*>(&args), &out, &indices, &count, &values, &padding};
  return launch(gather_, shape(count, 1), arguments, static_cast<CUstream>(stream));
}

Result<void> ReferenceKernels::largest(const ReferenceArgs& args, std::uint64_t* result, void* stream) const {
  void* arguments[] = {const_cast<ReferenceArgs*>(&args), &result};
  return launch(largest_, shape(std::int64_t{sms_} * 2048, 1), arguments, static_cast<CUstream>(stream));
}

Result<void> ReferenceKernels::difference(const void* expected, const void* actual, std::int64_t count,
                                          std::uint64_t* results, void* stream) const {
  void* arguments[] = {&expected, &actual, &count, &results};
  return launch(difference_, shape(std::min(count, std::int64_t{sms_} * 2048), 1), arguments,
                static_cast<CUstream>(stream));
}

}  // namespace convoy::cuda
