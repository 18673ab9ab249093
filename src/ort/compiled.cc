#include "ort/compiled.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ort/memory.h"

namespace convoy::ort {
namespace {

// ONNX Runtime's threads are reached through the run that is under way on this thread.
thread_local const OrtKernelContext* running = nullptr;

struct Body {
  void (*run)(void* context, std::int32_t index);
  void* context;
};

void on_runtimes_threads(void* user, std::int32_t count, void (*body)(void*, std::int32_t), void* context) {
  const Api& api = *static_cast<const Api*>(user);
  Body all{body, context};
  const auto one = [](void* data, std::size_t index) {
    const Body& each = *static_cast<const Body*>(data);
    each.run(each.context, static_cast<std::int32_t>(index));
  };
  OrtStatus* failed = running == nullptr
                          ? nullptr
                          : api.KernelContext_ParallelFor(running, one, static_cast<std::size_t>(count), 0, &all);
  if (running != nullptr && failed == nullptr) return;
  // Before any run, as when a session is made, or where its pool refuses: on this thread, one after another.
  if (failed != nullptr) api.ReleaseStatus(failed);
  for (std::int32_t index = 0; index < count; ++index) body(context, index);
}

// For trying whether nodes can run at all.
std::vector<std::int64_t> likely(const TensorInfo& info) {
  std::vector<std::int64_t> dims = info.dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] < 0) dims[d] = d == 0 ? 1 : 64;
  }
  return dims;
}

std::vector<convoy_shape> c_shapes(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::vector<convoy_shape> made;
  for (const auto& dims : shapes) made.push_back({static_cast<std::int32_t>(dims.size()), dims.data()});
  return made;  // of none the data are null: what the model says
}

void append(void* text, const char* part, std::size_t bytes) { static_cast<std::string*>(text)->append(part, bytes); }

}  // namespace

Compiled::Compiled(const Api& api, const GraphModel& model, const ProviderOptions& options, const Gpu* gpu)
    : api_(api),
      options_(options),
      gpu_(gpu),
      fixed_(model.fixed && !(options.max_error && model.plan.empty())),
      inputs_(model.inputs),
      outputs_(model.outputs),
      plan_(model.plan) {}

Result<std::unique_ptr<Compiled>> Compiled::make(const Api& api, const GraphModel& model,
                                                 const ProviderOptions& options, const Gpu* gpu) {
  std::unique_ptr<Compiled> made(new Compiled(api, model, options, gpu));
  CONVOY_CHECK(made->fixed_ ? made->make_fixed(model) : made->make_free(model));
  return made;
}

Result<Compiled::Network> Compiled::network_of(const GraphModel& model, const Weights& weights) {
  convoy_network* network = nullptr;
  const auto& given = weights.initializers;
  const auto read = done(
      convoy_network_parse_with(model.onnx.data(), model.onnx.size(), nullptr, given.data(), given.size(), &network));
  if (!read.ok()) return Error{ErrorCode::unsupported, read.error().message};
  return Network(network);
}

Result<void> Compiled::make_fixed(const GraphModel& model) {
  CONVOY_TRY(network_, network_of(model, model.weights));
  std::vector<Dims> shapes;  // none: the model has been compiled before, and says them
  for (const TensorInfo& info : model.input_infos) shapes.push_back(info.dims);
  auto prepared = prepare(shapes);
  if (!prepared.ok() && !plan_.empty()) {  // made for another processor, or by another version
    remark_ = prepared.error().message;
    plan_.clear();
    prepared = prepare(shapes);
  }
  if (!prepared.ok()) return prepared.error();
  if (options_.context.write && plan_.empty()) {
    const convoy_options options = options_for_session();
    std::string plan;
    const std::vector<convoy_shape> given = c_shapes(shapes);
    CONVOY_CHECK(done(convoy_network_plan(network_.get(), given.data(), given.size(), &options, append, &plan)));
    plan_ = std::move(plan);
  }
  detour_ = (*prepared)->detour;
  prepared_.push_back(std::move(*prepared));
  network_.reset();
  return {};
}

Result<void> Compiled::make_free(const GraphModel& model) {
  const bool is_tried = model.input_infos.empty();  // it was compiled before
  if (!is_tried) {
    CONVOY_TRY(network_, network_of(model, model.weights));
    std::vector<Dims> shapes;
    for (const TensorInfo& info : model.input_infos) shapes.push_back(likely(info));
    const auto prepared = prepare(std::move(shapes), false);
    if (!prepared.ok() && prepared.error().code == ErrorCode::unsupported) return prepared.error();
    if (prepared.ok()) detour_ = (*prepared)->detour;
  }
  // Sizes that come later need them, and ONNX Runtime frees its own.
  network_.reset();
  give_back_memory();  // that the trial took
  std::optional<Weights> copied;
  if (model.weights.memory == nullptr) {
    CONVOY_TRY(copied, model.weights.copied());
  }
  const Weights& weights = copied ? *copied : model.weights;
  CONVOY_TRY(network_, network_of(model, weights));
  weights_ = weights.memory;
  return {};
}

