// Knobs and notes that an engine may have for some problem, so that misspelt ones in rules and filters are found before
// any problem is known.
#pragma once

#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy {

struct DeclaredKnob {
  std::string name;
  std::vector<std::string> words = {};  // that it may be set to; none: numbers
};

// Implemented by the engines that have knobs, or notes besides those of EngineInfo::notes. Globs ("k*") where a
// provider decides.
class DeclaresNames {
 public:
  virtual std::vector<DeclaredKnob> declared_knobs() const { return {}; }
  virtual std::vector<std::string> other_notes() const { return {}; }

 protected:
  ~DeclaresNames() = default;
};

inline std::vector<DeclaredKnob> declared_knobs_of(const Engine& engine) {
  const auto* declares = dynamic_cast<const DeclaresNames*>(&engine);
  return declares != nullptr ? declares->declared_knobs() : std::vector<DeclaredKnob>();
}

// All of its notes, EngineInfo::notes included.
inline std::vector<std::string> note_names_of(const Engine& engine) {
  std::vector<std::string> names = engine.info().notes;
  if (const auto* declares = dynamic_cast<const DeclaresNames*>(&engine)) {
    for (std::string& name : declares->other_notes()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace convoy
