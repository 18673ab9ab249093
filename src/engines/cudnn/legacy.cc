#include "engines/cudnn/legacy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/declared_names.h"
#include "core/provider.h"
#include "core/stages.h"
#include "core/workspace.h"
#include "engines/cudnn/capture.h"
#include "engines/cudnn/graph.h"
#include "engines/cudnn/handle.h"
#include "engines/cudnn/known.h"
#include "engines/cudnn/limits.h"
#include "engines/cudnn/names.h"
#include "engines/cudnn/predict.h"
#include "engines/cudnn/provider.h"

namespace convoy::cudnn {
namespace {

struct Algorithm {
  Pass pass;
  int number;
  const char* meaning;
  bool deterministic = true;
  const char* note = nullptr;
};

constexpr std::array<Algorithm, 21> kAlgorithms = {{
    {Pass::fprop, 0, "implicit GEMM"},
    {Pass::fprop, 1, "implicit GEMM with precomputed indices"},
    {Pass::fprop, 2, "GEMM on an unfolded input"},
    {Pass::fprop, 3, "direct"},
    {Pass::fprop, 4, "FFT", true, "FFT"},
    {Pass::fprop, 5, "FFT by tiles", true, "FFT"},
    {Pass::fprop, 6, "Winograd", true, "WINOGRAD"},
    {Pass::fprop, 7, "Winograd in separate steps", true, "WINOGRAD"},
    {Pass::dgrad, 0, "sums by atomic additions", false},
    {Pass::dgrad, 1, "implicit GEMM"},
    {Pass::dgrad, 2, "FFT", true, "FFT"},
    {Pass::dgrad, 3, "FFT by tiles", true, "FFT"},
    {Pass::dgrad, 4, "Winograd", true, "WINOGRAD"},
    {Pass::dgrad, 5, "Winograd in separate steps", true, "WINOGRAD"},
    {Pass::wgrad, 0, "sums by atomic additions", false},
    {Pass::wgrad, 1, "implicit GEMM"},
    {Pass::wgrad, 2, "FFT", true, "FFT"},
    {Pass::wgrad, 3, "algorithm 0 with precomputed indices", false},
    {Pass::wgrad, 4, "Winograd", true, "WINOGRAD"},
    {Pass::wgrad, 5, "Winograd in separate steps", true, "WINOGRAD"},
    {Pass::wgrad, 6, "FFT by tiles", true, "FFT"},
}};

// One of the older API's descriptors: made and destroyed by functions of its own.
template <class Raw>
class Owned {
 public:
  Owned(cudnnStatus_t (*create)(Raw*), cudnnStatus_t (*destroy)(Raw)) : destroy_(destroy) { status_ = create(&raw_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (raw_ != nullptr) destroy_(raw_);
  }
  Raw get() const { return raw_; }
  cudnnStatus_t status() const { return status_; }

 private:
  cudnnStatus_t (*destroy_)(Raw);
  Raw raw_ = nullptr;
  cudnnStatus_t status_;
};

std::vector<int> ints(const Dims& values) { return {values.begin(), values.end()}; }

Dims in_two_dims(Dims values, std::int64_t height) {
  if (values.size() == 1) values.insert(values.begin(), height);
  return values;
}

// The problem in the older API's terms.
class Description {
 public:
  // Precondition: inexpressible() said nothing.
  Description(const Api& api, const ConvProblem& p)
      : x_(api.CreateTensorDescriptor, api.DestroyTensorDescriptor),
        y_(api.CreateTensorDescriptor, api.DestroyTensorDescriptor),
        w_(api.CreateFilterDescriptor, api.DestroyFilterDescriptor),
        window_(api.CreateConvolutionDescriptor, api.DestroyConvolutionDescriptor) {
    const Shapes shapes = shapes_of(p);
    note(x_.status());
    note(y_.status());
    note(w_.status());
    note(window_.status());
    if (status_ != CUDNN_STATUS_SUCCESS) return;
    const auto tensor = [&](cudnnTensorDescriptor_t raw, const TensorDesc& desc, const Shape& shape) {
      note(api.SetTensorNdDescriptor(raw, type_of(desc.type), static_cast<int>(shape.dims.size()),
                                     ints(shape.dims).data(), ints(shape.strides).data()));
    };
    tensor(x_.get(), p.x, shapes.x);
    tensor(y_.get(), p.y, shapes.y);
    const bool channels_last = p.w.is_packed(Layout::nhwc) && p.x.is_packed(Layout::nhwc);
    note(api.SetFilterNdDescriptor(w_.get(), type_of(p.w.type), channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                   static_cast<int>(shapes.w.dims.size()), ints(shapes.w.dims).data()));
    const std::vector<int> padding = ints(in_two_dims(p.pre_padding, 0));
    note(api.SetConvolutionNdDescriptor(window_.get(), static_cast<int>(padding.size()), padding.data(),
                                        ints(in_two_dims(p.stride, 1)).data(), ints(in_two_dims(p.dilation, 1)).data(),
                                        p.mode == ConvMode::convolution ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION,
                                        type_of(p.compute)));
    note(api.SetConvolutionGroupCount(window_.get(), static_cast<int>(p.groups)));
    // With f32 the default allows tf32; tensor cores on 16 bits lose nothing.
    const bool f32 = p.x.type == DataType::f32;
    note(api.SetConvolutionMathType(window_.get(), f32 && p.math == MathMode::strict ? CUDNN_FMA_MATH
                                                   : f32 && p.math == MathMode::reduced
                                                       ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                                       : CUDNN_DEFAULT_MATH));
  }

