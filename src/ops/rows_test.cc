// The loops that have vectors against plain formulas, bit by bit, with vectors and without.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ops/element.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs the operator in every way that there is; all outputs must have the bytes of `want`.
void expect_bytes(const NodeDesc& node, const std::vector<HostTensor>& inputs, const HostTensor& want) {
  for (const Isa isa : {Isa::portable, Isa::avx512}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const int threads : {1, 3}) {
        for (const bool in_place : {false, true}) {
          const OpRun how{.layout = layout, .threads = threads, .in_place = in_place, .isa = isa};
          auto got = run_op(node, inputs, how);
          ASSERT_TRUE(got.ok()) << got.error().message;
          const HostTensor& y = got->front();
          ASSERT_EQ(y.desc.dims, want.desc.dims);
          if (std::memcmp(y.data.get(), want.data.get(), want.desc.bytes()) == 0) continue;
          for (std::int64_t i = 0; i < want.desc.elements(); ++i) {
            ASSERT_EQ(y.at(i), want.at(i)) << "element " << i << ", " << name_of(isa) << ", " << threads << " threads";
          }
          FAIL() << "the values are equal, their bits are not: " << name_of(isa);
        }
      }
    }
  }
}

// ---- QLinearAdd and QLinearMul

HostTensor bytes_of(DataType type, Dims dims, std::mt19937& random) {
  HostTensor result = *HostTensor::allocate(TensorDesc::packed(type, std::move(dims)));
  for (std::int64_t i = 0; i < result.desc.elements(); ++i) {
    reinterpret_cast<std::uint8_t*>(result.data.get())[i] = static_cast<std::uint8_t>(random());
  }
  return result;
}

struct QLinearCase {
  std::string op;
  DataType type;
  float a_scale, b_scale, y_scale;
  int a_zero, b_zero, y_zero;
};

// What ONNX says: dequantize, compute in f32, quantize; a NaN becomes the lowest value.
double quantized(const QLinearCase& c, double a, double b) {
  const float left = (static_cast<float>(a) - static_cast<float>(c.a_zero)) * c.a_scale;
  const float right = (static_cast<float>(b) - static_cast<float>(c.b_zero)) * c.b_scale;
  const float value = (c.op == "QLinearAdd" ? left + right : left * right) / c.y_scale;
  const double low = c.type == DataType::u8 ? 0 : -128, high = c.type == DataType::u8 ? 255 : 127;
  if (std::isnan(value)) return low;
  return std::clamp(std::nearbyint(static_cast<double>(value)) + c.y_zero, low, high);
}

// `a` has all dims of the output.
void check_qlinear(const QLinearCase& c, const HostTensor& a, const HostTensor& b, const Ints& b_strides) {
  NodeDesc node = node_of(c.op, {}, 1);
  node.domain = "com.microsoft";
  HostTensor want = *HostTensor::allocate(TensorDesc::packed(c.type, a.desc.dims));
  Dims at(a.desc.dims.size(), 0);
  for (std::int64_t i = 0; i < want.desc.elements(); ++i) {
    std::int64_t rest = i, from_b = 0;
    for (int d = static_cast<int>(at.size()) - 1; d >= 0; --d) {
      from_b += rest % a.desc.dims[d] * b_strides[d];
      rest /= a.desc.dims[d];
    }
    store_from_double(c.type, want.data.get(), i, quantized(c, a.at(i), b.at(from_b)));
  }
  const auto scale = [](float value) { return floats({}, {value}); };
  const auto zero = [&](int value) { return tensor(c.type, {}, {static_cast<double>(value)}); };
  const std::vector<HostTensor> one = {
      a, scale(c.a_scale), zero(c.a_zero), b, scale(c.b_scale), zero(c.b_zero), scale(c.y_scale), zero(c.y_zero)};
  expect_bytes(node, one, want);
  const std::vector<HostTensor> other = {
      b, scale(c.b_scale), zero(c.b_zero), a, scale(c.a_scale), zero(c.a_zero), scale(c.y_scale), zero(c.y_zero)};
  if (b.desc.dims.size() <= a.desc.dims.size()) expect_bytes(node, other, want);  // both functions commute
}

