#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "report/terminal.h"

namespace convoy::report {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr int kBarWidth = 24;

}  // namespace

Progress::Progress(std::string title, bool on) : title_(std::move(title)), on_(on && is_terminal(stderr)) {}

std::string Progress::line(std::string_view title, double fraction, std::string_view text, int width) {
  const double clamped = fraction >= 0 ? std::min(fraction, 1.0) : 0.0;
  const int filled = static_cast<int>(clamped * kBarWidth);
  std::string line = fmt::format("{} [{}{}] {:3.0f}%  {}", title, std::string(static_cast<std::size_t>(filled), '#'),
                                 std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), clamped * 100, text);
  if (width > 0 && line.size() > static_cast<std::size_t>(width)) line.resize(static_cast<std::size_t>(width));
  return line;
}

void Progress::update(double fraction, std::string_view text) {
  if (!on_) return;
  const double now = monotonic_seconds();
  if (drawn_ && now - last_ < kRedrawSeconds) return;
  last_ = now;
  drawn_ = true;
  fmt::print(stderr, "\r\x1b[2K{}", line(title_, fraction, text, terminal_width(stderr, 80) - 1));
  std::fflush(stderr);
}

void Progress::finish() {
  if (on_ && drawn_) fmt::print(stderr, "\r\x1b[2K");
  std::fflush(stderr);
  on_ = false;
}

}  // namespace convoy::report
