// Generated kernels beside the operators: numbers on the processor, and that NVRTC compiles all of them.
#include <fmt/format.h>

#include "base/environment.h"
#include "device/cuda/nvrtc.h"
#include "device/cuda/program.h"
#include "ops/generated/testing/cases.h"
#include "ops/testing/elements.h"

namespace convoy::ops {
namespace {

bool is_full() { return environment(Variable::test_full).has_value(); }

// For NVRTC as one program: of some kernels, or in full of all and for all architectures.
void expect_compiles(const GeneratedCases& cases) {
  const auto api = cuda::nvrtc();
  if (!api.ok()) {
    std::printf("not compiled: %s\n", api.error().message.c_str());
    return;
  }
  std::vector<generate::Kernel> kernels;
  const std::size_t step = is_full() ? 1 : std::max<std::size_t>(1, cases.kernels().size() / 10);
  for (std::size_t i = 0; i < cases.kernels().size(); i += step) kernels.push_back(cases.kernels()[i]);
  const std::string text = generate::text_of(kernels);
  for (const int architecture : {80, 90, 100}) {
    if (architecture < cases.architecture()) continue;
    cuda::ProgramSource source{"generated.cu", text, {}, architecture};
    for (const generate::KernelFile& file : generate::kernel_files()) source.files.push_back({file.name, file.text});
    const auto made = cuda::compile_program(source);
    EXPECT_TRUE(made.ok()) << made.error().message.substr(0, 4000);
  }
}

std::int64_t count_of(const Dims& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  return count;
}

HostTensor some(DataType type, const Dims& dims, double low = -4, double high = 4) {
  return tensor(type, dims, spread(count_of(dims), low, high));
}

// Every operator that a rule describes, with operands that broadcast and numbers of every kind.
TEST(GeneratedElementwise, IsWhatOperatorsCompute) {
  GeneratedCases cases;
  std::mt19937 random(7);
  const std::vector<Dims> shapes{{2, 8, 3, 5}, {8, 1, 1}, {2, 1, 3, 5}};
  int turn = 0;
  for (const auto& [name, rule] : element_rules()) {
    for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::s64, DataType::s32,
                                DataType::s8, DataType::u8, DataType::boolean}) {
      const bool first = is_floating(type) ? type != DataType::bf16 : turn % 3 == 0;
      ++turn;
      if (!contains(rule->types, type) || !(first || is_full())) continue;
      const int operands = rule->operands == 0 ? 3 : rule->operands;
      std::vector<HostTensor> inputs;
      for (int i = 0; i < operands; ++i) inputs.push_back(varied(type, shapes[static_cast<std::size_t>(i)], random));
      cases.add(node_of_element(name), inputs, turn % 2 == 0 ? Layout::nhwc : Layout::nchw, {1e-5, 2e-5});
    }
  }
  EXPECT_GT(cases.count(), 120);
  EXPECT_LE(cases.refusals().size(), 2U);
  cases.run();
  expect_compiles(cases);
}

NodeDesc pool(std::string op, Dims kernel, Dims strides, Dims pads, std::int64_t ceil_mode = 0, Dims dilations = {},
              std::int64_t include = 0) {
  NodeDesc node = node_of(std::move(op), {{"kernel_shape", kernel}, {"strides", strides}, {"ceil_mode", ceil_mode}});
  if (!pads.empty()) node.attributes["pads"] = pads;
  if (!dilations.empty()) node.attributes["dilations"] = dilations;
  if (include != 0) node.attributes["count_include_pad"] = include;
  return node;
}

