// Operators with vectors of any width beside the plain loops: those whose rows are made of several parts, and shapes
// that are large enough for several threads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/element.h"
#include "ops/testing/operators.h"

namespace convoy::ops {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::map<std::string, Attribute>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr DataType kFloatTypes[] = {DataType::f32, DataType::f16, DataType::bf16};

// Twice what a result is off where the one before it was rounded the other way.
double step_of(DataType type) { return type == DataType::f32 ? 4e-7 : type == DataType::f16 ? 1e-3 : 8e-3; }

HostTensor spread_tensor(DataType type, const Dims& dims, double low, double high) {
  return tensor(type, dims, spread(TensorDesc::packed(type, dims).elements(), low, high));
}

// ---- Resize: the same arithmetic in the same order

void check_resize(const std::string& mode, Attributes attributes, const HostTensor& x, const Dims& sizes,
                  HostTensor roi = absent()) {
  SCOPED_TRACE(mode + " to " + to_string(sizes));
  attributes["mode"] = mode;
  HostTensor target = longs({static_cast<std::int64_t>(sizes.size())}, {sizes.begin(), sizes.end()});
  expect_as_portable(node_of("Resize", attributes, 19), {x, std::move(roi), absent(), std::move(target)});
}

constexpr std::pair<std::int64_t, std::int64_t> kWidths[] = {{5, 17}, {7, 8}, {3, 40}, {64, 131}, {131, 20}, {9, 9}};

TEST(Vectors, Resize) {
  std::mt19937 random(1);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::u8, DataType::s8}) {
    for (const std::string mode : {"linear", "cubic"}) {
      for (const auto& [from, to] : kWidths) {
        check_resize(mode, {}, varied(type, {2, 3, 6, from}, random), {2, 3, 11, to});
        check_resize(mode, {{"coordinate_transformation_mode", std::string("align_corners")}},
                     varied(type, {1, 9, 5, from}, random), {1, 9, 5, to});
        check_resize(mode, {{"antialias", std::int64_t{1}}}, varied(type, {1, 2, 9, from}, random), {1, 2, 4, to});
        check_resize(mode, {}, varied(type, {1, 2, 3, 4, from}, random), {1, 2, 5, 3, to});
        check_resize(mode, {}, varied(type, {from, 5}, random), {to, 5});
      }
    }
  }
}

// Rows of so few elements that two axes are taken as one: what one after the other gives.
TEST(Vectors, ResizeOfShortRows) {
  for (const DataType type : {DataType::f32, DataType::f64}) {
    for (const Dims& to : {Dims{2, 3, 9, 4}, Dims{2, 3, 3, 1}, Dims{2, 3, 14, 3}, Dims{2, 3, 5, 7}}) {
      for (const char* coordinates : {"half_pixel", "asymmetric", "align_corners"}) {
        const NodeDesc node =
            node_of("Resize", {{"mode", "linear"}, {"coordinate_transformation_mode", coordinates}}, 19);
        const auto resized = [&](const HostTensor& x, const Dims& sizes) {
          return std::vector<HostTensor>{x, absent(), absent(), longs({4}, {sizes.begin(), sizes.end()})};
        };
        const HostTensor x = spread_tensor(type, {2, 3, 5, 3}, -3, 5);
        const auto higher = run_op(node, resized(x, {2, 3, to[2], 3}));
        ASSERT_TRUE(higher.ok());
        const auto wider = run_op(node, resized(higher->front(), to));
        ASSERT_TRUE(wider.ok());
        expect_op(node, resized(x, to), *wider, 1e-6, 1e-6);
        expect_as_portable(node, resized(x, to), 1e-6, 1e-6);
      }
    }
  }
}

TEST(Vectors, ResizeBeyondTheEdge) {
  std::mt19937 random(2);
  const Attributes crop = {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                           {"extrapolation_value", 7.0}};
  for (const DataType type : {DataType::f32, DataType::f16, DataType::u8}) {
    for (const std::string mode : {"linear", "cubic"}) {
      for (const auto& [from, to] : kWidths) {
        for (const double outside : {0.0, 0.3}) {
          const HostTensor roi = floats({8}, {0, 0, 0.1, -outside, 1, 1, 0.9, 1 + outside});
          check_resize(mode, crop, varied(type, {1, 2, 6, from}, random), {1, 2, 9, to}, roi);
        }
      }
    }
  }
}

TEST(Vectors, ResizeByThreads) {
  std::mt19937 random(3);
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::u8}) {
    for (const std::string mode : {"linear", "cubic"}) {
      check_resize(mode, {}, varied(type, {1, 8, 64, 64}, random), {1, 8, 131, 131});
      check_resize(mode, {}, varied(type, {1, 3, 30, 40, 33}, random), {1, 3, 20, 50, 70});
    }
  }
}

// ---- short rows: less than a vector, some and a part, more than are kept in registers

constexpr std::int64_t kShortRows[] = {1, 2, 7, 16, 17, 31, 33, 64, 79, 128, 129, 300};

