// Operators that oneDNN computes: memory descriptors for our tensors, and plans made of one primitive. oneDNN throws;
// nothing that includes this header has to know. Its primitives are the OpenMP build's: they are created for and run on
// exactly the threads of the plan, whatever OpenMP's own default is.
#pragma once

#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "ops/support.h"

namespace convoy::ops::onednn {

const dnnl::engine& cpu_engine();

// oneDNN's type, or nothing where it has none (f64, the wide and unsigned integers, f8).
std::optional<dnnl::memory::data_type> data_type_of(DataType type);

// Dims and strides as given, in elements. Precondition: data_type_of(type), 1 to 12 dims.
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
