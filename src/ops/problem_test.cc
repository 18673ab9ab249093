#include "ops/problem.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/text.h"

namespace convoy::ops {
namespace {

std::string canonical(std::string_view text) {
  const auto p = parse_operator(text);
  return p.ok() ? print(*p) : "error: " + p.error().message;
}

TEST(OperatorString, Canonical) {
  const std::string pool =
      "op:MaxPool:x=f32,1x64x112x112,nhwc:y=f32,1x64x56x56,nhwc:@kernel_shape=ints,3,3:@strides=ints,2,2";
  EXPECT_EQ(canonical(pool), pool);
  EXPECT_EQ(canonical(" op:MaxPool:@strides=ints,2,2:opset=13:x=f32,1x64x112x112,nhwc:@kernel_shape=ints,3,3:"
                      "y=f32,1x64x56x56,nhwc\n"),
            pool);
  const std::string resize =
      "op:Resize:x=u8,1x3x8x8,nchw16c:x1=none:x2=f32,4,nchw,values=1/1/2/0.1:y=u8,1x3x16x16,nchw16c:opset=19:"
      "@axes=ints:@mode=text,lin%20e%3aar";
  EXPECT_EQ(canonical(resize), resize);
  const std::string every =
      "op:QLinearAdd:x=u8,4x4,nchw,align=1:x1=f32,scalar,align=4,values=1e-30:x2=u8,64x2,nchw,constant:y=s64,scalar:"
      "domain=com.microsoft:@a=int,-1:@b=real,0.1:@c=texts,,x:@d=texts:@e=tensor,bool,2,nchw,values=1/"
      "0:@f=reals,-inf,2";
  EXPECT_EQ(canonical(every), every);
}

// Any node that an operator's name goes with, whether it makes sense or not.
class RandomNodes {
 public:
  explicit RandomNodes(int seed) : random_(seed), names_(operator_names()) {}

  OpProblem next() {
    NodeDesc node;
    while (true) {  // names of other domains are listed too
      node.op = names_[below(names_.size())];
      if (find_operator("", node.op) != nullptr) break;
    }
    node.name = "somewhere";
    if (below(3) == 0) node.opset = static_cast<int>(1 + below(22));
    for (auto count = below(4); count > 0; --count) node.attributes[text()] = attribute();
    std::vector<Input> inputs;
    for (auto count = below(4); count > 0; --count) inputs.push_back(input());
    std::vector<TensorDesc> outputs;
    for (auto count = 1 + below(2); count > 0; --count) outputs.push_back(desc());
    return describe(node, inputs, outputs);
  }

