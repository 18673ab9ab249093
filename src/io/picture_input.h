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

// What a pixel becomes, whose values go from 0 to white: 255, or 65535 in a picture of 16 bits.
enum class PixelValues : std::uint8_t {
  imagenet,     // pixel/white, from which ImageNet's mean is taken, divided by its deviation; of grey ones as `unit`
  unit,         // pixel/white: 0 to 1
  signed_unit,  // -1 to 1
  raw,          // 0 to white
};

struct PictureOptions {
  ResizeMode resize = ResizeMode::cover;
  int shorter_side = 0;
  bool bgr = false;
  ChannelsAt channels_at = ChannelsAt::automatic;
  bool as_stored = false;  // not turned by the picture's orientation
  // value = (pixel * scale - mean[c]) / std[c], which `values` decides. What is given here replaces its part of it.
  // Integer inputs get the pixels as they are, or all of them lowered by half of white + 1 where the type is signed and
  // can't hold white (s8: pixel - 128); pixels of 16 bits are rounded to 8 for types of 8 bits. `raw`, mean, std and
  // scale (1 unless given) replace that, too. Values beyond what the type can hold are an error.
  PixelValues values = PixelValues::imagenet;
  std::vector<double> mean;  // one for all channels or one a channel, in the order of the input's channels
  std::vector<double> std;
  double scale = 0;  // 0: not given
};

// What became of a picture, besides the tensor.
struct PictureReport {
  std::string warning;  // what a person may not expect: the picture was enlarged, or strongly cropped; empty: neither
  std::int64_t channels = 0, height = 0, width = 0;  // of the input
  int orientation = 1;                               // by which the picture was turned; 1: it wasn't
  int white = 255;                                   // of the pixels that became values
  double low = 0, high = 0;                          // what a pixel of 0 and of `white` became, in the first channel
  Picture fitted;                                    // at the input's size, in colour, with 8 bits a channel
};

// The picture as `input` wants it: dims of 4 (or 3, without the batch), -1 where the size is free (batch 1, the
// picture's own height and width). 1 or 3 channels; a batch over 1 repeats the picture. The result is row-major.
Result<HostTensor> picture_to_tensor(const Picture& picture, DataType type, const Dims& input,
                                     const PictureOptions& options, PictureReport* report = nullptr);

// Bilinear with the filter widened when it shrinks (antialiasing), each pass rounded to whole values: what Pillow does.
Picture resize_bilinear(const Picture& picture, int width, int height);

// The part of the picture at (left, top); it must lie inside.
Picture crop(const Picture& picture, int left, int top, int width, int height);

}  // namespace convoy::io
