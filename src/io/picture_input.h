// From a picture to a network's input: resize, crop, channel order, normalisation, layout.
#pragma once

#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "io/picture.h"

namespace convoy::io {

enum class ResizeMode : std::uint8_t {
  cover,         // scale, keeping the proportions, to the smallest size that covers the input; then crop the centre
  exact,         // stretch to the input's size
  shorter_side,  // scale so that the shorter side is `shorter_side`; then crop the centre
  none,          // only crop the centre
};

enum class ChannelsAt : std::uint8_t { automatic, first, last };

// What a pixel of 0 to 255 becomes.
enum class PixelValues : std::uint8_t {
  imagenet,     // pixel/255, from which ImageNet's mean is taken, divided by its deviation; of grey ones as `unit`
  unit,         // pixel/255: 0 to 1
  signed_unit,  // -1 to 1
  raw,          // 0 to 255; always for integer inputs
};

struct PictureOptions {
  ResizeMode resize = ResizeMode::cover;
  int shorter_side = 0;
  bool bgr = false;
  ChannelsAt channels_at = ChannelsAt::automatic;
  // value = (pixel * scale - mean[c]) / std[c], which `values` decides. What is given here replaces its part of it.
  PixelValues values = PixelValues::imagenet;
  std::vector<double> mean;  // one for all channels or one a channel, in the order of the input's channels
  std::vector<double> std;
  double scale = 0;  // 0: not given
};

// What became of a picture, besides the tensor.
struct PictureReport {
  std::string warning;  // what a person may not expect: the picture was enlarged, or strongly cropped; empty: neither
  std::int64_t channels = 0, height = 0, width = 0;  // of the input
  Picture fitted;                                    // at the input's size, in colour
};

// The picture as `input` wants it: dims of 4 (or 3, without the batch), -1 where the size is free (batch 1, the
// picture's own height and width). 1 or 3 channels; a batch over 1 repeats the picture. The result is row-major.
Result<HostTensor> picture_to_tensor(const Picture& picture, DataType type, const Dims& input,
                                     const PictureOptions& options, PictureReport* report = nullptr);

// Bilinear with the filter widened when it shrinks (antialiasing), each pass rounded to 8 bits: what Pillow does.
Picture resize_bilinear(const Picture& picture, int width, int height);

// The part of the picture at (left, top); it must lie inside.
Picture crop(const Picture& picture, int left, int top, int width, int height);

}  // namespace convoy::io
