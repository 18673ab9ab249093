// From a volume to a network's input and from its labels back.
#pragma once

#include <string>
#include <string_view>

#include "convoy/host_tensor.h"
#include "io/nifti.h"

namespace convoy::io {

enum class Normalize : std::uint8_t {
  none,        // the file's values (slope and intercept applied)
  minmax,      // (v - min) / (max - min) over the volume
  zscore,      // (v - mean) / standard deviation over the volume
  percentile,  // (v - low) / (high - low), clamped to [0, 1], between two percentiles
};

struct VolumeOptions {
  // Which axis of the file goes to the network's D, H and W: "xyz" is how nibabel indexes (x slowest in memory), "zyx"
  // how SimpleITK does (the file's own order).
  std::string axes = "xyz";
  Normalize normalize = Normalize::minmax;
  double low_percentile = 1;
  double high_percentile = 99;
};

// "none", "minmax", "zscore", "percentile:LOW:HIGH"; errors name what was given.
Result<void> parse_normalize(std::string_view text, VolumeOptions& options);
Result<void> check_axes(std::string_view axes);

// N, C, D, H, W of `input` (-1: free; or without N) from the volume: N = 1, C the fourth axis of the file or 1. Errors
// name both sizes where they differ. The result is row-major.
Result<HostTensor> volume_to_tensor(const Volume& volume, DataType type, const Dims& input,
                                    const VolumeOptions& options);

// Labels as argmax gives them (dims D,H,W or 1,D,H,W; any integer type) as a u8, s16 or s32 volume in the file's axis
// order.
Result<HostTensor> labels_to_voxels(const HostTensor& labels, std::string_view axes);

}  // namespace convoy::io
