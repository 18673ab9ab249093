// Initializers whose values lie in the caller's memory.
#include <cstring>
#include <limits>

#include "network/prepare/session.h"
#include "network/testing/models.h"

namespace convoy::network {
namespace {

using ::onnx::ModelProto;
using ::onnx::TensorProto;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// x -> Conv(w) -> Mul(k) -> y; its rows' places where x is not 0, in a table -> z, whose size is known when it has run.
struct Model {
  Model() {
    GraphProto& graph = *model.mutable_graph();
    add_value(*graph.add_input(), "x", {1, 4, 8, 8});
    add_value(*graph.add_output(), "y", {1, 16, 8, 8});
    add_value(*graph.add_output(), "z", {4, -1, 40});
    add("w", {16, 4, 3, 3});
    add("b", {1, 16, 8, 8});
    add("k", {1});
    add("table", {8, 40});
    auto& pads = *add_node(model, "Conv", "conv", {"x", "w"}, {"c"}).add_attribute();
    pads.set_name("pads");
    pads.set_type(::onnx::AttributeProto::INTS);
    for (int i = 0; i < 4; ++i) pads.add_ints(1);
    add_node(model, "Add", "sum", {"c", "b"}, {"s"});
    add_node(model, "Mul", "scaled", {"s", "k"}, {"y"});
    add_node(model, "NonZero", "places", {"x"}, {"p"});
    add_node(model, "Gather", "looked_up", {"table", "p"}, {"z"});
  }

  using GraphProto = ::onnx::GraphProto;

  void add(const std::string& name, const Dims& dims) {
    tensors.push_back({name, spread(dims)});
    TensorProto& proto = *model.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(TensorProto::FLOAT);
    for (const std::int64_t size : dims) proto.add_dims(size);
  }

  // With the values in the model.
  ModelProto whole() const {
    ModelProto made = model;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      made.mutable_graph()
          ->mutable_initializer(static_cast<int>(i))
          ->set_raw_data(tensors[i].second.data.get(), bytes_of(tensors[i].second));
    }
    return made;
  }

  static std::size_t bytes_of(const HostTensor& tensor) { return static_cast<std::size_t>(tensor.desc.bytes()); }

  ModelProto model = empty_model();
  std::vector<std::pair<std::string, HostTensor>> tensors;
};

// The values of a model's initializers, each `offset` bytes behind a multiple of 64.
struct Given {
  Given(const Model& model, std::size_t offset) {
    for (const auto& [name, tensor] : model.tensors) {
      const std::size_t bytes = Model::bytes_of(tensor);
      memory.push_back(allocate_aligned(bytes + 64));
      std::memcpy(memory.back().get() + offset, tensor.data.get(), bytes);
      all.push_back({name, {memory.back().get() + offset, bytes}});
    }
  }
  void overwrite() {
    for (const auto& [name, values] : all) {
      auto* at = const_cast<float*>(reinterpret_cast<const float*>(values.data()));
      std::fill_n(at, values.size() / sizeof(float), kNan);
    }
  }
  std::vector<std::shared_ptr<std::byte>> memory;
  std::vector<onnx_io::GivenInitializer> all;
};

Result<Graph> import_given(const ModelProto& model, std::span<const onnx_io::GivenInitializer> given) {
  const std::string bytes = model.SerializeAsString();
  return onnx_io::import_bytes(std::as_bytes(std::span(bytes)), "m", {}, given);
}

std::vector<HostTensor> run(Session& session, const HostTensor& x) {
  auto outputs = session.run(std::vector{x});
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? *std::move(outputs) : std::vector<HostTensor>(2);
}

TEST(GivenInitializers, AreReadInPlaceAndSessionsOutliveThem) {
  const Model model;
  const HostTensor x = spread({1, 4, 8, 8});
  const std::string bytes = model.whole().SerializeAsString();
  auto plain = Network::parse(std::as_bytes(std::span(bytes)), "m");
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  auto expected_session = (*plain)->prepare(std::vector{x.desc}, test_options());
  ASSERT_TRUE(expected_session.ok()) << expected_session.error().message;
  const std::vector<HostTensor> expected = run(**expected_session, x);

  for (const std::size_t offset : {0, 4}) {
    Given given(model, offset);
    auto graph = import_given(model.model, given.all);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    for (const auto& [name, values] : given.all) {
      const auto value = std::ranges::find(graph->values, name, &Value::name);
      ASSERT_NE(value, graph->values.end());
      EXPECT_EQ(value->constant->data.get() == values.data(), offset == 0 && name != "k") << name;
    }
    auto network = network_of(std::move(graph), "m");
    ASSERT_TRUE(network.ok()) << network.error().message;
    auto session = (*network)->prepare(std::vector{x.desc}, test_options());
    ASSERT_TRUE(session.ok()) << session.error().message;
    network->reset();
    given.overwrite();
    const std::vector<HostTensor> got = run(**session, x);
    ASSERT_EQ(got.size(), 2u);
    expect_close(got[0], expected[0]);
    expect_close(got[1], expected[1]);
  }
}

TEST(GivenInitializers, TakeThePlaceOfTheModels) {
  Model model;
  Given given(model, 0);
  const ModelProto whole = model.whole();
  auto* scale = const_cast<float*>(reinterpret_cast<const float*>(given.all[2].values.data()));
  *scale = 0;
  auto network = network_of(import_given(whole, given.all), "m");
  ASSERT_TRUE(network.ok()) << network.error().message;
  const HostTensor x = spread({1, 4, 8, 8});
  auto session = (*network)->prepare(std::vector{x.desc}, test_options());
  ASSERT_TRUE(session.ok()) << session.error().message;
  for (std::int64_t i = 0; i < 16 * 8 * 8; ++i) EXPECT_EQ(run(**session, x)[0].at(i), 0) << i;
}

TEST(GivenInitializers, ThatDoNotFitAreNamed) {
  const Model model;
  const Given given(model, 0);
  auto other = given.all;
  other[0].name = "v";
  auto refused = import_given(model.model, other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(refused.error().message, "initializer 'v' is given: the model has none of that name");
  other = given.all;
  other[3].values = other[3].values.subspan(4);
  refused = import_given(model.model, other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "initializer 'table' is given: dims 8x40 of f32 need 1280 bytes, not 1276");
  // Those that are not given are the model's, which has none.
  refused = import_given(model.model, std::span(given.all).first(3));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::corrupt);
}

}  // namespace
}  // namespace convoy::network
