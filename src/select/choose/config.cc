// Library configurations: which engines there are.
#include <fmt/format.h>

#include <array>

#include "base/environment.h"
#include "convoy/selection_options.h"
#include "select/choose/notes.h"

namespace convoy {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"full", "jit-only", "portable"};

LibraryConfig from_environment() {
  const auto value = environment(Variable::config);
  if (!value) return LibraryConfig::full;
  const auto config = parse_library_config(*value);
  return config.ok() ? *config : LibraryConfig::full;
}

}  // namespace

std::string_view name_of(LibraryConfig config) { return kNames[static_cast<std::size_t>(config)]; }

Result<LibraryConfig> parse_library_config(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<LibraryConfig>(i);
  }
  return Error{ErrorCode::invalid_argument,
               fmt::format("'{}' is not a configuration; {} are", name, fmt::join(kNames, ", "))};
}

LibraryConfig library_config() {
  static const LibraryConfig config = from_environment();
  return config;
}

std::optional<std::string> dropped_by(LibraryConfig config, const EngineInfo& engine) {
  if (engine.oracle && engine.provider.empty()) return std::nullopt;
  switch (config) {
    case LibraryConfig::full:
      return std::nullopt;
    case LibraryConfig::jit_only:
      if (engine.notes_vary || selection::has_note(engine.notes, note::runtime_compilation)) return std::nullopt;
      return "configuration=jit-only: this engine is compiled beforehand";
    case LibraryConfig::portable:
      if (engine.name.starts_with("cpu.")) return std::nullopt;
      return "configuration=portable: this engine is not one of Convoy's own for the CPU";
  }
  return std::nullopt;
}

}  // namespace convoy
