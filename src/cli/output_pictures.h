// PNG files of outputs that are pictures, masks or label maps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/label_map.h"
#include "cli/output_form.h"
#include "io/picture_output.h"

namespace convoy::cli {

// A PNG to be written, one an item of the batch.
struct OutputPictures {
  std::vector<io::Picture> items;
  std::string how;  // "values 0 to 1 are black to white"
};

// Of a map with two sides and 1 or 3 channels. `low` and `high` are its smallest and largest value; `range` decides
// which values are black and white, without it they do (guess_range). A network that takes the brightness of a picture
// and gives it enlarged by a whole factor gets the picture's colours back. Nothing for other outputs.
Result<std::optional<OutputPictures>> output_pictures(const HostTensor& output, const OutputForm& form,
                                                      const InputForm& input_form, const Sample& sample, double low,
                                                      double high, std::optional<io::ValueRange> range);

// In colours. Nothing where the map hasn't two sides.
Result<std::optional<OutputPictures>> label_pictures(const LabelMap& labels);

// Whether a map that nobody asked the labels of is one of labels: of the input's size or more, and of integers wider
// than 8 bits, or of several channels that are no picture's: not 3, or 3 that are probabilities with a sum of 1.
bool is_segmentation(const HostTensor& output, const OutputForm& form);

}  // namespace convoy::cli
