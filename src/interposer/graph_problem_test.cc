// Every graph that engines/cudnn builds, read back: with the real cuDNN, which builds graphs without a GPU.
#include "interposer/graph_problem.h"

#include <gtest/gtest.h>

#include "core/problem_list.h"
#include "engines/cudnn/described_h200.h"
#include "engines/cudnn/graph.h"

namespace convoy::interposer {
namespace {

Descriptors* watched = nullptr;
const cuda::CudnnApi* real_api = nullptr;

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* raw) {
  const cudnnStatus_t status = real_api->BackendCreateDescriptor(type, raw);
  if (status == CUDNN_STATUS_SUCCESS) watched->created(*raw, type);
  return status;
}
cudnnStatus_t set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* values) {
  watched->set(raw, name, type, count, values);
  return real_api->BackendSetAttribute(raw, name, type, count, values);
}
cudnnStatus_t destroy(cudnnBackendDescriptor_t raw) {
  watched->destroyed(raw);
  return real_api->BackendDestroyDescriptor(raw);
}

class GraphProblem : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto api = cuda::cudnn();
    if (!api) GTEST_SKIP() << "skipped: no cuDNN: " << api.error().message;
    if (const std::string why = cudnn::wants_driver(**api); !why.empty()) GTEST_SKIP() << "skipped: " << why;
    real_api = *api;
    api_ = **api;
    api_.BackendCreateDescriptor = create;
    api_.BackendSetAttribute = set;
    api_.BackendDestroyDescriptor = destroy;
    watched = &descriptors_;
  }

  // The problem that the graph of `problem` is read as.
  Result<ConvProblem> read_back(const ConvProblem& problem) {
    const cudnn::Graph graph(api_, problem, nullptr);
    if (!graph.ok()) return Error{ErrorCode::internal, "not built: " + graph.failed_part() + graph.failure().text};
    return problem_of(*descriptors_.find(graph.descriptor().raw()));
  }

  Descriptors descriptors_;
  cudnn::Api api_;
};

// As cuDNN is told: 1D with a height of 1, the strides that shapes_of() chooses, no math mode, no zero points; what is
// added at the end and is out itself counts as z.
ConvProblem as_told(ConvProblem problem) {
  const cudnn::Shapes shapes = cudnn::shapes_of(problem);
  for (const auto& [tensor, shape] :
       {std::pair{&problem.x, &shapes.x}, {&problem.w, &shapes.w}, {&problem.y, &shapes.y}}) {
    tensor->dims = shape->dims;
    tensor->strides = shape->strides;
  }
  if (problem.stride.size() == 1) {
    for (Dims* dims : {&problem.pre_padding, &problem.post_padding}) dims->insert(dims->begin(), 0);
    for (Dims* dims : {&problem.stride, &problem.dilation}) dims->insert(dims->begin(), 1);
  }
  problem.math = MathMode::strict;
  if (!cudnn::is_plain(problem) && problem.beta != 0) problem.epilogue.gamma = std::exchange(problem.beta, 0);
  return problem;
}

ConvProblem problem_in(const std::string& text) {
  auto problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().message);
  return *problem;
}

TEST_F(GraphProblem, ListsInThreePasses) {
  int graphs = 0;
  for (const char* name : {"resnet50", "mobilenet_v2", "unet3d", "i3d"}) {
    const auto list = read_problem_list(std::string(CONVOY_PROBLEMS_DIR) + "/" + name + ".txt");
    if (!list.ok()) continue;
    for (const ListedProblem& listed : *list) {
      for (const Pass pass : {Pass::fprop, Pass::dgrad, Pass::wgrad}) {
        ConvProblem problem = listed.problem;
        problem.pass = pass;
        if (pass != Pass::fprop) problem.epilogue = {};
        const auto read = read_back(problem);
        ASSERT_TRUE(read.ok()) << print(problem) << ": " << read.error().message;
        EXPECT_EQ(print(*read), print(as_told(problem)));
        ++graphs;
      }
    }
  }
  EXPECT_GT(graphs, 100);
}

