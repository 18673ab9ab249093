// A set of nodes that runs as one: a network of Convoy's with a session for each set of sizes that came.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "convoy.h"
#include "ort/model.h"
#include "ort/options.h"

namespace convoy::ort {

class Compiled {
 public:
  // Where all sizes are fixed the session is made at once, and the network is dropped behind it. Where some are free,
  // one for likely sizes is tried: `unsupported` where Convoy can't run the nodes.
  static Result<std::unique_ptr<Compiled>> make(const Api& api, GraphModel model, const ProviderOptions& options);

  const std::vector<std::string>& inputs() const { return model_.inputs; }
  const std::vector<std::string>& outputs() const { return model_.outputs; }

  // Which of the fused node's inputs each input of the model is, and of its outputs.
  void bind(std::vector<std::size_t> inputs, std::vector<std::size_t> outputs);
  // From any number of threads.
  Result<void> run(OrtKernelContext* context);

 private:
  using Dims = std::vector<std::int64_t>;
  struct NetworkDeleter {
    void operator()(convoy_network* network) const { convoy_network_destroy(network); }
  };
  struct SessionDeleter {
    void operator()(convoy_session* session) const { convoy_session_destroy(session); }
  };
  struct Prepared {
    std::vector<Dims> shapes;
    std::unique_ptr<convoy_session, SessionDeleter> session;
    std::vector<std::optional<Dims>> outputs;  // nothing: known when it has run
  };

  Compiled(const Api& api, GraphModel model, const ProviderOptions& options)
      : api_(api), model_(std::move(model)), options_(options) {}
  Result<std::shared_ptr<const Prepared>> prepare(std::vector<Dims> shapes) const;
  Result<std::shared_ptr<const Prepared>> prepared_for(std::vector<Dims> shapes);
  Result<void> write(OrtKernelContext* context, std::size_t k, const Dims& dims, void** data) const;

  const Api& api_;
  GraphModel model_;
  const ProviderOptions& options_;
  std::unique_ptr<convoy_network, NetworkDeleter> network_;  // null: all sizes are fixed
  std::vector<std::size_t> input_places_, output_places_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const Prepared>> prepared_;  // the latest used first
};

}  // namespace convoy::ort
