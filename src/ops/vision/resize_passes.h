// Linear and cubic Resize: one pass an axis, those that shrink first, rows at a time. Two passes over neighbouring dims
// are one step (a row of the first is a line of the second), so that an image is read and written once.
#pragma once

#include <vector>

#include "ops/row_functions.h"
#include "ops/vision/resize_axis.h"

namespace convoy::ops {

// Types that are computed in f64, and those for which f32 is enough.
constexpr TypeSet kResizedInF64 =
    only(DataType::f64) | only(DataType::s64) | only(DataType::u64) | only(DataType::s32) | only(DataType::u32);
constexpr TypeSet kResizedInF32 = kNumeric & ~kResizedInF64;

// y[outer][out][inner] = taps of x[outer][in][inner], packed. C: what it is computed in, f32 or f64.
template <class C>
struct ResizePass {
  std::int64_t outer, in, out, inner;
  std::int64_t taps;
  std::vector<std::int32_t> index;  // [tap][out]
  std::vector<C> weight;            // [tap][out]
  std::vector<std::int32_t> base;   // of each eight outputs: where their inputs are, as avx2::weighted_row has it
  std::vector<bool> extrapolated;   // by output; empty: none
  C extrapolation;

  ResizePass(const ResizeTaps& made, std::int64_t outer, std::int64_t in, std::int64_t out, std::int64_t inner,
             double extrapolation);

  // One output of all `inner` elements: number `unit` of outer * out.
  template <class T>
  void combine(bool vectors, const T* x, std::int64_t unit, C* y) const {
    combine_line(vectors, x + unit / out * in * inner, unit % out, y);
  }
  // The same of the line at x.
  template <class T>
  void combine_line(bool vectors, const T* x, std::int64_t o, C* y) const;
  // Outputs [first, last) of the line at x, already of type To: false where there are no vectors for that.
  template <class From, class To>
  bool weigh(const RowFunctions* rows, const From* x, std::int64_t first, std::int64_t last, To* y) const;
  // A whole line: in * inner elements become out * inner.
  void expand(bool vectors, const C* x, C* y) const;
};

// All passes of a node, from and to elements of one type.
template <class C>
class ResizePasses {
 public:
  // `axes`: of the dims of x in memory order.
  ResizePasses(const ResizeMethod& method, const std::vector<ResizeAxis>& axes, DataType type, int threads);

  std::size_t workspace_bytes() const;
  // `functions`: null where there are no vectors.
  void run(const RowFunctions* functions, const void* x, void* y, const ExecContext& context) const;

 private:
  // A pass, or two of which the second takes rows of the first as its lines.
  struct Step {
    std::size_t first, second;  // passes; equal: one
  };
  template <class From, class To>
  void run(const Step& step, const RowFunctions* functions, const From* x, To* y, const ExecContext& context,
           C* rows) const;

  std::vector<ResizePass<C>> passes_;
  std::vector<Step> steps_;
  DataType type_;
  std::int64_t elements_;     // of x, should there be nothing to do
  std::int64_t between_ = 0;  // elements of the largest tensor between two steps
  std::int64_t row_ = 0;      // elements of the longest row, of which a thread has two
  int threads_;
};

extern template class ResizePasses<float>;
extern template class ResizePasses<double>;

}  // namespace convoy::ops
