#include "io/volume_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace convoy::io {
namespace {

template <class Function>
void visit_type(DataType type, const Function& function) {
  switch (type) {
    case DataType::u8:
      return function(std::uint8_t{});
    case DataType::s8:
      return function(std::int8_t{});
    case DataType::u16:
      return function(std::uint16_t{});
    case DataType::s16:
      return function(std::int16_t{});
    case DataType::u32:
      return function(std::uint32_t{});
    case DataType::s32:
      return function(std::int32_t{});
    case DataType::u64:
      return function(std::uint64_t{});
    case DataType::s64:
      return function(std::int64_t{});
    case DataType::f32:
      return function(float{});
    default:
      return function(double{});
  }
}

struct Scaling {
  double factor = 1, offset = 0;  // network value = stored * factor + offset
  bool clamp = false;
};

// Statistics are of the stored numbers times slope plus intercept, finite ones only.
template <class T>
Result<Scaling> find_scaling(const T* values, std::int64_t count, const NiftiHeader& header,
                             const VolumeOptions& options) {
  const auto real = [&](T v) { return static_cast<double>(v) * header.slope + header.intercept; };
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = real(values[i]);
    if (!std::isfinite(v)) continue;
    low = std::min(low, v), high = std::max(high, v), sum += v, ++finite;
  }
  if (finite == 0) return Error{ErrorCode::invalid_argument, "the volume has no finite voxel"};
  Scaling scaling;
  double shift = 0, divisor = 1;
  if (options.normalize == Normalize::zscore) {
    shift = sum / static_cast<double>(finite);
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double d = real(values[i]) - shift;
      if (std::isfinite(d)) squares += d * d;
    }
    divisor = std::sqrt(squares / static_cast<double>(finite));
  } else if (options.normalize == Normalize::minmax) {
    shift = low, divisor = high - low;
  } else if (options.normalize == Normalize::percentile) {
    std::vector<double> sorted;
    sorted.reserve(static_cast<std::size_t>(finite));
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::isfinite(real(values[i]))) sorted.push_back(real(values[i]));
    }
    const auto at = [&](double percent) {
      const auto index = static_cast<std::ptrdiff_t>(std::llround(percent / 100 * static_cast<double>(finite - 1)));
      std::nth_element(sorted.begin(), sorted.begin() + index, sorted.end());
      return sorted[static_cast<std::size_t>(index)];
    };
    shift = at(options.low_percentile), divisor = at(options.high_percentile) - shift;
    scaling.clamp = true;
  }
  if (!(divisor > 0)) return Error{ErrorCode::invalid_argument, "every voxel is the same: it can't be normalised"};
  scaling.factor = header.slope / divisor;
  scaling.offset = (header.intercept - shift) / divisor;
  return scaling;
}

// For each of the network's D, H, W the file's axis (0 = x).
std::array<int, 3> axis_order(std::string_view axes) { return {axes[0] - 'x', axes[1] - 'x', axes[2] - 'x'}; }

std::string with_free_dims(const Dims& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += dim < 0 ? "x?" : fmt::format("x{}", dim);
  return text.empty() ? text : text.substr(1);
}

}  // namespace

Result<void> check_axes(std::string_view axes) {
  std::string sorted(axes);
  std::sort(sorted.begin(), sorted.end());
  if (sorted == "xyz") return {};
  return Error{ErrorCode::invalid_argument, fmt::format("volume axes '{}': give x, y and z in some order", axes)};
}

Result<void> parse_normalize(std::string_view text, VolumeOptions& options) {
  constexpr std::pair<std::string_view, Normalize> kNames[] = {
      {"none", Normalize::none}, {"minmax", Normalize::minmax}, {"zscore", Normalize::zscore}};
  for (const auto& [name, value] : kNames) {
    if (text == name) return options.normalize = value, Result<void>();
  }
  double bounds[2] = {options.low_percentile, options.high_percentile};
  std::string_view rest = text;
  bool good = rest.starts_with("percentile");
  rest.remove_prefix(good ? std::string_view("percentile").size() : 0);
  for (int i = 0; good && !rest.empty() && i < 2; ++i) {
    good = rest[0] == ':';
    const auto [end, code] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), bounds[i]);
    good = good && code == std::errc();
    if (good) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    good = good && (i == 1 || !rest.empty());
  }
  if (!good || !rest.empty() || !(bounds[0] >= 0 && bounds[0] < bounds[1] && bounds[1] <= 100)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("normalisation '{}': give none, minmax, zscore or percentile:LOW:HIGH", text)};
  }
  options.normalize = Normalize::percentile;
  options.low_percentile = bounds[0];
  options.high_percentile = bounds[1];
  return {};
}

