// What a plan runs, for people: `convoy explain` counts the loops and says what each fuses.
#pragma once

#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy {

// Implemented by the plans that can tell.
class HasStages {
 public:
  // The kernels or loops over memory of an execution, in order, each with all that it does at once: {"transform input",
  // "products", "transform output + bias + relu"}.
  virtual std::vector<std::string> stages() const = 0;

 protected:
  ~HasStages() = default;
};

// Empty where the plan can't tell.
inline std::vector<std::string> stages_of(const Plan& plan) {
  const auto* told = dynamic_cast<const HasStages*>(&plan);
  return told != nullptr ? told->stages() : std::vector<std::string>();
}

}  // namespace convoy
