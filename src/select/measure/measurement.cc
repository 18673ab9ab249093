// What a measurement is of, and whether it still holds.
#include "convoy/measurement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/provider_environment.h"
#include "core/provider.h"
#include "select/measure/step_measurement.h"

namespace convoy {
namespace {

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::format("{}", bytes);
}

// "139G": what the name of a GPU leaves open.
std::string gigabytes(std::int64_t bytes) { return fmt::format("{}G", (bytes + (1 << 29)) >> 30); }

void describe_processor(MeasurementKey& key, const PlanRequest& request) {
  const CpuFeatures& cpu = request.cpu;
  key.device = fmt::format("cpu {} l1d={} l2={} l3={}", cpu.brand, size_text(cpu.l1d_bytes), size_text(cpu.l2_bytes),
                           size_text(cpu.l3_bytes));
  key.isa = name_of(cpu.isa);
  for (const auto& [name, there] :
       {std::pair("vnni", cpu.avx512_vnni), std::pair("bf16", cpu.avx512_bf16), std::pair("fp16", cpu.avx512_fp16),
        std::pair("amx_bf16", cpu.amx_bf16), std::pair("amx_int8", cpu.amx_int8)}) {
    if (there) key.isa += fmt::format(" {}", name);
  }
  key.threads = request.threads;
}

void describe_gpu(MeasurementKey& key, const CudaDevice& gpu, int target_sms) {
  key.device = fmt::format("cuda {} sms={} l2={} mem={}", gpu.name, gpu.sm_count, size_text(gpu.l2_bytes),
                           gigabytes(gpu.memory_bytes));
  key.isa = fmt::format("sm_{}", gpu.architecture);
  if (target_sms > 0) key.isa += fmt::format(" target_sms={}", target_sms);
  key.driver = fmt::format("{}{}CUDA {}.{}", gpu.driver, gpu.driver.empty() ? "" : " ", gpu.driver_version / 1000,
                           gpu.driver_version % 1000 / 10);
}

}  // namespace

std::string_view name_of(CacheState caches) {
  switch (caches) {
    case CacheState::cold:
      return "cold";
    case CacheState::warm:
      return "warm";
    case CacheState::all_cold:
      return "all-cold";
    case CacheState::network:
      return "network";
    case CacheState::rotating:
      break;
  }
  return "rotating";
}

Result<CacheState> parse_cache_state(std::string_view name) {
  for (const CacheState caches :
       {CacheState::cold, CacheState::warm, CacheState::all_cold, CacheState::network, CacheState::rotating}) {
    if (name == name_of(caches)) return caches;
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}' is not a state of the caches; cold, warm, all-cold, network and rotating are", name)};
}

std::string_view name_of(MeasurementState state) {
  switch (state) {
    case MeasurementState::partial:
      return "partial";
    case MeasurementState::cut_off:
      return "cut_off";
    case MeasurementState::complete:
      break;
  }
  return "complete";
}

Result<MeasurementState> parse_measurement_state(std::string_view name) {
  for (const auto state : {MeasurementState::partial, MeasurementState::cut_off, MeasurementState::complete}) {
    if (name == name_of(state)) return state;
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}' is not a measurement's state; partial, cut_off and complete are", name)};
}

MeasurementKey measurement_key(const ConvProblem& problem, const PlanRequest& request, CacheState caches) {
  return selection::step_key(print(problem), request, caches);
}

MeasurementKey selection::step_key(std::string problem, const PlanRequest& request, CacheState caches) {
  MeasurementKey key;
  key.problem = std::move(problem);
  if (request.cuda) {
    describe_gpu(key, *request.cuda, request.target_sms);
  } else {
    describe_processor(key, request);
  }
  if (const std::string& variables = result_changing_environment(); !variables.empty()) key.isa += " " + variables;
  key.constant_weights = request.constant_weights != nullptr;
  key.caches = caches;
  return key;
}

bool selection::is_step(const Candidate& candidate) {
  return candidate.engine == "convert" || candidate.engine.starts_with("ops.");
}

bool selection::is_step_problem(std::string_view problem) {
  return problem.starts_with("op:") || problem.starts_with("convert:");
}

std::string selection::step_provider() {
  for (const Engine* engine : all_engines()) {
    if (engine->info().name.starts_with("onednn.")) return engine->info().provider;
  }
  return "convoy";
}

bool is_current(const Measurement& measurement, std::span<const Engine* const> engines) {
  if (selection::is_step(measurement.candidate)) {
    return measurement.revision == selection::kStepRevision && measurement.provider == selection::step_provider();
  }
  return std::any_of(engines.begin(), engines.end(), [&](const Engine* engine) {
    const EngineInfo& info = engine->info();
    return info.name == measurement.candidate.engine && info.revision == measurement.revision &&
           provider_of(*engine) == measurement.provider;
  });
}

}  // namespace convoy
