// cpu.in_f32 and onednn.in_f32: convolutions of bf16 and f16 tensors, computed in f32 by another engine. x, w and y are
// converted before and after, constant weights once. All three passes and all that the other engine takes, in its
// layouts. Knob `engine`: which; besides, that engine's own knobs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy {

// On those of `engines` that run on the processor in f32, give the same bits each time and are no oracles. All are one
// provider's; they outlive it.
std::unique_ptr<Engine> make_in_f32_engine(std::string name, std::span<const Engine* const> engines);

}  // namespace convoy