TEST(Vectors, ShortRowsReduced) {
  std::mt19937 random(17);
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t size : kShortRows) {
      const HostTensor x = varied(type, {3, 5, size}, random), sums = spread_tensor(type, {3, 5, size}, -3, 5);
      for (const double axis : {0, 1, 2}) {
        for (const char* op : {"ReduceMax", "ReduceMin"}) {
          expect_as_portable(node_of(op, {}, 20), {x, longs({1}, {axis})});
          expect_as_portable(node_of(op, {{"keepdims", std::int64_t{0}}}, 20), {x, longs({1}, {axis})});
        }
        for (const char* op :
             {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"}) {
          expect_as_portable(node_of(op, {}, 20), {sums, longs({1}, {axis})}, step_of(type), 1e-5);
        }
        const HostTensor near_one = spread_tensor(type, {3, 5, size}, 0.98, 1.02);
        for (const char* op : {"ReduceProd", "ReduceLogSum"}) {
          expect_as_portable(node_of(op, {}, 20), {near_one, longs({1}, {axis})}, step_of(type), 1e-5);
        }
      }
      for (const char* op : {"ArgMax", "ArgMin"}) {
        for (const std::int64_t last : {0, 1}) {
          for (const std::int64_t axis : {1, 2}) {
            expect_as_portable(node_of(op, {{"axis", axis}, {"select_last_index", last}}), {x});
          }
        }
      }
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        expect_as_portable(node_of(op), {spread_tensor(type, {3, 5, size}, -40, 8)}, step_of(type), 1e-5);
      }
    }
  }
}

TEST(Vectors, ShortRowsElementByElement) {
  std::mt19937 random(18);
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t size : kShortRows) {
      const HostTensor x = varied(type, {3, 5, size}, random);
      for (const Dims& dims : {Dims{3, 5, 1}, Dims{size}, Dims{5, 1}, Dims{3, 1, size}}) {
        const HostTensor other = varied(type, dims, random);
        for (const char* op : {"Add", "Sub", "Div", "Max"}) {
          expect_as_portable(node_of(op), {x, other});
          expect_as_portable(node_of(op), {other, x});
        }
      }
    }
  }
}

// Beside C++: sums, products and comparisons of few, small numbers, which every type holds exactly.
TEST(Vectors, ShortRowsOfEveryType) {
  struct Function {
    const char* op;
    double (*of)(double a, double b);
    bool compares;
  };
  const Function functions[] = {
      {"Add", [](double a, double b) { return a + b; }, false},
      {"Mul", [](double a, double b) { return a * b; }, false},
      {"Max", [](double a, double b) { return std::max(a, b); }, false},
      {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }, true},
      {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }, true},
      {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }, true},
  };
  const auto number = [](DataType type, std::int64_t i) {
    const auto small = static_cast<double>(i * 7 % 11);
    return contains(kUnsignedIntegers, type) ? small : small - 5;
  };
  for (const DataType type :
       {DataType::s8, DataType::u8, DataType::s16, DataType::u16, DataType::s32, DataType::u32, DataType::s64,
        DataType::u64, DataType::f16, DataType::bf16, DataType::f32, DataType::f64}) {
    for (const std::int64_t size : {1, 7, 16, 33, 79, 128}) {
      const Dims dims = {3, 5, size};
      for (const Dims& other :
           {Dims{3, 5, 1}, Dims{5, 1}, Dims{1, 1, size}, Dims{3, 1, size}, Dims{3, 5, size}, Dims{1}}) {
        const std::size_t skip = dims.size() - other.size();
        const std::int64_t nan_at = contains(kFloats, type) ? 15 * size / 2 : -1;
        const auto a = [&](std::int64_t i) { return i == nan_at ? kNan : number(type, i); };
        std::vector<double> values(static_cast<std::size_t>(15 * size)), others;
        for (std::int64_t i = 0; i < 15 * size; ++i) values[static_cast<std::size_t>(i)] = a(i);
        for (std::int64_t i = 0; i < TensorDesc::packed(type, other).elements(); ++i)
          others.push_back(number(type, 3 * i + 1));
        for (const Function& f : functions) {
          std::vector<double> ab, ba;
          for (std::int64_t i = 0; i < 15 * size; ++i) {
            const std::int64_t at[] = {i / (5 * size), i / size % 5, i % size};
            std::int64_t from = 0;
            for (std::size_t d = skip; d < 3; ++d) from = from * other[d - skip] + (other[d - skip] == 1 ? 0 : at[d]);
            const double b = others[static_cast<std::size_t>(from)];
            const bool is_nan = i == nan_at && !f.compares;
            ab.push_back(is_nan ? kNan : f.of(a(i), b));
            ba.push_back(is_nan ? kNan : f.of(b, a(i)));
          }
          const DataType made = f.compares ? DataType::boolean : type;
          const HostTensor x = tensor(type, dims, values), y = tensor(type, other, others);
          SCOPED_TRACE(std::string(f.op) + " of " + std::string(name_of(type)) + " with " + to_string(other));
          expect_op(node_of(f.op), {x, y}, {tensor(made, dims, ab)}, 0, 0);
          expect_op(node_of(f.op), {y, x}, {tensor(made, dims, ba)}, 0, 0);
          expect_as_portable(node_of(f.op), {y, x});
        }
      }
    }
  }
}