convoy_options Compiled::options_for_session() const {
  convoy_options options = convoy_options_of(options_);
  if (!plan_.empty()) options.plan = plan_.c_str();
  if (options_.on_runtimes_threads) {
    options.parallel_for = on_runtimes_threads;
    options.parallel_user = const_cast<Api*>(&api_);
  }
  return options;
}

void Compiled::bind(std::vector<std::size_t> inputs, std::vector<std::size_t> outputs) {
  input_places_ = std::move(inputs);
  output_places_ = std::move(outputs);
}

Result<std::shared_ptr<const Compiled::Prepared>> Compiled::prepare(std::vector<Dims> shapes, bool tunes,
                                                                    std::span<const void* const> inputs) const {
  convoy_options options = options_for_session();
  if (!tunes) options.budget_seconds = 0;
  const std::vector<convoy_shape> given = c_shapes(shapes);
  std::string plan;
  if (options_.max_error && plan_.empty() && !inputs.empty()) {
    CONVOY_CHECK(done(convoy_network_plan_within(network_.get(), given.data(), given.size(), inputs.data(),
                                                 inputs.size(), *options_.max_error, &options, append, &plan)));
    options.plan = plan.c_str();
    options.precision = options.how = nullptr;
    options.budget_seconds = 0;
  }
  convoy_session* session = nullptr;
  CONVOY_CHECK(done(convoy_session_create(network_.get(), given.data(), given.size(), &options, &session)));
  auto made = std::make_shared<Prepared>();
  made->session.reset(session);
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    convoy_value value = CONVOY_VALUE_INIT;
    CONVOY_CHECK(done(convoy_session_output_value(session, k, &value)));
    const Dims dims(value.dims, value.dims + std::max(value.rank, 0));
    const bool known = value.rank >= 0 && std::ranges::all_of(dims, [](std::int64_t size) { return size >= 0; });
    made->outputs.push_back(known ? std::optional(dims) : std::nullopt);
  }
  made->shapes = std::move(shapes);
  // It says so before it looks at what it is given.
  if (gpu_ != nullptr && convoy_session_enqueue(session, nullptr, 0, nullptr, 0, nullptr) == CONVOY_UNSUPPORTED) {
    made->detour = convoy_error();
  }
  return std::shared_ptr<const Prepared>(std::move(made));
}

// A size that is new is prepared beside runs of others; two threads that bring it at once may both prepare it.
Result<std::shared_ptr<const Compiled::Prepared>> Compiled::prepared_for(const Inputs& inputs, CUstream stream) {
  if (fixed_) return prepared_.front();
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(
        prepared_, inputs.shapes, [](const auto& each) -> auto& { return each->shapes; });
    if (found != prepared_.end()) {
      prepared_.splice(prepared_.begin(), prepared_, found);
      return prepared_.front();
    }
  }
  std::vector<std::vector<std::byte>> copies;
  std::vector<const void*> data = inputs.data;
  if (gpu_ != nullptr && options_.max_error) {
    CONVOY_TRY(copies, on_processor(inputs, stream));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = copies[i].data();
  }
  CONVOY_TRY(std::shared_ptr<const Prepared> made, prepare(inputs.shapes, true, data));
  give_back_memory();
  const std::lock_guard lock(mutex_);
  prepared_.push_front(made);
  while (prepared_.size() > static_cast<std::size_t>(options_.max_shapes)) prepared_.pop_back();
  return made;
}

Result<Compiled::Inputs> Compiled::inputs_of(const OrtKernelContext* context) const {
  static constexpr std::int64_t kEmpty = 0;  // what an input without elements points to
  Inputs made;
  made.data.reserve(input_places_.size());
  if (!fixed_) made.shapes.reserve(input_places_.size());
  for (const std::size_t place : input_places_) {
    const OrtValue* value = nullptr;
    CONVOY_CHECK(done(api_, api_.KernelContext_GetInput(context, place, &value)));
    const void* data = nullptr;
    CONVOY_CHECK(done(api_, api_.GetTensorData(value, &data)));
    made.data.push_back(data == nullptr ? &kEmpty : data);
    if (gpu_ != nullptr) CONVOY_CHECK(done(api_, api_.GetTensorSizeInBytes(value, &made.bytes.emplace_back())));
    if (fixed_) continue;  // ONNX Runtime sees to the sizes
    CONVOY_TRY(TensorInfo info, info_of(api_, value));
    made.shapes.push_back(std::move(info.dims));
  }
  return made;
}

