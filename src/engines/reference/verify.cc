#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/notes.h"
#include "engines/reference/evaluator.h"

namespace convoy {
namespace {

using reference::Coords;
using reference::Evaluator;
using reference::Geometry;
using reference::Placement;

// What the bounds of transforms take instead of sum |a*b|: max|a| over the tensor times sum |b| over the whole window
// of an output, taps on padding included; what Arithmetic::winograd takes, no more of either than tolerance.h says.
class WindowMagnitude {
 public:
  WindowMagnitude(const Geometry& geometry, const reference::Operands& operands)
      : geometry_(geometry), operands_(operands) {
    const Placement& a = geometry.pass == Pass::dgrad ? geometry.y : geometry.x;
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      max_a_ = std::max(max_a_, size_of(operands.a_type, operands.a, a.offset(a.coords(i))));
    }
    const Placement& w = geometry.w;
    const Placement& y = geometry.y;
    terms_ = geometry.pass == Pass::wgrad ? y.elements() / y.dims[1]
                                          : w.elements() / (geometry.pass == Pass::fprop ? w.dims[0] : w.dims[1]);
    if (geometry.pass == Pass::dgrad) terms_ = terms_ / w.dims[0] * geometry.k_per_group;
    const std::int64_t channels = geometry.pass == Pass::dgrad ? geometry.x.dims[1] : geometry.y.dims[1];
    sums_.resize(channels, 0);
    const Placement& b = geometry.pass == Pass::wgrad ? geometry.y : geometry.w;
    const std::int64_t taps = geometry.pass == Pass::wgrad ? 1 : w.dims[2] * w.dims[3] * w.dims[4];
    std::vector<double> of_taps(channels * taps, 0);
    for (std::int64_t i = 0; i < b.elements(); ++i) {
      const Coords at = b.coords(i);
      const double size = size_of(operands.b_type, operands.b, b.offset(at));
      const std::int64_t channel = channel_of(at);
      sums_[channel] += size;
      double& of_tap = of_taps[channel * taps + i % taps];
      of_tap = std::max(of_tap, size);
    }
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      double least = std::numeric_limits<double>::infinity();
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const double size = of_taps[channel * taps + tap];
        if (size > 0) least = std::min(least, size);
      }
      reached_.push_back(std::min(sums_[channel], static_cast<double>(terms_) * kWinogradReach * least));
    }
  }

  // Padding included: a tile's roundings reach an output whether its own taps meet data or not. `largest_a` is that of
  // the output's own window.
  ReductionMagnitude at(const Coords& coords, double largest_a, Arithmetic arithmetic) const {
    const std::int64_t channel = geometry_.channel(coords);
    if (arithmetic == Arithmetic::spreading) return {terms_, product(max_a_, sums_[channel])};
    return {terms_, product(std::min(max_a_, kWinogradReach * std::max(largest_a, 1.0)), reached_[channel])};
  }

 private:
  // Infinite for a NaN.
  static double size_of(DataType type, const void* data, std::int64_t offset) {
    const double v = load_as_double(type, data, offset);
    return std::isnan(v) ? std::numeric_limits<double>::infinity() : std::abs(v);
  }
  static double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

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
  std::vector<double> sums_, reached_;
};

// The output elements to check: all of them, or corners, edges and a scatter that only the dims decide.
class Sampling {
 public:
  Sampling(const Placement& out, bool full, std::int64_t samples) : out_(out), full_(full), samples_(samples) {}

  std::int64_t count() const { return full_ ? out_.elements() : kCorners + std::max<std::int64_t>(samples_, 0); }

  Coords at(std::int64_t i) const {
    if (full_) return out_.coords(i);
    Coords coords;
    std::uint64_t state = mix(static_cast<std::uint64_t>(i) + 0x9e3779b97f4a7c15U);
    for (int dim = 0; dim < 5; ++dim) {
      const std::int64_t last = out_.dims[dim] - 1;
      state = mix(state + static_cast<std::uint64_t>(last) + 1);
      if (i < kCorners) {
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
  static constexpr std::int64_t kCorners = 32;

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

bool is_special(const ConvProblem& problem, double sum, const EpilogueValues& values) {
  const double prior = problem.beta != 0 ? problem.beta * values.prior : 0;
  const double z = problem.epilogue.gamma != 0 ? problem.epilogue.gamma * values.z : 0;
  return !std::isfinite(problem.alpha * sum + prior + (problem.epilogue.bias ? values.bias : 0) + z);
}

// A transform may leave any output to plain sums, so no bound is below theirs.
double bound_of(const ConvProblem& problem, const reference::Reduction& reduction, const EpilogueValues& values,
                const ReductionMagnitude& window, Arithmetic arithmetic) {
  const double direct =
      error_before_rounding(problem, {reduction.terms, reduction.sum_abs}, reduction.sum, values, Arithmetic::direct);
  if (arithmetic == Arithmetic::direct) return direct;
  return std::max(direct, error_before_rounding(problem, window, reduction.sum, values, arithmetic));
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
  ReductionMagnitude window;
  if (arithmetic != Arithmetic::direct) {
    window = WindowMagnitude(evaluator.geometry(), evaluator.operands()).at(at, reduction.largest_a, arithmetic);
  }
  return {evaluator.exact(reduction.sum, values),
          as_stored(problem.out().type, evaluator.stored(reduction.sum, values)),
          bound_of(problem, reduction, values, window, arithmetic)};
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
      const auto bound = [&](Arithmetic arithmetic) {
        return bound_of(problem, reduction, values, window.at(at, reduction.largest_a, arithmetic), arithmetic);
      };
      elements_[i] = {out.offset(at),
                      evaluator.exact(reduction.sum, values),
                      as_stored(out_.type, evaluator.stored(reduction.sum, values)),
                      {bound(Arithmetic::direct), bound(Arithmetic::winograd), bound(Arithmetic::spreading)},
                      is_special(problem, reduction.sum, values)};
    }
  });
}

Verification Expectation::compare(const void* actual, Arithmetic arithmetic, bool exact, bool special) const {
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
    const double bound = exact ? 0 : element.bounds[static_cast<int>(arithmetic)];
    const double error =
        element.special && !special ? 0 : error_in_tolerances(out_.type, value, element.exact, element.stored, bound);
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
    const double bound = element.bounds[static_cast<int>(arithmetic)];
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
  const auto has = [&](std::string_view note) { return std::find(notes.begin(), notes.end(), note) != notes.end(); };
  if (has(note::spreads_special_values)) return Arithmetic::spreading;
  return has(note::winograd) || has(note::fft) ? Arithmetic::winograd : Arithmetic::direct;
}

}  // namespace convoy
