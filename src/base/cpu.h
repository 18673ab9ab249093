// What detection found besides the features themselves (convoy/cpu.h).
#pragma once

#include "convoy/cpu.h"

namespace convoy {

// The features before CONVOY_ISA's cap.
const CpuFeatures& detected_cpu_features();

// Whether this process may use AMX's tiles: Linux keeps them from processes that have not asked. Asks once.
bool amx_permitted();

}  // namespace convoy
