// Notes that Convoy gives engines besides those of convoy/engine.h.
#pragma once

#include <array>
#include <string_view>

namespace convoy::note {

inline constexpr std::string_view up_convert_inputs = "UP_CONVERT_INPUTS";  // narrow tensors are converted to f32
// A NaN, an infinity or a large value reaches outputs whose own window has none (docs/selection.md).
inline constexpr std::string_view spreads_special_values = "SPREADS_SPECIAL_VALUES";
// A weight that is an infinity or a NaN times padding is a NaN.
inline constexpr std::string_view multiplies_padding = "MULTIPLIES_PADDING";
// The fused activation makes another value of a NaN or an infinity.
inline constexpr std::string_view loses_special_values = "LOSES_SPECIAL_VALUES";

// Of cuDNN's, those that say what a result loses: a program that ran without is offered none of them.
inline constexpr std::array<std::string_view, 6> kLosses = {
    "NONDETERMINISTIC", "TENSOR_CORE", "DOWN_CONVERT_INPUTS", "FFT", "REDUCED_PRECISION_REDUCTION", "WINOGRAD"};

}  // namespace convoy::note
