// A progress bar on standard error, drawn only where that is a terminal (and TERM not "dumb").
#pragma once

#include <string>
#include <string_view>

namespace convoy::report {

class Progress {
 public:
  // `on`: draw at all (the caller's --quiet and the like); a bar is drawn only on a terminal besides.
  Progress(std::string title, bool on = true);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  // `fraction` in [0, 1]; `text` says what is being done. Redraws at most ten times a second.
  void update(double fraction, std::string_view text);
  // Clears the line; later updates draw nothing.
  void finish();

  // The line as it would be drawn in `width` columns.
  static std::string line(std::string_view title, double fraction, std::string_view text, int width);

 private:
  void draw(std::string_view line);

  std::string title_;
  bool on_;
  bool drawn_ = false;
  double last_ = -1;
  std::size_t width_ = 0;  // of the line that is drawn
};

}  // namespace convoy::report
