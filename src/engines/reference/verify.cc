#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "engines/reference/evaluator.h"

namespace convoy {
namespace {

using reference::Coords;
using reference::Evaluator;
using reference::Geometry;
using reference::Placement;

// What Arithmetic::winograd's bound takes instead of sum |a*b|: max|a| over the tensor times sum |b| over the whole
// window of an output, taps on padding included. Depends on the output's channel only.
class WindowMagnitude {
 public:
  WindowMagnitude(const Geometry& geometry, const reference::Operands& operands)
      : geometry_(geometry), operands_(operands) {
    const Placement& a = geometry.pass == Pass::dgrad ? geometry.y : geometry.x;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const double v = std::abs(load_as_double(operands.a_type, operands.a, a.offset(a.coords(i))));
      if (v > max_a_) max_a_ = v;
    }
    sums_.resize(geometry.pass == Pass::dgrad ? geometry.x.dims[1] : geometry.y.dims[1], 0);
    const Placement& b = geometry.pass == Pass::wgrad ? geometry.y : geometry.w;
    for (std::int64_t i = 0; i < b.elements(); ++i) {
      const Coords at = b.coords(i);
      sums_[channel_of(at)] += std::abs(load_as_double(operands.b_type, operands.b, b.offset(at)));
    }
  }

  double at(const Coords& coords) const { return max_a_ * sums_[geometry_.channel(coords)]; }

 private:
  // The output channel that element `at` of the second operand contributes to.
  std::int64_t channel_of(const Coords& at) const {
    if (geometry_.pass == Pass::fprop) return at[0];
    if (geometry_.pass == Pass::wgrad) return at[1];
    return at[0] / geometry_.k_per_group * geometry_.c_per_group + at[1];
  }

  const Geometry& geometry_;
  const reference::Operands& operands_;
  double max_a_ = 0;
  std::vector<double> sums_;
};

// The output elements to check: all of them, or corners, edges and a scatter that only the dims decide.
class Sampling {
 public:
  Sampling(const Placement& out, bool full, std::int64_t samples) : out_(out), full_(full), samples_(samples) {}

  std::int64_t count() const { return full_ ? out_.elements() : corners + std::max<std::int64_t>(samples_, 0); }

  Coords at(std::int64_t i) const {
    if (full_) return out_.coords(i);
    Coords coords;
    std::uint64_t state = mix(static_cast<std::uint64_t>(i) + 0x9e3779b97f4a7c15U);
    for (int dim = 0; dim < 5; ++dim) {
      const std::int64_t last = out_.dims[dim] - 1;
      state = mix(state + static_cast<std::uint64_t>(last) + 1);
      if (i < corners) {
        coords[dim] = (i >> dim & 1) != 0 ? last : 0;
      } else if ((state & 7) < 2) {  // a quarter of the scattered coordinates lie on an edge
        coords[dim] = (state & 1) != 0 ? last : 0;
      } else {
        coords[dim] = static_cast<std::int64_t>((state >> 8) % static_cast<std::uint64_t>(out_.dims[dim]));
      }
    }
    return coords;
  }

 private:
  static constexpr std::int64_t corners = 32;

  // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  const Placement& out_;
  bool full_;
  std::int64_t samples_;
};

struct Worst {
  double error = -1;
  std::int64_t index = 0;
  Coords at{};
  double actual = 0;
  double expected = 0;

  void offer(double new_error, std::int64_t new_index, const Coords& new_at, double new_actual, double new_expected) {
    if (new_error > error) *this = {new_error, new_index, new_at, new_actual, new_expected};
  }
};

Dims with_rank(const Coords& at, int rank) {
  Dims dims(at.begin(), at.begin() + 2);
  dims.insert(dims.end(), at.end() - (rank - 2), at.end());
  return dims;
}

Coords from_rank(const std::int64_t* coords, int rank) {
  Coords at{};
  at[0] = coords[0];
  at[1] = coords[1];
  std::copy(coords + 2, coords + rank, at.end() - (rank - 2));
  return at;
}

ReferenceElement evaluate(const ConvProblem& problem, const Evaluator& evaluator, const WindowMagnitude* window,
                          const Coords& at) {
  const reference::Reduction reduction = evaluator.reduce(at);
  const EpilogueValues values = evaluator.values(at);
  const ReductionMagnitude magnitude{reduction.terms, window != nullptr ? window->at(at) : reduction.sum_abs};
  const Arithmetic arithmetic = window != nullptr ? Arithmetic::winograd : Arithmetic::direct;
  std::uint64_t buffer = 0;
  store_from_double(problem.out().type, &buffer, 0, evaluator.stored(reduction.sum, values));
  return {evaluator.exact(reduction.sum, values), load_as_double(problem.out().type, &buffer, 0),
          error_before_rounding(problem, magnitude, reduction.sum, values, arithmetic)};
}

}  // namespace

ReferenceElement reference_element(const ConvProblem& problem, const ConvArgs& args, const std::int64_t* coords,
                                   Arithmetic arithmetic) {
  const Evaluator evaluator(problem, args);
  const Coords at = from_rank(coords, problem.out().rank());
  if (arithmetic == Arithmetic::direct) return evaluate(problem, evaluator, nullptr, at);
  const WindowMagnitude window(evaluator.geometry(), evaluator.operands());
  return evaluate(problem, evaluator, &window, at);
}

Verification verify_with_reference(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                   const VerifyOptions& options, ThreadTeam& team) {
  const Evaluator evaluator(problem, args);
  const Placement& out = evaluator.geometry().out();
  const TensorDesc& desc = problem.out();
  std::optional<WindowMagnitude> window;
  if (options.arithmetic == Arithmetic::winograd) window.emplace(evaluator.geometry(), evaluator.operands());

  Verification result;
  result.full = flops(problem) / 2 <= static_cast<double>(options.full_terms) || out.elements() <= options.samples;
  if (out.elements() == 0) return result;
  const Sampling sampling(out, result.full, options.samples);
  result.checked = sampling.count();

  std::vector<Worst> worst(team.size());
  parallel_ranges(team, sampling.count(), [&](std::int64_t begin, std::int64_t end, int thread) {
    Worst mine;
    for (std::int64_t i = begin; i < end; ++i) {
      const Coords at = sampling.at(i);
      const ReferenceElement element = evaluate(problem, evaluator, window ? &*window : nullptr, at);
      const double value = load_as_double(desc.type, actual, out.offset(at));
      const double error =
          error_in_tolerances(desc.type, value, element.exact, element.stored, options.exact ? 0 : element.bound);
      mine.offer(error, i, at, value, element.stored);
      // The channel padding behind the last channel belongs to that position.
      if (at[1] != desc.dims[1] - 1) continue;
      for (Coords padding = at; ++padding[1] < desc.padded_channels();) {
        const double filler = load_as_double(desc.type, actual, out.offset(padding));
        if (filler != 0) mine.offer(std::numeric_limits<double>::infinity(), i, padding, filler, 0);
      }
    }
    worst[thread] = mine;
  });

  Worst all;
  for (const Worst& mine : worst) all.offer(mine.error, mine.index, mine.at, mine.actual, mine.expected);
  result.max_error = all.error;
  result.worst = with_rank(all.at, desc.rank());
  result.actual = all.actual;
  result.expected = all.expected;
  return result;
}

Arithmetic arithmetic_of(const std::vector<std::string>& notes) {
  return std::find(notes.begin(), notes.end(), "WINOGRAD") != notes.end() ? Arithmetic::winograd : Arithmetic::direct;
}

}  // namespace convoy