Result<HostTensor> volume_to_tensor(const Volume& volume, DataType type, const Dims& input,
                                    const VolumeOptions& options) {
  CONVOY_CHECK(check_axes(options.axes));
  Dims file = volume.header.dims;
  while (file.size() > 4 && file.back() == 1) file.pop_back();
  if (file.size() > 4) {
    return Error{ErrorCode::unsupported,
                 fmt::format("a volume of {} dimensions ({}): up to 4 are taken", file.size(), to_string(file))};
  }
  file.resize(4, 1);
  const auto order = axis_order(options.axes);
  Dims dims = {1, file[3], file[order[0]], file[order[1]], file[order[2]]};
  Dims wanted = input;
  if (wanted.size() == 4) wanted.insert(wanted.begin(), 1);
  bool fits = wanted.size() == 5;
  for (std::size_t i = 0; fits && i < 5; ++i) fits = wanted[i] < 0 || wanted[i] == dims[i];
  if (!fits) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("the volume {} gives {} (axes {}), the input is {}", to_string(volume.header.dims),
                             to_string(dims), options.axes, with_free_dims(input))};
  }
  TensorDesc desc = TensorDesc::packed(type, input.size() == 5 ? dims : Dims(dims.begin() + 1, dims.end()));
  CONVOY_TRY(HostTensor tensor, HostTensor::allocate(std::move(desc)));

  Result<void> status;
  visit_type(volume.header.type, [&](auto example) {
    using T = decltype(example);
    const T* values = volume.data.as<T>();
    const auto scaling = find_scaling(values, volume.data.desc.elements(), volume.header, options);
    if (!scaling.ok()) {
      status = scaling.error();
      return;
    }
    const std::int64_t strides[3] = {1, file[0], file[0] * file[1]};
    std::int64_t at = 0;
    for (std::int64_t c = 0; c < file[3]; ++c) {
      for (std::int64_t d = 0; d < dims[2]; ++d) {
        for (std::int64_t h = 0; h < dims[3]; ++h) {
          const T* row = values + c * file[0] * file[1] * file[2] + d * strides[order[0]] + h * strides[order[1]];
          for (std::int64_t w = 0; w < dims[4]; ++w, ++at) {
            double v = static_cast<double>(row[w * strides[order[2]]]) * scaling->factor + scaling->offset;
            if (scaling->clamp) v = std::clamp(v, 0.0, 1.0);
            if (type == DataType::f32) {
              tensor.as<float>()[at] = static_cast<float>(v);
            } else {
              store_from_double(type, tensor.data.get(), at, v);
            }
          }
        }
      }
    }
  });
  if (!status.ok()) return status.error();
  return tensor;
}

Result<HostTensor> labels_to_voxels(const HostTensor& labels, std::string_view axes) {
  CONVOY_CHECK(check_axes(axes));
  Dims dims = labels.desc.dims;
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  if (dims.size() != 3) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("labels of {} are not a volume", to_string(labels.desc.dims))};
  }
  double largest = 0;
  for (std::int64_t i = 0; i < labels.desc.elements(); ++i) {
    largest = std::max(largest, load_as_double(labels.desc.type, labels.data.get(), i));
  }
  const DataType type = largest <= 255 ? DataType::u8 : largest <= INT16_MAX ? DataType::s16 : DataType::s32;
  const auto order = axis_order(axes);
  std::array<std::int64_t, 3> file = {};
  for (int i = 0; i < 3; ++i) file[order[i]] = dims[i];
  CONVOY_TRY(HostTensor voxels, HostTensor::allocate(TensorDesc::packed(type, {file[2], file[1], file[0]})));
  const std::int64_t strides[3] = {1, file[0], file[0] * file[1]};
  std::int64_t at = 0;
  for (std::int64_t d = 0; d < dims[0]; ++d) {
    for (std::int64_t h = 0; h < dims[1]; ++h) {
      for (std::int64_t w = 0; w < dims[2]; ++w, ++at) {
        const std::int64_t to = d * strides[order[0]] + h * strides[order[1]] + w * strides[order[2]];
        store_from_double(type, voxels.data.get(), to, load_as_double(labels.desc.type, labels.data.get(), at));
      }
    }
  }
  return voxels;
}

}  // namespace convoy::io