std::vector<QLinearCase> qlinear_cases() {
  std::vector<QLinearCase> cases;
  for (const char* op : {"QLinearAdd", "QLinearMul"}) {
    for (const DataType type : {DataType::u8, DataType::s8}) {
      const int z = type == DataType::u8 ? 128 : 0;
      cases.push_back({op, type, 0.0173F, 0.0291F, 0.0412F, 3 + z, z - 7, z + 11});
      cases.push_back({op, type, 0.5F, 0.25F, 1.0F, z, z, z});          // many ties
      cases.push_back({op, type, 1e-3F, 2e-3F, 1e-5F, z, z, z + 127});  // saturates
      cases.push_back({op, type, -0.5F, 3.0F, -0.75F, z, z + 1, z});    // as nobody writes them
      cases.push_back({op, type, 1e30F, 1e30F, 1e-30F, z, z, z});       // infinities, and NaN from them
      cases.push_back({op, type, 1.0F, 1.0F, 0.0F, z, z, z});           // x / 0
      cases.push_back({op, type, kInfinity, 1.0F, 1.0F, z, z, z});
      cases.push_back({op, type, 1.0F, kNan, 1.0F, z, z, z + 5});
    }
  }
  return cases;
}

TEST(Rows, QLinearEveryPairOfBytes) {
  for (const QLinearCase& c : qlinear_cases()) {
    SCOPED_TRACE(c.op + " " + std::string(name_of(c.type)) + " by " + std::to_string(c.y_scale));
    HostTensor a = *HostTensor::allocate(TensorDesc::packed(c.type, {256, 256}));
    HostTensor b = *HostTensor::allocate(TensorDesc::packed(c.type, {256, 256}));
    for (int i = 0; i < 65536; ++i) {
      reinterpret_cast<std::uint8_t*>(a.data.get())[i] = static_cast<std::uint8_t>(i / 256);
      reinterpret_cast<std::uint8_t*>(b.data.get())[i] = static_cast<std::uint8_t>(i);
    }
    check_qlinear(c, a, b, {256, 1});
  }
}

TEST(Rows, QLinearBroadcastsAndTails) {
  std::mt19937 random(1);
  const QLinearCase add{"QLinearAdd", DataType::u8, 0.0173F, 0.0291F, 0.0412F, 131, 121, 139};
  const QLinearCase multiply{"QLinearMul", DataType::s8, 0.0173F, 0.0291F, 0.0021F, 3, -7, 11};
  for (const QLinearCase& c : {add, multiply}) {
    for (std::int64_t n = 1; n <= 100; ++n) {
      check_qlinear(c, bytes_of(c.type, {n}, random), bytes_of(c.type, {n}, random), {1});
      check_qlinear(c, bytes_of(c.type, {n}, random), bytes_of(c.type, {}, random), {0});
    }
    const HostTensor image = bytes_of(c.type, {2, 35, 6, 7}, random);
    check_qlinear(c, image, bytes_of(c.type, {2, 35, 6, 7}, random), {35 * 42, 42, 7, 1});
    check_qlinear(c, image, bytes_of(c.type, {35, 1, 1}, random), {0, 1, 0, 0});
    check_qlinear(c, image, bytes_of(c.type, {2, 1, 6, 7}, random), {42, 0, 7, 1});
    check_qlinear(c, image, bytes_of(c.type, {6, 1}, random), {0, 0, 1, 0});
    check_qlinear(c, image, bytes_of(c.type, {2, 35, 1, 1}, random), {35, 1, 0, 0});
  }
}

// ---- pooling of 16-bit floats

struct Window {
  std::int64_t kernel, stride, dilation, pad, pad_end, ceil_mode;
};

float widened(DataType type, std::uint16_t bits) {
  return type == DataType::f16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}
std::uint16_t narrowed(DataType type, float value) {
  return type == DataType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
}

