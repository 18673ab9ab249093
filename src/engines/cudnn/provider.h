// What cuDNN's rows of the engine table say of the library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/convolution.h"

namespace convoy::cudnn {

inline constexpr const char* kProvider = "cuDNN";  // EngineInfo::provider

// With its version, for core/provider.h. Loads it: commands that stay on the processor need not wait for that.
std::optional<std::string> loaded_provider();

// What its graphs can have for an epilogue.
std::vector<ActivationKind> fused_activations();

}  // namespace convoy::cudnn
