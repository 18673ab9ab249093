#include "ort/provider.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>

#include "ort/claims.h"
#include "ort/context.h"
#include "ort/memory.h"

namespace convoy::ort {
namespace {

struct ComputeInfo final : OrtNodeComputeInfo {
  ComputeInfo(const Api& its_api, std::unique_ptr<Compiled> its_nodes, Profiles& its_profiles)
      : OrtNodeComputeInfo{kInterfaceVersion, create, compute, release},
        api(its_api),
        nodes(std::move(its_nodes)),
        profiles(its_profiles) {}

  static OrtStatus* create(OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) {
    *state = self;
    return nullptr;
  }
  static OrtStatus* compute(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
    auto& info = *static_cast<ComputeInfo*>(self);
    return guarded(info.api, [&] { return info.nodes->run(context, info.profiles); });
  }
  static void release(OrtNodeComputeInfo*, void*) {}

  const Api& api;
  const std::unique_ptr<Compiled> nodes;
  Profiles& profiles;
};

bool is_convolution(const std::string& op) {
  return op == "Conv" || op == "ConvTranspose" || op == "QLinearConv" || op == "ConvInteger" || op == "FusedConv" ||
         op == "DeformConv";
}

// ONNX Runtime's are new in each run, Convoy's the same (docs/onnx.md).
bool draws_numbers(std::string_view op) { return op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial"; }

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

Provider::Provider(const Factory& factory, ProviderOptions options, const OrtLogger* logger, const Gpu* gpu)
    : OrtEp{},
      api_(factory.api),
      ep_api_(factory.ep_api),
      options_(std::move(options)),
      gpu_(gpu),
      log_(api_, logger),
      has_one_graph_(factory.version < Version{24, 4}),
      profiles_(api_, factory.version.minor >= kProfilingVersion ? api_.GetEpApi() : nullptr) {
  ort_version_supported = std::min(factory.version.minor, kProfilingVersion);
  CreateProfiler = [](OrtEp* self, OrtEpProfilerImpl** profiler) -> OrtStatus* {
    auto& provider = *static_cast<Provider*>(self);
    return guarded(provider.api_, [&]() -> Result<void> {
      *profiler = provider.profiles_.create();
      return {};
    });
  };
  GetName = [](const OrtEp* self) {
    return static_cast<const Provider*>(self)->gpu_ != nullptr ? kGpuProviderName : kProviderName;
  };
  GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) -> OrtStatus* {
    auto& provider = *static_cast<Provider*>(self);
    return guarded(provider.api_, [&] { return provider.claim(graph, support); });
  };
  Compile = [](OrtEp* self, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
               OrtNodeComputeInfo** infos, OrtNode** contexts) -> OrtStatus* {
    auto& provider = *static_cast<Provider*>(self);
    return guarded(provider.api_, [&]() -> Result<void> {
      for (std::size_t i = 0; i < count; ++i) {
        CONVOY_TRY(infos[i],
                   provider.compile(graphs[i], fused[i], provider.options_.context.write ? &contexts[i] : nullptr));
      }
      give_back_memory();
      return {};
    });
  };
  // The initializers that nobody needs any more are free by now.
  OnRunStart = [](OrtEp* self, const OrtRunOptions*) -> OrtStatus* {
    if (!static_cast<Provider*>(self)->has_run_.exchange(true)) give_back_memory();
    return nullptr;
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) delete static_cast<ComputeInfo*>(infos[i]);
  };
}

Provider::~Provider() {
  if (copy_operators_ != nullptr) KernelApi(api_.GetEpApi()).ReleaseKernelRegistry(copy_operators_);
}

Result<void> Provider::prepare() {
  if (gpu_ == nullptr) return {};
  CONVOY_TRY(copy_operators_, gpu_->copy_operators(KernelApi(api_.GetEpApi()), kGpuProviderName));
  GetKernelRegistry = [](OrtEp* self, const OrtKernelRegistry** registry) -> OrtStatus* {
    *registry = static_cast<Provider*>(self)->copy_operators_;
    return nullptr;
  };
  return {};
}

// What ONNX Runtime says of a graph.
struct Provider::GraphNodes {
  std::vector<const OrtNode*> nodes;
  std::vector<ClaimNode> described;      // each of them
  std::vector<bool> convolves;           // each of them
  std::vector<const OrtNode*> contexts;  // those that hold what was compiled before
  std::map<std::string, int> left;       // operators that Convoy doesn't know, and how many of each
  std::set<std::string> inputs;          // the graph's own
  bool is_body = false;                  // of a node: its inputs are none of the model's
};

Result<Provider::GraphNodes> Provider::nodes_of(const OrtGraph* graph) const {
  GraphNodes read;
  CONVOY_TRY(read.nodes, (list_of<const OrtNode*, OrtGraph>(api_, api_.Graph_GetNumNodes, api_.Graph_GetNodes, graph)));
  // Bodies come before the graph that they are in.
  const OrtNode* parent = nullptr;
  CONVOY_CHECK(done(api_, api_.Graph_GetParentNode(graph, &parent)));
  CONVOY_TRY(const auto graph_inputs,
             (list_of<const OrtValueInfo*, OrtGraph>(api_, api_.Graph_GetNumInputs, api_.Graph_GetInputs, graph)));
  for (const OrtValueInfo* input : graph_inputs) {
    CONVOY_TRY(std::string name, name_of(api_, input));
    read.inputs.insert(std::move(name));
  }
  read.is_body = parent != nullptr || read.inputs.empty();
  std::map<std::string, int> producer;  // by value
  for (const OrtNode* node : read.nodes) {
    const char *op = nullptr, *domain = nullptr;
    CONVOY_CHECK(done(api_, api_.Node_GetOperatorType(node, &op)));
    CONVOY_CHECK(done(api_, api_.Node_GetDomain(node, &domain)));
    std::size_t bodies = 0;
    CONVOY_CHECK(done(api_, api_.Node_GetNumSubgraphs(node, &bodies)));
    const bool known = bodies == 0 && !draws_numbers(op) && convoy_knows_operator(domain, op) != 0;
    read.convolves.push_back(is_convolution(op));
    ClaimNode described;
    described.wanted = known && (!options_.convolutions_only || is_convolution(op) || goes_with_convolutions(op));
    CONVOY_TRY(const bool context, is_context(api_, node));
    if (context) {
      read.contexts.push_back(node);
    } else if (!known) {
      ++read.left[op];
    }
    CONVOY_TRY(const auto inputs, inputs_of(api_, node));
    for (const OrtValueInfo* input : inputs) {
      CONVOY_TRY(const std::string name, name_of(api_, input));
      if (const auto from = producer.find(name); from != producer.end()) {
        described.producers.push_back(from->second);
      } else if (!name.empty() && !read.inputs.contains(name)) {
        bool constant = false;
        CONVOY_CHECK(done(api_, api_.ValueInfo_IsConstantInitializer(input, &constant)));
        read.is_body = read.is_body || !constant;  // it reads what is around it
      }
    }
    CONVOY_TRY(const auto outputs, outputs_of(api_, node));
    for (const OrtValueInfo* output : outputs) {
      CONVOY_TRY(const std::string name, name_of(api_, output));
      if (!name.empty()) producer[name] = static_cast<int>(read.described.size());
    }
    read.described.push_back(std::move(described));
  }
  return read;
}

Result<void> Provider::claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  CONVOY_TRY(GraphNodes read, nodes_of(graph));
  if (has_one_graph_ && (read.is_body || has_claimed_)) {
    log_(kInfo, "Convoy leaves the nodes of a body to others: this ONNX Runtime gives sets in two graphs one name");
    return {};
  }
  model_inputs_ = read.is_body ? std::set<std::string>() : std::move(read.inputs);
  for (const auto& [op, count] : read.left) {
    log_(kInfo,
         "Convoy leaves " + std::to_string(count) + " " + op + " to others: an operator that it doesn't run there");
  }
  for (const OrtNode* node : read.contexts) CONVOY_CHECK(claim_context(graph, node, support));
  for (const std::vector<int>& set : claims_of(read.described)) {
    const auto convolution = [&](int n) { return read.convolves[static_cast<std::size_t>(n)]; };
    if (options_.convolutions_only && std::ranges::none_of(set, convolution)) continue;
    std::vector<const OrtNode*> chosen;
    for (const int n : set) chosen.push_back(read.nodes[static_cast<std::size_t>(n)]);
    const auto claimed = claim_set(graph, std::move(chosen), support);
    if (claimed.ok()) {
      log_(kInfo,
           "Convoy runs " + std::to_string(set.size()) + " of " + std::to_string(read.nodes.size()) + " nodes as one");
      if (const std::string& detour = claimed_.back().nodes->detour(); !detour.empty()) {
        log_(kWarning, "Its runs wait for copies to the processor and back: " + detour);
      }
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
  OrtGraph* made = nullptr;
  CONVOY_CHECK(done(api_, api_.Graph_GetGraphView(graph, nodes.data(), nodes.size(), &made)));
  const std::unique_ptr<OrtGraph, decltype(api_.ReleaseGraph)> view(made, api_.ReleaseGraph);
  CONVOY_TRY(const GraphModel model, model_of(api_, view.get(), model_inputs_));
  return take(model, graph, nodes, support);
}

// One that can't be read is claimed, too: ONNX Runtime then says why when it compiles it.
Result<void> Provider::claim_context(const OrtGraph* graph, const OrtNode* node, OrtEpGraphSupportInfo* support) {
  CONVOY_TRY(const std::string path, path_of(graph));
  const auto model = read_context(api_, node, path);
  if (!model.ok()) return fuse({node}, support);
  CONVOY_CHECK(take(*model, graph, {node}, support));
  log_(kInfo, "Convoy runs a node that was compiled before");
  if (const std::string& remark = claimed_.back().nodes->remark(); !remark.empty()) {
    log_(kWarning, "Convoy decides anew what it had compiled: " + remark);
  }
  return {};
}

Result<std::string> Provider::path_of(const OrtGraph* graph) const {
  const char* path = nullptr;
  CONVOY_CHECK(done(api_, api_.Graph_GetModelPath(graph, &path)));
  return std::string(path == nullptr ? "" : path);
}

Result<GraphModel> Provider::model_at(const OrtGraph* graph) const {
  CONVOY_TRY(const auto nodes,
             (list_of<const OrtNode*, OrtGraph>(api_, api_.Graph_GetNumNodes, api_.Graph_GetNodes, graph)));
  if (nodes.size() == 1) {
    CONVOY_TRY(const bool context, is_context(api_, nodes.front()));
    CONVOY_TRY(const std::string path, path_of(graph));
    if (context) return read_context(api_, nodes.front(), path);
  }
  return model_of(api_, graph, model_inputs_);
}

Result<Provider::Claimed> Provider::claimed(const GraphModel& model, const OrtGraph* graph) {
  Claimed made;
  CONVOY_TRY(made.nodes, Compiled::make(api_, model, options_, gpu_));
  if (!options_.context.write) return made;
  CONVOY_TRY(const std::string path, path_of(graph));
  auto written = write_context(model, made.nodes->plan(), options_.context, path, contexts_++);
  if (written.ok()) {
    made.context = std::move(*written);
  } else {
    made.not_written = written.error();
  }
  return made;
}

Result<void> Provider::fuse(const std::vector<const OrtNode*>& nodes, OrtEpGraphSupportInfo* support) const {
  const OrtNodeFusionOptions fusion{kInterfaceVersion, true};
  return done(api_, ep_api_.EpGraphSupportInfo_AddNodesToFuse(support, nodes.data(), nodes.size(), &fusion));
}

Result<void> Provider::take(const GraphModel& model, const OrtGraph* graph, const std::vector<const OrtNode*>& nodes,
                            OrtEpGraphSupportInfo* support) {
  CONVOY_TRY(Claimed made, claimed(model, graph));
  CONVOY_CHECK(fuse(nodes, support));
  claimed_.push_back(std::move(made));
  has_claimed_ = true;
  return {};
}

Result<OrtNodeComputeInfo*> Provider::compile(const OrtGraph* graph, const OrtNode* fused, OrtNode** context) {
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
  const auto found = std::ranges::find_if(claimed_, [&](const Claimed& each) {
    return has(inputs, each.nodes->inputs()) && has(outputs, each.nodes->outputs()) &&
           has(each.nodes->outputs(), outputs);
  });
  Claimed compiled;
  if (found != claimed_.end()) {
    compiled = std::move(*found);
    claimed_.erase(found);
  } else {  // the graph was changed since it was claimed, or could not be read
    CONVOY_TRY(const GraphModel model, model_at(graph));
    CONVOY_TRY(compiled, claimed(model, graph));
  }
  if (compiled.not_written) return *compiled.not_written;
  if (context != nullptr) {
    const char* name = nullptr;
    CONVOY_CHECK(done(api_, api_.Node_GetName(fused, &name)));
    CONVOY_TRY(*context, context_node(api_, name, compiled.nodes->inputs(), compiled.nodes->outputs(), compiled.context,
                                      options_.context.embed));
  }
  const auto places = [](const std::vector<std::string>& all, const std::vector<std::string>& of) {
    std::vector<std::size_t> made;
    for (const std::string& name : of) {
      made.push_back(static_cast<std::size_t>(std::ranges::find(all, name) - all.begin()));
    }
    return made;
  };
  compiled.nodes->bind(places(inputs, compiled.nodes->inputs()), places(outputs, compiled.nodes->outputs()));
  return new ComputeInfo(api_, std::move(compiled.nodes), profiles_);
}

Version version_of(std::string_view text) {
  Version version;
  const char* const end = text.data() + text.size();
  const auto minor =
      std::from_chars(text.data() + std::min(text.size(), std::string_view("1.").size()), end, version.minor);
  if (minor.ptr != end) std::from_chars(minor.ptr + 1, end, version.patch);
  return version;
}

Factory::Factory(const Api& its_api, Version its_version, bool on_gpus)
    : OrtEpFactory{}, api(its_api), ep_api(its_api.GetEpApi()), version(its_version), on_gpus_(on_gpus) {
  ort_version_supported = kInterfaceVersion;
  OrtEpFactory::GetName = [](const OrtEpFactory* self) {
    return static_cast<const Factory*>(self)->on_gpus_ ? kGpuProviderName : kProviderName;
  };
  GetVendor = [](const OrtEpFactory*) { return "Convoy"; };
  GetVendorId = [](const OrtEpFactory*) { return std::uint32_t{0}; };
  GetVersion = [](const OrtEpFactory*) { return convoy_version_text(); };
  GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t device_count,
                           OrtEpDevice** ep_devices, std::size_t most, std::size_t* count) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    return guarded(factory.api, [&] { return factory.list(devices, device_count, ep_devices, most, count); });
  };
  CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata,
                std::size_t count, const OrtSessionOptions* session, const OrtLogger* logger,
                OrtEp** ep) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    return guarded(factory.api, [&]() -> Result<void> {
      CONVOY_TRY(*ep, factory.create(metadata, count, session, logger));
      return {};
    });
  };
  ReleaseEp = [](OrtEpFactory*, OrtEp* ep) { delete static_cast<Provider*>(ep); };
  // On the processor there is no memory but ONNX Runtime's own.
  CreateDataTransfer = [](OrtEpFactory* self, OrtDataTransferImpl** transfer) -> OrtStatus* {
    const Gpus& gpus = static_cast<Factory*>(self)->gpus_;
    *transfer = gpus.empty() ? nullptr : create_transfer(gpus);
    return nullptr;
  };
  IsStreamAware = [](const OrtEpFactory* self) { return static_cast<const Factory*>(self)->on_gpus_; };
  OrtEpFactory::CreateAllocator = [](OrtEpFactory* self, const OrtMemoryInfo* memory, const OrtKeyValuePairs*,
                                     OrtAllocator** allocator) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    const Gpu* const gpu = memory == nullptr ? nullptr : factory.at(factory.ep_api.MemoryInfo_GetMemoryDevice(memory));
    *allocator = gpu == nullptr ? nullptr : gpu->create_allocator();
    return nullptr;
  };
  ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) { Gpu::release(allocator); };
  CreateSyncStreamForDevice = [](OrtEpFactory* self, const OrtMemoryDevice* device, const OrtKeyValuePairs*,
                                 OrtSyncStreamImpl** stream) -> OrtStatus* {
    auto& factory = *static_cast<Factory*>(self);
    return guarded(factory.api, [&]() -> Result<void> {
      const Gpu* const gpu = factory.at(device);
      if (gpu == nullptr) return Error{ErrorCode::invalid_argument, "a stream for a device that is no GPU of it"};
      CONVOY_TRY(*stream, gpu->create_stream());
      return {};
    });
  };
}

