#include "ort/provider.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "ort/claims.h"

namespace convoy::ort {
namespace {

struct ComputeInfo final : OrtNodeComputeInfo {
  ComputeInfo(const Api& its_api, std::unique_ptr<Compiled> its_nodes)
      : OrtNodeComputeInfo{kInterfaceVersion, create, compute, release}, api(its_api), nodes(std::move(its_nodes)) {}

  static OrtStatus* create(OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) {
    *state = self;
    return nullptr;
  }
  static OrtStatus* compute(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
    auto& info = *static_cast<ComputeInfo*>(self);
    const auto ran = info.nodes->run(context);
    return ran.ok() ? nullptr : status_of(info.api, ran.error());
  }
  static void release(OrtNodeComputeInfo*, void*) {}

  const Api& api;
  const std::unique_ptr<Compiled> nodes;
};

bool is_convolution(const std::string& op) {
  return op == "Conv" || op == "ConvTranspose" || op == "QLinearConv" || op == "ConvInteger" || op == "FusedConv" ||
         op == "DeformConv";
}

// What may stay between the convolutions where only these are claimed: what is fused into them, or their types.
bool goes_with_convolutions(const std::string& op) {
  constexpr std::string_view kOps[] = {"Relu",
                                       "Clip",
                                       "LeakyRelu",
                                       "PRelu",
                                       "Sigmoid",
                                       "HardSigmoid",
                                       "HardSwish",
                                       "Tanh",
                                       "Elu",
                                       "Gelu",
                                       "Mish",
                                       "Softplus",
                                       "Add",
                                       "Mul",
                                       "Sub",
                                       "BatchNormalization",
                                       "QuantizeLinear",
                                       "DequantizeLinear"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

}  // namespace

Provider::Provider(const Api& api, const EpApi& ep_api, ProviderOptions options, const OrtLogger* logger)
    : OrtEp{}, api_(api), ep_api_(ep_api), options_(std::move(options)), log_(api, logger) {
  ort_version_supported = kInterfaceVersion;
  GetName = [](const OrtEp*) { return kProviderName; };
  GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) -> OrtStatus* {
    auto& provider = *static_cast<Provider*>(self);
    const auto claimed = provider.claim(graph, support);
    return claimed.ok() ? nullptr : status_of(provider.api_, claimed.error());
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
               OrtNodeComputeInfo** infos, OrtNode**) -> OrtStatus* {
    auto& provider = *static_cast<Provider*>(self);
    for (std::size_t i = 0; i < count; ++i) {
      auto compiled = provider.compile(graphs[i], fused[i]);
      if (!compiled.ok()) return status_of(provider.api_, compiled.error());
      infos[i] = *compiled;
    }
    return nullptr;
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
  };
}

Result<void> Provider::claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  CONVOY_TRY(const auto nodes,
             (list_of<const OrtNode*, OrtGraph>(api_, api_.Graph_GetNumNodes, api_.Graph_GetNodes, graph)));
  // Bodies come before the graph that they are in; their inputs are none of the model's.
  const OrtNode* parent = nullptr;
  CONVOY_CHECK(done(api_, api_.Graph_GetParentNode(graph, &parent)));
  model_inputs_.clear();
  if (parent == nullptr) {
    CONVOY_TRY(const auto inputs,
               (list_of<const OrtValueInfo*, OrtGraph>(api_, api_.Graph_GetNumInputs, api_.Graph_GetInputs, graph)));
    for (const OrtValueInfo* input : inputs) {
      CONVOY_TRY(std::string name, name_of(api_, input));
      model_inputs_.insert(std::move(name));
    }
  }
  std::map<std::string, int> producer;  // by value
  std::map<std::string, int> left;      // operators that Convoy doesn't know
  std::vector<ClaimNode> described(nodes.size());
  std::vector<bool> convolves(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const char *op = nullptr, *domain = nullptr;
    CONVOY_CHECK(done(api_, api_.Node_GetOperatorType(nodes[n], &op)));
    CONVOY_CHECK(done(api_, api_.Node_GetDomain(nodes[n], &domain)));
    std::size_t bodies = 0;
    CONVOY_CHECK(done(api_, api_.Node_GetNumSubgraphs(nodes[n], &bodies)));
    const bool known = bodies == 0 && convoy_knows_operator(domain, op) != 0;
    convolves[n] = is_convolution(op);
    described[n].wanted = known && (!options_.convolutions_only || convolves[n] || goes_with_convolutions(op));
    if (!known) ++left[op];
    CONVOY_TRY(const auto inputs, inputs_of(api_, nodes[n]));
    for (const OrtValueInfo* input : inputs) {
      CONVOY_TRY(const std::string name, name_of(api_, input));
      if (const auto from = producer.find(name); from != producer.end()) described[n].producers.push_back(from->second);
    }
    CONVOY_TRY(const auto outputs, outputs_of(api_, nodes[n]));
    for (const OrtValueInfo* output : outputs) {
      CONVOY_TRY(const std::string name, name_of(api_, output));
      if (!name.empty()) producer[name] = static_cast<int>(n);
    }
  }
  for (const auto& [op, count] : left) {
    log_(kInfo, "Convoy leaves " + std::to_string(count) + " " + op + " to others: an operator that it doesn't run");
  }
  for (const std::vector<int>& set : claims_of(described)) {
    const auto convolution = [&](int n) { return convolves[static_cast<std::size_t>(n)]; };
    if (options_.convolutions_only && std::ranges::none_of(set, convolution)) continue;
    std::vector<const OrtNode*> chosen;
    for (const int n : set) chosen.push_back(nodes[static_cast<std::size_t>(n)]);
    const auto claimed = claim_set(graph, std::move(chosen), support);
    if (claimed.ok()) {
      log_(kInfo,
           "Convoy runs " + std::to_string(set.size()) + " of " + std::to_string(nodes.size()) + " nodes as one");
    } else if (!options_.plan.empty() && claimed.error().code != ErrorCode::unsupported) {
      return claimed.error();
    } else {
      log_(kWarning, "Convoy leaves " + std::to_string(set.size()) + " nodes to others: " + claimed.error().message);
    }
  }
  return {};
}

Result<void> Provider::claim_set(const OrtGraph* graph, std::vector<const OrtNode*> nodes,
                                 OrtEpGraphSupportInfo* support) {
  OrtGraph* view = nullptr;
  CONVOY_CHECK(done(api_, api_.Graph_GetGraphView(graph, nodes.data(), nodes.size(), &view)));
  auto model = model_of(api_, view, model_inputs_);
  api_.ReleaseGraph(view);
  if (!model.ok()) return model.error();
  CONVOY_TRY(auto compiled, Compiled::make(api_, std::move(*model), options_));
  const OrtNodeFusionOptions fusion{kInterfaceVersion, true};
  CONVOY_CHECK(done(api_, ep_api_.EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion)));
  claimed_.push_back(std::move(compiled));
  return {};
}

