// The kernels compile for every kind of conversion, without a GPU; on one, what they write is copy_tensor's, bit for
// bit. Without a GPU those tests say so. CONVOY_TEST_FULL=1: more of both, and tensors above 2^31 elements.
#include "engines/cuda/layout/layout.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/stream.h"
#include "engines/cuda/testing/described.h"
#include "engines/cuda/testing/host_kernel.h"
#include "engines/cuda/testing/on_a_gpu.h"
#include "engines/testing/conv_data.h"
#include "generate/testing/host_library.h"

namespace convoy::cuda {
namespace {

using convoy::testing::Fill;
using convoy::testing::Random;
using testing::device_of;
using testing::full;

LayoutDesign design_of(const TensorDesc& from, const TensorDesc& to) {
  const auto design = layout_design(from, to, device_of(90));
  EXPECT_TRUE(design.ok()) << design.error().message;
  return *design;
}

TensorDesc nchw(DataType type, Dims dims) { return TensorDesc::packed(type, std::move(dims)); }
TensorDesc nhwc(DataType type, Dims dims) { return TensorDesc::packed(type, std::move(dims), Layout::nhwc); }

TEST(LayoutDesign, MergesWhatIsWalkedTogetherAndTouchesBothSidesInVectors) {
  const LayoutDesign out = design_of(nchw(DataType::bf16, {64, 64, 56, 56}), nhwc(DataType::bf16, {64, 64, 56, 56}));
  EXPECT_TRUE(out.transposed);
  EXPECT_EQ(out.a.size, 64);
  EXPECT_EQ(out.b.size, 56 * 56);
  EXPECT_EQ(out.outer.size(), 1u);
  EXPECT_EQ(out.from_vector, 8);
  EXPECT_EQ(out.to_vector, 8);
  EXPECT_FALSE(out.from_dense);
  // Rows of 49 elements are aligned to nothing, but all rows of a tile are one run.
  const LayoutDesign small = design_of(nchw(DataType::bf16, {64, 512, 7, 7}), nhwc(DataType::bf16, {64, 512, 7, 7}));
  EXPECT_EQ(small.from_vector, 8);
  EXPECT_TRUE(small.from_dense);
  EXPECT_FALSE(small.to_dense);
  // Three channels: the target's pixels are one run.
  const LayoutDesign image = design_of(nchw(DataType::f32, {8, 3, 224, 224}), nhwc(DataType::f32, {8, 3, 224, 224}));
  EXPECT_EQ(image.tile_a, 3);
  EXPECT_GT(image.tile_b, 96);
  EXPECT_TRUE(image.to_dense);
  EXPECT_EQ(image.to_vector, 4);
  // One layout and another type: a copy.
  const LayoutDesign cast = design_of(nhwc(DataType::f32, {8, 3, 5, 8}), nhwc(DataType::f16, {8, 3, 5, 8}));
  EXPECT_FALSE(cast.transposed);
  EXPECT_EQ(cast.outer.size(), 0u);
  EXPECT_EQ(cast.from_vector, 4);
  // A misaligned pointer is read one by one.
  TensorDesc odd = nchw(DataType::bf16, {64, 64, 56, 56});
  odd.alignment = 2;
  EXPECT_EQ(design_of(odd, nhwc(DataType::bf16, {64, 64, 56, 56})).from_vector, 1);
}

TEST(LayoutDesign, SaysWhatItCant) {
  const auto reason = [](const TensorDesc& from, const TensorDesc& to) {
    const auto design = layout_design(from, to, device_of(90));
    EXPECT_FALSE(design.ok());
    return design.ok() ? "" : design.error().message;
  };
  EXPECT_EQ(reason(nchw(DataType::f32, {1, 2, 3}), nchw(DataType::f32, {1, 2, 4})),
            "from.dims=1x2x3 and to.dims=1x2x4 differ");
  EXPECT_EQ(reason(nchw(DataType::f32, {1, 8, 3, 3}), TensorDesc::packed(DataType::f32, {1, 8, 3, 3}, Layout::nchw8c)),
            "channels in blocks are not converted");
  EXPECT_EQ(reason(nchw(DataType::s16, {1, 2, 3}), nchw(DataType::f32, {1, 2, 3})),
            "there is no conversion from s16 to f32");
}

TEST(LayoutPrediction, CountsBytesBothWays) {
  const TensorDesc half = nchw(DataType::bf16, {64, 64, 56, 56}), single = nchw(DataType::f32, {64, 64, 56, 56});
  const CudaDevice device = device_of(90);
  const double narrow = predicted_layout_seconds(half, half.with_layout(Layout::nhwc), device);
  EXPECT_GT(narrow, 51.4e6 / 4.8e12);
  EXPECT_LT(narrow, 51.4e6 / 2e12);
  EXPECT_GT(predicted_layout_seconds(single, single.with_layout(Layout::nhwc), device), 1.5 * narrow);
}

struct Case {
  TensorDesc from, to;
};

std::string text_of(const Case& c) {
  const auto one = [](const TensorDesc& desc) {
    return std::string(name_of(desc.type)) + "," + to_string(desc.dims) + ",strides=" + to_string(desc.strides) +
           ",align=" + std::to_string(desc.alignment);
  };
  return one(c.from) + " -> " + one(c.to);
}

// Sizes around the tiles' and vectors', one for each rank and layout, views with gaps, pointers aligned to an element.
std::vector<Case> random_cases(std::int64_t count, std::uint64_t seed) {
  using enum DataType;
  const std::vector<std::pair<DataType, DataType>> types = {
      {f32, f32},      {f16, f16},     {bf16, bf16}, {u8, u8},           {s8, s8},    {f64, f64},
      {f32, bf16},     {bf16, f32},    {f32, f16},   {f16, f32},         {f16, bf16}, {u8, f32},
      {f32, u8},       {s8, bf16},     {f32, s8},    {f64, f32},         {s32, f32},  {f32, f8_e4m3},
      {bf16, f8_e5m2}, {f8_e4m3, f16}, {s64, s64},   {boolean, boolean}, {u8, s8}};
  const std::int64_t sizes[] = {1, 2, 3, 4, 7, 8, 13, 16, 31, 32, 49, 56, 64, 65, 96, 97, 128, 200};
  Random random(seed);
  const auto chance = [&](int in) { return random.integer(1, in) == 1; };
  const auto placed = [&](DataType type, const Dims& dims) {
    TensorDesc desc = TensorDesc::packed(type, dims, chance(2) ? Layout::nhwc : Layout::nchw);
    if (chance(4)) {  // a view: a corner of a larger tensor, or every second element of it
      Dims parent = dims;
      for (std::int64_t& size : parent) size += chance(2) ? random.integer(0, 3) : 8;
      desc.strides = TensorDesc::packed(type, parent, chance(2) ? Layout::nhwc : Layout::nchw).strides;
      if (chance(3)) {
        for (std::int64_t& stride : desc.strides) stride *= 2;
      }
    }
    if (chance(4)) desc.alignment = static_cast<std::int64_t>(size_of(type));
    return desc;
  };
  std::vector<Case> cases;
  while (std::ssize(cases) < count) {
    Dims dims;
    std::int64_t elements = 1;
    for (std::int64_t rank = random.integer(1, 5); rank > 0; --rank) {
      dims.push_back(sizes[random.integer(0, std::ssize(sizes) - 1)]);
      elements *= dims.back();
    }
    if (elements > 2'000'000) continue;
    const auto& [from, to] = types[static_cast<std::size_t>(random.integer(0, std::ssize(types) - 1))];
    const Case made{placed(from, dims), placed(to, dims)};
    if (validate(made.from, "from").ok() && validate(made.to, "to").ok()) cases.push_back(made);
  }
  return cases;
}

std::vector<Case> listed_cases() {
  std::vector<Case> cases;
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::s8}) {
    for (const Dims& dims :
         {Dims{4, 64, 56, 56}, Dims{4, 512, 7, 7}, Dims{3, 3, 224, 224}, Dims{2, 96, 112, 112}, Dims{5, 33, 28, 28},
          Dims{2, 1, 9, 9}, Dims{2, 48, 4, 14, 14}, Dims{3, 40, 1000}, Dims{3, 0, 4, 4}}) {
      cases.push_back({nchw(type, dims), nhwc(type, dims)});
      cases.push_back({nhwc(type, dims), nchw(type, dims)});
    }
  }
  return cases;
}

