#include "interposer/failures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace convoy::interposer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFailures = 1000;  // different ones; a program may fail in a loop
constexpr int kDeepest = 4;                  // an operation's tensors, a graph's operations' tensors

// clang-format off
#define CONVOY_ATTRIBUTES(X) \
  X(POINTWISE_MODE) X(POINTWISE_MATH_PREC) X(POINTWISE_RELU_LOWER_CLIP) X(POINTWISE_RELU_UPPER_CLIP) \
  X(POINTWISE_RELU_LOWER_CLIP_SLOPE) X(POINTWISE_ELU_ALPHA) X(POINTWISE_SWISH_BETA) X(CONVOLUTION_COMP_TYPE) \
  X(CONVOLUTION_CONV_MODE) X(CONVOLUTION_DILATIONS) X(CONVOLUTION_FILTER_STRIDES) X(CONVOLUTION_POST_PADDINGS) \
  X(CONVOLUTION_PRE_PADDINGS) X(CONVOLUTION_SPATIAL_DIMS) X(ENGINEHEUR_MODE) X(ENGINEHEUR_OPERATION_GRAPH) \
  X(ENGINEHEUR_SM_COUNT_TARGET) X(ENGINECFG_ENGINE) X(ENGINECFG_KNOB_CHOICES) X(KNOB_CHOICE_KNOB_TYPE) \
  X(KNOB_CHOICE_KNOB_VALUE) X(OPERATION_CONVOLUTION_FORWARD_ALPHA) X(OPERATION_CONVOLUTION_FORWARD_BETA) \
  X(OPERATION_CONVOLUTION_FORWARD_CONV_DESC) X(OPERATION_CONVOLUTION_FORWARD_W) \
  X(OPERATION_CONVOLUTION_FORWARD_X) X(OPERATION_CONVOLUTION_FORWARD_Y) X(OPERATION_CONVOLUTION_BWD_DATA_ALPHA) \
  X(OPERATION_CONVOLUTION_BWD_DATA_BETA) X(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC) \
  X(OPERATION_CONVOLUTION_BWD_DATA_W) X(OPERATION_CONVOLUTION_BWD_DATA_DX) X(OPERATION_CONVOLUTION_BWD_DATA_DY) \
  X(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA) X(OPERATION_CONVOLUTION_BWD_FILTER_BETA) \
  X(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC) X(OPERATION_CONVOLUTION_BWD_FILTER_DW) \
  X(OPERATION_CONVOLUTION_BWD_FILTER_X) X(OPERATION_CONVOLUTION_BWD_FILTER_DY) \
  X(OPERATION_POINTWISE_PW_DESCRIPTOR) X(OPERATION_POINTWISE_XDESC) X(OPERATION_POINTWISE_BDESC) \
  X(OPERATION_POINTWISE_YDESC) X(OPERATION_POINTWISE_ALPHA1) X(OPERATION_POINTWISE_ALPHA2) \
  X(OPERATIONGRAPH_OPS) X(OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED) X(TENSOR_BYTE_ALIGNMENT) X(TENSOR_DATA_TYPE) \
  X(TENSOR_DIMENSIONS) X(TENSOR_STRIDES) X(TENSOR_VECTOR_COUNT) X(TENSOR_VECTORIZED_DIMENSION) \
  X(TENSOR_UNIQUE_ID) X(TENSOR_IS_VIRTUAL) X(TENSOR_IS_BY_VALUE) X(TENSOR_REORDERING_MODE) \
  X(TENSOR_RAGGED_OFFSET_DESC) X(ENGINE_OPERATION_GRAPH) X(ENGINE_GLOBAL_INDEX) X(ENGINE_SM_COUNT_TARGET)
#define CONVOY_DESCRIPTORS(X) \
  X(POINTWISE) X(CONVOLUTION) X(ENGINE) X(ENGINECFG) X(ENGINEHEUR) X(EXECUTION_PLAN) X(KNOB_CHOICE) \
  X(OPERATION_CONVOLUTION_FORWARD) X(OPERATION_CONVOLUTION_BACKWARD_FILTER) \
  X(OPERATION_CONVOLUTION_BACKWARD_DATA) X(OPERATION_POINTWISE) X(OPERATIONGRAPH) X(TENSOR) X(MATMUL) \
  X(OPERATION_MATMUL) X(REDUCTION) X(OPERATION_REDUCTION) X(RESAMPLE) X(OPERATION_RESAMPLE_FWD) \
  X(OPERATION_RESAMPLE_BWD) X(OPERATION_NORM_FORWARD) X(OPERATION_NORM_BACKWARD) X(OPERATION_RESHAPE)
