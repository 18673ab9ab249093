// The importer, shape inference, folding, fusion and planning, and for small models a run.
#include <vector>

#include "convoy/network.h"
#include "fuzz/fuzz.h"

namespace convoy::fuzz {
namespace {

// Larger inputs are legal; they are not what this looks for.
constexpr std::int64_t kMostPrepared = 1 << 22, kMostRun = 1 << 12;
constexpr std::size_t kMostActivations = 1 << 16;
constexpr double kMostWork = 1e8;

// Of the convolutions: operations, and an output element counts as some (a transposed one may have few of the former
// and gigabytes of the latter).
double conv_work(const Session& session) {
  double sum = 0;
  for (const NetworkStep& step : session.steps()) {
    if (step.kind == "conv") sum += flops(step.problem) + 50 * static_cast<double>(step.problem.out().elements());
  }
  return sum;
}

}  // namespace

void onnx(Bytes bytes) {
  auto network = Network::parse(bytes, "fuzz");
  if (!network) return;
  std::vector<TensorDesc> descs;
  std::int64_t elements = 0;
  for (const NetworkValue& value : (*network)->inputs()) {
    Dims dims = value.dims;
    for (std::int64_t& dim : dims) dim = dim < 0 ? 2 : dim;
    auto count = checked_elements(dims, 8);
    if (!count || *count > kMostPrepared) return;
    elements += *count;
    descs.push_back(TensorDesc::packed(value.type, dims));
  }
  if (elements > kMostPrepared) return;
  NetworkOptions options;
  options.cpu = cpu_features();
  auto session = (*network)->prepare(descs, options);
  if (!session || elements > kMostRun || (*session)->activation_bytes() > kMostActivations ||
      conv_work(**session) > kMostWork) {
    return;
  }
  std::vector<HostTensor> inputs;
  for (const TensorDesc& desc : descs) {
    auto small = HostTensor::allocate(TensorDesc::packed(DataType::f32, desc.dims));
    if (!small) return;
    for (std::int64_t i = 0; i < desc.elements(); ++i) small->as<float>()[i] = static_cast<float>(i % 5 - 1);
    auto tensor = converted(*small, desc);
    if (!tensor) return;
    inputs.push_back(std::move(*tensor));
  }
  static_cast<void>((*session)->run(inputs));
}

}  // namespace convoy::fuzz