TEST(GeneratedPools, AreWhatOperatorsCompute) {
  GeneratedCases cases;
  std::mt19937 random(3);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::u8, DataType::s8}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const std::int64_t channels : {3, 16}) {
        const HostTensor image = some(type, {2, channels, 9, 11});
        if (is_floating(type)) {
          for (const std::int64_t include : {0, 1}) {
            cases.add(pool("AveragePool", {3, 3}, {2, 2}, {1, 1, 1, 1}, 1, {}, include), {image}, layout);
            cases.add(pool("AveragePool", {2, 3}, {1, 2}, {0, 1, 1, 2}, 1, {2, 1}, include), {image}, layout);
          }
          cases.add(pool("AveragePool", {2, 2}, {2, 2}, {}), {image}, layout);
          cases.add(pool("LpPool", {2, 2}, {2, 1}, {1, 0, 0, 1}), {image}, layout);
          for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) {
            cases.add(node_of(op), {image}, layout);
            cases.add(node_of(op), {some(type, {1, channels, 40, 33})}, layout);
          }
          cases.add(pool("MaxPool", {3, 3}, {2, 2}, {1, 1, 1, 1}), {varied(type, {1, channels, 8, 8}, random)}, layout);
        }
        cases.add(pool("MaxPool", {3, 3}, {2, 2}, {1, 1, 1, 1}), {image}, layout);
        cases.add(pool("MaxPool", {3, 2}, {1, 3}, {2, 0, 2, 1}, 1, {2, 1}), {image}, layout);
        cases.add(pool("MaxPool", {3, 3, 3}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}), {some(type, {1, channels, 5, 6, 7})},
                  layout);
      }
      cases.add(pool("MaxPool", {3}, {2}, {1, 1}), {some(type, {0, 4, 9})}, layout);
    }
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  EXPECT_GT(cases.with_schedule("window"), 60);
  EXPECT_GT(cases.with_schedule("rows"), 8);
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedReductions, AreWhatOperatorsCompute) {
  GeneratedCases cases;
  std::mt19937 random(4);
  const auto over = [](std::string op, Dims axes, std::int64_t keep = 1) {
    return node_of(std::move(op), {{"axes", std::move(axes)}, {"keepdims", keep}}, 11);
  };
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
    for (const DataType type : {DataType::f32, DataType::f16, DataType::s32, DataType::s64, DataType::u8}) {
      const bool real = is_floating(type);
      if (!real && std::string_view(op) != "ReduceMax" && std::string_view(op) != "ReduceMin" && type == DataType::u8)
        continue;
      const double low = std::string_view(op) == "ReduceLogSum" ? 0.1 : -2;
      const HostTensor x = some(type, {3, 8, 4, 5}, low, 2);
      cases.add(over(op, {1}), {x}, Layout::nchw, {1e-4, 1e-4});
      cases.add(over(op, {2, 3}, 0), {x}, Layout::nhwc, {1e-4, 1e-4});
      cases.add(over(op, {0, 3}), {x}, Layout::nchw, {1e-4, 1e-4});
      cases.add(over(op, {-1}), {some(type, {5, 1}, low, 2)}, Layout::nchw, {1e-4, 1e-4});
      cases.add(node_of(op, {{"noop_with_empty_axes", std::int64_t{1}}}, 18), {x}, Layout::nhwc, {1e-4, 1e-4});
    }
  }
  cases.add(over("ReduceMax", {1}), {varied(DataType::f32, {4, 70}, random)});
  cases.add(over("ReduceMin", {0}), {varied(DataType::f16, {70, 16}, random)});
  cases.add(over("ReduceSum", {1}), {some(DataType::f32, {2, 10000})}, Layout::nchw, {1e-3, 1e-4});
  cases.add(over("ReduceSum", {1}), {some(DataType::f32, {3, 0})});
  cases.add(over("ReduceMax", {1}), {some(DataType::s32, {3, 0})});
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const DataType type : {DataType::f32, DataType::f16}) {
      for (const std::int64_t axis : {0, 1, -1}) {
        cases.add(node_of(op, {{"axis", axis}}), {some(type, {3, 16, 5, 7})}, Layout::nchw);
        cases.add(node_of(op, {{"axis", axis}}), {some(type, {3, 16, 5, 7})}, Layout::nhwc);
        cases.add(node_of(op, {{"axis", axis == 0 ? 0 : 1}}, 11), {some(type, {3, 16, 5})});
      }
      cases.add(node_of(op, {{"axis", std::int64_t{-1}}}), {some(type, {70, 1000})});
      cases.add(node_of(op, {{"axis", std::int64_t{-1}}}), {some(type, {2, 4, 77})});
    }
  }
  for (const DataType type : {DataType::f32, DataType::f16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const HostTensor x = some(type, {2, 8, 5, 6}), a = some(type, {8}, 0.5, 2), b = some(type, {8});
      cases.add(node_of("InstanceNormalization"), {x, a, b}, layout, {1e-4, 1e-4});
      cases.add(node_of("BatchNormalization"), {x, a, b, some(type, {8}), some(type, {8}, 0.5, 2)}, layout,
                {1e-4, 1e-4});
      cases.add(node_of("GroupNormalization", {{"num_groups", std::int64_t{2}}}, 21), {x, a, b}, layout, {1e-4, 1e-4});
      cases.add(node_of("GroupNormalization", {{"num_groups", std::int64_t{2}}}, 18),
                {x, some(type, {2}, 0.5, 2), some(type, {2})}, layout, {1e-4, 1e-4});
      cases.add(node_of("MeanVarianceNormalization"), {x}, layout, {1e-4, 1e-4});
      cases.add(node_of("LpNormalization", {{"axis", std::int64_t{1}}}), {x}, layout, {1e-4, 1e-4});
    }
    for (const std::int64_t width : {48, 7, 1536}) {
      const HostTensor x = some(type, {2, 5, width}), a = some(type, {width}, 0.5, 2), b = some(type, {width});
      cases.add(node_of("LayerNormalization", {}, 17, 3), {x, a, b}, Layout::nchw, {1e-4, 1e-4});
      cases.add(node_of("LayerNormalization", {}, 17), {x, a}, Layout::nchw, {1e-4, 1e-4});
      cases.add(node_of("RMSNormalization", {}, 23), {x, a}, Layout::nchw, {1e-4, 1e-4});
    }
  }
  for (const DataType type : {DataType::f32, DataType::f16}) {
    for (const char* op : {"ArgMax", "ArgMin"}) {
      for (const std::int64_t last : {0, 1}) {
        const NodeDesc node = node_of(op, {{"axis", std::int64_t{1}}, {"select_last_index", last}});
        cases.add(node, {some(type, {2, 40, 3, 5})}, Layout::nhwc);
        cases.add(node, {tensor(type, {1, 6, 1}, {1, 3, 3, -2, -2, 0})});
      }
      cases.add(node_of(op, {{"axis", std::int64_t{-1}}, {"keepdims", std::int64_t{0}}}), {some(type, {5, 200})});
    }
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      cases.add(node_of("LRN", {{"size", std::int64_t{5}}, {"alpha", 0.1}}), {some(type, {2, 8, 4, 5})}, layout,
                {1e-4, 1e-4});
      cases.add(node_of("LRN", {{"size", std::int64_t{4}}}), {some(type, {1, 7, 3})}, layout, {1e-4, 1e-4});
    }
  }
  for (const auto& [why, count] : cases.refusals()) EXPECT_NE(why.find("of integers"), std::string::npos) << why;
  EXPECT_GT(cases.with_schedule("rows"), 60);
  cases.run();
  expect_compiles(cases);
}

