// Seeded random numbers that are the same on every standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace convoy::testing {

// SplitMix64 (Steele, Lea and Flood, 2014) one word of state.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // In [low, high]. Precondition: low <= high.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // in [0, 1)
  bool chance(double probability) { return unit() < probability; }
  // Irwin and Hall's sum of 12 uniforms: mean 0, variance 1, within +-6.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += unit();
    return sum;
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[integer(0, static_cast<std::int64_t>(from.size()) - 1)];
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[integer(0, static_cast<std::int64_t>(from.size()) - 1)];
  }
  Random fork() { return Random(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace convoy::testing
