// Pooling: values from the operator specification's examples and by hand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;

HostTensor ramp(Dims dims, double first = 1) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  std::vector<double> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = first + static_cast<double>(i);
  return floats(std::move(dims), values);
}

TEST(MaxPool, SpecificationExamples) {
  const HostTensor x = ramp({1, 1, 5, 5});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{5, 5}}, {"pads", Ints{2, 2, 2, 2}}}), {x},
            {floats({1, 1, 5, 5}, {13, 14, 15, 15, 15, 18, 19, 20, 20, 20, 23, 24, 25,
                                   25, 25, 23, 24, 25, 25, 25, 23, 24, 25, 25, 25})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}), {x},
            {floats({1, 1, 2, 2}, {7, 9, 17, 19})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"auto_pad", "SAME_UPPER"}}),
            {x}, {floats({1, 1, 3, 3}, {7, 9, 10, 17, 19, 20, 22, 24, 25})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}}),
            {ramp({1, 1, 4, 4})}, {floats({1, 1, 2, 2}, {11, 12, 15, 16})});
  // The second window along each dim would start in the end padding.
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{1, 1}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}}),
            {ramp({1, 1, 2, 2})}, {floats({1, 1, 1, 1}, {1})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}}), {ramp({1, 1, 4, 4})},
            {floats({1, 1, 2, 2}, {11, 12, 15, 16})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2}}}), {floats({1, 2, 3}, {3, 1, 2, 6, 5, 4})},
            {floats({1, 2, 2}, {3, 2, 6, 5})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2, 2, 2}}}), {ramp({1, 1, 2, 2, 3})},
            {floats({1, 1, 1, 1, 2}, {11, 12})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}}), {tensor(DataType::u8, {1, 1, 2, 2}, {1, 255, 3, 4})},
            {tensor(DataType::u8, {1, 1, 1, 1}, {255})});
}

// One output a dim, of the elements that there are: what the window has besides them doesn't count, padding does.
TEST(Pooling, WindowsLargerThanTheMapWithCeilMode) {
  const auto with = [](std::map<std::string, Attribute> more, Dims kernel, Dims strides, Dims pads, Dims dilations) {
    more.insert({{"kernel_shape", std::move(kernel)},
                 {"strides", std::move(strides)},
                 {"pads", std::move(pads)},
                 {"dilations", std::move(dilations)},
                 {"ceil_mode", std::int64_t{1}}});
    return more;
  };
  const HostTensor line = ramp({1, 1, 7}), map = ramp({1, 2, 2, 2}), volume = ramp({1, 1, 2, 2, 2});
  const std::map<std::string, Attribute> include{{"count_include_pad", std::int64_t{1}}};
  for (const std::int64_t k : {8, 9, 1280}) {
    const auto whole = with({}, {k}, {k}, {0, 0}, {1});
    expect_op(node_of("AveragePool", whole, 19), {line}, {floats({1, 1, 1}, {4})});
    expect_op(node_of("AveragePool", with(include, {k}, {k}, {0, 0}, {1}), 19), {line}, {floats({1, 1, 1}, {4})});
    expect_op(node_of("MaxPool", whole, 12, 2), {line}, {floats({1, 1, 1}, {7}), longs({1, 1, 1}, {6})});
    expect_op(node_of("LpPool", whole, 18), {line}, {floats({1, 1, 1}, {std::sqrt(140.0)})}, 1e-6);
  }
  // Padding of 1 on both sides: (1 + .. + 7) / 9.
  expect_op(node_of("AveragePool", with(include, {10}, {4}, {1, 1}, {1}), 19), {line}, {floats({1, 1, 1}, {28.0 / 9})},
            1e-6);
  // Taps at -1, 2, 5 and 8 of 0 to 6.
  expect_op(node_of("AveragePool", with({}, {4}, {4}, {1, 0}, {3}), 19), {line}, {floats({1, 1, 1}, {4.5})});
  expect_op(node_of("AveragePool", with(include, {4}, {4}, {1, 0}, {3}), 19), {line}, {floats({1, 1, 1}, {3})});
  expect_op(node_of("MaxPool", with({}, {4}, {4}, {1, 0}, {3}), 12, 2), {line},
            {floats({1, 1, 1}, {6}), longs({1, 1, 1}, {5})});
  expect_op(node_of("AveragePool", with({}, {3, 4}, {3, 4}, {0, 0, 0, 0}, {1, 1}), 19), {map},
            {floats({1, 2, 1, 1}, {2.5, 6.5})});
  expect_op(node_of("MaxPool", with({}, {3, 3, 3}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}), 12), {volume},
            {floats({1, 1, 1, 1, 1}, {8})});
  // By the formula of ceil_mode: no window begins where one would have to begin before the first.
  expect_op(node_of("MaxPool", with({}, {9}, {2}, {0, 0}, {1}), 12), {line}, {floats({1, 1, 0}, {})});
  expect_refused(node_of("MaxPool", with({}, {9}, {1}, {0, 0}, {1}), 12), {line}, "window of 9 is larger");
  // Without it: of windows too large by less than a stride one is left, by less than two none.
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{8}}, {"strides", Ints{2}}}, 12), {line},
            {floats({1, 1, 1}, {7})});
  expect_op(node_of("AveragePool", {{"kernel_shape", Ints{8}}, {"strides", Ints{2}}}, 12), {line},
            {floats({1, 1, 1}, {4})});
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{8}}}, 12), {line}, {floats({1, 1, 0}, {})});
  expect_op(node_of("AveragePool", {{"kernel_shape", Ints{10}}, {"strides", Ints{2}}}, 12), {line},
            {floats({1, 1, 0}, {})});
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{9}}}, 12), {line}, "window of 9 is larger");
}

