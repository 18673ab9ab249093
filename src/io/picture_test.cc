#include "io/picture.h"

#include <gtest/gtest.h>
#include <turbojpeg.h>

#include <cmath>
#include <cstring>

#include "io/exif.h"
#include "io/picture_input.h"
#include "io/picture_output.h"

namespace convoy::io {
namespace {

Picture pattern(int width, int height) {
  Picture picture{.width = width, .height = height};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        picture.rgb.push_back(static_cast<std::uint8_t>((x * 37 + y * 11 + c * 80 + x * y * 5) % 256));
      }
    }
  }
  return picture;
}

std::vector<std::byte> jpeg(const Picture& picture) {
  tjhandle encoder = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  const std::vector<unsigned char> rgb(picture.rgb.begin(), picture.rgb.end());
  EXPECT_EQ(
      tjCompress2(encoder, rgb.data(), picture.width, 0, picture.height, TJPF_RGB, &out, &size, TJSAMP_444, 95, 0), 0);
  const auto* start = reinterpret_cast<const std::byte*>(out);
  std::vector<std::byte> file(start, start + size);
  tjFree(out);
  tjDestroy(encoder);
  return file;
}

TEST(Picture, PngRoundTrip) {
  const Picture picture = pattern(7, 5);
  const auto file = encode_png(picture);
  ASSERT_TRUE(file.ok());
  const auto back = decode_picture(*file, "a.png");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->width, 7);
  EXPECT_EQ(back->height, 5);
  EXPECT_EQ(back->rgb, picture.rgb);
}

TEST(Picture, SixteenBitsKeepTheirLevels) {
  Picture picture = pattern(7, 5);
  picture.white = 65535;
  for (std::size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = static_cast<std::uint16_t>(i * 603 + 7);
  const auto back = decode_picture(*encode_png(picture), "a.png");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->white, 65535);
  EXPECT_EQ(back->rgb, picture.rgb);
  EXPECT_EQ(with_8_bits(*back).white, 255);
  EXPECT_EQ(with_8_bits(*back).rgb[1], (610 * 255 + 32767) / 65535);
}

// An APP1 segment with an orientation, as cameras write it, put behind the start of a JPEG.
std::vector<std::byte> with_exif(std::vector<std::byte> file, int orientation, bool little_endian) {
  std::string tiff = little_endian ? std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0?\0\0\0\0\0\0\0", 26)
                                   : std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0?\0\0\0\0\0\0", 26);
  tiff[tiff.find('?')] = static_cast<char>(orientation);
  std::string segment = std::string("\xff\xe1", 2) + '\0' + static_cast<char>(2 + 6 + tiff.size());
  segment += std::string("Exif\0\0", 6) + tiff;
  const auto* bytes = reinterpret_cast<const std::byte*>(segment.data());
  file.insert(file.begin() + 2, bytes, bytes + segment.size());
  return file;
}

// What each of EXIF's eight orientations stores in the first row and column of a file, in the words of its standard.
TEST(Picture, OrientationsAreTurnedUpright) {
  // Upright: 1 2 3 over 4 5 6.
  const struct {
    int orientation, width;
    std::vector<int> stored;
  } cases[] = {{1, 3, {1, 2, 3, 4, 5, 6}}, {2, 3, {3, 2, 1, 6, 5, 4}}, {3, 3, {6, 5, 4, 3, 2, 1}},
               {4, 3, {4, 5, 6, 1, 2, 3}}, {5, 2, {1, 4, 2, 5, 3, 6}}, {6, 2, {3, 6, 2, 5, 1, 4}},
               {7, 2, {6, 3, 5, 2, 4, 1}}, {8, 2, {4, 1, 5, 2, 6, 3}}};
  for (const auto& [orientation, width, stored] : cases) {
    Picture picture{.width = width, .height = 6 / width, .orientation = orientation};
    for (const int value : stored) {
      picture.rgb.insert(picture.rgb.end(), 3, static_cast<std::uint16_t>(value));
    }
    PictureReport report;
    const auto tensor = picture_to_tensor(picture, DataType::u8, {1, 1, -1, -1}, {}, &report);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    ASSERT_EQ(tensor->desc.dims, (Dims{1, 1, 2, 3})) << orientation;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(tensor->at(i), i + 1) << orientation;
    EXPECT_EQ(report.orientation, orientation);
    const auto kept = picture_to_tensor(picture, DataType::u8, {1, 1, -1, -1}, {.as_stored = true});
    ASSERT_TRUE(kept.ok());
    for (int i = 0; i < 6; ++i) EXPECT_EQ(kept->at(i), stored[i]) << orientation;
  }
}

