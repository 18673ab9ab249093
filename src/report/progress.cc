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

Progress::Progress(std::string title, bool on) : title_(std::move(title)), on_(on && can_redraw(stderr)) {}

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
  draw(line(title_, fraction, text, terminal_width(stderr, 80) - 1));
}

void Progress::finish() {
  if (on_ && drawn_) {
    draw("");
    std::fputc('\r', stderr);
  }
  std::fflush(stderr);
  on_ = false;
}

// Without escape codes: what is left of a longer line before is overwritten with spaces.
void Progress::draw(std::string_view line) {
  const std::size_t left_over = width_ > line.size() ? width_ - line.size() : 0;
  fmt::print(stderr, "\r{}{}", line, std::string(left_over, ' '));
  std::fflush(stderr);
  width_ = line.size();
}

}  // namespace convoy::report
