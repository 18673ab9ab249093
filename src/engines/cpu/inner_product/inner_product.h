// Convolutions with one result a channel: the filter is as large as x, so that each weight is used once for an image.
#pragma once

#include "convoy/engine.h"

namespace convoy::cpu {

const Engine& inner_product_engine();

}  // namespace convoy::cpu