// Sides shorter than a square that is transposed at once, of one and a part, and of several.
TEST(Vectors, TransposesOfAnySides) {
  constexpr std::int64_t kSides[] = {1, 2, 3, 5, 8, 12, 16, 17, 31, 37, 64, 79, 130};
  for (const DataType type : {DataType::u8, DataType::s16, DataType::s32, DataType::s64}) {
    for (const std::int64_t rows : kSides) {
      for (const std::int64_t columns : kSides) {
        const std::int64_t size = rows * columns;
        std::vector<double> values(static_cast<std::size_t>(3 * size)), turned(values.size());
        for (std::int64_t i = 0; i < 3 * size; ++i) {
          const auto value = static_cast<double>(i % 251 % 127);
          const std::int64_t to = i / size * size + i % columns * rows + i % size / columns;
          values[static_cast<std::size_t>(i)] = turned[static_cast<std::size_t>(to)] = value;
        }
        expect_op(node_of("Transpose", {{"perm", Ints{0, 2, 1}}}), {tensor(type, {3, rows, columns}, values)},
                  {tensor(type, {3, columns, rows}, turned)}, 0, 0);
      }
    }
  }
}

// Inner dims of few elements, more of them than a table has, and lines that are written several times.
TEST(Vectors, CopiesOfShortLines) {
  std::mt19937 random(23);
  const auto check = [&](const NodeDesc& node, const std::vector<HostTensor>& inputs) {
    const auto expected = by_map(node, inputs);
    ASSERT_TRUE(expected.has_value());
    expect_op(node, inputs, *expected, 0, 0);
  };
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::s64}) {
    for (const std::int64_t block : {2, 3, 4}) {
      const Attributes attributes = {{"blocksize", block}};
      for (const std::int64_t width : {1, 2, 5, 20}) {
        for (const std::int64_t height : {1, 7, 400}) {
          check(node_of("SpaceToDepth", attributes),
                {spread_tensor(type, {2, 3, height * block, width * block}, 0, 99)});
          check(node_of("DepthToSpace", attributes),
                {spread_tensor(type, {2, 2 * block * block, height, width}, 0, 99)});
        }
      }
    }
    check(node_of("Tile"), {spread_tensor(type, {3, 3, 50, 1, 8}, 0, 99), longs({5}, {2, 2, 1, 2, 1})});
    check(node_of("Tile"), {spread_tensor(type, {9, 1, 5}, 0, 99), longs({3}, {1, 3, 1})});
    check(node_of("Tile"), {spread_tensor(type, {9, 7, 4}, 0, 99), longs({3}, {1, 1, 3})});
    for (const std::int64_t width : {1, 2, 3, 5, 8, 12, 16, 17, 31, 32, 33, 64, 65, 100, 128, 140}) {
      check(node_of("Tile"), {spread_tensor(type, {3, 5, width}, 0, 99), longs({3}, {1, 2, 3})});
    }
    check(node_of("Expand"), {spread_tensor(type, {40, 1, 3, 1, 2}, 0, 99), longs({5}, {40, 32, 3, 2, 2})});
    check(node_of("Transpose", {{"perm", Ints{0, 3, 2, 1}}}), {spread_tensor(type, {30, 4, 44, 3}, 0, 99)});
  }
}

TEST(Vectors, Where) {
  std::mt19937 random(19);
  for (const DataType type : {DataType::u8, DataType::f16, DataType::f32, DataType::s64}) {
    for (const std::int64_t size : kShortRows) {
      HostTensor condition = *HostTensor::allocate(TensorDesc::packed(DataType::boolean, {3, 5, size}));
      constexpr std::uint8_t kBytes[] = {0, 0, 1, 0x7f, 0x80, 0xff};  // all but 0 are true
      for (std::int64_t i = 0; i < condition.desc.elements(); ++i) {
        reinterpret_cast<std::uint8_t*>(condition.data.get())[i] = kBytes[random() % std::size(kBytes)];
      }
      for (const Dims& a : {Dims{3, 5, size}, Dims{5, 1}, Dims{size}, Dims{}}) {
        for (const Dims& b : {Dims{3, 5, size}, Dims{3, 1, 1}}) {
          expect_as_portable(node_of("Where"), {condition, varied(type, a, random), varied(type, b, random)});
        }
      }
    }
  }
}

// ---- by several threads

TEST(Vectors, SumsByThreads) {
  for (const DataType type : kFloatTypes) {
    const double relative = step_of(type);
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      expect_as_portable(node_of(op), {spread_tensor(type, {64, 1024}, -8, 8)}, relative, 3e-6);
    }
    for (const Dims& dims : {Dims{2, 40, 31, 33}, Dims{1, 600, 17, 13}, Dims{2, 3, 90, 91}}) {
      const HostTensor x = spread_tensor(type, dims, -3, 5), channel = spread_tensor(type, {dims[1]}, 0.5, 2);
      expect_as_portable(node_of("InstanceNormalization"), {x, channel, channel}, relative, 2e-6 + relative);
      for (const char* op : {"GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"}) {
        expect_as_portable(node_of(op), {x}, 4e-6 + relative, 1e-6);
      }
    }
    const HostTensor x = spread_tensor(type, {60, 700}, -3, 5), scale = spread_tensor(type, {700}, 0.5, 2);
    expect_as_portable(node_of("LayerNormalization", {}, 17), {x, scale, scale}, relative, 2e-6 + relative);
    for (const double axis : {0, 1}) {
      expect_as_portable(node_of("ReduceMean", {}, 18), {x, longs({1}, {axis})}, relative, 1e-6);
    }
    expect_as_portable(node_of("GroupNormalization", {{"num_groups", std::int64_t{5}}}),
                       {spread_tensor(type, {2, 20, 30, 31}, -3, 5), spread_tensor(type, {20}, 0.5, 2),
                        spread_tensor(type, {20}, -1, 1)},
                       relative, 2e-6 + relative);
  }
}

