// The most probable classes of an output that is a list of them.
#pragma once

#include <string>
#include <vector>

#include "convoy/host_tensor.h"

namespace convoy::cli {

struct RankedClass {
  std::int64_t index = 0;
  double probability = 0;
  std::string label;  // may be empty
};

// The most probable classes of one item of the batch. softmax: the values were not probabilities (all >= 0 with a sum
// of 1) and the softmax of them was taken.
struct Ranking {
  std::vector<RankedClass> classes;
  bool softmax = false;
};

// Of each of `items`, which share the output evenly. Errors: `labels` are given and not one a class.
Result<std::vector<Ranking>> rank_classes(const HostTensor& output, std::int64_t items, int top,
                                          const std::vector<std::string>& labels);

}  // namespace convoy::cli
