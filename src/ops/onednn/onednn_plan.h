// Operators that oneDNN computes: memory descriptors for our tensors, and plans made of one primitive. oneDNN throws;
// nothing that includes this header has to know. Primitives are created for and run on the threads of the plan.
#pragma once

#include <functional>

#include "device/onednn_api.h"
#include "ops/support.h"

namespace convoy::ops::onednn {

// Dims and strides as given, in elements. Precondition: oneDNN has the type; 1 to 12 dims.
dnnl::memory::desc memory_desc(DataType type, const Dims& dims, const Dims& strides);
// The same for a tensor without channel blocks; a scalar becomes one dim of 1.
dnnl::memory::desc memory_desc(const TensorDesc& desc);

// A pointer of an execution and what the primitive knows it as.
struct Argument {
  enum class From { input, output };
  int id;  // DNNL_ARG_SRC, ...
  From from;
  int index;  // among the node's inputs or outputs
  dnnl::memory::desc desc;
};

// A plan of the primitive whose description `create` returns, called "onednn.<name>". `create` must pass on the
// attributes it is given (the scratchpad is ours: the plan's workspace) and may throw dnnl::error, which becomes an
// unsupported error with oneDNN's message.
using CreatePrimitive =
    std::function<dnnl::primitive_desc(const dnnl::engine& engine, dnnl::primitive_attr attributes)>;
Result<std::unique_ptr<OpPlan>> make_plan(const std::string& name, int threads, std::vector<Argument> arguments,
                                          const CreatePrimitive& create);

}  // namespace convoy::ops::onednn