// Two spatial dims with the same window; the output's dims are taken from the operator's.
void check_pool(const std::string& op, DataType type, const Window& w, Dims dims, std::mt19937& random) {
  SCOPED_TRACE(op + " " + std::string(name_of(type)) + " of " + to_string(dims) + ", kernel " +
               std::to_string(w.kernel) + ", stride " + std::to_string(w.stride));
  const std::uint16_t specials[] = {narrowed(type, kNan),
                                    narrowed(type, -kNan),
                                    narrowed(type, 0.0F),
                                    narrowed(type, -0.0F),
                                    narrowed(type, kInfinity),
                                    narrowed(type, -kInfinity),
                                    std::uint16_t{0x0001},
                                    std::uint16_t{0x8001},
                                    static_cast<std::uint16_t>(type == DataType::f16 ? 0x7c01 : 0x7f81)};
  HostTensor x = *HostTensor::allocate(TensorDesc::packed(type, dims));
  auto* bits = reinterpret_cast<std::uint16_t*>(x.data.get());
  for (std::int64_t i = 0; i < x.desc.elements(); ++i) {
    const std::uint32_t draw = static_cast<std::uint32_t>(random());
    bits[i] = draw % 4 == 0 ? specials[draw / 4 % std::size(specials)]
                            : narrowed(type, static_cast<float>(draw % 2001) / 250 - 4);
  }
  NodeDesc node = node_of(op, {{"kernel_shape", Ints{w.kernel, w.kernel}},
                               {"strides", Ints{w.stride, w.stride}},
                               {"dilations", Ints{w.dilation, w.dilation}},
                               {"pads", Ints{w.pad, w.pad, w.pad_end, w.pad_end}},
                               {"ceil_mode", w.ceil_mode}});
  auto shape = run_op(node, {x});
  ASSERT_TRUE(shape.ok()) << shape.error().message;
  HostTensor want = *HostTensor::allocate(shape->front().desc);
  const Dims& y = want.desc.dims;
  auto* out = reinterpret_cast<std::uint16_t*>(want.data.get());
  for (std::int64_t i = 0; i < want.desc.elements(); ++i) {
    const std::int64_t plane = i / (y[2] * y[3]), oh = i / y[3] % y[2], ow = i % y[3];
    float best = -kInfinity, sum = 0;
    int count = 0;
    for (std::int64_t kh = 0; kh < w.kernel; ++kh) {
      for (std::int64_t kw = 0; kw < w.kernel; ++kw) {
        const std::int64_t h = oh * w.stride + kh * w.dilation - w.pad, v = ow * w.stride + kw * w.dilation - w.pad;
        if (h < 0 || h >= dims[2] || v < 0 || v >= dims[3]) continue;
        const float value = widened(type, bits[(plane * dims[2] + h) * dims[3] + v]);
        if (value > best) best = value;
        sum += value;
        ++count;
      }
    }
    out[i] = narrowed(type, op == "MaxPool" ? best : sum / static_cast<float>(std::max(1, count)));
  }
  // Which of two NaNs a sum keeps is open, and which zero a maximum; and in which order it adds, so the last bit.
  const double step = op == "MaxPool" ? 0 : std::exp2(type == DataType::f16 ? -10 : -7);
  expect_op(node, {x}, {want}, step, step / 100);
}

TEST(Rows, PoolsOfHalves) {
  std::mt19937 random(2);
  const Window windows[] = {{3, 2, 1, 0, 0, 0}, {3, 2, 1, 0, 0, 1}, {3, 2, 1, 1, 1, 0},
                            {3, 1, 1, 1, 1, 0}, {2, 2, 1, 0, 0, 0}, {3, 3, 1, 0, 0, 1},
                            {2, 1, 2, 1, 1, 0}, {5, 1, 1, 2, 2, 0}, {1, 2, 1, 0, 0, 0}};
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const DataType type : {DataType::f16, DataType::bf16}) {
      for (const Window& window : windows) {
        for (const std::int64_t width : {5, 8, 15, 17, 18, 31, 55}) {
          check_pool(op, type, window, {2, 3, 6, width}, random);
        }
        for (const std::int64_t channels : {1, 7, 8, 20, 33, 80}) {
          check_pool(op, type, window, {1, channels, 9, 11}, random);
        }
      }
    }
  }
}

// In nhwc by our vectors; averages of overlapping windows by oneDNN.
TEST(Rows, PoolsOfFloats) {
  std::mt19937 random(8);
  for (const char* op : {"MaxPool", "AveragePool"}) {
    for (const std::int64_t channels : {8, 9, 33, 70}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        HostTensor x = *HostTensor::allocate(TensorDesc::packed(DataType::f32, {2, channels, 7, 9}));
        for (std::int64_t i = 0; i < x.desc.elements(); ++i) {
          const std::uint32_t draw = static_cast<std::uint32_t>(random());
          store_from_double(DataType::f32, x.data.get(), i, draw % 2001 / 250.0 - 4);
        }
        // The last ones' maxima are made row by row.
        for (const auto& [height, width] : {std::pair<std::int64_t, std::int64_t>{3, 2}, {3, 3}, {5, 4}}) {
          expect_as_portable(node_of(op, {{"kernel_shape", Ints{height, width}},
                                          {"strides", Ints{stride, stride}},
                                          {"pads", Ints{1, 0, 1, 1}},
                                          {"ceil_mode", std::int64_t{1}}}),
                             {x}, 1e-6, 4e-7);
        }
      }
    }
  }
}

