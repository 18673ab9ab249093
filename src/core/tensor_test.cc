#include "convoy/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "base/checked.h"
#include "convoy/host_tensor.h"
#include "core/pixel_stride.h"
#include "core/testing/random_problem.h"

namespace convoy {
namespace {

using testing::chance;
using testing::Random;
using testing::uniform;

constexpr Layout kPacked[] = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};

void for_each_coordinate(const Dims& dims, const std::function<void(const Dims&)>& visit) {
  Dims at(dims.size(), 0);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  while (true) {
    visit(at);
    int i = static_cast<int>(dims.size()) - 1;
    for (; i >= 0 && ++at[i] == dims[i]; --i) at[i] = 0;
    if (i < 0) return;
  }
}

Dims random_dims(Random& random, int rank) {
  Dims dims(rank);
  for (auto& dim : dims) dim = uniform(random, 1, 5);
  if (rank >= 2) dims[1] = uniform(random, 1, 40);
  return dims;
}

TEST(Layout, NamesOfEveryDimension) {
  EXPECT_EQ(name_of(Layout::nhwc, 1), "nwc");
  EXPECT_EQ(name_of(Layout::nhwc, 2), "nhwc");
  EXPECT_EQ(name_of(Layout::nchw16c, 3), "ncdhw16c");
  EXPECT_EQ(name_of(Layout::nchw8c, 1), "ncw8c");
  for (Layout layout : kPacked) {
    for (int spatial : {1, 2, 3}) EXPECT_EQ(*parse_layout(name_of(layout, spatial)), layout);
  }
  EXPECT_EQ(*parse_layout("strided"), Layout::strided);
  EXPECT_FALSE(parse_layout("nchw4c").ok());
}

TEST(Tensor, StridesWrittenOut) {
  EXPECT_EQ(TensorDesc::packed(DataType::f32, {2, 3, 4, 5}).strides, (Dims{60, 20, 5, 1}));
  EXPECT_EQ(TensorDesc::packed(DataType::f32, {2, 3, 4, 5}, Layout::nhwc).strides, (Dims{60, 1, 15, 3}));
  const auto blocked = TensorDesc::packed(DataType::f32, {2, 17, 4, 5}, Layout::nchw16c);
  EXPECT_EQ(blocked.strides, (Dims{640, 320, 80, 16}));
  EXPECT_EQ(blocked.padded_channels(), 32);
  EXPECT_EQ(blocked.storage_elements(), 1280);
  EXPECT_EQ(blocked.elements(), 680);
  const Dims coords = {1, 16, 3, 4};
  EXPECT_EQ(blocked.offset(coords.data()), 640 + 320 + 240 + 64);
  EXPECT_EQ(TensorDesc::packed(DataType::f32, {2, 3, 4, 5, 6}, Layout::nhwc).strides, (Dims{360, 1, 90, 18, 3}));
  EXPECT_EQ(TensorDesc::packed(DataType::f64, {}).storage_elements(), 1);
  EXPECT_EQ(TensorDesc::packed(DataType::f64, {}).bytes(), 8);
  EXPECT_EQ(TensorDesc::packed(DataType::f32, {7}).strides, (Dims{1}));
  EXPECT_EQ(TensorDesc::packed(DataType::f32, {7, 3}, Layout::nhwc).strides, (Dims{3, 1}));
}

TEST(Tensor, OffsetIsABijection) {
  Random random(2);
  for (int i = 0; i < 300; ++i) {
    const Dims dims = random_dims(random, static_cast<int>(uniform(random, 0, 5)));
    for (Layout layout : kPacked) {
      const auto desc = TensorDesc::packed(DataType::f32, dims, layout);
      ASSERT_TRUE(validate(desc, "t").ok());
      ASSERT_TRUE(desc.is_packed(layout));
      ASSERT_EQ(desc.storage_elements(), desc.elements() / std::max<std::int64_t>(1, dims.size() < 2 ? 1 : dims[1]) *
                                             (dims.size() < 2 ? 1 : desc.padded_channels()));
      std::vector<bool> seen(desc.storage_elements(), false);
      for_each_coordinate(dims, [&](const Dims& at) {
        const std::int64_t offset = desc.offset(at.data());
        ASSERT_GE(offset, 0);
        ASSERT_LT(offset, desc.storage_elements());
        ASSERT_FALSE(seen[offset]) << to_string(dims) << " " << name_of(layout, desc.spatial_dims());
        seen[offset] = true;
      });
    }
  }
}

TEST(Tensor, LayoutOfUnitDimsIsTheFirstThatFits) {
  auto nhwc = [](Dims dims) { return TensorDesc::packed(DataType::f32, std::move(dims), Layout::nhwc); };
  EXPECT_EQ(nhwc({2, 3, 4, 5}).layout(), Layout::nhwc);
  EXPECT_EQ(nhwc({2, 1, 4, 5}).layout(), Layout::nchw);
  EXPECT_TRUE(nhwc({2, 1, 4, 5}).is_packed(Layout::nhwc));
  EXPECT_EQ(nhwc({2, 3, 1, 1}).layout(), Layout::nchw);
  EXPECT_FALSE(nhwc({2, 3, 4, 5}).is_packed(Layout::nchw));
  EXPECT_FALSE(nhwc({2, 3, 4, 5}).is_packed(Layout::strided));
  auto gaps = TensorDesc::packed(DataType::f32, {2, 3, 4, 5});
  gaps.strides[0] = 64;
  EXPECT_EQ(gaps.layout(), Layout::strided);
  EXPECT_EQ(gaps.storage_elements(), 64 + 60);
  auto blocked = TensorDesc::packed(DataType::f32, {2, 3, 4, 5}, Layout::nchw8c);
  EXPECT_EQ(blocked.layout(), Layout::nchw8c);
  EXPECT_FALSE(blocked.is_packed(Layout::nchw16c));
}

TEST(Tensor, EmptyTensors) {
  for (Layout layout : kPacked) {
    const auto desc = TensorDesc::packed(DataType::f32, {2, 0, 4, 5}, layout);
    EXPECT_TRUE(validate(desc, "t").ok());
    EXPECT_EQ(desc.elements(), 0);
    EXPECT_EQ(desc.bytes(), 0);
    copy_tensor(desc, nullptr, desc, nullptr);
  }
  // Parts of a shape are multiplied everywhere, so a dim of 0 excuses nothing.
  EXPECT_FALSE(
      validate(TensorDesc::packed(DataType::f32, {std::int64_t{1} << 40, 0, std::int64_t{1} << 40}), "t").ok());
  EXPECT_TRUE(validate(TensorDesc::packed(DataType::f32, {std::int64_t{1} << 40, 0, std::int64_t{1} << 20}), "t").ok());
}

std::string error_of(TensorDesc desc) {
  const auto result = validate(desc, "x");
  return result.ok() ? "" : result.error().message;
}

TEST(Tensor, ValidationNamesTheField) {
  const auto good = TensorDesc::packed(DataType::f32, {2, 3, 4, 5});
  EXPECT_EQ(error_of(good), "");
  auto bad = good;
  bad.dims[2] = -4;
  EXPECT_EQ(error_of(bad), "x.dims[2]=-4 is negative");
  bad = good;
  bad.strides[1] = 0;
  EXPECT_EQ(error_of(bad), "x.strides[1]=0, but dims[1]=3 needs a positive one");
  bad = good;
  bad.strides[1] = -20;
  EXPECT_EQ(error_of(bad), "x.strides[1]=-20 is negative");
  bad = good;
  bad.strides.pop_back();
  EXPECT_EQ(error_of(bad), "x has 4 dims (2x3x4x5) and 3 strides (60x20x5)");
  bad = good;
  bad.alignment = 48;
  EXPECT_EQ(error_of(bad), "x.alignment=48 is not a power of two");
  bad = good;
  bad.channel_block = 4;
  EXPECT_EQ(error_of(bad), "x.channel_block=4 is not 1, 8 or 16");
  bad = good;
  bad.strides[0] = kMaxSize / 2;
  EXPECT_NE(error_of(bad).find("overflow"), std::string::npos);
  EXPECT_NE(error_of(TensorDesc::packed(DataType::f64, {1 << 20, 1 << 20, 1 << 20})).find("overflow"),
            std::string::npos);
  EXPECT_NE(error_of(TensorDesc::packed(DataType::f32, {kMaxSize, 3}, Layout::nchw16c)).find("overflow"),
            std::string::npos);
}

TEST(Tensor, CheckedElements) {
  EXPECT_EQ(*checked_elements({}), 1);
  EXPECT_EQ(*checked_elements({3, 4}), 12);
  EXPECT_EQ(*checked_elements({kMaxSize, 0}), 0);
  EXPECT_FALSE(checked_elements({kMaxSize, 0, 2}).ok());
  EXPECT_TRUE(checked_elements({kMaxSize}).ok());
  EXPECT_FALSE(checked_elements({kMaxSize}, 2).ok());
  EXPECT_FALSE(checked_elements({std::int64_t{1} << 32, std::int64_t{1} << 31}).ok());
  EXPECT_FALSE(checked_elements({-1}).ok());
}

// Another placement of the same dims: packed, or strided in any order with gaps.
TensorDesc random_placement(Random& random, DataType type, const Dims& dims) {
  auto desc = TensorDesc::packed(type, dims, kPacked[uniform(random, 0, 3)]);
  if (chance(random, 0.3) && !dims.empty()) {
    for (auto& stride : desc.strides) stride *= 3;
  }
  return desc;
}

TEST(CopyTensor, EveryElementArrivesAndPaddingIsZero) {
  Random random(3);
  constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::s8, DataType::bf16, DataType::s32};
  for (int i = 0; i < 600; ++i) {
    Dims dims = random_dims(random, static_cast<int>(uniform(random, 0, 5)));
    if (i % 5 == 0 && dims.size() > 2) dims.back() = uniform(random, 1, 70);
    const DataType from_type = kTypes[uniform(random, 0, 4)];
    const DataType to_type = chance(random, 0.6) ? from_type : kTypes[uniform(random, 0, 4)];
    auto from = *HostTensor::zeros(random_placement(random, from_type, dims));
    auto to = *HostTensor::allocate(random_placement(random, to_type, dims));
    auto back = *HostTensor::allocate(from.desc);
    std::memset(to.data.get(), 0xff, to.desc.bytes());
    for_each_coordinate(dims, [&](const Dims& at) {
      store_from_double(from_type, from.data.get(), from.desc.offset(at.data()),
                        static_cast<double>(uniform(random, -100, 100)));
    });
    copy_tensor(from.desc, from.data.get(), to.desc, to.data.get());
    copy_tensor(to.desc, to.data.get(), back.desc, back.data.get());
    int wrong = 0;
    for_each_coordinate(dims, [&](const Dims& at) {
      const double value = load_as_double(from_type, from.data.get(), from.desc.offset(at.data()));
      wrong += load_as_double(to_type, to.data.get(), to.desc.offset(at.data())) != value;
      wrong += load_as_double(from_type, back.data.get(), back.desc.offset(at.data())) != value;
    });
    Dims padded = dims;
    if (to.desc.channel_block > 1) padded[1] = to.desc.padded_channels();
    for_each_coordinate(padded, [&](const Dims& at) {
      if (padded == dims || at[1] < dims[1]) return;
      wrong += load_as_double(to_type, to.data.get(), to.desc.offset(at.data())) != 0;
    });
    ASSERT_EQ(wrong, 0) << name_of(from_type) << " " << to_string(dims) << " strides " << to_string(from.desc.strides)
                        << " to " << name_of(to_type) << " " << to_string(to.desc.strides);
  }
}

