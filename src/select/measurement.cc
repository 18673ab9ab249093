// What a measurement is of, and whether it still holds.
#include "convoy/measurement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/provider_environment.h"

namespace convoy {
namespace {

std::string size_text(std::int64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::format("{}", bytes);
}

}  // namespace

std::string_view name_of(CacheState caches) { return caches == CacheState::cold ? "cold" : "warm"; }

Result<CacheState> parse_cache_state(std::string_view name) {
  for (const CacheState caches : {CacheState::cold, CacheState::warm}) {
    if (name == name_of(caches)) return caches;
  }
  return Error{ErrorCode::invalid_argument, fmt::format("'{}' is not a state of the caches; cold and warm are", name)};
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
  const CpuFeatures& cpu = request.cpu;
  MeasurementKey key;
  key.problem = print(problem);
  key.device = fmt::format("cpu {} l1d={} l2={} l3={}", cpu.brand, size_text(cpu.l1d_bytes), size_text(cpu.l2_bytes),
                           size_text(cpu.l3_bytes));
  key.isa = name_of(cpu.isa);
  for (const auto& [name, there] :
       {std::pair("vnni", cpu.avx512_vnni), std::pair("bf16", cpu.avx512_bf16), std::pair("fp16", cpu.avx512_fp16),
        std::pair("amx_bf16", cpu.amx_bf16), std::pair("amx_int8", cpu.amx_int8)}) {
    if (there) key.isa += fmt::format(" {}", name);
  }
  if (const std::string& variables = result_changing_environment(); !variables.empty()) key.isa += " " + variables;
  key.threads = request.threads;
  key.constant_weights = request.constant_weights != nullptr;
  key.caches = caches;
  return key;
}

bool is_current(const Measurement& measurement, std::span<const Engine* const> engines) {
  return std::any_of(engines.begin(), engines.end(), [&](const Engine* engine) {
    const EngineInfo& info = engine->info();
    return info.name == measurement.candidate.engine && info.revision == measurement.revision &&
           info.provider == measurement.provider;
  });
}

}  // namespace convoy
