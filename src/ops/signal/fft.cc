#include "ops/signal/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace convoy::ops {
namespace {

constexpr int kLargestRadix = 13;
constexpr std::int64_t kLanes = Fft::kLanes;

// Radices whose product is the size; none where it has a larger prime.
std::vector<int> radices_of(std::int64_t size) {
  std::vector<int> radices;
  for (const int radix : {4, 2, 3, 5, 7, 11, kLargestRadix}) {
    for (; size % radix == 0; size /= radix) radices.push_back(radix);
  }
  return size == 1 ? radices : std::vector<int>{};
}

struct Complex {
  double re, im;
};

// A pass takes elements q + s * (p + m * k), k < radix, to q + s * (radix * p + j): a transform of `radix` elements,
// times e^(-2 pi i p j s / N). s counts lanes as well.
struct Pass {
  std::int64_t m, s;
  std::int64_t step;  // of the table of roots: s without lanes
  const double *cos, *sin;
  const double *x_re, *x_im;
  double *y_re, *y_im;

  Complex root(std::int64_t power) const { return {cos[power * step], sin[power * step]}; }
};

void pass_2(const Pass& f) {
  for (std::int64_t p = 0; p < f.m; ++p) {
    const auto [wr, wi] = f.root(p);
    const std::int64_t a = f.s * p, b = f.s * (p + f.m), to = f.s * 2 * p;
#pragma GCC ivdep
    for (std::int64_t q = 0; q < f.s; ++q) {
      const double ar = f.x_re[a + q], ai = f.x_im[a + q], br = f.x_re[b + q], bi = f.x_im[b + q];
      const double dr = ar - br, di = ai - bi;
      f.y_re[to + q] = ar + br;
      f.y_im[to + q] = ai + bi;
      f.y_re[to + f.s + q] = dr * wr - di * wi;
      f.y_im[to + f.s + q] = dr * wi + di * wr;
    }
  }
}

void pass_4(const Pass& f) {
  for (std::int64_t p = 0; p < f.m; ++p) {
    const auto [ur, ui] = f.root(p);
    const auto [vr, vi] = f.root(2 * p);
    const auto [wr, wi] = f.root(3 * p);
    const std::int64_t at = f.s * p, apart = f.s * f.m, to = f.s * 4 * p;
#pragma GCC ivdep
    for (std::int64_t q = 0; q < f.s; ++q) {
      const double *re = f.x_re + at + q, *im = f.x_im + at + q;
      const double sr = re[0] + re[2 * apart], si = im[0] + im[2 * apart];
      const double dr = re[0] - re[2 * apart], di = im[0] - im[2 * apart];
      const double tr = re[apart] + re[3 * apart], ti = im[apart] + im[3 * apart];
      const double er = im[apart] - im[3 * apart], ei = re[3 * apart] - re[apart];  // -i (x1 - x3)
      double *to_re = f.y_re + to + q, *to_im = f.y_im + to + q;
      to_re[0] = sr + tr;
      to_im[0] = si + ti;
      to_re[f.s] = (dr + er) * ur - (di + ei) * ui;
      to_im[f.s] = (dr + er) * ui + (di + ei) * ur;
      to_re[2 * f.s] = (sr - tr) * vr - (si - ti) * vi;
      to_im[2 * f.s] = (sr - tr) * vi + (si - ti) * vr;
      to_re[3 * f.s] = (dr - er) * wr - (di - ei) * wi;
      to_im[3 * f.s] = (dr - er) * wi + (di - ei) * wr;
    }
  }
}

// By the definition, with roots of the radix: e^(-2 pi i k j / radix), a root of N m s / lanes places on.
void pass_any(const Pass& f, int radix) {
  const std::int64_t quarter = f.m;  // root(quarter) is e^(-2 pi i / radix)
  for (std::int64_t p = 0; p < f.m; ++p) {
    for (int j = 0; j < radix; ++j) {
      const Complex turn = f.root(p * j);
      double *to_re = f.y_re + f.s * (radix * p + j), *to_im = f.y_im + f.s * (radix * p + j);
      std::fill_n(to_re, f.s, 0.0);
      std::fill_n(to_im, f.s, 0.0);
      for (int k = 0; k < radix; ++k) {
        const Complex root = f.root(quarter * (k * j % radix));
        const double wr = root.re * turn.re - root.im * turn.im, wi = root.re * turn.im + root.im * turn.re;
        const double *re = f.x_re + f.s * (p + f.m * k), *im = f.x_im + f.s * (p + f.m * k);
#pragma GCC ivdep
        for (std::int64_t q = 0; q < f.s; ++q) {
          to_re[q] += re[q] * wr - im[q] * wi;
          to_im[q] += re[q] * wi + im[q] * wr;
        }
      }
    }
  }
}

// x times e^(-i angle) for each element n, whose cosine and negative sine are in tables; lanes side by side.
void turn(const double* cos, const double* sin, std::int64_t count, const double* x_re, const double* x_im,
          double* y_re, double* y_im) {
  for (std::int64_t n = 0; n < count; ++n) {
#pragma GCC ivdep
    for (std::int64_t l = n * kLanes; l < (n + 1) * kLanes; ++l) {
      const double re = x_re[l], im = x_im[l];
      y_re[l] = re * cos[n] - im * sin[n];
      y_im[l] = re * sin[n] + im * cos[n];
    }
  }
}

}  // namespace

