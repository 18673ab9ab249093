#include "engines/cpu/winograd/transforms.h"

namespace convoy::cpu {
namespace {

constexpr double kA2 = kPointA * kPointA;
constexpr double kB2 = kPointB * kPointB;
constexpr double kNa = 2 * kA2 * (kA2 - kB2);  // prod over the other points, of +a and of -a
constexpr double kNb = 2 * kB2 * (kB2 - kA2);

constexpr double kFilter2[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kFilter4[6][3] = {
    {1 / (kA2 * kB2), 0, 0},
    {1 / kNa, kPointA / kNa, kA2 / kNa},
    {1 / kNa, -kPointA / kNa, kA2 / kNa},
    {1 / kNb, kPointB / kNb, kB2 / kNb},
    {1 / kNb, -kPointB / kNb, kB2 / kNb},
    {0, 0, 1},
};

template <int kPoints>
void apply(const double (&matrix)[kPoints][3], bool two_d, const double* g, double* u) {
  double columns[kPoints][3];  // 1D: the one row of g as it is
  const int rows = two_d ? kPoints : 1;
  for (int i = 0; i < rows; ++i) {
    for (int s = 0; s < 3; ++s) {
      columns[i][s] = two_d ? matrix[i][0] * g[s] + matrix[i][1] * g[3 + s] + matrix[i][2] * g[6 + s] : g[s];
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < kPoints; ++j) {
      *u++ = matrix[j][0] * columns[i][0] + matrix[j][1] * columns[i][1] + matrix[j][2] * columns[i][2];
    }
  }
}

}  // namespace

void transform_filter(int m, bool two_d, const double* g, double* u) {
  if (m == 2) {
    apply(kFilter2, two_d, g, u);
  } else {
    apply(kFilter4, two_d, g, u);
  }
}

}  // namespace convoy::cpu
