// The wrappers of kernels/ptx.cuh: their kernels (ptx_test.cu) compile for every architecture that has them, and on a
// GPU give what a plain computation on the host gives. Without a GPU those tests say so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "base/environment.h"
#include "convoy/data_type.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/module.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/stream.h"
#include "device/cuda/tensor_map.h"
#include "engines/cuda/compiler/compiler.h"
#include "engines/cuda/compiler/kernel_sources.h"

namespace convoy::cuda {

std::span<const KernelSource> test_sources();  // ptx_test.cu

namespace {

struct WgmmaType {
  const char* name;  // in the kernels
  DataType type;     // f32 for tf32
  int bytes;
};
constexpr WgmmaType kWgmmaTypes[] = {{"f16", DataType::f16, 2},
                                     {"bf16", DataType::bf16, 2},
                                     {"tf32", DataType::f32, 4},
                                     {"f8_e4m3", DataType::f8_e4m3, 1}};

// The kernels, or with a type those of wgmma.
Result<Compilation> compiled(int architecture, const WgmmaType* wgmma) {
  std::string constants = "#pragma once\n";
  if (wgmma != nullptr) {
    constants += fmt::format("struct {0};\n#define WGMMA_TYPE {0}\nconstexpr int WGMMA_SIZE = {1};\n", wgmma->name,
                             wgmma->bytes);
  }
  return compile_text(test_sources()[0].text, {"ptx_test.cu", constants, architecture}, true);
}

TEST(Ptx, CompilesWhereItIs) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const auto check = [&](int architecture, const WgmmaType* wgmma) {
    const auto made = compiled(architecture, wgmma);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto has = [&](const std::string& kernel) { return made->log.find("'" + kernel + "'") != std::string::npos; };
    EXPECT_TRUE(has("mma_tf32"));
    EXPECT_EQ(has("im2col_5d"), architecture >= 90);
    EXPECT_EQ(has("registers"), architecture == 90);
    EXPECT_EQ(has("wgmma_n256"), wgmma != nullptr);
    // The assembler's words where it can't overlap wgmma, or takes no notice of setmaxnreg; and spills.
    EXPECT_EQ(made->log.find("C7510"), std::string::npos) << made->log;
    EXPECT_EQ(made->log.find("setmaxnreg"), std::string::npos) << made->log;
    for (std::size_t at = 0; (at = made->log.find(" bytes spill stores", at)) != std::string::npos; ++at) {
      EXPECT_EQ(made->log.substr(at - 2, 2), " 0") << made->log;
    }
  };
  std::vector<std::thread> threads;
  const bool full = environment(Variable::test_full).has_value();
  for (const WgmmaType& type : kWgmmaTypes) {
    if (full || type.bytes == 1) threads.emplace_back(check, 90, &type);
  }
  for (const int architecture : {80, 90, 100}) threads.emplace_back(check, architecture, nullptr);
  for (std::thread& thread : threads) thread.join();
}

class PtxOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto count = device_count(); !count.ok()) GTEST_SKIP() << "skipped: " << count.error().message;
    if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
    const auto found = describe(0);
    ASSERT_TRUE(found.ok()) << found.error().message;
    architecture_ = found->architecture;
    ASSERT_TRUE(make_current(0).ok());
    static const auto kernels = compiled(architecture_, nullptr);
    load(kernels);
  }
  void load(const Result<Compilation>& kernels) {
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    auto module = Module::load(0, kernels->image, "ptx_test");
    ASSERT_TRUE(module.ok()) << module.error().message;
    modules_.push_back(std::make_unique<Module>(std::move(*module)));
  }

  // Runs a kernel of the module loaded last and waits for it.
  void run(const std::string& name, const Launch& shape, std::vector<void*> arguments) {
    const auto kernel = modules_.back()->kernel(name, shape.dynamic_shared_bytes);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto launched = launch(*kernel, shape, arguments, nullptr);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    const auto done = synchronize(0);
    ASSERT_TRUE(done.ok()) << name << ": " << done.error().message;
  }

  // A copy on the device of values, or of `count` bytes 0xFF; it lives as long as the test.
  template <class T>
  void* put(const std::vector<T>& values) {
    return put_bytes(values.data(), values.size() * sizeof(T));
  }
  void* room(std::size_t bytes) { return put_bytes(nullptr, bytes); }
  void* put_bytes(const void* values, std::size_t bytes) {
    auto memory = DeviceMemory::allocate(0, bytes, "ptx_test");
    EXPECT_TRUE(memory.ok()) << memory.error().message;
    EXPECT_TRUE(fill_bytes(memory->data(), 0xFF, bytes, nullptr).ok());
    if (values != nullptr) {
      EXPECT_TRUE(copy_to_device(memory->data(), values, bytes, nullptr).ok());
    }
    memory_.push_back(std::move(*memory));
    return memory_.back().data();
  }
  template <class T>
  std::vector<T> fetch(const void* from, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(copy_to_host(values.data(), from, count * sizeof(T), nullptr).ok());
    EXPECT_TRUE(synchronize(0).ok());
    return values;
  }

  int architecture_ = 0;

 private:
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<DeviceMemory> memory_;
};