TEST(CopyTensor, ConvertsAsSingleElementsDo) {
  Random random(9);
  constexpr int kTypes = static_cast<int>(DataType::boolean) + 1;
  constexpr std::int64_t kCount = 500;
  std::vector<std::uint64_t> bits(kCount);
  for (auto& value : bits) value = random();
  for (int from = 0; from < kTypes; ++from) {
    for (int to = 0; to < kTypes; ++to) {
      if (from == to) continue;
      const auto src = TensorDesc::packed(static_cast<DataType>(from), {kCount});
      const auto dst = TensorDesc::packed(static_cast<DataType>(to), {kCount});
      std::vector<std::uint64_t> copied(kCount), expected(kCount);
      copy_tensor(src, bits.data(), dst, copied.data());
      for (std::int64_t i = 0; i < kCount; ++i) {
        const double value = load_as_double(src.type, bits.data(), i);
        store_from_double(dst.type, expected.data(), i, value);
        const double got = load_as_double(dst.type, copied.data(), i);
        const double wanted = load_as_double(dst.type, expected.data(), i);
        ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
            << name_of(src.type) << " to " << name_of(dst.type) << ": " << value << " became " << got;
      }
    }
  }
}

TEST(CopyTensor, SixtyFourBitIntegersAreExact) {
  const std::int64_t value = (std::int64_t{1} << 60) + 1;
  auto from = *HostTensor::zeros(TensorDesc::packed(DataType::s64, {1, 3, 2, 2}));
  for (int i = 0; i < 12; ++i) from.as<std::int64_t>()[i] = value + i;
  const auto to = *converted(from, from.desc.with_layout(Layout::nhwc));
  EXPECT_EQ(to.as<std::int64_t>()[1], value + 4);
}