  cudnnStatus_t status() const { return status_; }

  cudnnStatus_t workspace(const Api& api, cudnnHandle_t handle, const Algorithm& algorithm, std::size_t& bytes) const {
    switch (algorithm.pass) {
      case Pass::fprop:
        return api.GetConvolutionForwardWorkspaceSize(handle, x_.get(), w_.get(), window_.get(), y_.get(),
                                                      static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), &bytes);
      case Pass::dgrad:
        return api.GetConvolutionBackwardDataWorkspaceSize(handle, w_.get(), y_.get(), window_.get(), x_.get(),
                                                           static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number),
                                                           &bytes);
      default:
        return api.GetConvolutionBackwardFilterWorkspaceSize(
            handle, x_.get(), y_.get(), window_.get(), w_.get(),
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), &bytes);
    }
  }

  cudnnStatus_t run(const Api& api, cudnnHandle_t handle, const Algorithm& algorithm, const ConvArgs& args,
                    const void* alpha, const void* beta, void* workspace, std::size_t bytes) const {
    switch (algorithm.pass) {
      case Pass::fprop:
        return api.ConvolutionForward(handle, alpha, x_.get(), args.x, w_.get(), args.w, window_.get(),
                                      static_cast<cudnnConvolutionFwdAlgo_t>(algorithm.number), workspace, bytes, beta,
                                      y_.get(), args.out);
      case Pass::dgrad:
        return api.ConvolutionBackwardData(handle, alpha, w_.get(), args.w, y_.get(), args.y, window_.get(),
                                           static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm.number), workspace,
                                           bytes, beta, x_.get(), args.out);
      default:
        return api.ConvolutionBackwardFilter(handle, alpha, x_.get(), args.x, y_.get(), args.y, window_.get(),
                                             static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm.number), workspace,
                                             bytes, beta, w_.get(), args.out);
    }
  }

 private:
  void note(cudnnStatus_t status) {
    if (status_ == CUDNN_STATUS_SUCCESS) status_ = status;
  }

  Owned<cudnnTensorDescriptor_t> x_, y_;
  Owned<cudnnFilterDescriptor_t> w_;
  Owned<cudnnConvolutionDescriptor_t> window_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