// What starts at sm_90.
class HopperPtxOnGpu : public PtxOnGpu {
 protected:
  void SetUp() override {
    PtxOnGpu::SetUp();
    if (!IsSkipped() && architecture_ < 90) GTEST_SKIP() << "skipped: an sm_" << architecture_ << " has none of it";
  }
};

template <class T>
std::vector<T> counted(std::size_t count, unsigned first = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(first + i);
  return values;
}

TEST_F(PtxOnGpu, LoadsAndStores) {
  const auto in = counted<unsigned short>(256, 7);
  void *from = put(in), *to = room(96 * 16 + 1024);
  run("accesses", {.block = {.x = 32}}, {&from, &to});
  const auto out = fetch<unsigned short>(to, 256 * 3 + 512);
  for (int way = 0; way < 3; ++way) {
    EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin() + 256 * way)) << way;
  }
  const auto words = fetch<unsigned>(static_cast<std::byte*>(to) + 96 * 16, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(words[i], in[i]);
}

TEST_F(PtxOnGpu, PowersAndReciprocals) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> in = {-kInf, kInf, 0.0f, -126.5f};
  for (int i = -62; i < 62; ++i) in.push_back(static_cast<float>(i) * 1.37f);
  void *from = put(in), *to = room(2 * in.size() * sizeof(float));
  run("powers_and_reciprocals", {.block = {.x = static_cast<unsigned>(in.size())}}, {&from, &to});
  const auto out = fetch<float>(to, 2 * in.size());
  for (std::size_t i = 4; i < in.size(); ++i) {
    if (in[i] == 0) continue;
    EXPECT_NEAR(out[i] / std::exp2(in[i]), 1, 1e-6) << in[i];
    EXPECT_NEAR(out[in.size() + i] * in[i], 1, 1e-6) << in[i];
  }
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], kInf);
  EXPECT_EQ(out[3], 0);  // subnormal
  EXPECT_EQ(out[in.size()], 0);
  EXPECT_EQ(out[in.size() + 2], kInf);
}

TEST_F(PtxOnGpu, CopiesFillWithZeros) {
  const auto in = counted<unsigned char>(32 * 28, 1);
  void *from = put(in), *to = room(in.size());
  run("copies", {.block = {.x = 32}}, {&from, &to});
  auto expected = in;
  int at = 0;
  for (const int size : {16, 8, 4}) {
    for (int thread = 0; thread < 32; ++thread, at += size) {
      std::fill(expected.begin() + at + thread % (size + 1), expected.begin() + at + size, 0);
    }
  }
  EXPECT_EQ(fetch<unsigned char>(to, in.size()), expected);
}

// Integers from -4 to 4: every sum is exact in f32.
std::vector<int> small_integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(random() % 9) - 4;
  return values;
}