// Few and long folds, by clusters of blocks from sm_90 on: sums of pixels, norms whose results are of each element, and
// whole tensors.
TEST(GeneratedReductions, ShareLongLines) {
  for (const int architecture : {80, 90}) {
    GeneratedCases cases(architecture);
    for (const DataType type : {DataType::f32, DataType::f16}) {
      cases.add(node_of("GlobalAveragePool", {}), {some(type, {1, 24, 91, 90})}, Layout::nhwc, {1e-4, 1e-4});
      cases.add(node_of("GlobalMaxPool", {}), {some(type, {2, 8, 90, 90})}, Layout::nhwc);
    }
    const HostTensor volume = some(DataType::f16, {1, 2, 100, 1400}), of_channels = some(DataType::f16, {2}, 0.5, 2);
    cases.add(node_of("InstanceNormalization", {}), {volume, of_channels, of_channels}, Layout::nchw, {2e-3, 2e-3});
    cases.add(node_of("ReduceMax", {{"keepdims", std::int64_t{0}}}), {some(DataType::f32, {3, 210000})});
    EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
    int shared = 0;
    for (const generate::Kernel& kernel : cases.kernels())
      shared += kernel.schedule.find("shares=") != std::string::npos;
    EXPECT_EQ(shared, architecture < 90 ? 0 : cases.count());
    cases.run();
    expect_compiles(cases);
  }
}

