// A convolution, alone and with bias and ReLU fused, on cuDNN's bare backend API: every descriptor in the order in
// which it is needed, and each question that people ask about it answered where the code meets it. Numbers are checked
// against a plain loop. Nothing here uses Convoy (which does all of this in src/engines/cudnn); libcudnn.so.9 and
// libcuda.so.1 are opened at run time, so this builds with cuDNN's and CUDA's headers alone:
//
//   g++ -std=c++20 cudnn_backend.cpp -I<cudnn and cuda headers> -ldl -o cudnn_backend && ./cudnn_backend
//
// or with this folder's CMakeLists.txt, which looks for both. libcudnn.so.9 is looked for as any library is; the
// variable CONVOY_CUDNN names the file, or the folder that it is in.
//
// Without a GPU the graphs are still built, counted and refused: that part of cuDNN 9 needs no device.
#include <cuda.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// ---- The two libraries. Linked programs call the functions of the headers and need none of this.
// ----------------------

template <class Function>
void load(void* library, const char* name, Function*& pointer) {
  pointer = reinterpret_cast<Function*>(dlsym(library, name));
  if (pointer == nullptr) {
    std::printf("%s is missing\n", name);
    std::exit(1);
  }
}

#define POINTER(name) decltype(::name)* name = nullptr;
#define LOAD(name) load(library, #name, name);
#define CUDNN_FUNCTIONS(X)                                                                                       \
  X(cudnnGetVersion)                                                                                             \
  X(cudnnGetErrorString)                                                                                         \
  X(cudnnGetLastErrorString)                                                                                     \
  X(cudnnCreate)                                                                                                 \
  X(cudnnDestroy)                                                                                                \
  X(cudnnSetStream) X(cudnnBackendCreateDescriptor) X(cudnnBackendDestroyDescriptor) X(cudnnBackendSetAttribute) \
      X(cudnnBackendGetAttribute) X(cudnnBackendFinalize) X(cudnnBackendExecute)
struct Cudnn {
  CUDNN_FUNCTIONS(POINTER)
  bool open() {
    const char* given = std::getenv("CONVOY_CUDNN");
    std::filesystem::path path = given != nullptr ? given : "libcudnn.so.9";
    if (given != nullptr && std::filesystem::is_directory(path)) path /= "libcudnn.so.9";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return false;
    CUDNN_FUNCTIONS(LOAD)
    return true;
  }
} cudnn;

#define STRING_(text) #text
#define STRING(text) STRING_(text)
struct Cuda {  // cuda.h renames functions to their newest version: the symbol is what the macro expands to
  decltype(::cuInit)* init;
  decltype(::cuDeviceGet)* device_get;
  decltype(::cuDevicePrimaryCtxRetain)* retain;
  decltype(::cuCtxSetCurrent)* set_current;
  decltype(::cuMemAlloc)* alloc;
  decltype(::cuMemFree)* free;
  decltype(::cuMemcpyHtoD)* to_device;
  decltype(::cuMemcpyDtoH)* to_host;
  decltype(::cuMemsetD8)* fill;
  decltype(::cuStreamCreate)* stream_create;
  decltype(::cuStreamSynchronize)* synchronize;
  decltype(::cuStreamBeginCapture)* begin_capture;
  decltype(::cuStreamEndCapture)* end_capture;
  decltype(::cuGraphGetNodes)* nodes;
  decltype(::cuGraphDestroy)* graph_destroy;
  bool open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    load(library, "cuInit", init);
    load(library, STRING(cuDeviceGet), device_get);
    load(library, STRING(cuDevicePrimaryCtxRetain), retain);
    load(library, STRING(cuCtxSetCurrent), set_current);
    load(library, STRING(cuMemAlloc), alloc);
    load(library, STRING(cuMemFree), free);
    load(library, STRING(cuMemcpyHtoD), to_device);
    load(library, STRING(cuMemcpyDtoH), to_host);
    load(library, STRING(cuMemsetD8), fill);
    load(library, STRING(cuStreamCreate), stream_create);
    load(library, STRING(cuStreamSynchronize), synchronize);
    load(library, STRING(cuStreamBeginCapture), begin_capture);
    load(library, STRING(cuStreamEndCapture), end_capture);
    load(library, STRING(cuGraphGetNodes), nodes);
    load(library, STRING(cuGraphDestroy), graph_destroy);
    CUdevice device = 0;
    CUcontext context = nullptr;
    // cuDNN works in the primary context: the one that the CUDA runtime uses, too.
    return init(0) == CUDA_SUCCESS && device_get(&device, 0) == CUDA_SUCCESS &&
           retain(&context, device) == CUDA_SUCCESS && set_current(context) == CUDA_SUCCESS;
  }
} cuda;

