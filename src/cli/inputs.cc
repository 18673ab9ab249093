#include "cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/errors.h"
#include "cli/input_files.h"
#include "core/text.h"
#include "io/npy.h"
#include "network/graph/onnx/tensor_proto.h"
#include "select/measure/problem_data.h"

namespace convoy::cli {
namespace {

// The dims of every input with --dim applied, -1 where still free.
Result<std::vector<Dims>> apply_dim_flags(const Network& network, const InputFlags& flags) {
  std::vector<Dims> all;
  for (const NetworkValue& input : network.inputs()) all.push_back(input.dims);
  for (const std::string& flag : flags.dims) {
    CONVOY_TRY(const auto assignment, split_assignment("--dim", flag));
    const auto value = parse_integer(assignment.second);
    if (!value.ok() || *value < 0) return invalid(fmt::format("--dim {}: the value is not a size", flag));
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
      return invalid(fmt::format("--dim {}: the model has no free dim of that name; it has {}", flag,
                                 known.empty() ? "none" : known));
    }
  }
  return all;
}

// `dims` with the sizes that the model proposes where nothing gave one.
Dims proposed(const NetworkValue& value, Dims dims) {
  for (std::size_t axis = 0; axis < dims.size() && axis < value.proposed_dims.size(); ++axis) {
    if (dims[axis] < 0) dims[axis] = value.proposed_dims[axis];
  }
  return dims;
}

// Input index to files.
Result<std::map<std::size_t, std::vector<std::string>>> match_files(const Network& network, const InputFlags& flags,
                                                                    std::vector<std::string>& remarks) {
  std::map<std::size_t, std::vector<std::string>> files;
  std::string names;
  for (const NetworkValue& input : network.inputs()) names += fmt::format("\n  {}", cli::describe(input));
  std::vector<std::string> given = flags.inputs;
  given.insert(given.end(), flags.files.begin(), flags.files.end());
  for (const std::string& flag : given) {
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
      return invalid(fmt::format("--input {}: the model has no input '{}'; its inputs are{}", flag, name, names));
    } else if (network.inputs().size() != 1) {
      return invalid(fmt::format("--input {}: say which input, as NAME=FILE; the model's are{}", flag, names));
    }
    std::string remark;
    auto expanded = expand_files(file, remark);
    if (!expanded.ok()) return expanded.error().within("--input");
    if (!remark.empty()) remarks.push_back(remark);
    std::vector<std::string>& of_input = files[index];
    of_input.insert(of_input.end(), expanded->begin(), expanded->end());
  }
  return files;
}

Result<TensorDesc> concrete(const NetworkValue& value, Dims dims, bool default_batch) {
  if (!value.known_rank) return invalid(fmt::format("input '{}' has no known shape: give it a file", value.name));
  dims = proposed(value, std::move(dims));
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] >= 0) continue;
    if (axis == 0 && default_batch) {
      dims[axis] = 1;
      continue;
    }
    const bool named = axis < value.dim_names.size() && !value.dim_names[axis].empty();
    return invalid(fmt::format("input {} has a free size: give it with --dim {}=VALUE", cli::describe(value),
                               named ? value.dim_names[axis] : fmt::format("{}:{}", value.name, axis)));
  }
  TensorDesc desc = TensorDesc::packed(value.type, std::move(dims));
  CONVOY_CHECK(validate(desc, fmt::format("input '{}'", value.name)));
  return desc;
}

