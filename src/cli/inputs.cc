#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "io/npy.h"
#include "network/onnx/tensor_proto.h"
#include "select/measure/problem_data.h"

namespace convoy::cli {
namespace {

Error bad(const std::string& text) { return {ErrorCode::invalid_argument, text}; }

// The dims of every input with --dim applied, -1 where still free.
Result<std::vector<Dims>> apply_dim_flags(const Network& network, const InputFlags& flags) {
  std::vector<Dims> all;
  for (const NetworkValue& input : network.inputs()) all.push_back(input.dims);
  for (const std::string& flag : flags.dims) {
    CONVOY_TRY(const auto assignment, split_assignment("--dim", flag));
    const auto value = parse_integer(assignment.second);
    if (!value.ok() || *value < 0) return bad(fmt::format("--dim {}: the value is not a size", flag));
    bool used = false;
    std::string known;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const NetworkValue& input = network.inputs()[i];
      for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
        if (input.dims[axis] >= 0) continue;
        const std::string position = fmt::format("{}:{}", input.name, axis);
        const std::string& name = axis < input.dim_names.size() ? input.dim_names[axis] : position;
        known += fmt::format("{}{}", known.empty() ? "" : ", ", name.empty() ? position : name);
        if (assignment.first != position && (name.empty() || assignment.first != name)) continue;
        all[i][axis] = *value;
        used = true;
      }
    }
    if (!used) {
      return bad(fmt::format("--dim {}: the model has no free dim of that name; it has {}", flag,
                             known.empty() ? "none" : known));
    }
  }
  return all;
}

Result<io::PictureOptions> picture_options(const InputFlags& flags) {
  io::PictureOptions options;
  if (flags.resize == "cover") {
    options.resize = io::ResizeMode::cover;
  } else if (flags.resize == "exact") {
    options.resize = io::ResizeMode::exact;
  } else if (flags.resize == "none") {
    options.resize = io::ResizeMode::none;
  } else {
    const auto side = parse_integer(flags.resize);
    if (!side.ok() || *side < 1 || *side > io::kMaxPictureSide) {
      return bad(fmt::format("--resize {}: give exact, cover, none or the size of the shorter side", flags.resize));
    }
    options.resize = io::ResizeMode::shorter_side;
    options.shorter_side = static_cast<int>(*side);
  }
  options.channels_at = flags.layout == "nchw"   ? io::ChannelsAt::first
                        : flags.layout == "nhwc" ? io::ChannelsAt::last
                                                 : io::ChannelsAt::automatic;
  options.bgr = flags.bgr;
  options.mean = flags.mean;
  options.std = flags.std;
  options.scale = flags.scale;
  return options;
}

// A tensor from a file must have the input's type and sizes; another type is converted, and said so.
Result<void> fit_tensor(PreparedInput& input, const NetworkValue& value, const Dims& wanted) {
  const Dims& dims = input.tensor.desc.dims;
  bool fits = !value.known_rank || dims.size() == wanted.size();
  for (std::size_t i = 0; fits && value.known_rank && i < wanted.size(); ++i)
    fits = wanted[i] < 0 || wanted[i] == dims[i];
  if (!fits) return bad(fmt::format("is {}, the input is {}", to_string(dims), describe(value)));
  if (input.tensor.desc.type == value.type) return {};
  input.remarks.push_back(
      fmt::format("converted from {} to {}", convoy::name_of(input.tensor.desc.type), convoy::name_of(value.type)));
  CONVOY_TRY(input.tensor, converted(input.tensor, TensorDesc::packed(value.type, dims)));
  return {};
}

// `dims` with the sizes that the model proposes where nothing gave one.
Dims proposed(const NetworkValue& value, Dims dims) {
  for (std::size_t axis = 0; axis < dims.size() && axis < value.proposed_dims.size(); ++axis) {
    if (dims[axis] < 0) dims[axis] = value.proposed_dims[axis];
  }
  return dims;
}

