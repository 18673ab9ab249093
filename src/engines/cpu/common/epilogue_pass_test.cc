// The pass against the oracle: a convolution whose filter is 1 and whose weights are the identity is the pass.
#include "engines/cpu/common/epilogue_pass.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "core/epilogue.h"

namespace convoy::cpu {
namespace {

std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-3, 3);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

TEST(EpiloguePass, DoesTheEpiloguesArithmeticInEveryLayoutAndDirection) {
  const char* epilogues[] = {"bias=1",           "gamma=0.5",
                             "act=relu",         "alpha=2:bias=1:gamma=-1:act=clip,-1,2",
                             "bias=1:act=prelu", "bias=1:gamma=1:act=gelu"};
  const auto team = make_cpu_team(3);
  for (const std::string problem_text : {"fprop:x=f32,2x4x5x7,LAYOUT:w=f32,21x4x1x1:",
                                         "dgrad:x=f32,2x21x5x7,LAYOUT:w=f32,4x21x1x1:y=f32,2x4x5x7,LAYOUT:",
                                         "fprop:x=f32,2x4x35,LAYOUT1:w=f32,17x4x1:"}) {
    for (const std::string layout : {"nchw", "nhwc", "nchw8c", "nchw16c"}) {
      for (const char* epilogue : epilogues) {
        std::string text = problem_text + epilogue;
        const bool flat = text.find("LAYOUT1") != std::string::npos;
        if (flat && layout != "nchw" && layout != "nhwc") continue;
        const std::string name = !flat ? layout : layout == "nchw" ? "ncw" : "nwc";
        for (std::size_t at; (at = text.find("LAYOUT")) != std::string::npos;) text.replace(at, flat ? 7 : 6, name);
        const auto problem = parse_problem(text);
        ASSERT_TRUE(problem.ok()) << text << ": " << problem.error().message;
        const TensorDesc& desc = problem->out();
        const std::int64_t count = desc.storage_elements(), channels = desc.dims[1];
        const auto bias = random_floats(channels, 1), slopes = random_floats(channels, 2), z = random_floats(count, 3);
        const auto before = random_floats(count, 4);
        for (const Isa isa : {Isa::avx2, Isa::avx512}) {
          if (isa > cpu_features().isa) continue;
          auto out = before;
          ConvArgs args;
          args.out = out.data();
          args.bias = bias.data();
          args.z = z.data();
          args.slopes = slopes.data();
          ASSERT_FALSE(refuse_epilogue_pass(*problem, capped(cpu_features(), isa))) << text;
          run_epilogue_pass(*problem, args, isa, *team);
          Dims coords(desc.dims.size(), 0);
          std::vector<bool> meant(count, false);
          for (std::int64_t i = 0; i < desc.elements(); ++i) {
            std::int64_t rest = i;
            for (std::size_t d = desc.dims.size(); d-- > 0; rest /= desc.dims[d]) coords[d] = rest % desc.dims[d];
            const std::int64_t at = desc.offset(coords.data()), c = coords[1];
            meant[at] = true;
            const EpilogueValues values{.bias = bias[c], .z = z[at], .slope = slopes[c]};
            ASSERT_NEAR(out[at], epilogue_before_rounding(*problem, before[at], values), 2e-6 * 20) << text;
          }
          for (std::int64_t at = 0; at < count; ++at) {
            if (meant[at]) continue;
            ASSERT_EQ(out[at], before[at]) << text << ": padding was written";
          }
        }
      }
    }
  }
}

TEST(EpiloguePass, SaysWhatItIsNotFor) {
  const struct {
    const char* problem;
    const char* says;
  } cases[] = {
      {"wgrad:x=f32,1x4x8x8:w=f32,4x4x1x1:y=f32,1x4x8x8", "pass=wgrad"},
      {"fprop:x=bf16,1x4x8x8:w=bf16,4x4x1x1", "types out=bf16"},
      {"fprop:x=f32,1x4x8x8:w=f32,4x4x1x1:y=f32,1x4x8x8,strides=512x128x16x2", "strides=512x128x16x2"},
      {"fprop:x=f32,1x4x8x8:w=f32,4x4x1x1:beta=0.5", "beta=0.5"},
  };
  CpuFeatures cpu;
  cpu.isa = Isa::avx2;
  for (const auto& test : cases) {
    const auto problem = parse_problem(test.problem);
    ASSERT_TRUE(problem.ok()) << problem.error().message;
    const auto refusal = refuse_epilogue_pass(*problem, cpu);
    ASSERT_TRUE(refusal.has_value()) << test.problem;
    EXPECT_NE(refusal->reason.find(test.says), std::string::npos) << refusal->reason;
  }
  const auto refusal = refuse_epilogue_pass(*parse_problem("fprop:x=f32,1x4x8x8:w=f32,4x4x1x1"), CpuFeatures{});
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, "instruction set=portable: the passes need avx2");
}

}  // namespace
}  // namespace convoy::cpu