TEST(CopyTensor, ConversionRoundsOnce) {
  auto from = *HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 1, 1, 3}));
  from.as<float>()[0] = 1e9f;
  from.as<float>()[1] = -0.3f;
  from.as<float>()[2] = 2.5f;
  const auto f8 = *converted(from, TensorDesc::packed(DataType::f8_e4m3, {1, 1, 1, 3}));
  EXPECT_EQ(f8.at(0), 448.0);
  EXPECT_EQ(f8.at(2), 2.5);
  const auto u8 = *converted(from, TensorDesc::packed(DataType::u8, {1, 1, 1, 3}));
  EXPECT_EQ(u8.at(0), 255.0);
  EXPECT_EQ(u8.at(1), 0.0);
  EXPECT_EQ(u8.at(2), 2.0);
}

TEST(HostTensor, AllocatesAlignedAndFailsWithReason) {
  const auto tensor = HostTensor::zeros(TensorDesc::packed(DataType::f32, {3, 5}));
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->data.get()) % 64, 0u);
  EXPECT_EQ(tensor->at(14), 0.0);
  const auto huge = HostTensor::allocate(TensorDesc::packed(DataType::f32, {std::int64_t{1} << 55}));
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(HostTensor::allocate(TensorDesc::packed(DataType::f32, {-1})).ok());
  EXPECT_FALSE(converted(*tensor, TensorDesc::packed(DataType::f32, {5, 3})).ok());
  EXPECT_EQ(allocate_aligned(SIZE_MAX), nullptr);
  EXPECT_NE(allocate_aligned(0), nullptr);
}