Result<PreparedInput> read_input(const std::string& path, const NetworkValue& value, const Dims& wanted,
                                 const InputFlags& flags) {
  PreparedInput input;
  input.source = path;
  const std::string extension = io::lower_extension(path);
  if (extension == "npy") {
    CONVOY_TRY(input.tensor, io::read_npy(path, value.type));
    if (auto fits = fit_tensor(input, value, wanted); !fits.ok()) return fits.error().within(path);
  } else if (extension == "pb") {
    CONVOY_TRY(auto named, onnx_io::read_tensor_file(path));
    input.tensor = std::move(named.tensor);
    if (auto fits = fit_tensor(input, value, wanted); !fits.ok()) return fits.error().within(path);
  } else if (extension == "png" || extension == "jpg" || extension == "jpeg") {
    CONVOY_TRY(const io::Picture picture, io::read_picture(path));
    CONVOY_TRY(const io::PictureOptions options, picture_options(flags));
    std::string warning;
    auto tensor = io::picture_to_tensor(picture, value.type, flags.resize == "none" ? wanted : proposed(value, wanted),
                                        options, &warning);
    if (!tensor.ok()) return tensor.error().within(path);
    input.tensor = std::move(*tensor);
    if (!warning.empty()) input.remarks.push_back(warning);
  } else if (extension == "nii" || extension == "nii.gz") {
    CONVOY_TRY(const io::Volume volume, io::read_nifti(path));
    io::VolumeOptions options;
    options.axes = flags.volume_axes;
    if (auto good = io::check_axes(options.axes); !good.ok()) return good.error().within("--volume-axes");
    if (auto good = io::parse_normalize(flags.normalize, options); !good.ok())
      return good.error().within("--normalize");
    auto tensor = io::volume_to_tensor(volume, value.type, wanted, options);
    if (!tensor.ok()) return tensor.error().within(path);
    input.tensor = std::move(*tensor);
    input.volume_header = volume.header;
    input.remarks.push_back(fmt::format("axes {}, normalised by {}", flags.volume_axes, flags.normalize));
  } else {
    return bad(fmt::format("{}: '{}' is not a kind of input (npy pb png jpg jpeg nii nii.gz)", path, extension));
  }
  return input;
}

// Input index to file.
Result<std::map<std::size_t, std::string>> match_files(const Network& network, const InputFlags& flags) {
  std::map<std::size_t, std::string> files;
  std::string names;
  for (const NetworkValue& input : network.inputs()) names += fmt::format("\n  {}", describe(input));
  for (const std::string& flag : flags.inputs) {
    const auto equals = flag.find('=');
    const std::string name = equals == std::string::npos ? "" : flag.substr(0, equals);
    const auto found = std::find_if(network.inputs().begin(), network.inputs().end(),
                                    [&](const NetworkValue& input) { return !name.empty() && input.name == name; });
    std::size_t index = 0;
    std::string file = flag;
    if (found != network.inputs().end()) {
      index = static_cast<std::size_t>(found - network.inputs().begin());
      file = flag.substr(equals + 1);
    } else if (!name.empty() && name.find('/') == std::string::npos) {
      return bad(fmt::format("--input {}: the model has no input '{}'; its inputs are{}", flag, name, names));
    } else if (network.inputs().size() != 1) {
      return bad(fmt::format("--input {}: say which input, as NAME=FILE; the model's are{}", flag, names));
    }
    if (!files.emplace(index, file).second) {
      return bad(fmt::format("--input {}: input '{}' is given twice", flag, network.inputs()[index].name));
    }
  }
  return files;
}

Result<TensorDesc> concrete(const NetworkValue& value, Dims dims, bool default_batch) {
  if (!value.known_rank) return bad(fmt::format("input '{}' has no known shape: give it a file", value.name));
  dims = proposed(value, std::move(dims));
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] >= 0) continue;
    if (axis == 0 && default_batch) {
      dims[axis] = 1;
      continue;
    }
    const bool named = axis < value.dim_names.size() && !value.dim_names[axis].empty();
    return bad(fmt::format("input {} has a free size: give it with --dim {}=VALUE", describe(value),
                           named ? value.dim_names[axis] : fmt::format("{}:{}", value.name, axis)));
  }
  TensorDesc desc = TensorDesc::packed(value.type, std::move(dims));
  CONVOY_CHECK(validate(desc, fmt::format("input '{}'", value.name)));
  return desc;
}

}  // namespace

std::string describe(const NetworkValue& value) {
  std::string text = fmt::format("{} {} ", value.name, convoy::name_of(value.type));
  if (!value.known_rank) return text + "of unknown shape";
  for (std::size_t i = 0; i < value.dims.size(); ++i) {
    const std::string free = i < value.dim_names.size() && !value.dim_names[i].empty() ? value.dim_names[i] : "?";
    if (i > 0) text += 'x';
    text += value.dims[i] < 0 ? free : fmt::format("{}", value.dims[i]);
  }
  if (value.dims.empty()) text += "scalar";
  return text;
}

void add_dim_flag(CLI::App& app, InputFlags& flags) {
  app.add_option("--dim", flags.dims, "Size of a free dim: its name in the model, or INPUT:AXIS (repeatable)")
      ->type_name("DIM=VALUE")
      ->expected(1)
      ->take_all();
}

