#include "convert/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include "convoy/host_tensor.h"

namespace convoy {
namespace {

constexpr Layout kPacked[] = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};
constexpr std::size_t kZone = 136;  // bytes on either side of an output that must stay as they are; no whole vectors

// Any bits: NaN of every kind, infinities, subnormal numbers, and garbage in the padding.
HostTensor any_bits(TensorDesc desc, std::mt19937_64& random) {
  HostTensor tensor = *HostTensor::allocate(std::move(desc));
  auto* bytes = reinterpret_cast<unsigned char*>(tensor.data.get());
  for (std::int64_t i = 0; i < tensor.desc.bytes(); ++i) bytes[i] = static_cast<unsigned char>(random());
  return tensor;
}

// What convert_layout writes is what copy_tensor writes, and nothing beside it.
void check(const HostTensor& source, const TensorDesc& target, int threads, Isa isa) {
  static std::map<int, std::unique_ptr<ThreadTeam>> teams;
  SCOPED_TRACE(testing::Message() << name_of(source.desc.type) << " " << to_string(source.desc.dims) << " "
                                  << name_of(source.desc.layout(), 2) << " to " << name_of(target.type) << " "
                                  << name_of(target.layout(), 2) << ", threads " << threads << ", " << name_of(isa));
  const auto bytes = static_cast<std::size_t>(target.bytes());
  const auto expected = allocate_aligned(bytes + 2 * kZone), actual = allocate_aligned(bytes + 2 * kZone);
  std::memset(expected.get(), 0x5a, bytes + 2 * kZone);
  std::memset(actual.get(), 0x5a, bytes + 2 * kZone);
  copy_tensor(source.desc, source.data.get(), target, expected.get() + kZone);
  auto& team = teams[threads];
  if (!team) team = make_cpu_team(threads);
  convert_layout(source.desc, source.data.get(), target, actual.get() + kZone, *team, capped(cpu_features(), isa));
  EXPECT_EQ(0, std::memcmp(expected.get(), actual.get(), bytes + 2 * kZone));
}

TEST(ConvertLayout, EveryPairIsTheCopyOfEveryElement) {
  std::mt19937_64 random(1);
  const Dims shapes[] = {{1, 3, 5},         {2, 16, 16, 16}, {1, 17, 33, 5}, {3, 1, 4, 4},      {1, 64, 1, 1},
                         {1, 5, 9, 10, 11}, {2, 100, 3, 7},  {1, 8, 0, 3},   {2, 32, 4, 8, 16}, {1, 24, 7, 7},
                         {1, 100, 20, 21},  {1, 3, 30, 31},  {2, 48, 1, 5},  {1, 9, 17, 33},    {1, 65, 40, 16}};
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::u8}) {
    for (const Dims& dims : shapes) {
      for (const Layout from : kPacked) {
        const HostTensor source = any_bits(TensorDesc::packed(type, dims, from), random);
        for (const Layout to : kPacked) {
          const TensorDesc target = source.desc.with_layout(to);
          check(source, target, 1, Isa::avx512);
          check(source, target, 3, Isa::avx512);
          check(source, target, 2, Isa::portable);
        }
      }
    }
  }
}