// Channels apart: rows of any width, windows of any kind that all read something.
TEST(Vectors, PoolsOfPlanes) {
  std::mt19937 random(7);
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t width : {3, 16, 17, 40, 71}) {
      for (const std::int64_t kernel : {1, 2, 3, 5}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          if (kernel > width) continue;
          Attributes attributes = {{"kernel_shape", Ints{2, kernel}},
                                   {"strides", Ints{stride, stride}},
                                   {"pads", Ints{1, kernel / 2, 0, kernel / 2}},
                                   {"ceil_mode", std::int64_t{stride - 1}}};
          const HostTensor x = varied(type, {2, 3, 21, width}, random);
          expect_as_portable(node_of("MaxPool", attributes), {x});
          const HostTensor usual = spread_tensor(type, {2, 3, 21, width}, -3, 5);
          for (const std::int64_t include : {0, 1}) {
            attributes["count_include_pad"] = include;
            expect_as_portable(node_of("AveragePool", attributes), {usual},
                               1e-6 + (type == DataType::f32 ? 0 : step_of(type)), 1e-6);
          }
          attributes.erase("count_include_pad");
          if (2 * kernel - 1 > width) continue;
          attributes["dilations"] = Ints{1, 2};
          expect_as_portable(node_of("MaxPool", attributes), {x});
        }
      }
    }
    expect_as_portable(node_of("MaxPool", {{"kernel_shape", Ints{2, 3, 2}}}), {varied(type, {1, 2, 4, 6, 50}, random)});
    expect_as_portable(node_of("MaxPool", {{"kernel_shape", Ints{3}}}), {varied(type, {2, 3, 50}, random)});
  }
}

// Rows of one element, of which several columns make one.
// Windows of few outputs a row, whose planes are taken together, and of one element.
TEST(Vectors, PoolsOfTinyPlanes) {
  std::mt19937 random(37);
  for (const DataType type : kFloatTypes) {
    for (const Dims& dims : {Dims{7, 45, 1, 3}, Dims{2, 3, 40, 2}, Dims{1, 2, 5, 9}, Dims{3, 50, 1, 1}}) {
      for (const Ints& kernel : {Ints{1, 1}, Ints{1, 2}, Ints{2, 1}, Ints{1, 3}}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          Attributes attributes = {{"kernel_shape", kernel},
                                   {"strides", Ints{stride, stride}},
                                   {"pads", Ints{0, 0, kernel[0] - 1, kernel[1] - 1}}};
          if (kernel[0] > dims[2] || kernel[1] > dims[3]) continue;
          expect_as_portable(node_of("MaxPool", attributes), {varied(type, dims, random)});
          for (const std::int64_t include : {0, 1}) {
            attributes["count_include_pad"] = include;
            expect_as_portable(node_of("AveragePool", attributes), {spread_tensor(type, dims, -3, 5)},
                               1e-6 + (type == DataType::f32 ? 0 : step_of(type)), 1e-6);
          }
        }
      }
    }
  }
}

TEST(Vectors, PoolsOfOneColumn) {
  std::mt19937 random(8);
  struct Shape {
    Dims spatial;
    Ints kernel, strides, pads;
  };
  for (const Shape& shape : {Shape{{41, 1}, {5, 1}, {1, 3}, {1, 0, 2, 0}},
                             {{300, 1}, {3, 1}, {2, 1}, {0, 0, 1, 0}},
                             {{19, 1}, {2, 3}, {2, 2}, {0, 1, 1, 1}},
                             {{70, 1, 1}, {4, 1, 1}, {3, 1, 1}, {1, 0, 0, 2, 0, 0}},
                             {{5, 33, 1}, {2, 3, 2}, {1, 2, 1}, {1, 1, 1, 0, 1, 0}},
                             {{1, 1}, {3, 3}, {1, 1}, {1, 1, 1, 1}}}) {
    Dims dims = {2, 3};
    dims.insert(dims.end(), shape.spatial.begin(), shape.spatial.end());
    Attributes attributes = {{"kernel_shape", shape.kernel}, {"strides", shape.strides}, {"pads", shape.pads}};
    for (const DataType type : kFloatTypes) {
      expect_as_portable(node_of("MaxPool", attributes), {varied(type, dims, random)});
      const HostTensor usual = spread_tensor(type, dims, -3, 5);
      for (const std::int64_t include : {0, 1}) {
        attributes["count_include_pad"] = include;
        expect_as_portable(node_of("AveragePool", attributes), {usual},
                           1e-6 + (type == DataType::f32 ? 0 : step_of(type)), 1e-6);
      }
      attributes.erase("count_include_pad");
    }
  }
}