TEST(Picture, ExifOfJpegs) {
  const auto plain = jpeg(pattern(16, 8));
  EXPECT_EQ(decode_picture(plain, "a.jpg")->orientation, 1);
  for (const bool little_endian : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      EXPECT_EQ(decode_picture(with_exif(plain, orientation, little_endian), "a.jpg")->orientation, orientation);
    }
    EXPECT_EQ(decode_picture(with_exif(plain, 9, little_endian), "a.jpg")->orientation, 1);
  }
  // Damaged EXIF is none: cut off anywhere, or pointing outside.
  const auto exif = with_exif(plain, 6, true);
  for (std::size_t length = 0; length < 60; ++length) jpeg_orientation(Bytes(exif).first(length));
  auto outside = exif;
  outside[2 + 4 + 6 + 4] = std::byte{0xff};
  EXPECT_EQ(jpeg_orientation(outside), 1);
}

TEST(Picture, JpegIsCloseToWhatWasWritten) {
  Picture picture{.width = 32, .height = 16};
  for (int i = 0; i < 32 * 16; ++i) picture.rgb.insert(picture.rgb.end(), {200, 100, 50});
  const auto back = decode_picture(jpeg(picture), "a.jpg");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->width, 32);
  for (std::size_t i = 0; i < back->rgb.size(); ++i) EXPECT_NEAR(back->rgb[i], picture.rgb[i], 2);
}

TEST(Picture, EveryTruncationIsAnError) {
  const Picture picture = pattern(16, 16);
  for (const auto& file : {*encode_png(picture), jpeg(picture)}) {
    // The last two bytes of a JPEG are its end marker, without which decoders can't tell that anything is missing.
    for (std::size_t length = 0; length < file.size(); ++length) {
      const auto result = decode_picture(Bytes(file).first(length), "a.png");
      ASSERT_FALSE(result.ok()) << length << " of " << file.size();
      EXPECT_TRUE(result.error().message.starts_with("a.png: ")) << result.error().message;
    }
  }
}

TEST(Picture, BitFlipsNeverCrash) {
  const Picture picture = pattern(16, 16);
  for (const auto& file : {*encode_png(picture), jpeg(picture)}) {
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      auto flipped = file;
      flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const auto result = decode_picture(flipped, "a.png");
      if (result.ok()) {
        EXPECT_EQ(result->rgb.size(), static_cast<std::size_t>(result->width) * result->height * 3);
      }
    }
  }
}

TEST(Picture, ClaimsThatTheFileCannotHoldAreRefused) {
  EXPECT_FALSE(allocate_picture(20000, 20000, 1 << 30, 1000).ok());  // over the pixel limit
  EXPECT_FALSE(allocate_picture(0, 4, 100, 1000).ok());
  EXPECT_FALSE(allocate_picture(65501, 1, 1 << 20, 1000).ok());
  const auto bomb = allocate_picture(10000, 10000, 500, 1000);
  ASSERT_FALSE(bomb.ok());
  EXPECT_NE(bomb.error().message.find("10000x10000"), std::string::npos);
  EXPECT_TRUE(allocate_picture(1000, 1000, 5000, 1000).ok());
}

