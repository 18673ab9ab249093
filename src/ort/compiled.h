// A set of nodes that runs as one: a network of Convoy's with a session for each set of sizes that came.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "convoy.h"
#include "ort/gpu.h"
#include "ort/model.h"
#include "ort/options.h"
#include "ort/profiler.h"

namespace convoy::ort {

class Compiled {
 public:
  // Where all sizes are fixed the session is made at once, and the network is dropped behind it. Where some are free,
  // or inputs decide how far precision goes (options.max_error), one for likely sizes is tried: `unsupported` where
  // Convoy can't run the nodes. The values of the model's initializers are not needed afterwards. `gpu`: where it runs
  // and its tensors lie; null: the processor.
  static Result<std::unique_ptr<Compiled>> make(const Api& api, const GraphModel& model, const ProviderOptions& options,
                                                const Gpu* gpu);

  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  // What was decided, as a plan's text: of fixed sizes, where options.context is to be written; else empty.
  const std::string& plan() const { return plan_; }
  // Why a plan that came with a compiled model was not obeyed; empty: it was, or none came.
  const std::string& remark() const { return remark_; }
  // Why a run on a GPU, with sizes that were fixed or tried, waits for copies of its tensors; empty: it does not.
  const std::string& detour() const { return detour_; }

  // Which of the fused node's inputs each input of the model is, and of its outputs.
  void bind(std::vector<std::size_t> inputs, std::vector<std::size_t> outputs);
  // From any number of threads.
  Result<void> run(OrtKernelContext* context, Profiles& profiles);

 private:
  using Dims = std::vector<std::int64_t>;
  template <auto destroy>
  struct Deleter {
    void operator()(auto* handle) const { destroy(handle); }
  };
  using Network = std::unique_ptr<convoy_network, Deleter<convoy_network_destroy>>;
  struct Prepared {
    std::vector<Dims> shapes;
    std::unique_ptr<convoy_session, Deleter<convoy_session_destroy>> session;
    std::vector<std::optional<Dims>> outputs;  // nothing: known when it has run
    std::string detour;                        // of a GPU's: why it takes no tensors there; empty: it does
  };
  struct Inputs {
    std::vector<Dims> shapes;  // empty: they are fixed
    std::vector<const void*> data;
    std::vector<std::size_t> bytes;  // of a GPU's
  };

  Compiled(const Api& api, const GraphModel& model, const ProviderOptions& options, const Gpu* gpu);
  static Result<Network> network_of(const GraphModel& model, const Weights& weights);
  Result<void> make_fixed(const GraphModel& model);
  Result<void> make_free(const GraphModel& model);
  convoy_options options_for_session() const;
  // `tunes`: for as long as the options say.
  // `inputs`: what precision is tried on, where the options bound its error; none: it is not.
  Result<std::shared_ptr<const Prepared>> prepare(std::vector<Dims> shapes, bool tunes = true,
                                                  std::span<const void* const> inputs = {}) const;
  Result<std::shared_ptr<const Prepared>> prepared_for(const Inputs& inputs, CUstream stream);
  Result<Inputs> inputs_of(const OrtKernelContext* context) const;
  // Copies of a GPU's on the processor.
  Result<std::vector<std::vector<std::byte>>> on_processor(const Inputs& inputs, CUstream stream) const;
  Result<void> write(OrtKernelContext* context, std::size_t k, const Dims& dims, void** data) const;
  // Outputs that have no buffer yet, on `stream` where they go to a GPU.
  Result<void> write_results(OrtKernelContext* context, const convoy_results* results,
                             std::span<const convoy_buffer> buffers, CUstream stream) const;
  Result<void> run_on_gpu(OrtKernelContext* context);

  const Api& api_;
  const ProviderOptions& options_;
  const Gpu* const gpu_;
  const bool fixed_;
  std::vector<std::string> inputs_, outputs_;
  std::string plan_, remark_, detour_;
  std::shared_ptr<void> weights_;  // that network_ reads
  Network network_;                // null: all sizes are fixed
  std::vector<std::size_t> input_places_, output_places_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const Prepared>> prepared_;  // the latest used first
};

}  // namespace convoy::ort
