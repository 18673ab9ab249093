#include "interposer/configurations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/open_knobs.h"
#include "engines/cudnn/configuration.h"
#include "engines/cudnn/known.h"
#include "engines/cudnn/names.h"
#include "interposer/real.h"

namespace convoy::interposer {
namespace {

constexpr std::string_view kEngine = "cudnn.eng";

std::optional<std::int64_t> index_of(std::string_view engine) {
  if (!engine.starts_with(kEngine)) return std::nullopt;
  engine.remove_prefix(kEngine.size());
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(engine.data(), engine.data() + engine.size(), index);
  if (error != std::errc() || end != engine.data() + engine.size()) return std::nullopt;
  return index;
}

}  // namespace

std::string cudnn_version() { return cudnn::version_text(real().version); }

std::string mode_of(const Snapshot& heuristic) {
  const auto mode = heuristic.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  if (!mode) return "?";
  switch (*mode) {
    case CUDNN_HEUR_MODE_INSTANT:
      return "instant";
    case CUDNN_HEUR_MODE_A:
      return "A";
    case CUDNN_HEUR_MODE_B:
      return "B";
    case CUDNN_HEUR_MODE_FALLBACK:
      return "fallback";
    default:
      return fmt::format("{}", static_cast<int>(*mode));
  }
}

EngineConfig engine_config_of(cudnnBackendDescriptor_t raw, const ConvProblem* problem) {
  const cudnn::Descriptor configuration = cudnn::Descriptor::borrowed(real(), raw);
  EngineConfig engine_config;
  auto pick = cudnn::pick_of(configuration);
  if (!pick) return engine_config;
  engine_config.candidate = {fmt::format("{}{}", kEngine, pick->engine), std::move(pick->knobs)};
  engine_config.notes = cudnn::notes_of_configuration(configuration);
  if (problem == nullptr) return engine_config;
  for (std::string& note : cudnn::missing_notes(*problem, pick->engine, real().version, engine_config.notes)) {
    if (std::find(engine_config.notes.begin(), engine_config.notes.end(), note) == engine_config.notes.end()) {
      engine_config.hidden_notes.push_back(std::move(note));
    }
  }
  return engine_config;
}

Candidate without_automatic(Candidate candidate) { return without_open_knobs(std::move(candidate)); }

bool fits(const Candidate& candidate, const Candidate& wanted) {
  return candidate.engine == wanted.engine &&
         std::all_of(wanted.knobs.begin(), wanted.knobs.end(), [&](const KnobValue& knob) {
           return is_left_open(knob) ||
                  std::find(candidate.knobs.begin(), candidate.knobs.end(), knob) != candidate.knobs.end();
         });
}

std::int64_t workspace_of(cudnnBackendDescriptor_t configuration) {
  return cudnn::Descriptor::borrowed(real(), configuration)
      .get<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64)
      .value_or(0);
}

Result<Parts> configure(cudnnBackendDescriptor_t configuration, const GraphTarget& target, const Candidate& candidate) {
  const auto index = index_of(candidate.engine);
  if (!index) {
    return Error{ErrorCode::unsupported, fmt::format("{} is no engine of cuDNN's graph API, which is all that a "
                                                     "program can be given",
                                                     candidate.engine)};
  }
  auto parts = std::make_shared<std::vector<cudnn::Descriptor>>();
  parts->reserve(candidate.knobs.size() + 1);
  cudnn::Descriptor& engine = parts->emplace_back(real(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, target.graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, *index);
  if (target.device_properties != nullptr) {
    engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, target.device_properties);
  }
  if (target.sm_count) engine.set(CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32, *target.sm_count);
  engine.finalize();
  if (!engine.ok()) return cudnn::error_of(engine.failure(), "engine");
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const KnobValue& knob : candidate.knobs) {
    const auto type = cudnn::parse_knob_name(knob.name);
    if (!type) return Error{ErrorCode::unsupported, fmt::format("{} is no knob of cuDNN's", knob.name)};
    if (is_left_open(knob)) continue;
    const std::int64_t* const number = knob.value.number();
    if (number == nullptr) {
      return Error{ErrorCode::unsupported,
                   fmt::format("knob {}={}: cuDNN's are numbers", knob.name, print(knob.value))};
    }
    cudnn::Descriptor& choice = parts->emplace_back(real(), CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, *type)
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, *number)
        .finalize();
    if (!choice.ok()) return cudnn::error_of(choice.failure(), knob.name);
    choices.push_back(choice.raw());
  }
  cudnn::Descriptor filled = cudnn::Descriptor::borrowed(real(), configuration);
  filled.set(CUDNN_ATTR_ENGINECFG_ENGINE, parts->front());
  if (!choices.empty()) filled.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, choices);
  filled.finalize();  // not asked once something failed: cuDNN crashes where there is no engine
  if (!filled.ok()) return cudnn::error_of(filled.failure(), "engine configuration");
  return parts;
}

}  // namespace convoy::interposer