// ---- Descriptors ----------------------------------------------------------------------------------------------------

// Everything in this API is a descriptor: create, set attributes, finalize, then use. After finalize it can't be
// changed. A wrong value is often reported only by finalize, and a wrong combination only when the graph is finalized,
// so every status is looked at, and the last error string with it: it names the expression that failed.
//
// Why BAD_PARAM? In most cases one of: the attribute's *type* argument does not match the attribute (see alpha and beta
// below), the element count is wrong (dims of a 2D convolution have 4 elements, its paddings 2), an attribute was never
// set, or shapes contradict each other.
std::string last_error(cudnnStatus_t status) {
  char words[1024] = "";
  cudnn.cudnnGetLastErrorString(words, sizeof words);
  return std::string(cudnn.cudnnGetErrorString(status)) + ": " + words;
}

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { status_ = cudnn.cudnnBackendCreateDescriptor(type, &raw_); }
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { cudnn.cudnnBackendDestroyDescriptor(raw_); }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    note(cudnn.cudnnBackendSetAttribute(raw_, name, type, static_cast<std::int64_t>(values.size()), values.data()));
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T value) {
    note(cudnn.cudnnBackendSetAttribute(raw_, name, type, 1, &value));
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& child) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, child.raw_);
  }
  bool finalize() {
    if (status_ == CUDNN_STATUS_SUCCESS) note(cudnn.cudnnBackendFinalize(raw_));
    return status_ == CUDNN_STATUS_SUCCESS;
  }
  std::int64_t integer(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0, count = 0;
    cudnn.cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_INT64, 1, &count, &value);
    return value;
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }
  const std::string& error() const { return error_; }

 private:
  void note(cudnnStatus_t status) {
    if (status_ != CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_SUCCESS) return;
    status_ = status;
    error_ = last_error(status);
  }
  cudnnBackendDescriptor_t raw_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
  std::string error_;
};

// ---- The problem: y = relu(conv(x, w) + bias), channels last in memory
// ------------------------------------------------

constexpr std::int64_t N = 4, C = 32, H = 14, W = 14, K = 64, R = 3, S = 3, G = 2, PAD = 1;
constexpr std::int64_t P = H, Q = W;  // stride 1, "same" padding

// What is a UID? The name by which the variant pack, at execution, says which pointer belongs to which tensor. Any
// numbers that differ within a graph will do. Tensors that only pass from one operation to the next (virtual ones) have
// one too, but get no pointer.
enum : std::int64_t { kX = 1, kW = 2, kY = 3, kBias = 4, kSum = 100, kBiased = 101 };

// Dims are always N, C, H, W and K, C/groups, R, S; the *strides* say that channels come last. With a dim for the
// groups (see Writing) the group comes before its channels.
std::vector<std::int64_t> channels_last(const std::vector<std::int64_t>& dims) {
  if (dims.size() == 5) {
    const std::int64_t channels = dims[1] * dims[2];
    return {channels * dims[3] * dims[4], dims[2], 1, channels * dims[4], channels};
  }
  return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
}

void fill_tensor(Descriptor& tensor, std::int64_t uid, const std::vector<std::int64_t>& dims, bool is_virtual = false,
                 const std::vector<std::int64_t>& strides = {}) {
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.empty() ? channels_last(dims) : strides)
      // What the pointer will be a multiple of. Too small a promise costs engines that load 16 bytes at once.
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  if (!tensor.finalize()) std::printf("tensor %d: %s\n", static_cast<int>(uid), tensor.error().c_str());
}

