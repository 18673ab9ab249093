#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "convoy/network.h"
#include "onnx.pb.h"

namespace convoy {
namespace {

// FNV-1a over 64-bit words.
std::uint64_t hash(const std::string& bytes) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    h = (h ^ word) * 0x100000001b3ULL;
  }
  return h;
}

struct Expected {
  std::uint64_t fingerprint;  // of the whole model: a change is a change of what everybody compares against
  // Millions of parameters as the papers and model collections count them, without BatchNormalization's statistics;
  // GoogLeNet has the paper's 5x5 convolutions, U-Net no BatchNormalization. 0 where nobody counted.
  double parameters;
};

TEST(Zoo, ModelsAreThePublishedOnesAndTheSameEverywhere) {
  const std::map<std::string, Expected> all = {
      {"convnext_tiny", {0xa5ed39d39d9951cf, 28.59}},
      {"densenet121", {0xd76fb0c9fe32ba40, 7.98}},
      {"efficientnet_b0", {0x6e65c3f63070cfa9, 5.29}},
      {"googlenet", {0xa7cc1bd2452fe3c6, 7.0}},
      {"hunyuan_video_decoder", {0xf5aa310cc31a90f2, 146.14}},
      {"mobilenet_v2", {0xa13edc91282bba18, 3.50}},
      {"mobilenet_v3_large", {0xc284dd245ecf019, 5.483}},
      {"resnet18", {0x38d1435dba0ea5e4, 11.69}},
      {"resnet50", {0x1d2b8c83e7cf82f9, 25.56}},
      {"resnext50_32x4d", {0xaa39daa508254a35, 25.03}},
      {"squeezenet1_1", {0xb14d289f01dad2ed, 1.235}},
      {"unet", {0xf4f355a8d940fa1, 31.03}},
      {"unet3d", {0xfdde04aea4a0ad02, 19.07}},
      {"vgg16", {0xc512d0fe1df3f713, 138.36}},
      {"yolo_tiny", {0x4191a4f5a9c6cf9e, 0}},
      {"yolov8n", {0x340ff7439d2f3df4, 3.157}},
  };
  ASSERT_EQ(zoo_names().size(), all.size());
  for (const std::string& name : zoo_names()) {
    SCOPED_TRACE(name);
    const auto bytes = zoo_model(name);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    const Expected& expected = all.at(name);
    EXPECT_EQ(hash(*bytes), expected.fingerprint) << std::hex << hash(*bytes);
    ::onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(*bytes));
    double count = 0;
    for (const auto& tensor : model.graph().initializer()) {
      if (tensor.data_type() != ::onnx::TensorProto::FLOAT || tensor.dims_size() == 0) continue;
      if (tensor.name().find(".running_") != std::string::npos) continue;
      double elements = 1;
      for (const auto dim : tensor.dims()) elements *= static_cast<double>(dim);
      count += elements;
    }
    if (expected.parameters > 0) {
      EXPECT_NEAR(count / 1e6, expected.parameters, 0.005 * expected.parameters);
    }
  }
}

TEST(Zoo, UnknownNameListsTheKnownOnes) {
  const auto model = zoo_model("vgg99");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::not_found);
  EXPECT_NE(model.error().message.find("vgg99"), std::string::npos);
  for (const std::string& name : zoo_names()) EXPECT_NE(model.error().message.find(name), std::string::npos);
}

}  // namespace
}  // namespace convoy