template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < count; at = next++) work(at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LayoutKernels, Compile) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  std::vector<Case> cases = listed_cases();
  if (!full()) cases.resize(6);
  for (Case& made : random_cases(full() ? 300 : 20, 1)) cases.push_back(std::move(made));
  in_parallel(cases.size(), [&](std::size_t i) {
    for (const int architecture : {80, 90, 100}) {
      if (!full() && architecture != (i % 3 == 0 ? 80 : i % 3 == 1 ? 90 : 100)) continue;
      const auto& [from, to] = cases[i];
      const LayoutDesign design = design_of(from, to);
      if (design.blocks == 0) continue;
      const auto compiled = compile(layout_request(from, to, design, architecture, i % 5 == 0 ? 66 : 0), true);
      ASSERT_TRUE(compiled.ok()) << text_of(cases[i]) << ": " << compiled.error().message;
      EXPECT_NE(compiled->log.find(" 0 bytes spill stores"), std::string::npos) << text_of(cases[i]) << compiled->log;
    }
  });
}

TEST(LayoutKernels, KnowNoBatch) {
  const auto text = [](const TensorDesc& from, const TensorDesc& to) {
    return layout_request(from, to, design_of(from, to), 90).constants;
  };
  for (const Dims& dims : {Dims{1, 3, 224, 224}, Dims{1, 64, 56, 56}, Dims{1, 512, 8, 8}, Dims{1, 16, 4, 14, 14}}) {
    for (const DataType type : {DataType::f32, DataType::f16}) {
      std::set<std::string> transposing, copying, back;
      for (const std::int64_t batch : {1, 2, 3, 8, 32, 128}) {
        Dims of_batch = dims;
        of_batch[0] = batch;
        const TensorDesc planes = nchw(type, of_batch), pixels = nhwc(DataType::f16, of_batch);
        transposing.insert(text(planes, pixels));
        back.insert(text(pixels, planes));
        copying.insert(text(nhwc(DataType::f32, of_batch), pixels));
      }
      EXPECT_EQ(transposing.size(), 1U) << to_string(dims);
      EXPECT_EQ(back.size(), 1U) << to_string(dims);
      EXPECT_EQ(copying.size(), 1U) << to_string(dims);
    }
  }
  // One image's vectors are no shorter than they were where another batch's would be.
  EXPECT_EQ(design_of(nhwc(DataType::f16, {1, 8, 3, 5}), nhwc(DataType::f16, {1, 8, 3, 5})).from_vector, 8);
  EXPECT_EQ(design_of(nchw(DataType::f16, {1, 8, 3, 8}), nhwc(DataType::f16, {1, 8, 3, 8})).to_vector, 8);
}

