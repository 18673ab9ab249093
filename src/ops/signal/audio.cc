// What audio networks weigh spectra with: HannWindow, HammingWindow, BlackmanWindow and MelWeightMatrix. All are
// computed in f64.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "ops/math_types.h"
#include "ops/operator_row.h"
#include "ops/support.h"

namespace convoy::ops {
namespace {

constexpr TypeSet kOutputs = kMathFloats | kIntegers;

Result<DataType> output_type(const NodeDesc& node) {
  CONVOY_TRY(const std::int64_t number, node.integer("output_datatype", 1));
  CONVOY_TRY(const DataType type, data_type_of_onnx(node, number, "output_datatype"));
  if (!contains(kOutputs, type)) return bad_node(node, fmt::format("output_datatype={} is no numeric type", number));
  return type;
}

// The single value of an input.
Result<double> scalar_of(const NodeDesc& node, std::span<const Input> inputs, int index, std::string_view name) {
  CONVOY_TRY(const std::vector<double> values, constant_reals(node, inputs, index));
  if (values.size() != 1 || !std::isfinite(values[0])) {
    return bad_node(node, fmt::format("input {} ({}) must be one finite number", index, name));
  }
  return values[0];
}

// Integers are truncated, as a cast does it.
void put(DataType type, void* out, std::int64_t at, double value) {
  store_from_double(type, out, at, is_integer(type) ? std::trunc(value) : value);
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), with N the size, or one less where it is not periodic.
class Window final : public Operator {
 public:
  constexpr explicit Window(std::array<double, 3> factors) : factors_(factors) {}

  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_CHECK(check_counts(node, inputs, 1, 1));
    CONVOY_TRY(const std::vector<std::int64_t> sizes, constant_integers(node, inputs, 0));
    if (sizes.size() != 1 || sizes[0] < 0) return bad_node(node, "input 0 (size) must be one number from 0 on");
    if (auto periodic = node.integer("periodic", 1); !periodic.ok()) return periodic.error();
    CONVOY_TRY(const DataType type, output_type(node));
    return one_output(node, type, {sizes[0]});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input>,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const std::int64_t periodic, node.integer("periodic", 1));
    const std::int64_t size = outputs[0].elements();
    const double whole = static_cast<double>(std::max<std::int64_t>(1, periodic != 0 ? size : size - 1));
    return make_plan(node,
                     [size, whole, factors = factors_, type = outputs[0].type](
                         std::span<const void* const>, std::span<void* const> out, const ExecContext&) -> Result<void> {
                       for (std::int64_t n = 0; n < size; ++n) {
                         const double angle = 2 * std::numbers::pi * static_cast<double>(n) / whole;
                         put(type, out[0], n,
                             factors[0] - factors[1] * std::cos(angle) + factors[2] * std::cos(2 * angle));
                       }
                       return {};
                     });
  }

 private:
  std::array<double, 3> factors_;
};

// Triangles over the bins of a one-sided spectrum, whose corners are evenly apart in mel(f) = 2595 log10(1 + f / 700).
class MelWeightMatrix final : public Operator {
 public:
  std::vector<int> shape_inputs(const NodeDesc&) const override { return {0, 1, 2, 3, 4}; }