void add_input_flags(CLI::App& app, InputFlags& flags) {
  app.add_option("--input", flags.inputs,
                 "An input from .npy, TensorProto .pb, .png, .jpg, .nii or .nii.gz; NAME= may be left out for a model "
                 "with one input (repeatable)")
      ->type_name("[NAME=]FILE")
      ->expected(1)
      ->take_all();
  app.add_flag("--random-inputs", flags.random, "Fill inputs that no file is given for with random numbers");
  add_dim_flag(app, flags);
  app.add_option("--resize", flags.resize,
                 "Pictures: exact (stretch to the input; default), cover (scale until the input is covered, crop the "
                 "centre), none, or the size of the shorter side (then crop the centre)")
      ->type_name("HOW");
  app.add_option("--image-layout", flags.layout, "Pictures: where the input has its channels")
      ->check(CLI::IsMember({"auto", "nchw", "nhwc"}));
  app.add_flag("--bgr", flags.bgr, "Pictures: channels in the order blue, green, red");
  app.add_option("--scale", flags.scale, "Pictures: the value is (pixel*scale - mean)/std; default 1/255 for floats")
      ->type_name("X");
  app.add_option("--mean", flags.mean, "Pictures: one or one a channel, comma-separated; default ImageNet's")
      ->type_name("X,..")
      ->delimiter(',');
  app.add_option("--std", flags.std, "Pictures: as --mean")->type_name("X,..")->delimiter(',');
  app.add_option(
         "--volume-axes", flags.volume_axes,
         "Volumes: which axes of the file are the input's D, H and W: xyz (as nibabel indexes; default), zyx ...")
      ->type_name("AXES");
  app.add_option("--normalize", flags.normalize, "Volumes: minmax (default), zscore, percentile:LOW:HIGH or none")
      ->type_name("HOW");
}

Result<std::vector<TensorDesc>> input_descriptions(const Network& network, const InputFlags& flags) {
  CONVOY_TRY(std::vector<Dims> dims, apply_dim_flags(network, flags));
  std::vector<TensorDesc> descs;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    CONVOY_TRY(TensorDesc desc, concrete(network.inputs()[i], dims[i], true));
    descs.push_back(std::move(desc));
  }
  return descs;
}

Result<HostTensor> random_tensor(const TensorDesc& desc, std::uint64_t seed) {
  CONVOY_TRY(HostTensor tensor, HostTensor::zeros(desc));
  selection::fill_random(tensor.desc, tensor.data.get(), seed);
  return tensor;
}

Result<std::vector<PreparedInput>> read_inputs(const Network& network, const InputFlags& flags) {
  CONVOY_TRY(std::vector<Dims> dims, apply_dim_flags(network, flags));
  CONVOY_TRY(const auto files, match_files(network, flags));
  std::vector<PreparedInput> inputs(dims.size());
  std::string missing;
  std::map<std::string, std::pair<std::int64_t, std::string>> symbols;  // size, and the input that gave it
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const NetworkValue& value = network.inputs()[i];
    const auto file = files.find(i);
    if (file == files.end()) {
      if (!flags.random) missing += fmt::format("\n  {}", describe(value));
      continue;
    }
    auto input = read_input(file->second, value, dims[i], flags);
    if (!input.ok()) return input.error().within(fmt::format("input '{}'", value.name));
    inputs[i] = std::move(*input);
    for (std::size_t axis = 0; axis < value.dims.size(); ++axis) {
      if (value.dims[axis] >= 0 || axis >= value.dim_names.size() || value.dim_names[axis].empty()) continue;
      const std::int64_t size = inputs[i].tensor.desc.dims[axis];
      const auto [known, added] = symbols.emplace(value.dim_names[axis], std::pair(size, value.name));
      if (!added && known->second.first != size) {
        return bad(fmt::format("dim {} is {} in input '{}' and {} in input '{}'", value.dim_names[axis],
                               known->second.first, known->second.second, size, value.name));
      }
    }
  }
  if (!missing.empty()) {
    return bad(fmt::format("no file for these inputs (--input NAME=FILE, or --random-inputs):{}", missing));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (inputs[i].tensor.data != nullptr) continue;
    const NetworkValue& value = network.inputs()[i];
    for (std::size_t axis = 0; axis < dims[i].size(); ++axis) {
      if (dims[i][axis] >= 0 || axis >= value.dim_names.size()) continue;
      if (const auto known = symbols.find(value.dim_names[axis]); known != symbols.end()) {
        dims[i][axis] = known->second.first;
      }
    }
    CONVOY_TRY(const TensorDesc desc, concrete(value, dims[i], true));
    CONVOY_TRY(inputs[i].tensor, random_tensor(desc, i + 1));
    inputs[i].source = "random";
  }
  return inputs;
}

}  // namespace convoy::cli
