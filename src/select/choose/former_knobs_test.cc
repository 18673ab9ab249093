#include "select/choose/former_knobs.h"

#include <gtest/gtest.h>

#include <string>

namespace convoy::selection {
namespace {

constexpr const char* kChannelsLast = "fprop:x=f32,1x8x9x9,nhwc:w=f32,16x8x3x3:pad=1x1";
constexpr const char* kPlanar = "fprop:x=f32,1x8x9x9,nchw:w=f32,16x8x3x3:pad=1x1";

// What it is called now; "" where that is no different, or can't be told.
std::string now(std::string_view text, const char* problem = nullptr) {
  const auto candidate = parse_candidate(text);
  EXPECT_TRUE(candidate.ok()) << text;
  std::optional<ConvProblem> parsed;
  if (problem != nullptr) parsed = *parse_problem(problem);
  const auto named = with_named_knobs(*candidate, parsed ? &*parsed : nullptr);
  if (named) {
    EXPECT_TRUE(has_former_knobs(*candidate)) << text;
    EXPECT_FALSE(has_former_knobs(*named)) << "once is enough";
    EXPECT_EQ(*parse_candidate(print(*named)), *named);
  }
  return named ? print(*named) : "";
}

TEST(FormerKnobs, TilesOfCpuEngines) {
  EXPECT_EQ(now("cpu.direct{tile=142}"), "cpu.direct{channel_vectors=2,positions=14}");
  EXPECT_EQ(now("cpu.gemm{tile=142}", kChannelsLast), "cpu.gemm{channel_vectors=2,positions=14}");
  EXPECT_EQ(now("cpu.gemm{tile=83}", kPlanar), "cpu.gemm{channels=8,position_vectors=3}");
  EXPECT_EQ(now("cpu.gemm{tile=142}"), "") << "the layouts decide";
  EXPECT_TRUE(has_former_knobs(*parse_candidate("cpu.gemm{tile=142}")));
}

TEST(FormerKnobs, DepthwiseKernelsHaveWords) {
  EXPECT_EQ(now("cuda.depthwise{tile=0}"), "cuda.depthwise{kernel=general}");
  EXPECT_EQ(now("cuda.depthwise{tile=100080202}"), "cuda.depthwise{channels=2,columns=2,kernel=patch,rows=8}");
  EXPECT_EQ(now("cuda.depthwise{tile=200560701}"), "cuda.depthwise{columns=7,kernel=rolling,rows=56}");
  EXPECT_EQ(now("cuda.depthwise{tile=300140101}"), "cuda.depthwise{columns=1,kernel=planes,rows=14}");
  EXPECT_EQ(now("cuda.depthwise{tile=400080808}"), "cuda.depthwise{channels=8,columns=8,kernel=mma,rows=8}");
  EXPECT_EQ(now("cuda.depthwise{tile=500140204}"), "cuda.depthwise{channels=2,images=4,kernel=plane_bands,rows=14}");
  EXPECT_EQ(now("cuda.depthwise{tile=600562232}"),
            "cuda.depthwise{channels=32,kernel=pixel_bands,rows=56,unroll=2,warp_channels=2}");
  EXPECT_EQ(now("cuda.depthwise{tile=700046408}"), "cuda.depthwise{channels=8,kernel=signal,positions=64,tiles=4}");
  EXPECT_EQ(now("cuda.depthwise{tile=800010101}"), "") << "no such kernel";
}

TEST(FormerKnobs, LayoutsHaveWords) {
  EXPECT_EQ(now("onednn.jit_avx512{layout=0}"), "onednn.jit_avx512{layout=given}");
  EXPECT_EQ(now("onednn.brgconv_avx512{layout=1}"), "onednn.brgconv_avx512{layout=preferred}");
  EXPECT_EQ(now("onednn.brgconv_avx512{layout=2}"), "");
}

TEST(FormerKnobs, WhoKeepsTheFileIsToldOnce) {
  std::vector<std::string> remarks;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(print(named_today({"cpu.direct", {{"tile", 142}}}, nullptr, "line 3", remarks)),
              "cpu.direct{channel_vectors=2,positions=14}");
  }
  EXPECT_EQ(print(named_today({"cpu.winograd", {{"m", 4}}}, nullptr, "line 4", remarks)), "cpu.winograd{m=4}");
  EXPECT_EQ(remarks, (std::vector<std::string>{
                         "line 3: cpu.direct{tile=142} is written cpu.direct{channel_vectors=2,positions=14} now"}));
}

TEST(FormerKnobs, TheRestIsAsItWas) {
  for (const char* text :
       {"cpu.direct", "cpu.winograd{m=4}", "cudnn.eng10{k2=-1,k3=4}", "cpu.direct{channel_vectors=2,positions=14}",
        "cuda.depthwise{kernel=general}", "onednn.jit_avx512{layout=given}", "other.engine{tile=4}"}) {
    EXPECT_EQ(now(text, kChannelsLast), "") << text;
    EXPECT_FALSE(has_former_knobs(*parse_candidate(text))) << text;
  }
}

}  // namespace
}  // namespace convoy::selection
