// For tests of plans: sessions prepared and run with their steps kept, and a plan's text changed as by hand.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "network/testing/graphs.h"

namespace convoy::network {

// Fails the test and is null where the graph can't be prepared.
std::unique_ptr<Session> session_of(const Graph& graph, const NetworkOptions& options = test_options());

struct PreparedRun {
  std::vector<HostTensor> outputs;
  std::vector<NetworkStep> steps;
  std::vector<std::string> remarks;
};
Result<PreparedRun> prepared(const Graph& graph, const NetworkOptions& options);
// As the reference engine in nchw.
void expect_right(const Graph& graph, const PreparedRun& ran);

// As in ConvNeXt: channels last between two convolutions, with the first one's result read behind them as well.
Graph channels_last_block();
int to_channels_last(GraphBuilder& b, int x);
int from_channels_last(GraphBuilder& b, int x);

// As text. Fails the test where there is none.
std::string plan_for(const Graph& graph, const NetworkOptions& options = test_options(),
                     std::span<const Engine* const> engines = all_engines());
// Fails the test where the text is no plan.
NetworkPlan plan_in(const std::string& text);
// The text with the first `from`, which must be there, as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to);
// The line that begins with `begin`, with its end of line.
std::string line_of(const std::string& text, const std::string& begin);
// A line of a plan with `threads` as its thread count; none: without one.
std::string with_threads(const std::string& line, const std::string& threads);

}  // namespace convoy::network