  std::mt19937_64& random() { return random_; }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::string text() {
    std::string result;
    for (auto count = 1 + below(6); count > 0; --count) result += static_cast<char>(below(256));
    return result;
  }
  TensorDesc desc() {
    constexpr Layout kLayouts[] = {Layout::nchw, Layout::nhwc, Layout::nchw8c, Layout::nchw16c};
    Dims dims;
    for (auto rank = below(6); rank > 0; --rank) dims.push_back(static_cast<std::int64_t>(below(5)));
    auto result = TensorDesc::packed(static_cast<DataType>(below(static_cast<int>(DataType::boolean) + 1)), dims,
                                     kLayouts[below(4)]);
    if (below(4) == 0) result.alignment = std::int64_t{1} << below(8);
    if (below(5) == 0) {
      for (auto& stride : result.strides) stride *= 2;
    }
    return result;
  }
  Input input() {
    if (below(5) == 0) return {};
    Input result{true, desc(), nullptr};
    if (below(2) == 0) result.constant = filled(result.desc).data.get();
    return result;
  }
  HostTensor filled(const TensorDesc& desc) {
    kept_.push_back(*HostTensor::zeros(desc));
    auto* bytes = reinterpret_cast<unsigned char*>(kept_.back().data.get());
    for (std::int64_t i = 0; i < desc.bytes(); ++i) {
      // NaN has many patterns, of which one is kept; no floating-point type has only small bytes for it.
      bytes[i] = static_cast<unsigned char>(below(is_integer(desc.type)            ? 256
                                                  : desc.type == DataType::boolean ? 2
                                                                                   : 60));
    }
    return kept_.back();
  }
  Attribute attribute() {
    switch (below(7)) {
      case 0:
        return static_cast<std::int64_t>(random_());
      case 1:
        return static_cast<double>(below(1000)) / 7;
      case 2:
        return text();
      case 3:
        return std::vector<std::int64_t>(below(4), static_cast<std::int64_t>(random_()));
      case 4:
        return std::vector<double>(below(4), 1.0 / 3);
      case 5:
        return std::vector<std::string>(below(3), below(2) == 0 ? text() : "");
      default:
        return filled(TensorDesc::packed(static_cast<DataType>(below(14)), {3}));
    }
  }
  std::mt19937_64 random_;
  std::vector<std::string> names_;
  std::vector<HostTensor> kept_;
};

bool same_values(const TensorDesc& desc, const std::byte* a, const std::byte* b) {
  return (a == nullptr) == (b == nullptr) &&
         (a == nullptr || std::memcmp(a, b, static_cast<std::size_t>(desc.bytes())) == 0);
}

void expect_same(const OpProblem& a, const OpProblem& b) {
  EXPECT_EQ(a.node.op, b.node.op);
  EXPECT_EQ(a.node.domain, b.node.domain);
  EXPECT_EQ(a.node.opset, b.node.opset);
  EXPECT_EQ(a.node.output_count, b.node.output_count);
  EXPECT_EQ(a.outputs, b.outputs);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    EXPECT_EQ(a.inputs[i].present, b.inputs[i].present);
    EXPECT_EQ(a.inputs[i].constant, b.inputs[i].constant);
    if (a.inputs[i].present) {
      EXPECT_EQ(a.inputs[i].desc, b.inputs[i].desc);
    }
    EXPECT_TRUE(same_values(a.inputs[i].desc, a.inputs[i].values.get(), b.inputs[i].values.get()));
  }
  ASSERT_EQ(a.node.attributes.size(), b.node.attributes.size());
  for (const auto& [name, value] : a.node.attributes) {
    ASSERT_TRUE(b.node.attributes.contains(name));
    const Attribute& other = b.node.attributes.at(name);
    ASSERT_EQ(value.index(), other.index());
    if (const auto* tensor = std::get_if<HostTensor>(&value)) {
      EXPECT_EQ(tensor->desc, std::get<HostTensor>(other).desc);
      EXPECT_TRUE(same_values(tensor->desc, tensor->data.get(), std::get<HostTensor>(other).data.get()));
    } else {
      const auto plain = [](const Attribute& a) {
        return std::visit(
            [](const auto& v) -> std::string {
              if constexpr (std::is_same_v<std::decay_t<decltype(v)>, HostTensor>)
                return "";
              else
                return ::testing::PrintToString(v);
            },
            a);
      };
      EXPECT_EQ(plain(value), plain(other));
    }
  }
}

TEST(OperatorString, LosesNothing) {
  RandomNodes nodes(1);
  for (int i = 0; i < 3000; ++i) {
    const OpProblem problem = nodes.next();
    const std::string text = print(problem);
    SCOPED_TRACE(text);
    const auto back = parse_operator(text);
    ASSERT_TRUE(back.ok()) << back.error().message;
    expect_same(problem, *back);
    ASSERT_EQ(print(*back), text);
    ASSERT_EQ(text.find_first_of(" \t\n'\"\\$&|;<>()*?[]{}!`#~"), std::string::npos) << "needs quoting";
    if (HasFailure()) return;
  }
}

TEST(OperatorString, AnyTextGivesAnAnswer) {
  RandomNodes nodes(2);
  auto& random = nodes.random();
  for (int i = 0; i < 20000; ++i) {
    std::string text = print(nodes.next());
    for (auto edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 5);
      } else if (random() % 2 == 0) {
        text[at] = ":,=/x%@-0"[random() % 9];
      } else {
        text.insert(at, text.substr(random() % text.size(), random() % 9));
      }
    }
    const auto parsed = parse_operator(text);
    if (parsed.ok()) {
      ASSERT_EQ(canonical(print(*parsed)), print(*parsed)) << text;
    } else {
      ASSERT_FALSE(parsed.error().message.empty());
    }
  }
}

TEST(OperatorString, ErrorsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"op", "name is missing"},
      {"op::x=f32,3,nchw", "name is missing"},
      {"op:MaxPol:x=f32,3,nchw", "MaxPool"},
      {"op:Relu:x=f31,3", "x: "},
      {"op:Relu:x=f32,3:x=f32,3", "'x1' comes next"},
      {"op:Relu:x1=f32,3", "'x' comes next"},
      {"op:Relu:x=f32,3:y=f32,ax3", "y: "},
      {"op:Relu:x=f32,3:z=1", "'z' is not one of"},
      {"op:Relu:x", "has no '='"},
      {"op:Relu:x=f32,3:opset=a", "opset: "},
      {"op:Relu:x=f32,3:opset=0", "opset: "},
      {"op:Relu:x=f32,3:opset=12:opset=12", "given twice"},
      {"op:Relu:x=f32,3:domain=a%", "domain: "},
      {"op:Relu:x=f32,3:@a=float,1", "@a: 'float' is not one of int"},
      {"op:Relu:x=f32,3:@a=int", "@a: int has one value"},
      {"op:Relu:x=f32,3:@a=ints,1,b", "@a: "},
      {"op:Relu:x=f32,3:@a=int,1:@a=int,1", "'@a' is given twice"},
      {"op:Relu:x=f32,3:@a=tensor,f32,3", "@a: the tensor's values are missing"},
      {"op:Relu:x=u8,3,values=1/2", "x: 2 values are given for 3 elements"},
      {"op:Relu:x=u8,1,values=256", "x: '256' is out of the range of u8"},
      {"op:Relu:x=f32,100,values=1", "x: values of 100 elements"},
      {"op:Relu:x=f32,scalar,nchw", "x: "},
  };
  for (const auto& [text, part] : cases) {
    const auto parsed = parse_operator(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << text << ": " << parsed.error().message;
  }
}

