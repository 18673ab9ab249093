#include "cli/output_form.h"

#include <algorithm>
#include <array>
#include <limits>

namespace convoy::cli {
namespace {

constexpr double kWorstProportions = 1.25;

bool is_colour(std::int64_t channels) { return channels == 1 || channels == 3 || channels == 4; }

// The largest of the factors between the sides over the smallest; 1: the same proportions.
double distortion(const Dims& output, const Dims& input) {
  if (output.size() != input.size()) return std::numeric_limits<double>::infinity();
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double factor = static_cast<double>(output[i]) / static_cast<double>(input[i]);
    low = std::min(low, factor);
    high = std::max(high, factor);
  }
  return low > 0 ? high / low : std::numeric_limits<double>::infinity();
}

// Dims N, C, sides.. or N, sides.. , C.
io::PixelMap map_of(const Dims& dims, bool channels_last) {
  io::PixelMap map;
  map.items = dims.front();
  map.channels = channels_last ? dims.back() : dims[1];
  map.channels_last = channels_last;
  map.spatial = channels_last ? Dims(dims.begin() + 1, dims.end() - 1) : Dims(dims.begin() + 2, dims.end());
  return map;
}

// N, sides.. without channels.
io::PixelMap plain_map_of(const Dims& dims) {
  return {.items = dims.front(), .channels = 1, .spatial = Dims(dims.begin() + 1, dims.end())};
}

// The best reading as a map; no sides where there is none.
io::PixelMap best_map(const Dims& dims, const InputForm& input, io::ChannelsAt channels_at) {
  const std::size_t sides = input.spatial.size();
  if (sides > 0 && dims.size() == sides + 1) {
    const io::PixelMap plain = plain_map_of(dims);
    if (distortion(plain.spatial, input.spatial) <= kWorstProportions) return plain;
  }
  if (dims.size() < 4 && (sides == 0 || dims.size() != sides + 2)) return {};
  const io::PixelMap first = map_of(dims, false), last = map_of(dims, true);
  if (sides == 0) {
    const bool only_last = !is_colour(first.channels) && is_colour(last.channels);
    const bool take_last =
        channels_at == io::ChannelsAt::last || (channels_at == io::ChannelsAt::automatic && only_last);
    return take_last ? last : first;
  }
  const double of_first = distortion(first.spatial, input.spatial), of_last = distortion(last.spatial, input.spatial);
  if (channels_at != io::ChannelsAt::automatic) return channels_at == io::ChannelsAt::last ? last : first;
  if (std::min(of_first, of_last) > kWorstProportions) return {};
  if (of_first != of_last) return of_first < of_last ? first : last;
  return input.channels_last ? last : first;
}

}  // namespace

InputForm form_of_inputs(std::span<const TensorDesc> inputs, io::ChannelsAt channels_at) {
  for (const TensorDesc& desc : inputs) {
    Dims dims = desc.dims;
    const auto colours = [](std::int64_t channels) { return channels == 3 || channels == 4; };
    if (dims.size() == 3 && (colours(dims[0]) || colours(dims[2]))) dims.insert(dims.begin(), 1);  // no batch
    if (dims.size() < 3 || desc.elements() == 0) continue;
    const bool last = channels_at == io::ChannelsAt::last ||
                      (channels_at == io::ChannelsAt::automatic && !is_colour(dims[1]) && is_colour(dims.back()));
    const io::PixelMap map = map_of(dims, last);
    return {map.items, map.channels, map.spatial, last};
  }
  return {.items = inputs.empty() || inputs[0].dims.empty() ? 1 : inputs[0].dims[0], .spatial = {}};
}

OutputForm form_of_output(const Dims& output, const InputForm& input, io::ChannelsAt channels_at) {
  OutputForm form;
  if (output.empty() || std::find(output.begin(), output.end(), 0) != output.end()) return form;
  Dims dims = output;
  if (dims[0] != input.items && input.items == 1) dims.insert(dims.begin(), 1);  // without a batch
  if (dims[0] != input.items || dims.size() < 2) return form;
  form.items = dims[0];
  const auto several = std::count_if(dims.begin() + 1, dims.end(), [](std::int64_t dim) { return dim > 1; });
  if (several == 1 && channels_at == io::ChannelsAt::automatic) {
    form.kind = OutputKind::classes;
    form.classes = *std::max_element(dims.begin() + 1, dims.end());
    return form;
  }
  form.map = best_map(dims, input, channels_at);
  if (form.map.points() == 1) return form;
  form.kind = OutputKind::map;
  form.full_size = true;
  for (std::size_t i = 0; i < input.spatial.size() && i < form.map.spatial.size(); ++i) {
    form.full_size = form.full_size && form.map.spatial[i] >= input.spatial[i];
  }
  return form;
}

}  // namespace convoy::cli