// Of one batch's kernel, run for that and others: on the processor.
TEST(LayoutKernels, WriteWhatCopyTensorDoes) {
  if (const std::string none = generate::no_host_compiler(); !none.empty()) GTEST_SKIP() << "skipped: " << none;
  const auto view = [](TensorDesc desc) {
    for (std::int64_t& stride : desc.strides) stride *= 2;
    return desc;
  };
  const std::vector<std::function<Case(std::int64_t)>> kinds = {
      [](std::int64_t n) {
        return Case{nchw(DataType::f32, {n, 3, 8, 24}), nhwc(DataType::f16, {n, 3, 8, 24})};
      },
      [](std::int64_t n) {
        return Case{nhwc(DataType::f16, {n, 48, 4, 5}), nchw(DataType::f32, {n, 48, 4, 5})};
      },
      [](std::int64_t n) {
        return Case{nhwc(DataType::f32, {n, 16, 3, 5}), nhwc(DataType::f16, {n, 16, 3, 5})};
      },
      [&](std::int64_t n) {
        return Case{view(nhwc(DataType::f32, {n, 7, 3, 5})), nhwc(DataType::f32, {n, 7, 3, 5})};
      },
      [&](std::int64_t n) {
        return Case{nchw(DataType::f16, {n, 5, 2, 3, 4}), view(nhwc(DataType::f16, {n, 5, 2, 3, 4}))};
      },
      [](std::int64_t n) {
        return Case{nchw(DataType::f32, {1, 5, n}), nchw(DataType::f16, {1, 5, n})};
      },
  };
  for (const auto& kind : kinds) {
    std::map<std::string, testing::HostKernel> kernels;
    for (const std::int64_t batch : {1, 2, 5}) {
      const auto& [from, to] = kind(batch);
      const LayoutDesign design = design_of(from, to);
      const KernelRequest request = layout_request(from, to, design, 90);
      const char* const name = design.transposed ? "transpose" : "copy";
      if (!kernels.contains(request.constants)) {
        auto compiled = testing::HostKernel::compile(*program_source(request), name);
        ASSERT_TRUE(compiled.ok()) << compiled.error().message;
        kernels.emplace(request.constants, *compiled);
      }
      const auto bytes = static_cast<std::size_t>(to.bytes());
      std::vector<std::byte> source(static_cast<std::size_t>(from.bytes())), expected(bytes, std::byte{0xFF});
      Random random(static_cast<std::uint64_t>(batch));
      convoy::testing::fill_tensor(from, source.data(), random, Fill::normal, 200);
      copy_tensor(from, source.data(), to, expected.data());
      for (const bool backwards : {false, true}) {
        std::vector<std::byte> found(bytes, std::byte{0xFF});
        const void* in = source.data();
        void* out = found.data();
        auto count = static_cast<std::uint64_t>(design.count);
        void* const arguments[] = {&in, &out, &count};
        Launch shape;
        shape.grid.x = static_cast<unsigned>(design.blocks);
        shape.block.x = 256;
        ASSERT_TRUE(kernels.at(request.constants).run(arguments, shape, backwards));
        EXPECT_EQ(found, expected) << text_of({from, to});
      }
    }
  }
}