const Gpu* Factory::at(const OrtMemoryDevice* device) const {
  const std::size_t index = ep_api.MemoryDevice_GetDeviceId(device);
  return ep_api.MemoryDevice_GetDeviceType(device) == kGpuMemory && index < gpus_.size() ? gpus_[index].get() : nullptr;
}

Result<void> Factory::list(const OrtHardwareDevice* const* devices, std::size_t device_count, OrtEpDevice** made,
                           std::size_t most, std::size_t* count) {
  *count = 0;
  if (!on_gpus_) {
    for (std::size_t i = 0; i < device_count && *count < most; ++i) {
      if (api.HardwareDevice_Type(devices[i]) != kProcessor) continue;
      CONVOY_CHECK(done(api, ep_api.CreateEpDevice(this, devices[i], nullptr, nullptr, &made[*count])));
      ++*count;
    }
    return {};
  }
  // Before, ONNX Runtime takes no operators from it that copy between devices.
  if (version.minor < kKernelVersion) return {};
  if (gpus_.empty()) {  // allocators and sessions point to those of a call before
    auto gpus = all_gpus(api, ep_api);
    if (!gpus.ok()) return {};  // convoy_load_device says why
    gpus_ = std::move(*gpus);
  }
  for (std::size_t i = 0; i < gpus_.size() && *count < most; ++i) {
    CONVOY_TRY(made[*count], device_of(*gpus_[i], devices, device_count));
    ++*count;
  }
  return {};
}

