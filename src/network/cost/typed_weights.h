// Constant weights in the types that convolutions read them in.
#pragma once

#include <map>
#include <utility>

#include "convoy/host_tensor.h"

namespace convoy::network {

class TypedWeights {
 public:
  // The bytes, which live as long as this and the weights; null for none. Those of another type are made once.
  const void* in_type(const HostTensor* weights, DataType type);

 private:
  std::map<std::pair<const void*, DataType>, HostTensor> made_;  // by what they are made of
};

}  // namespace convoy::network
