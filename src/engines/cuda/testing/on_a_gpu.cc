#include "engines/cuda/testing/on_a_gpu.h"

#include <algorithm>
#include <set>

#include "core/notes.h"
#include "device/cuda/device.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/reference/reference_kernels.h"
#include "engines/cuda/testing/described.h"

namespace convoy::cuda::testing {

using convoy::testing::ConvData;
using convoy::testing::Fill;

namespace {

constexpr int kKinds = 23;         // of a part's problems; no multiple of what else alternates
constexpr std::size_t kMost = 60;  // kernels of a part
constexpr int kMostDraws = 1000;   // for a problem that needs none of its own

}  // namespace

void OnAGpu::SetUp() {
  if (const auto count = device_count(); !count.ok()) GTEST_SKIP() << "skipped: " << count.error().message;
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const auto found = describe(0);
  ASSERT_TRUE(found.ok()) << found.error().message;
  request_.cuda = *found;
  ASSERT_TRUE(make_current(0).ok());
}

void CompilesElsewhere::SetUp() {
  only_compiles_ = environment(Variable::test_full) == "kernels" && !device_count().ok() && nvrtc().ok();
  if (only_compiles_) {
    request_.cuda = device_of(90);
  } else {
    OnAGpu::SetUp();
  }
}

std::string CompilesElsewhere::compiled(const ConvProblem& problem,
                                        const Result<std::unique_ptr<ConvPlan>>& plan) const {
  const auto references = compile_references({&problem, 1}, request_.cuda->architecture);
  if (!references.ok()) return references.error().message;
  // There is no device to load it on, which is the first thing that a plan needs after its kernels.
  return plan.ok() || plan.error().code == ErrorCode::unsupported ? "" : plan.error().message;
}

void PartOnAGpu::check_random(const ProductEngine& engine, int count,
                              const std::function<std::string(Random&, Random&, const char*)>& text_of) {
  Random sizes(static_cast<std::uint64_t>(GetParam()));
  count = (full() ? 5000 : count) / kParts;
  std::set<std::string> kernels;
  int drawn = 0, refused = 0, checked = 0;
  for (; checked < count && drawn < kMostDraws * count; ++drawn) {
    Random kind(static_cast<std::uint64_t>(kKinds * GetParam() + drawn % kKinds));
    const std::string text = text_of(kind, sizes, kind.integer(0, 2) == 0 ? "bf16" : "f16");
    const auto problem = parse_problem(text);
    if (!problem.ok()) {
      ADD_FAILURE() << text << ": " << problem.error().message;
      continue;
    }
    request_.target_sms = drawn % 7 == 0 ? 20 : 0;
    if (refuse(engine, *problem, request_)) {
      ++refused;
      continue;
    }
    const auto listed = engine.configurations(*problem, request_).listed;
    const KnobValues& knobs = sizes.pick(listed);
    const std::string kernel = engine.kernels(*problem, knobs, request_).kernels[0].request.constants;
    if (kernels.size() == kMost && !kernels.contains(kernel)) continue;
    kernels.insert(kernel);
    ++checked;
    const auto plan = engine.plan(*problem, knobs, request_);
    const std::string name = text + " " + print(Candidate{engine.info().name, knobs});
    if (only_compiles_) {
      EXPECT_EQ(compiled(*problem, plan), "") << name;
      continue;
    }
    // A NaN of a special value may be right that the oracle hasn't.
    const auto notes = engine.notes(*problem, knobs, request_);
    const bool special = drawn % 5 == 0 && std::ranges::find(notes, note::multiplies_padding) == notes.end();
    const ConvData data(*problem, static_cast<std::uint64_t>(drawn), special ? Fill::special : Fill::normal);
    const std::string failure =
        plan.ok() ? run_on_device(**plan, *problem, data, *request_.cuda, false).failure : plan.error().message;
    EXPECT_EQ(failure, "") << name;
    if (plan.ok()) {
      EXPECT_EQ((*plan)->candidate().knobs, knobs) << text;
    }
  }
  EXPECT_EQ(checked, count);
  EXPECT_LE(2 * refused, drawn);
  std::printf("%s: %d problems of %d drawn, %zu kernels\n", engine.info().name.c_str(), checked, drawn, kernels.size());
}

}  // namespace convoy::cuda::testing