// What samples do that this one doesn't, and cuDNN 9.19 takes all the same (main() tries it): newer versions may not.
struct Writing {
  bool group_dimension = false;  // x is [N,G,C,H,W], w [G,K,C,R,S], y [N,G,K,P,Q], C and K being those of one group
  bool double_scales = false;    // alpha and beta are double though the compute type is float
};

// How are groups set? Nowhere: there is no attribute for them. cuDNN takes C of x over C of w: here x has 32 channels,
// w has 16, so there are 2 groups. w_channels is a parameter to show what a wrong one does.
struct Graph {
  Descriptor x{CUDNN_BACKEND_TENSOR_DESCRIPTOR}, w{CUDNN_BACKEND_TENSOR_DESCRIPTOR}, y{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  Descriptor bias{CUDNN_BACKEND_TENSOR_DESCRIPTOR}, sum{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  Descriptor biased{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  Descriptor window{CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR};
  // Which operation is which pass? FORWARD computes y, BACKWARD_DATA computes x from y and w (a transposed
  // convolution's forward pass is this one), BACKWARD_FILTER computes w from x and y. Their attributes are the same
  // under other names.
  Descriptor convolution{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
  Descriptor add{CUDNN_BACKEND_POINTWISE_DESCRIPTOR}, relu{CUDNN_BACKEND_POINTWISE_DESCRIPTOR};
  Descriptor add_bias{CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR},
      activate{CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR};
  Descriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::string error;  // of the first descriptor that could not be finalized

  Graph(bool fused, std::int64_t w_channels, cudnnHandle_t handle, const Writing& writing = {}) {
    if (writing.group_dimension) {
      fill_tensor(x, kX, {N, G, C / G, H, W});
      // w is no activation: its groups are the outermost, each packed like a filter of its own.
      fill_tensor(w, kW, {G, K / G, w_channels, R, S}, false,
                  {K / G * w_channels * R * S, w_channels * R * S, 1, S * w_channels, w_channels});
      fill_tensor(y, kY, {N, G, K / G, P, Q});
    } else {
      fill_tensor(x, kX, {N, C, H, W});
      fill_tensor(w, kW, {K, w_channels, R, S});
      fill_tensor(y, kY, {N, K, P, Q});
    }
    fill_tensor(bias, kBias, {1, K, 1, 1});  // sizes of 1 are broadcast
    fill_tensor(sum, kSum, {N, K, P, Q}, true);
    fill_tensor(biased, kBiased, {N, K, P, Q}, true);

    // What are the spatial dims? How many of them: 2 for images, 3 for volumes; N and C don't count. Paddings, strides
    // and dilations have so many elements each. (A 1D problem is a 2D one with H = R = 1.)
    using Values = std::vector<std::int64_t>;
    window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Values{PAD, PAD})
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Values{PAD, PAD})
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Values{1, 1})
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Values{1, 1});
    finish(window, "convolution");

    // Which type have alpha and beta? y = alpha*conv + beta*y. They are float for every compute type but double, where
    // they are double; half or int8 tensors change nothing about it. (9.19 takes
    // double for all.) With beta = 0 y is never read.
    convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, fused ? sum : y)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window);
    if (writing.double_scales) {
      convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_DOUBLE, 1.0)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_DOUBLE, 0.0);
    } else {
      convolution.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1.0f)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 0.0f);
    }
    finish(convolution, "forward operation");

    std::vector<cudnnBackendDescriptor_t> operations{convolution.raw()};
    if (fused) {
      add.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
          .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
      finish(add, "add");
      relu.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD)
          .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
      finish(relu, "relu");
      add_bias.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, biased);
      finish(add_bias, "add operation");
      activate.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, relu)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, biased)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
      finish(activate, "relu operation");
      operations.push_back(add_bias.raw());
      operations.push_back(activate.raw());
    }
    // Which type have operations? That of every descriptor. Samples for the first versions say CUDNN_TYPE_OPERATION,
    // which cuDNN's headers don't have any more: then the program does not compile.
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    finish(graph, "operation graph");
  }

  // Will bias be fused? The graph says what is computed, not how: it finalizes whenever it makes sense. How many
  // engines know the pattern is the first answer; whether one takes these sizes shows when a plan finalizes; what it
  // launches is seen by capturing it (below). cuDNN never splits a graph by itself: a plan computes all of it, or there
  // is none.
  std::int64_t engines() const { return graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT); }

 private:
  void finish(Descriptor& descriptor, const char* what) {
    if (!descriptor.finalize() && error.empty()) error = std::string(what) + ": " + descriptor.error();
  }
};