TEST(MaxPool, Indices) {
  const HostTensor x = ramp({1, 1, 5, 5});
  std::map<std::string, Attribute> attributes{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  expect_op(node_of("MaxPool", attributes, 12, 2), {x},
            {floats({1, 1, 2, 2}, {7, 9, 17, 19}), longs({1, 1, 2, 2}, {6, 8, 16, 18})});
  attributes["storage_order"] = std::int64_t{1};
  expect_op(node_of("MaxPool", attributes, 12, 2), {x},
            {floats({1, 1, 2, 2}, {7, 9, 17, 19}), longs({1, 1, 2, 2}, {6, 16, 8, 18})});
  // Two images of two channels: indices count through all of x.
  expect_op(node_of("MaxPool", {{"kernel_shape", Ints{2}}}, 12, 2), {floats({2, 2, 2}, {1, 2, 4, 3, -1, -2, 0, 0})},
            {floats({2, 2, 1}, {2, 4, -1, 0}), longs({2, 2, 1}, {1, 2, 4, 6})});
}

// Whichever loop it is, oneDNN's for the larger maps: -infinity stays, the least finite number too, a NaN is passed
// over.
TEST(MaxPool, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity(), least = std::numeric_limits<float>::lowest();
  for (const std::int64_t channels : {1, 16}) {
    for (const std::int64_t size : {4, 40}) {
      std::vector<double> values(channels * size * size, -inf), expected(channels * size * size / 4, -inf);
      values[2 * size] = 3, expected[size / 2] = 3;
      values[1] = least, expected[0] = least;
      values[size + 2] = std::nan(""), values[3] = 7, expected[1] = 7;
      if (size > 4) values[7] = inf, expected[3] = inf;
      const auto node = node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
      expect_op(node, {floats({1, channels, size, size}, values)},
                {floats({1, channels, size / 2, size / 2}, expected)});
    }
  }
}

TEST(MaxPool, Refusals) {
  const HostTensor x = ramp({1, 1, 5, 5});
  expect_refused(node_of("MaxPool"), {x}, "'kernel_shape' is required");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{2}}}), {x}, "kernel_shape has 1 entries, it needs 2");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{7, 2}}}), {x}, "the window of 7 is larger");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{0, 2}}}), {x}, "kernel_shape=[0,2]");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{0, 1}}}), {x}, "strides=[0,1]");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{-1, 0, 0, 0}}}), {x}, "pads=[-1");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}, {"auto_pad", "SAME"}}), {x}, "auto_pad='SAME'");
  expect_refused(node_of("MaxPool", {{"kernel_shape", Ints{2, 2}}}), {ramp({5, 5})}, "input 0 has dims [5x5]");
}