TEST(GeneratedMovement, IsWhatOperatorsMove) {
  GeneratedCases cases;
  std::mt19937 random(5);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::u8, DataType::s64}) {
    const HostTensor x = varied(type, {2, 16, 6, 20}, random);
    for (const Dims& order : {Dims{0, 2, 3, 1}, Dims{3, 2, 1, 0}, Dims{0, 1, 3, 2}, Dims{1, 0, 2, 3}}) {
      cases.add(node_of("Transpose", {{"perm", order}}), {x});
    }
    cases.add(node_of("Transpose"), {varied(type, {100, 70}, random)});
    cases.add(node_of("Flatten"), {x});
    cases.add(node_of("Expand"), {varied(type, {16, 1, 20}, random), longs({4}, {2, 16, 6, 20})});
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const std::int64_t axis : {0, 1, 2, 3}) {
        Dims wider{2, 16, 6, 20};
        wider[static_cast<std::size_t>(axis)] += 8;
        Dims empty = wider, one = wider;
        empty[static_cast<std::size_t>(axis)] = 0;
        one[static_cast<std::size_t>(axis)] = 1;
        cases.add(node_of("Concat", {{"axis", axis}}), {x, varied(type, wider, random)}, layout);
        cases.add(node_of("Concat", {{"axis", axis}}), {x, varied(type, empty, random), varied(type, one, random), x},
                  layout);
        cases.add(node_of("Split", {{"axis", axis}, {"num_outputs", std::int64_t{2}}}, 18, 2), {x}, layout);
      }
      const Dims sizes{3, 5, 8};
      cases.add(node_of("Split", {{"axis", std::int64_t{1}}, {"split", sizes}}, 11, 3), {x}, layout);
    }
    for (const std::int64_t axis : {0, 1, 3}) {
      cases.add(node_of("Gather", {{"axis", axis}}), {x, longs({2, 3}, {0, -1, 1, 1, 0, -2})});
    }
    cases.add(node_of("Gather", {{"axis", std::int64_t{1}}}), {x, longs({}, {3})});
    if (is_floating(type)) {
      cases.add(node_of("Pow"), {x, some(type, {20}, -2, 3)}, Layout::nhwc);
      for (const double power : {2.0, 3.0, 0.5}) cases.add(node_of("Pow"), {x, floats({}, {power})});
      cases.add(node_of("QuantizeLinear"),
                {some(type, {2, 16, 6, 20}), tensor(type, {}, {0.03125}), tensor(DataType::u8, {}, {7})});
      cases.add(node_of("QuantizeLinear", {{"axis", std::int64_t{1}}}),
                {some(type, {2, 3, 6, 20}), tensor(type, {3}, {0.5, 0.25, 1}), tensor(DataType::s8, {3}, {7, 0, -3})},
                Layout::nhwc);
      cases.add(node_of("DequantizeLinear", {{"axis", std::int64_t{1}}}),
                {some(DataType::s8, {2, 3, 6, 20}, -128, 127), tensor(type, {3}, {0.5, 0.25, 1}),
                 tensor(DataType::s8, {3}, {7, 0, -3})},
                Layout::nhwc);
    }
    cases.add(node_of("Where"), {varied(DataType::boolean, {2, 16, 1, 20}, random), x, varied(type, {}, random)},
              Layout::nhwc);
    for (const DataType to : {DataType::f32, DataType::f16, DataType::bf16, DataType::s8, DataType::u8, DataType::s32,
                              DataType::s64, DataType::boolean}) {
      cases.add(node_of("Cast", {{"to", std::int64_t{to == DataType::f32    ? 1
                                                     : to == DataType::f16  ? 10
                                                     : to == DataType::bf16 ? 16
                                                     : to == DataType::s8   ? 3
                                                     : to == DataType::u8   ? 2
                                                     : to == DataType::s32  ? 6
                                                     : to == DataType::s64  ? 7
                                                                            : 9}}}),
                {x});
    }
  }
  for (const DataType from : {DataType::f32, DataType::f16, DataType::bf16}) {
    for (const DataType to : {DataType::f32, DataType::f16, DataType::bf16}) {
      for (const std::int64_t channels : {3, 8, 64}) {
        const HostTensor x = some(from, {2, channels, 9, 7});
        cases.add_conversion(x, TensorDesc::packed(to, x.desc.dims, Layout::nhwc));
        cases.add_conversion(*converted(x, x.desc.with_layout(Layout::nhwc)), TensorDesc::packed(to, x.desc.dims));
        cases.add_conversion(x, TensorDesc::packed(to, x.desc.dims));
      }
    }
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  EXPECT_GT(cases.with_schedule("transpose"), 10);
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedResize, IsWhatTheOperatorComputes) {
  GeneratedCases cases;
  for (const DataType type : {DataType::f32, DataType::f16}) {
    const HostTensor image = some(type, {2, 8, 7, 9});
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      for (const char* mode : {"linear", "cubic", "nearest"}) {
        for (const char* coordinates : {"half_pixel", "align_corners", "asymmetric"}) {
          const NodeDesc node = node_of(
              "Resize", {{"mode", std::string(mode)}, {"coordinate_transformation_mode", std::string(coordinates)}});
          cases.add(node, {image, absent(), floats({4}, {1, 1, 2, 1.5})}, layout, {1e-5, 1e-4});
          cases.add(node, {image, absent(), absent(), longs({4}, {2, 8, 3, 11})}, layout, {1e-5, 1e-4});
        }
      }
    }
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  cases.run();
  expect_compiles(cases);
}

