// DFT, STFT and what audio networks weigh with, against their definitions in f64.
#include <complex>
#include <numbers>

#include "ops/signal/fft.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Values = std::vector<std::complex<double>>;

Values definition(const Values& x, bool inverse = false) {
  const auto size = static_cast<std::int64_t>(x.size());
  Values y;
  for (std::int64_t k = 0; k < size; ++k) {
    std::complex<double> sum = 0;
    for (std::int64_t n = 0; n < size; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % size) / static_cast<double>(size);
      sum += x[n] * std::polar(1.0, inverse ? angle : -angle);
    }
    y.push_back(inverse ? sum / static_cast<double>(size) : sum);
  }
  return y;
}

std::vector<double> parts(const Values& values) {
  std::vector<double> all;
  for (const auto& value : values) all.insert(all.end(), {value.real(), value.imag()});
  return all;
}

TEST(Fft, LengthsOfAllKindsOfPrimes) {
  std::vector<std::int64_t> sizes{64, 97, 100, 101, 121, 128, 143, 169, 200, 210, 243, 257, 320, 400, 512, 625, 1009};
  for (std::int64_t size = 1; size <= 40; ++size) sizes.push_back(size);
  for (const std::int64_t size : sizes) {
    const std::int64_t count = size * Fft::kLanes;
    std::vector<double> re = spread(count, -1, 1), im = spread(count + 1, -1, 1);
    im.pop_back();
    const std::vector<double> re_before = re, im_before = im;
    const Fft fft(size);
    std::vector<double> scratch(static_cast<std::size_t>(fft.scratch()), NAN);
    fft.transform(re.data(), im.data(), scratch.data());
    for (std::int64_t l = 0; l < Fft::kLanes; ++l) {
      Values x;
      for (std::int64_t n = 0; n < size; ++n)
        x.emplace_back(re_before[n * Fft::kLanes + l], im_before[n * Fft::kLanes + l]);
      const Values expected = definition(x);
      for (std::int64_t k = 0; k < size; ++k) {
        ASSERT_NEAR(re[k * Fft::kLanes + l], expected[k].real(), 1e-11) << size << " lane " << l << " bin " << k;
        ASSERT_NEAR(im[k * Fft::kLanes + l], expected[k].imag(), 1e-11) << size << " lane " << l << " bin " << k;
      }
    }
  }
}

// Signals along the middle axis of [2, size, 3].
Values signal(const std::vector<double>& x, std::int64_t size, std::int64_t block, std::int64_t at,
              std::int64_t width) {
  Values values;
  for (std::int64_t n = 0; n < size; ++n) {
    const std::int64_t place = ((block * size + n) * 3 + at) * width;
    values.emplace_back(x[place], width == 2 ? x[place + 1] : 0);
  }
  return values;
}

// The DFT of [2, given, 3, width] with so many bins of `length` elements, by definition.
std::vector<double> dft_of(const std::vector<double>& x, std::int64_t given, std::int64_t length, std::int64_t bins,
                           std::int64_t width, bool inverse) {
  std::vector<double> y(static_cast<std::size_t>(2 * bins * 3 * 2));
  for (std::int64_t block = 0; block < 2; ++block) {
    for (std::int64_t at = 0; at < 3; ++at) {
      Values values = signal(x, given, block, at, width);
      values.resize(static_cast<std::size_t>(length));
      const Values result = definition(values, inverse);
      for (std::int64_t k = 0; k < bins; ++k) {
        y[((block * bins + k) * 3 + at) * 2] = result[k].real();
        y[((block * bins + k) * 3 + at) * 2 + 1] = result[k].imag();
      }
    }
  }
  return y;
}