// Pieces of 8 and 16 channels, with and without channels done twice; more and fewer positions than a step has.
TEST(ConvertLayout, EveryNumberOfChannels) {
  std::mt19937_64 random(5);
  for (std::int64_t channels = 1; channels <= 70; ++channels) {
    const Dims few = {1, channels, static_cast<std::int64_t>(1 + random() % 40)};
    const Dims many = {1, channels, static_cast<std::int64_t>(65 + random() % 200)};
    for (const Dims& dims : {few, many}) {
      for (const DataType type : {DataType::f32, DataType::f16, DataType::u8, DataType::f64}) {
        for (const Layout from : kPacked) {
          const HostTensor source = any_bits(TensorDesc::packed(type, dims, from), random);
          for (const Layout to : kPacked) {
            const int threads = static_cast<int>(1 + random() % 3);
            check(source, source.desc.with_layout(to), threads, Isa::avx512);
            if (type == DataType::u8 || type == DataType::f64) continue;
            const DataType other = type == DataType::f32 ? DataType::bf16 : DataType::f32;
            check(source, TensorDesc::packed(other, dims, to), threads, Isa::avx512);
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// Rows a multiple of 4 KB apart, which are done by eights: with and without channels in the second eight.
TEST(ConvertLayout, RowsThatEvictEachOther) {
  std::mt19937_64 random(7);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::u8, DataType::f64}) {
    const auto positions = static_cast<std::int64_t>(4096 / size_of(type));
    for (const std::int64_t channels : {5, 16, 37, 44}) {
      const Dims dims = {1, channels, positions};
      for (const Layout from : kPacked) {
        const HostTensor source = any_bits(TensorDesc::packed(type, dims, from), random);
        for (const Layout to : kPacked) {
          for (const int threads : {1, 2}) check(source, source.desc.with_layout(to), threads, Isa::avx512);
          if (type == DataType::u8 || type == DataType::f64) continue;
          const DataType other = type == DataType::f32 ? DataType::bf16 : DataType::f32;
          check(source, TensorDesc::packed(other, dims, to), 1, Isa::avx512);
        }
      }
    }
  }
}

// Rows longer than what a run has at least, a multiple of 4 KB apart or odd, in turns (nhwc).
TEST(ConvertLayout, LongRows) {
  std::mt19937_64 random(6);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::s8, DataType::f64}) {
    for (const std::int64_t positions : {8192, 9001}) {
      for (const Layout from : kPacked) {
        const HostTensor source = any_bits(TensorDesc::packed(type, {1, 39, positions}, from), random);
        for (const Layout to : kPacked) check(source, source.desc.with_layout(to), 2, Isa::avx512);
      }
    }
  }
}

TEST(ConvertLayout, TypesAndLayoutsTogether) {
  std::mt19937_64 random(2);
  const Dims shapes[] = {{1, 3, 5}, {2, 16, 16, 16}, {1, 17, 33, 5}, {1, 64, 1, 1}, {2, 100, 3, 7}, {1, 24, 7, 10},
                         {7}};
  const std::pair<DataType, DataType> types[] = {{DataType::f32, DataType::bf16}, {DataType::bf16, DataType::f32},
                                                 {DataType::f32, DataType::f16},  {DataType::f16, DataType::f32},
                                                 {DataType::f16, DataType::bf16}, {DataType::u8, DataType::f32}};
  for (const auto& [from_type, to_type] : types) {
    for (const Dims& dims : shapes) {
      for (const Layout from : kPacked) {
        const HostTensor source = any_bits(TensorDesc::packed(from_type, dims, from), random);
        for (const Layout to : kPacked) {
          const TensorDesc target = TensorDesc::packed(to_type, dims, to);
          check(source, target, 2, Isa::avx512);
          check(source, target, 1, Isa::portable);
        }
      }
    }
  }
}

TEST(ConvertLayout, RandomShapes) {
  std::mt19937_64 random(3);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::int64_t>(random() % limit); };
  constexpr DataType kTypes[] = {DataType::f32, DataType::bf16, DataType::f16, DataType::s8, DataType::f64};
  for (int i = 0; i < 300; ++i) {
    Dims dims = {1 + below(3), 1 + below(130)};
    for (std::int64_t d = 1 + below(3); d > 0; --d) dims.push_back(1 + below(dims.size() == 2 ? 70 : 12));
    const DataType from = kTypes[below(std::size(kTypes))];
    const DataType to = below(2) == 0 ? from : kTypes[below(std::size(kTypes))];
    const HostTensor source = any_bits(TensorDesc::packed(from, dims, kPacked[below(4)]), random);
    check(source, TensorDesc::packed(to, dims, kPacked[below(4)]), static_cast<int>(1 + below(4)), Isa::avx512);
    if (HasFailure()) return;
  }
}

TEST(ConvertLayout, Strided) {
  std::mt19937_64 random(4);
  TensorDesc gaps = TensorDesc::packed(DataType::f32, {2, 20, 5, 6});
  for (auto& stride : gaps.strides) stride *= 2;
  const HostTensor source = any_bits(gaps, random);
  for (const Layout to : kPacked) check(source, source.desc.with_layout(to), 2, Isa::avx512);
}

TEST(ConvertLayout, KindsSayHow) {
  const auto of = [](DataType type, Layout layout, Dims dims = {1, 20, 5, 6}) {
    return TensorDesc::packed(type, std::move(dims), layout);
  };
  using Kind = ConversionKind;
  const DataType f32 = DataType::f32, bf16 = DataType::bf16;
  const auto kind = [](const TensorDesc& a, const TensorDesc& b) { return name_of(conversion_kind(a, b)); };
  EXPECT_EQ(kind(of(f32, Layout::nchw), of(f32, Layout::nchw)), name_of(Kind::copy));
  EXPECT_EQ(kind(of(f32, Layout::nchw), of(bf16, Layout::nchw)), name_of(Kind::types));
  EXPECT_EQ(kind(of(f32, Layout::nchw), of(bf16, Layout::nhwc)), name_of(Kind::to_inner));
  EXPECT_EQ(kind(of(f32, Layout::nchw16c), of(f32, Layout::nchw)), name_of(Kind::to_outer));
  EXPECT_EQ(kind(of(f32, Layout::nchw16c), of(f32, Layout::nchw8c)), name_of(Kind::regroup));
  EXPECT_EQ(kind(of(f32, Layout::nchw), of(DataType::u8, Layout::nchw)), name_of(Kind::elsewhere));
  EXPECT_EQ(kind(of(f32, Layout::nchw, {1, 20, 1, 1}), of(f32, Layout::nhwc, {1, 20, 1, 1})), name_of(Kind::copy));
  EXPECT_EQ(kind(of(f32, Layout::nhwc, {1, 1, 5, 6}), of(f32, Layout::nchw, {1, 1, 5, 6})), name_of(Kind::copy));
}

TEST(ConvertLayout, SameBytesWhereThereIsNothingToMove) {
  const auto alike = [](const Dims& dims) {
    return same_bytes(TensorDesc::packed(DataType::f32, dims), TensorDesc::packed(DataType::f32, dims, Layout::nhwc));
  };
  EXPECT_TRUE(alike({1, 1, 8, 8}));
  EXPECT_TRUE(alike({4, 64, 1, 1}));
  EXPECT_FALSE(alike({1, 2, 8, 8}));
}

}  // namespace
}  // namespace convoy
