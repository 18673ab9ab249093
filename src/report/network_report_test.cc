#include "report/network_report.h"

#include <gtest/gtest.h>

#include "report/page_parts.h"

namespace convoy::report {
namespace {

PlannedStep step(const std::string& kind, const std::string& nodes, double seconds, std::optional<LineCost> cost) {
  PlannedStep planned;
  planned.step.kind = kind;
  planned.step.nodes = nodes;
  planned.step.implementation = kind == "convert" ? "convert nchw to nhwc" : "ops.relu";
  planned.step.reads = TensorDesc::packed(DataType::f32, {1, 8, 4, 4});
  planned.step.writes = planned.step.reads->with_layout(Layout::nhwc);
  planned.seconds = seconds;
  planned.cost = cost;
  return planned;
}

NetworkPlan plan(const std::string& name, double seconds) {
  NetworkPlan made;
  made.name = name;
  made.seconds = {seconds, seconds, seconds, 12};
  made.ratio = {1, 1, 1, 12};
  made.steps = {step("convert", "x", 1e-3, LineCost{2e-3, true}), step("op", "relu", 3e-3, LineCost{3e-3, false}),
                step("op", "tail", 1e-3, std::nullopt)};
  made.steps[0].step.inputs = {-1};
  made.steps[1].step.inputs = {0};
  made.activations = {{0, 100, 0, 1}, {128, 50, 1, 3}};
  return made;
}

NetworkReport report_of(std::vector<NetworkPlan> plans) {
  NetworkReport report;
  report.network = "a</script><b>";
  report.inputs = {"x f32 1x8x4x4"};
  report.plans = std::move(plans);
  return report;
}

TEST(NetworkReport, SumsLinesAndMemory) {
  const NetworkPlan made = plan("global", 5e-3);
  EXPECT_DOUBLE_EQ(made.predicted_seconds(), 5e-3);
  EXPECT_EQ(made.lines(), 2);
  EXPECT_EQ(made.measured_lines(), 1);
  EXPECT_EQ(made.conversions(), 1);
  EXPECT_EQ(made.live_bytes(), (std::vector<std::int64_t>{100, 150, 50}));  // the second is kept behind the last step
}

TEST(NetworkReport, TheFastestUniformPlanIsTheOneToCompareWith) {
  const NetworkReport report =
      report_of({plan("global", 3), plan("uniform:nchw", 2), plan("uniform:nhwc", 1), plan("local", 0.5)});
  ASSERT_NE(report.best_uniform(), nullptr);
  EXPECT_EQ(report.best_uniform()->name, "uniform:nhwc");
  EXPECT_EQ(report_of({plan("global", 1)}).best_uniform(), nullptr);
}

TEST(NetworkReport, JsonHasWhatDrawingsNeed) {
  const Json json = to_json(report_of({plan("global", 5e-3)}));
  const Json& steps = json["plans"][0]["steps"];
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0]["reads"]["layout"], "nchw");
  EXPECT_EQ(steps[0]["writes"]["layout"], "nhwc");
  EXPECT_EQ(steps[0]["inputs"], Json::array({-1}));
  EXPECT_EQ(steps[0]["cost_is"], "measured");
  EXPECT_DOUBLE_EQ(steps[1]["share"], 0.6);
  EXPECT_TRUE(steps[2]["predicted_seconds"].is_null());
  EXPECT_EQ(json["plans"][0]["live_bytes"], Json::array({100, 150, 50}));
}

// Its drawings are tested in a browser (tests/report/page_test.py).
TEST(NetworkReport, PageHasAllOfItAndNoNameBreaksIt) {
  NetworkReport report = report_of({plan("global", 5e-3), plan("uniform:nhwc", 6e-3)});
  report.peers = {{"peer & co", 7e-3}};
  const std::string page = html_of(report);
  EXPECT_EQ(page.find("a</script><b>"), std::string::npos);
  EXPECT_NE(page.find("a&lt;/script&gt;&lt;b&gt;"), std::string::npos);
  EXPECT_NE(page.find("peer &amp; co"), std::string::npos);
  EXPECT_EQ(page.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  for (const std::string_view part : {page_parts::d3, page_parts::dagre, page_parts::network_script}) {
    EXPECT_GT(part.size(), 5000U);
    EXPECT_NE(page.find(part), std::string::npos);
    EXPECT_EQ(part.find("</script"), std::string::npos);
  }
  const std::size_t data = page.find("<script type=\"application/json\" id=\"data\">");
  ASSERT_NE(data, std::string::npos);
  const std::size_t begin = page.find('>', data) + 1;
  const Json read = Json::parse(page.substr(begin, page.find("</script>", begin) - begin), nullptr, false);
  ASSERT_TRUE(read.is_object());
  EXPECT_EQ(read["network"], "a</script><b>");
}

}  // namespace
}  // namespace convoy::report