// Of --volume-axes and --normalize.
Result<io::VolumeOptions> volume_options(const InputFlags& flags) {
  io::VolumeOptions options;
  options.axes = flags.volume_axes;
  if (auto good = io::check_axes(options.axes); !good.ok()) return good.error().within("--volume-axes");
  if (auto good = io::parse_normalize(flags.normalize, options); !good.ok()) return good.error().within("--normalize");
  return options;
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

void add_dim_flag(Parser app, InputFlags& flags) {
  begin(app, Subject::input);
  app.add_option("--dim", flags.dims, "Size of a free dim: its name in the model, or INPUT:AXIS (repeatable)")
      .type_name("DIM=VALUE")
      .expected(1)
      .take_all();
}

bool has_batch(const NetworkValue& input) {
  const std::size_t rank = input.dims.size();
  return input.known_rank && (rank == 2 || rank > 3 || (rank == 3 && input.dims[0] < 0));
}

void add_input_flags(Parser app, InputFlags& flags) {
  begin(app, Subject::input);
  app.add_option("--input", flags.inputs,
                 "An input from .npy, TensorProto .pb, .png, .jpg, .nii or .nii.gz; NAME= may be left out for a model "
                 "with one input. Several files, a folder or a pattern: an answer to each (repeatable)")
      .type_name("[NAME=]FILE")
      .expected(1)
      .take_all();
  app.add_option("files", flags.files, "More inputs, as --input has them: convoy run MODEL --input *.jpg")
      .type_name("[NAME=]FILE");
  app.add_flag("--random-inputs", flags.random, "Fill inputs that no file is given for with random numbers");
  app.add_option("--batch", flags.batch, "Run so many inputs at once, where the model leaves its batch free")
      .type_name("N")
      .range(1, 1 << 20);
  add_dim_flag(app, flags);
  add_picture_flags(app, flags.picture);
  app.add_option(
         "--volume-axes", flags.volume_axes,
         "Volumes: which axes of the file are the input's D, H and W: xyz (as nibabel indexes; default), zyx ...")
      .type_name("AXES");
  app.add_option("--normalize", flags.normalize, "Volumes: minmax (default), zscore, percentile:LOW:HIGH or none")
      .type_name("HOW");
}

Result<std::vector<TensorDesc>> input_descriptions(const Network& network, const InputFlags& flags) {
  // Wrong values are errors where no file is read, too.
  if (const auto picture = picture_settings(network, flags.picture); !picture.ok()) return picture.error();
  if (const auto volume = volume_options(flags); !volume.ok()) return volume.error();
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

Result<InputReader> InputReader::open(const Network& network, const InputFlags& flags) {
  InputReader reader;
  reader.network_ = &network;
  reader.flags_ = &flags;
  CONVOY_TRY(reader.dims_, apply_dim_flags(network, flags));
  CONVOY_CHECK(reader.apply_batch());
  CONVOY_TRY(reader.picture_, picture_settings(network, flags.picture));
  CONVOY_TRY(reader.volume_, volume_options(flags));
  CONVOY_TRY(reader.files_, match_files(network, flags, reader.remarks_));
  std::string missing;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    const auto files = reader.files_.find(i);
    if (files == reader.files_.end()) {
      if (!flags.random) missing += fmt::format("\n  {}", cli::describe(network.inputs()[i]));
      continue;
    }
    const std::size_t count = files->second.size();
    if (count > 1 && reader.samples_ > 1 && count != reader.samples_) {
      return invalid(
          fmt::format("--input: input '{}' has {} files, another one {}: each needs one for all or one a sample",
                      network.inputs()[i].name, count, reader.samples_));
    }
    reader.samples_ = std::max(reader.samples_, count);
  }
  if (!missing.empty()) {
    return invalid(fmt::format("no file for these inputs (--input NAME=FILE, or --random-inputs):{}", missing));
  }
  return reader;
}

Result<void> InputReader::apply_batch() {
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const NetworkValue& input = network_->inputs()[i];
    if (!has_batch(input)) continue;
    if (flags_->batch > 0 && dims_[i][0] >= 0 && dims_[i][0] != flags_->batch) {
      return invalid(
          fmt::format("--batch {}: the batch of input {} is {}", flags_->batch, cli::describe(input), dims_[i][0]));
    }
    if (flags_->batch > 0) dims_[i][0] = flags_->batch;
    if (dims_[i][0] > 0) batch_ = std::max(batch_, dims_[i][0]);
  }
  if (flags_->batch > 0 && batch_ != flags_->batch) {
    return invalid(fmt::format("--batch {}: no input of the model has a batch", flags_->batch));
  }
  return {};
}

// A tensor from a file must have the input's sizes, with a batch of 1 or the input's own. Another type is converted,
// and said so.
Result<void> InputReader::fit_tensor(PreparedInput& input, std::size_t index) const {
  const NetworkValue& value = network_->inputs()[index];
  const Dims &dims = input.tensor.desc.dims, &wanted = dims_[index];
  bool fits = !value.known_rank || dims.size() == wanted.size();
  for (std::size_t i = 0; fits && value.known_rank && i < wanted.size(); ++i) {
    fits = wanted[i] < 0 || wanted[i] == dims[i] || (i == 0 && has_batch(value) && dims[0] == 1);
  }
  if (!fits) {
    const std::string now = wanted == value.dims ? "" : fmt::format(" ({} with --dim and --batch)", to_string(wanted));
    const std::string is = dims.empty() ? "one number without dims" : to_string(dims);
    return invalid(fmt::format("is {}, the input is {}{}", is, cli::describe(value), now));
  }
  if (input.tensor.desc.type == value.type) return {};
  input.remarks.push_back(
      fmt::format("converted from {} to {}", convoy::name_of(input.tensor.desc.type), convoy::name_of(value.type)));
  CONVOY_TRY(input.tensor, converted(input.tensor, TensorDesc::packed(value.type, dims)));
  return {};
}

