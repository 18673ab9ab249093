// What detection found besides the features themselves (convoy/cpu.h).
#pragma once

#include <optional>

#include "convoy/cpu.h"

namespace convoy {

// The features before CONVOY_ISA's cap.
const CpuFeatures& detected_cpu_features();

// Whether this process may use AMX's tiles: Linux keeps them from processes that have not asked. Asks once.
bool amx_permitted();

// Set where CONVOY_ISA holds something that is not an instruction set; it is then ignored, and the command says so.
std::optional<Error> isa_variable_error();

}  // namespace convoy
