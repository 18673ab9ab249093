#include "report/json.h"

#include <cmath>

#include "report/listing.h"

namespace convoy::report {

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string dump(const Json& document) { return document.dump(2, ' ', false, Json::error_handler_t::replace); }

Json to_json(const ConvProblem& problem) {
  return {{"problem", print(problem)}, {"flops", flops(problem)}, {"bytes", bytes_moved(problem)}};
}

Json to_json(const KnobSetting& setting) {
  return setting.number() != nullptr ? Json(*setting.number()) : Json(*setting.word());
}

Json to_json(const Candidate& candidate) { return print(candidate); }

Json to_json(const Measurement& measurement, const ConvProblem& problem) {
  return measurement_listing(problem).json(measurement);
}

Json to_json(const EngineAnswer& answer) {
  Json out = {{"engine", answer.engine->info().name}, {"can", !answer.refusal.has_value()}};
  if (answer.refusal) {
    out["refusal"] = {{"code", std::string(name_of(answer.refusal->code))}, {"reason", answer.refusal->reason}};
    return out;
  }
  out["candidate"] = to_json(answer.default_candidate);
  out["predicted_seconds"] = number_or_null(answer.predicted_seconds);
  out["knobs"] = Json::array();
  for (const Knob& knob : answer.configurations.knobs) {
    Json values = Json::array();
    for (const KnobSetting& value : knob.values) values.push_back(to_json(value));
    out["knobs"].push_back({{"name", knob.name}, {"values", values}, {"text", knob.text}});
  }
  // Where not all of the values go together, those that do.
  for (const KnobValues& each : answer.configurations.listed) {
    out["configurations"].push_back(print(Candidate{answer.engine->info().name, each}));
  }
  out["notes"] = answer.engine->info().notes;
  return out;
}

Json to_json(const NetworkStep& step) {
  Json out = {{"kind", step.kind},           {"nodes", step.nodes},     {"implementation", step.implementation},
              {"output", step.output_shape}, {"threads", step.threads}, {"device", step.device}};
  if (step.kind == "conv") {
    out["problem"] = print(step.problem);
    out["reason"] = step.selection.reason();
    if (!step.selection.warnings.empty()) out["warnings"] = step.selection.warnings;
  }
  return out;
}

Json to_json(const NetworkValue& value) {
  Json out = {{"name", value.name}, {"type", std::string(name_of(value.type))}};
  if (!value.known_rank) return out;
  out["dims"] = Json::array();
  for (std::size_t i = 0; i < value.dims.size(); ++i) {
    if (value.dims[i] >= 0) {
      out["dims"].push_back(value.dims[i]);
    } else if (i < value.dim_names.size() && !value.dim_names[i].empty()) {
      out["dims"].push_back(value.dim_names[i]);
    } else {
      out["dims"].push_back(nullptr);
    }
  }
  return out;
}

}  // namespace convoy::report