// Channels last they go down the columns first, then along the rows.
TEST(Vectors, MaxPoolOfBytes) {
  std::mt19937 random(5);
  struct Window {
    std::int64_t kernel, stride, dilation, pad, ceil_mode;
  };
  for (const DataType type : {DataType::u8, DataType::s8}) {
    for (const Window& w : {Window{3, 1, 1, 1, 0},
                            {3, 2, 1, 0, 0},
                            {3, 2, 1, 1, 1},
                            {2, 2, 1, 0, 0},
                            {2, 1, 3, 1, 0},
                            {5, 3, 1, 2, 1},
                            {1, 2, 1, 0, 0}}) {
      SCOPED_TRACE("kernel " + std::to_string(w.kernel) + ", stride " + std::to_string(w.stride));
      for (const Dims& spatial : {Dims{9, 11}, Dims{31, 40}, Dims{5, 1}, Dims{17}, Dims{6, 7, 8}}) {
        const std::size_t rank = spatial.size();
        if (*std::ranges::min_element(spatial) + 2 * w.pad < (w.kernel - 1) * w.dilation + 1) continue;
        const NodeDesc node = node_of("MaxPool", {{"kernel_shape", Ints(rank, w.kernel)},
                                                  {"strides", Ints(rank, w.stride)},
                                                  {"dilations", Ints(rank, w.dilation)},
                                                  {"pads", Ints(2 * rank, w.pad)},
                                                  {"ceil_mode", w.ceil_mode}});
        for (const std::int64_t channels : {1, 3, 32, 50}) {
          Dims dims{2, channels};
          dims.insert(dims.end(), spatial.begin(), spatial.end());
          expect_as_portable(node, {varied(type, dims, random)});
        }
      }
    }
  }
}

TEST(Vectors, ElementwiseByThreads) {
  std::mt19937 random(4);
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t channels : {8, 16, 20}) {  // the first two as blocks of channels have them
      const HostTensor x = varied(type, {2, channels, 40, 41}, random);
      for (const char* op : {"Add", "Mul"}) {
        expect_as_portable(node_of(op), {x, varied(type, {2, channels, 1, 1}, random)});
        expect_as_portable(node_of(op), {x, varied(type, {1, channels, 1, 1}, random)});
      }
      expect_as_portable(node_of("PRelu"), {x, varied(type, {channels, 1, 1}, random)});
      expect_as_portable(node_of("Clip"), {x, tensor(type, {}, {-1}), tensor(type, {}, {6})});
    }
  }
}

// Quotients that f64 has exactly, and larger ones.
TEST(Vectors, Remainders) {
  std::mt19937 random(31);
  for (const DataType type : kFloatTypes) {
    const NodeDesc node = node_of("Mod", {{"fmod", std::int64_t{1}}});
    expect_as_portable(node, {varied(type, {999}, random), varied(type, {999}, random)});
    std::vector<double> a, b;
    for (int i = 0; i < 999; ++i) {
      a.push_back(std::ldexp(1 + i * 37 % 101 / 101.0, i * 53 % 250 - 125) * (i % 3 == 0 ? -1 : 1));
      b.push_back(std::ldexp(1 + i * 29 % 103 / 103.0, i * 71 % 250 - 125) * (i % 5 == 0 ? -1 : 1));
    }
    expect_as_portable(node, {tensor(type, {999}, a), tensor(type, {999}, b)});
  }
  for (const DataType type : {DataType::s32, DataType::u32, DataType::s64, DataType::u64, DataType::s16}) {
    const double most = std::exp2(8.0 * static_cast<double>(size_of(type)) - 1);
    const bool is_signed = contains(kSignedIntegers, type);
    for (const double range : {100.0, 1e9, 4e15, 9e18}) {
      std::vector<double> a, b;
      for (int i = 0; i < 999; ++i) {
        const double sign = is_signed && i % 3 == 0 ? -1 : 1;
        a.push_back(sign * std::floor(std::min(range, most - 1024) * (i * 37 % 1009 / 1009.0)));
        b.push_back(i % 97 == 0 ? (is_signed ? -1 : 0) : std::floor(a.back() / sign / (i % 11 + 1)) + i % 7);
      }
      if (is_signed) a[97] = -most;  // divided by -1
      const HostTensor x = tensor(type, {999}, a), y = tensor(type, {999}, b);
      for (const std::int64_t fmod : {0, 1}) expect_as_portable(node_of("Mod", {{"fmod", fmod}}), {x, y});
      expect_as_portable(node_of("Div"), {x, y});
      expect_as_portable(node_of("Mod"), {x, tensor(type, {1}, {7})});
    }
  }
}

// ---- Softmax

// In f64.
std::vector<double> softmax(const std::vector<double>& x, std::int64_t outer, std::int64_t size, std::int64_t inner) {
  std::vector<double> y(x.size());
  for (std::int64_t i = 0; i < outer * inner; ++i) {
    const std::int64_t first = i / inner * size * inner + i % inner;
    double largest = -kInfinity, sum = 0;
    for (std::int64_t k = 0; k < size; ++k) largest = std::max(largest, x[first + k * inner]);
    for (std::int64_t k = 0; k < size; ++k) sum += std::exp(x[first + k * inner] - largest);
    for (std::int64_t k = 0; k < size; ++k) y[first + k * inner] = std::exp(x[first + k * inner] - largest) / sum;
  }
  return y;
}

