#include "cli/label_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace convoy::cli {
namespace {

constexpr std::int64_t kMostLabels = 65536;  // in a map of integers

class Values {
 public:
  explicit Values(const HostTensor& tensor) : tensor_(tensor), f32_(tensor.desc.type == DataType::f32) {}
  double operator[](std::int64_t i) const {
    return f32_ ? tensor_.as<float>()[i] : load_as_double(tensor_.desc.type, tensor_.data.get(), i);
  }

 private:
  const HostTensor& tensor_;
  bool f32_;
};

void take_largest(const Values& values, const io::PixelMap& map, std::int32_t* labels) {
  const std::int64_t points = map.points();
  std::vector<double> best(static_cast<std::size_t>(points));
  for (std::int64_t item = 0; item < map.items; ++item) {
    // A channel at a time: where the channels are first, the reads run through memory in order.
    std::fill(best.begin(), best.end(), -std::numeric_limits<double>::infinity());
    for (std::int64_t c = 0; c < map.channels; ++c) {
      const std::int64_t first = item * map.item_step() + c * map.channel_step();
      for (std::int64_t i = 0; i < points; ++i) {
        const double v = values[first + i * map.point_step()];
        if (v > best[i]) {
          best[i] = v;
          labels[item * points + i] = static_cast<std::int32_t>(c);
        }
      }
    }
  }
}

Result<std::int64_t> copy_labels(const Values& values, std::int64_t count, std::int32_t* labels) {
  std::int64_t most = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = values[i];
    if (v < 0 || v >= kMostLabels) {
      return Error{ErrorCode::invalid_argument, fmt::format("element {} is {:.0f}, which is no label", i, v)};
    }
    labels[i] = static_cast<std::int32_t>(v);
    most = std::max(most, labels[i] + std::int64_t{1});
  }
  return most;
}

double likely_threshold(const Values& values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!(values[i] >= 0 && values[i] <= 1)) return 0;
  }
  return 0.5;
}

}  // namespace

Result<LabelMap> label_map(const HostTensor& output, const io::PixelMap& map, std::optional<double> threshold) {
  LabelMap result;
  Dims dims = map.spatial;
  dims.insert(dims.begin(), map.items);
  CONVOY_TRY(result.tensor, HostTensor::zeros(TensorDesc::packed(DataType::s32, dims)));
  auto* labels = result.tensor.as<std::int32_t>();
  const std::int64_t count = result.tensor.desc.elements();
  const Values values(output);
  std::int64_t known = map.channels;
  if (map.channels > 1) {
    if (threshold) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--threshold: {} has {} channels, of which the largest counts",
                               to_string(output.desc.dims), map.channels)};
    }
    take_largest(values, map, labels);
    result.rule = fmt::format("the largest of {} channels", map.channels);
  } else if (!is_floating(output.desc.type) && !threshold) {
    CONVOY_TRY(known, copy_labels(values, count, labels));
    result.rule = "labels as the model gives them";
  } else {
    const double limit = threshold.value_or(likely_threshold(values, count));
    for (std::int64_t i = 0; i < count; ++i) labels[i] = values[i] > limit ? 1 : 0;
    known = 2;
    result.rule = fmt::format("one channel: label 1 where it is over {:g}{}", limit, threshold ? "" : " (--threshold)");
  }
  result.counts.resize(static_cast<std::size_t>(known));
  for (std::int64_t i = 0; i < count; ++i) ++result.counts[labels[i]];
  return result;
}

}  // namespace convoy::cli
