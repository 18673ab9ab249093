// Lines of few elements, of which neither the elements nor the lines lie beside each other in long rows: what finds the
// next takes longer than what is done with it. Gathered, the lines lie side by side, and vectors take many at once.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "ops/support.h"

namespace convoy::ops {

// Lines that are gathered at a time have at most so many elements, and are at most so many.
constexpr std::int64_t kShortElements = 8192, kShortLines = 512, kLongestShort = kShortElements / 16;

// Where the elements that a loop visits lie in an operand.
std::vector<std::int64_t> offsets_of(const BroadcastLoop& loop, int operand);

// How many lines of `size` elements are gathered at a time.
constexpr std::int64_t lines_at_once(std::int64_t size) {
  return std::clamp<std::int64_t>(kShortElements / 2 / std::max<std::int64_t>(size, 1) / 16 * 16, 16, kShortLines);
}

// Where lines begin, by operand of the loop that visits their first elements.
struct LineStarts {
  std::array<std::array<std::int64_t, kShortLines>, 2> of;
  std::int64_t count = 0;

  // Whether they follow one another in the operand.
  bool are_neighbours(int operand) const { return of[operand][count - 1] - of[operand][0] == count - 1; }
};

// Calls body(starts) for the lines [begin, end) of `kept`, which has two operands, at most `most` at a time. Within one
// call the starts in operand 0 rise.
void each_short_lines(const BroadcastLoop& kept, std::int64_t begin, std::int64_t end, std::int64_t most,
                      FunctionRef<void(const LineStarts& starts)> body);

// How many neighbouring lines can be gathered as one element: runs of `kept` in operand 1, whose first ones are then
// the only starts that gather_lines() reads.
std::int64_t lines_together(const BroadcastLoop& kept, std::size_t element_size);

// lines[e * count + i]: element e of line i, whose elements lie at `offsets` from where it starts. Of each `together`
// starts, which are neighbours and divide their number, the first is read.
void gather_lines(std::size_t element_size, const void* x, std::span<const std::int64_t> starts, std::int64_t together,
                  std::span<const std::int64_t> offsets, void* lines);
// The other way.
void scatter_lines(std::size_t element_size, const void* lines, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> offsets, void* y);

}  // namespace convoy::ops
