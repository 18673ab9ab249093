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

// A change here is a change of what everybody compares against.
TEST(Zoo, ModelsAreTheSameEverywhere) {
  const std::map<std::string, std::uint64_t> expected = {
      {"convnext_tiny", 0},
  };
  ASSERT_EQ(zoo_names().size(), expected.size());
  for (const std::string& name : zoo_names()) {
    const auto bytes = zoo_model(name);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(hash(*bytes), expected.at(name)) << name << " " << std::hex << hash(*bytes);
  }
}

TEST(Zoo, UnknownNameListsTheKnownOnes) {
  const auto model = zoo_model("vgg99");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, ErrorCode::not_found);
  EXPECT_NE(model.error().message.find("vgg99"), std::string::npos);
  for (const std::string& name : zoo_names()) EXPECT_NE(model.error().message.find(name), std::string::npos);
}

// Parameters as the papers and model collections count them, in millions, for the networks that have such a count.
// BatchNormalization's statistics are no parameters. GoogLeNet here has the paper's 5x5 convolutions.
TEST(Zoo, ModelsHaveTheirKnownParameterCounts) {
  const std::pair<const char*, double> kKnown[] = {
      {"convnext_tiny", 28.59}, {"densenet121", 7.98}, {"efficientnet_b0", 5.29}, {"googlenet", 7.0},
      {"mobilenet_v2", 3.50},   {"resnet18", 11.69},   {"resnet50", 25.56},       {"resnext50_32x4d", 25.03},
      {"squeezenet1_1", 1.24},  {"unet", 31.03},       {"unet3d", 19.07},         {"vgg16", 138.36}};
  for (const auto& [name, millions] : kKnown) {
    const auto bytes = zoo_model(name);
    ASSERT_TRUE(bytes.ok());
    ::onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(*bytes)) << name;
    double count = 0;
    for (const auto& tensor : model.graph().initializer()) {
      if (tensor.name().find(".running_") != std::string::npos) continue;
      double elements = tensor.dims_size() == 0 ? 0 : 1;
      for (const auto dim : tensor.dims()) elements *= static_cast<double>(dim);
      count += elements;
    }
    EXPECT_NEAR(count / 1e6, millions, 0.006 * millions) << name;
  }
}

}  // namespace
}  // namespace convoy
