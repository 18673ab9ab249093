// One label for each pixel or voxel of an output that is a map.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "io/pixel_map.h"

namespace convoy::cli {

struct LabelMap {
  HostTensor tensor;                 // s32, N and the map's sides
  std::vector<std::int64_t> counts;  // of each label, from 0
  std::string rule;                  // how the labels came about, "the largest of 21 channels"
};

// Several channels: the index of the largest value (ties: the lowest). One channel of integers: the labels themselves,
// which must not be negative. One channel of floats, a mask: 1 where the value is over `threshold`, else 0; without
// one it is 0.5 where all values are probabilities (0 to 1), else 0 (then they are logits, whose sigmoid is 0.5 there).
Result<LabelMap> label_map(const HostTensor& output, const io::PixelMap& map, std::optional<double> threshold = {});

}  // namespace convoy::cli