TEST(Picture, OtherFilesAreNamed) {
  const auto said = [](const std::string& file) {
    return decode_picture(std::as_bytes(std::span(file)), "x.jpg").error().message;
  };
  EXPECT_EQ(said("something"), "x.jpg: byte 0: neither a PNG nor a JPEG file");
  EXPECT_EQ(said("").find("x.jpg: byte 0: neither a PNG nor a JPEG file but empty (0 bytes)"), 0U);
  EXPECT_NE(said("version https://git-lfs.github.com/spec/v1").find("git lfs pull"), std::string::npos);
}

// Red channel of Pillow 11's Image.resize(size, BILINEAR) on pattern(7, 5).
TEST(Resize, MatchesPillow) {
  const std::vector<int> smaller = {47, 133, 135, 78, 156, 87};
  const std::vector<int> larger = {
      0,   20,  46,  72,  98,  124, 150, 176, 202, 222, 4,   25,  52,  79,  106, 133, 160, 188, 176, 150, 10,  32,  62,
      91,  119, 149, 178, 207, 134, 31,  16,  40,  72,  102, 133, 164, 189, 141, 79,  25,  22,  48,  81,  114, 147, 179,
      200, 53,  22,  48,  28,  56,  90,  125, 160, 195, 217, 72,  43,  71,  34,  63,  100, 136, 174, 200, 207, 85,  64,
      94,  40,  71,  109, 148, 187, 166, 90,  69,  86,  116, 44,  75,  115, 155, 195, 145, 19,  59,  99,  130};
  const Picture small = resize_bilinear(pattern(7, 5), 3, 2);
  for (std::size_t i = 0; i < smaller.size(); ++i) EXPECT_EQ(small.rgb[i * 3], smaller[i]) << i;
  const Picture large = resize_bilinear(pattern(7, 5), 10, 9);
  for (std::size_t i = 0; i < larger.size(); ++i) EXPECT_EQ(large.rgb[i * 3], larger[i]) << i;
}

TEST(PictureInput, ImageNetDefaults) {
  const Picture picture = pattern(4, 4);
  const auto tensor = picture_to_tensor(picture, DataType::f32, {1, 3, 4, 4}, {});
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 16; ++i) {
      EXPECT_NEAR(tensor->at(c * 16 + i), (picture.rgb[i * 3 + c] / 255.0 - mean[c]) / std[c], 1e-6);
    }
  }
}

TEST(PictureInput, ValuesAreWhatTheOptionsSay) {
  const Picture picture = pattern(4, 4);
  const auto first = [&](PictureOptions options, DataType type = DataType::f32) {
    return picture_to_tensor(picture, type, {1, 3, 4, 4}, options)->at(16);  // green
  };
  const double green = picture.rgb[1];
  EXPECT_NEAR(first({.values = PixelValues::unit}), green / 255, 1e-6);
  EXPECT_NEAR(first({.values = PixelValues::signed_unit}), green / 127.5 - 1, 1e-6);
  EXPECT_EQ(first({.values = PixelValues::raw}), green);
  EXPECT_EQ(first({.values = PixelValues::imagenet}, DataType::u8), green);
  EXPECT_NEAR(first({.values = PixelValues::unit, .mean = {0, 0.25, 0}}), green / 255 - 0.25, 1e-6);
  EXPECT_NEAR(first({.values = PixelValues::raw, .std = {2}}), green / 2, 1e-6);
}

