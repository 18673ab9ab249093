#include "engines/testing/conv_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/epilogue.h"
#include "core/integer_sums.h"

namespace convoy::testing {
namespace {

// Calls visit(offset, is_padding, first coordinate) for every element, and for the channel padding behind the last
// channel.
template <class Visit>
void for_each_offset(const TensorDesc& desc, Visit visit) {
  Dims dims = desc.dims;
  if (desc.channel_block > 1) dims[1] = desc.padded_channels();
  Dims at(dims.size(), 0);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  for (;;) {
    visit(desc.offset(at.data()), at[1] >= desc.dims[1], at[0]);
    int i = desc.rank() - 1;
    while (i >= 0 && ++at[i] == dims[i]) at[i--] = 0;
    if (i < 0) return;
  }
}

double integer_value(DataType type, Random& random, Fill fill) {
  if (fill == Fill::small_integers)
    return static_cast<double>(type == DataType::u8 ? random.integer(0, 3) : random.integer(-2, 2));
  if (type == DataType::u8) return static_cast<double>(random.integer(0, 255));
  if (type == DataType::s8) return static_cast<double>(random.integer(-128, 127));
  if (fill == Fill::limits) return static_cast<double>(random.integer(INT32_MIN, INT32_MAX));
  return static_cast<double>(random.integer(-100000, 100000));
}

// One kind of special value, of a tensor's type; integers have none.
class SpecialValues {
 public:
  explicit SpecialValues(Random& random) : kind_(random.integer(0, 5)) {}

  double draw(DataType type, Random& random) const {
    const double sign = random.chance(0.5) ? 1 : -1;
    switch (kind_) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return sign * std::numeric_limits<double>::infinity();
      case 2:
        return sign * largest(type) * random.pick({1.0, 0.5, 0x1p-5});
      case 3:
        return sign * std::min(1e30, largest(type) / 4);
      case 4:
        return sign * std::min(1e10, largest(type) / 16);
      default:
        return sign * least(type) * static_cast<double>(random.integer(1, 100));
    }
  }

 private:
  static double largest(DataType type) {
    if (type == DataType::f16) return 65504;
    if (type == DataType::bf16) return 0x1.fep127;
    // Of f64 what the oracle, which sums in it, can add up.
    return type == DataType::f64 ? 0x1p960 : std::numeric_limits<float>::max();
  }
  // The least subnormal number.
  static double least(DataType type) {
    if (type == DataType::f16) return 0x1p-24;
    if (type == DataType::bf16) return 0x1p-133;
    return type == DataType::f64 ? 0x1p-1074 : 0x1p-149;
  }

  std::int64_t kind_;
};

// At most three elements, half of them at the ends of their dims, where windows reach into padding.
void put_special(const TensorDesc& desc, void* data, const SpecialValues& values, Random& random) {
  if (!is_floating(desc.type) || desc.elements() == 0) return;
  for (std::int64_t i = random.integer(1, 3); i > 0; --i) {
    Dims at;
    const bool edge = random.chance(0.5);
    for (const std::int64_t size : desc.dims) {
      at.push_back(edge ? random.pick({std::int64_t{0}, size - 1}) : random.integer(0, size - 1));
    }
    store_from_double(desc.type, data, desc.offset(at.data()), values.draw(desc.type, random));
  }
}

// Mostly near the greatest byte, or the least; any, one in sixteen.
double extreme_byte(DataType type, bool greatest, Random& random) {
  if (random.chance(1.0 / 16)) return integer_value(type, random, Fill::normal);
  const auto [low, high] = byte_limits(type);
  const auto inwards = static_cast<double>(random.integer(0, 15));
  return greatest ? high - inwards : low + inwards;
}

// x near the greatest byte or the least; filters near `greatest` and near the other end in turn, and between them those
// of any weights.
void fill_with_extremes(const TensorDesc& desc, void* data, Random& random, bool filters, bool greatest) {
  for_each_offset(desc, [&](std::int64_t offset, bool padding, std::int64_t first) {
    double value = 0;
    if (!padding && filters && first % 2 == 1) value = integer_value(desc.type, random, Fill::normal);
    if (!padding && (!filters || first % 2 == 0)) {
      value = extreme_byte(desc.type, filters && first % 4 != 0 ? !greatest : greatest, random);
    }
    store_from_double(desc.type, data, offset, value);
  });
}

GuardedBuffer buffer_for(const TensorDesc& desc) { return GuardedBuffer(desc.bytes(), desc.alignment); }

}  // namespace

