// What a time says, and which of two is the shorter beyond doubt.
#pragma once

#include "convoy/measurement.h"

namespace convoy::selection {

// Fewer samples say nothing of how far their median may be off.
inline constexpr int kEnoughSamples = 5;
// What else runs on the machine is in the way of a run for a slice of the processor's time, or a few: a time above this
// is its own.
inline constexpr double kLongestDisturbanceSeconds = 0.03;

// Half-width of a 95% confidence interval of a median, relative to it: 1.57 * IQR / sqrt(n) (McGill, Tukey and Larsen,
// "Variations of Box Plots", 1978), of the spread that is IQR over median. 1 for fewer than kEnoughSamples.
double relative_uncertainty(double spread, int samples);

// Whether a time may be that of a disturbance: it is rough, short, and of fewer than kEnoughSamples. Not on a GPU,
// where nobody else is in the way. Such a time decides nothing.
bool may_be_disturbed(const Measurement& measurement, DeviceKind device);

// Whether it probably is: it is far above what was predicted. Then the candidate is sampled again, beside others,
// before it is out.
bool seems_disturbed(const Measurement& measurement, double predicted_seconds, DeviceKind device);

// Whether `a` is faster than `b` beyond doubt: the intervals of their medians, of at least 1%, are apart, and neither
// time may be that of a disturbance.
bool is_faster(const Measurement& a, const Measurement& b, DeviceKind device);

}  // namespace convoy::selection