Result<OrtNodeComputeInfo*> Provider::compile(const OrtGraph* graph, const OrtNode* fused) {
  const auto names = [&](Result<std::vector<const OrtValueInfo*>> values) -> Result<std::vector<std::string>> {
    if (!values.ok()) return values.error();
    std::vector<std::string> made;
    for (const OrtValueInfo* value : *values) {
      CONVOY_TRY(std::string name, name_of(api_, value));
      made.push_back(std::move(name));
    }
    return made;
  };
  CONVOY_TRY(const std::vector<std::string> inputs, names(inputs_of(api_, fused)));
  CONVOY_TRY(const std::vector<std::string> outputs, names(outputs_of(api_, fused)));
  const auto has = [](const std::vector<std::string>& all, const std::vector<std::string>& some) {
    return std::ranges::all_of(some,
                               [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); });
  };
  const auto found = std::ranges::find_if(claimed_, [&](const std::unique_ptr<Compiled>& each) {
    return has(inputs, each->inputs()) && has(outputs, each->outputs()) && has(each->outputs(), outputs);
  });
  std::unique_ptr<Compiled> compiled;
  if (found != claimed_.end()) {
    compiled = std::move(*found);
    claimed_.erase(found);
  }
  if (!compiled) {  // the graph was changed since it was claimed
    CONVOY_TRY(GraphModel model, model_of(api_, graph, model_inputs_));
    CONVOY_TRY(compiled, Compiled::make(api_, std::move(model), options_));
  }
  const auto places = [](const std::vector<std::string>& all, const std::vector<std::string>& of) {
    std::vector<std::size_t> made;
    for (const std::string& name : of) {
      made.push_back(static_cast<std::size_t>(std::ranges::find(all, name) - all.begin()));
    }
    return made;
  };
  compiled->bind(places(inputs, compiled->inputs()), places(outputs, compiled->outputs()));
  return new ComputeInfo(api_, std::move(compiled));
}