  Result<std::vector<TensorDesc>> infer(const NodeDesc& node, std::span<const Input> inputs) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    CONVOY_TRY(const DataType type, output_type(node));
    return one_output(node, type, {form.bins, form.bands});
  }

  Result<std::unique_ptr<OpPlan>> plan(const NodeDesc& node, std::span<const Input> inputs,
                                       std::span<const TensorDesc> outputs, const PlanRequest&) const override {
    CONVOY_TRY(const Form form, form_of(node, inputs));
    return make_plan(node,
                     [form, y = outputs[0]](std::span<const void* const>, std::span<void* const> out,
                                            const ExecContext&) -> Result<void> {
                       std::memset(out[0], 0, static_cast<std::size_t>(y.bytes()));
                       for (std::int64_t band = 0; band < form.bands; ++band) fill(form, band, y.type, out[0]);
                       return {};
                     });
  }

 private:
  struct Form {
    std::int64_t bins = 0, bands = 0;
    std::vector<std::int64_t> corners;  // bins, of two more than there are bands
  };

  static void fill(const Form& form, std::int64_t band, DataType type, void* out) {
    const auto set = [&](std::int64_t bin, std::int64_t part, std::int64_t whole) {
      put(type, out, bin * form.bands + band, static_cast<double>(part) / static_cast<double>(whole));
    };
    const std::int64_t low = form.corners[band], center = form.corners[band + 1], high = form.corners[band + 2];
    if (low == center) set(center, 1, 1);
    for (std::int64_t bin = low; low < center && bin <= center; ++bin) set(bin, bin - low, center - low);
    for (std::int64_t bin = center; bin < high; ++bin) set(bin, high - bin, high - center);
  }

  static Result<Form> form_of(const NodeDesc& node, std::span<const Input> inputs) {
    CONVOY_CHECK(check_counts(node, inputs, 5, 5));
    for (int i = 0; i < 3; ++i) CONVOY_CHECK(check_type(node, inputs, i, kIndices));
    for (int i = 3; i < 5; ++i) CONVOY_CHECK(check_type(node, inputs, i, kMathFloats));
    CONVOY_TRY(const double bands, scalar_of(node, inputs, 0, "num_mel_bins"));
    CONVOY_TRY(const double length, scalar_of(node, inputs, 1, "dft_length"));
    CONVOY_TRY(const double rate, scalar_of(node, inputs, 2, "sample_rate"));
    CONVOY_TRY(const double lowest, scalar_of(node, inputs, 3, "lower_edge_hertz"));
    CONVOY_TRY(const double highest, scalar_of(node, inputs, 4, "upper_edge_hertz"));
    constexpr double kMost = 1 << 24;
    if (bands < 1 || bands > kMost || length < 1 || length > kMost || rate < 1 || lowest < 0 || highest < lowest) {
      return bad_node(node, fmt::format("num_mel_bins={}, dft_length={}, sample_rate={}, lower_edge_hertz={}, "
                                        "upper_edge_hertz={} are no bands of a spectrum",
                                        bands, length, rate, lowest, highest));
    }
    Form form{static_cast<std::int64_t>(length) / 2 + 1, static_cast<std::int64_t>(bands), {}};
    const auto mel = [](double hertz) { return 2595 * std::log1p(hertz / 700) / std::numbers::ln10; };
    const double step = (mel(highest) - mel(lowest)) / (bands + 2);
    for (std::int64_t i = 0; i < form.bands + 2; ++i) {
      const double hertz = 700 * std::expm1((static_cast<double>(i) * step + mel(lowest)) / 2595 * std::numbers::ln10);
      const double bin = std::floor((length + 1) * hertz / rate);
      if (bin >= static_cast<double>(form.bins)) {
        return bad_node(node, fmt::format("upper_edge_hertz={} is beyond half of sample_rate={}", highest, rate));
      }
      form.corners.push_back(static_cast<std::int64_t>(bin));
    }
    return form;
  }
};

constexpr double kHamming = 25.0 / 46.0;
constexpr Window hann({0.5, 0.5, 0}), hamming({kHamming, 1 - kHamming, 0}), blackman({0.42, 0.5, 0.08});
constexpr MelWeightMatrix mel_weight_matrix;

}  // namespace

std::vector<OperatorRow> audio_rows() {
  return {
      {"HannWindow", &hann, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major, kIndices},
      {"HammingWindow", &hamming, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
       kIndices},
      {"BlackmanWindow", &blackman, images::mixed, Rate::others, values::mixed, in_place::never, layouts::row_major,
       kIndices},
      {"MelWeightMatrix", &mel_weight_matrix, images::mixed, Rate::others, values::mixed, in_place::never,
       layouts::row_major, kIndices}};
}

}  // namespace convoy::ops