// X[k] = w[k] * sum of (x[n] w[n]) / w[k - n], with w[n] = e^(-pi i n^2 / N): the sum is a convolution, done by
// transforms of a power of two.
struct Fft::Chirp {
  explicit Chirp(std::int64_t size) : whole(power_of_two(2 * size - 1)), cos(size), sin(size) {
    const std::int64_t many = whole.size();
    for (std::int64_t n = 0; n < size; ++n) {
      const auto square = static_cast<std::int64_t>(static_cast<__int128>(n) * n % (2 * size));
      const double angle = std::numbers::pi * static_cast<double>(square) / static_cast<double>(size);
      cos[n] = std::cos(angle);
      sin[n] = -std::sin(angle);
    }
    // The transform of 1 / w, around 0, divided by the length for the inverse that comes.
    std::vector<double> re(many * kLanes), im(many * kLanes), scratch(whole.scratch());
    for (std::int64_t n = 0; n < size; ++n) {
      for (const std::int64_t at : {n, (many - n) % many}) {
        re[at * kLanes] = cos[n] / static_cast<double>(many);
        im[at * kLanes] = -sin[n] / static_cast<double>(many);
      }
    }
    whole.transform(re.data(), im.data(), scratch.data());
    for (std::int64_t n = 0; n < many; ++n) {
      filter_cos.push_back(re[n * kLanes]);
      filter_sin.push_back(im[n * kLanes]);
    }
  }
  static std::int64_t power_of_two(std::int64_t least) {
    std::int64_t size = 1;
    while (size < least) size *= 2;
    return size;
  }

  Fft whole;
  std::vector<double> cos, sin;                // of w
  std::vector<double> filter_cos, filter_sin;  // of the transform of 1 / w
};

Fft::Fft(std::int64_t size) : size_(size), radices_(radices_of(size)) {
  if (radices_.empty() && size > 1) {
    chirp_ = std::make_shared<const Chirp>(size);
    return;
  }
  for (std::int64_t k = 0; k < size; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(size);
    cos_.push_back(std::cos(angle));
    sin_.push_back(-std::sin(angle));
  }
}

std::int64_t Fft::scratch() const {
  return chirp_ ? 2 * chirp_->whole.size() * kLanes + chirp_->whole.scratch() : 2 * size_ * kLanes;
}

void Fft::transform(double* re, double* im, double* scratch) const {
  chirp_ ? chirp(re, im, scratch) : mixed_radix(re, im, scratch);
}

void Fft::mixed_radix(double* re, double* im, double* scratch) const {
  double *from_re = re, *from_im = im, *to_re = scratch, *to_im = scratch + size_ * kLanes;
  std::int64_t rest = size_, done = 1;
  for (const int radix : radices_) {
    rest /= radix;
    const Pass pass{rest, done * kLanes, done, cos_.data(), sin_.data(), from_re, from_im, to_re, to_im};
    if (radix == 4) {
      pass_4(pass);
    } else if (radix == 2) {
      pass_2(pass);
    } else {
      pass_any(pass, radix);
    }
    done *= radix;
    std::swap(from_re, to_re);
    std::swap(from_im, to_im);
  }
  if (from_re == re) return;
  std::copy_n(from_re, size_ * kLanes, re);
  std::copy_n(from_im, size_ * kLanes, im);
}

void Fft::chirp(double* re, double* im, double* scratch) const {
  const Chirp& c = *chirp_;
  const std::int64_t many = c.whole.size();
  double *wide_re = scratch, *wide_im = scratch + many * kLanes, *rest = scratch + 2 * many * kLanes;
  turn(c.cos.data(), c.sin.data(), size_, re, im, wide_re, wide_im);
  std::fill(wide_re + size_ * kLanes, wide_re + many * kLanes, 0.0);
  std::fill(wide_im + size_ * kLanes, wide_im + many * kLanes, 0.0);
  c.whole.transform(wide_re, wide_im, rest);
  turn(c.filter_cos.data(), c.filter_sin.data(), many, wide_re, wide_im, wide_re, wide_im);
  c.whole.transform(wide_im, wide_re, rest);
  turn(c.cos.data(), c.sin.data(), size_, wide_re, wide_im, re, im);
}

}  // namespace convoy::ops