using LayoutOnGpu = testing::OnAGpu;

// "" or what is wrong. The target starts as 0xFF, and what lies between its elements and around it stays that.
std::string check(const Case& test, const LayoutConversion& conversion, const CudaDevice& device, std::uint64_t seed) {
  constexpr std::size_t kZone = 256;
  const auto& [from, to] = test;
  const auto from_bytes = static_cast<std::size_t>(from.bytes()), to_bytes = static_cast<std::size_t>(to.bytes());
  std::vector<std::byte> source(from_bytes, std::byte{0xFF}), expected(to_bytes + 2 * kZone, std::byte{0xFF});
  std::mt19937_64 random(seed);
  if (from.type == to.type) {
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());  // NaN and all: a copy keeps bits
  } else {
    convoy::testing::Random values(seed);
    convoy::testing::fill_tensor(from, source.data(), values, Fill::normal, 200);
  }
  // As far off an aligned address as the descriptions allow.
  const auto shift = [&](const TensorDesc& desc) {
    return desc.alignment < 64 ? static_cast<std::size_t>(desc.alignment) : 0;
  };
  const auto attempt = [&]() -> Result<std::string> {
    CONVOY_TRY(const DeviceMemory in, DeviceMemory::allocate(device.ordinal, from_bytes + kZone, "in"));
    CONVOY_TRY(const DeviceMemory out, DeviceMemory::allocate(device.ordinal, to_bytes + 3 * kZone, "out"));
    auto* const read = static_cast<std::byte*>(in.data()) + shift(from);
    auto* const written = static_cast<std::byte*>(out.data()) + kZone + shift(to);
    CONVOY_CHECK(copy_to_device(read, source.data(), from_bytes, nullptr));
    CONVOY_CHECK(fill_bytes(out.data(), 0xFF, out.bytes(), nullptr));
    CONVOY_CHECK(conversion.enqueue(read, written, nullptr));
    std::vector<std::byte> found(to_bytes + 2 * kZone);
    CONVOY_CHECK(copy_to_host(found.data(), written - kZone, found.size(), nullptr));
    CONVOY_CHECK(synchronize(device.ordinal));
    copy_tensor(from, source.data(), to, expected.data() + kZone);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] == expected[i]) continue;
      // Any NaN is one: which bits it has is left open.
      const auto at = (static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kZone)) /
                      static_cast<std::int64_t>(size_of(to.type));
      if (from.type != to.type && i >= kZone && i < kZone + to_bytes && is_floating(to.type) &&
          std::isnan(load_as_double(to.type, found.data() + kZone, at)) &&
          std::isnan(load_as_double(to.type, expected.data() + kZone, at))) {
        continue;
      }
      return "byte " + std::to_string(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kZone)) + " of " +
             std::to_string(to_bytes) + " is " + std::to_string(static_cast<int>(found[i])) + ", not " +
             std::to_string(static_cast<int>(expected[i]));
    }
    return std::string();
  };
  const auto result = attempt();
  return result.ok() ? *result : result.error().message;
}

