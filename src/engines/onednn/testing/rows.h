// oneDNN's rows by name, for tests.
#pragma once

#include <algorithm>
#include <string>

#include "engines/onednn/implementations.h"
#include "engines/onednn/onednn.h"

namespace convoy::onednn {

inline const Engine& engine(std::string_view name) {
  const auto all = engines();
  return **std::find_if(all.begin(), all.end(), [&](const Engine* e) { return e->info().name == name; });
}

inline ConvProblem problem(std::string_view text) { return *parse_problem(text); }

inline std::size_t row_of_name(std::string_view name) {
  const auto rows = implementations();
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Implementation& row) { return row.name() == name; });
  return static_cast<std::size_t>(found - rows.begin());
}

inline std::string reason(std::string_view name, std::string_view text) {
  const auto refusal = refuse(engine(name), problem(text), {1, cpu_features()});
  return refusal ? refusal->reason : "taken";
}

}  // namespace convoy::onednn