std::optional<Refusal> inexpressible(const ConvProblem& p, const PlanRequest& request) {
  if (p.pre_padding != p.post_padding) {
    return Refusal{RefusalCode::padding, fmt::format("pad={}/{}: cuDNN's older API pads both sides alike",
                                                     to_string(p.pre_padding), to_string(p.post_padding))};
  }
  if (!p.w.is_packed(Layout::nchw) && !(p.w.is_packed(Layout::nhwc) && p.x.is_packed(Layout::nhwc))) {
    return Refusal{RefusalCode::layout,
                   "w: cuDNN's older API takes packed filters, channels last only where x has them"};
  }
  if (p.w.is_packed(Layout::nhwc) && !p.w.is_packed(Layout::nchw) && !p.x.is_packed(Layout::nhwc)) {
    return Refusal{RefusalCode::layout, "w: cuDNN's older API takes channels-last filters with channels-last x only"};
  }
  if (request.target_sms > 0) {
    return Refusal{RefusalCode::device,
                   fmt::format("target_sms={}: cuDNN's older API takes no count of SMs", request.target_sms)};
  }
  return std::nullopt;
}

class LegacyPlan final : public ConvPlan, public HasStages {
 public:
  LegacyPlan(const Api& api, const ConvProblem& problem, const Algorithm& algorithm, Candidate candidate,
             std::vector<std::string> notes, int ordinal)
      : api_(api),
        problem_(problem),
        algorithm_(algorithm),
        candidate_(std::move(candidate)),
        notes_(std::move(notes)),
        ordinal_(ordinal),
        description_(api, problem) {}

  Result<void> prepare() {
    CONVOY_TRY(const Handle handle, borrow_handle(api_, ordinal_));
    return judged(description_.workspace(api_, handle.get(), algorithm_, workspace_), "workspace size");
  }

  Candidate candidate() const override { return candidate_; }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::vector<std::string> notes() const override { return notes_; }
  std::string description() const override { return algorithm_.meaning; }
  std::vector<std::string> stages() const override {
    const auto launches = captured_launches(*this, problem_, ordinal_);
    if (!launches) return {algorithm_.meaning};
    std::vector<std::string> stages;
    for (const Launch& launch : *launches) stages.push_back(launch.name);
    return stages;
  }

  Result<void> execute(const ConvArgs& args, const ExecContext& context) const override {
    CONVOY_CHECK(check_workspace(*this, context));
    CONVOY_TRY(const Handle handle, borrow_handle(api_, ordinal_));
    CONVOY_CHECK(judged(api_.SetStream(handle.get(), static_cast<cudaStream_t>(context.stream())), "cudnnSetStream"));
    const auto alpha = static_cast<float>(problem_.alpha), beta = static_cast<float>(problem_.beta);
    const bool doubles = problem_.compute == DataType::f64;
    return judged(
        description_.run(api_, handle.get(), algorithm_, args,
                         doubles ? static_cast<const void*>(&problem_.alpha) : &alpha,
                         doubles ? static_cast<const void*>(&problem_.beta) : &beta, context.workspace, workspace_),
        convoy::print(problem_));
  }

 private:
  Result<void> judged(cudnnStatus_t status, std::string_view what) const {
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return error_of(failure_of(api_, status), fmt::format("{}: {}", print(candidate_), what));
  }

  const Api& api_;
  const ConvProblem problem_;
  const Algorithm& algorithm_;
  const Candidate candidate_;
  const std::vector<std::string> notes_;
  const int ordinal_;
  Description description_;
  std::size_t workspace_ = 0;
};