std::vector<std::byte> as_elements(DataType type, const std::vector<int>& values) {
  std::vector<std::byte> elements(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(type, elements.data(), static_cast<std::int64_t>(i), values[i]);
  }
  return elements;
}

// m x n of a (m x k, row by row) times b (k x n, row by row), plus `more`.
std::vector<float> product(const std::vector<int>& a, const std::vector<int>& b, int m, int n, int k, float more) {
  std::vector<float> d(static_cast<std::size_t>(m * n), more);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) d[i * n + j] += static_cast<float>(a[i * k + p] * b[p * n + j]);
    }
  }
  return d;
}

TEST_F(PtxOnGpu, TensorCoresOfAWarp) {
  const auto check = [&](const char* kernel, DataType type, int k, int ways) {
    const auto a = small_integers(static_cast<std::size_t>(16 * k), 1),
               b = small_integers(static_cast<std::size_t>(k * 8), 2);
    void *pa = put(as_elements(type, a)), *pb = put(as_elements(type, b)), *pd = room(2 * 128 * sizeof(float));
    run(kernel, {.block = {.x = 32}}, {&pa, &pb, &pd});
    const auto d = fetch<float>(pd, 256), expected = product(a, b, 16, 8, k, 1);
    for (int way = 0; way < ways; ++way) {
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), d.begin() + 128 * way)) << kernel << " way " << way;
    }
  };
  check("mma_f16", DataType::f16, 16, 2);
  check("mma_bf16", DataType::bf16, 16, 2);
  check("mma_tf32", DataType::f32, 8, 1);
}

TEST_F(PtxOnGpu, RoundsToTf32) {
  std::mt19937 random(3);
  std::vector<float> a(128), b(64);
  for (float& value : a)
    value = std::bit_cast<float>(static_cast<unsigned>(0x3f000000u + random() % 0x1000000u)) * (random() % 2 ? 1 : -1);
  a[0] = std::bit_cast<float>(0x3f801000u);  // a tie
  a[1] = std::bit_cast<float>(0xbf801000u);
  void *pa = put(a), *pb = put(b), *pd = room(256 * sizeof(float));
  run("mma_tf32", {.block = {.x = 32}}, {&pa, &pb, &pd});
  const auto d = fetch<unsigned>(pd, 256);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(d[128 + i], (std::bit_cast<unsigned>(a[i]) + 0x1000u) & ~0x1fffu) << a[i];
  }
}

TEST_F(PtxOnGpu, LoadsMatrices) {
  const auto in = counted<unsigned short>(256, 1000);
  void *from = put(in), *to = room(13 * 32 * sizeof(unsigned));
  run("ldmatrix_forms", {.block = {.x = 32}}, {&from, &to});
  const auto out = fetch<unsigned>(to, 13 * 32);
  const int matrices[13] = {0, 0, 1, 0, 1, 2, 3, 0, 1, 0, 1, 2, 3};
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 13; ++r) {
      const auto element = [&](int i) {
        const int row = r < 7 ? lane / 4 : lane % 4 * 2 + i, column = r < 7 ? lane % 4 * 2 + i : lane / 4;
        return static_cast<unsigned>(in[matrices[r] * 64 + row * 8 + column]);
      };
      EXPECT_EQ(out[lane * 13 + r], element(0) | element(1) << 16) << "lane " << lane << ", register " << r;
    }
  }
}

TEST_F(HopperPtxOnGpu, StoresMatrices) {
  const auto in = counted<unsigned short>(256, 1000);
  void *from = put(in), *to = room(512);
  run("stmatrix_form", {.block = {.x = 32}}, {&from, &to});
  EXPECT_EQ(fetch<unsigned short>(to, 256), in);
}