TEST_F(GraphProblem, EveryKindOfEpilogueAndWindow) {
  const char* const base = "fprop:x=f16,2x16x9x11,nhwc:w=f16,32x16x3x3,nhwc:pad=1x1";
  for (const char* more : {"",
                           ":alpha=0.5",
                           ":alpha=0.5:beta=2",
                           ":bias=1",
                           ":gamma=1",
                           ":gamma=0.25:alpha=3",
                           ":bias=1:gamma=1:act=relu",
                           ":bias=out:gamma=0:act=relu",
                           ":bias=out:gamma=1:act=relu",
                           ":act=relu",
                           ":act=clip,-1,6",
                           ":act=leaky_relu,0.1",
                           ":act=elu,1",
                           ":act=sigmoid",
                           ":act=tanh",
                           ":act=swish,1",
                           ":act=gelu",
                           ":act=gelu_tanh",
                           ":bias=1:act=gelu",
                           ":beta=1:bias=1",
                           ":mode=conv",
                           ":stride=2x1",
                           ":dilation=2x2"}) {
    const ConvProblem problem = problem_in(std::string(base) + more);
    const auto read = read_back(problem);
    ASSERT_TRUE(read.ok()) << more << ": " << read.error().message;
    EXPECT_EQ(print(*read), print(as_told(problem))) << more;
  }
}

TEST_F(GraphProblem, TypesGroupsAndDimensions) {
  for (const char* text :
       {"fprop:x=f64,2x6x9,nchw:w=f64,4x3x3,nchw:groups=2",
        "dgrad:x=bf16,2x8x9x9,nhwc:w=bf16,8x1x3x3,nhwc:pad=1x1:groups=8",
        "wgrad:x=f32,2x8x7x7x7,nchw:w=f32,4x2x3x3x3,nchw:groups=4", "fprop:x=s8,1x32x8x8,nhwc:w=s8,16x32x1x1,nhwc",
        "fprop:x=s8,1x32x8x8,nhwc:w=s8,16x32x1x1,nhwc:y=s8,1x16x8x8,nhwc:requant=channel",
        "fprop:x=f32,2x4x8x8,strides=512x128x16x2:w=f32,4x4x3x3,nchw:y=f32,2x4x6x6,nchw"}) {
    const ConvProblem problem = problem_in(text);
    const auto read = read_back(problem);
    ASSERT_TRUE(read.ok()) << text << ": " << read.error().message;
    EXPECT_EQ(print(*read), print(as_told(problem)));
  }
}

