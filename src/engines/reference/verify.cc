#include <algorithm>
#include <cmath>
#include <limits>
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
    const Placement& w = geometry.w;
    const Placement& y = geometry.y;
    terms_ = geometry.pass == Pass::wgrad ? y.elements() / y.dims[1]
                                          : w.elements() / (geometry.pass == Pass::fprop ? w.dims[0] : w.dims[1]);
    if (geometry.pass == Pass::dgrad) terms_ = terms_ / w.dims[0] * geometry.k_per_group;
    sums_.resize(geometry.pass == Pass::dgrad ? geometry.x.dims[1] : geometry.y.dims[1], 0);
    const Placement& b = geometry.pass == Pass::wgrad ? geometry.y : geometry.w;
    for (std::int64_t i = 0; i < b.elements(); ++i) {
      const Coords at = b.coords(i);
      sums_[channel_of(at)] += std::abs(load_as_double(operands.b_type, operands.b, b.offset(at)));
    }
  }

  // Padding included: a tile's roundings reach an output whether its own taps meet data or not.
  ReductionMagnitude at(const Coords& coords) const { return {terms_, max_a_ * sums_[geometry_.channel(coords)]}; }

 private:
  // The output channel that element `at` of the second operand contributes to.
  std::int64_t channel_of(const Coords& at) const {
    if (geometry_.pass == Pass::fprop) return at[0];
    if (geometry_.pass == Pass::wgrad) return at[1];
    return at[0] / geometry_.k_per_group * geometry_.c_per_group + at[1];
  }

  const Geometry& geometry_;
  const reference::Operands& operands_;
  std::int64_t terms_ = 0;
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

double as_stored(DataType type, double value) {
  std::uint64_t buffer = 0;
  store_from_double(type, &buffer, 0, value);
  return load_as_double(type, &buffer, 0);
}

}  // namespace

ReferenceElement reference_element(const ConvProblem& problem, const ConvArgs& args, const std::int64_t* coords,
                                   Arithmetic arithmetic) {
  const Evaluator evaluator(problem, args);
  const Coords at = from_rank(coords, problem.out().rank());
  const reference::Reduction reduction = evaluator.reduce(at);
  const EpilogueValues values = evaluator.values(at);
  ReductionMagnitude magnitude{reduction.terms, reduction.sum_abs};
  if (arithmetic == Arithmetic::winograd) {
    magnitude = WindowMagnitude(evaluator.geometry(), evaluator.operands()).at(at);
  }
  return {evaluator.exact(reduction.sum, values),
          as_stored(problem.out().type, evaluator.stored(reduction.sum, values)),
          error_before_rounding(problem, magnitude, reduction.sum, values, arithmetic)};
}

Expectation::Expectation(const ConvProblem& problem, const ConvArgs& args, const VerifyOptions& options,
                         ThreadTeam& team)
    : out_(problem.out()), samples_(options.samples) {
  const Evaluator evaluator(problem, args);
  const Placement& out = evaluator.geometry().out();
  full_ = out.elements() <= options.samples ||
          (flops(problem) / 2 <= static_cast<double>(options.full_terms) && out.elements() <= options.full_outputs);
  if (out.elements() == 0) return;
  const WindowMagnitude window(evaluator.geometry(), evaluator.operands());
  const Sampling sampling(out, full_, samples_);
  elements_.resize(sampling.count());
  parallel_ranges(team, sampling.count(), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Coords at = sampling.at(i);
      const reference::Reduction reduction = evaluator.reduce(at);
      const EpilogueValues values = evaluator.values(at);
      const double sum = reduction.sum;
      elements_[i] = {
          out.offset(at), evaluator.exact(sum, values), as_stored(out_.type, evaluator.stored(sum, values)),
          error_before_rounding(problem, {reduction.terms, reduction.sum_abs}, sum, values, Arithmetic::direct),
          error_before_rounding(problem, window.at(at), sum, values, Arithmetic::winograd)};
    }
  });
}

Verification Expectation::compare(const void* actual, Arithmetic arithmetic, bool exact) const {
  Verification result;
  result.full = full_;
  result.checked = static_cast<std::int64_t>(elements_.size());
  if (elements_.empty()) return result;
  result.max_error = -1;
  const std::int64_t last_channel = out_.dims[1] - 1;
  const std::int64_t padding = out_.padded_channels() - out_.dims[1];
  for (std::int64_t i = 0; i < result.checked; ++i) {
    const Element& element = elements_[i];
    const double value = load_as_double(out_.type, actual, element.offset);
    const double bound = exact ? 0 : arithmetic == Arithmetic::winograd ? element.winograd_bound : element.bound;
    const double error = error_in_tolerances(out_.type, value, element.exact, element.stored, bound);
    if (error > result.max_error) {
      result.max_error = error;
      result.worst = coords(i);
      result.actual = value;
      result.expected = element.stored;
    }
    if (padding == 0) continue;
    // The channel padding behind the last channel belongs to its position.
    Dims at = coords(i);
    if (at[1] != last_channel) continue;
    for (std::int64_t c = 1; c <= padding; ++c) {
      const double filler = load_as_double(out_.type, actual, element.offset + c);
      if (filler == 0 || std::isinf(result.max_error)) continue;
      at[1] = last_channel + c;
      result.max_error = std::numeric_limits<double>::infinity();
      result.worst = at;
      result.actual = filler;
      result.expected = 0;
    }
  }
  return result;
}

std::vector<double> Expectation::tolerances(Arithmetic arithmetic) const {
  ChannelTolerances tolerances(out_);
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const Element& element = elements_[i];
    const double bound = arithmetic == Arithmetic::winograd ? element.winograd_bound : element.bound;
    tolerances.add(coords(static_cast<std::int64_t>(i))[1], element.exact, bound);
  }
  return std::move(tolerances).by_channel();
}

Dims Expectation::coords(std::int64_t index) const {
  const Placement out = reference::place(out_);
  return with_rank(Sampling(out, full_, samples_).at(index), out_.rank());
}

Verification verify_with_reference(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                   const VerifyOptions& options, ThreadTeam& team) {
  return Expectation(problem, args, options, team).compare(actual, options.arithmetic, options.exact);
}

Arithmetic arithmetic_of(const std::vector<std::string>& notes) {
  const bool transforms = std::any_of(
      notes.begin(), notes.end(), [](const std::string& each) { return each == note::winograd || each == note::fft; });
  return transforms ? Arithmetic::winograd : Arithmetic::direct;
}

}  // namespace convoy
