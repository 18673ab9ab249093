#include "convoy/convolution.h"

#include <fmt/format.h>

#include <array>

#include "base/checked.h"
#include "base/errors.h"
#include "core/text.h"

namespace convoy {
namespace {

struct ActivationRow {
  std::string_view name;
  bool a, b;  // which parameters it has
};
constexpr std::array<ActivationRow, 14> kActivations = {{{"identity", false, false},
                                                         {"relu", false, false},
                                                         {"clip", true, true},
                                                         {"leaky_relu", true, false},
                                                         {"prelu", false, false},
                                                         {"elu", true, false},
                                                         {"sigmoid", false, false},
                                                         {"tanh", false, false},
                                                         {"swish", true, false},
                                                         {"hard_swish", false, false},
                                                         {"hard_sigmoid", true, true},
                                                         {"gelu", false, false},
                                                         {"gelu_tanh", false, false},
                                                         {"mish", false, false}}};
constexpr std::array<std::string_view, 3> kPasses = {"fprop", "dgrad", "wgrad"};

std::string window_text(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post, std::int64_t stride,
                        std::int64_t dilation) {
  return fmt::format("size {}, filter {}, pad={}/{}, stride={}, dilation={}", in, filter, pre, post, stride, dilation);
}

Result<void> check_window(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post,
                          std::int64_t stride, std::int64_t dilation, std::string_view field) {
  if (in >= 0 && filter >= 1 && pre >= 0 && post >= 0 && stride >= 1 && dilation >= 1) return {};
  return invalid(fmt::format("{}: {}: filter, stride and dilation must be at least 1, size and padding at least 0",
                             field, window_text(in, filter, pre, post, stride, dilation)));
}

Error overflow(std::string_view field, std::string window) {
  return invalid(fmt::format("{}: {} overflow a 64-bit size", field, std::move(window)));
}

// What is needed of the given tensors before the other one's dims can be computed.
Result<void> check_ranks(const TensorDesc& activation, std::string_view name, const TensorDesc& w) {
  if (activation.dims.empty()) return invalid(fmt::format("{} has no dims", name));
  if (activation.rank() < 3 || activation.rank() > 5) {
    return invalid(fmt::format("{}.dims={} has {} dims; a convolution has 3 to 5 (N, C, 1 to 3 spatial)", name,
                               to_string(activation.dims), activation.rank()));
  }
  if (w.rank() != activation.rank()) {
    return invalid(fmt::format("w.dims={} has {} dims, {}.dims={} has {}", to_string(w.dims), w.rank(), name,
                               to_string(activation.dims), activation.rank()));
  }
  return {};
}

Result<void> fill_default(Dims& values, int spatial, std::int64_t value, std::string_view name) {
  if (values.empty()) values.assign(spatial, value);
  if (static_cast<int>(values.size()) == spatial) return {};
  return invalid(
      fmt::format("{}={} has {} values for {} spatial dims", name, to_string(values), values.size(), spatial));
}

// Gives `target` these dims in the layout of `like`, and its alignment where that is less; keeps its type.
void place(TensorDesc& target, Dims dims, const TensorDesc& like) {
  const Layout layout = like.layout();
  const std::int64_t alignment = std::min(target.alignment, like.alignment);
  target = TensorDesc::packed(target.type, std::move(dims), layout == Layout::strided ? Layout::nchw : layout);
  target.alignment = alignment;
}

Result<void> infer_y(ConvProblem& p) {
  Dims dims = {p.x.dims[0], p.w.dims[0]};
  for (int i = 0; i < p.spatial_dims(); ++i) {
    CONVOY_TRY(const std::int64_t size,
               conv_output_size(p.x.dims[2 + i], p.w.dims[2 + i], p.pre_padding[i], p.post_padding[i], p.stride[i],
                                p.dilation[i], fmt::format("y.dims[{}]", 2 + i)));
    dims.push_back(size);
  }
  place(p.y, std::move(dims), p.x);
  return {};
}

Result<void> infer_x(ConvProblem& p) {
  const auto channels = checked_mul(p.w.dims[1], p.groups);
  if (!channels) return invalid(fmt::format("w.dims[1]={} times groups={} overflow", p.w.dims[1], p.groups));
  Dims dims = {p.y.dims[0], *channels};
  for (int i = 0; i < p.y.spatial_dims(); ++i) {
    CONVOY_TRY(const std::int64_t size,
               transposed_output_size(p.y.dims[2 + i], p.w.dims[2 + i], p.pre_padding[i], p.post_padding[i],
                                      p.stride[i], p.dilation[i], 0, fmt::format("x.dims[{}]", 2 + i)));
    dims.push_back(size);
  }
  place(p.x, std::move(dims), p.y);
  return {};
}

}  // namespace

std::string_view name_of(ActivationKind kind) { return kActivations[static_cast<std::size_t>(kind)].name; }
bool has_parameter_a(ActivationKind kind) { return kActivations[static_cast<std::size_t>(kind)].a; }
bool has_parameter_b(ActivationKind kind) { return kActivations[static_cast<std::size_t>(kind)].b; }

std::string_view name_of(Pass pass) { return kPasses[static_cast<std::size_t>(pass)]; }

Result<Pass> parse_pass(std::string_view name) {
  for (std::size_t i = 0; i < kPasses.size(); ++i) {
    if (name == kPasses[i]) return static_cast<Pass>(i);
  }
  return invalid("pass " + quoted(name) + " is not one of fprop, dgrad, wgrad");
}

Result<std::int64_t> conv_output_size(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post,
                                      std::int64_t stride, std::int64_t dilation, std::string_view field) {
  CONVOY_CHECK(check_window(in, filter, pre, post, stride, dilation, field));
  auto padded = checked_add(pre, post);
  if (padded) padded = checked_add(*padded, in);
  auto reach = checked_mul(dilation, filter - 1);
  if (reach) reach = checked_add(*reach, 1);
  if (!padded || !reach) return overflow(field, window_text(in, filter, pre, post, stride, dilation));
  if (*padded < *reach) {
    if (in == 0) return 0;
    return invalid(fmt::format("{}: {}: the filter spans {}, more than the padded size {}", field,
                               window_text(in, filter, pre, post, stride, dilation), *reach, *padded));
  }
  return (*padded - *reach) / stride + 1;
}

Result<std::int64_t> transposed_output_size(std::int64_t in, std::int64_t filter, std::int64_t pre, std::int64_t post,
                                            std::int64_t stride, std::int64_t dilation, std::int64_t output_padding,
                                            std::string_view field) {
  CONVOY_CHECK(check_window(in, filter, pre, post, stride, dilation, field));
  if (output_padding < 0) return invalid(fmt::format("{}: output_padding={} is negative", field, output_padding));
  auto size = checked_mul(in - 1, stride);
  const auto reach = checked_mul(dilation, filter - 1);
  const auto cut = checked_add(pre, post);
  if (size && reach) size = checked_add(*size, *reach);
  if (size && reach) size = checked_add(*size, output_padding);
  if (size && reach) size = checked_add(*size, 1);
  if (!size || !reach || !cut) return overflow(field, window_text(in, filter, pre, post, stride, dilation));
  const std::int64_t result = *size - *cut;  // at least -stride - cut
  if (in == 0) return std::max<std::int64_t>(result, 0);
  if (result < 1) {
    return invalid(fmt::format("{}: {}, output_padding={} give {}; it must be at least 1", field,
                               window_text(in, filter, pre, post, stride, dilation), output_padding, result));
  }
  return result;
}

Result<void> infer(ConvProblem& p) {
  const bool from_y = p.pass == Pass::dgrad && p.x.dims.empty();
  const TensorDesc& given = from_y ? p.y : p.x;
  CONVOY_CHECK(check_ranks(given, from_y ? "y" : "x", p.w));
  const int spatial = given.spatial_dims();
  CONVOY_CHECK(fill_default(p.pre_padding, spatial, 0, "pre_padding"));
  CONVOY_CHECK(fill_default(p.post_padding, spatial, 0, "post_padding"));
  CONVOY_CHECK(fill_default(p.stride, spatial, 1, "stride"));
  CONVOY_CHECK(fill_default(p.dilation, spatial, 1, "dilation"));
  if (from_y) return infer_x(p);
  return p.y.dims.empty() ? infer_y(p) : Result<void>{};
}

double flops(const ConvProblem& p) {
  double result = 2.0 * static_cast<double>(p.y.dims[0]) * static_cast<double>(p.w.dims[0]);
  for (int i = 1; i < p.w.rank(); ++i) result *= static_cast<double>(p.w.dims[i]);  // C/G and the filter
  for (int i = 2; i < p.y.rank(); ++i) result *= static_cast<double>(p.y.dims[i]);
  return result;
}

double bytes_moved(const ConvProblem& p) {
  const auto bytes = [](const TensorDesc& desc) {
    return static_cast<double>(desc.elements()) * static_cast<double>(size_of(desc.type));
  };
  double result = bytes(p.x) + bytes(p.w) + bytes(p.y);
  if (p.beta != 0) result += bytes(p.out());
  if (p.epilogue.takes_z()) result += bytes(p.out());
  if (p.gate) result += static_cast<double>(p.batch() * p.in_channels()) * static_cast<double>(size_of(p.x.type));
  if (p.epilogue.bias) {
    const std::int64_t channels = p.pass == Pass::dgrad ? p.in_channels() : p.out_channels();
    result += static_cast<double>(channels) * static_cast<double>(size_of(p.bias_type()));
  }
  return result;
}

}  // namespace convoy