std::vector<double> logarithms(std::vector<double> y) {
  for (double& value : y) value = std::log(value);
  return y;
}

std::vector<double> rounded(DataType type, const Dims& dims, const std::vector<double>& values) {
  const HostTensor made = tensor(type, dims, values);
  std::vector<double> result;
  for (std::int64_t i = 0; i < made.desc.elements(); ++i) result.push_back(made.at(i));
  return result;
}

TEST(Vectors, SoftmaxOfMasks) {
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t size : {1, 5, 8, 16, 37, 600}) {
      const Dims dims = {6, size};
      std::vector<double> x = spread(6 * size, -8, 8);
      for (std::int64_t i = 0; i < size; ++i) {
        if (i > 0) x[size + i] = -kInfinity;             // all but the first
        if (i < size - 1) x[2 * size + i] = -kInfinity;  // all but the last
        if (i % 3 != 0) x[3 * size + i] = -kInfinity;
        x[4 * size + i] = -kInfinity;
      }
      x[5 * size + size - 1] = kNan;
      x = rounded(type, dims, x);
      std::vector<double> y = softmax(x, 6, size, 1);
      std::fill_n(y.begin() + 4 * size, 2 * size, kNan);
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (capped(cpu_features(), isa).isa < isa) continue;  // oneDNN gives 0 where all are masked, the formula NaN
        for (const bool logarithm : {false, true}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(size) + " " + std::string(name_of(isa)));
          const auto got = run_op(node_of(logarithm ? "LogSoftmax" : "Softmax"), {tensor(type, dims, x)}, {.isa = isa});
          ASSERT_TRUE(got.ok()) << got.error().message;
          const std::vector<double> want = logarithm ? logarithms(y) : y;
          for (std::size_t i = 0; i < want.size(); ++i) {
            const double value = got->front().at(static_cast<std::int64_t>(i));
            if (value == want[i] || (std::isnan(value) && std::isnan(want[i]))) continue;
            ASSERT_NEAR(value, want[i], step_of(type) * std::abs(want[i]) + 3e-6) << "element " << i;
          }
        }
      }
    }
  }
}

// Rows are computed side by side: none sees its neighbours.
TEST(Vectors, SoftmaxOfManyShortRows) {
  constexpr std::int64_t kRows = 300;
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t size : {1, 2, 3, 7, 16, 17}) {
      const Dims dims = {kRows, size};
      std::vector<double> x = spread(kRows * size, -8, 8);
      for (std::int64_t row = 0; row < kRows; row += 5) x[row * size + row % size] = row % 2 == 0 ? kNan : kInfinity;
      x = rounded(type, dims, x);
      std::vector<double> y = softmax(x, kRows, size, 1);
      for (std::int64_t row = 0; row < kRows; row += 5) std::fill_n(y.begin() + row * size, size, kNan);
      for (const Isa isa : {Isa::avx2, Isa::avx512}) {
        if (capped(cpu_features(), isa).isa < isa) continue;
        SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(size) + " " + std::string(name_of(isa)));
        const auto got = run_op(node_of("Softmax"), {tensor(type, dims, x)}, {.isa = isa});
        ASSERT_TRUE(got.ok()) << got.error().message;
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double value = got->front().at(static_cast<std::int64_t>(i));
          if (std::isnan(y[i])) {
            // Of an infinity the formula's own element is NaN, the others may be 0.
            EXPECT_TRUE(std::isnan(value) || value == 0) << "element " << i;
            continue;
          }
          ASSERT_NEAR(value, y[i], step_of(type) * std::abs(y[i]) + 3e-6) << "element " << i;
        }
      }
    }
  }
}

// Lines of few elements, a few beside each other, more of them than are taken at a time.
TEST(Vectors, ManyShortLines) {
  std::mt19937 random(19);
  for (const DataType type : {DataType::f32, DataType::f16, DataType::bf16, DataType::u8, DataType::s8}) {
    for (const std::int64_t size : {1, 2, 5, 8, 12, 13, 40}) {
      for (const std::int64_t beside : {1, 2, 3, 8, 17}) {
        const Dims dims = {300, size, beside};
        const Attributes axis = {{"axis", std::int64_t{1}}};
        const HostTensor x = varied(type, dims, random);
        for (const char* op : {"ArgMax", "ArgMin"}) {
          for (const std::int64_t last : {0, 1}) {
            expect_as_portable(node_of(op, {{"axis", std::int64_t{1}}, {"select_last_index", last}}), {x});
          }
        }
        if (type == DataType::u8 || type == DataType::s8) continue;
        expect_as_portable(node_of("Hardmax", axis), {x});
        const HostTensor usual = spread_tensor(type, dims, -40, 8);
        for (const char* op : {"Softmax", "LogSoftmax"}) {
          expect_as_portable(node_of(op, axis), {usual}, step_of(type), 1e-5);
        }
      }
    }
  }
}

