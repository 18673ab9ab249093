// Programs as lowered: no step writes over memory that a later step, or the end, still reads.
#include "network/run/lower.h"

#include "network/assign/layout_rules.h"
#include "network/graph/onnx/import.h"
#include "network/graph/onnx/tensor_proto.h"
#include "network/graph/pass.h"
#include "network/testing/graphs.h"

namespace convoy::network {
namespace {

namespace fs = std::filesystem;

struct Range {
  std::int64_t begin = 0, end = 0;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

Range range_of(const Program& p, int slot) {
  const std::int64_t begin = p.storages[p.slots[slot].index].offset;
  return {begin, begin + p.slots[slot].desc.bytes()};
}

bool in_arena(const Program& p, int slot) { return slot != kAbsent && p.slots[slot].home == Home::arena; }

// Follows the steps with the lifetimes taken from who reads what, not from the memory plan.
void expect_sound(const Lowered& lowered) {
  const Program& p = lowered.program;
  const int steps = static_cast<int>(p.steps.size());
  std::vector<int> last_read(p.slots.size(), -1);
  std::vector<int> written(p.slots.size(), steps);
  for (int s = 0; s < steps; ++s) {
    for (int slot : p.steps[s].inputs) {
      if (slot != kAbsent) last_read[slot] = s;
    }
    for (int slot : p.steps[s].outputs) {
      if (slot != kAbsent) written[slot] = s;
    }
  }
  for (const OutputCopy& copy : p.copies) last_read[copy.slot] = steps;
  for (int slot : lowered.export_slots) last_read[slot] = steps;
  for (int s = 0; s < steps; ++s) {
    for (int output : p.steps[s].outputs) {
      if (!in_arena(p, output)) continue;
      const Range target = range_of(p, output);
      ASSERT_LE(target.end, p.footprints.front().arena_bytes);
      for (int other = 0; other < static_cast<int>(p.slots.size()); ++other) {
        if (other == output || !in_arena(p, other) || !target.overlaps(range_of(p, other))) continue;
        const bool alive = written[other] < s && last_read[other] > s;
        EXPECT_FALSE(alive) << "step " << s << " (" << p.steps[s].info.nodes << ") overwrites a value read later";
        // Taking over an input's memory is for operators that allow it, from the input's very first byte.
        const bool read_here = written[other] < s && last_read[other] == s;
        if (read_here) {
          EXPECT_EQ(p.steps[s].info.kind, "op");
          EXPECT_EQ(target.begin, range_of(p, other).begin);
        }
        EXPECT_FALSE(written[other] == s) << "two outputs of step " << s << " share memory";
      }
    }
  }
}

TEST(Lower, NoStepOverwritesWhatIsStillRead) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(data / "models")) {
    auto graph = onnx_io::import_file((entry.path() / "model.onnx").string());
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    SCOPED_TRACE(entry.path().filename().string());
    for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
      const fs::path file = entry.path() / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
      const auto input = onnx_io::read_tensor_file(file.string());
      ASSERT_TRUE(input.ok()) << input.error().message;
      Value& value = graph->values[graph->inputs[i]];
      value.desc = input->tensor.desc;
      value.known = true;
    }
    const NetworkOptions options = test_options();
    const auto team = make_cpu_team(options.threads);
    ASSERT_TRUE(run_passes(*graph, PassContext{*team, options.cpu}).ok());
    Chooser chooser(options, {}, {});
    const std::vector<DataType> f32(graph->nodes.size(), DataType::f32);
    const auto assignment = assign(*graph, greedy_formats(*graph, f32, chooser), chooser);
    ASSERT_TRUE(assignment.ok()) << assignment.error().message;
    const auto lowered = lower(*graph, *assignment, {}, {chooser.places(), all_engines()});
    ASSERT_TRUE(lowered.ok()) << lowered.error().message;
    expect_sound(*lowered);
    ++checked;
  }
  EXPECT_EQ(checked, 10);
}

}  // namespace
}  // namespace convoy::network
