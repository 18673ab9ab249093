// The execution provider: what ONNX Runtime calls.
#pragma once

#include <atomic>
#include <compare>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ort/compiled.h"
#include "ort/gpu.h"
#include "ort/profiler.h"

namespace convoy::ort {

inline constexpr char kProviderName[] = "ConvoyExecutionProvider";
inline constexpr char kGpuProviderName[] = "ConvoyCUDAExecutionProvider";  // ONNX Runtime gives one a single device

// ONNX Runtime's: 1.minor.patch.
struct Version {
  std::uint32_t minor = 0, patch = 0;
  auto operator<=>(const Version&) const = default;
};
Version version_of(std::string_view text);

class Factory;

// One for each session of ONNX Runtime's.
class Provider final : public OrtEp {
 public:
  // `gpu`: that it runs on; null: the processor.
  Provider(const Factory& factory, ProviderOptions options, const OrtLogger* logger, const Gpu* gpu);
  ~Provider();
  // What a GPU needs; before ONNX Runtime gets it.
  Result<void> prepare();

 private:
  struct GraphNodes;
  Result<GraphNodes> nodes_of(const OrtGraph* graph) const;
  Result<void> claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  Result<void> claim_set(const OrtGraph* graph, std::vector<const OrtNode*> nodes, OrtEpGraphSupportInfo* support);
  Result<void> claim_context(const OrtGraph* graph, const OrtNode* node, OrtEpGraphSupportInfo* support);
  // What runs in place of nodes, and what a compiled model has of it (write_context), where one is to be written.
  struct Claimed {
    std::unique_ptr<Compiled> nodes;
    std::string context;
    std::optional<Error> not_written;  // ONNX Runtime hears of it when it compiles: it goes on without who fails before
  };
  Result<GraphModel> model_at(const OrtGraph* graph) const;
  Result<Claimed> claimed(const GraphModel& model, const OrtGraph* graph);
  Result<std::string> path_of(const OrtGraph* graph) const;  // of the model; "": it comes from memory
  Result<void> fuse(const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* support) const;
  Result<void> take(const GraphModel& model, const OrtGraph* graph, const std::vector<const OrtNode*>& nodes,
                    OrtEpGraphSupportInfo* support);
  // `context`: null, or where the node of a compiled model goes.
  Result<OrtNodeComputeInfo*> compile(const OrtGraph* graph, const OrtNode* fused, OrtNode** context);

  const Api& api_;
  const EpApi& ep_api_;
  const ProviderOptions options_;
  const Gpu* const gpu_;
  Logger log_;
  std::set<std::string> model_inputs_;
  std::vector<Claimed> claimed_;  // made when nodes were claimed, and not compiled yet
  int contexts_ = 0;              // that were written
  const bool has_one_graph_;      // that nodes may be claimed in, and which can't always be told from a body
  bool has_claimed_ = false;
  Profiles profiles_;
  std::atomic<bool> has_run_ = false;
  OrtKernelRegistry* copy_operators_ = nullptr;
};

class Factory final : public OrtEpFactory {
 public:
  // Of providers on the processor, or on the GPUs that the driver has.
  Factory(const Api& api, Version version, bool on_gpus);

  const Api api;
  const EpApi ep_api;
  const Version version;

 private:
  Result<void> list(const OrtHardwareDevice* const* devices, std::size_t device_count, OrtEpDevice** made,
                    std::size_t most, std::size_t* count);
  Result<OrtEpDevice*> device_of(const Gpu& gpu, const OrtHardwareDevice* const* devices, std::size_t count);
  Result<OrtEp*> create(const OrtKeyValuePairs* const* metadata, std::size_t device_count,
                        const OrtSessionOptions* session, const OrtLogger* logger);

  const Gpu* at(const OrtMemoryDevice* device) const;  // null: none of them

  const bool on_gpus_;
  Gpus gpus_;
};

}  // namespace convoy::ort