TEST(PictureInput, IntegersHoldAllLevelsOrSaySo) {
  const Picture picture = pattern(4, 4);
  const auto first = [](const Picture& from, DataType type, const PictureOptions& options = {}) {
    return picture_to_tensor(from, type, {1, 3, 4, 4}, options);
  };
  const double green = picture.rgb[1];
  EXPECT_EQ(first(picture, DataType::s8)->at(16), green - 128);
  EXPECT_EQ(first(picture, DataType::s8, {.values = PixelValues::raw, .scale = 0.5})->at(16),
            std::nearbyint(green / 2));
  EXPECT_EQ(first(picture, DataType::s16)->at(16), green);
  const auto cut_off = first(picture, DataType::s8, {.values = PixelValues::raw});
  ASSERT_FALSE(cut_off.ok());
  EXPECT_EQ(cut_off.error().message,
            "pixels of 0 to 255 would become 0 to 255, which s8 can't hold: change mean, std, scale or raw");
  EXPECT_FALSE(first(picture, DataType::u8, {.mean = {1}}).ok());

  Picture deep = picture;
  deep.white = 65535;
  deep.rgb[1] = 40000;
  EXPECT_EQ(first(deep, DataType::u8)->at(16), 156);
  EXPECT_EQ(first(deep, DataType::s8)->at(16), 156 - 128);
  EXPECT_EQ(first(deep, DataType::u16)->at(16), 40000);
  EXPECT_EQ(first(deep, DataType::s16)->at(16), 40000 - 32768);
  EXPECT_EQ(first(deep, DataType::s32)->at(16), 40000);
  EXPECT_NEAR(first(deep, DataType::f32, {.values = PixelValues::unit})->at(16), 40000 / 65535.0, 1e-6);
  EXPECT_EQ(first(deep, DataType::f32, {.values = PixelValues::raw})->at(16), 40000);
  EXPECT_FALSE(first(deep, DataType::f16, {.values = PixelValues::raw}).ok());  // 65535 would be infinite
}

TEST(PictureInput, ReportsWhatBecameOfThePicture) {
  PictureReport report;
  ASSERT_TRUE(picture_to_tensor(pattern(4, 4), DataType::f32, {1, 3, 8, 8}, {}, &report).ok());
  EXPECT_NE(report.warning.find("enlarged 2.0 times"), std::string::npos) << report.warning;
  EXPECT_EQ(report.height, 8);
  EXPECT_EQ(report.fitted.rgb.size(), 8U * 8 * 3);
}

TEST(PictureOutput, RangesFollowTheValues) {
  const auto range = [](DataType type, double low, double high) {
    const ValueRange r = guess_range(type, low, high);
    return std::pair(r.black, r.white);
  };
  EXPECT_EQ(range(DataType::f32, -0.02, 1.01), std::pair(0.0, 1.0));
  EXPECT_EQ(range(DataType::f32, -0.9, 1.0), std::pair(-1.0, 1.0));
  EXPECT_EQ(range(DataType::f16, -3, 261), std::pair(0.0, 255.0));
  EXPECT_EQ(range(DataType::u8, 0, 1), std::pair(0.0, 255.0));
}

TEST(PictureOutput, IsThePictureThatWentIn) {
  const Picture picture = pattern(5, 3);
  for (const bool channels_last : {false, true}) {
    const Dims dims = channels_last ? Dims{1, 3, 5, 3} : Dims{1, 3, 3, 5};
    const auto tensor = picture_to_tensor(
        picture, DataType::f32, dims,
        {.channels_at = channels_last ? ChannelsAt::last : ChannelsAt::first, .values = PixelValues::signed_unit});
    ASSERT_TRUE(tensor.ok());
    const PixelMap map{.items = 1, .channels = 3, .spatial = {3, 5}, .channels_last = channels_last};
    const auto out = tensor_to_picture(*tensor, map, 0, {-1, 1});
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(out->rgb, picture.rgb);
  }
}

TEST(PictureOutput, ClipsAndSurvivesWhatIsNotANumber) {
  HostTensor tensor = *HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 1, 1, 4}));
  const float values[] = {-5, NAN, 7, 0.5F};
  std::memcpy(tensor.data.get(), values, sizeof values);
  const auto out = tensor_to_picture(tensor, {.spatial = {1, 4}}, 0, {});
  ASSERT_TRUE(out.ok());
  const std::vector<std::uint16_t> expected = {0, 0, 0, 0, 0, 0, 255, 255, 255, 128, 128, 128};
  EXPECT_EQ(out->rgb, expected);
  EXPECT_FALSE(tensor_to_picture(tensor, {.channels = 4, .spatial = {1, 1}}, 0, {}).ok());
}