TEST(Dft, RealAndComplexShorterAndLonger) {
  for (const std::int64_t width : {1, 2}) {
    for (const std::int64_t length : {6, 10, 17, 23}) {
      for (const bool inverse : {false, true}) {
        const std::int64_t given = 10;
        const std::vector<double> x = spread(2 * given * 3 * width, -1, 1);
        std::map<std::string, Attribute> attributes{{"inverse", std::int64_t{inverse}}};
        expect_op(node_of("DFT", attributes, 20),
                  {floats({2, given, 3, width}, x), longs({}, {static_cast<double>(length)}), longs({}, {1})},
                  {floats({2, length, 3, 2}, dft_of(x, given, length, length, width, inverse))}, 2e-6);
        attributes["axis"] = std::int64_t{-3};
        expect_op(node_of("DFT", attributes, 17),
                  {floats({2, given, 3, width}, x), longs({}, {static_cast<double>(length)})},
                  {floats({2, length, 3, 2}, dft_of(x, given, length, length, width, inverse))}, 2e-6);
        if (inverse || width == 2) continue;
        attributes["onesided"] = std::int64_t{1};
        const std::int64_t bins = length / 2 + 1;
        expect_op(node_of("DFT", attributes, 17),
                  {floats({2, given, 3, width}, x), longs({}, {static_cast<double>(length)})},
                  {floats({2, bins, 3, 2}, dft_of(x, given, length, bins, width, false))}, 2e-6);
      }
    }
  }
}

// Half a spectrum and back, of even and odd lengths.
TEST(Dft, RealSignalsComeBack) {
  for (const std::int64_t length : {8, 9, 22}) {
    const HostTensor x = floats({3, length, 1}, spread(3 * length, -1, 1));
    const std::map<std::string, Attribute> forth{{"onesided", std::int64_t{1}}};
    const auto spectrum = run_op(node_of("DFT", forth, 20), {x});
    ASSERT_TRUE(spectrum.ok()) << spectrum.error().message;
    const std::map<std::string, Attribute> back{{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}};
    expect_op(node_of("DFT", back, 20), {(*spectrum)[0], longs({}, {static_cast<double>(length)})}, {x}, 1e-6);
    if (length % 2 == 0) expect_op(node_of("DFT", back, 20), {(*spectrum)[0]}, {x}, 1e-6);
  }
}

TEST(Dft, OtherTypes) {
  const std::vector<double> x{1, 2, 3, 4};
  const std::vector<double> y = parts(definition({1, 2, 3, 4}));
  for (const DataType type : {DataType::f64, DataType::f16, DataType::bf16}) {
    expect_op(node_of("DFT", {}, 20), {tensor(type, {1, 4, 1}, x)}, {tensor(type, {1, 4, 2}, y)}, 1e-6, 1e-2);
  }
}

TEST(Dft, Refusals) {
  const HostTensor x = floats({1, 4, 1}, {1, 2, 3, 4}), c = floats({1, 2, 2}, {1, 2, 3, 4});
  const std::map<std::string, Attribute> onesided{{"onesided", std::int64_t{1}}};
  expect_refused(node_of("DFT", {}, 20), {floats({4}, {1, 2, 3, 4})}, "the last must be 1 (real) or 2 (complex)");
  expect_refused(node_of("DFT", {}, 20), {x, absent(), longs({}, {2})}, "axis=2");
  expect_refused(node_of("DFT", {{"axis", std::int64_t{-1}}}, 17), {x}, "axis=-1");
  expect_refused(node_of("DFT", {}, 20), {x, longs({}, {0})}, "dft_length=0");
  expect_refused(node_of("DFT", onesided, 20), {c}, "onesided=1, inverse=0 needs real input");
  expect_refused(node_of("DFT", {{"inverse", std::int64_t{2}}}, 20), {c}, "inverse=2");
  expect_refused(node_of("STFT"), {x, longs({}, {0})}, "frame_step=0");
  expect_refused(node_of("STFT"), {x, longs({}, {1}), floats({2}, {1, 1}), longs({}, {3})}, "frame_length=3");
  expect_refused(node_of("STFT"), {c, longs({}, {1})}, "onesided=1 needs real input");
}

