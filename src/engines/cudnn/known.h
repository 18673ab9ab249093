// What cuDNN's engines were seen to do that cuDNN does not say; each case is in docs/known-failures.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::cudnn {

// All of it was seen in 9.19. In 9.26 and 9.28 the engines of these indices say the same of themselves (notes, knobs;
// bench/cudnn_versions.py), so they are taken to do the same, as those of any later version are until it is known.

// What of that was not verified of a version (cudnnGetVersion's), as a sentence; empty: all was.
std::string not_verified(int version);

// Wrong results:
//   pad    different paddings before and after, which the FFT engines and the oldest GEMM engines (those with the knob
//          USE_TEX) take as equal in dgrad and wgrad
//   y=s32  written as the bits of a float by all engines but those compiled at run time
//   size   engines that make a channels-last copy, of a tensor with gaps that spans over 2 GiB (a piece of split.h)
//   C/g=1  wgrad of engine 69 with several filters a group
// `engine`: its index, -1 of the older API. `version` is cudnnGetVersion's: engine indices mean nothing in another.
std::optional<Refusal> known_wrong(const ConvProblem& problem, std::int64_t engine, int version,
                                   const std::vector<std::string>& notes, const std::vector<Knob>& knobs);

// Notes that an engine lacks: REDUCED_PRECISION_REDUCTION where partial sums are rounded to a 16-bit out, and where fp8
// is accumulated in the tensor cores of sm_90, which keep fewer bits than f32; DOWN_CONVERT_INPUTS where f32 is cut off
// to tf32 instead of rounded; FFT.
// `notes`: those that it has.
std::vector<std::string> missing_notes(const ConvProblem& problem, std::int64_t engine, int version,
                                       const std::vector<std::string>& notes);

// SPREADS_SPECIAL_VALUES where an engine's notes name a transform or it mixes groups, MULTIPLIES_PADDING where windows
// reach padding. `engine` is none of the older API's: nothing.
std::vector<std::string> special_value_notes(const ConvProblem& problem, std::optional<std::int64_t> engine,
                                             const std::vector<std::string>& notes);

// The same of an algorithm of the older API.
std::vector<std::string> missing_legacy_notes(const ConvProblem& problem, int algorithm);

}  // namespace convoy::cudnn
