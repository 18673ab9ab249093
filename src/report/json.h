// Convoy's values as JSON. Field names are the ones of the public headers.
#pragma once

#include <nlohmann/json.hpp>

#include "convoy/network.h"

namespace convoy::report {

using Json = nlohmann::ordered_json;

Json to_json(const ConvProblem& problem);  // the problem string, flops and bytes
Json to_json(const KnobSetting& setting);
Json to_json(const Candidate& candidate);  // as text: "cpu.winograd{m=4}"
Json to_json(const Measurement& measurement, const ConvProblem& problem);
Json to_json(const EngineAnswer& answer);
Json to_json(const NetworkStep& step);
Json to_json(const NetworkValue& value);

// A finite number; null for infinities and NaN, which JSON has not.
Json number_or_null(double value);

// `text` with what is not UTF-8 replaced, so that names from a hostile file can't break the document.
std::string dump(const Json& document);

}  // namespace convoy::report
