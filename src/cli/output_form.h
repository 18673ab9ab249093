// What an output's sizes say it is: a list of classes, a map of pixels or voxels, or something else.
#pragma once

#include "convoy/network.h"
#include "io/picture_input.h"
#include "io/pixel_map.h"

namespace convoy::cli {

// Where the network's input has its pixels.
struct InputForm {
  std::int64_t items = 1;  // the batch
  std::int64_t channels = 0;
  Dims spatial;                // H,W or D,H,W; empty: it has none
  bool channels_last = false;  // N,H,W,C
};
// Of the first input with spatial dims. Without `channels_at` the axis of 1, 3 or 4 channels says, else N,C,H,W.
InputForm form_of_inputs(std::span<const TensorDesc> inputs, io::ChannelsAt channels_at);

enum class OutputKind : std::uint8_t {
  classes,  // one value a class for each item of the batch: Nx1000, Nx1000x1x1, 1000
  map,      // values for each pixel or voxel: Nx21x64x64, Nx144x256x1, Nx64x64
  other,    // boxes, features ..
};

struct OutputForm {
  OutputKind kind = OutputKind::other;
  std::int64_t items = 1;
  std::int64_t classes = 0;  // of a list
  io::PixelMap map;          // of a map; channels 1 where there is no such axis
  bool full_size = false;    // of a map: as many points as the input has, or more
};

// A map's sides are the input's by a common factor (to 25%: borders are lost, sizes rounded). Where the channels may be
// either first or last, the reading with the better proportions counts, then the input's own layout; `channels_at`
// decides instead. Inputs without pixels (a generator's) are no measure: then channels are first, unless only the last
// axis has 1 or 3.
OutputForm form_of_output(const Dims& output, const InputForm& input, io::ChannelsAt channels_at);

}  // namespace convoy::cli
