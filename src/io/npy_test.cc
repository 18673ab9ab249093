#include "io/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace convoy::io {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* start = reinterpret_cast<const std::byte*>(text.data());
  return {start, start + text.size()};
}

// An .npy file of version `major` with this header text (padded as NumPy does) and data.
std::vector<std::byte> npy_file(const std::string& header, std::string_view data, int major = 1) {
  std::string text = header + "\n";
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return bytes_of(file + text + std::string(data));
}

std::string shape_header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (" + shape +
         "), }";
}

TEST(Npy, ReadsVersionsByteOrdersAndFortranOrder) {
  const std::string little("\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0", 12), big("\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06", 12);
  for (int major = 1; major <= 3; ++major) {
    for (const bool fortran : {false, true}) {
      for (const bool swap : {false, true}) {
        const auto file = npy_file(shape_header(swap ? ">i2" : "<i2", "2, 3", fortran), swap ? big : little, major);
        const auto tensor = parse_npy(file, "t.npy");
        ASSERT_TRUE(tensor.ok()) << tensor.error().message;
        EXPECT_EQ(tensor->desc.dims, (Dims{2, 3}));
        EXPECT_EQ(tensor->desc.type, DataType::s16);
        const std::vector<double> row_major = {1, 2, 3, 4, 5, 6}, column_major = {1, 3, 5, 2, 4, 6};
        for (int i = 0; i < 6; ++i) EXPECT_EQ(tensor->at(i), (fortran ? column_major : row_major)[i]);
      }
    }
  }
}

TEST(Npy, RoundTripsEveryType) {
  for (int t = 0; t <= static_cast<int>(DataType::boolean); ++t) {
    const auto type = static_cast<DataType>(t);
    for (const Dims& dims : {Dims{}, Dims{5}, Dims{2, 3, 4}, Dims{0, 3}}) {
      auto tensor = HostTensor::zeros(TensorDesc::packed(type, dims));
      ASSERT_TRUE(tensor.ok());
      for (std::int64_t i = 0; i < tensor->desc.elements(); ++i) store_from_double(type, tensor->data.get(), i, i % 7);
      const auto file = format_npy(*tensor);
      ASSERT_TRUE(file.ok());
      const auto back = parse_npy(*file, "t.npy");
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(back->desc.dims, dims);
      const bool widened = type == DataType::bf16 || type == DataType::f8_e4m3 || type == DataType::f8_e5m2;
      EXPECT_EQ(back->desc.type, widened ? DataType::f32 : type) << name_of(type);
      for (std::int64_t i = 0; i < tensor->desc.elements(); ++i) EXPECT_EQ(back->at(i), tensor->at(i));
    }
  }
}

TEST(Npy, WritesBlockedTensorsInOrder) {
  auto tensor = HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 3, 2, 2}));
  ASSERT_TRUE(tensor.ok());
  for (int i = 0; i < 12; ++i) tensor->as<float>()[i] = static_cast<float>(i);
  const auto blocked = converted(*tensor, tensor->desc.with_layout(Layout::nchw8c));
  ASSERT_TRUE(blocked.ok());
  const auto file = format_npy(*blocked);
  ASSERT_TRUE(file.ok());
  const auto back = parse_npy(*file, "t.npy");
  ASSERT_TRUE(back.ok());
  for (int i = 0; i < 12; ++i) EXPECT_EQ(back->at(i), i);
}

TEST(Npy, RawTypesNeedTheCallersWord) {
  const auto file = npy_file(shape_header("<V2", "2,"), std::string_view("\x80\x3f\0\x40", 4));
  const auto refused = parse_npy(file, "t.npy");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  const auto read = parse_npy(file, "t.npy", DataType::bf16);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->at(0), 1.0);
  EXPECT_EQ(read->at(1), 2.0);
}

TEST(Npy, RefusesWithTheReason) {
  struct Case {
    std::string header, says;
  };
  const Case cases[] = {
      {shape_header("<c8", "1,"), "'<c8' is not a tensor's type"},
      {shape_header("|O", "1,"), "'|O' is not a tensor's type"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "array of structures"},
      {shape_header("<f4", "-1,"), "dimension (0 or more)"},
      {shape_header("<f4", "99999999999999999999,"), "does not fit into 64 bits"},
      {shape_header("<f4", "4611686018427387904,4611686018427387904"), "overflow"},
      {shape_header("<f4", "1000000000000"), "needs 4000000000000 bytes of data, the file has 4"},
      {"{'descr': '<f4', 'shape': (1,), }", "no 'fortran_order'"},
      {"{'descr': '<f4', 'descr': '<f4'}", "repeated key 'descr'"},
      {"{'evil': 1}", "unknown or repeated key 'evil'"},
      {shape_header("<f4", "1,") + "x", "text after"},
  };
  for (const Case& c : cases) {
    const auto result = parse_npy(npy_file(c.header, "abcd"), "t.npy");
    ASSERT_FALSE(result.ok()) << c.header;
    EXPECT_NE(result.error().message.find(c.says), std::string::npos) << result.error().message;
    EXPECT_TRUE(result.error().message.starts_with("t.npy: ")) << result.error().message;
  }
}

TEST(Npy, EveryTruncationAndExtensionIsAnError) {
  const auto file = npy_file(shape_header("<f4", "2, 2"), std::string(16, 'x'));
  ASSERT_TRUE(parse_npy(file, "t.npy").ok());
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(parse_npy(Bytes(file).first(length), "t.npy").ok()) << length;
  }
  auto longer = file;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_npy(longer, "t.npy").ok());
}

TEST(Npy, BitFlipsNeverCrash) {
  const auto file = npy_file(shape_header("<f4", "2, 2"), std::string(16, 'x'));
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    auto flipped = file;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto result = parse_npy(flipped, "t.npy");
    if (result.ok()) {
      EXPECT_LE(result->desc.bytes(), 16);
    } else {
      EXPECT_FALSE(result.error().message.empty());
    }
  }
}

TEST(File, ErrorsNameTheFileAndReason) {
  const auto missing = read_file("no/such/file.npy");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().message.find("no/such/file.npy"), std::string::npos);
  const auto folder = read_file(std::filesystem::temp_directory_path());
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message.find("folder"), std::string::npos);
}

TEST(File, WritesWholeFilesOrNothing) {
  const auto folder = std::filesystem::temp_directory_path() / ("convoy_io_test_" + std::to_string(getpid()));
  ASSERT_TRUE(make_folder(folder / "deeper").ok());
  const std::string path = folder / "deeper" / "a.bin";
  ASSERT_TRUE(write_file(path, bytes_of("one")).ok());
  ASSERT_TRUE(write_file(path, bytes_of("two!")).ok());
  const auto back = read_file(path);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, bytes_of("two!"));
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / "deeper")) ++entries;
  EXPECT_EQ(entries, 1);
  EXPECT_FALSE(write_file(folder / "none" / "a.bin", bytes_of("x")).ok());
  EXPECT_FALSE(make_folder(path).ok());
  std::filesystem::remove_all(folder);
}

TEST(File, LowerExtension) {
  EXPECT_EQ(lower_extension("a/b.c/cat.PNG"), "png");
  EXPECT_EQ(lower_extension("x.NII.GZ"), "nii.gz");
  EXPECT_EQ(lower_extension("a.b/none"), "");
  EXPECT_EQ(lower_extension(".hidden"), "");
}

}  // namespace
}  // namespace convoy::io