TEST(AveragePool, Divisors) {
  const HostTensor x = ramp({1, 1, 5, 5});
  std::map<std::string, Attribute> attributes{
      {"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}};
  expect_op(node_of("AveragePool", attributes), {x}, {floats({1, 1, 3, 3}, {4, 5.5, 7, 11.5, 13, 14.5, 19, 20.5, 22})});
  attributes["count_include_pad"] = std::int64_t{1};
  expect_op(node_of("AveragePool", attributes), {x},
            {floats({1, 1, 3, 3}, {16 / 9., 33 / 9., 28 / 9., 69 / 9., 13, 87 / 9., 76 / 9., 123 / 9., 88 / 9.})});
  // ceil_mode: the last windows reach beyond the padding, which counts, by taps that do not.
  attributes = {{"kernel_shape", Ints{3}},
                {"strides", Ints{2}},
                {"pads", Ints{0, 1}},
                {"ceil_mode", std::int64_t{1}},
                {"count_include_pad", std::int64_t{1}}};
  expect_op(node_of("AveragePool", attributes), {ramp({1, 1, 5})}, {floats({1, 1, 3}, {2, 4, 2.5})});
  // Dilated windows, all of them computed.
  expect_op(node_of("AveragePool", {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}}), {ramp({1, 1, 4, 4})},
            {floats({1, 1, 2, 2}, {6, 7, 10, 11})});
  expect_op(
      node_of("AveragePool", {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}),
      {ramp({1, 1, 2, 2})}, {floats({1, 1, 2, 2}, {4, 3, 2, 1})});
  expect_op(node_of("AveragePool", {{"kernel_shape", Ints{2}}, {"auto_pad", "SAME_LOWER"}}),
            {tensor(DataType::f16, {1, 1, 3}, {2, 4, 8})}, {tensor(DataType::f16, {1, 1, 3}, {2, 3, 6})});
  // A window larger than the map with its padding: what is beyond counts before opset 19, and then no more.
  attributes = {{"kernel_shape", Ints{7}}, {"strides", Ints{3}}, {"pads", Ints{1, 1}}};
  const HostTensor ones = floats({1, 1, 4}, {1, 1, 1, 1});
  expect_op(node_of("AveragePool", attributes, 18), {ones}, {floats({1, 1, 1}, {1})});
  attributes["count_include_pad"] = std::int64_t{1};
  expect_op(node_of("AveragePool", attributes, 18), {ones}, {floats({1, 1, 1}, {4 / 7.})});
  expect_op(node_of("AveragePool", attributes, 19), {ones}, {floats({1, 1, 1}, {4 / 6.})});
}

TEST(LpPool, Norms) {
  const HostTensor x = floats({1, 1, 2, 2}, {3, -4, 6, 8});
  expect_op(node_of("LpPool", {{"kernel_shape", Ints{1, 2}}}), {x}, {floats({1, 1, 2, 1}, {5, 10})});
  expect_op(node_of("LpPool", {{"kernel_shape", Ints{1, 2}}, {"p", std::int64_t{1}}}), {x},
            {floats({1, 1, 2, 1}, {7, 14})});
  expect_refused(node_of("LpPool", {{"kernel_shape", Ints{1, 2}}, {"p", std::int64_t{0}}}), {x}, "p=0");
}

// Windows of volumes, whose depths are joined before their rows are, against the definition.
TEST(Pooling, Volumes) {
  const Dims dims{1, 2, 5, 19, 7};
  std::vector<double> values(2 * 5 * 19 * 7);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 1009);
  struct Case {
    Ints kernel, stride, dilation, pads;
  };
  for (const Case& c :
       {Case{{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, Case{{2, 3, 2}, {2, 2, 2}, {1, 1, 1}, {0, 1, 0}},
        Case{{3, 3, 2}, {1, 1, 1}, {2, 2, 3}, {2, 3, 1}}, Case{{1, 4, 3}, {1, 3, 2}, {1, 2, 1}, {0, 2, 1}}}) {
    Dims out{1, 2};
    for (int d = 0; d < 3; ++d) {
      out.push_back((dims[2 + d] + 2 * c.pads[d] - (c.kernel[d] - 1) * c.dilation[d] - 1) / c.stride[d] + 1);
    }
    std::vector<double> largest, means;
    for (std::int64_t o = 0; o < 2 * out[2] * out[3] * out[4]; ++o) {
      const std::int64_t at[] = {o / (out[3] * out[4]) % out[2], o / out[4] % out[3], o % out[4]};
      double top = -INFINITY, sum = 0, inside = 0;
      for (std::int64_t k = 0; k < c.kernel[0] * c.kernel[1] * c.kernel[2]; ++k) {
        const std::int64_t tap[] = {k / (c.kernel[1] * c.kernel[2]), k / c.kernel[2] % c.kernel[1], k % c.kernel[2]};
        std::int64_t from = o / (out[2] * out[3] * out[4]);
        bool there = true;
        for (int d = 0; d < 3; ++d) {
          const std::int64_t i = at[d] * c.stride[d] + tap[d] * c.dilation[d] - c.pads[d];
          there = there && i >= 0 && i < dims[2 + d];
          from = from * dims[2 + d] + i;
        }
        if (!there) continue;
        top = std::max(top, values[static_cast<std::size_t>(from)]);
        sum += values[static_cast<std::size_t>(from)];
        ++inside;
      }
      largest.push_back(top);
      means.push_back(sum / inside);
    }
    Ints pads = c.pads;
    pads.insert(pads.end(), c.pads.begin(), c.pads.end());
    const std::map<std::string, Attribute> attributes{
        {"kernel_shape", c.kernel}, {"strides", c.stride}, {"dilations", c.dilation}, {"pads", pads}};
    expect_op(node_of("MaxPool", attributes), {floats(dims, values)}, {floats(out, largest)});
    expect_op(node_of("MaxPool", attributes, 22), {tensor(DataType::f16, dims, values)},
              {tensor(DataType::f16, out, largest)});
    expect_op(node_of("AveragePool", attributes, 19), {floats(dims, values)}, {floats(out, means)}, 1e-6);
  }
}

// A case of every kind of window, large enough for several chunks and threads, against the definition.
struct Windows {
  Ints kernel, stride, dilation, pads;
  bool ceil_mode;
};

std::map<std::string, Attribute> attributes_of(const Windows& c) {
  return {{"kernel_shape", c.kernel},
          {"strides", c.stride},
          {"dilations", c.dilation},
          {"pads", c.pads},
          {"ceil_mode", std::int64_t{c.ceil_mode}}};
}

struct Pooled {
  Dims dims;
  std::vector<double> largest, mean, mean_padded;
};

// Of values in nchw, as the operators are defined.
Pooled pooled(const Windows& c, const Dims& dims, const std::vector<double>& values) {
  Pooled result{{dims[0], dims[1]}, {}, {}, {}};
  for (int d = 0; d < 2; ++d) {
    const std::int64_t padded = dims[2 + d] + c.pads[d] + c.pads[2 + d] - (c.kernel[d] - 1) * c.dilation[d] - 1;
    std::int64_t size = padded / c.stride[d] + 1;
    if (c.ceil_mode && padded % c.stride[d] != 0 && size * c.stride[d] < dims[2 + d] + c.pads[d]) ++size;
    result.dims.push_back(size);
  }
  for (std::int64_t image = 0; image < dims[0] * dims[1]; ++image) {
    for (std::int64_t oh = 0; oh < result.dims[2]; ++oh) {
      for (std::int64_t ow = 0; ow < result.dims[3]; ++ow) {
        double top = -INFINITY, sum = 0, inside = 0, padded = 0;
        for (std::int64_t kh = 0; kh < c.kernel[0]; ++kh) {
          for (std::int64_t kw = 0; kw < c.kernel[1]; ++kw) {
            const std::int64_t h = oh * c.stride[0] + kh * c.dilation[0] - c.pads[0];
            const std::int64_t w = ow * c.stride[1] + kw * c.dilation[1] - c.pads[1];
            padded += h < dims[2] + c.pads[2] && w < dims[3] + c.pads[3] ? 1 : 0;
            if (h < 0 || w < 0 || h >= dims[2] || w >= dims[3]) continue;
            const double value = values[(image * dims[2] + h) * dims[3] + w];
            top = std::max(top, value);
            sum += value;
            inside += 1;
          }
        }
        result.largest.push_back(top);
        result.mean.push_back(sum / std::max(inside, 1.0));
        result.mean_padded.push_back(sum / padded);
      }
    }
  }
  return result;
}

const Windows kWindows[] = {{{3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, false},
                            {{2, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
                            {{3, 2}, {2, 3}, {2, 1}, {1, 0, 2, 1}, true},
                            {{2, 2}, {3, 4}, {1, 5}, {0, 1, 1, 0}, false}};

// Rows that fit into a vector or two of AVX2 or of AVX-512, just so or all but.
TEST(MaxPool, NarrowRowsInEveryType) {
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16}) {
    for (const std::int64_t width : {6, 8, 9, 15, 16, 17, 28, 31, 32, 33, 64}) {
      const Dims dims{2, 3, 7, width};
      std::vector<double> values(static_cast<std::size_t>(2 * 3 * 7 * width));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = -1 - static_cast<double>(i * 2654435761U % 97);
      for (const Windows& c : kWindows) {
        SCOPED_TRACE(fmt::format("{} wide, {}, stride {}", width, name_of(type), c.stride[1]));
        const Pooled expected = pooled(c, dims, values);
        expect_op(node_of("MaxPool", attributes_of(c)), {tensor(type, dims, values)},
                  {tensor(type, expected.dims, expected.largest)});
      }
    }
  }
}

TEST(Pooling, MatchesTheDefinition) {
  const Dims dims{1, 66, 9, 140};
  const std::vector<double> values = spread(66 * 9 * 140, -2, 2);
  for (const Windows& c : kWindows) {
    std::map<std::string, Attribute> attributes = attributes_of(c);
    const Pooled expected = pooled(c, dims, values);
    expect_op(node_of("MaxPool", attributes), {floats(dims, values)}, {floats(expected.dims, expected.largest)});
    expect_op(node_of("AveragePool", attributes), {floats(dims, values)}, {floats(expected.dims, expected.mean)}, 1e-6);
    attributes["count_include_pad"] = std::int64_t{1};
    expect_op(node_of("AveragePool", attributes), {floats(dims, values)}, {floats(expected.dims, expected.mean_padded)},
              1e-6);
  }
}

// Channels of a position that are less than a vector of the type, half of one, or one and a part.
TEST(Pooling, AnyNumberOfChannelsInEveryType) {
  const Windows windows{{3, 3}, {2, 2}, {1, 1}, {1, 1, 0, 0}, false};
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f16, DataType::u8, DataType::s8}) {
    const bool bytes = size_of(type) == 1;
    for (const std::int64_t channels : {2, 3, 4, 7, 8, 12, 16, 24, 31, 32, 33, 48}) {
      SCOPED_TRACE(fmt::format("{} channels of {}", channels, name_of(type)));
      const Dims dims{1, channels, 6, channels == 3 ? 1501 : 15};  // longer than what is computed at a time
      std::vector<double> values(static_cast<std::size_t>(channels * 6 * dims[3]));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>(i * 2654435761U % 97) - (type == DataType::u8 ? 0 : 48);
      }
      const Pooled expected = pooled(windows, dims, values);
      expect_op(node_of("MaxPool", attributes_of(windows)), {tensor(type, dims, values)},
                {tensor(type, expected.dims, expected.largest)});
      if (bytes) continue;  // ONNX has no such average
      expect_op(node_of("AveragePool", attributes_of(windows)), {tensor(type, dims, values)},
                {tensor(type, expected.dims, expected.mean)}, 1e-6, 1e-2);
    }
  }
}

