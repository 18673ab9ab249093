// Models with functions of their own and with If: what is put in the caller's place, and what is refused.
#include <fmt/format.h>

#include "network/graph/onnx/decode.h"
#include "network/testing/models.h"

namespace convoy::network {
namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

NodeProto make_node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::string& domain = {}) {
  NodeProto node;
  node.set_op_type(op);
  node.set_domain(domain);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}

FunctionProto make_function(const std::string& name, const std::vector<std::string>& inputs,
                            const std::vector<std::string>& outputs, const std::vector<NodeProto>& nodes) {
  FunctionProto function;
  function.set_domain("mine");
  function.set_name(name);
  auto& opset = *function.add_opset_import();
  opset.set_version(13);
  for (const auto& input : inputs) function.add_input(input);
  for (const auto& output : outputs) function.add_output(output);
  for (const auto& node : nodes) *function.add_node() = node;
  return function;
}

TensorProto single(const std::string& name, float value) {
  TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_float_data(value);
  return tensor;
}

AttributeProto real(const std::string& name, float value) {
  AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

AttributeProto branch(const std::string& name, const std::vector<NodeProto>& nodes, const std::string& output,
                      const std::vector<TensorProto>& initializers = {}) {
  AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(AttributeProto::GRAPH);
  GraphProto& graph = *attribute.mutable_g();
  for (const auto& node : nodes) *graph.add_node() = node;
  for (const auto& tensor : initializers) *graph.add_initializer() = tensor;
  graph.add_output()->set_name(output);
  return attribute;
}

// x (two elements) -> the nodes -> y
ModelProto model_of(const std::vector<NodeProto>& nodes, const std::vector<FunctionProto>& functions = {}) {
  ModelProto model = empty_model();
  add_value(*model.mutable_graph()->add_input(), "x", {2});
  add_value(*model.mutable_graph()->add_output(), "y", {2});
  for (const auto& node : nodes) *model.mutable_graph()->add_node() = node;
  for (const auto& function : functions) *model.add_functions() = function;
  return model;
}

void expect_answer(const ModelProto& model, const std::vector<double>& x, const std::vector<double>& y) {
  const std::string bytes = model.SerializeAsString();
  auto network = Network::parse(std::as_bytes(std::span(bytes)), "m");
  ASSERT_TRUE(network.ok()) << network.error().message;
  const HostTensor input = tensor_of(DataType::f32, {2}, x);
  auto session = (*network)->prepare(std::vector{input.desc}, test_options());
  ASSERT_TRUE(session.ok()) << session.error().message;
  auto outputs = (*session)->run(std::vector{input});
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close((*outputs)[0], tensor_of(DataType::f32, {2}, y));
}

// leaky(a) = LeakyRelu(a, alpha), twice(a) = leaky(a) + a, whose inner names are those of the model.
std::vector<FunctionProto> two_functions() {
  NodeProto relu = make_node("LeakyRelu", {"a"}, {"y"});
  auto& reference = *relu.add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("slope");
  reference.set_type(AttributeProto::FLOAT);
  FunctionProto leaky = make_function("leaky", {"a"}, {"y"}, {relu});
  *leaky.add_attribute_proto() = real("slope", 0.5F);
  NodeProto call = make_node("leaky", {"x"}, {"inner"}, "mine");
  FunctionProto twice =
      make_function("twice", {"x"}, {"sum", "same"}, {call, make_node("Add", {"inner", "x"}, {"sum"})});
  twice.set_output(1, std::string("x"));  // an output that is an input
  return {leaky, twice};
}

TEST(Inline, FunctionsTakeTheCallersPlace) {
  expect_answer(model_of({make_node("leaky", {"x"}, {"y"}, "mine")}, two_functions()), {-2, 3}, {-1, 3});
  NodeProto steep = make_node("leaky", {"x"}, {"y"}, "mine");
  *steep.add_attribute() = real("slope", 2);
  expect_answer(model_of({steep}, two_functions()), {-2, 3}, {-4, 3});
  // Twice in a row: the inner names of two calls do not meet.
  expect_answer(
      model_of({make_node("twice", {"x"}, {"h"}, "mine"), make_node("twice", {"h"}, {"y"}, "mine")}, two_functions()),
      {-2, 3}, {-4.5, 12});
  expect_answer(model_of({make_node("twice", {"x"}, {"", "y"}, "mine")}, two_functions()), {-2, 3}, {-2, 3});
}

// Nodes without names: those within a function have the same in each call of it.
TEST(Inline, CallsWithinCallsHaveNamesOfTheirOwn) {
  const FunctionProto g =
      make_function("g", {"a"}, {"c"}, {make_node("Neg", {"a"}, {"t"}), make_node("Add", {"t", "t"}, {"c"})});
  const FunctionProto f =
      make_function("f", {"a"}, {"c"}, {make_node("g", {"a"}, {"t"}, "mine"), make_node("g", {"t"}, {"c"}, "mine")});
  NodeProto one = make_node("f", {"x"}, {"h"}, "mine"), two = make_node("f", {"h"}, {"y"}, "mine");
  expect_answer(model_of({one, two}, {g, f}), {-2, 3}, {-32, 48});
  one.set_name("n");
  two.set_name("n");
  expect_answer(model_of({one, two}, {g, f}), {-2, 3}, {-32, 48});
}

// f(a) has a branch with values of its own, whose names are those of what the caller hands over.
TEST(Inline, NamesWithinABranchDoNotHideTheCallers) {
  NodeProto choice = make_node("If", {"k"}, {"c"});
  *choice.add_attribute() =
      branch("then_branch", {make_node("Add", {"a", "w"}, {"v"}), make_node("Mul", {"v", "a"}, {"r"})}, "r",
             {single("w", 10)});
  *choice.add_attribute() = branch("else_branch", {make_node("Neg", {"a"}, {"x"})}, "x");
  NodeProto sum = make_node("ReduceSum", {"a"}, {"s"});
  AttributeProto& keep = *sum.add_attribute();
  keep.set_name("keepdims");
  keep.set_type(AttributeProto::INT);
  const FunctionProto f = make_function(
      "f", {"a"}, {"c"}, {sum, make_node("Sub", {"s", "s"}, {"z"}), make_node("Less", {"z", "s"}, {"k"}), choice});
  for (const char* given : {"x", "v", "w", "r"}) {
    SCOPED_TRACE(given);
    const std::string name = given;
    std::vector<NodeProto> nodes{make_node("f", {name}, {"y"}, "mine")};
    if (name != "x") nodes.insert(nodes.begin(), make_node("Identity", {"x"}, {name}));
    expect_answer(model_of(nodes, {f}), {2, 3}, {24, 39});
    expect_answer(model_of(nodes, {f}), {-2, -3}, {2, 3});
  }
}

TEST(Inline, FunctionsThatCantBe) {
  auto functions = two_functions();
  expect_refused(model_of({make_node("leaky", {"x", "x"}, {"y"}, "mine")}, functions),
                 "function 'mine.leaky' has 1 inputs and 1 outputs, a node uses 2 and 1");
  expect_refused(model_of({make_node("strange", {"x"}, {"y"}, "mine")}, functions), "mine.strange (1 node)");
  functions.push_back(functions[0]);
  expect_refused(model_of({make_node("leaky", {"x"}, {"y"}, "mine")}, functions), "'mine.leaky' is defined twice");
  functions.pop_back();
  functions[0].mutable_opset_import(0)->set_version(12);
  expect_refused(model_of({make_node("leaky", {"x"}, {"y"}, "mine")}, functions),
                 "is of opset 12 of '', the model of 13");
  // A name from outside is not seen inside.
  expect_refused(model_of({make_node("f", {"x"}, {"y"}, "mine")},
                          {make_function("f", {"a"}, {"b"}, {make_node("Neg", {"x"}, {"b"})})}),
                 "'f_1/x' is no graph input");
  expect_refused(model_of({make_node("f", {"x"}, {"y"}, "mine")},
                          {make_function("f", {"a"}, {"b"}, {make_node("f", {"a"}, {"b"}, "mine")})}),
                 "calls itself");
}

TEST(Inline, FunctionsThatMultiplyAreBounded) {
  std::vector<FunctionProto> functions;
  for (int i = 0; i < 24; ++i) {
    const std::string next = fmt::format("f{}", i + 1);
    functions.push_back(make_function(fmt::format("f{}", i), {"a"}, {"c"},
                                      {make_node(next, {"a"}, {"b"}, "mine"), make_node(next, {"b"}, {"c"}, "mine")}));
  }
  functions.push_back(make_function("f24", {"a"}, {"b"}, {make_node("Neg", {"a"}, {"b"})}));
  expect_refused(model_of({make_node("f0", {"x"}, {"y"}, "mine")}, functions), "amount to more than 131072 calls");
  // A constant of a megabyte, copied many times.
  NodeProto constant = make_node("Constant", {}, {"k"});
  AttributeProto& value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(TensorProto::UINT8);
  value.mutable_t()->add_dims(1 << 20);
  value.mutable_t()->set_raw_data(std::string(1 << 20, '\0'));
  functions[24] = make_function("f24", {"a"}, {"b"}, {constant, make_node("Neg", {"a"}, {"b"})});
  expect_refused(model_of({make_node("f12", {"x"}, {"y"}, "mine")}, functions), "amount to more than 268435456 bytes");
}

TEST(Inline, AnIfWithAConstantConditionIsItsBranch) {
  for (const bool condition : {true, false}) {
    SCOPED_TRACE(condition);
    // Both branches use an initializer of their own of the same name, and a value of the graph around.
    NodeProto choice = make_node("If", {"c"}, {"h"});
    *choice.add_attribute() = branch("then_branch", {make_node("Mul", {"x", "k"}, {"r"})}, "r", {single("k", 3)});
    *choice.add_attribute() = branch("else_branch", {make_node("Add", {"x", "k"}, {"r"})}, "r", {single("k", 10)});
    NodeProto inner = make_node("If", {"c"}, {"s"});
    *inner.add_attribute() = branch("then_branch", {make_node("Neg", {"n"}, {"t"})}, "t");
    *inner.add_attribute() = branch("else_branch", {}, "n");  // gives a value from outside
    NodeProto outer = make_node("If", {"c"}, {"y"});
    const std::vector<NodeProto> nested{make_node("Abs", {"h"}, {"n"}), inner};
    *outer.add_attribute() = branch("then_branch", nested, "s");
    *outer.add_attribute() = branch("else_branch", nested, "s");
    ModelProto model = model_of({choice, outer});
    TensorProto& c = *model.mutable_graph()->add_initializer();
    c.set_name("c");
    c.set_data_type(TensorProto::BOOL);
    c.add_int32_data(condition);
    expect_answer(model, {-1, 2}, condition ? std::vector<double>{-3, -6} : std::vector<double>{9, 12});
    model.mutable_graph()->mutable_node(0)->mutable_attribute(condition ? 0 : 1)->set_name("other");
    expect_refused(model, condition ? "(If) has no then_branch" : "(If) has no else_branch");
  }
}

TEST(Inline, NodesOfAFunctionWithoutANameHaveDifferentOnes) {
  const auto function =
      make_function("noise", {"a"}, {"d"},
                    {make_node("RandomNormalLike", {"a"}, {"b"}), make_node("RandomNormalLike", {"a"}, {"c"}),
                     make_node("Sub", {"b", "c"}, {"d"})});
  ModelProto model = model_of({make_node("noise", {"x"}, {"y"}, "mine")}, {function});
  const auto graph = onnx_io::import_model(model, "m", ".");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  ASSERT_EQ(graph->nodes.size(), 3U);
  EXPECT_NE(graph->nodes[0].desc.name, graph->nodes[1].desc.name);  // random numbers follow from the name
}

TEST(Inline, BodiesThatCantBe) {
  const auto choice = [](const std::vector<std::string>& outputs) {
    NodeProto node = make_node("If", {"c"}, outputs);
    node.set_name("choice");
    *node.add_attribute() = branch("then_branch", {make_node("Neg", {"x"}, {"r"})}, "r");
    return node;
  };
  const NodeProto condition = make_node("IsNaN", {"x"}, {"c"});
  NodeProto half = choice({"y"});
  expect_refused(model_of({condition, half}), "node 'choice' (If) has no else_branch");
  *half.add_attribute() = branch("else_branch", {make_node("Neg", {"nobody"}, {"r"})}, "r");
  expect_refused(model_of({condition, half}),
                 "node 'choice' (If), else_branch: node 'Neg_0' (Neg): input 0 'nobody' is no graph input");
  NodeProto two = choice({"y", "z"});
  *two.add_attribute() = branch("else_branch", {make_node("Abs", {"x"}, {"r"})}, "r");
  expect_refused(model_of({condition, two}), "node 'choice' (If): then_branch has 1 outputs, the node 2");
  NodeProto unknown = choice({"y"});
  *unknown.add_attribute() = branch("else_branch", {make_node("Imagine", {"x"}, {"r"})}, "r");
  expect_refused(model_of({condition, unknown}), "operators not supported:\n  Imagine (1 node): Imagine_0");
  NodeProto itself = choice({"y"});
  *itself.add_attribute() = branch("else_branch", {make_node("Abs", {"y"}, {"r"})}, "r");
  expect_refused(model_of({condition, itself}), "node 'choice' (If) is part of a cycle");
  NodeProto loop = make_node("Loop", {"", "", "x"}, {"y"});
  *loop.add_attribute() = branch("body", {}, "x");
  expect_refused(model_of({loop}), "node 'Loop_0' (Loop): body has 0 inputs, it must have 3");
  NodeProto gap = make_node("Loop", {"", "", "", "x"}, {"y"});
  *gap.add_attribute() = branch("body", {}, "x");
  expect_refused(model_of({gap}), "node 'Loop_0' (Loop): input 2 is left out");
}

}  // namespace
}  // namespace convoy::network
