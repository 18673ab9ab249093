#include "io/nifti.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "io/volume_input.h"

namespace convoy::io {
namespace {

// A volume of x=4, y=3, z=2 whose voxel (x,y,z) is x + 10*y + 100*z.
std::vector<std::byte> sample(DataType type, int code, bool big = false, float slope = 0, float intercept = 0) {
  std::vector<std::byte> file(352 + 24 * size_of(type));
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(file.data() + at, &value, sizeof value);
    if (big) std::reverse(file.begin() + at, file.begin() + at + sizeof value);
  };
  put(0, std::int32_t{348});
  const std::int16_t dims[] = {3, 4, 3, 2, 1, 1, 1, 1};
  for (int i = 0; i < 8; ++i) put(40 + 2 * i, dims[i]);
  put(70, static_cast<std::int16_t>(code));
  put(72, static_cast<std::int16_t>(size_of(type) * 8));
  put(80, 1.5F);  // pixdim[1]
  put(108, 352.0F);
  put(112, slope);
  put(116, intercept);
  std::memcpy(file.data() + 344, "n+1", 4);
  for (int i = 0; i < 24; ++i) {
    std::byte* at = file.data() + 352 + i * size_of(type);
    store_from_double(type, at, 0, i % 4 + 10 * (i / 4 % 3) + 100 * (i / 12));
    if (big) std::reverse(at, at + size_of(type));
  }
  return file;
}

std::vector<std::byte> gzipped(Bytes plain) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  std::vector<std::byte> out(plain.size() + 200);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Nifti, ReadsEveryNumericTypeInBothByteOrders) {
  const std::pair<int, DataType> types[] = {
      {2, DataType::u8},   {4, DataType::s16},   {8, DataType::s32},   {16, DataType::f32},   {64, DataType::f64},
      {256, DataType::s8}, {512, DataType::u16}, {768, DataType::u32}, {1024, DataType::s64}, {1280, DataType::u64}};
  for (const auto& [code, type] : types) {
    for (const bool big : {false, true}) {
      for (const bool compressed : {false, true}) {
        const auto plain = sample(type, code, big);
        const auto volume = parse_nifti(compressed ? gzipped(plain) : plain, "v.nii");
        ASSERT_TRUE(volume.ok()) << volume.error().message;
        EXPECT_EQ(volume->header.dims, (Dims{4, 3, 2}));
        EXPECT_EQ(volume->data.desc.dims, (Dims{2, 3, 4}));
        EXPECT_EQ(volume->data.desc.type, type);
        EXPECT_EQ(volume->data.at(23), 123);
      }
    }
  }
}

TEST(Nifti, AxesAndScalingReachTheTensor) {
  const auto volume = parse_nifti(sample(DataType::s16, 4, false, 2, 5), "v.nii");
  ASSERT_TRUE(volume.ok());
  VolumeOptions options;
  options.normalize = Normalize::none;
  for (const std::string axes : {"xyz", "zyx", "yxz", "zxy", "xzy", "yzx"}) {
    options.axes = axes;
    const auto tensor = volume_to_tensor(*volume, DataType::f32, {1, 1, -1, -1, -1}, options);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    const Dims& dims = tensor->desc.dims;
    const int size[] = {4, 3, 2}, weight[] = {1, 10, 100};
    for (int i = 0; i < 3; ++i) EXPECT_EQ(dims[2 + i], size[axes[i] - 'x']);
    std::int64_t at = 0;
    for (int d = 0; d < dims[2]; ++d) {
      for (int h = 0; h < dims[3]; ++h) {
        for (int w = 0; w < dims[4]; ++w, ++at) {
          const int stored = d * weight[axes[0] - 'x'] + h * weight[axes[1] - 'x'] + w * weight[axes[2] - 'x'];
          EXPECT_EQ(tensor->at(at), stored * 2 + 5) << axes;
        }
      }
    }
    // Labels go back to where they came from.
    HostTensor labels = *HostTensor::zeros(TensorDesc::packed(DataType::s64, {1, dims[2], dims[3], dims[4]}));
    for (std::int64_t i = 0; i < 24; ++i)
      labels.as<std::int64_t>()[i] = static_cast<std::int64_t>(tensor->at(i) - 5) / 2;
    const auto voxels = labels_to_voxels(labels, axes);
    ASSERT_TRUE(voxels.ok());
    for (int i = 0; i < 24; ++i) EXPECT_EQ(voxels->at(i), volume->data.at(i));
  }
}