// Graphs that nobody here builds.
class Handmade {
 public:
  explicit Handmade(Descriptors& descriptors) : descriptors_(descriptors) {}
  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    const auto raw = reinterpret_cast<cudnnBackendDescriptor_t>(++next_ * 64);
    descriptors_.created(raw, type);
    return raw;
  }
  template <class T>
  void set(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::vector<T> values) {
    descriptors_.set(raw, name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  cudnnBackendDescriptor_t tensor(std::int64_t uid, Dims dims, Dims strides, cudnnDataType_t type,
                                  bool is_virtual = false) {
    const auto raw = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(raw, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set(raw, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    set(raw, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Dims{uid});
    set(raw, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Dims{16});
    set(raw, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
    set(raw, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, std::vector<char>{is_virtual});
    return raw;
  }
  cudnnBackendDescriptor_t convolution(cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                       cudnnBackendDescriptor_t y) {
    const auto window = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    for (const auto name : {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
      set(window, name, CUDNN_TYPE_INT64, Dims{1, 1});
    }
    for (const auto name : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
      set(window, name, CUDNN_TYPE_INT64, Dims{1, 1});
    }
    set(window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    const auto operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    refer(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, {x});
    refer(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {w});
    refer(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {y});
    refer(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, {window});
    return operation;
  }
  cudnnBackendDescriptor_t pointwise(cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                     cudnnBackendDescriptor_t y, float alpha2 = 1) {
    const auto kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
    set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    const auto operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    refer(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {kind});
    refer(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {x});
    if (b != nullptr) refer(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {b});
    refer(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {y});
    set(operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, std::vector{alpha2});
    return operation;
  }
  Result<ConvProblem> read(std::vector<cudnnBackendDescriptor_t> operations) {
    const auto graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    refer(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, std::move(operations));
    return problem_of(*descriptors_.find(graph));
  }

 private:
  void refer(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, std::vector<cudnnBackendDescriptor_t> to) {
    set(raw, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::move(to));
  }
  Descriptors& descriptors_;
  std::uintptr_t next_ = 0;
};

TEST(HandmadeGraph, GroupsAsADimension) {
  Descriptors descriptors;
  Handmade made(descriptors);
  const auto x = made.tensor(1, {2, 4, 8, 5, 5}, {800, 200, 25, 5, 1}, CUDNN_DATA_HALF);
  const auto w = made.tensor(2, {4, 6, 8, 3, 3}, {432, 72, 9, 3, 1}, CUDNN_DATA_HALF);
  const auto y = made.tensor(3, {2, 4, 6, 5, 5}, {600, 150, 25, 5, 1}, CUDNN_DATA_HALF);
  const auto read = made.read({made.convolution(x, w, y)});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(
      print(*read),
      print(problem_in("fprop:x=f16,2x32x5x5,nchw,align=16:w=f16,24x8x3x3,nchw,align=16:y=f16,2x24x5x5,nchw,align=16:"
                       "pad=1x1:groups=4")));
}

TEST(HandmadeGraph, WhatPyTorchFusesIsNamed) {
  Descriptors descriptors;
  Handmade made(descriptors);
  const Dims dims{2, 8, 5, 5}, last{200, 1, 40, 8}, bias_dims{1, 8, 1, 1}, bias_strides{8, 1, 8, 8};
  const auto x = made.tensor('x', dims, last, CUDNN_DATA_BFLOAT16);
  const auto w = made.tensor('w', {8, 8, 3, 3}, {72, 1, 24, 8}, CUDNN_DATA_BFLOAT16);
  const auto z = made.tensor('z', dims, last, CUDNN_DATA_BFLOAT16);
  const auto y = made.tensor('y', dims, last, CUDNN_DATA_BFLOAT16);
  const auto virtual_tensor = [&](std::int64_t uid) { return made.tensor(uid, dims, last, CUDNN_DATA_FLOAT, true); };
  const auto conv = virtual_tensor('C'), sum = virtual_tensor('A'), biased = virtual_tensor('B');
  const auto graph = [&](cudnnDataType_t bias_type, float factor) {
    const auto bias = made.tensor('b', bias_dims, bias_strides, bias_type);
    return made.read({made.convolution(x, w, conv), made.pointwise(CUDNN_POINTWISE_ADD, conv, z, sum, factor),
                      made.pointwise(CUDNN_POINTWISE_ADD, sum, bias, biased),
                      made.pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y)});
  };
  const auto read = graph(CUDNN_DATA_FLOAT, 1);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_NE(print(*read).find("bias=1:gamma=1:act=relu"), std::string::npos) << print(*read);
  // cudnn_convolution_relu in 16 bits.
  const auto narrow = graph(CUDNN_DATA_BFLOAT16, 0);
  ASSERT_TRUE(narrow.ok()) << narrow.error().message;
  EXPECT_NE(print(*narrow).find("bias=out:gamma=0:act=relu"), std::string::npos) << print(*narrow);
  EXPECT_EQ(graph(CUDNN_DATA_HALF, 1).error().message, "bias: it is f16; a problem's is f32 or bf16");
}

TEST(HandmadeGraph, WhatCannotBeExpressedIsNamed) {
  Descriptors descriptors;
  Handmade made(descriptors);
  EXPECT_EQ(made.read({}).error().message, "no convolution");
  EXPECT_NE(made.read({made.make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)}).error().message.find("MATMUL"),
            std::string::npos);
  const Dims dims{2, 8, 5, 5}, strides{200, 25, 5, 1};
  const auto x = made.tensor(1, dims, strides, CUDNN_DATA_INT8x4);
  const auto w = made.tensor(2, {8, 8, 3, 3}, {72, 9, 3, 1}, CUDNN_DATA_FLOAT);
  const auto y = made.tensor(3, dims, strides, CUDNN_DATA_FLOAT);
  EXPECT_NE(made.read({made.convolution(x, w, y)}).error().message.find("x: cuDNN's data type"), std::string::npos);
  const auto lost = reinterpret_cast<cudnnBackendDescriptor_t>(0x999);
  EXPECT_NE(made.read({made.convolution(lost, w, y)}).error().message.find("x: a tensor that nobody described"),
            std::string::npos);
  const auto real_x = made.tensor(4, dims, strides, CUDNN_DATA_FLOAT);
  const auto both = made.read({made.convolution(real_x, w, y), made.convolution(real_x, w, y)});
  EXPECT_EQ(both.error().message, "more than one convolution");
}

TEST(Descriptors, ForgetWhatIsDestroyed) {
  Descriptors descriptors;
  const auto raw = reinterpret_cast<cudnnBackendDescriptor_t>(0x40);
  descriptors.created(raw, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::int64_t uid = 5;
  descriptors.set(raw, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  const auto kept = descriptors.find(raw);
  descriptors.destroyed(raw);
  EXPECT_EQ(descriptors.find(raw), nullptr);
  descriptors.created(raw, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  EXPECT_FALSE(descriptors.find(raw)->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
  EXPECT_EQ(kept->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID), 5) << "who holds it keeps it";
}

}  // namespace
}  // namespace convoy::interposer