// Planes with rows of a few bytes, of which there are many: windows that reach beyond both edges, that overlap, and
// that leave elements out.
TEST(Pooling, SmallPlanesOfBytes) {
  for (const Windows& windows :
       {Windows{{1, 2}, {1, 2}, {1, 1}, {0, 0, 0, 0}, false}, Windows{{2, 6}, {1, 1}, {1, 1}, {1, 1, 0, 2}, false},
        Windows{{2, 2}, {3, 3}, {2, 1}, {0, 1, 1, 0}, false}}) {
    for (const DataType type : {DataType::u8, DataType::s8}) {
      for (const std::int64_t width : {2, 5, 9}) {
        const Dims dims{3, 37, 4, width};
        if (width + windows.pads[1] + windows.pads[3] < windows.kernel[1]) continue;
        SCOPED_TRACE(
            fmt::format("windows of {}x{}, rows of {} {}", windows.kernel[0], windows.kernel[1], width, name_of(type)));
        std::vector<double> values(static_cast<std::size_t>(3 * 37 * 4 * width));
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<double>(i * 2654435761U % 251) - (type == DataType::u8 ? 0 : 125);
        }
        const Pooled expected = pooled(windows, dims, values);
        expect_op(node_of("MaxPool", attributes_of(windows)), {tensor(type, dims, values)},
                  {tensor(type, expected.dims, expected.largest)});
      }
    }
  }
}

