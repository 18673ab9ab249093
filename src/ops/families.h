// The rows that each family's file adds to the operator table (table.cc lists the families).
#pragma once

#include <vector>

#include "ops/support.h"

namespace convoy::ops {

std::vector<OperatorRow> activation_rows();

}  // namespace convoy::ops