#define CONVOY_DATA_TYPES(X) \
  X(FLOAT) X(DOUBLE) X(HALF) X(INT8) X(INT32) X(UINT8) X(BFLOAT16) X(INT64) X(BOOLEAN) X(FP8_E4M3) X(FP8_E5M2)
// clang-format on

std::string name_of(cudnnBackendAttributeName_t attribute) {
  switch (attribute) {
#define CONVOY_ROW(name)  \
  case CUDNN_ATTR_##name: \
    return "CUDNN_ATTR_" #name;
    CONVOY_ATTRIBUTES(CONVOY_ROW)
#undef CONVOY_ROW
    default:
      return fmt::format("attribute {}", static_cast<int>(attribute));
  }
}

std::string name_of(cudnnBackendDescriptorType_t descriptor) {
  switch (descriptor) {
#define CONVOY_ROW(name)                  \
  case CUDNN_BACKEND_##name##_DESCRIPTOR: \
    return "CUDNN_BACKEND_" #name "_DESCRIPTOR";
    CONVOY_DESCRIPTORS(CONVOY_ROW)
#undef CONVOY_ROW
    default:
      return fmt::format("descriptor type {}", static_cast<int>(descriptor));
  }
}

std::string name_of(cudnnDataType_t type) {
  switch (type) {
#define CONVOY_ROW(name)  \
  case CUDNN_DATA_##name: \
    return "CUDNN_DATA_" #name;
    CONVOY_DATA_TYPES(CONVOY_ROW)
#undef CONVOY_ROW
    default:
      return fmt::format("data type {}", static_cast<int>(type));
  }
}

// One value as itself, several as a list.
template <class T, class Print>
Json values_of(const Snapshot& snapshot, cudnnBackendAttributeName_t name, Print print) {
  Json list = Json::array();
  for (const T& value : snapshot.values<T>(name)) list.push_back(print(value));
  return list.size() == 1 ? list[0] : list;
}

Json attributes_of(const Snapshot& snapshot, int depth) {
  Json json = Json::object();
  const auto itself = [](auto value) { return value; };
  for (const auto& attribute : snapshot.attributes()) {
    Json value;
    switch (attribute.type) {
      case CUDNN_TYPE_INT64:
        value = values_of<std::int64_t>(snapshot, attribute.name, itself);
        break;
      case CUDNN_TYPE_DOUBLE:
        value = values_of<double>(snapshot, attribute.name, itself);
        break;
      case CUDNN_TYPE_FLOAT:
        value = values_of<float>(snapshot, attribute.name, itself);
        break;
      case CUDNN_TYPE_BOOLEAN:
        value = values_of<char>(snapshot, attribute.name, [](char each) { return each != 0; });
        break;
      case CUDNN_TYPE_DATA_TYPE:
        value =
            values_of<cudnnDataType_t>(snapshot, attribute.name, [](cudnnDataType_t type) { return name_of(type); });
        break;
      case CUDNN_TYPE_BACKEND_DESCRIPTOR: {
        Json list = Json::array();
        for (const auto& child : attribute.children) {
          list.push_back(child == nullptr || depth == kDeepest ? Json() : attributes_of(*child, depth + 1));
        }
        value = list.size() == 1 ? list[0] : list;
        break;
      }
      case CUDNN_TYPE_HANDLE:
      case CUDNN_TYPE_VOID_PTR:
        continue;  // addresses say nothing
      default:
        if (attribute.bytes.size() % sizeof(std::int32_t) != 0) continue;
        value = values_of<std::int32_t>(snapshot, attribute.name, itself);  // enumerators
    }
    json[name_of(attribute.name)] = std::move(value);
  }
  return json;
}

}  // namespace

void Failures::add(const Snapshot& snapshot, const std::string& status, const std::string& message,
                   const std::string& problem, const std::string& candidate) {
  Json failure{{"descriptor", name_of(snapshot.type())}, {"status", status}, {"message", message}};
  if (!candidate.empty()) {
    failure["candidate"] = candidate;  // a plan's attributes say no more
  } else {
    failure["attributes"] = attributes_of(snapshot, 0);
  }
  if (!problem.empty()) failure["problem"] = problem;
  std::string text = failure.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(text);
  if (found != counts_.end()) {
    ++found->second;
  } else if (counts_.size() < kMostFailures) {
    counts_.emplace(std::move(text), 1);
  } else {
    ++left_out_;
  }
}

std::string Failures::lines() const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& [text, count] : counts_) {
    const std::string_view open = std::string_view(text).substr(0, text.size() - 1);
    all += fmt::format("{{\"failure\":{},\"count\":{}}}}}\n", open, count);
  }
  return all;
}

std::int64_t Failures::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

void Failures::clear() {
  counts_.clear();
  left_out_ = 0;
}

}  // namespace convoy::interposer
