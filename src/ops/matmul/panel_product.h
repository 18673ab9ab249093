// Products of rows with panels of a packed matrix: what recurrent layers compute step by step, and panel_matmul.
#pragma once

#include <algorithm>
#include <cstdint>

#include "convoy/cpu.h"

namespace convoy::ops {

// A packed matrix is panels of kPanel columns; a panel has the kPanel elements of each of its rows in turn.
constexpr std::int64_t kPanel = 32;
constexpr std::int64_t kNarrowPanel = kPanel / 2;  // of matrices with fewer columns

// Which sums a product writes: how many of its columns there are, and whether it adds to what is there.
struct PanelSums {
  int columns = static_cast<int>(kPanel);
  bool add = true;
};

// c[r][0 .. kPanel) += a[r][0 .. depth) . panel, for each of the rows; or kNarrowPanel.
template <class T>
using PanelProduct = void (*)(const T* const* a, T* const* c, int rows, const T* panel, std::int64_t depth,
                              PanelSums made);

template <class T, std::int64_t kWidth = kPanel>
void plain_panel_product(const T* const* a, T* const* c, int rows, const T* panel, std::int64_t depth, PanelSums made) {
  for (int r = 0; r < rows; ++r) {
    T sums[kWidth] = {};
    for (int j = 0; made.add && j < made.columns; ++j) sums[j] = c[r][j];
    for (std::int64_t k = 0; k < depth; ++k) {
      const T x = a[r][k];
      for (std::int64_t j = 0; j < kWidth; ++j) sums[j] += x * panel[k * kWidth + j];
    }
    for (int j = 0; j < made.columns; ++j) c[r][j] = sums[j];
  }
}

// The same of kPanel columns of a matrix whose rows lie b_row elements apart; they are also packed into `panel`. One
// row at least. `next`: as many rows of b that the next call reads, to be fetched meanwhile; null where unknown.
template <class T>
using PackingProduct = void (*)(const T* const* a, T* const* c, int rows, const T* b, std::int64_t b_row, T* panel,
                                std::int64_t depth, const T* next, bool add);

template <class T>
void plain_packing_product(const T* const* a, T* const* c, int rows, const T* b, std::int64_t b_row, T* panel,
                           std::int64_t depth, const T* /*next*/, bool add) {
  for (std::int64_t k = 0; k < depth; ++k) std::copy_n(b + k * b_row, kPanel, panel + k * kPanel);
  plain_panel_product(a, c, rows, panel, depth, {.add = add});
}

// In f32 or f64, with the widest vectors of the instruction set, which the processor has.
template <class T>
PanelProduct<T> panel_product(Isa isa);
template <class T>
PanelProduct<T> narrow_panel_product(Isa isa);
template <class T>
PackingProduct<T> packing_product(Isa isa);

namespace avx2 {
void panel_product(const float* const* a, float* const* c, int rows, const float* panel, std::int64_t depth,
                   PanelSums made);
void narrow_panel_product(const float* const* a, float* const* c, int rows, const float* panel, std::int64_t depth,
                          PanelSums made);
void packing_product(const float* const* a, float* const* c, int rows, const float* b, std::int64_t b_row, float* panel,
                     std::int64_t depth, const float* next, bool add);
}  // namespace avx2
namespace avx512 {
void panel_product(const float* const* a, float* const* c, int rows, const float* panel, std::int64_t depth,
                   PanelSums made);
void narrow_panel_product(const float* const* a, float* const* c, int rows, const float* panel, std::int64_t depth,
                          PanelSums made);
void packing_product(const float* const* a, float* const* c, int rows, const float* b, std::int64_t b_row, float* panel,
                     std::int64_t depth, const float* next, bool add);
}  // namespace avx512
namespace avx2_f64 {
void panel_product(const double* const* a, double* const* c, int rows, const double* panel, std::int64_t depth,
                   PanelSums made);
void narrow_panel_product(const double* const* a, double* const* c, int rows, const double* panel, std::int64_t depth,
                          PanelSums made);
void packing_product(const double* const* a, double* const* c, int rows, const double* b, std::int64_t b_row,
                     double* panel, std::int64_t depth, const double* next, bool add);
}  // namespace avx2_f64
namespace avx512_f64 {
void panel_product(const double* const* a, double* const* c, int rows, const double* panel, std::int64_t depth,
                   PanelSums made);
void narrow_panel_product(const double* const* a, double* const* c, int rows, const double* panel, std::int64_t depth,
                          PanelSums made);
void packing_product(const double* const* a, double* const* c, int rows, const double* b, std::int64_t b_row,
                     double* panel, std::int64_t depth, const double* next, bool add);
}  // namespace avx512_f64

}  // namespace convoy::ops