// Coordinates within, on the edges and beyond, none of them a half, where nearest would be a matter of rounding.
HostTensor grid_of(DataType type, Dims dims) {
  std::vector<double> values = spread(count_of(dims), -2.3, 2.3);
  values[0] = -1;
  values[1] = 1;
  values[2] = 1e30;
  values[3] = std::numeric_limits<double>::quiet_NaN();
  return tensor(type, std::move(dims), values);
}

TEST(GeneratedGridSample, IsWhatTheOperatorComputes) {
  GeneratedCases cases;
  std::mt19937 random(8);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align : {0, 1}) {
        const NodeDesc node =
            node_of("GridSample",
                    {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", align}});
        cases.add(node, {some(DataType::f32, {2, 3, 7, 9}), grid_of(DataType::f32, {2, 5, 6, 2})});
        cases.add(node, {some(DataType::f16, {1, 4, 6, 1}), grid_of(DataType::f16, {1, 4, 8, 2})});
        cases.add(node, {some(DataType::f32, {2, 3, 11}), grid_of(DataType::f32, {2, 40, 1})});
        cases.add(node, {some(DataType::f64, {1, 2, 3, 4, 5}), grid_of(DataType::f64, {1, 2, 3, 4, 3})});
      }
    }
  }
  // What has no weight isn't read.
  cases.add(node_of("GridSample", {{"align_corners", std::int64_t{1}}}),
            {varied(DataType::f32, {1, 2, 3, 3}, random), tensor(DataType::f32, {1, 1, 3, 2}, {-1, -1, 0, 0, 1, 1})});
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedTopK, IsWhatTheOperatorFinds) {
  GeneratedCases cases;
  std::mt19937 random(9);
  const auto one = [](std::int64_t value) { return longs({1}, {static_cast<double>(value)}); };
  for (const DataType type : {DataType::f32, DataType::f16, DataType::f64, DataType::s64, DataType::u64, DataType::s32,
                              DataType::u32, DataType::s8, DataType::u8}) {
    for (const std::int64_t largest : {0, 1}) {
      const auto node = [&](std::int64_t axis, std::int64_t opset = 11) {
        return node_of("TopK", {{"axis", axis}, {"largest", largest}}, static_cast<int>(opset), 2);
      };
      cases.add(node(-1), {varied(type, {3, 70}, random), one(5)});
      cases.add(node(1), {varied(type, {2, 40, 3, 8}, random), one(40)}, Layout::nhwc);
      cases.add(node(0), {some(type, {9}, 0, 3), one(9)});  // with equals
    }
  }
  cases.add(node_of("TopK", {}, 11, 2), {varied(DataType::f32, {2, 5000}, random), one(300)});
  cases.add(node_of("TopK", {}, 11, 2), {some(DataType::f32, {2, 5}), one(0)});
  cases.add(node_of("TopK", {{"k", std::int64_t{3}}}, 1, 2), {some(DataType::f32, {4, 6})});
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  GeneratedCases long_lines;
  EXPECT_FALSE(long_lines.add(node_of("TopK", {}, 11, 2), {some(DataType::f32, {(1 << 17) + 1}), one(1)}));
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedMaps, MoveWhatOperatorsMove) {
  GeneratedCases cases;
  std::mt19937 random(6);
  const auto one = [](std::int64_t value) { return longs({1}, {static_cast<double>(value)}); };
  for (const DataType type : {DataType::f32, DataType::f16, DataType::u8, DataType::s64}) {
    const HostTensor x = varied(type, {2, 16, 6, 20}, random);
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      cases.add(node_of("Slice"),
                {x, longs({2}, {1, -2}), longs({2}, {5, -15}), longs({2}, {2, 3}), longs({2}, {2, -3})}, layout);
      cases.add(node_of("Slice"), {x, one(8), one(16), one(1)}, layout);
      cases.add(node_of("Pad"), {x, longs({8}, {0, 0, 1, 2, 0, 0, 3, 0})}, layout);
      cases.add(node_of("Pad"), {x, longs({8}, {0, 8, -1, 2, 0, 0, 3, -4}), tensor(type, {}, {3})}, layout);
      for (const char* mode : {"edge", "reflect", "wrap"}) {
        cases.add(node_of("Pad", {{"mode", mode}}), {x, longs({8}, {0, 0, -1, 2, 1, 0, 3, 0})}, layout);
      }
      cases.add(node_of("Resize", {{"mode", std::string("nearest")}}), {x, absent(), floats({4}, {1, 1, 2, 2})},
                layout);
    }
    cases.add(node_of("Tile"), {varied(type, {2, 3, 8}, random), longs({3}, {2, 1, 3})});
    for (const char* mode : {"DCR", "CRD"}) {
      cases.add(node_of("DepthToSpace", {{"blocksize", std::int64_t{2}}, {"mode", std::string(mode)}}), {x});
    }
    cases.add(node_of("SpaceToDepth", {{"blocksize", std::int64_t{2}}}), {x});
    cases.add(node_of("Reshape"), {x, longs({4}, {4, 8, 3, 40})});
    cases.add(node_of("Reshape"), {varied(type, {6, 10}, random), longs({2}, {4, 15})});
    cases.add(node_of("Unsqueeze"), {x, one(1)});
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedProducts, AreWhatOperatorsCompute) {
  GeneratedCases cases;
  const auto gemm = [](std::int64_t a, std::int64_t b, double alpha = 1, double beta = 1) {
    return node_of("Gemm", {{"transA", a}, {"transB", b}, {"alpha", alpha}, {"beta", beta}});
  };
  const Tolerance loose{1e-3, 1e-4};
  for (const DataType type : {DataType::f32, DataType::f16, DataType::s32}) {
    for (const auto& [m, n, k] : {std::array{1, 10, 64}, {7, 5, 3}, {70, 66, 40}, {128, 64, 32}, {65, 1, 33}}) {
      for (const int transposed : {0, 1, 2, 3}) {
        const bool ta = transposed % 2 == 1, tb = transposed > 1;
        const HostTensor a = some(type, ta ? Dims{k, m} : Dims{m, k}), b = some(type, tb ? Dims{n, k} : Dims{k, n});
        cases.add(gemm(ta, tb), {a, b, some(type, {n})}, Layout::nchw, loose);
      }
    }
    cases.add(gemm(0, 0), {some(type, {4, 6}), some(type, {6, 5})}, Layout::nchw, loose);
    for (const auto& [a, b] : {std::pair<Dims, Dims>{{5}, {5, 3}},
                               {{4, 5}, {5}},
                               {{5}, {5}},
                               {{2, 1, 4, 5}, {3, 5, 6}},
                               {{3, 40, 33}, {3, 33, 37}},
                               {{2, 3, 4, 5}, {5, 70}},
                               {{0, 4, 5}, {5, 3}}}) {
      cases.add(node_of("MatMul"), {some(type, a), some(type, b)}, Layout::nchw, loose);
    }
  }
  cases.add(gemm(0, 0, 0.5, -2),
            {some(DataType::f32, {4, 6}), some(DataType::f32, {6, 5}), some(DataType::f32, {4, 1})});
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  EXPECT_GT(cases.with_schedule("product"), 12);
  cases.run();
  expect_compiles(cases);
}