TEST(GlobalPool, AllKinds) {
  const HostTensor x = ramp({2, 3, 3, 7});
  std::vector<double> mean, largest, norm;
  for (int plane = 0; plane < 6; ++plane) {
    double squares = 0;
    for (int i = 1; i <= 21; ++i) squares += std::pow(plane * 21 + i, 2);
    mean.push_back(plane * 21 + 11);
    largest.push_back(plane * 21 + 21);
    norm.push_back(std::sqrt(squares));
  }
  expect_op(node_of("GlobalAveragePool"), {x}, {floats({2, 3, 1, 1}, mean)});
  expect_op(node_of("GlobalMaxPool"), {x}, {floats({2, 3, 1, 1}, largest)});
  expect_op(node_of("GlobalLpPool"), {x}, {floats({2, 3, 1, 1}, norm)});
  expect_op(node_of("GlobalLpPool", {{"p", std::int64_t{1}}}), {floats({1, 1, 3}, {1, -2, 3})},
            {floats({1, 1, 1}, {6})});
  // A NaN wins.
  const double nan = std::nan("");
  for (const std::int64_t size : {2, 30}) {
    std::vector<double> values = spread(3 * size * size, -1, 1);
    values[size * size] = nan, values[3 * size * size - 1] = nan;
    const double largest = *std::max_element(values.begin(), values.begin() + size * size);
    expect_op(node_of("GlobalMaxPool"), {floats({1, 3, size, size}, values)},
              {floats({1, 3, 1, 1}, {largest, nan, nan})});
  }
  const std::vector<double> wide = spread(70 * 900, -1, 1);
  std::vector<double> sums(70);
  for (int i = 0; i < 70 * 900; ++i) sums[i / 900] += wide[i] / 900;
  expect_op(node_of("GlobalAveragePool"), {floats({1, 70, 30, 30}, wide)}, {floats({1, 70, 1, 1}, sums)}, 1e-6);
  expect_refused(node_of("GlobalAveragePool"), {floats({1, 2, 0}, {})}, "nothing to pool");
  expect_refused(node_of("GlobalMaxPool"), {floats({3}, {1, 2, 3})}, "rank 2 or more");
}

