// How pictures become a network's input: the flags, and what the network most likely wants where they don't say.
#pragma once

#include <string>
#include <vector>

#include "cli/program.h"
#include "io/picture_input.h"

namespace convoy::cli {

struct PictureFlags {
  std::string resize = "exact";
  std::string layout = "auto";  // of the input
  bool bgr = false;
  bool raw = false;
  bool as_stored = false;
  std::vector<double> mean, std;
  double scale = 0;
};
void add_picture_flags(Parser app, PictureFlags& flags);

io::ChannelsAt channels_at(const std::string& layout);  // "auto", "nchw", "nhwc"

// The values that the network most likely was trained with, and why, for people.
//  - What its metadata says ("Image.NominalPixelRange", of ONNX's docs/MetadataProps.md).
//  - ImageNet's mean and deviation for networks that give classes, of the picture or (several channels, at least a
//    quarter of the input's size) of its pixels: most are or start from ones trained on ImageNet.
//  - 0 to 1 for the others: those that give pictures or masks, and detectors.
// An output whose rank the model doesn't say may be classes.
struct LikelyValues {
  io::PixelValues values = io::PixelValues::imagenet;
  std::string why;  // "since the network gives pictures"; empty: the usual
};
LikelyValues likely_values(const Network& network, const std::string& layout);

struct PictureSettings {
  io::PictureOptions options;
  std::string why;      // of likely_values, where it decided
  bool chosen = false;  // the flags said which values
};
// Errors name the flag.
Result<PictureSettings> picture_settings(const Network& network, const PictureFlags& flags);

// What was done, in one line: "resized to 224x224, ImageNet mean and deviation (--mean, --std, --raw to change)".
std::string describe(const PictureSettings& settings, const io::Picture& picture, DataType type,
                     const io::PictureReport& report);

}  // namespace convoy::cli
