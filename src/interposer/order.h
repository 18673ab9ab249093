// In which order a program is offered cuDNN's configurations, by what is known of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace convoy::interposer {

// Of a time: what is known to take more of it is within what measuring errs, and not worth another choice.
inline constexpr double kFaster = 0.98;
// Seconds: nor is what saves less than the host may take longer for it. An engine with one kernel more (a split sum)
// may be a microsecond faster on small tensors, and its launch keeps a program back that waits for the host.
inline constexpr double kLaunch = 1.5e-6;

// A configuration as the order sees it.
struct RankedConfiguration {
  std::vector<std::string> notes;  // cuDNN's, and those that known.cc adds
  std::optional<double> seconds;   // where it was measured; infinite: it failed then
};

// Of cuDNN's notes, those that say what a result loses; a bit each.
unsigned losses_of(const std::vector<std::string>& notes);
// Of what a program's plans lose that ran, all of other types than f32: what loses nothing beside them. Tensor cores
// multiply such numbers exactly and add up in f32, as other engines do.
unsigned harmless_beside(unsigned accepted);

// The order in which to offer: indices into `offered`. A faster one goes before a slower one, but not before one that
// was not measured, nor before one that is more precise or more deterministic. So whatever notes the caller filters by,
// the first one that is left to it was measured to be as fast as the first one of cuDNN's own order, or is that one,
// and has no note that that one has not.
std::vector<int> order_by_time(const std::vector<RankedConfiguration>& offered);

// Where one that cuDNN did not offer may be put into a list in that order, so that it stays true of all filters: before
// slower ones that lose no less, one of which passes every filter that this one passes. Nothing: nowhere.
std::optional<std::size_t> place_in(const std::vector<RankedConfiguration>& ordered, const RankedConfiguration& more);

// Of a list that a program times, those that it need time: which are within 1.25 times the fastest of those that lose
// no more. At least `least` of them, and one that loses no more than `cudnns`, the first of cuDNN's own list. Indices,
// ascending.
std::vector<int> worth_timing(const std::vector<RankedConfiguration>& ordered, const RankedConfiguration& cudnns,
                              std::size_t least);

}  // namespace convoy::interposer
