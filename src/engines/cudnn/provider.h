// What cuDNN's rows of the engine table say of the library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::cudnn {

inline constexpr const char* kProvider = "cuDNN";  // EngineInfo::provider

// With its version, for core/provider.h. Loads it: commands that stay on the processor need not wait for that.
std::optional<std::string> loaded_provider();

// Declares what the rows don't decide themselves: cuDNN is asked.
void declare_asked(EngineInfo& info);

// What its graphs can have for an epilogue.
std::vector<ActivationKind> fused_activations();

}  // namespace convoy::cudnn