TEST_F(HopperPtxOnGpu, BarriersEndPhases) {
  void* to = room(256 * sizeof(int));
  run("phases", {.block = {.x = 64}}, {&to});
  const auto out = fetch<int>(to, 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(out[i], i / 64 * 1000 + (i + 1) % 64);
}

TEST_F(HopperPtxOnGpu, BulkCopies) {
  const auto in = counted<int>(1024, 5);
  void *from = put(in), *to = room(4096);
  run("bulk", {.block = {.x = 64}}, {&from, &to});
  EXPECT_EQ(fetch<int>(to, 1024), counted<int>(1024, 6));
}

struct Coordinates {
  int c[5];
  int bytes;
};

// A packed tensor of words, sizes innermost first, whose elements are 1, 2, ..: 0 is what lies outside.
struct Tensor {
  std::vector<std::uint64_t> sizes;
  std::vector<float> values;

  explicit Tensor(std::vector<std::uint64_t> of) : sizes(std::move(of)) {
    std::size_t count = 1;
    for (const std::uint64_t size : sizes) count *= size;
    values = counted<float>(count, 1);
  }
  std::vector<std::uint64_t> strides() const {  // in bytes, all but the first
    std::vector<std::uint64_t> result;
    std::uint64_t bytes = sizeof(float);
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) result.push_back(bytes *= sizes[i]);
    return result;
  }
  // -1: outside.
  std::ptrdiff_t index(const std::vector<int>& at) const {
    std::ptrdiff_t result = 0;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (at[i] < 0 || at[i] >= static_cast<int>(sizes[i])) return -1;
      result = result * static_cast<std::ptrdiff_t>(sizes[i]) + at[i];
    }
    return result;
  }
  float at(const std::vector<int>& coordinates) const {
    const std::ptrdiff_t i = index(coordinates);
    return i < 0 ? 0 : values[static_cast<std::size_t>(i)];
  }
};

// Calls visit(position, coordinates) for each position of a box, innermost first.
template <class Visit>
void for_each_in(const std::vector<int>& box, const Visit& visit) {
  std::vector<int> at(box.size());
  for (int position = 0;; ++position) {
    visit(position, at);
    std::size_t dim = 0;
    while (dim < box.size() && ++at[dim] == box[dim]) at[dim++] = 0;
    if (dim == box.size()) return;
  }
}

TensorMapSource source_of(const Tensor& tensor, const void* data) {
  return {.data = data, .sizes = tensor.sizes, .strides = tensor.strides()};
}

CUtensorMap tile_map(const Tensor& tensor, const void* data, const std::vector<int>& box) {
  const auto map = tiled_map(source_of(tensor, data), {box.begin(), box.end()});
  EXPECT_TRUE(map.ok()) << map.error().message;
  return map.ok() ? *map : CUtensorMap{};
}

Coordinates coordinates_of(const std::vector<int>& at, const std::vector<int>& box) {
  Coordinates made{};
  std::copy(at.begin(), at.end(), made.c);
  made.bytes = sizeof(float);
  for (const int size : box) made.bytes *= size;
  return made;
}

TEST_F(HopperPtxOnGpu, TilesWithTheirHalo) {
  const struct {
    const char* kernel;
    std::vector<std::uint64_t> sizes;
    std::vector<int> box, at;
  } cases[] = {{"tile_2d", {12, 7}, {8, 4}, {8, 5}},
               {"tile_3d", {12, 7, 3}, {8, 4, 2}, {8, -2, 2}},
               {"tile_4d", {12, 7, 3, 5}, {8, 3, 2, 4}, {8, 6, -1, -2}},
               {"tile_5d", {12, 3, 4, 2, 3}, {8, 2, 3, 2, 2}, {8, -1, 2, 1, -1}}};
  for (const auto& [kernel, sizes, box, at] : cases) {
    const Tensor tensor(sizes);
    CUtensorMap map = tile_map(tensor, put(tensor.values), box);
    Coordinates where = coordinates_of(at, box);
    void* to = room(static_cast<std::size_t>(where.bytes));
    run(kernel, {.block = {.x = 64}}, {&map, &where, &to});
    const auto out = fetch<float>(to, static_cast<std::size_t>(where.bytes) / sizeof(float));
    for_each_in(box, [&](int position, std::vector<int> place) {
      for (std::size_t i = 0; i < place.size(); ++i) place[i] += at[i];
      EXPECT_EQ(out[static_cast<std::size_t>(position)], tensor.at(place)) << kernel << " " << position;
    });
  }
}