TEST(PictureOutput, LabelsHaveTheColoursOfPascalVoc) {
  HostTensor labels = *HostTensor::zeros(TensorDesc::packed(DataType::s32, {1, 1, 6}));
  const std::int32_t values[] = {0, 1, 2, 3, 20, -1};
  std::memcpy(labels.data.get(), values, sizeof values);
  const auto out = label_picture(labels, 0, 1, 6);
  ASSERT_TRUE(out.ok());
  const std::vector<std::uint16_t> expected = {0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0, 0, 64, 128, 255, 255, 255};
  EXPECT_EQ(out->rgb, expected);
}

TEST(PictureOutput, TakesBrightnessFromOneAndColoursFromTheOther) {
  const Picture red{.width = 1, .height = 1, .rgb = {150, 50, 50}};  // its brightness is 79.9
  const Picture out = with_colours_of({.width = 1, .height = 1, .rgb = {100, 100, 100}}, red);
  EXPECT_EQ(out.rgb, (std::vector<std::uint16_t>{170, 70, 70}));
}

TEST(PictureInput, LayoutOrderAndPlainPixels) {
  const Picture picture = pattern(4, 2);
  PictureOptions options;
  options.bgr = true;
  const auto tensor = picture_to_tensor(picture, DataType::u8, {-1, 2, 4, 3}, options);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  EXPECT_EQ(tensor->desc.dims, (Dims{1, 2, 4, 3}));
  for (int i = 0; i < 8; ++i) {
    for (int c = 0; c < 3; ++c) EXPECT_EQ(tensor->at(i * 3 + c), picture.rgb[i * 3 + 2 - c]);
  }
}

TEST(PictureInput, CoversThenCropsTheCentre) {
  Picture picture{.width = 9, .height = 3};
  for (int i = 0; i < 27; ++i) {
    const auto x = static_cast<std::uint8_t>(i % 9);
    picture.rgb.insert(picture.rgb.end(), {x, x, x});
  }
  PictureOptions options;
  options.scale = 1;
  const auto tensor = picture_to_tensor(picture, DataType::f32, {1, 1, 3, 3}, options);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  for (int i = 0; i < 9; ++i) EXPECT_EQ(tensor->at(i), 3 + i % 3);
}

TEST(PictureInput, FreeSizesAreThePictures) {
  const auto tensor = picture_to_tensor(pattern(6, 5), DataType::f32, {-1, 3, -1, -1}, {});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->desc.dims, (Dims{1, 3, 5, 6}));
}

TEST(PictureInput, ErrorsNameTheSizes) {
  const Picture picture = pattern(4, 4);
  PictureOptions options;
  options.mean = {1, 2};
  const auto mean = picture_to_tensor(picture, DataType::f32, {1, 3, 4, 4}, options);
  ASSERT_FALSE(mean.ok());
  EXPECT_EQ(mean.error().message, "mean has 2 values, the input has 3 channels");
  EXPECT_FALSE(picture_to_tensor(picture, DataType::f32, {1, 7, 4, 4}, {}).ok());
  EXPECT_FALSE(picture_to_tensor(picture, DataType::f32, {1, 3}, {}).ok());
  EXPECT_FALSE(picture_to_tensor(picture, DataType::f32, {1, 3, std::int64_t{1} << 40, 4}, {}).ok());
  PictureOptions none;
  none.resize = ResizeMode::none;
  EXPECT_FALSE(picture_to_tensor(picture, DataType::f32, {1, 3, 5, 5}, none).ok());
}

}  // namespace
}  // namespace convoy::io