TEST(Rows, MaximaRowByRow) {
  std::mt19937 random(21);
  for (const std::int64_t channels : {2, 16, 37}) {
    for (const std::int64_t stride : {1, 2}) {
      expect_as_portable(node_of("MaxPool", {{"kernel_shape", Ints{5, 5}},
                                             {"strides", Ints{1, stride}},
                                             {"dilations", Ints{1, 2}},
                                             {"pads", Ints{2, 4, 2, 3}}}),
                         {varied(DataType::f32, {2, channels, 6, 13}, random)});
      expect_as_portable(
          node_of("MaxPool",
                  {{"kernel_shape", Ints{3, 3, 3}}, {"strides", Ints{2, 1, stride}}, {"pads", Ints{1, 1, 1, 1, 0, 1}}}),
          {varied(DataType::f32, {1, channels, 4, 5, 6}, random)});
    }
  }
}

// oneDNN would give the lowest number for -inf.
TEST(Rows, MaximumOfFloatsThatAreNone) {
  const HostTensor x =
      tensor(DataType::f32, {1, 8, 1, 3},
             {kNan,      1,    -kInfinity, -kInfinity, -kInfinity, kNan, kNan, kNan, kNan, 2,  3,  kNan,
              kInfinity, kNan, 1,          -kInfinity, 5,          4,    0,    0,    0,    -1, -2, -3});
  const auto got = run_op(node_of("MaxPool", {{"kernel_shape", Ints{1, 3}}, {"strides", Ints{1, 2}}}), {x},
                          {.layout = Layout::nhwc});
  ASSERT_TRUE(got.ok()) << got.error().message;
  const double want[] = {1, -kInfinity, -kInfinity, 3, kInfinity, 5, 0, -1};
  for (int c = 0; c < 8; ++c) EXPECT_EQ(got->front().at(c), want[c]) << c;
}

// ---- rows through f32

const std::vector<Dims> kShapes = {{1}, {7}, {8}, {31}, {33}, {512}, {513}, {1301}, {2, 20, 3, 5}, {1, 8, 9, 9}};

TEST(Rows, ElementwiseOfFloats) {
  std::mt19937 random(3);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const Dims& dims : kShapes) {
      const HostTensor x = varied(type, dims, random);
      for (const char* op : {"Relu", "LeakyRelu", "HardSwish", "HardSigmoid", "Neg", "Floor"}) {
        expect_as_portable(node_of(op, {}, 20), {x});
      }
      expect_as_portable(node_of("Clip"), {x, tensor(type, {}, {-1}), tensor(type, {}, {6})});
      Dims one_a_channel(dims.size(), 1);
      if (dims.size() > 1) one_a_channel[1] = dims[1];
      for (const char* op : {"Add", "Mul", "Sub", "Div", "Max", "Mean", "PRelu"}) {
        expect_as_portable(node_of(op), {x, varied(type, dims, random)});
        expect_as_portable(node_of(op), {x, varied(type, one_a_channel, random)});
        if (dims.size() == 1) expect_as_portable(node_of(op), {x, varied(type, {}, random)});
      }
    }
  }
}

TEST(Rows, Bytes) {
  std::mt19937 random(4);
  for (const DataType type : {DataType::u8, DataType::s8}) {
    for (const Dims& dims : kShapes) {
      for (const char* op : {"Add", "Mul", "Max"}) {
        expect_as_portable(node_of(op), {bytes_of(type, dims, random), bytes_of(type, dims, random)});
      }
      NodeDesc lookup = node_of("Lookup", {}, 1);
      lookup.domain = "convoy";
      expect_as_portable(lookup, {bytes_of(type, dims, random), bytes_of(type, {256}, random)});
    }
    for (const std::int64_t width : {5, 17, 64, 65, 131}) {
      for (const std::int64_t stride : {1, 2, 3}) {
        const std::map<std::string, Attribute> window = {
            {"kernel_shape", Ints{3, 3}}, {"strides", Ints{stride, stride}}, {"pads", Ints{1, 1, 1, 1}}};
        expect_as_portable(node_of("MaxPool", window), {bytes_of(type, {1, 3, 7, width}, random)});
        expect_as_portable(node_of("MaxPool", window), {bytes_of(type, {1, width, 7, 6}, random)});
      }
    }
  }
}

