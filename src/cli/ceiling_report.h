// The machine's ceiling as the subcommands show it.
#pragma once

#include "cli/program.h"
#include "select/measure/ceiling.h"

namespace convoy::cli {

// The head of the column for share_of_ceiling().
inline constexpr const char* kOfCeiling = "of ceiling";

// What part of the ceiling a time reaches, "31.2%"; empty where either isn't known.
std::string share_of_ceiling(const std::optional<double>& least_seconds, double seconds);

// "79.5 GFLOP/s in f32; 45.1 GB/s from the shared cache, 20.3 from memory (measured 2026-11-22)"
std::string text_of(const selection::MachineCeiling& ceiling);
Json to_json(const selection::MachineCeiling& ceiling);

}  // namespace convoy::cli
