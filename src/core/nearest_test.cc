#include "core/nearest.h"

#include <gtest/gtest.h>

namespace convoy {
namespace {

using Names = std::vector<std::string>;

const Names kNames = {"cpu.direct", "cpu.gemm", "cpu.winograd", "onednn.ref", "zoo:resnet18", "zoo:resnet34"};

TEST(Nearest, FindsWhatWasMisspelt) {
  EXPECT_EQ(nearest_names("cpu.gem", kNames), Names{"cpu.gemm"});
  EXPECT_EQ(nearest_names("CPU.GEMM", kNames), Names{"cpu.gemm"});
  EXPECT_EQ(nearest_names("cpu.winogard", kNames), Names{"cpu.winograd"});  // swapped
  EXPECT_EQ(nearest_names("cpu-direct", kNames), Names{"cpu.direct"});
  EXPECT_EQ(nearest_names("winograd", kNames), Names{"cpu.winograd"});  // its last part
  EXPECT_EQ(nearest_names("resnet18", kNames).front(), "zoo:resnet18");
}

TEST(Nearest, SaysNothingOfWhatIsFarOff) {
  EXPECT_EQ(nearest_names("unicorn", kNames), Names{});
  EXPECT_EQ(nearest_names("", kNames), Names{});
  EXPECT_EQ(nearest_names("x", kNames), Names{});
  EXPECT_EQ(nearest_names(std::string(100'000, 'c'), kNames), Names{});
  EXPECT_EQ(did_you_mean("unicorn", kNames), "");
}

TEST(Nearest, NamesAtMostThree) {
  const Names many = {"ab1", "ab2", "ab3", "ab4"};
  EXPECT_EQ(nearest_names("ab0", many).size(), 3U);
  EXPECT_EQ(did_you_mean("cpu.gem", kNames), "; did you mean cpu.gemm?");
}

}  // namespace
}  // namespace convoy
