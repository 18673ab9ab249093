#include "cli/picture_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/errors.h"
#include "cli/output_form.h"
#include "core/text.h"

namespace convoy::cli {
namespace {

// Sizes for dims that are free until inputs are there: the same for the same symbol.
class LikelySizes {
 public:
  Dims of(const NetworkValue& value) {
    Dims dims = value.dims;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] >= 0) continue;
      constexpr std::int64_t kSide = 256;
      dims[i] = i == 0                                                         ? 1
                : i < value.proposed_dims.size() && value.proposed_dims[i] > 0 ? value.proposed_dims[i]
                                                                               : kSide;
      const std::string name = i < value.dim_names.size() ? value.dim_names[i] : "";
      if (!name.empty()) dims[i] = symbols_.emplace(name, dims[i]).first->second;
    }
    return dims;
  }

 private:
  std::map<std::string, std::int64_t> symbols_;
};

std::string metadata_of(const Network& network, const std::string& key) {
  const auto found = network.info().metadata.find(key);
  return found == network.info().metadata.end() ? "" : found->second;
}

std::string how_resized(const io::PictureOptions& options, const io::Picture& picture,
                        const io::PictureReport& report) {
  const std::string size = fmt::format("{}x{}", report.width, report.height);
  const bool turned = report.orientation >= 5;  // by 90 degrees
  if ((turned ? picture.height : picture.width) == report.width &&
      (turned ? picture.width : picture.height) == report.height) {
    return size + " as it is";
  }
  switch (options.resize) {
    case io::ResizeMode::exact:
      return "resized to " + size;
    case io::ResizeMode::cover:
      return fmt::format("resized to cover {}, its centre taken", size);
    case io::ResizeMode::shorter_side:
      return fmt::format("shorter side resized to {}, the centre {} taken", options.shorter_side, size);
    case io::ResizeMode::none:
      break;
  }
  return fmt::format("the centre {} taken", size);
}

std::string how_scaled(const PictureSettings& settings, DataType type, const io::PictureReport& report) {
  const io::PictureOptions& options = settings.options;
  const io::PixelValues values = is_floating(type) ? options.values : io::PixelValues::raw;
  if (!options.mean.empty() || !options.std.empty() || options.scale != 0) {
    const bool raw = values == io::PixelValues::raw;
    std::string text = options.scale != 0 ? fmt::format("pixel*{:g}", options.scale)
                       : raw              ? "pixel"
                                          : fmt::format("pixel/{}", report.white);
    if (!options.mean.empty()) text = fmt::format("{} - {:g}", text, fmt::join(options.mean, ","));
    if (!options.std.empty()) text = fmt::format("({}) / {:g}", text, fmt::join(options.std, ","));
    return "values " + text;
  }
  if (values == io::PixelValues::imagenet && report.channels == 3) return "ImageNet mean and deviation";
  const std::string lowered = !is_floating(type) && report.low != 0 ? fmt::format(" (pixel - {:g})", -report.low) : "";
  return fmt::format("values {:g} to {:g}{}", report.low, report.high, lowered);
}

}  // namespace

void add_picture_flags(Parser app, PictureFlags& flags) {
  app.add_option("--resize", flags.resize,
                 "Pictures: exact (stretch to the input; default), cover (scale until the input is covered, crop the "
                 "centre), none, or the size of the shorter side (then crop the centre)")
      .type_name("HOW");
  app.add_option("--image-layout", flags.layout, "Pictures: where the input has its channels")
      .one_of({"auto", "nchw", "nhwc"});
  app.add_flag("--bgr", flags.bgr, "Pictures: channels in the order blue, green, red");
  app.add_flag("--raw", flags.raw,
               "Pictures: values 0 to 255 (as --scale 1; 0 to 65535 where the file has 16 bits), no mean or deviation "
               "unless given");
  app.add_flag("--as-stored", flags.as_stored, "Pictures: not turned upright where their EXIF orientation says so");
  app.add_option("--scale", flags.scale,
                 "Pictures: the value is (pixel*scale - mean)/std; default for floats 1/255, or 1/65535 of 16 bits")
      .type_name("X");
  app.add_option("--mean", flags.mean,
                 "Pictures: one or one a channel, comma-separated; default ImageNet's for networks that give classes, "
                 "else none (values 0 to 1), or what the model's metadata says")
      .type_name("X,..")
      .delimiter(',');
  app.add_option("--std", flags.std, "Pictures: as --mean").type_name("X,..").delimiter(',');
}

