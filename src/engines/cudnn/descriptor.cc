#include "engines/cudnn/descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace convoy::cudnn {

namespace {

// cuDNN's last words are one expression that failed, or a trail of warnings with a "Reason: " each, of which the
// different ones say something.
std::string reasons_in(std::string_view words) {
  constexpr std::string_view mark = "Reason: ";
  constexpr std::size_t longest = 300;
  std::vector<std::string_view> reasons;
  for (std::size_t at = words.find(mark); at != std::string_view::npos; at = words.find(mark, at)) {
    at += mark.size();
    const std::string_view reason = words.substr(at, words.find('\n', at) - at);
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  }
  std::string text;
  for (const std::string_view reason : reasons) text += (text.empty() ? "" : "; ") + std::string(reason);
  if (reasons.empty()) text = words;
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

}  // namespace

Failure failure_of(const Api& api, cudnnStatus_t status) {
  std::array<char, 4096> words{};
  api.GetLastErrorString(words.data(), words.size());
  std::string text = fmt::format("{} ({})", api.GetErrorString(status), static_cast<int>(status));
  const std::string reasons = reasons_in(words.data());
  if (!reasons.empty()) text += ", " + reasons;
  return {status, std::move(text)};
}

RefusalCode code_of(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER:
    case CUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART:
    case CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT:
      return RefusalCode::device;
    case CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING:
    case CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE:
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
      return RefusalCode::not_built;
    case CUDNN_STATUS_NOT_SUPPORTED_SHAPE:
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH:
    case CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND:
      return RefusalCode::size;
    case CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE:
      return RefusalCode::data_type;
    case CUDNN_STATUS_NOT_SUPPORTED_LAYOUT:
      return RefusalCode::layout;
    case CUDNN_STATUS_NOT_SUPPORTED_PADDING:
      return RefusalCode::padding;
    case CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER:
      return RefusalCode::alignment;
    default:
      return RefusalCode::not_offered;
  }
}

Refusal refusal_of(const Failure& failure, std::string_view what) {
  return {code_of(failure.status), fmt::format("{}: {}", what, failure.text)};
}

Error error_of(const Failure& failure, std::string_view what) {
  const int category = failure.status / 1000;
  ErrorCode code = category == 2 || category == 3 ? ErrorCode::unsupported
                   : category == 5                ? ErrorCode::device_failed
                                                  : ErrorCode::internal;
  if (failure.status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      failure.status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = ErrorCode::out_of_memory;
  }
  return {code, fmt::format("{}: {}", what, failure.text)};
}

Descriptor::Descriptor(const Api& api, cudnnBackendDescriptorType_t type) : api_(&api) {
  const cudnnStatus_t status = api.BackendCreateDescriptor(type, &raw_);
  if (status == CUDNN_STATUS_SUCCESS) return;
  raw_ = nullptr;
  failure_ = failure_of(api, status);
}

Descriptor Descriptor::borrowed(const Api& api, cudnnBackendDescriptor_t raw) {
  Descriptor descriptor;
  descriptor.api_ = &api;
  descriptor.raw_ = raw;
  descriptor.owned_ = false;
  return descriptor;
}

Descriptor::~Descriptor() {
  if (raw_ != nullptr && owned_) api_->BackendDestroyDescriptor(raw_);
}

Descriptor& Descriptor::set_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                  std::int64_t count, const void* values) {
  if (!ok()) return *this;
  const cudnnStatus_t status = api_->BackendSetAttribute(raw_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS) failure_ = failure_of(*api_, status);
  return *this;
}

Descriptor& Descriptor::finalize() {
  if (!ok()) return *this;
  const cudnnStatus_t status = api_->BackendFinalize(raw_);
  if (status != CUDNN_STATUS_SUCCESS) failure_ = failure_of(*api_, status);
  return *this;
}

std::int64_t Descriptor::count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
  std::int64_t elements = 0;
  if (raw_ == nullptr) return 0;
  const cudnnStatus_t status = api_->BackendGetAttribute(raw_, name, type, 0, &elements, nullptr);
  return status == CUDNN_STATUS_SUCCESS ? elements : 0;
}

std::int64_t Descriptor::get_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                   std::int64_t most, void* values) const {
  std::int64_t elements = 0;
  if (raw_ == nullptr) return 0;
  const cudnnStatus_t status = api_->BackendGetAttribute(raw_, name, type, most, &elements, values);
  return status == CUDNN_STATUS_SUCCESS ? std::clamp<std::int64_t>(elements, 0, most) : 0;
}

std::vector<Descriptor> Descriptor::get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                        std::int64_t most) const {
  std::vector<Descriptor> children;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i) {
    children.emplace_back(*api_, type);
    if (!children.back().ok()) return {};
    raw.push_back(children.back().raw_);
  }
  children.resize(static_cast<std::size_t>(get_array(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data())));
  return children;
}

std::string Descriptor::text(cudnnBackendAttributeName_t name) const {
  std::vector<char> characters = get<char>(name, CUDNN_TYPE_CHAR, count(name, CUDNN_TYPE_CHAR));
  while (!characters.empty() && characters.back() == '\0') characters.pop_back();
  return {characters.begin(), characters.end()};
}

}  // namespace convoy::cudnn
