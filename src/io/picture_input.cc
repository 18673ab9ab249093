#include "io/picture_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy::io {
namespace {

constexpr double kImageNetMean[3] = {0.485, 0.456, 0.406};
constexpr double kImageNetStd[3] = {0.229, 0.224, 0.225};

// Which source pixels make an output pixel, and how much of each.
struct Taps {
  std::vector<int> first;  // one an output pixel
  std::vector<int> count;
  std::vector<float> weights;  // `most` an output pixel
  int most = 0;
};

Taps triangle_taps(int in, int out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  Taps taps;
  taps.most = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.first.resize(out);
  taps.count.resize(out);
  taps.weights.resize(static_cast<std::size_t>(out) * taps.most);
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int last = std::min(in, static_cast<int>(centre + support + 0.5));
    float* weights = taps.weights.data() + static_cast<std::size_t>(i) * taps.most;
    double sum = 0;
    std::vector<double> exact(last - first);
    for (int j = first; j < last; ++j) {
      exact[j - first] = std::max(0.0, 1 - std::abs((j - centre + 0.5) / support));
      sum += exact[j - first];
    }
    for (int j = 0; j < last - first; ++j) weights[j] = static_cast<float>(exact[j] / sum);
    taps.first[i] = first;
    taps.count[i] = last - first;
  }
  return taps;
}

using Pixels = std::vector<std::uint16_t>;

// Resizes one axis: `outer` lines of `in` elements of `inner` values each, of 0 to `white`.
Pixels resize_axis(const Pixels& source, std::int64_t outer, int in, int out, std::int64_t inner, int white) {
  const Taps taps = triangle_taps(in, out);
  Pixels target(static_cast<std::size_t>(outer * out * inner));
  for (std::int64_t line = 0; line < outer; ++line) {
    for (int i = 0; i < out; ++i) {
      const float* weights = taps.weights.data() + static_cast<std::size_t>(i) * taps.most;
      const std::uint16_t* from = source.data() + (line * in + taps.first[i]) * inner;
      std::uint16_t* to = target.data() + (line * out + i) * inner;
      for (std::int64_t k = 0; k < inner; ++k) {
        float sum = 0;
        for (int j = 0; j < taps.count[i]; ++j) sum += weights[j] * static_cast<float>(from[j * inner + k]);
        to[k] = static_cast<std::uint16_t>(std::clamp(sum + 0.5F, 0.0F, static_cast<float>(white)));
      }
    }
  }
  return target;
}

struct Geometry {
  std::int64_t batch = 1, channels = 3, height = 0, width = 0;
  bool channels_last = false;
  Dims dims;  // of the tensor, all known
};

Result<Geometry> find_geometry(const Picture& picture, const Dims& input, ChannelsAt channels_at) {
  const auto bad = [&](std::string_view why) {
    return Error{ErrorCode::invalid_argument, fmt::format("the input is {}, which {}", to_string(input), why)};
  };
  if (input.size() != 4 && input.size() != 3) return bad("has no height and width for a picture");
  Dims dims = input;
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  const auto fits = [](std::int64_t c) { return c == 1 || c == 3; };
  Geometry g;
  g.channels_last = channels_at == ChannelsAt::last;
  if (channels_at == ChannelsAt::automatic) {
    g.channels_last = !fits(dims[1]) && (fits(dims[3]) || (dims[1] > 0 && dims[3] < 0));
  }
  g.batch = dims[0] < 0 ? 1 : dims[0];
  g.channels = dims[g.channels_last ? 3 : 1];
  if (g.channels < 0) g.channels = 3;
  if (!fits(g.channels)) return bad(fmt::format("has {} channels; a picture has 1 or 3", g.channels));
  g.height = dims[g.channels_last ? 1 : 2];
  g.width = dims[g.channels_last ? 2 : 3];
  if (g.height < 0) g.height = picture.height;
  if (g.width < 0) g.width = picture.width;
  if (g.batch < 1 || g.height < 1 || g.width < 1 || g.height > kMaxPictureSide || g.width > kMaxPictureSide) {
    return bad(fmt::format("is not a picture's size (sides 1 to {})", kMaxPictureSide));
  }
  g.dims =
      g.channels_last ? Dims{g.batch, g.height, g.width, g.channels} : Dims{g.batch, g.channels, g.height, g.width};
  if (input.size() == 3) g.dims.erase(g.dims.begin());
  return g;
}