io::ChannelsAt channels_at(const std::string& layout) {
  return layout == "nchw" ? io::ChannelsAt::first : layout == "nhwc" ? io::ChannelsAt::last : io::ChannelsAt::automatic;
}

LikelyValues likely_values(const Network& network, const std::string& layout) {
  const std::string range = metadata_of(network, "Image.NominalPixelRange");
  const std::pair<const char*, io::PixelValues> ranges[] = {{"NominalRange_0_255", io::PixelValues::raw},
                                                            {"Normalized_0_1", io::PixelValues::unit},
                                                            {"Normalized_1_1", io::PixelValues::signed_unit}};
  for (const auto& [name, values] : ranges) {
    if (range == name) return {values, "as the model's metadata says"};
  }
  LikelySizes sizes;
  std::vector<TensorDesc> inputs;
  for (const NetworkValue& input : network.inputs()) inputs.push_back(TensorDesc::packed(input.type, sizes.of(input)));
  const InputForm form = form_of_inputs(inputs, channels_at(layout));
  bool pictures = false;
  for (const NetworkValue& output : network.outputs()) {
    if (!output.known_rank) return {};
    const OutputForm out = form_of_output(sizes.of(output), form, io::ChannelsAt::automatic);
    if (out.kind == OutputKind::classes) return {};
    if (out.kind != OutputKind::map) continue;
    const bool picture = out.map.channels == 1 || out.map.channels == 3;
    const bool quarter = form.spatial.empty() || out.map.spatial[0] * 4 >= form.spatial[0];
    if (!picture && quarter) return {};
    pictures = pictures || picture;
  }
  return {io::PixelValues::unit,
          pictures ? "since the network gives pictures or masks" : "since the network gives no list of classes"};
}

Result<PictureSettings> picture_settings(const Network& network, const PictureFlags& flags) {
  PictureSettings settings;
  io::PictureOptions& options = settings.options;
  if (flags.resize == "cover") {
    options.resize = io::ResizeMode::cover;
  } else if (flags.resize == "exact") {
    options.resize = io::ResizeMode::exact;
  } else if (flags.resize == "none") {
    options.resize = io::ResizeMode::none;
  } else {
    const auto side = parse_integer(flags.resize);
    if (!side.ok() || *side < 1 || *side > io::kMaxPictureSide) {
      return invalid(fmt::format("--resize {}: give exact, cover, none or the size of the shorter side", flags.resize));
    }
    options.resize = io::ResizeMode::shorter_side;
    options.shorter_side = static_cast<int>(*side);
  }
  if (flags.raw && flags.scale != 0) return invalid("--raw and --scale: --raw is --scale 1; give one of them");
  options.channels_at = channels_at(flags.layout);
  options.bgr = flags.bgr || metadata_of(network, "Image.BitmapPixelFormat") == "Bgr8";
  options.mean = flags.mean;
  options.std = flags.std;
  options.scale = flags.scale;
  options.as_stored = flags.as_stored;
  settings.chosen = flags.raw || !flags.mean.empty() || !flags.std.empty() || flags.scale != 0;
  if (settings.chosen) {
    options.values = flags.raw ? io::PixelValues::raw : io::PixelValues::unit;
  } else {
    LikelyValues likely = likely_values(network, flags.layout);
    options.values = likely.values;
    settings.why = std::move(likely.why);
  }
  return settings;
}

std::string describe(const PictureSettings& settings, const io::Picture& picture, DataType type,
                     const io::PictureReport& report) {
  std::string text = how_resized(settings.options, picture, report);
  if (report.orientation != 1) {
    text = fmt::format("turned upright (EXIF orientation {}; --as-stored for as it is), {}", report.orientation, text);
  }
  if (picture.white != report.white) text += ", 16 bits rounded to 8";
  if (report.channels == 1) text += ", grey";
  if (settings.options.bgr && report.channels == 3) text += ", blue before red";
  text += ", " + how_scaled(settings, type, report);
  if (!settings.why.empty() && is_floating(type)) text += " " + settings.why;
  if (!settings.chosen) text += " (--mean, --std, --raw to change)";
  if (!report.warning.empty()) text += "; " + report.warning;
  return text;
}

}  // namespace convoy::cli