// A slice of the channels of a channels-last tensor is one with gaps, whatever its sizes.
TEST(PixelStride, IsThatOfTheWholeForASliceOfItsChannels) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const Dims dims = random_dims(random, uniform(random, 3, 5));
    TensorDesc slice = TensorDesc::packed(DataType::f16, dims, Layout::nhwc);
    EXPECT_EQ(pixel_stride(slice), dims[1]) << to_string(dims);
    Dims whole = dims;
    whole[1] += uniform(random, 1, 9);
    slice.strides = TensorDesc::packed(DataType::f16, whole, Layout::nhwc).strides;
    const bool one_pixel = slice.elements() == dims[1];
    EXPECT_EQ(pixel_stride(slice), one_pixel ? dims[1] : whole[1]) << to_string(dims);
    if (one_pixel) continue;
    const bool alike = dims[1] == 1 || slice.elements() == dims[0] * dims[1];
    EXPECT_EQ(pixel_stride(slice.with_layout(Layout::nchw)).has_value(), alike) << to_string(dims);
  }
  TensorDesc rows = TensorDesc::packed(DataType::f16, {2, 8, 4, 4}, Layout::nhwc);
  rows.strides[2] += 8;  // room behind each row
  EXPECT_EQ(pixel_stride(rows), std::nullopt);
  EXPECT_EQ(pixel_stride(TensorDesc::packed(DataType::f16, {4, 8})), std::nullopt);
  EXPECT_EQ(pixel_stride(TensorDesc::packed(DataType::f16, {2, 8, 4, 4}, Layout::nchw8c)), std::nullopt);
}

}  // namespace
}  // namespace convoy