std::string_view name_of(Fill fill) {
  constexpr std::array<std::string_view, 5> kNames = {"normal", "spikes", "integers", "limits", "special"};
  return kNames[static_cast<std::size_t>(fill)];
}

std::optional<Fill> parse_fill(std::string_view name) {
  for (const Fill fill : {Fill::normal, Fill::spikes, Fill::small_integers, Fill::limits, Fill::special}) {
    if (name == name_of(fill)) return fill;
  }
  return std::nullopt;
}

void fill_tensor(const TensorDesc& desc, void* data, Random& random, Fill fill, double spread) {
  for_each_offset(desc, [&](std::int64_t offset, bool padding, std::int64_t) {
    double value = 0;
    if (!padding && is_floating(desc.type) && fill != Fill::small_integers) {
      value = spread * random.normal();
      if (fill == Fill::spikes && random.chance(0.02)) value *= 1000;
    } else if (!padding) {
      value = integer_value(desc.type, random, fill);
    }
    store_from_double(desc.type, data, offset, value);
  });
}

ConvData::ConvData(const ConvProblem& problem, std::uint64_t seed, Fill fill) : problem_(problem) {
  Random random(seed);
  const TensorDesc& out = problem.out();
  const Epilogue& epilogue = problem.epilogue;
  // Each tensor has a generator of its own, so that a shape's change in one leaves the others' values.
  Random special = Random(seed ^ 0x5bec1a1);
  const SpecialValues values(special);
  const auto make = [&](const TensorDesc& desc, double share) {
    Random own = random.fork();
    GuardedBuffer buffer = buffer_for(desc);
    const bool extreme = fill == Fill::limits && problem.compute == DataType::s32;
    if (extreme && (&desc == &problem.x || &desc == &problem.w)) {
      const ExtremeBytes ends = extreme_bytes(problem);
      const bool filters = &desc == &problem.w;
      fill_with_extremes(desc, buffer.data(), own, filters, filters ? ends.w_greatest : ends.x_greatest);
    } else {
      fill_tensor(desc, buffer.data(), own, fill);
    }
    if (fill == Fill::special && special.chance(share)) put_special(desc, buffer.data(), values, special);
    return buffer;
  };
  x_ = make(problem.x, 0.6);
  w_ = make(problem.w, 0.6);
  y_ = make(problem.y, 0.6);
  prior_ = make(out, 0.2);
  z_ = make(out, 0.2);

  const std::int64_t channels = problem.pass == Pass::wgrad ? out.dims[0] : out.dims[1];
  const bool integers = problem.compute == DataType::s32;
  TensorDesc bias;
  bias.type = problem.bias_type();
  bias_ = GuardedBuffer(channels * size_of(bias.type), 16);
  slopes_ = GuardedBuffer(channels * sizeof(float), 16);
  scales_ = GuardedBuffer(channels * sizeof(float), 16);
  // Scales that spread the sums of random bytes over most of the output's range.
  const double terms = static_cast<double>(problem.w.elements() / std::max<std::int64_t>(problem.w.dims[0], 1));
  const double usual = fill == Fill::small_integers       ? 0.5
                       : fill == Fill::limits && integers ? 100 / largest_sum(problem)
                                                          : 40 / (std::sqrt(terms) * 75 * 75);
  const double spread = !integers ? 1 : fill == Fill::limits ? 1e9 : 100000;
  for (std::int64_t c = 0; c < channels; ++c) {
    store_from_double(bias.type, bias_.data(), c,
                      fill != Fill::small_integers && is_floating(bias.type) ? spread * random.normal()
                                                                             : integer_value(bias.type, random, fill));
    const double slope = fill != Fill::small_integers ? 0.5 * random.unit() : random.pick({0.25, 0.5, 2.0});
    store_from_double(DataType::f32, slopes_.data(), c, slope);
    const double scale =
        fill != Fill::small_integers ? usual * (0.5 + random.unit()) : usual * random.pick({1.0, 0.5, 2.0});
    store_from_double(DataType::f32, scales_.data(), c, scale);
  }
  const auto zero_points = [&](DataType type, std::int64_t count) {
    GuardedBuffer buffer(count * sizeof(std::int32_t), 16);
    const std::int64_t low = type == DataType::s8 ? -128 : 0;
    const std::int64_t most = fill == Fill::limits ? 3 : 255;  // x and half of the filters are far from it then
    for (std::int64_t i = 0; i < count; ++i) {
      store_from_double(DataType::s32, buffer.data(), i, static_cast<double>(random.integer(low, low + most)));
    }
    return buffer;
  };
  if (fill == Fill::special && is_floating(bias.type) && special.chance(0.2)) {
    store_from_double(bias.type, bias_.data(), special.integer(0, channels - 1), values.draw(bias.type, special));
  }
  if (problem.x_zero_given) x_zero_ = zero_points(problem.x.type, 1);
  if (problem.w_zero_given) w_zeros_ = zero_points(problem.w.type, channels);
  if (problem.gate) {
    TensorDesc gate = TensorDesc::packed(problem.x.type, {problem.batch(), problem.in_channels()});
    gate.alignment = problem.x.alignment;
    gate_ = make(gate, 0.2);
  }
  if (!epilogue.bias) bias_ = {};
  if (!epilogue.takes_z()) z_ = {};
  if (epilogue.activation.kind != ActivationKind::prelu) slopes_ = {};
  if (epilogue.requantize == Requantize::none) scales_ = {};
  if (problem.pass == Pass::fprop) y_ = {};
  if (problem.pass == Pass::dgrad) x_ = {};
  if (problem.pass == Pass::wgrad) w_ = {};
  if (problem.beta == 0) prior_.fill(0xFF);

  written_.assign(out.bytes(), false);
  const std::size_t size = size_of(out.type);
  for_each_offset(out, [&](std::int64_t offset, bool, std::int64_t) {
    std::fill_n(written_.begin() + static_cast<std::ptrdiff_t>(offset * size), size, true);
  });
}