// Few columns of many rows, more rows than a byte counts, and equals.
TEST(Vectors, PositionsInColumnsOfIntegers) {
  for (const DataType type : {DataType::u8, DataType::s8, DataType::s16, DataType::u32, DataType::s64}) {
    for (const std::int64_t size : {1, 7, 300, 700}) {
      for (const std::int64_t columns : {1, 2, 3, 7, 16, 70, 300}) {
        std::vector<double> values(static_cast<std::size_t>(size * columns));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 1009 % 100);
        const HostTensor x = tensor(type, {size, columns}, values);
        for (const char* op : {"ArgMax", "ArgMin"}) {
          for (const std::int64_t last : {0, 1}) {
            expect_as_portable(node_of(op, {{"axis", std::int64_t{0}}, {"select_last_index", last}}), {x});
          }
        }
      }
    }
  }
}

TEST(Vectors, TopKOfLinesSideBySide) {
  std::mt19937 random(29);
  for (const DataType type :
       {DataType::f32, DataType::f16, DataType::f64, DataType::u8, DataType::s32, DataType::u32, DataType::s64}) {
    for (const std::int64_t size : {1, 2, 5, 40, 64, 130}) {
      for (const std::int64_t beside : {1, 3, 17, 64}) {
        const HostTensor x = varied(type, {30, size, beside}, random);
        for (const std::int64_t k : {std::int64_t{1}, std::min<std::int64_t>(size, 5), size}) {
          for (const std::int64_t largest : {0, 1}) {
            expect_as_portable(node_of("TopK", {{"axis", std::int64_t{1}}, {"largest", largest}}, 11, 2),
                               {x, longs({1}, {static_cast<double>(k)})});
          }
        }
      }
    }
  }
}

TEST(Vectors, SoftmaxOfHalvesWithAnInnerAxis) {
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    for (const Dims& dims : {Dims{2, 20, 3, 5}, Dims{1, 70, 20, 21}}) {
      const std::int64_t inner = dims[2] * dims[3];
      const std::vector<double> x = rounded(type, dims, spread(dims[0] * dims[1] * inner, -8, 8));
      const std::vector<double> y = softmax(x, dims[0], dims[1], inner);
      const Attributes axis = {{"axis", std::int64_t{1}}};
      const double relative = step_of(type);
      expect_op(node_of("Softmax", axis), {tensor(type, dims, x)}, {tensor(type, dims, y)}, 1e-7, relative);
      expect_op(node_of("LogSoftmax", axis), {tensor(type, dims, x)}, {tensor(type, dims, logarithms(y))}, 1e-5,
                relative);
    }
  }
}

// ---- the rest

TEST(Vectors, BatchNormalizationOfHalves) {
  std::mt19937 random(5);
  for (const DataType type : kFloatTypes) {
    for (const Dims& dims :
         {Dims{2, 20, 3, 5}, Dims{1, 8, 9, 9}, Dims{2, 600, 2, 3}, Dims{2, 33, 30, 31}, Dims{3, 7}}) {
      const auto channels = [&](double low, double high) { return spread_tensor(DataType::f32, {dims[1]}, low, high); };
      const std::map<std::string, Attribute> all[] = {{}, {{"least", 0.0}}, {{"least", -0.5}, {"most", 1.25}}};
      for (const auto& attributes : all) {
        expect_as_portable(
            node_of("BatchNormalization", attributes, 15),
            {varied(type, dims, random), channels(0.5, 2), channels(-1, 1), channels(-3, 3), channels(0.1, 4)});
      }
    }
  }
}

TEST(Vectors, BatchNormalizationWithStatisticsOfItsType) {
  for (const DataType type : kFloatTypes) {
    const auto channels = [&](double low, double high) { return spread_tensor(type, {1100}, low, high); };
    expect_as_portable(
        node_of("BatchNormalization", {}, 15),
        {spread_tensor(type, {2, 1100}, -3, 5), channels(0.5, 2), channels(-1, 1), channels(-3, 3), channels(0.1, 4)},
        step_of(type), 1e-6);
  }
}

// Rows of few elements, more of them than are taken at a time, with a constant one, infinities and a NaN among them.
TEST(Vectors, NormalizationsOfShortRows) {
  for (const DataType type : kFloatTypes) {
    for (const std::int64_t size : {1, 2, 3, 7, 12, 13}) {
      SCOPED_TRACE(std::string(name_of(type)) + ", " + std::to_string(size));
      const auto filled = [&](const Dims& dims) {
        const std::int64_t count = TensorDesc::packed(type, dims).elements();
        std::vector<double> values = spread(count, -3, 5);
        std::fill_n(values.begin(), size, 1.25);
        values[static_cast<std::size_t>(size * 3)] = kInfinity;
        values[static_cast<std::size_t>(size * 5)] = kNan;
        return tensor(type, dims, values);
      };
      const auto vector = [&](std::int64_t count, double low, double high) {
        return spread_tensor(type, {count}, low, high);
      };
      // With interleaved channels a constant row loses what its elements and their mean are multiplied by.
      const double relative = 2 * step_of(type), absolute = type == DataType::f32 ? 2e-5 : step_of(type);
      const auto check = [&](const NodeDesc& node, const std::vector<HostTensor>& inputs) {
        expect_as_portable(node, inputs, relative, absolute);
      };
      const HostTensor rows = filled({1300, size}), images = filled({260, 6, size});
      check(node_of("LayerNormalization", {}, 17), {rows, vector(size, 0.5, 2), vector(size, -1, 1)});
      check(node_of("LayerNormalization", {}, 17), {rows, vector(size, 0.5, 2)});
      check(node_of("RMSNormalization", {}, 23), {rows, vector(size, 0.5, 2)});
      check(node_of("InstanceNormalization"), {images, vector(6, 0.5, 2), vector(6, -1, 1)});
      for (const std::int64_t groups : {2, 3, 6}) {
        const Attributes in_groups = {{"num_groups", groups}};
        check(node_of("GroupNormalization", in_groups, 21), {images, vector(6, 0.5, 2), vector(6, -1, 1)});
        check(node_of("GroupNormalization", in_groups, 18), {images, vector(groups, 0.5, 2), vector(groups, -1, 1)});
      }
      const HostTensor maps = filled({200, 3, size, 4}), usual = spread_tensor(type, {5, 9, size, 40}, -3, 5);
      for (const Ints& axes : {Ints{1}, Ints{2}, Ints{3}, Ints{1, 3}, Ints{0, 2}, Ints{1, 2, 3}}) {
        check(node_of("MeanVarianceNormalization", {{"axes", axes}}), {maps});
        check(node_of("MeanVarianceNormalization", {{"axes", axes}}), {usual});
      }
    }
  }
}