// ONNX Runtime finds GPUs by the kernel's list of graphics cards, which most containers don't have. One that it did not
// find is listed with the processor.
Result<OrtEpDevice*> Factory::device_of(const Gpu& gpu, const OrtHardwareDevice* const* devices, std::size_t count) {
  const OrtHardwareDevice* hardware = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_gpu =
        api.HardwareDevice_Type(devices[i]) == kGpu && api.HardwareDevice_VendorId(devices[i]) == kNvidia;
    const char* const bus = api.GetKeyValue(api.HardwareDevice_Metadata(devices[i]), "pci_bus_id");
    const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
    if (is_gpu && bus != nullptr && std::ranges::equal(std::string_view(bus), gpu.bus(), same)) hardware = devices[i];
  }
  for (std::size_t i = 0; i < count && hardware == nullptr; ++i) {
    if (api.HardwareDevice_Type(devices[i]) == kProcessor) hardware = devices[i];
  }
  OrtKeyValuePairs* metadata = nullptr;
  api.CreateKeyValuePairs(&metadata);
  const std::unique_ptr<OrtKeyValuePairs, decltype(api.ReleaseKeyValuePairs)> pairs(metadata, api.ReleaseKeyValuePairs);
  api.AddKeyValuePair(metadata, "device", gpu.name().c_str());
  OrtEpDevice* made = nullptr;
  CONVOY_CHECK(done(api, ep_api.CreateEpDevice(this, hardware, metadata, nullptr, &made)));
  CONVOY_CHECK(done(api, ep_api.EpDevice_AddAllocatorInfo(made, gpu.memory())));
  return made;
}

