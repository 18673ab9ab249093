#include "engines/cudnn/configuration.h"

#include <algorithm>

#include "engines/cudnn/names.h"

namespace convoy::cudnn {
namespace {

constexpr std::int64_t kMostNotes = 32;
constexpr std::int64_t kUsualKnobs = 12;

KnobValues knobs_of(const Descriptor& configuration) {
  KnobValues knobs;
  const auto at_most = [&](std::int64_t count) {
    return configuration.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, count);
  };
  // cuDNN 9.19 does not say how many there are before they are got, and a descriptor for every type of knob takes
  // longer to make than the heuristics take to answer.
  auto choices = at_most(kUsualKnobs);
  if (choices.size() == kUsualKnobs) choices = at_most(CUDNN_KNOB_TYPE_COUNTS);
  for (const Descriptor& choice : choices) {
    const auto type = choice.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE);
    const auto value = choice.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64);
    if (type && value) knobs.push_back({knob_name(*type), *value});
  }
  std::sort(knobs.begin(), knobs.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return knobs;
}

std::vector<Descriptor> engine_of(const Descriptor& configuration) {
  return configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
}

}  // namespace

std::optional<Pick> pick_of(const Descriptor& configuration) {
  const auto engine = engine_of(configuration);
  if (engine.empty()) return std::nullopt;
  const auto index = engine.front().get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64);
  if (!index) return std::nullopt;
  return Pick{*index, knobs_of(configuration)};
}

std::vector<std::string> notes_of(const Descriptor& engine) {
  std::vector<std::string> notes;
  for (const auto numerical : engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                                      CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes)) {
    notes.push_back(name_of(numerical));
  }
  for (const auto behaviour :
       engine.get<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, kMostNotes)) {
    notes.push_back(name_of(behaviour));
  }
  return notes;
}

std::vector<std::string> notes_of_configuration(const Descriptor& configuration) {
  const auto engine = engine_of(configuration);
  return engine.empty() ? std::vector<std::string>() : notes_of(engine.front());
}

}  // namespace convoy::cudnn
