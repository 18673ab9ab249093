// The networks of the zoo; each gives a serialized ONNX model. zoo.cc has the table.
#pragma once

#include <string>

namespace convoy::zoo {

std::string convnext_tiny();
std::string densenet121();
std::string efficientnet_b0();
std::string googlenet();
std::string hunyuan_video_decoder();
std::string mobilenet_v2();
std::string mobilenet_v3_large();
std::string resnet18();
std::string resnet50();
std::string resnext50_32x4d();
std::string squeezenet1_1();
std::string unet();
std::string unet3d();
std::string vgg16();
std::string yolo_tiny();
std::string yolov8n();

}  // namespace convoy::zoo