ConvArgs ConvData::args() const {
  ConvArgs args;
  args.x = x_.data();
  args.w = w_.data();
  args.y = y_.data();
  args.out = prior_.data();
  args.bias = bias_.data();
  args.z = z_.data();
  args.slopes = reinterpret_cast<const float*>(slopes_.data());
  args.scales = reinterpret_cast<const float*>(scales_.data());
  args.x_zero_point = reinterpret_cast<const std::int32_t*>(x_zero_.data());
  args.w_zero_points = reinterpret_cast<const std::int32_t*>(w_zeros_.data());
  args.gate = gate_.data();
  return args;
}

GuardedBuffer ConvData::make_out() const { return buffer_for(problem_.out()); }

void ConvData::reset(GuardedBuffer& out) const {
  out.fill(0xFF);
  if (problem_.beta != 0) std::memcpy(out.data(), prior_.data(), out.size());
}

std::string ConvData::trespass(const GuardedBuffer& out) const {
  if (!out.intact()) return "it wrote outside of out, in a red zone";
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!written_[i] && out.data()[i] != prior_.data()[i]) {
      return "it wrote byte " + std::to_string(i) + " of out, which lies between elements";
    }
  }
  for (const auto& [name, buffer] : {std::pair{"x", &x_}, {"w", &w_}, {"y", &y_}, {"bias", &bias_}, {"z", &z_}}) {
    if (buffer->size() != 0 && !buffer->intact()) return std::string("it wrote around ") + name;
  }
  return {};
}

}  // namespace convoy::testing
