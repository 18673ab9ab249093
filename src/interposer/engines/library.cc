#include "interposer/engines/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "device/cuda/device.h"
#include "engines/cuda/depthwise/depthwise.h"
#include "engines/cuda/direct/direct.h"
#include "engines/cuda/gemm/gemm.h"
#include "engines/cuda/gemv/gemv.h"
#include "engines/cuda/igemm/igemm.h"
#include "engines/cuda/pointwise/pointwise.h"
#include "engines/cuda/stem/stem.h"
#include "engines/cuda/volume/volume.h"
#include "engines/cudnn/cudnn.h"

namespace convoy::interposer {
namespace {

struct Prepared {
  std::unique_ptr<ConvPlan> plan;
  std::string notes;
};

const Engine* engine_named(const std::string& name) {
  std::vector<const Engine*> engines = {&cuda::depthwise_engine(), &cuda::pointwise_engine(), &cuda::stem_engine(),
                                        &cuda::volume_engine(),    &cuda::gemm_engine(),      &cuda::gemv_engine(),
                                        &cuda::igemm_engine(),     &cuda::direct_engine()};
  engines.insert(engines.end(), cudnn::engines().begin(), cudnn::engines().end());
  const auto found =
      std::find_if(engines.begin(), engines.end(), [&](const Engine* e) { return e->info().name == name; });
  return found == engines.end() ? nullptr : *found;
}

Result<CudaDevice> current_device() {
  CONVOY_TRY(const cuda::DriverApi* driver, cuda::driver());
  CUdevice device = 0;
  if (driver->CtxGetDevice(&device) != CUDA_SUCCESS) {
    return Error{ErrorCode::device_failed, "the calling thread has no CUDA context"};
  }
  return cuda::describe(device);
}

Result<Prepared> make(ConvProblem problem, const Candidate& candidate, int target_sms) {
  const Engine* engine = engine_named(candidate.engine);
  if (engine == nullptr) {
    return Error{ErrorCode::not_found,
                 fmt::format("{} is none of the engines that run in a program", candidate.engine)};
  }
  PlanRequest request;
  CONVOY_TRY(request.cuda, current_device());
  request.target_sms = target_sms;
  std::optional<Refusal> refusal = refuse(*engine, problem, request);
  // A program never says whether it allows TF32: the notes do, and whoever asked looks at them.
  if (refusal && problem.x.type == DataType::f32 && problem.math == MathMode::strict) {
    problem.math = MathMode::tf32;
    refusal = refuse(*engine, problem, request);
  }
  if (refusal) return Error{ErrorCode::unsupported, fmt::format("{}: {}", candidate.engine, refusal->reason)};
  Prepared prepared;
  KnobValues knobs;
  if (!candidate.knobs.empty()) {
    CONVOY_TRY(knobs, completed(candidate.knobs, engine->configurations(problem, request)));
  }
  CONVOY_TRY(prepared.plan, engine->plan(problem, knobs, request));
  for (const std::string& note : engine->notes(problem, knobs, request)) prepared.notes += note + ' ';
  for (const std::string& note : prepared.plan->notes()) prepared.notes += note + ' ';
  return prepared;
}

void tell(const Error& error, char* text, std::size_t size) {
  if (size == 0) return;
  const std::size_t length = std::min(error.message.size(), size - 1);
  std::memcpy(text, error.message.data(), length);
  text[length] = '\0';
}

// An exception must not get into the program.
template <class Body>
auto guarded(Body body, char* error, std::size_t size) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& thrown) {
    tell({ErrorCode::internal, thrown.what()}, error, size);
    return {};
  }
}

const void* prepare(const char* problem, const char* candidate, int target_sms, char* error, std::size_t size) {
  return guarded(
      [&]() -> const void* {
        const auto made = [&]() -> Result<Prepared> {
          CONVOY_TRY(ConvProblem parsed, parse_problem(problem));
          CONVOY_TRY(const Candidate wanted, parse_candidate(candidate));
          // Another thread of the program may be capturing a stream: loading code is none of its business.
          CONVOY_TRY(const cuda::DriverApi* driver, cuda::driver());
          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
          driver->ThreadExchangeStreamCaptureMode(&mode);
          auto prepared = make(std::move(parsed), wanted, target_sms);
          driver->ThreadExchangeStreamCaptureMode(&mode);
          return prepared;
        };
        auto prepared = made();
        if (prepared.ok()) return new Prepared(*std::move(prepared));  // never destroyed
        tell(prepared.error(), error, size);
        return nullptr;
      },
      error, size);
}

const char* notes(const void* plan) { return static_cast<const Prepared*>(plan)->notes.c_str(); }

std::size_t workspace_bytes(const void* plan) { return static_cast<const Prepared*>(plan)->plan->workspace_bytes(); }

bool execute(const void* plan, const EngineArguments* given, char* error, std::size_t size) {
  return guarded(
      [&] {
        ConvArgs args;
        args.x = given->x;
        args.w = given->w;
        args.y = given->y;
        args.out = given->out;
        args.bias = given->bias;
        args.z = given->z;
        CudaQueue queue(given->stream);
        const ExecContext context{queue, given->workspace, given->workspace_bytes};
        const auto done = static_cast<const Prepared*>(plan)->plan->execute(args, context);
        if (!done.ok()) tell(done.error(), error, size);
        return done.ok();
      },
      error, size);
}

}  // namespace
}  // namespace convoy::interposer

#pragma GCC visibility push(default)
extern "C" const convoy::interposer::EngineLibrary* convoy_engine_library() {
  using namespace convoy::interposer;
  static const EngineLibrary library{prepare, notes, workspace_bytes, execute};
  return &library;
}
#pragma GCC visibility pop