TEST(MaxUnpool, PlacesValues) {
  const HostTensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const HostTensor at = longs({1, 1, 2, 2}, {5, 7, 13, 15});
  const auto node = node_of("MaxUnpool", {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  expect_op(node, {x, at}, {floats({1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4})});
  // ONNX's own example counts in 4x4 where output_shape is 5x5: in 5x5 the third index is not in its window.
  expect_op(node, {x, at, longs({4}, {1, 1, 5, 5})},
            {floats({1, 1, 5, 5}, {0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0})});
  expect_refused(node, {x, longs({1, 1, 2, 2}, {5, 7, 13, 16})}, "input 1 (indices) has 16 at 3");
  expect_refused(node, {x, longs({1, 1, 2, 2}, {5, -1, 13, 15})}, "input 1 (indices) has -1 at 1");
  expect_refused(node, {x, longs({1, 1, 2, 2}, {5, 7, 13, 25}), longs({4}, {1, 1, 5, 5})}, "outside [0, 25)");
  expect_refused(node, {x, at, longs({4}, {1, 1, 2, 5})}, "input 2 (output_shape)");
  expect_refused(node, {x, at, longs({4}, {1, 2, 4, 4})}, "input 2 (output_shape)");
}

// Indices are those that MaxPool gives of a tensor of the dims, in one, two and three dims; some are less than the
// windows cover (ceil_mode), some more.
TEST(MaxUnpool, PutsValuesBackWhereMaxPoolTookThem) {
  struct Case {
    Dims dims, kernel, strides, pads;
    std::int64_t ceil_mode;
  };
  for (const Case& each :
       {Case{{1, 1, 6, 7}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0}, Case{{2, 3, 7, 6}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0},
        Case{{2, 2, 7, 5}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 1}, Case{{1, 2, 8, 9}, {3, 3}, {3, 2}, {1, 1, 1, 1}, 0},
        Case{{2, 3, 11}, {3}, {4}, {0, 0}, 0}, Case{{2, 2, 5, 4, 5}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}, 0},
        Case{{0, 2, 5, 5}, {2, 2}, {2, 2}, {0, 0, 0, 0}, 0}}) {
    SCOPED_TRACE(to_string(each.dims));
    std::map<std::string, Attribute> attributes{
        {"kernel_shape", each.kernel}, {"strides", each.strides}, {"pads", each.pads}};
    const std::int64_t count = TensorDesc::packed(DataType::f32, each.dims).elements();
    const std::vector<double> values = spread(count, 1, 2);
    const HostTensor x = floats(each.dims, values);
    const NodeDesc unpool = node_of("MaxUnpool", attributes);
    attributes["ceil_mode"] = each.ceil_mode;
    const auto run = run_op(node_of("MaxPool", attributes, 12, 2), {x});
    ASSERT_TRUE(run.ok()) << run.error().message;
    const std::vector<HostTensor>& pooled = *run;
    std::vector<double> expected(values.size(), 0);
    for (std::int64_t i = 0; i < pooled[1].desc.elements(); ++i) {
      const auto at = static_cast<std::size_t>(pooled[1].at(i));
      expected[at] = values[at];
    }
    std::vector<double> shape(each.dims.begin(), each.dims.end());
    expect_op(unpool, {pooled[0], pooled[1], longs({static_cast<std::int64_t>(shape.size())}, shape)},
              {floats(each.dims, expected)});
  }
}

}  // namespace
}  // namespace convoy::ops