TEST_F(LayoutOnGpu, WritesWhatCopyTensorDoes) {
  std::vector<Case> cases = listed_cases();
  for (Case& made : random_cases(full() ? 3000 : 100, 7)) cases.push_back(std::move(made));
  std::vector<Result<LayoutConversion>> conversions(cases.size(), Error{});
  in_parallel(cases.size(),
              [&](std::size_t i) {  // some on two SMs, where a block moves many tiles
                conversions[i] = LayoutConversion::make(cases[i].from, cases[i].to, *request_.cuda, i % 3 == 2 ? 2 : 0);
              });
  int failures = 0;
  for (std::size_t i = 0; i < cases.size() && failures < 20; ++i) {
    ASSERT_TRUE(conversions[i].ok()) << text_of(cases[i]) << ": " << conversions[i].error().message;
    const std::string failure = check(cases[i], *conversions[i], *request_.cuda, i);
    EXPECT_EQ(failure, "") << text_of(cases[i]);
    failures += failure.empty() ? 0 : 1;
  }
  std::printf("%zu conversions\n", cases.size());
}

TEST_F(LayoutOnGpu, ConvertsAbove2To31ElementsThereAndBack) {
  const Dims dims{700, 64, 224, 224};
  const auto memory = memory_info(0);
  ASSERT_TRUE(memory.ok());
  const TensorDesc planes = nchw(DataType::s8, dims), pixels = nhwc(DataType::s8, dims);
  ASSERT_GT(planes.elements(), std::int64_t{1} << 31);
  if (memory->free_bytes < 3 * planes.bytes() + (1 << 30)) GTEST_SKIP() << "skipped: 7 GiB of the device's memory";
  const auto there = LayoutConversion::make(planes, pixels, *request_.cuda);
  const auto back = LayoutConversion::make(pixels, planes, *request_.cuda);
  ASSERT_TRUE(there.ok() && back.ok());
  const auto bytes = static_cast<std::size_t>(planes.bytes());
  const auto source = testing::random_memory(DataType::s8, bytes, 1, 0);
  const auto converted = DeviceMemory::allocate(0, bytes, "converted");
  const auto returned = DeviceMemory::allocate(0, bytes, "returned");
  ASSERT_TRUE(source.ok() && converted.ok() && returned.ok());
  ASSERT_TRUE(there->enqueue(source->data(), converted->data(), nullptr).ok());
  ASSERT_TRUE(back->enqueue(converted->data(), returned->data(), nullptr).ok());
  ASSERT_TRUE(synchronize(0).ok());
  // The last image, and whole tensors in pieces of it.
  const std::size_t image = bytes / static_cast<std::size_t>(dims[0]);
  std::vector<std::byte> first(image), second(image);
  const auto fetch = [&](std::vector<std::byte>& to, const DeviceMemory& from, std::size_t index) {
    return copy_to_host(to.data(), static_cast<const std::byte*>(from.data()) + index * image, image, nullptr).ok() &&
           synchronize(0).ok();
  };
  for (const std::size_t index : {std::size_t{0}, std::size_t{350}, std::size_t{668}, std::size_t{699}}) {
    ASSERT_TRUE(fetch(first, *source, index) && fetch(second, *returned, index));
    EXPECT_TRUE(first == second) << "image " << index << " there and back";
    std::vector<std::byte> expected(image);
    const Dims one{1, dims[1], dims[2], dims[3]};
    copy_tensor(nchw(DataType::s8, one), first.data(), nhwc(DataType::s8, one), expected.data());
    ASSERT_TRUE(fetch(second, *converted, index));
    EXPECT_TRUE(expected == second) << "image " << index;
  }
}

}  // namespace
}  // namespace convoy::cuda
