#include "engines/cuda/testing/on_a_gpu.h"

#include <algorithm>

#include "core/notes.h"

namespace convoy::cuda::testing {

using convoy::testing::ConvData;
using convoy::testing::Fill;

void PartOnAGpu::check_random(const Engine& engine, int count,
                              const std::function<std::string(convoy::testing::Random&, const char*)>& text_of) {
  convoy::testing::Random random(static_cast<std::uint64_t>(GetParam()));
  count = (full() ? 5000 : count) / kParts;
  int checked = 0;
  for (int i = 0; i < count; ++i) {
    const std::string text = text_of(random, i % 3 == 0 ? "bf16" : "f16");
    const auto problem = parse_problem(text);
    if (!problem.ok()) {
      ADD_FAILURE() << text << ": " << problem.error().message;
      continue;
    }
    if (refuse(engine, *problem, request_)) continue;
    const auto listed = engine.configurations(*problem, request_).listed;
    const KnobValues& knobs = listed[static_cast<std::size_t>(i) % listed.size()];
    // A NaN of a special value may be right that the oracle hasn't.
    const auto notes = engine.notes(*problem, knobs, request_);
    const bool special = i % 5 == 0 && std::ranges::find(notes, note::multiplies_padding) == notes.end();
    const ConvData data(*problem, static_cast<std::uint64_t>(i), special ? Fill::special : Fill::normal);
    request_.target_sms = i % 7 == 0 ? 20 : 0;
    const auto plan = engine.plan(*problem, knobs, request_);
    const std::string failure =
        plan.ok() ? run_on_device(**plan, *problem, data, *request_.cuda, false).failure : plan.error().message;
    EXPECT_EQ(failure, "") << text << " " << print(Candidate{engine.info().name, knobs});
    if (plan.ok()) {
      EXPECT_EQ((*plan)->candidate().knobs, knobs) << text;
    }
    ++checked;
  }
  EXPECT_GE(2 * checked, count);
}

}  // namespace convoy::cuda::testing