// ---- On a device ----------------------------------------------------------------------------------------------------

void require(bool ok, const std::string& what) {
  if (ok) return;
  std::printf("failed: %s\n", what.c_str());
  std::exit(1);
}

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int>(seed >> 29) - 3);  // small integers: every order of summing is exact
  }
  return values;
}

// The formula, index by index, on tensors with channels last.
std::vector<float> on_the_processor(const std::vector<float>& x, const std::vector<float>& w,
                                    const std::vector<float>& bias, bool fused) {
  std::vector<float> y(N * K * P * Q);
  const std::int64_t group_c = C / G, group_k = K / G;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t p = 0; p < P; ++p)
      for (std::int64_t q = 0; q < Q; ++q)
        for (std::int64_t k = 0; k < K; ++k) {
          double sum = 0;
          for (std::int64_t r = 0; r < R; ++r)
            for (std::int64_t s = 0; s < S; ++s) {
              const std::int64_t h = p + r - PAD, v = q + s - PAD;
              if (h < 0 || h >= H || v < 0 || v >= W) continue;
              for (std::int64_t c = 0; c < group_c; ++c) {
                sum +=
                    x[((n * H + h) * W + v) * C + k / group_k * group_c + c] * w[((k * R + r) * S + s) * group_c + c];
              }
            }
          if (fused) sum = std::max(sum + bias[k], 0.0);
          y[((n * P + p) * Q + q) * K + k] = static_cast<float>(sum);
        }
  return y;
}

void run(bool fused, cudnnHandle_t handle, CUstream stream) {
  const Graph graph(fused, C / G, handle);
  require(graph.error.empty(), graph.error);

  // Which engine? Ask a heuristic: it gives configurations (an engine and its knobs), best first. Results are fetched
  // into descriptors that the caller has created.
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  require(heuristic.finalize(), heuristic.error());
  std::int64_t count = 0;
  cudnn.cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                 &count, nullptr);
  std::vector<std::unique_ptr<Descriptor>> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configurations.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations.back()->raw());
  }
  cudnn.cudnnBackendGetAttribute(heuristic.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                 &count, raw.data());

  // A heuristic may name configurations that can't be built: the first that can is taken.
  std::unique_ptr<Descriptor> plan;
  for (std::int64_t i = 0; i < count && !plan; ++i) {
    auto candidate = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    candidate->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configurations[i]);
    if (candidate->finalize()) plan = std::move(candidate);
  }
  require(plan != nullptr, "no configuration of the heuristic gives a plan");
  const std::int64_t workspace_bytes = plan->integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);

  const std::vector<float> x = numbers(N * C * H * W, 1), w = numbers(K * (C / G) * R * S, 2), bias = numbers(K, 3);
  const auto on_device = [](const std::vector<float>& host) {
    CUdeviceptr pointer = 0;
    require(cuda.alloc(&pointer, host.size() * sizeof(float)) == CUDA_SUCCESS, "cuMemAlloc");
    require(cuda.to_device(pointer, host.data(), host.size() * sizeof(float)) == CUDA_SUCCESS, "cuMemcpyHtoD");
    return pointer;
  };
  std::vector<float> y(N * K * P * Q, NAN);  // what is not written stays NaN
  CUdeviceptr device_x = on_device(x), device_w = on_device(w), device_bias = on_device(bias), device_y = on_device(y);
  CUdeviceptr workspace = 0;
  if (workspace_bytes > 0) {
    require(cuda.alloc(&workspace, static_cast<std::size_t>(workspace_bytes)) == CUDA_SUCCESS, "cuMemAlloc");
  }

  // The variant pack binds UIDs to pointers, in any order, and brings the workspace. Plans can be executed again and
  // again with other packs.
  std::vector<std::int64_t> uids{kX, kW, kY};
  std::vector<CUdeviceptr> pointers{device_x, device_w, device_y};
  if (fused) {
    uids.push_back(kBias);
    pointers.push_back(device_bias);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  require(pack.finalize(), pack.error());
  cudnnStatus_t status = cudnn.cudnnBackendExecute(handle, plan->raw(), pack.raw());
  require(status == CUDNN_STATUS_SUCCESS, last_error(status));
  require(cuda.synchronize(stream) == CUDA_SUCCESS, "cuStreamSynchronize");
  require(cuda.to_host(y.data(), device_y, y.size() * sizeof(float)) == CUDA_SUCCESS, "cuMemcpyDtoH");
  std::size_t different = 0;
  const std::vector<float> expected = on_the_processor(x, w, bias, fused);
  for (std::size_t i = 0; i < y.size(); ++i) different += !(y[i] == expected[i]);

  // What did the chosen engine fuse? Execute into a stream that captures, and count: one node is one kernel (or memset)
  // for all operations of the graph. Nothing is run.
  CUgraph captured = nullptr;
  std::size_t nodes = 0;
  require(cuda.begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS, "cuStreamBeginCapture");
  status = cudnn.cudnnBackendExecute(handle, plan->raw(), pack.raw());
  require(cuda.end_capture(stream, &captured) == CUDA_SUCCESS && status == CUDNN_STATUS_SUCCESS, "capture");
  require(cuda.nodes(captured, nullptr, &nodes) == CUDA_SUCCESS, "cuGraphGetNodes");
  cuda.graph_destroy(captured);

  std::printf("%s: %d configurations offered, %lld bytes of workspace, %zu launches, %zu of %zu numbers differ\n",
              fused ? "convolution + bias + relu" : "convolution", static_cast<int>(count),
              static_cast<long long>(workspace_bytes), nodes, different, y.size());
  for (const CUdeviceptr pointer : {device_x, device_w, device_bias, device_y, workspace}) {
    if (pointer != 0) cuda.free(pointer);
  }
  require(different == 0, "numbers differ from the processor's");
}