TEST(Vectors, AVectorTimesTheRowsOfAMatrix) {
  for (const DataType type : kFloatTypes) {
    for (const Dims& dims : {Dims{1, 1}, Dims{3, 7}, Dims{4, 16}, Dims{10, 100}, Dims{1030, 33}}) {
      const auto matrix = spread_tensor(type, dims, -1, 1), x = spread_tensor(type, {1, dims[1]}, -2, 1);
      for (const double beta : {1.0, 0.5}) {
        const NodeDesc node = node_of("Gemm", {{"transB", std::int64_t{1}}, {"alpha", beta}, {"beta", beta}});
        const double most = 1e-6 * static_cast<double>(dims[1]) + step_of(type);
        for (const Dims& bias : {Dims{dims[0]}, Dims{1}}) {
          expect_as_portable(node, {x, matrix, spread_tensor(type, bias, -1, 1)}, step_of(type), most);
        }
        expect_as_portable(node, {x, matrix}, step_of(type), most);
      }
    }
  }
}

TEST(Vectors, GlobalPoolsOfHalves) {
  for (const DataType type : kFloatTypes) {
    for (const Dims& dims : {Dims{2, 20, 3, 5}, Dims{1, 8, 9, 9}, Dims{1, 3, 40, 40}, Dims{2, 600, 2, 3}}) {
      for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) {
        expect_as_portable(node_of(op), {spread_tensor(type, dims, -3, 5)}, 4e-6 + step_of(type), 1e-6);
      }
    }
  }
}

TEST(Vectors, DynamicQuantizeLinear) {
  for (const std::int64_t count : {1, 7, 31, 33, 513, 20000}) {
    for (const auto& [low, high] : {std::pair{-3.0, 5.0}, {0.0, 0.0}, {1.0, 9.0}, {-1e30, 1e30}, {-9.0, -1.0}}) {
      std::vector<double> x = spread(count, low, high);
      const NodeDesc node = node_of("DynamicQuantizeLinear", {}, 11, 3);
      expect_as_portable(node, {floats({count}, x)});
      for (const double special : {kNan, kInfinity, -kInfinity}) {
        x[static_cast<std::size_t>(count / 2)] = special;
        expect_as_portable(node, {floats({count}, x)});
      }
    }
  }
}

// Parts of the output's own quantizer are copied, others looked up.
TEST(Vectors, QLinearConcat) {
  for (const DataType type : {DataType::u8, DataType::s8}) {
    const double low = type == DataType::u8 ? 0 : -128;
    const HostTensor a = spread_tensor(type, {2, 3, 6, 40}, low, low + 255);
    const HostTensor b = spread_tensor(type, {2, 5, 6, 40}, low, low + 255);
    const HostTensor scale = floats({}, {0.5}), zero = tensor(type, {}, {3});
    NodeDesc node = node_of("QLinearConcat", {{"axis", std::int64_t{1}}}, 1);
    node.domain = "com.microsoft";
    const auto expected = [&](auto&& of_b) {
      HostTensor y = *HostTensor::allocate(TensorDesc::packed(type, {2, 8, 6, 40}));
      for (std::int64_t i = 0; i < y.desc.elements(); ++i) {
        const std::int64_t sample = i / (8 * 240), at = i % (8 * 240);
        store_from_double(type, y.data.get(), i,
                          at < 720 ? a.at(sample * 720 + at) : of_b(b.at(sample * 1200 + at - 720)));
      }
      return y;
    };
    const std::vector<HostTensor> equal = {scale, zero, a, scale, zero, b, scale, zero};
    expect_as_portable(node, equal);
    expect_op(node, equal, {expected([](double q) { return q; })}, 0, 0);
    const std::vector<HostTensor> other = {scale, zero, a, scale, zero, b, floats({}, {1}), zero};
    expect_as_portable(node, other);
    expect_op(node, other, {expected([&](double q) { return std::clamp(2 * (q - 3) + 3, low, low + 255); })}, 0, 0);
  }
}

}  // namespace
}  // namespace convoy::ops