TEST(Nifti, Normalisations) {
  const auto volume = parse_nifti(sample(DataType::u8, 2), "v.nii");
  ASSERT_TRUE(volume.ok());
  VolumeOptions options;
  const auto tensor = [&](std::string_view text) {
    EXPECT_TRUE(parse_normalize(text, options).ok()) << text;
    return *volume_to_tensor(*volume, DataType::f32, {1, 1, 4, 3, 2}, options);
  };
  EXPECT_NEAR(tensor("minmax").at(23), 1.0, 1e-6);
  EXPECT_NEAR(tensor("minmax").at(1), 100.0 / 123, 1e-6);
  const HostTensor z = tensor("zscore");
  double sum = 0, squares = 0;
  for (int i = 0; i < 24; ++i) sum += z.at(i), squares += z.at(i) * z.at(i);
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_NEAR(squares / 24, 1, 1e-4);
  EXPECT_NEAR(tensor("percentile:0:50").at(23), 1.0, 1e-6);
  for (const std::string_view bad :
       {"", "max", "percentile:5", "percentile:9:1", "percentile:1:2:3", "percentile:a:b"}) {
    EXPECT_FALSE(parse_normalize(bad, options).ok()) << bad;
  }
}

TEST(Nifti, WritesWithTheSameGeometry) {
  for (const bool big : {false, true}) {
    const auto volume = parse_nifti(sample(DataType::s16, 4, big, 2, 5), "v.nii");
    ASSERT_TRUE(volume.ok());
    for (const bool compress : {false, true}) {
      const auto file = format_nifti(volume->data, volume->header, compress);
      ASSERT_TRUE(file.ok());
      const auto back = parse_nifti(*file, "v.nii");
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(back->header.dims, volume->header.dims);
      EXPECT_EQ(back->header.slope, 1);
      EXPECT_EQ(std::memcmp(back->data.data.get(), volume->data.data.get(), 48), 0);
      float voxel_size = 0;
      std::memcpy(&voxel_size, back->header.raw.data() + 80, 4);
      EXPECT_EQ(voxel_size, 1.5F);
    }
  }
}

TEST(Nifti, EveryTruncationAndExtensionIsAnError) {
  const auto plain = sample(DataType::s16, 4);
  for (auto file : {plain, gzipped(plain)}) {
    ASSERT_TRUE(parse_nifti(file, "v.nii").ok());
    for (std::size_t length = 0; length < file.size(); ++length) {
      const auto result = parse_nifti(Bytes(file).first(length), "v.nii");
      ASSERT_FALSE(result.ok()) << length;
      EXPECT_TRUE(result.error().message.starts_with("v.nii: "));
    }
  }
  auto longer = plain;
  longer.push_back(std::byte{1});
  EXPECT_FALSE(parse_nifti(longer, "v.nii").ok());
  EXPECT_FALSE(parse_nifti(gzipped(longer), "v.nii").ok());
}

TEST(Nifti, BitFlipsNeverCrash) {
  const auto plain = sample(DataType::s16, 4);
  for (const auto& file : {plain, gzipped(plain)}) {
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      auto flipped = file;
      flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const auto result = parse_nifti(flipped, "v.nii");
      if (result.ok()) {
        EXPECT_LE(result->data.desc.bytes(), 48 * 1032);
      }
    }
  }
}

TEST(Nifti, HostileHeadersNameTheField) {
  struct Case {
    std::size_t at;
    std::int16_t value;
    std::string says;
  };
  const Case cases[] = {{40, 9, "dim[0]=9"},       {42, -3, "dim[1]=-3"}, {44, 32767, "need"},
                        {70, 128, "datatype=128"}, {72, 8, "bitpix=8"},   {110, 0x7f80, "vox_offset"},
                        {344, 0x1111, "magic"}};
  for (const Case& c : cases) {
    auto file = sample(DataType::s16, 4);
    std::memcpy(file.data() + c.at, &c.value, 2);
    const auto result = parse_nifti(file, "v.nii");
    ASSERT_FALSE(result.ok()) << c.says;
    EXPECT_NE(result.error().message.find(c.says), std::string::npos) << result.error().message;
  }
  // A small compressed file that claims 32767^3 voxels.
  auto file = sample(DataType::s16, 4);
  for (std::size_t at = 42; at <= 46; at += 2) std::memcpy(file.data() + at, "\xff\x7f", 2);
  const auto bomb = parse_nifti(gzipped(file), "v.nii.gz");
  ASSERT_FALSE(bomb.ok());
  EXPECT_NE(bomb.error().message.find("32767x32767x32767"), std::string::npos) << bomb.error().message;
}

TEST(Nifti, InputMismatchNamesBothSizes) {
  const auto volume = parse_nifti(sample(DataType::u8, 2), "v.nii");
  ASSERT_TRUE(volume.ok());
  const auto result = volume_to_tensor(*volume, DataType::f32, {1, 1, 8, 8, -1}, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "the volume 4x3x2 gives 1x1x4x3x2 (axes xyz), the input is 1x1x8x8x?");
}

}  // namespace
}  // namespace convoy::io
