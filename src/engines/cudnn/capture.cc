#include "engines/cudnn/capture.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"
#include "device/cuda/stream.h"

namespace convoy::cudnn {
namespace {

// Addresses that nothing reads: a captured launch is not run.
void* nowhere(std::uintptr_t number) { return reinterpret_cast<void*>(number << 32); }

// Without the arguments of templates and functions, which run to thousands of characters.
std::string readable(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                          &std::free);
  std::string name = plain ? plain.get() : mangled;
  const std::size_t end = name.find_first_of("<(");
  if (plain && end != std::string::npos && end > 0) name.resize(end);
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

class Captured {
 public:
  Captured(const cuda::DriverApi& api, CUgraph graph) : api_(api), graph_(graph) {}
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    if (graph_ != nullptr) api_.GraphDestroy(graph_);
  }

  Result<std::vector<Launch>> nodes() const {
    std::vector<Launch> launches;
    CONVOY_CHECK(append(graph_, launches));
    return launches;
  }

 private:
  Result<void> append(CUgraph graph, std::vector<Launch>& launches) const {
    std::size_t count = 0;
    CONVOY_CHECK(cuda::check(api_.GraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes", "a captured plan"));
    std::vector<CUgraphNode> nodes(count);
    CONVOY_CHECK(cuda::check(api_.GraphGetNodes(graph, nodes.data(), &count), "cuGraphGetNodes", "a captured plan"));
    for (const CUgraphNode node : nodes) {
      CUgraphNodeType type{};
      CONVOY_CHECK(cuda::check(api_.GraphNodeGetType(node, &type), "cuGraphNodeGetType", "a captured plan"));
      switch (type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
          launches.push_back(kernel(node));
          break;
        case CU_GRAPH_NODE_TYPE_MEMSET:
          launches.push_back({"memset"});
          break;
        case CU_GRAPH_NODE_TYPE_MEMCPY:
          launches.push_back({"memcpy"});
          break;
        case CU_GRAPH_NODE_TYPE_GRAPH: {
          CUgraph child = nullptr;
          CONVOY_CHECK(cuda::check(api_.GraphChildGraphNodeGetGraph(node, &child), "cuGraphChildGraphNodeGetGraph",
                                   "a captured plan"));
          CONVOY_CHECK(append(child, launches));
          break;
        }
        default:  // events and empty nodes order the others
          break;
      }
    }
    return {};
  }

  Launch kernel(CUgraphNode node) const {
    CUDA_KERNEL_NODE_PARAMS params{};
    const char* name = nullptr;
    std::int64_t blocks = 0;
    if (api_.GraphKernelNodeGetParams(node, &params) == CUDA_SUCCESS) {
      blocks = std::int64_t{params.gridDimX} * params.gridDimY * params.gridDimZ;
      if (params.func != nullptr && api_.FuncGetName != nullptr) {
        if (api_.FuncGetName(&name, params.func) != CUDA_SUCCESS) name = nullptr;
      }
      if (name == nullptr && params.kern != nullptr && api_.KernelGetName != nullptr) {
        if (api_.KernelGetName(&name, params.kern) != CUDA_SUCCESS) name = nullptr;
      }
    }
    return {name != nullptr ? readable(name) : "kernel", blocks};
  }

  const cuda::DriverApi& api_;
  CUgraph graph_;
};

}  // namespace

Result<std::vector<Launch>> captured_launches(const ConvPlan& plan, const ConvProblem& problem, int ordinal) {
  CONVOY_TRY(const cuda::DriverApi* api, cuda::make_current(ordinal));
  CONVOY_TRY(const cuda::Stream stream, cuda::Stream::create(ordinal));
  ConvArgs args{.x = nowhere(1), .w = nowhere(2), .y = nowhere(3)};
  args.out = problem.pass == Pass::fprop ? nowhere(3) : problem.pass == Pass::dgrad ? nowhere(1) : nowhere(2);
  args.bias = nowhere(4);
  args.z = nowhere(5);
  args.scales = static_cast<const float*>(nowhere(6));
  CudaQueue queue(stream.get());
  const ExecContext context{queue, nowhere(7), plan.workspace_bytes()};
  CONVOY_CHECK(cuda::check(api->StreamBeginCapture(stream.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                           "cuStreamBeginCapture", "counting a plan's kernels"));
  const auto executed = plan.execute(args, context);
  CUgraph graph = nullptr;
  const CUresult ended = api->StreamEndCapture(stream.get(), &graph);
  const Captured captured(*api, graph);
  if (!executed) return executed.error().within("counting a plan's kernels");
  CONVOY_CHECK(cuda::check(ended, "cuStreamEndCapture", "counting a plan's kernels"));
  return captured.nodes();
}

}  // namespace convoy::cudnn
