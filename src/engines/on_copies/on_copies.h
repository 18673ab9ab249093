// Engines that run other engines on copies of the tensors, made before and after. All three passes and all that the
// other engine takes. Knob `engine`: which; besides, that engine's own knobs.
//   cpu.in_f32, onednn.in_f32  bf16 and f16 tensors in f32, as they lie; constant weights are converted once
//   cpu.nhwc                   f32 and f64 tensors whose channels lie apart (nchw), channels last
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy {

// On those of `engines` that run on the processor, give the same bits each time and are no oracles. All are one
// provider's; they outlive it.
std::unique_ptr<Engine> make_in_f32_engine(std::string name, std::span<const Engine* const> engines);
std::unique_ptr<Engine> make_nhwc_engine(std::string name, std::span<const Engine* const> engines);

}  // namespace convoy