// Box: `channels` of `pixels`, which run over the bounding box of base positions, through one tap of the filter.
TEST_F(HopperPtxOnGpu, Im2colOfOneToThreeDimensions) {
  constexpr int channels = 8, pixels = 24;
  const struct {
    const char* kernel;
    std::vector<std::uint64_t> sizes;  // C, spatial.., N
    std::vector<int> lower, upper;     // corners of the box of base positions, as the driver takes them
    std::vector<int> base;             // C, spatial.., N
    std::vector<unsigned short> tap;
    int stride;
  } cases[] = {{"im2col_3d", {16, 10, 4}, {-1}, {-1}, {8, -1, 1}, {2}, 1},
               {"im2col_4d", {16, 7, 6, 3}, {-1, -1}, {-1, -1}, {0, 2, 3, 0}, {2, 1}, 1},
               {"im2col_4d", {8, 9, 8, 4}, {-1, -1}, {-1, -1}, {0, 1, 1, 1}, {1, 2}, 2},
               {"im2col_5d", {8, 5, 4, 3, 2}, {-1, 0, -1}, {-1, -1, -1}, {0, -1, 1, 0, 0}, {1, 1, 2}, 1}};
  for (const auto& [kernel, sizes, lower, upper, base, tap, stride] : cases) {
    const Tensor tensor(sizes);
    const std::size_t spatial = lower.size();
    TensorMapSource source = source_of(tensor, put(tensor.values));
    source.steps.assign(spatial + 2, 1);
    std::fill(source.steps.begin() + 1, source.steps.end() - 1, static_cast<std::uint32_t>(stride));
    auto map = im2col_map(source, lower, upper, channels, pixels);
    ASSERT_TRUE(map.ok()) << map.error().message;
    Coordinates where = coordinates_of(base, {channels, pixels});
    std::array<unsigned short, 3> taps{};
    std::copy(tap.begin(), tap.end(), taps.begin());
    void* to = room(static_cast<std::size_t>(where.bytes));
    run(kernel, {.block = {.x = 64}}, {&*map, &where, &taps, &to});
    const auto out = fetch<float>(to, channels * pixels);
    std::vector<int> at = base;
    for (int pixel = 0; pixel < pixels; ++pixel) {
      for (int c = 0; c < channels; ++c) {
        std::vector<int> place = at;
        place[0] += c;
        for (std::size_t i = 0; i < spatial; ++i) place[1 + i] += tap[i];
        EXPECT_EQ(out[static_cast<std::size_t>(pixel * channels + c)], tensor.at(place))
            << kernel << " stride " << stride << " pixel " << pixel << " channel " << c;
      }
      // The next base position: along w, then h, .., then the next image.
      std::size_t dim = 1;
      for (; dim <= spatial; ++dim) {
        at[dim] += stride;
        if (at[dim] < static_cast<int>(sizes[dim]) + upper[dim - 1]) break;
        at[dim] = lower[dim - 1];
      }
      if (dim > spatial) ++at[dim];
    }
  }
}

TEST_F(HopperPtxOnGpu, ClustersShareALoad) {
  const Tensor tensor({16, 9});
  const std::vector<int> box{8, 4};
  CUtensorMap map = tile_map(tensor, put(tensor.values), box);
  Coordinates where = coordinates_of({4, 2}, box);
  void *to = room(2 * static_cast<std::size_t>(where.bytes)), *ranks = room(2 * sizeof(int));
  run("cluster_of_two", {.grid = {.x = 2}, .block = {.x = 32}, .cluster = {.x = 2}}, {&map, &where, &to, &ranks});
  const auto out = fetch<float>(to, 64);
  for_each_in(box, [&](int position, std::vector<int> place) {
    place[0] += 4, place[1] += 2;
    EXPECT_EQ(out[static_cast<std::size_t>(position)], tensor.at(place));
    EXPECT_EQ(out[static_cast<std::size_t>(32 + position)], tensor.at(place));
  });
  EXPECT_EQ(fetch<int>(ranks, 2), (std::vector<int>{1, 2}));
}

