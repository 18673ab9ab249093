#include "network/cost/measure_step.h"

#include <gtest/gtest.h>

namespace convoy::network {
namespace {
}  // namespace
}  // namespace convoy::network
