// cuDNN's backend descriptors as values: made, filled with attributes, finalised, asked and destroyed in the order of
// scopes. A descriptor remembers the first thing that cuDNN refused, with cuDNN's own words, so that building one reads
// as a list of its attributes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/engine.h"
#include "device/cuda/cudnn.h"

namespace convoy::cudnn {

using Api = cuda::CudnnApi;

// What cuDNN said when it refused.
struct Failure {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  std::string text;  // "CUDNN_STATUS_NOT_SUPPORTED (3000), the expression that failed", or without the expression
};
Failure failure_of(const Api& api, cudnnStatus_t status);  // on the thread that made the call, right after it
// The field that a status speaks of; not_offered where it names none.
RefusalCode code_of(cudnnStatus_t status);
Refusal refusal_of(const Failure& failure, std::string_view what);  // "engine: CUDNN_STATUS_..."
Error error_of(const Failure& failure, std::string_view what);

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Api& api, cudnnBackendDescriptorType_t type);
  // Somebody else's descriptor, which is only asked and stays theirs.
  static Descriptor borrowed(const Api& api, cudnnBackendDescriptor_t raw);
  Descriptor(Descriptor&& other) noexcept { swap(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Descriptor();

  // Nothing is done once something failed.
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set_array(name, type, 1, &value);
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    return set_array(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& child) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, child.raw_);
  }
  Descriptor& set_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                        const void* values);
  Descriptor& finalize();

  // How many elements an attribute has; 0 where it can't be read.
  std::int64_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const;
  // At most `most` elements; none where the attribute can't be read.
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    values.resize(static_cast<std::size_t>(get_array(name, type, most, values.data())));
    return values;
  }
  template <class T>
  std::optional<T> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    T value{};
    if (get_array(name, type, 1, &value) < 1) return std::nullopt;
    return value;
  }
  // Descriptors of `type`, which cuDNN fills: at most `most`.
  std::vector<Descriptor> get(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                              std::int64_t most) const;
  std::string text(cudnnBackendAttributeName_t name) const;

  bool ok() const { return raw_ != nullptr && !failure_; }
  const Failure& failure() const { return *failure_; }  // precondition: !ok() and made with an Api
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  void swap(Descriptor& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(raw_, other.raw_);
    std::swap(owned_, other.owned_);
    std::swap(failure_, other.failure_);
  }
  std::int64_t get_array(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t most,
                         void* values) const;

  const Api* api_ = nullptr;
  cudnnBackendDescriptor_t raw_ = nullptr;
  bool owned_ = true;
  std::optional<Failure> failure_;
};

}  // namespace convoy::cudnn
