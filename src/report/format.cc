#include "report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy::report {
namespace {

// Three significant digits without an exponent for numbers in [0.1, 1000).
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

bool all_equal(const Dims& dims, std::int64_t value) {
  return std::all_of(dims.begin(), dims.end(), [value](std::int64_t dim) { return dim == value; });
}

std::string sizes(const Dims& dims, std::size_t first = 0) {
  std::string text;
  for (std::size_t i = first; i < dims.size(); ++i) text += fmt::format("{}{}", i > first ? "x" : "", dims[i]);
  return text;
}

// "2" for 2x2, "2x1" otherwise.
std::string folded(const Dims& dims) {
  return !dims.empty() && all_equal(dims, dims[0]) ? fmt::format("{}", dims[0]) : sizes(dims);
}

}  // namespace

std::string seconds(double value) {
  if (!std::isfinite(value)) return "-";
  if (value < 1e-6) return three_digits(value * 1e9) + " ns";
  if (value < 1e-3) return three_digits(value * 1e6) + " us";
  if (value < 1) return three_digits(value * 1e3) + " ms";
  return three_digits(value) + " s";
}

std::string bytes(double value) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", value) : fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string thousands(std::int64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool between = i > 0 && digits[i - 1] != '-';
    if (between && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string percent(double fraction) { return fmt::format("{:.1f}%", fraction * 100); }

std::string rate(double per_second) { return std::isfinite(per_second) ? three_digits(per_second * 1e-9) : "-"; }

std::string number(double value) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  return size >= 0.01 && size < 1000 ? three_digits(value) : fmt::format("{:.2g}", value);
}

std::string per_second(double value, std::string_view what) {
  if (!std::isfinite(value)) return "-";
  const std::string count = std::abs(value) < 99.95 ? number(value) : thousands(std::llround(value));
  return fmt::format("{} {}s a second", count, what);
}

std::string short_name(const ConvProblem& problem) {
  std::string text = sizes(problem.w.dims, 2);
  if (!all_equal(problem.stride, 1)) text += fmt::format("/{}", folded(problem.stride));
  if (!all_equal(problem.dilation, 1)) text += fmt::format(" d{}", folded(problem.dilation));
  text += fmt::format(" {}->{}", problem.in_channels(), problem.out_channels());
  if (problem.groups > 1) text += fmt::format(" g{}", problem.groups);
  text += fmt::format(" {}", sizes(problem.x.dims, 2));
  if (problem.batch() > 1) text += fmt::format(" n{}", problem.batch());
  if (problem.x.type != DataType::f32 || problem.w.type != problem.x.type) {
    text += fmt::format(" {}", name_of(problem.x.type));
    if (problem.w.type != problem.x.type) text += fmt::format("*{}", name_of(problem.w.type));
    if (problem.out().type != problem.x.type) text += fmt::format(">{}", name_of(problem.out().type));
  }
  text += fmt::format(" {}", name_of(problem.x.layout(), problem.spatial_dims()));
  if (problem.pass != Pass::fprop) text = fmt::format("{} {}", name_of(problem.pass), text);
  return text;
}

}  // namespace convoy::report
