// Where the seconds of this process went, by name: what looks for the slow part of tuning reads it. Nothing else does.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace convoy {

struct SpentSum {
  double seconds = 0;  // of all threads: names that nest, and threads side by side, count each
  long times = 0;
};
// Of all that have ended. Safe from any thread.
std::map<std::string, SpentSum> spent_seconds();

// The seconds of its life count for `name`, which has to stay.
class Spent {
 public:
  explicit Spent(std::string_view name) : name_(name), start_(monotonic_seconds()) {}
  ~Spent();
  Spent(const Spent&) = delete;
  Spent& operator=(const Spent&) = delete;

 private:
  std::string_view name_;
  double start_;
};

}  // namespace convoy
