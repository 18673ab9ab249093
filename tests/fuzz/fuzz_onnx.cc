// The importer, shape inference, fusion and planning: any bytes are a model or an error. Nothing is run.
#include <span>

#include "convoy/network.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  auto network = convoy::Network::parse(bytes, "fuzz");
  if (!network) return 0;
  std::vector<convoy::TensorDesc> inputs;
  std::int64_t elements = 0;
  for (const convoy::NetworkValue& value : (*network)->inputs()) {
    convoy::Dims dims = value.dims;
    for (std::int64_t& dim : dims) dim = dim < 0 ? 2 : dim;
    auto count = convoy::checked_elements(dims, 8);
    if (!count) return 0;
    elements += *count;
    inputs.push_back(convoy::TensorDesc::packed(value.type, dims));
  }
  if (elements > (1 << 22)) return 0;  // a large input is legal; it is not what this looks for
  convoy::NetworkOptions options;
  options.cpu = convoy::cpu_features();
  static_cast<void>((*network)->prepare(inputs, options));
  return 0;
}
