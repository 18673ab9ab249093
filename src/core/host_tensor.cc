#include "convoy/host_tensor.h"

#include <cstdlib>
#include <cstring>
#include <limits>

namespace convoy {

std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) return nullptr;
  // aligned_alloc takes multiples of the alignment only; never zero bytes, so that null always means failure.
  const std::size_t rounded = bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (data == nullptr) return nullptr;
  return {data, [](std::byte* pointer) { std::free(pointer); }};
}

Result<HostTensor> HostTensor::allocate(TensorDesc desc) {
  CONVOY_CHECK(validate(desc, "tensor"));
  HostTensor tensor;
  const std::int64_t bytes = desc.bytes();
  tensor.data = allocate_aligned(static_cast<std::size_t>(bytes));
  if (!tensor.data) {
    return Error{ErrorCode::out_of_memory, "can't allocate " + std::to_string(bytes) + " bytes for a tensor of " +
                                               to_string(desc.dims) + " " + std::string(name_of(desc.type))};
  }
  tensor.desc = std::move(desc);
  return tensor;
}

Result<HostTensor> HostTensor::zeros(TensorDesc desc) {
  CONVOY_TRY(HostTensor tensor, allocate(std::move(desc)));
  std::memset(tensor.data.get(), 0, static_cast<std::size_t>(tensor.desc.bytes()));
  return tensor;
}

double HostTensor::at(std::int64_t index) const {
  Dims coords(desc.dims.size(), 0);
  for (int i = desc.rank() - 1; i >= 0; --i) {
    coords[i] = index % desc.dims[i];
    index /= desc.dims[i];
  }
  return load_as_double(desc.type, data.get(), desc.offset(coords.data()));
}

Result<HostTensor> converted(const HostTensor& tensor, const TensorDesc& desc) {
  if (tensor.desc.dims != desc.dims) {
    return Error{ErrorCode::invalid_argument, "can't convert a tensor of " + to_string(tensor.desc.dims) + " to " +
                                                  to_string(desc.dims) + ": the dims differ"};
  }
  CONVOY_TRY(HostTensor result, HostTensor::allocate(desc));
  copy_tensor(tensor.desc, tensor.data.get(), result.desc, result.data.get());
  return result;
}

}  // namespace convoy
