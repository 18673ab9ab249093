// Discrete Fourier transforms of any length in f64, n log n for all of them:
//   X[k] = sum over n of x[n] e^(-2 pi i k n / N)
// Lengths whose primes are small go through Stockham's form of the mixed-radix algorithm (Van Loan, Computational
// Frameworks for the Fast Fourier Transform, 1.7), others through Bluestein's: a convolution with a chirp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace convoy::ops {

class Fft {
 public:
  static constexpr std::int64_t kLanes = 8;  // signals that are transformed together, element by element side by side

  explicit Fft(std::int64_t size);  // from 1 on
  std::int64_t size() const { return size_; }
  std::int64_t scratch() const;  // doubles that `transform` needs

  // In place: element n of signal l is re[n * kLanes + l] + i im[n * kLanes + l]. The inverse, times N, is the same
  // with re and im exchanged.
  void transform(double* re, double* im, double* scratch) const;

 private:
  struct Chirp;

  void mixed_radix(double* re, double* im, double* scratch) const;
  void chirp(double* re, double* im, double* scratch) const;

  std::int64_t size_;
  std::vector<int> radices_;
  std::vector<double> cos_, sin_;  // of e^(-2 pi i k / N)
  std::shared_ptr<const Chirp> chirp_;
};

}  // namespace convoy::ops
