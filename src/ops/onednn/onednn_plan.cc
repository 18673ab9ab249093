#include "ops/onednn/onednn_plan.h"

#include <fmt/format.h>

#include <atomic>

#include "base/fork_mutex.h"
#include "core/hash.h"
#include "device/onednn.h"
#include "device/onednn_signals.h"

namespace convoy::ops::onednn {

using convoy::onednn::cpu_engine;
using convoy::onednn::data_type_of;
using convoy::onednn::ended;
using convoy::onednn::moves_the_stack;
using convoy::onednn::OmpThreads;
using convoy::onednn::used;
using convoy::onednn::WithoutSignals;

namespace {

std::uint64_t kind_of_use(std::string_view name, std::string_view implementation) {
  Hash hash;
  hash.add(name, implementation);
  return hash.value();
}

class PrimitivePlan final : public OpPlan {
 public:
  PrimitivePlan(std::string name, const dnnl::primitive_desc& description, std::vector<Argument> arguments)
      : name_(std::move(name)),
        scratchpad_(description.scratchpad_desc()),
        implementation_(description.impl_info_str()),
        primitive_(description),
        arguments_(std::move(arguments)) {}

  Candidate candidate() const override { return {name_, {}}; }
  std::size_t workspace_bytes() const override { return scratchpad_.get_size(); }
  std::vector<std::string> notes() const override { return {implementation_}; }

  Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const ExecContext& context) const override {
    if (ended()) {
      return Error{ErrorCode::unsupported,
                   name_ +
                       ": the process is exiting and oneDNN's own objects are destroyed; plans made from now on are "
                       "of our own loops"};
    }
    const OmpThreads threads(context.team().size());
    try {
      const dnnl::engine& engine = cpu_engine();
      dnnl::stream stream(engine);
      std::unordered_map<int, dnnl::memory> memories;
      for (const Argument& argument : arguments_) {
        void* data = argument.from == Argument::From::input ? const_cast<void*>(inputs[argument.index])
                                                            : outputs[argument.index];
        memories.emplace(argument.id, dnnl::memory(argument.desc, engine, data));
      }
      if (scratchpad_.get_size() > 0) {
        memories.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad_, engine, context.workspace));
      }
      const WithoutSignals quiet(moves_the_stack(implementation_) ? context.team().size() : 0);
      primitive_.execute(stream, memories);
      stream.wait();
    } catch (const dnnl::error& error) {
      return Error{ErrorCode::internal, fmt::format("{}: {}", name_, error.message)};
    }
    if (!executed_.exchange(true, std::memory_order_relaxed)) used(kind_of_use(name_, implementation_) + 1);
    return {};
  }

 private:
  std::string name_;
  dnnl::memory::desc scratchpad_;
  std::string implementation_;
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;
  mutable std::atomic<bool> executed_ = false;
};

}  // namespace

dnnl::memory::desc memory_desc(DataType type, const Dims& dims, const Dims& strides) {
  return dnnl::memory::desc(dims, *data_type_of(type), strides);
}

dnnl::memory::desc memory_desc(const TensorDesc& desc) {
  if (desc.rank() == 0) return memory_desc(desc.type, {1}, {1});
  return memory_desc(desc.type, desc.dims, desc.strides);
}

Result<std::unique_ptr<OpPlan>> make_plan(const std::string& name, int threads, std::vector<Argument> arguments,
                                          const CreatePrimitive& create) {
  if (ended()) return Error{ErrorCode::unsupported, fmt::format("onednn.{}: the process is exiting", name)};
  const OmpThreads omp_threads(threads);
  const NoFork no_fork;
  try {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::primitive_desc description = create(cpu_engine(), attributes);
    const std::string_view implementation = description.impl_info_str();
    if (implementation.starts_with("ref")) {
      return Error{ErrorCode::unsupported, fmt::format("onednn.{}: its own loops only, {}", name, implementation)};
    }
    auto plan = std::make_unique<PrimitivePlan>("onednn." + name, description, std::move(arguments));
    used(kind_of_use("onednn." + name, description.impl_info_str()));
    return std::unique_ptr<OpPlan>(std::move(plan));
  } catch (const dnnl::error& error) {
    return Error{ErrorCode::unsupported, fmt::format("onednn.{}: {}", name, error.message)};
  }
}

}  // namespace convoy::ops::onednn