class LegacyEngine final : public Engine, public LoadsProvider, public DeclaresNames {
 public:
  explicit LegacyEngine(const Algorithm& algorithm) : algorithm_(algorithm) {
    info_.name = fmt::format("cudnn.legacy.{}{}", name_of(algorithm.pass), algorithm.number);
    info_.provider = kProvider;
    info_.summary = fmt::format("cuDNN's older API, {} algorithm {}: {}", name_of(algorithm.pass), algorithm.number,
                                algorithm.meaning);
    info_.device = DeviceKind::cuda;
    info_.passes = {algorithm.pass};
    declare_asked(info_);
    info_.activations = {ActivationKind::identity};
    info_.deterministic = algorithm.deterministic;
    info_.max_elements = kMostElements;
    if (algorithm.note != nullptr) info_.notes.emplace_back(algorithm.note);
    if (!algorithm.deterministic) info_.notes.emplace_back("NONDETERMINISTIC");
    info_.notes_vary = true;
  }

  const EngineInfo& info() const override { return info_; }
  std::optional<std::string> provider() const override { return loaded_provider(); }

  std::vector<std::string> other_notes() const override { return note_names(); }
  std::vector<std::string> notes(const ConvProblem& problem, const KnobValues&, const PlanRequest&) const override {
    std::vector<std::string> notes = info_.notes;
    for (std::string& note : missing_legacy_notes(problem, algorithm_.number)) notes.push_back(std::move(note));
    // What the math type allows, the algorithm may do.
    const bool f32 = problem.x.type == DataType::f32 && problem.compute == DataType::f32;
    if (f32 && problem.math == MathMode::tf32) notes.emplace_back(note::tf32);
    if (f32 && problem.math == MathMode::reduced) notes.emplace_back(note::down_convert_inputs);
    for (std::string& note : special_value_notes(problem, std::nullopt, notes)) notes.push_back(std::move(note));
    return notes;
  }

  std::optional<Refusal> check(const ConvProblem& problem, const PlanRequest& request) const override {
    const auto api = cuda::cudnn();
    if (!api) return Refusal{RefusalCode::not_built, api.error().message};
    if (auto refusal = outside_limits(problem, *request.cuda)) return refusal;
    if (auto refusal = inexpressible(problem, request)) return refusal;
    if (auto refusal = known_wrong(problem, -1, 0, info_.notes, {})) return refusal;
    const auto handle = borrow_handle(**api, request.cuda->ordinal);
    if (!handle) return Refusal{RefusalCode::device, handle.error().message};
    const Description description(**api, problem);
    cudnnStatus_t status = description.status();
    std::size_t bytes = 0;
    if (status == CUDNN_STATUS_SUCCESS) status = description.workspace(**api, handle->get(), algorithm_, bytes);
    if (status == CUDNN_STATUS_SUCCESS) return std::nullopt;
    Refusal refusal = refusal_of(failure_of(**api, status), "algorithm");
    const std::string advice = unmet_advice(problem, *request.cuda);
    if (!advice.empty()) refusal.reason += fmt::format("; of the limits that cuDNN documents: {}", advice);
    return refusal;
  }

  // To ask takes the device tens of microseconds an algorithm.
  std::optional<Estimate> estimate(const ConvProblem& problem, const PlanRequest& request) const override {
    return Estimate{{}, predict_seconds(problem, {}, request), false};
  }

  // The newer API offers what this does: it comes after all that cuDNN's heuristics name.
  double predict_seconds(const ConvProblem& problem, const KnobValues&, const PlanRequest& request) const override {
    constexpr double after_the_named = 3;
    return after_the_named * first_choice_seconds(problem, *request.cuda);
  }

  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    CONVOY_TRY(const Api* api, cuda::cudnn());
    auto plan = std::make_unique<LegacyPlan>(*api, problem, algorithm_, Candidate{info_.name, {}},
                                             notes(problem, knobs, request), request.cuda->ordinal);
    CONVOY_CHECK(plan->prepare());
    return std::unique_ptr<ConvPlan>(std::move(plan));
  }

 private:
  const Algorithm& algorithm_;
  EngineInfo info_;
};

}  // namespace

std::vector<const Engine*> legacy_engines() {
  std::vector<const Engine*> all;
  for (const Algorithm& algorithm : kAlgorithms) all.push_back(new LegacyEngine(algorithm));
  return all;
}

}  // namespace convoy::cudnn
