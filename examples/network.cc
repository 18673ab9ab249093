// A whole network: loaded once, prepared for two input sizes and two batches, run, and what each step became.
//
//   example_network [MODEL.onnx | zoo:NAME]
#include "convoy/network.h"

#include "example.h"

using namespace convoy;
using namespace example;

int main(int argc, char** argv) {
  const auto network = or_stop(Network::load(argc > 1 ? argv[1] : "zoo:squeezenet1_1"));
  NetworkOptions options;
  options.threads = 2;
  for (const Dims& dims : {Dims{1, 3, 64, 64}, Dims{2, 3, 96, 64}}) {
    const TensorDesc desc = TensorDesc::packed(DataType::f32, dims);
    const auto session = or_stop(network->prepare({&desc, 1}, options));
    const HostTensor input = ramp(desc);
    const std::vector<HostTensor> outputs = or_stop(session->run({&input, 1}));
    std::printf("%s: input %s, output %s, %.1f MB of activations for %zu steps\n", network->name().c_str(),
                to_string(dims).c_str(), to_string(outputs[0].desc.dims).c_str(),
                static_cast<double>(session->activation_bytes()) * 1e-6, session->steps().size());
    if (outputs[0].desc.dims[0] != dims[0]) stop("the batch was lost");
    for (const NetworkStep& step : session->steps()) {
      if (step.kind == "conv") {
        std::printf("  %-40.40s %-24s %s\n", step.nodes.c_str(), step.implementation.c_str(),
                    step.output_shape.c_str());
      }
    }
  }
  return 0;
}
