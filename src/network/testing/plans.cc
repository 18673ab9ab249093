#include "network/testing/plans.h"

#include <utility>

namespace convoy::network {
namespace {

using Ints = std::vector<std::int64_t>;

}  // namespace

int to_channels_last(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}); }
int from_channels_last(GraphBuilder& b, int x) { return b.node("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}}); }

std::unique_ptr<Session> session_of(const Graph& graph, const NetworkOptions& options) {
  auto session = prepare_graph(graph, {.options = options});
  EXPECT_TRUE(session.ok()) << session.error().message;
  return session.ok() ? std::move(*session) : nullptr;
}

Result<PreparedRun> prepared(const Graph& graph, const NetworkOptions& options) {
  CONVOY_TRY(const auto session, prepare_graph(graph, {.options = options}));
  CONVOY_TRY(auto outputs, session->run(inputs_for(graph)));
  return PreparedRun{std::move(outputs), session->steps(), session->remarks()};
}
void expect_right(const Graph& graph, const PreparedRun& ran) {
  NetworkOptions oracle = test_options();
  oracle.selection.filter.engines = "reference";
  oracle.how = "uniform:nchw";
  const auto expected = prepared(graph, oracle);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  for (std::size_t i = 0; i < ran.outputs.size(); ++i) expect_close(ran.outputs[i], expected->outputs[i]);
}

Graph channels_last_block() {
  GraphBuilder b;
  const int x = b.conv(b.input("x", {1, 16, 14, 14}), 16, 32, 3);
  const int inner = b.node("Sigmoid", {b.node("Neg", {to_channels_last(b, x)})});
  const int back = from_channels_last(b, inner);
  b.output(b.conv(b.node("Add", {x, back}), 32, 16, 3));
  return b.graph;
}

std::string plan_for(const Graph& graph, const NetworkOptions& options, std::span<const Engine* const> engines) {
  const auto plan = plan_of(graph, {.options = options, .engines = engines});
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return plan.ok() ? print(*plan) : "";
}

NetworkPlan plan_in(const std::string& text) {
  auto plan = parse_plan(text);
  EXPECT_TRUE(plan.ok()) << plan.error().message << " in\n" << text;
  return plan.ok() ? *std::move(plan) : NetworkPlan();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}
std::string line_of(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find("\n" + begin) + 1;
  return text.substr(at, text.find('\n', at) + 1 - at);
}

std::string with_threads(const std::string& line, const std::string& threads) {
  const std::size_t arrow = line.find(" -> ") + 4, end = line.find(' ', arrow), cost = line.find("  ", arrow);
  return line.substr(0, end) + (threads.empty() ? "" : " threads=" + threads) + line.substr(cost);
}

}  // namespace convoy::network
