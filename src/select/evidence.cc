#include "select/evidence.h"

#include <algorithm>
#include <cmath>

namespace convoy::selection {
namespace {

double doubt(const Measurement& m) {
  constexpr double least = 0.01;  // what the medians of two equal plans differ by
  constexpr double rough = 0.1;   // of few samples
  return m.samples < kEnoughSamples ? rough : std::max(least, relative_uncertainty(m.spread, m.samples));
}

}  // namespace

double relative_uncertainty(double spread, int samples) {
  return samples < kEnoughSamples ? 1 : 1.57 * spread / std::sqrt(static_cast<double>(samples));
}

bool may_be_disturbed(const Measurement& m, DeviceKind device) {
  return device == DeviceKind::cpu && m.state != MeasurementState::complete && m.samples < kEnoughSamples &&
         m.median_seconds <= kLongestDisturbanceSeconds;
}

bool seems_disturbed(const Measurement& m, double predicted_seconds, DeviceKind device) {
  constexpr double far = 2;  // times: predictions are off by a quarter in the mean
  return may_be_disturbed(m, device) && m.median_seconds > far * predicted_seconds;
}

bool is_faster(const Measurement& a, const Measurement& b, DeviceKind device) {
  if (may_be_disturbed(a, device) || may_be_disturbed(b, device)) return false;
  return a.median_seconds * (1 + doubt(a)) < b.median_seconds * (1 - doubt(b));
}

}  // namespace convoy::selection