Factory::Factory(const Api& its_api) : OrtEpFactory{}, api(its_api), ep_api(its_api.GetEpApi()) {
  ort_version_supported = kInterfaceVersion;
  OrtEpFactory::GetName = [](const OrtEpFactory*) { return kProviderName; };
  GetVendor = [](const OrtEpFactory*) { return "Convoy"; };
  GetVendorId = [](const OrtEpFactory*) { return std::uint32_t{0}; };
  GetVersion = [](const OrtEpFactory*) { return convoy_version_text(); };
  GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t device_count,
                           OrtEpDevice** ep_devices, std::size_t most, std::size_t* count) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    *count = 0;
    for (std::size_t i = 0; i < device_count && *count < most; ++i) {
      constexpr int kProcessor = 0;
      if (factory.api.HardwareDevice_Type(devices[i]) != kProcessor) continue;
      if (OrtStatus* failed = factory.ep_api.CreateEpDevice(self, devices[i], nullptr, nullptr, &ep_devices[*count])) {
        return failed;
      }
      ++*count;
    }
    return nullptr;
  };
  CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, std::size_t,
                const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** ep) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    std::string prefix = std::string("ep.") + kProviderName + ".";
    std::ranges::transform(prefix, prefix.begin(), [](unsigned char c) { return std::tolower(c); });
    OrtKeyValuePairs* pairs = nullptr;
    if (OrtStatus* failed = factory.api.GetSessionOptionsConfigEntries(session, &pairs)) return failed;
    const char *const *keys = nullptr, *const *values = nullptr;
    std::size_t count = 0;
    factory.api.GetKeyValuePairs(pairs, &keys, &values, &count);
    std::map<std::string, std::string> entries;
    for (std::size_t i = 0; i < count; ++i) {
      if (std::string_view(keys[i]).starts_with(prefix)) entries[keys[i] + prefix.size()] = values[i];
    }
    factory.api.ReleaseKeyValuePairs(pairs);
    auto options = read_options(entries);
    if (!options.ok()) return status_of(factory.api, options.error());
    if (const auto right = check_options(*options); !right.ok()) return status_of(factory.api, right.error());
    *ep = new Provider(factory.api, factory.ep_api, std::move(*options), logger);
    return nullptr;
  };
  ReleaseEp = [](OrtEpFactory*, OrtEp* ep) { delete static_cast<Provider*>(ep); };
  CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** transfer) -> OrtStatus* {
    *transfer = nullptr;  // it works in the processor's memory
    return nullptr;
  };
  IsStreamAware = [](const OrtEpFactory*) { return false; };
  OrtEpFactory::CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                     OrtAllocator** allocator) -> OrtStatus* {
    *allocator = nullptr;
    return nullptr;
  };
  ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) {};
}

}  // namespace convoy::ort

extern "C" {

[[gnu::visibility("default")]] OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                            OrtEpFactory** factories, std::size_t most,
                                                            std::size_t* count) {
  using namespace convoy::ort;
  *count = 0;
  const void* const* const table = base->GetApi(kInterfaceVersion);
  // 1.23.0 and 1.23.1 know no way between a provider of this kind and their own. Version 1, which all have, can say it.
  const std::string_view version = base->GetVersionString();
  if (table == nullptr || version == "1.23.0" || version == "1.23.1") {
    const Api oldest(base->GetApi(1));
    return oldest.CreateStatus(
        kFail, (std::string("Convoy needs ONNX Runtime 1.23.2 or newer, this is ") + base->GetVersionString()).c_str());
  }
  const Api api(table);
  if (most < 1) return api.CreateStatus(kInvalidArgument, "Convoy: there is no room for an execution provider");
  factories[0] = new Factory(api);
  *count = 1;
  return nullptr;
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<convoy::ort::Factory*>(factory);
  return nullptr;
}

}  // extern "C"
