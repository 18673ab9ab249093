// cuDNN's enumerations as words: notes of engines, knobs of engines.
#pragma once

#include <cudnn.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::cudnn {

// "9.19.0", of cudnnGetVersion's 91900.
std::string version_text(int version);

// The names of the header without their prefix: "TENSOR_CORE", "RUNTIME_COMPILATION". Of a newer cuDNN: "NOTE_12".
std::string name_of(cudnnBackendNumericalNote_t note);
std::string name_of(cudnnBackendBehaviorNote_t note);
// What an engine's notes may be, of newer cuDNNs too, and TF32. Globs.
std::vector<std::string> note_names();

// "TILE_SIZE". Of a newer cuDNN: "type 47".
std::string meaning_of(cudnnBackendKnobType_t knob);

// A knob is named after its type's number, which cuDNN keeps for good: "k2" is CUDNN_KNOB_TYPE_TILE_SIZE.
std::string knob_name(cudnnBackendKnobType_t knob);
std::optional<cudnnBackendKnobType_t> parse_knob_name(std::string_view name);

}  // namespace convoy::cudnn
