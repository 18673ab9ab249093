#include "select/choose/glob.h"

#include <gtest/gtest.h>

namespace convoy::selection {
namespace {

TEST(Glob, Matches) {
  EXPECT_TRUE(glob_matches("cpu.*", "cpu.winograd"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "a-b-b-c"));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
  EXPECT_FALSE(glob_matches("cpu", "cpu.winograd"));
  EXPECT_FALSE(glob_matches("", "x"));
}

TEST(Glob, ListsIncludeAndExclude) {
  EXPECT_TRUE(glob_list_matches("cpu.*,!cpu.winograd", "cpu.direct"));
  EXPECT_FALSE(glob_list_matches("cpu.*,!cpu.winograd", "cpu.winograd"));
  EXPECT_FALSE(glob_list_matches("cpu.*", "onednn.jit"));
  EXPECT_TRUE(glob_list_matches("!cpu.*", "onednn.jit"));
  EXPECT_FALSE(glob_list_matches("!cpu.*", "cpu.direct"));
  EXPECT_TRUE(glob_list_matches("!cpu.*,cpu.gemm", "cpu.gemm"));
  EXPECT_TRUE(glob_list_matches("", "anything"));
}

TEST(Glob, ManyStarsStayLinear) {
  const std::string text(5000, 'a');
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(glob_matches(pattern + "b", text));
}

}  // namespace
}  // namespace convoy::selection
