#include "cli/output_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy::cli {
namespace {

bool are_probabilities(const HostTensor& output, const io::PixelMap& map) {
  for (std::int64_t i = 0; i < map.points(); ++i) {
    double sum = 0;
    for (std::int64_t c = 0; c < map.channels; ++c) {
      const std::int64_t at = c * map.channel_step() + i * map.point_step();
      const double v = load_as_double(output.desc.type, output.data.get(), at);
      if (!(v >= 0)) return false;
      sum += v;
    }
    if (std::abs(sum - 1) > 1e-3) return false;
  }
  return true;
}

// The picture whose brightness went in, where the output is that enlarged by a whole factor.
const PreparedInput* brightness_of(const OutputForm& form, const InputForm& input, const Sample& sample) {
  if (input.channels != 1 || form.map.channels != 1 || form.items != 1 || input.spatial.size() != 2) return nullptr;
  const std::int64_t factor = form.map.spatial[0] / input.spatial[0];
  if (factor < 2 || form.map.spatial != Dims{input.spatial[0] * factor, input.spatial[1] * factor}) return nullptr;
  const auto found = std::find_if(sample.inputs.begin(), sample.inputs.end(),
                                  [](const PreparedInput& prepared) { return prepared.picture.has_value(); });
  return found == sample.inputs.end() ? nullptr : &*found;
}

}  // namespace

Result<std::optional<OutputPictures>> output_pictures(const HostTensor& output, const OutputForm& form,
                                                      const InputForm& input_form, const Sample& sample, double low,
                                                      double high, std::optional<io::ValueRange> range) {
  const io::PixelMap& map = form.map;
  if (form.kind != OutputKind::map || map.spatial.size() != 2 || (map.channels != 1 && map.channels != 3)) {
    return std::optional<OutputPictures>();
  }
  const io::ValueRange taken = range.value_or(io::guess_range(output.desc.type, low, high));
  OutputPictures pictures;
  pictures.how = fmt::format("values {:g} to {:g} are black to {}{}", taken.black, taken.white,
                             map.channels == 3 ? "full colour" : "white", range ? "" : " (--output-range to change)");
  const PreparedInput* colours = brightness_of(form, input_form, sample);
  for (std::int64_t item = 0; item < map.items; ++item) {
    CONVOY_TRY(io::Picture picture, io::tensor_to_picture(output, map, item, taken));
    if (colours != nullptr) picture = io::with_colours_of(picture, *colours->picture);
    pictures.items.push_back(std::move(picture));
  }
  if (colours != nullptr) pictures.how += "; the network gives brightness, the colours are the input's";
  return std::optional(std::move(pictures));
}

Result<std::optional<OutputPictures>> label_pictures(const LabelMap& labels) {
  const Dims& dims = labels.tensor.desc.dims;
  if (dims.size() != 3) return std::optional<OutputPictures>();
  OutputPictures pictures;
  pictures.how = labels.rule + ", in the colours of PASCAL VOC";
  for (std::int64_t item = 0; item < dims[0]; ++item) {
    CONVOY_TRY(io::Picture picture, io::label_picture(labels.tensor, item * dims[1] * dims[2], dims[1], dims[2]));
    pictures.items.push_back(std::move(picture));
  }
  return std::optional(std::move(pictures));
}

bool is_segmentation(const HostTensor& output, const OutputForm& form) {
  if (form.kind != OutputKind::map || !form.full_size) return false;
  if (form.map.channels == 1) return !is_floating(output.desc.type) && size_of(output.desc.type) > 1;
  return form.map.channels != 3 || are_probabilities(output, form.map);
}

}  // namespace convoy::cli
