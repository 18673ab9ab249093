#include "network/cost/typed_weights.h"

#include "convert/convert.h"

namespace convoy::network {

const void* TypedWeights::in_type(const HostTensor* weights, DataType type) {
  if (weights == nullptr || weights->desc.type == type) return weights ? weights->data.get() : nullptr;
  const auto [place, is_new] = made_.try_emplace({weights->data.get(), type});
  if (is_new) {
    auto made = converted(*weights, TensorDesc::packed(type, weights->desc.dims));
    if (!made.ok()) return nullptr;  // no memory, which whoever makes the plan says
    place->second = std::move(*made);
  }
  return place->second.data.get();
}

}  // namespace convoy::network