// Values of channels beside images of few channels and of many: repeated for some positions, or run by run.
TEST(Rows, ValuesOfChannels) {
  std::mt19937 random(9);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::f64, DataType::u8}) {
    for (const std::int64_t channels : {2, 8, 33, 64, 256, 257}) {
      const HostTensor x = varied(type, {2, channels, 5, 7}, random);
      for (const Dims& dims : {Dims{1, channels, 1, 1}, Dims{2, channels, 1, 1}, Dims{channels, 1, 1}}) {
        const HostTensor each = varied(type, dims, random);
        for (const char* op : {"Mul", "Add", "Greater"}) {
          expect_as_portable(node_of(op), {x, each});
          expect_as_portable(node_of(op), {each, x});
        }
      }
      if (type == DataType::u8) continue;
      const auto values = [&](double low, double high) {
        return tensor(DataType::f32, {channels}, spread(channels, low, high));
      };
      expect_as_portable(node_of("BatchNormalization", {}, 15),
                         {x, values(-1, 2), values(-3, 1), values(-1, 1), values(0.5, 4)});
    }
  }
}

TEST(Rows, GlobalAverages) {
  std::mt19937 random(10);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const std::int64_t channels : {1, 7, 16, 75, 515}) {
      HostTensor x = *HostTensor::allocate(TensorDesc::packed(type, {2, channels, 13, 11}));
      for (std::int64_t i = 0; i < x.desc.elements(); ++i) {
        store_from_double(type, x.data.get(), i, static_cast<double>(random() % 4001) / 256);
      }
      expect_as_portable(node_of("GlobalAveragePool"), {x}, type == DataType::f32 ? 1e-6 : 8e-3);
    }
  }
}

// Linear in both dims (two steps in one), in the height alone and in the width alone.
TEST(Rows, LinearResizeOfFloats) {
  std::mt19937 random(11);
  const HostTensor none{};
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const std::int64_t channels : {1, 3, 8, 17, 70}) {
      const HostTensor x = varied(type, {2, channels, 5, 6}, random);
      for (const auto& scales : {std::vector<double>{1, 1, 2, 2}, {1, 1, 1.7, 1}, {1, 1, 1, 2.5}, {1, 1, 0.6, 3}}) {
        for (const char* how : {"half_pixel", "align_corners", "asymmetric"}) {
          const NodeDesc node = node_of(
              "Resize", {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string(how)}}, 13);
          expect_as_portable(node, {x, none, floats({4}, scales)});
        }
      }
    }
  }
}

// Means far from 0, a first element far from the others, rows without variance, and sizes whose squares f32 has not.
TEST(Rows, MomentsOfHalves) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    for (const std::int64_t size : {1, 15, 64, 100, 1024, 1500}) {
      for (const double offset : {0.0, 100.0, -1000.0}) {
        for (const double spike : {0.0, 30000.0}) {
          for (const double scale : {0.0, 1e-3, 1.0, 1e25}) {
            if (scale > 1e4 && type == DataType::f16) continue;
            std::vector<double> values(static_cast<std::size_t>(2 * size));
            for (std::size_t i = 0; i < values.size(); ++i) {
              values[i] = offset + scale * static_cast<double>(i * 7919 % 101) / 16;
            }
            values[0] += spike;
            const HostTensor x = tensor(type, {2, size}, values);
            const HostTensor gain = tensor(type, {size}, spread(size, 0.5, 2));
            expect_as_portable(node_of("LayerNormalization", {}, 17, 3), {x, gain, gain}, 8e-3, 1e-3);
          }
        }
      }
    }
  }
}

TEST(Rows, CastsOfEveryPair) {
  std::mt19937 random(5);
  const std::pair<DataType, std::int64_t> types[] = {
      {DataType::f32, 1}, {DataType::u8, 2}, {DataType::s8, 3}, {DataType::f16, 10}, {DataType::bf16, 16}};
  for (const auto& [from, unused] : types) {
    for (const auto& [to, number] : types) {
      for (const Dims& dims : kShapes)
        expect_as_portable(node_of("Cast", {{"to", number}}), {varied(from, dims, random)});
    }
  }
}