Result<std::vector<std::vector<std::byte>>> Compiled::on_processor(const Inputs& inputs, CUstream stream) const {
  std::vector<std::vector<std::byte>> copies;
  for (std::size_t i = 0; i < inputs.data.size(); ++i) {
    auto& copy = copies.emplace_back(std::max<std::size_t>(inputs.bytes[i], 1));
    CONVOY_CHECK(gpu_->copy_to_host(copy.data(), inputs.data[i], inputs.bytes[i], stream));
  }
  return copies;
}

Result<void> Compiled::write(OrtKernelContext* context, std::size_t k, const Dims& dims, void** data) const {
  OrtValue* output = nullptr;
  CONVOY_CHECK(done(api_, api_.KernelContext_GetOutput(context, output_places_[k], dims.data(), dims.size(), &output)));
  return done(api_, api_.GetTensorMutableData(output, data));
}

Result<void> Compiled::write_results(OrtKernelContext* context, const convoy_results* results,
                                     std::span<const convoy_buffer> buffers, CUstream stream) const {
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    if (buffers[k].data != nullptr) continue;
    convoy_output output = CONVOY_OUTPUT_INIT;
    CONVOY_CHECK(done(convoy_results_output(results, k, &output)));
    void* data = nullptr;
    CONVOY_CHECK(write(context, k, Dims(output.dims, output.dims + output.rank), &data));
    const auto bytes = static_cast<std::size_t>(output.bytes);
    if (bytes == 0) continue;
    if (gpu_ == nullptr) {
      std::memcpy(data, output.data, bytes);
    } else {
      CONVOY_CHECK(gpu_->copy_from_host(data, output.data, bytes, stream));
    }
  }
  return {};
}

Result<void> Compiled::run_on_gpu(OrtKernelContext* context) {
  CONVOY_TRY(const Inputs inputs, inputs_of(context));
  void* handle = nullptr;
  CONVOY_CHECK(done(api_, api_.KernelContext_GetGPUComputeStream(context, &handle)));
  const auto stream = static_cast<CUstream>(handle);
  CONVOY_TRY(const std::shared_ptr<const Prepared> prepared, prepared_for(inputs, stream));
  if (prepared->detour.empty()) {
    std::vector<void*> outputs(output_places_.size());
    for (std::size_t k = 0; k < outputs.size(); ++k)
      CONVOY_CHECK(write(context, k, *prepared->outputs[k], &outputs[k]));
    return done(convoy_session_enqueue(prepared->session.get(), inputs.data.data(), inputs.data.size(), outputs.data(),
                                       outputs.size(), stream));
  }
  CONVOY_TRY(const auto copies, on_processor(inputs, stream));
  std::vector<const void*> data;
  for (const auto& copy : copies) data.push_back(copy.data());
  const std::vector<convoy_buffer> none(output_places_.size());
  convoy_results* results = nullptr;
  CONVOY_CHECK(done(convoy_session_execute_into(prepared->session.get(), data.data(), data.size(), none.data(),
                                                none.size(), &results)));
  const std::unique_ptr<convoy_results, decltype(&convoy_results_destroy)> owned(results, convoy_results_destroy);
  return write_results(context, results, none, stream);
}

Result<void> Compiled::run(OrtKernelContext* context, Profiles& profiles) {
  if (gpu_ != nullptr) return run_on_gpu(context);
  CONVOY_TRY(const Inputs inputs, inputs_of(context));
  CONVOY_TRY(const std::shared_ptr<const Prepared> prepared, prepared_for(inputs, nullptr));
  std::vector<convoy_buffer> buffers(output_places_.size());
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    if (!prepared->outputs[k]) continue;
    CONVOY_CHECK(write(context, k, *prepared->outputs[k], &buffers[k].data));
    buffers[k].bytes = INT64_MAX;  // it is as large as the output
  }
  const std::int64_t begin = profiles.any() ? profile_clock() : 0;
  const OrtKernelContext* const before = std::exchange(running, context);
  convoy_results* results = nullptr;
  const auto ran = done(convoy_session_execute_into(prepared->session.get(), inputs.data.data(), inputs.data.size(),
                                                    buffers.data(), buffers.size(), &results));
  running = before;
  if (!ran.ok()) return ran.error();
  if (begin != 0) profiles.add(prepared->session.get(), begin);
  const std::unique_ptr<convoy_results, decltype(&convoy_results_destroy)> owned(results, convoy_results_destroy);
  return write_results(context, results, buffers, nullptr);
}

}  // namespace convoy::ort