Result<OrtEp*> Factory::create(const OrtKeyValuePairs* const* metadata, std::size_t device_count,
                               const OrtSessionOptions* session, const OrtLogger* logger) {
  const Gpu* gpu = nullptr;
  if (on_gpus_) {
    std::string names;
    for (std::size_t i = 0; i < device_count; ++i) {
      const char* const name = metadata[i] == nullptr ? nullptr : api.GetKeyValue(metadata[i], "device");
      if (name == nullptr) continue;
      names += (names.empty() ? "" : ", ") + std::string(name);
      const auto found = std::ranges::find_if(gpus_, [&](const auto& each) { return each->name() == name; });
      if (found != gpus_.end()) gpu = found->get();
    }
    if (gpu == nullptr || device_count != 1) {
      return Error{ErrorCode::invalid_argument,
                   "a session takes one GPU, given are " + (names.empty() ? "none" : names) +
                       "; convoy.onnxruntime.add_to(options, device='cuda:0') and add_provider_for_devices choose one"};
    }
  }
  std::string prefix = std::string("ep.") + OrtEpFactory::GetName(this) + ".";
  std::ranges::transform(prefix, prefix.begin(), [](unsigned char c) { return std::tolower(c); });
  OrtKeyValuePairs* given = nullptr;
  CONVOY_CHECK(done(api, api.GetSessionOptionsConfigEntries(session, &given)));
  const std::unique_ptr<OrtKeyValuePairs, decltype(api.ReleaseKeyValuePairs)> pairs(given, api.ReleaseKeyValuePairs);
  const char *const *keys = nullptr, *const *values = nullptr;
  std::size_t count = 0;
  api.GetKeyValuePairs(given, &keys, &values, &count);
  std::map<std::string, std::string> entries;
  for (std::size_t i = 0; i < count; ++i) entries[keys[i]] = values[i];
  CONVOY_TRY(ProviderOptions options, read_options(entries, prefix));
  if (gpu != nullptr) {
    options.device = gpu->name();
    CONVOY_CHECK(done(convoy_load_device(options.device.c_str())));
  }
  CONVOY_CHECK(check_options(options));
  auto made = std::make_unique<Provider>(*this, std::move(options), logger, gpu);
  CONVOY_CHECK(made->prepare());
  return made.release();
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
  if (table == nullptr || version_of(version) < Version{23, 2}) {
    const Api oldest(base->GetApi(1));
    return oldest.CreateStatus(
        kFail, (std::string("Convoy needs ONNX Runtime 1.23.2 or newer, this is ") + base->GetVersionString()).c_str());
  }
  const Api api(table);
  if (most < 1) return api.CreateStatus(kInvalidArgument, "Convoy: there is no room for an execution provider");
  give_back_memory();  // that loading took
  return guarded(api, [&]() -> convoy::Result<void> {
    for (const bool on_gpus : {false, true}) {
      if (*count < most) factories[(*count)++] = new Factory(api, version_of(version), on_gpus);
    }
    return {};
  });
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<convoy::ort::Factory*>(factory);
  return nullptr;
}

}  // extern "C"