TEST(Rows, QuantizeAndDequantize) {
  std::mt19937 random(6);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const DataType bytes : {DataType::u8, DataType::s8}) {
      const auto scale = [&](double value) { return tensor(type, {}, {value}); };
      for (const Dims& dims : kShapes) {
        for (const double value : {0.5, 0.017, -2.0, 1e-30, 0.0}) {
          const HostTensor zero = tensor(bytes, {}, {3});
          expect_as_portable(node_of("QuantizeLinear", {}, 21), {varied(type, dims, random), scale(value), zero});
          expect_as_portable(node_of("DequantizeLinear", {}, 21), {bytes_of(bytes, dims, random), scale(value), zero});
        }
        if (dims.size() < 2) continue;
        const HostTensor scales = tensor(type, {dims[1]}, spread(dims[1], 0.01, 2));
        const HostTensor zeros = tensor(bytes, {dims[1]}, spread(dims[1], 0, 100));
        expect_as_portable(node_of("QuantizeLinear", {}, 21), {varied(type, dims, random), scales, zeros});
        expect_as_portable(node_of("DequantizeLinear", {}, 21), {bytes_of(bytes, dims, random), scales, zeros});
      }
    }
  }
}

// What has vectors of its own arithmetic, beside the plain loops' (the standard library's functions).
TEST(Rows, FunctionsAreNearTheStandardLibrarys) {
  std::mt19937 random(7);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16}) {
    const double tolerance = type == DataType::f32 ? 4e-7 : type == DataType::f16 ? 1e-3 : 8e-3;
    for (const Dims& dims : kShapes) {
      HostTensor x = varied(type, dims, random);
      const auto near = [&](const NodeDesc& node, const std::vector<HostTensor>& inputs) {
        const bool cancels = node.op == "Gelu" || node.op == "LogSoftmax" || node.op == "InstanceNormalization" ||
                             node.op == "LayerNormalization";  // differences of the like
        expect_as_portable(node, inputs, tolerance, cancels ? 3e-6 : 1e-7);
      };
      for (const char* op : {"Exp", "Sigmoid", "Tanh", "Erf", "Mish", "Elu", "Swish"}) near(node_of(op, {}, 24), {x});
      for (const char* how : {"none", "tanh"}) near(node_of("Gelu", {{"approximate", std::string(how)}}, 20), {x});
      for (std::int64_t i = 0; i < x.desc.elements(); ++i) {  // no infinities: all would be NaN
        store_from_double(type, x.data.get(), i, (i * 7919 % 4001 - 2000) / 256.0);
      }
      for (const char* op : {"Softmax", "LogSoftmax"}) near(node_of(op), {x});
      near(node_of("ReduceMean", {}, 18), {x});
      if (dims.size() < 2) continue;
      near(node_of("ReduceSum", {}, 13), {x, tensor(DataType::s64, {2}, {0, 2})});
      const HostTensor channel = tensor(type, {dims[1]}, spread(dims[1], 0.5, 2));
      near(node_of("InstanceNormalization"), {x, channel, channel});
      const HostTensor last = tensor(type, {dims.back()}, spread(dims.back(), 0.5, 2));
      near(node_of("LayerNormalization", {}, 17), {x, last, last});
      near(node_of("LayerNormalization", {}, 17), {x, last});
      near(node_of("LayerNormalization", {}, 17), {x, tensor(type, {1}, {1.5}), last});
    }
  }
}

// The nearest half, or one beside it where the function is within 2^-6 of the middle of two; 0 below e^-87 times v.
TEST(Rows, SigmoidOfEveryHalf) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    HostTensor x = *HostTensor::allocate(TensorDesc::packed(type, {65536}));
    for (int i = 0; i < 65536; ++i) {
      reinterpret_cast<std::uint16_t*>(x.data.get())[i] = static_cast<std::uint16_t>(i);
    }
    const int digits = type == DataType::f16 ? 11 : 8, least = type == DataType::f16 ? -14 : -126;
    for (const char* op : {"Sigmoid", "Swish"}) {
      const auto got = run_op(node_of(op, {}, 24), {x});
      ASSERT_TRUE(got.ok()) << got.error().message;
      for (std::int64_t i = 0; i < 65536; ++i) {
        const double v = x.at(i), y = got->front().at(i);
        if (op == std::string("Swish") && std::isinf(v)) continue;  // infinity times 0
        const double want = (op == std::string("Swish") ? v : 1.0) / (1 + std::exp(-v));
        if (std::isnan(want) || std::isinf(want)) {
          ASSERT_EQ(std::isnan(y), std::isnan(want)) << op << " of " << v;
          continue;
        }
        const double place = std::ldexp(1.0, std::max(std::ilogb(want), least) + 1 - digits);
        ASSERT_LE(std::abs(y - want), place * (0.5 + 0x1p-6) + 1e-36) << op << " of " << v;
      }
    }
  }
}

}  // namespace
}  // namespace convoy::ops