Result<PreparedInput> InputReader::read_file(const std::string& path, std::size_t index) const {
  const NetworkValue& value = network_->inputs()[index];
  PreparedInput input;
  input.source = path;
  const std::string extension = io::lower_extension(path);
  switch (kind_of_file(path)) {
    case FileKind::tensor:
      if (extension == "npy") {
        CONVOY_TRY(input.tensor, io::read_npy(path, value.type));
      } else {
        CONVOY_TRY(auto named, onnx_io::read_tensor_file(path));
        input.tensor = std::move(named.tensor);
      }
      if (auto fits = fit_tensor(input, index); !fits.ok()) return fits.error().within(path);
      return input;
    case FileKind::picture: {
      CONVOY_TRY(const io::Picture picture, io::read_picture(path));
      const bool own_size = picture_.options.resize == io::ResizeMode::none;
      Dims wanted = own_size ? dims_[index] : proposed(value, dims_[index]);
      if (has_batch(value)) wanted[0] = 1;
      io::PictureReport report;
      auto tensor = io::picture_to_tensor(picture, value.type, wanted, picture_.options, &report);
      if (!tensor.ok()) return tensor.error().within(path);
      input.tensor = std::move(*tensor);
      input.remarks.push_back(describe(picture_, picture, value.type, report));
      input.picture = std::move(report.fitted);
      return input;
    }
    case FileKind::volume: {
      CONVOY_TRY(const io::Volume volume, io::read_nifti(path));
      Dims wanted = dims_[index];
      if (has_batch(value)) wanted[0] = 1;
      auto tensor = io::volume_to_tensor(volume, value.type, wanted, volume_);
      if (!tensor.ok()) return tensor.error().within(path);
      input.tensor = std::move(*tensor);
      input.volume_header = volume.header;
      input.remarks.push_back(fmt::format("axes {}, normalised by {}", flags_->volume_axes, flags_->normalize));
      return input;
    }
    case FileKind::unknown:
      break;
  }
  return invalid(fmt::format("{}: '{}' is not a kind of input (npy pb png jpg jpeg nii nii.gz)", path, extension));
}

Result<Sample> InputReader::read(std::size_t index) const {
  Sample sample;
  sample.name = "random";
  sample.inputs.resize(dims_.size());
  std::int64_t items = batch_ > 0 ? batch_ : -1;  // of a random input's batch; -1: not known
  std::map<std::string, std::int64_t> symbols;
  for (const auto& [i, files] : files_) {
    const NetworkValue& value = network_->inputs()[i];
    const std::string& path = files[files.size() > 1 ? index : 0];
    if (sample.name == "random" || files.size() > 1) sample.name = path;
    auto input = read_file(path, i);
    if (!input.ok()) return input.error().within(fmt::format("input '{}'", value.name));
    const Dims& dims = input->tensor.desc.dims;
    if (has_batch(value)) items = dims[0];
    for (std::size_t axis = 0; axis < value.dims.size(); ++axis) {
      if (value.dims[axis] >= 0 || axis >= value.dim_names.size() || value.dim_names[axis].empty()) continue;
      symbols.emplace(value.dim_names[axis], dims[axis]);  // two sizes of one name are the network's error
    }
    sample.inputs[i] = std::move(*input);
  }
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    if (files_.contains(i)) continue;
    const NetworkValue& value = network_->inputs()[i];
    Dims dims = dims_[i];
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] >= 0 || axis >= value.dim_names.size()) continue;
      if (const auto known = symbols.find(value.dim_names[axis]); known != symbols.end()) {
        dims[axis] = known->second;
      }
    }
    if (has_batch(value) && items >= 0 && dims[0] != 0) dims[0] = items;
    CONVOY_TRY(const TensorDesc desc, concrete(value, dims, true));
    CONVOY_TRY(sample.inputs[i].tensor, random_tensor(desc, i + 1));
    sample.inputs[i].source = "random";
  }
  return sample;
}

}  // namespace convoy::cli
