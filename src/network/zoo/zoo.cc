#include "convoy/network.h"
#include "network/zoo/models.h"

namespace convoy {
namespace {

struct ZooModel {
  const char* name;
  std::string (*build)();
};

// In the order of the alphabet, as lists show it.
constexpr ZooModel kZoo[] = {
    {"convnext_tiny", zoo::convnext_tiny},
    {"densenet121", zoo::densenet121},
    {"efficientnet_b0", zoo::efficientnet_b0},
    {"googlenet", zoo::googlenet},
    {"mobilenet_v2", zoo::mobilenet_v2},
    {"resnet18", zoo::resnet18},
    {"resnet50", zoo::resnet50},
    {"resnext50_32x4d", zoo::resnext50_32x4d},
    {"squeezenet1_1", zoo::squeezenet1_1},
    {"unet", zoo::unet},
    {"unet3d", zoo::unet3d},
    {"vgg16", zoo::vgg16},
    {"yolo_tiny", zoo::yolo_tiny},
};

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooModel& model : kZoo) names.emplace_back(model.name);
  return names;
}

Result<std::string> zoo_model(const std::string& name) {
  std::string names;
  for (const ZooModel& model : kZoo) {
    if (name == model.name) return model.build();
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return Error{ErrorCode::not_found, "the zoo has no model '" + name + "'; it has " + names};
}

}  // namespace convoy
