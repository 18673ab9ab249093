// What oneDNN's fused activations make of values that are no finite numbers: what the oracle does, or the candidate has
// the note LOSES_SPECIAL_VALUES. docs/selection.md has the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "convoy/host_tensor.h"
#include "core/notes.h"
#include "engines/onednn/onednn.h"
#include "engines/reference/reference.h"

namespace convoy::onednn {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kValues[] = {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf, 1};

std::vector<float> executed(const Engine& engine, const ConvProblem& problem) {
  const HostTensor x = *HostTensor::allocate(problem.x), w = *HostTensor::allocate(problem.w);
  HostTensor y = *HostTensor::allocate(problem.y);
  for (std::int64_t i = 0; i < x.desc.elements(); ++i) {
    store_from_double(DataType::f32, x.data.get(), i, kValues[i % std::ssize(kValues)]);
  }
  std::fill_n(const_cast<float*>(w.as<float>()), w.desc.elements(), 1.0F);
  const std::vector<float> slopes(static_cast<std::size_t>(problem.out_channels()), 0.5F);
  const auto plan = engine.plan(problem, {}, {});
  EXPECT_TRUE(plan.ok()) << engine.info().name;
  if (!plan.ok()) return {};
  const auto team = make_cpu_team(1);
  const auto workspace = allocate_aligned((*plan)->workspace_bytes());
  const ConvArgs args{.x = x.data.get(), .w = w.data.get(), .out = y.data.get(), .slopes = slopes.data()};
  EXPECT_TRUE((*plan)->execute(args, {*team, workspace.get(), (*plan)->workspace_bytes()}).ok());
  std::vector<float> first;  // channel of each pixel
  for (std::int64_t pixel = 0; pixel < std::ssize(kValues); ++pixel) {
    first.push_back(y.as<float>()[pixel * problem.out_channels()]);
  }
  return first;
}

bool alike(float a, float b) { return (std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) < 1e-4F; }

TEST(OneDnnActivations, ThatLoseSpecialValuesSaySo) {
  int compared = 0, lost = 0;
  for (const char* activation : {"relu", "clip,-1,1", "leaky_relu,0.1", "prelu", "elu,1", "sigmoid", "tanh", "swish,1",
                                 "hard_swish", "hard_sigmoid,0.2,0.5", "gelu", "gelu_tanh", "mish"}) {
    const ConvProblem problem =
        *parse_problem(fmt::format("fprop:x=f32,1x1x1x64,nhwc:w=f32,16x1x1x1:y=f32,1x16x1x64,nhwc:act={}", activation));
    const std::vector<float> expected = executed(reference_engine(), problem);
    for (const Engine* engine : engines()) {
      if (refuse(*engine, problem, {})) continue;
      const std::vector<float> actual = executed(*engine, problem);
      ASSERT_EQ(actual.size(), expected.size());
      const std::vector<std::string> notes = engine->notes(problem, {}, {});
      const bool noted = std::ranges::find(notes, note::loses_special_values) != notes.end();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        ++compared;
        if (alike(actual[i], expected[i])) continue;
        ++lost;
        EXPECT_TRUE(noted) << engine->info().name << ", " << activation << " of " << kValues[i] << ": " << actual[i]
                           << ", not " << expected[i];
        EXPECT_FALSE(std::isfinite(kValues[i])) << engine->info().name << ", " << activation;
      }
    }
  }
  EXPECT_GT(compared, 100);
  EXPECT_GT(lost, 0);
}

}  // namespace
}  // namespace convoy::onednn