TEST(Stft, FramesUnderAWindow) {
  constexpr std::int64_t kLength = 37, kFrame = 10, kStep = 4, kFrames = (kLength - kFrame) / kStep + 1;
  const std::vector<double> window = spread(kFrame, 0.2, 1);
  for (const std::int64_t width : {1, 2}) {
    for (const std::int64_t onesided : {1, 0}) {
      if (onesided == 1 && width == 2) continue;
      const std::int64_t bins = onesided == 1 ? kFrame / 2 + 1 : kFrame;
      const std::vector<double> x = spread(3 * kLength * width, -1, 1);
      Values expected, plain;
      for (std::int64_t n = 0; n < 3; ++n) {
        for (std::int64_t frame = 0; frame < kFrames; ++frame) {
          Values weighed, bare;
          for (std::int64_t i = 0; i < kFrame; ++i) {
            const std::int64_t at = (n * kLength + frame * kStep + i) * width;
            bare.emplace_back(x[at], width == 2 ? x[at + 1] : 0);
            weighed.push_back(bare.back() * window[i]);
          }
          const Values y = definition(weighed), z = definition(bare);
          expected.insert(expected.end(), y.begin(), y.begin() + bins);
          plain.insert(plain.end(), z.begin(), z.begin() + bins);
        }
      }
      const NodeDesc node = node_of("STFT", {{"onesided", onesided}}, 17);
      const HostTensor signals = floats({3, kLength, width}, x), step = longs({}, {kStep});
      expect_op(node, {signals, step, floats({kFrame}, window)}, {floats({3, kFrames, bins, 2}, parts(expected))},
                2e-6);
      expect_op(node, {signals, step, absent(), longs({}, {kFrame})}, {floats({3, kFrames, bins, 2}, parts(plain))},
                2e-6);
    }
  }
  expect_op(node_of("STFT", {}, 17), {floats({1, 3, 1}, {1, 2, 3}), longs({}, {1}), absent(), longs({}, {5})},
            {floats({1, 0, 3, 2}, {})});
  // Without a last dim, as PyTorch's exporter by TorchScript writes it.
  expect_op(node_of("STFT", {}, 17), {floats({2, 3}, {1, 2, 4, 5, 3, 3}), longs({}, {1}), absent(), longs({}, {2})},
            {floats({2, 2, 2, 2}, {3, 0, -1, 0, 6, 0, -2, 0, 8, 0, 2, 0, 6, 0, 0, 0})}, 1e-6);
  expect_refused(node_of("STFT", {}, 17), {floats({3}, {1, 2, 3}), longs({}, {1})}, "[N, length, 1 or 2]");
}

TEST(Window, PeriodicAndSymmetric) {
  const HostTensor size = longs({}, {4});
  const std::map<std::string, Attribute> symmetric{{"periodic", std::int64_t{0}}};
  expect_op(node_of("HannWindow"), {size}, {floats({4}, {0, 0.5, 1, 0.5})});
  expect_op(node_of("HannWindow", symmetric), {size}, {floats({4}, {0, 0.75, 0.75, 0})});
  expect_op(node_of("HammingWindow"), {size}, {floats({4}, {4.0 / 46, 25.0 / 46, 1, 25.0 / 46})});
  expect_op(node_of("BlackmanWindow"), {size}, {floats({4}, {0, 0.34, 1, 0.34})});
  expect_op(node_of("HannWindow", {{"output_datatype", std::int64_t{11}}}), {longs({1}, {2})},
            {tensor(DataType::f64, {2}, {0, 1})});
  expect_op(node_of("HannWindow", symmetric), {longs({}, {1})}, {floats({1}, {0})});
  expect_op(node_of("HannWindow"), {longs({}, {0})}, {floats({0}, {})});
  expect_refused(node_of("HannWindow"), {longs({}, {-1})}, "size");
  expect_refused(node_of("HannWindow", {{"output_datatype", std::int64_t{9}}}), {size}, "output_datatype=9");
}

// ONNX's own example.
TEST(Mel, Triangles) {
  const auto inputs = [](double bands, double length, double rate, double low, double high) {
    return std::vector<HostTensor>{longs({}, {bands}), longs({}, {length}), longs({}, {rate}), floats({}, {low}),
                                   floats({}, {high})};
  };
  expect_op(node_of("MelWeightMatrix"), inputs(8, 16, 8192, 0, 4096),
            {floats({9, 8}, {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
                             0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1,
                             0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
            1e-6);
  expect_refused(node_of("MelWeightMatrix"), inputs(8, 16, 8192, 0, 9000), "upper_edge_hertz=9000");
  expect_refused(node_of("MelWeightMatrix"), inputs(0, 16, 8192, 0, 4096), "num_mel_bins=0");
}

}  // namespace
}  // namespace convoy::ops