// Whole numbers as bytes, of which `tensor` has the type.
HostTensor bytes(DataType type, const Dims& dims) {
  return tensor(type, dims, spread(count_of(dims), type == DataType::u8 ? 0 : -128, type == DataType::u8 ? 255 : 127));
}
HostTensor scalar(DataType type, double value) { return tensor(type, {}, {value}); }

TEST(GeneratedQuantized, IsWhatOperatorsCompute) {
  GeneratedCases cases;
  const auto microsoft = [](std::string op, std::map<std::string, Attribute> attributes = {}) {
    NodeDesc node = node_of(std::move(op), std::move(attributes), 1);
    node.domain = "com.microsoft";
    return node;
  };
  const auto scale = [](double value) { return scalar(DataType::f32, value); };
  const HostTensor real = some(DataType::f32, {2, 16, 5, 7});
  for (const int outputs : {1, 3}) {
    cases.add(node_of("DynamicQuantizeLinear", {}, 11, outputs), {real});
    cases.add(node_of("DynamicQuantizeLinear", {}, 11, outputs), {some(DataType::f32, {70, 300}, -1, 9)});
    cases.add(node_of("DynamicQuantizeLinear", {}, 11, outputs), {some(DataType::f32, {3}, 0, 0)});
  }
  for (const DataType type : {DataType::u8, DataType::s8}) {
    const auto zero = [&](double value) { return scalar(type, value); };
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const HostTensor x = bytes(type, {2, 16, 5, 7}), other = bytes(type, {1, 16, 1, 1});
      for (const char* op : {"QLinearAdd", "QLinearMul"}) {
        cases.add(microsoft(op), {x, scale(0.03), zero(3), other, scale(0.02), absent(), scale(0.05), zero(9)}, layout);
      }
      for (const char* op : {"QLinearLeakyRelu", "QLinearSigmoid"}) {
        cases.add(microsoft(op), {x, scale(0.03), zero(3), scale(0.01), zero(5)}, layout);
      }
      cases.add(microsoft("QLinearConcat", {{"axis", std::int64_t{1}}}),
                {scale(0.04), zero(7), x, scale(0.03), zero(3), bytes(type, {2, 8, 5, 7}), scale(0.04), zero(7)},
                layout);
      for (const std::int64_t include : {0, 1}) {
        NodeDesc node = pool("QLinearAveragePool", {3, 2}, {2, 1}, {1, 0, 1, 1}, 0, {}, include);
        node.domain = "com.microsoft";
        cases.add(node, {x, scale(0.03), zero(3), scale(0.02), zero(5)}, layout);
      }
      cases.add(microsoft("QLinearGlobalAveragePool"), {x, scale(0.03), zero(3), scale(0.004), zero(5)}, layout);
      NodeDesc lookup = node_of("Lookup", {}, 1);
      lookup.domain = "convoy";
      cases.add(lookup, {x, bytes(type, {256})}, layout);
    }
    cases.add(microsoft("QLinearGlobalAveragePool", {{"channels_last", std::int64_t{1}}}),
              {bytes(type, {2, 5, 7, 16}), scale(0.03), absent(), scale(0.004), zero(5)});
    for (const std::int64_t opset : {11, 13}) {
      cases.add(microsoft("QLinearSoftmax", {{"axis", std::int64_t{1}}, {"opset", opset}}),
                {bytes(type, {3, 5, 17}), scale(0.03), zero(3), scale(1.0 / 256), zero(0)});
    }
    for (const DataType b : {DataType::u8, DataType::s8}) {
      for (const auto& [rows, inner] :
           {std::pair<Dims, Dims>{{4, 5}, {5, 3}}, {{2, 3, 40, 33}, {33, 37}}, {{5}, {5, 3}}}) {
        const std::int64_t m = rows.size() > 1 ? rows[rows.size() - 2] : 1;
        const std::vector<HostTensor> each{bytes(type, rows), bytes(b, inner), bytes(type, {m}),
                                           bytes(b, {inner.back()})};
        cases.add(node_of("MatMulInteger"), {each[0], each[1]});
        cases.add(node_of("MatMulInteger"), {each[0], each[1], m > 1 ? each[2] : zero(7), each[3]});
        cases.add(node_of("QLinearMatMul"),
                  {each[0], scale(0.02), zero(4), each[1], scale(0.01), scalar(b, 2), scale(0.3), zero(9)});
      }
    }
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedLookups, PickWhatOperatorsPick) {
  GeneratedCases cases;
  std::mt19937 random(8);
  const HostTensor many = longs({5000}, spread(5000, -6, 5));
  for (const DataType type : {DataType::f32, DataType::f16, DataType::u8}) {
    const HostTensor x = varied(type, {2, 3, 6, 4}, random);
    for (const std::int64_t axis : {0, 2, -1}) {
      const HostTensor few = longs({2, 3}, {0, 1, -1, 1, -2, 0});
      cases.add(node_of("Gather", {{"axis", axis}}), {x, few});
    }
    cases.add(node_of("Gather", {{"axis", std::int64_t{2}}}), {x, many});
    cases.add(node_of("GatherElements", {{"axis", std::int64_t{2}}}),
              {x, tensor(DataType::s32, {2, 3, 7, 4}, spread(2 * 3 * 7 * 4, -6, 5))});
    cases.add(node_of("GatherND"), {x, longs({3, 2}, {0, 1, 1, -1, -2, 2})});
    cases.add(node_of("GatherND", {{"batch_dims", std::int64_t{1}}}), {x, longs({2, 3, 1}, {0, 1, -1, 2, -3, 0})});
    const HostTensor blocks = varied(type, {2, 6, 4}, random);
    cases.add(node_of("ScatterND"), {x, longs({2, 2}, {1, 1, 0, -1}), blocks});
    cases.add(node_of("ScatterND"), {x, longs({2, 2}, {0, 1, 0, 2}), blocks});  // in a row
    cases.add(node_of("ScatterND"), {x, longs({2, 2}, {0, 1, 0, 1}), blocks});  // the last one counts
  }
  cases.add(node_of("ScatterND", {{"reduction", std::string("add")}}),
            {floats({3}, {1, 2, 3}), longs({1, 1}, {0}), floats({1}, {1})});
  EXPECT_EQ(cases.refusals().size(), 1U);
  cases.run();
  expect_compiles(cases);
}

