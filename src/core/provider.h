// Engines of a library that is loaded when it is first needed: EngineInfo::provider has its name, without a version.
#pragma once

#include <optional>
#include <string>

#include "convoy/engine.h"

namespace convoy {

class LoadsProvider {
 public:
  // The library with its version, "cuDNN 9.19.0", loading it; nothing: it can't be loaded here.
  virtual std::optional<std::string> provider() const = 0;

 protected:
  ~LoadsProvider() = default;
};

// What measurements of the engine are stored with; nothing where its library can't be loaded.
inline std::optional<std::string> provider_of(const Engine& engine) {
  const auto* loads = dynamic_cast<const LoadsProvider*>(&engine);
  return loads != nullptr ? loads->provider() : engine.info().provider;
}

}  // namespace convoy
