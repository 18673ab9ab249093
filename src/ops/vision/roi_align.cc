// RoiAlign: bilinear samples of regions, averaged or maximised a bin. Formulas: ONNX's reference implementation.
#include <fmt/format.h>

#include <cmath>

#include "ops/indexing.h"
#include "ops/math_types.h"
#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kRoiTypes = kMathFloats;

struct RoiMethod {
  bool max = false, half_pixel = true;
  std::int64_t height = 1, width = 1, samples = 0;  // samples 0: as many as pixels
  double scale = 1;
};

// A bilinear sample as four places of a plane and their weights; all zero outside.
struct Sample {
  std::int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

Sample sample_at(double y, double x, std::int64_t height, std::int64_t width) {
  Sample sample;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return sample;
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const std::int64_t y0 = static_cast<std::int64_t>(y), x0 = static_cast<std::int64_t>(x);
  const std::int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const double fy = y - static_cast<double>(y0), fx = x - static_cast<double>(x0);
  const std::int64_t at[4] = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  const double weight[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  std::copy_n(at, 4, sample.at);
  std::copy_n(weight, 4, sample.weight);
  return sample;
}

class RoiAlign final : public Operator {
 public:
  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 3, 3));
    CONVOY_CHECK(check_type(node, inputs, 1, kRoiTypes));
    CONVOY_CHECK(check_type(node, inputs, 2, only(DataType::s64)));
    CONVOY_TRY(const RoiMethod method, read(node));
    const Dims &x = inputs[0].desc.dims, &rois = inputs[1].desc.dims;
    if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || inputs[2].desc.dims != Dims{rois[0]}) {
      return bad_node(node, fmt::format("inputs have dims [{}], [{}] and [{}]; NxCxHxW, Rx4 and R are needed",
                                        to_string(x), to_string(rois), to_string(inputs[2].desc.dims)));
    }
    if (x[2] == 0 || x[3] == 0) return bad_node(node, "input 0 has dims [" + to_string(x) + "]: nothing to sample");
    return one_output(node, inputs[0].desc.type, {rois[0], x[1], method.height, method.width});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const RoiMethod method, read(node));
    const Dims dims = inputs[0].desc.dims;
    const DataType roi_type = inputs[1].desc.type;
    return dispatch<kRoiTypes>(outputs[0].type, [&]<class T>(Tag<T>) {
      return make_plan(
          node,
          [=, rois = outputs[0].dims[0], op = node.op](auto in, auto out, const ExecContext& context) -> Result<void> {
            CONVOY_CHECK(check(op, method, roi_type, in[1], in[2], rois, dims[0]));
            const std::int64_t bins = method.height * method.width;
            const auto image_of = [&](std::int64_t roi) {
              return static_cast<const T*>(in[0]) + static_cast<const std::int64_t*>(in[2])[roi] * product(dims, 1, 4);
            };
            parallel_for(context, rois, dims[1] * 16 * bins, [&](std::int64_t begin, std::int64_t end) {
              std::vector<Sample> samples;
              for (std::int64_t roi = begin; roi < end; ++roi) {
                const Region own = region(method, roi_type, in[1], roi);
                T* const y = static_cast<T*>(out[0]) + roi * dims[1] * bins;
                if (own.grid_height * own.grid_width <= kMostKept / bins) {
                  run_roi<T>(method, own, dims, samples, image_of(roi), y);
                  continue;
                }
                for (std::int64_t bin = 0; bin < bins; ++bin) {
                  run_bin<T>(method, own, dims, bin / method.width, bin % method.width, image_of(roi), y + bin);
                }
              }
            });
            return {};
          });
    });
  }

 private:
  struct Region {
    double y, x, bin_height, bin_width;
    std::int64_t grid_height, grid_width;  // samples a bin
  };
  // More samples a bin than this come from absurd regions, not from images.
  static constexpr double kMostSamples = 16384;
  // Up to so many of a region are found once for all channels.
  static constexpr std::int64_t kMostKept = 8192;

  static Region region(const RoiMethod& method, DataType type, const void* rois, std::int64_t roi) {
    const double offset = method.half_pixel ? 0.5 : 0;
    double edge[4];
    for (int i = 0; i < 4; ++i) edge[i] = load_as_double(type, rois, roi * 4 + i) * method.scale - offset;
    double width = edge[2] - edge[0], height = edge[3] - edge[1];
    if (!method.half_pixel) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    Region region{edge[1],
                  edge[0],
                  height / static_cast<double>(method.height),
                  width / static_cast<double>(method.width),
                  method.samples,
                  method.samples};
    if (method.samples == 0) {
      const auto count = [](double size) {
        return size > 0 ? static_cast<std::int64_t>(std::min(std::ceil(size), kMostSamples + 1)) : 0;
      };
      region.grid_height = count(region.bin_height);
      region.grid_width = count(region.bin_width);
    }
    return region;
  }

  static Result<void> check(const std::string& op, const RoiMethod& method, DataType type, const void* rois,
                            const void* batches, std::int64_t count, std::int64_t images) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t image = static_cast<const std::int64_t*>(batches)[i];
      if (image < 0 || image >= images) {
        return Error{ErrorCode::invalid_argument,
                     fmt::format("{}: input 2 (batch_indices) has {} at {}, outside [0, {})", op, image, i, images)};
      }
      const Region own = region(method, type, rois, i);
      const double size = own.y + own.x + own.bin_height + own.bin_width;
      if (!std::isfinite(size) || static_cast<double>(own.grid_height) > kMostSamples ||
          static_cast<double>(own.grid_width) > kMostSamples) {
        return Error{ErrorCode::invalid_argument,
                     fmt::format("{}: input 1 (rois) has a region {} that is not finite or far too large", op, i)};
      }
    }
    return {};
  }

  static Sample sample_of(const Region& region, std::int64_t bin_y, std::int64_t bin_x, std::int64_t iy,
                          std::int64_t ix, std::int64_t height, std::int64_t width) {
    const auto place = [](double from, std::int64_t bin, std::int64_t i, std::int64_t grid, double size) {
      return from + (static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / static_cast<double>(grid)) * size;
    };
    return sample_at(place(region.y, bin_y, iy, region.grid_height, region.bin_height),
                     place(region.x, bin_x, ix, region.grid_width, region.bin_width), height, width);
  }

  template <class T>
  static double value_of(const RoiMethod& method, const Sample& sample, const T* plane) {
    double value = method.max ? -INFINITY : 0;
    for (int i = 0; i < 4; ++i) {
      const double term = sample.weight[i] * static_cast<double>(static_cast<Compute<T>>(plane[sample.at[i]]));
      // ONNX's maximum is over the weighted corners, not over the interpolated values.
      value = method.max ? std::max(value, term) : value + term;
    }
    return value;
  }

  // All bins of all channels: channel by channel, whose part of a plane stays in the first cache.
  template <class T>
  static void run_roi(const RoiMethod& method, const Region& region, const Dims& dims, std::vector<Sample>& samples,
                      const T* x, T* y) {
    const std::int64_t channels = dims[1], height = dims[2], width = dims[3], bins = method.height * method.width;
    const std::int64_t each = region.grid_height * region.grid_width;
    samples.clear();
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      for (std::int64_t i = 0; i < each; ++i) {
        samples.push_back(sample_of(region, bin / method.width, bin % method.width, i / region.grid_width,
                                    i % region.grid_width, height, width));
      }
    }
    const double count = static_cast<double>(std::max<std::int64_t>(1, each));
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* plane = x + c * height * width;
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        double total = 0;
        for (std::int64_t i = 0; i < each; ++i) {
          const double value = value_of(method, samples[bin * each + i], plane);
          total = method.max ? (i == 0 ? value : std::max(total, value)) : total + value;
        }
        y[c * bins + bin] = T(static_cast<Compute<T>>(method.max ? total : total / count));
      }
    }
  }

  // One bin of all channels.
  template <class T>
  static void run_bin(const RoiMethod& method, const Region& region, const Dims& dims, std::int64_t bin_y,
                      std::int64_t bin_x, const T* x, T* y) {
    const std::int64_t channels = dims[1], height = dims[2], width = dims[3];
    const std::int64_t step = method.height * method.width;
    const double count = static_cast<double>(std::max<std::int64_t>(1, region.grid_height * region.grid_width));
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* plane = x + c * height * width;
      double total = 0;
      bool first = true;
      for (std::int64_t iy = 0; iy < region.grid_height; ++iy) {
        for (std::int64_t ix = 0; ix < region.grid_width; ++ix) {
          const double value = value_of(method, sample_of(region, bin_y, bin_x, iy, ix, height, width), plane);
          total = method.max ? (first ? value : std::max(total, value)) : total + value;
          first = false;
        }
      }
      y[c * step] = T(static_cast<Compute<T>>(method.max ? total : total / count));
    }
  }

  static Result<RoiMethod> read(const NodeDesc& node) {
    RoiMethod method;
    CONVOY_TRY(const std::string mode, node.text("mode", "avg"));
    CONVOY_TRY(const std::string coordinates,
               node.text("coordinate_transformation_mode", node.opset >= 16 ? "half_pixel" : "output_half_pixel"));
    CONVOY_TRY(method.height, node.integer("output_height", 1));
    CONVOY_TRY(method.width, node.integer("output_width", 1));
    CONVOY_TRY(method.samples, node.integer("sampling_ratio", 0));
    CONVOY_TRY(method.scale, node.real("spatial_scale", 1));
    if (mode != "avg" && mode != "max") return bad_node(node, "mode='" + mode + "' is not avg or max");
    if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
      return bad_node(node,
                      "coordinate_transformation_mode='" + coordinates + "' is not half_pixel or output_half_pixel");
    }
    constexpr std::int64_t kLargest = std::int64_t{1} << 30;
    if (method.height < 1 || method.width < 1 || method.height > kLargest || method.width > kLargest ||
        method.samples < 0 || static_cast<double>(method.samples) > kMostSamples) {
      return bad_node(node, fmt::format("output_height={}, output_width={}, sampling_ratio={}", method.height,
                                        method.width, method.samples));
    }
    method.max = mode == "max";
    method.half_pixel = coordinates == "half_pixel";
    return method;
  }
};

const RoiAlign roi_align;

}  // namespace

std::vector<OperatorRow> roi_align_rows() {
  return {{"RoiAlign", &roi_align, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
           kMathFloats}};
}

}  // namespace convoy::ops