Result<Picture> fit(const Picture& picture, int width, int height, const PictureOptions& options,
                    std::string& warning) {
  double scale = 1;
  switch (options.resize) {
    case ResizeMode::exact:
      return resize_bilinear(picture, width, height);
    case ResizeMode::cover:
      scale = std::max(static_cast<double>(width) / picture.width, static_cast<double>(height) / picture.height);
      break;
    case ResizeMode::shorter_side:
      scale = static_cast<double>(options.shorter_side) / std::min(picture.width, picture.height);
      break;
    case ResizeMode::none:
      break;
  }
  // The shorter side comes out exact; the longer one is cut, as torchvision does.
  const double scaled_width = picture.width * scale + 1e-6, scaled_height = picture.height * scale + 1e-6;
  if (scaled_width * scaled_height > static_cast<double>(kMaxPicturePixels)) {
    return Error{ErrorCode::invalid_argument, fmt::format("a picture of {}x{} would be resized to {:.0f}x{:.0f}",
                                                          picture.width, picture.height, scaled_width, scaled_height)};
  }
  const int new_width = std::max(1, static_cast<int>(scaled_width));
  const int new_height = std::max(1, static_cast<int>(scaled_height));
  if (new_width < width || new_height < height) {
    return Error{ErrorCode::invalid_argument, fmt::format("the picture is {}x{} after resizing, the input needs {}x{}",
                                                          new_width, new_height, width, height)};
  }
  if (scale > 1) {
    warning = fmt::format("the picture of {}x{} was enlarged {:.1f} times to fill {}x{}", picture.width, picture.height,
                          scale, width, height);
  } else if (static_cast<double>(width) * height < 0.5 * new_width * new_height) {
    warning = fmt::format("only the centre {}x{} of the picture (resized to {}x{}) is used", width, height, new_width,
                          new_height);
  }
  return crop(resize_bilinear(picture, new_width, new_height), (new_width - width) / 2, (new_height - height) / 2,
              width, height);
}

// Whether a value can be stored in elements of this type without being cut off.
bool holds(DataType type, double value) {
  alignas(8) std::byte element[8] = {};
  store_from_double(type, element, 0, value);
  const double stored = load_as_double(type, element, 0);
  if (type == DataType::boolean) return true;  // whether a pixel isn't black
  return is_floating(type) ? std::isfinite(stored) : std::abs(stored - value) <= 0.5;
}

Result<double> per_channel(const std::vector<double>& values, std::int64_t channel, std::int64_t channels,
                           std::string_view field, double fallback) {
  if (values.empty()) return fallback;
  if (values.size() != 1 && static_cast<std::int64_t>(values.size()) != channels) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} has {} values, the input has {} channels", field, values.size(), channels)};
  }
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

}  // namespace

Picture resize_bilinear(const Picture& picture, int width, int height) {
  Picture out = picture;
  if (width != picture.width) out.rgb = resize_axis(out.rgb, picture.height, picture.width, width, 3, picture.white);
  if (height != picture.height) {
    out.rgb = resize_axis(out.rgb, 1, picture.height, height, std::int64_t{width} * 3, picture.white);
  }
  out.width = width;
  out.height = height;
  return out;
}

Picture crop(const Picture& picture, int left, int top, int width, int height) {
  Picture out{width, height, {}, picture.white, picture.orientation};
  out.rgb.reserve(static_cast<std::size_t>(width) * height * 3);
  for (int row = 0; row < height; ++row) {
    const auto start = picture.rgb.begin() + (static_cast<std::int64_t>(top + row) * picture.width + left) * 3;
    out.rgb.insert(out.rgb.end(), start, start + std::int64_t{width} * 3);
  }
  return out;
}

