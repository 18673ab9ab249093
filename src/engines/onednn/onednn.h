// oneDNN as a provider of convolutions: every implementation that it offers for a problem is an engine of its own,
// named after what its primitive descriptors call it: "brgconv:avx512_core" is onednn.brgconv_avx512.
//
//   fprop, dgrad and wgrad in 1D to 3D, groups, dilation, asymmetric padding; f32, bf16, f16 and 8-bit integers where
//   oneDNN has them on this processor. fprop fuses bias, residual, activation, alpha, beta and requantization as
//   post-ops; oneDNN's backward passes have no epilogue.
//
// Knob `layout`: 0 computes on the activations as they lie, 1 in the format that the implementation prefers, with
// reorders to and from it (their time is the candidate's). Weights are packed into its format at plan time when they
// are constant, else at each execution.
#pragma once

#include <span>

#include "convoy/engine.h"

namespace convoy::onednn {

// A row an implementation known of this oneDNN version, in its own order of preference. The same on every processor.
std::span<const Engine* const> engines();

}  // namespace convoy::onednn
