// What is tested of every ProductEngine without a GPU. Both give how many tiles they saw.
#pragma once

#include <span>

#include "engines/cuda/compiler/product_engine.h"

namespace convoy::cuda::testing {

// Each `every`-th tile of the problems and architectures compiles and spills at most so many bytes, 128 where it keeps
// to a part of the device, whose loop over work takes a register or two.
int expect_compiles(const ProductEngine& engine, std::span<const char* const> problems, int every,
                    std::int64_t most_spilled);

// Each second tile of the problems gives the right numbers on the processor, its blocks those of one multiprocessor.
int expect_right_on_the_processor(const ProductEngine& engine, std::span<const char* const> problems);

}  // namespace convoy::cuda::testing