TEST_F(HopperPtxOnGpu, BlocksOfAClusterSendNumbers) {
  std::vector<float> values(128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5f;
  void *in = put(values), *to = room(values.size() * sizeof(float));
  run("cluster_of_two_sends", {.grid = {.x = 2}, .block = {.x = 32}, .cluster = {.x = 2}}, {&in, &to});
  std::rotate(values.begin(), values.begin() + 64, values.end());
  EXPECT_EQ(fetch<float>(to, values.size()), values);
}

// wgmma and setmaxnreg are sm_90's alone.
class Sm90PtxOnGpu : public PtxOnGpu {
 protected:
  void SetUp() override {
    PtxOnGpu::SetUp();
    if (!IsSkipped() && architecture_ != 90) GTEST_SKIP() << "skipped: an sm_" << architecture_ << " has none of it";
  }
};

TEST_F(Sm90PtxOnGpu, TensorCoresOfAWarpgroup) {
  std::vector<Result<Compilation>> made(std::size(kWgmmaTypes), Error{});
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < made.size(); ++i) {
    threads.emplace_back([&, i] { made[i] = compiled(architecture_, &kWgmmaTypes[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < made.size(); ++i) {
    const WgmmaType& type = kWgmmaTypes[i];
    load(made[i]);
    for (const int n : {8, 16, 32, 64, 96, 128, 192, 256}) {
      const int k = 128 / type.bytes;
      const auto transposed = [](const std::vector<int>& from, int rows, int columns) {
        std::vector<int> to(from.size());
        for (int r = 0; r < rows; ++r) {
          for (int c = 0; c < columns; ++c)
            to[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
        }
        return to;
      };
      const auto a = small_integers(static_cast<std::size_t>(64 * k), 1),
                 b = small_integers(static_cast<std::size_t>(k * n), 2);
      // b in pieces of 64 columns, each K x 64.
      std::vector<int> pieces;
      for (int piece = 0; piece < n / 64; ++piece) {
        for (int p = 0; p < k; ++p) {
          for (int j = 0; j < 64; ++j) pieces.push_back(b[static_cast<std::size_t>(p * n + piece * 64 + j)]);
        }
      }
      void *pa = put(as_elements(type.type, a)), *pb = put(as_elements(type.type, transposed(b, k, n)));
      void* pat = put(as_elements(type.type, transposed(a, 64, k)));
      void* pbt = put(pieces.empty() ? std::vector<std::byte>(1) : as_elements(type.type, pieces));
      const std::size_t one = static_cast<std::size_t>(64 * n);
      void* pd = room(5 * one * sizeof(float));
      run("wgmma_n" + std::to_string(n), {.block = {.x = 128}, .dynamic_shared_bytes = 1024 + (64 + n) * 128},
          {&pa, &pb, &pat, &pbt, &pd});
      const auto d = fetch<float>(pd, 5 * one), expected = product(a, b, 64, n, k, 0);
      for (std::size_t way = 0; way < (type.bytes == 2 && n % 64 == 0 ? 5 : 3); ++way) {
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), d.begin() + static_cast<std::ptrdiff_t>(way * one)))
            << type.name << " n=" << n << " way " << way;
      }
    }
  }
}

TEST_F(Sm90PtxOnGpu, RegistersChangeHands) {
  std::vector<float> in(308);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 13);
  void *from = put(in), *to = room(256 * sizeof(float));
  run("registers", {.block = {.x = 256}}, {&from, &to});
  const auto out = fetch<float>(to, 256);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(out[i], in[i]);
    float sum = 0;
    for (std::size_t k = 0; k < 180; ++k) sum += in[i + k] * in[i + (k * 7 + 1) % 180];
    EXPECT_EQ(out[128 + i], sum);
  }
}

}  // namespace
}  // namespace convoy::cuda