TEST(GeneratedSums, AreWhatOperatorsCompute) {
  GeneratedCases cases;
  const Tolerance loose{4e-3, 1e-3};  // the operator stores products of two in between
  for (const DataType type : {DataType::f32, DataType::f16, DataType::s32}) {
    const auto einsum = [&](std::string equation, const std::vector<HostTensor>& operands) {
      cases.add(node_of("Einsum", {{"equation", std::move(equation)}}), operands, Layout::nchw, loose);
    };
    einsum("bhid,bhjd->bhij", {some(type, {2, 3, 20, 8}), some(type, {2, 3, 33, 8})});
    einsum("bythwc,hkc->bythwk", {some(type, {1, 2, 3, 4, 5, 6}), some(type, {4, 7, 6})});
    einsum("...ii->...i", {some(type, {3, 4, 4})});
    einsum("ij,jk,kl->il", {some(type, {3, 4}), some(type, {4, 5}), some(type, {5, 2})});
    einsum("ij->", {some(type, {3, 40})});
    einsum("i,j", {some(type, {3}), some(type, {4})});
    const NodeDesc col2im =
        node_of("Col2Im", {{"strides", Dims{1, 2}}, {"pads", Dims{0, 1, 1, 1}}, {"dilations", Dims{2, 1}}}, 18);
    cases.add(col2im, {some(type, {2, 12, 25}), longs({2}, {6, 9}), longs({2}, {2, 3})}, Layout::nchw, loose);
  }
  EXPECT_TRUE(cases.refusals().empty()) << cases.refusals().begin()->first;
  cases.run();
  expect_compiles(cases);
}

}  // namespace
}  // namespace convoy::ops
