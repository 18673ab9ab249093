// Activations that ONNX Runtime's fused operators name in an attribute.
#pragma once

#include <string>
#include <vector>

#include "network/graph/composite.h"

namespace convoy::network {

// activation(x). `parameters`: LeakyRelu's and Elu's alpha, Clip's bounds, HardSigmoid's alpha and beta, in the
// operator's order; those that are missing have its defaults. An empty name: x itself.
Result<int> add_activation(Expansion& e, int x, const std::string& name, const std::vector<double>& parameters);

// The activation of attributes `activation`, `activation_alpha` and `activation_beta`.
Result<int> add_activation(Expansion& e, int x);

Result<int> add_gelu(Expansion& e, int x, bool by_tanh);
// x * sigmoid(alpha * x)
Result<int> add_swish(Expansion& e, int x, double alpha);

}  // namespace convoy::network
