#include "convoy/network.h"
#include "network/graph/zoo/models.h"

namespace convoy {
namespace {

struct ZooModel {
  const char* name;
  std::string (*build)();
  const char* description;
};

// In the order of the alphabet, as lists show it.
constexpr ZooModel kZoo[] = {
    {"convnext_tiny", zoo::convnext_tiny, "classifier, 7x7 depthwise and LayerNormalization; 224x224, any from 32"},
    {"densenet121", zoo::densenet121, "classifier, dense blocks; 224x224, any from 32"},
    {"efficientnet_b0", zoo::efficientnet_b0, "classifier, squeeze and excitation, SiLU; 224x224, any"},
    {"googlenet", zoo::googlenet, "classifier, branches of 1x1, 3x3 and 5x5; 224x224, any from 15"},
    {"hunyuan_video_decoder", zoo::hunyuan_video_decoder,
     "decoder of latent video, causal 3D; 3x8x8 gives 9x64x64, any"},
    {"mobilenet_v2", zoo::mobilenet_v2, "classifier, inverted residuals; 224x224, any"},
    {"mobilenet_v3_large", zoo::mobilenet_v3_large, "classifier, squeeze and excitation, hard swish; 224x224, any"},
    {"resnet18", zoo::resnet18, "classifier, residual 3x3; 224x224, any"},
    {"resnet50", zoo::resnet50, "classifier, residual bottlenecks; 224x224, any"},
    {"resnext50_32x4d", zoo::resnext50_32x4d, "classifier, bottlenecks in 32 groups; 224x224, any"},
    {"squeezenet1_1", zoo::squeezenet1_1, "classifier, fire modules; 224x224, any from 17"},
    {"unet", zoo::unet, "segmentation of one channel, unpadded; 572x572, 188 and multiples of 16 more"},
    {"unet3d", zoo::unet3d, "segmentation of volumes, unpadded; 116x132x132, 92 and multiples of 8 more"},
    {"vgg16", zoo::vgg16, "classifier, plain 3x3, fully convolutional; 224x224, any from 224"},
    {"yolo_tiny", zoo::yolo_tiny, "detector: backbone, neck and decoupled head; 640x640, multiples of 32"},
    {"yolov8n", zoo::yolov8n, "detector with its tail, distributions of distances; 640x640, multiples of 32"},
};

Result<const ZooModel*> find(const std::string& name) {
  std::string names;
  for (const ZooModel& model : kZoo) {
    if (name == model.name) return &model;
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return Error{ErrorCode::not_found, "the zoo has no model '" + name + "'; it has " + names};
}

}  // namespace

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const ZooModel& model : kZoo) names.emplace_back(model.name);
  return names;
}

Result<std::string> zoo_description(const std::string& name) {
  CONVOY_TRY(const ZooModel* model, find(name));
  return std::string(model->description);
}

Result<std::string> zoo_model(const std::string& name) {
  CONVOY_TRY(const ZooModel* model, find(name));
  return model->build();
}

}  // namespace convoy