TEST(OperatorString, OutputsAreInferredAndChecked) {
  auto p = *parse_operator("op:MaxPool:x=f32,1x64x112x112,nhwc:@kernel_shape=ints,3,3:@strides=ints,2,2");
  ASSERT_TRUE(complete(p).ok());
  EXPECT_EQ(print(p),
            "op:MaxPool:x=f32,1x64x112x112,nhwc:y=f32,1x64x55x55,nhwc:@kernel_shape=ints,3,3:@strides=ints,2,2");
  EXPECT_EQ(bytes_moved(p), 4.0 * 64 * (112 * 112 + 55 * 55));
  p = *parse_operator("op:Relu:x=f32,3x4,nchw:y=f32,3x5,nchw");
  const auto wrong = complete(p);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("y=f32,3x5,nchw is not what Relu gives"), std::string::npos);
  p = *parse_operator("op:Relu:x=f32,3x4,nchw:x1=f32,3x4,nchw");
  EXPECT_FALSE(complete(p).ok());
}

TEST(OperatorPrediction, GrowsWithTheWorkAndShrinksWithThreads) {
  const auto seconds = [](const std::string& text, int threads = 1) {
    auto p = *parse_operator(text);
    EXPECT_TRUE(complete(p).ok()) << text;
    PlanRequest request;
    request.threads = threads;
    return predict_seconds(p, request);
  };
  for (const char* layout : {",nchw", ",nhwc", ",nchw8c"}) {
    const std::string small = std::string("op:Relu:x=f32,1x64x28x28") + layout,
                      large = std::string("op:Relu:x=f32,1x64x112x112") + layout;
    EXPECT_GT(seconds(large), 8 * seconds(small));
    EXPECT_LT(seconds(large, 2), 0.6 * seconds(large));
    EXPECT_GT(seconds(small), 1e-6);
  }
  EXPECT_LT(seconds("op:Relu:x=f32,3,nchw"), 1e-6);
  EXPECT_EQ(seconds("op:Relu:x=f32,3,nchw"), seconds("op:Relu:x=f32,3,nchw", 2));
  // A window's size counts; functions take longer than sums, sums over channels much longer; so do halves whose
  // channels lie apart.
  const std::string pool = "op:MaxPool:x=f32,1x64x56x56,nhwc:@kernel_shape=ints,";
  EXPECT_GT(seconds(pool + "5,5"), 2 * seconds(pool + "3,3"));
  EXPECT_GT(seconds("op:Sigmoid:x=f32,1x64x56x56,nchw"), seconds("op:Relu:x=f32,1x64x56x56,nchw"));
  EXPECT_GT(seconds("op:LRN:x=f32,1x64x56x56,nchw:@size=int,5"), 2 * seconds("op:Sigmoid:x=f32,1x64x56x56,nchw"));
  const std::string halves = "op:MaxPool:x=bf16,1x64x56x56,";
  EXPECT_GT(seconds(halves + "nchw:@kernel_shape=ints,3,3"), 5 * seconds(halves + "nhwc:@kernel_shape=ints,3,3"));
  const std::string resize = "op:Resize:x=f32,1x64x28x28,nchw:x1=none:x2=f32,4,nchw,values=1/1/2/2";
  EXPECT_GT(seconds(resize + ":@mode=text,linear"), seconds(resize));
  EXPECT_GT(seconds("op:Transpose:x=f32,1x85x8400,ncw:y=f32,1x8400x85,ncw:@perm=ints,0,2,1"),
            2 * seconds("op:Transpose:x=f32,1x85x8400,nwc:y=f32,1x8400x85,ncw:@perm=ints,0,2,1"));
  EXPECT_GT(seconds("op:Not:x=bool,1x64x56x56,nchw"), 1e-6);  // of no kind
}

}  // namespace
}  // namespace convoy::ops
