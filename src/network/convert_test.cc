#include "network/convert.h"

#include <cstring>

#include "network/testing.h"

namespace convoy::network {
namespace {

TEST(ConvertLayout, IsTheCopyOfEveryElement) {
  const Dims shapes[] = {{1, 3, 5},         {2, 16, 16, 16}, {1, 17, 33, 5}, {3, 1, 4, 4},     {1, 64, 1, 1},
                         {1, 5, 9, 10, 11}, {2, 100, 3, 7},  {1, 8, 0, 3},   {2, 32, 4, 8, 16}};
  for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::u8}) {
    for (const Dims& dims : shapes) {
      for (int threads : {1, 3}) {
        SCOPED_TRACE(to_string(dims) + " " + std::string(name_of(type)));
        const auto team = make_cpu_team(threads);
        const HostTensor source = spread(dims, 0, 200, type);
        const TensorDesc target = source.desc.with_layout(Layout::nhwc);
        auto expected = converted(source, target);
        auto there = HostTensor::zeros(target);
        auto back = HostTensor::zeros(source.desc);
        ASSERT_TRUE(expected.ok() && there.ok() && back.ok());
        convert_layout(source.desc, source.data.get(), target, there->data.get(), *team);
        EXPECT_EQ(0, std::memcmp(there->data.get(), expected->data.get(), static_cast<std::size_t>(target.bytes())));
        convert_layout(target, there->data.get(), source.desc, back->data.get(), *team);
        EXPECT_EQ(0, std::memcmp(back->data.get(), source.data.get(), static_cast<std::size_t>(target.bytes())));
      }
    }
  }
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
}  // namespace convoy::network
