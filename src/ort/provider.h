// The execution provider: what ONNX Runtime calls.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ort/compiled.h"

namespace convoy::ort {

inline constexpr char kProviderName[] = "ConvoyExecutionProvider";

// One for each session of ONNX Runtime's.
class Provider final : public OrtEp {
 public:
  Provider(const Api& api, const EpApi& ep_api, ProviderOptions options, const OrtLogger* logger);

 private:
  Result<void> claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  Result<void> claim_set(const OrtGraph* graph, std::vector<const OrtNode*> nodes, OrtEpGraphSupportInfo* support);
  Result<OrtNodeComputeInfo*> compile(const OrtGraph* graph, const OrtNode* fused);

  const Api& api_;
  const EpApi& ep_api_;
  const ProviderOptions options_;
  Logger log_;
  std::set<std::string> model_inputs_;
  std::vector<std::unique_ptr<Compiled>> claimed_;  // made when nodes were claimed, and not compiled yet
};

class Factory final : public OrtEpFactory {
 public:
  explicit Factory(const Api& api);

  const Api api;
  const EpApi ep_api;
};

}  // namespace convoy::ort