Result<HostTensor> picture_to_tensor(const Picture& picture, DataType type, const Dims& input,
                                     const PictureOptions& options, PictureReport* report) {
  // The type's own bits bound what an integer input can take of a picture.
  const bool whole = !is_floating(type);
  const bool given =
      options.values == PixelValues::raw || !options.mean.empty() || !options.std.empty() || options.scale != 0;
  Picture source = whole && !given && size_of(type) == 1 ? with_8_bits(picture) : picture;
  if (!options.as_stored) source = upright(std::move(source));
  CONVOY_TRY(const Geometry g, find_geometry(source, input, options.channels_at));
  std::string warning;
  CONVOY_TRY(Picture fitted, fit(source, static_cast<int>(g.width), static_cast<int>(g.height), options, warning));

  // A table of the values a channel can have.
  const std::int64_t levels = std::int64_t{fitted.white} + 1;
  const PixelValues values = whole ? PixelValues::raw : options.values;
  const bool imagenet = values == PixelValues::imagenet && g.channels == 3;
  const double centre = whole && !given && !holds(type, fitted.white) ? static_cast<double>(levels) / 2
                        : values == PixelValues::signed_unit          ? 0.5
                                                                      : 0;
  const double spread = values == PixelValues::signed_unit ? 0.5 : 1;
  const double scale = options.scale != 0 ? options.scale : values == PixelValues::raw ? 1.0 : 1.0 / fitted.white;
  std::vector<double> table(static_cast<std::size_t>(g.channels * levels));
  for (std::int64_t c = 0; c < g.channels; ++c) {
    const std::int64_t rgb = options.bgr ? 2 - c : c;
    CONVOY_TRY(const double mean,
               per_channel(options.mean, c, g.channels, "mean", imagenet ? kImageNetMean[rgb] : centre));
    CONVOY_TRY(const double std, per_channel(options.std, c, g.channels, "std", imagenet ? kImageNetStd[rgb] : spread));
    if (std == 0) return Error{ErrorCode::invalid_argument, "std=0: the input can't be divided by zero"};
    for (std::int64_t v = 0; v < levels; ++v) {
      table[c * levels + v] = (static_cast<double>(v) * scale - mean) / std;
    }
    const double low = table[c * levels], high = table[c * levels + fitted.white];
    if (!holds(type, low) || !holds(type, high)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("pixels of 0 to {} would become {:g} to {:g}, which {} can't hold: change mean, std, "
                               "scale or raw",
                               fitted.white, low, high, name_of(type))};
    }
  }

  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(TensorDesc::packed(type, g.dims)));
  const std::int64_t pixels = g.height * g.width;
  for (std::int64_t n = 0; n < g.batch; ++n) {
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint16_t* p = fitted.rgb.data() + i * 3;
      for (std::int64_t c = 0; c < g.channels; ++c) {
        // Luma of ITU-R BT.601, rounded as Pillow does.
        const std::int64_t v =
            g.channels == 1
                ? (std::int64_t{p[0]} * 19595 + std::int64_t{p[1]} * 38470 + std::int64_t{p[2]} * 7471 + 0x8000) >> 16
                : p[options.bgr ? 2 - c : c];
        const std::int64_t at = g.channels_last ? (n * pixels + i) * g.channels + c : (n * g.channels + c) * pixels + i;
        store_from_double(type, tensor.data.get(), at, table[c * levels + v]);
      }
    }
  }
  if (report != nullptr) {
    *report = {std::move(warning),
               g.channels,
               g.height,
               g.width,
               options.as_stored ? 1 : picture.orientation,
               fitted.white,
               table.front(),
               table[fitted.white],
               with_8_bits(std::move(fitted))};
  }
  return tensor;
}

}  // namespace convoy::io