int main() {
  if (!cudnn.open()) {
    std::printf("skipped: no cuDNN (libcudnn.so.9 is not found; CONVOY_CUDNN may name the file or its folder)\n");
    return 0;
  }
  std::printf("cuDNN %zu\n", cudnn.cudnnGetVersion());

  // From 9 on, graphs need no handle and no device.
  for (const bool fused : {false, true}) {
    const Graph graph(fused, C / G, nullptr);
    require(graph.error.empty(), graph.error);
    std::printf("%s: %d engines know this graph\n", fused ? "convolution + bias + relu" : "convolution",
                static_cast<int>(graph.engines()));
  }
  const std::pair<const char*, Writing> others[] = {
      {"x as [N,G,C,H,W]", {.group_dimension = true}},
      {"alpha and beta as double", {.double_scales = true}},
  };
  for (const auto& [what, writing] : others) {
    const Graph graph(false, C / G, nullptr, writing);
    if (graph.error.empty()) {
      std::printf("%s: %d engines know this graph\n", what, static_cast<int>(graph.engines()));
    } else {
      std::printf("%s: refused, %s\n", what, graph.error.c_str());
    }
  }
  const Graph wrong(false, 7, nullptr);  // 32 channels are no multiple of 7
  require(!wrong.error.empty(), "a filter of 7 channels was accepted");
  std::printf("a filter of 7 channels for 32: %s\n", wrong.error.c_str());

  if (!cuda.open()) {
    std::printf("no CUDA device here: plans and their execution are left out\n");
    return 0;
  }
  // One handle a thread and device, used with one stream at a time.
  cudnnHandle_t handle = nullptr;
  CUstream stream = nullptr;
  const cudnnStatus_t status = cudnn.cudnnCreate(&handle);
  require(status == CUDNN_STATUS_SUCCESS, "cudnnCreate: " + last_error(status));
  require(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS, "cuStreamCreate");
  require(cudnn.cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS, "cudnnSetStream");
  run(false, handle, stream);
  run(true, handle, stream);
  cudnn.cudnnDestroy(handle);
  return 0;
}
