// What an engine configuration of cuDNN's says when it is asked: its engine, its knobs, the engine's notes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/cudnn/descriptor.h"

namespace convoy::cudnn {

// A choice of cuDNN's heuristics: an engine's index and all its knobs.
struct Pick {
  std::int64_t engine;
  KnobValues knobs;
  friend bool operator==(const Pick&, const Pick&) = default;
};

// Nothing where the configuration can't be read.
std::optional<Pick> pick_of(const Descriptor& configuration);

// Numerical notes, then behaviour notes, as cuDNN names them; `engine` is finalised.
std::vector<std::string> notes_of(const Descriptor& engine);
// The same of the engine in a configuration.
std::vector<std::string> notes_of_configuration(const Descriptor& configuration);

}  // namespace convoy::cudnn
