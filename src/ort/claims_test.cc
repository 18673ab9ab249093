#include "ort/claims.h"

#include <gtest/gtest.h>

#include <random>

namespace convoy::ort {
namespace {

using Sets = std::vector<std::vector<int>>;

TEST(Claims, AChainOfWantedNodesIsOneSet) {
  EXPECT_EQ(claims_of(std::vector<ClaimNode>{{{}, true}, {{0}, true}, {{1}, true}}), (Sets{{0, 1, 2}}));
}

TEST(Claims, APathThroughAnotherNodeParts) {
  // 0 -> 1 (not wanted) -> 2, and 0 -> 2: as one node they would need their own output.
  EXPECT_EQ(claims_of(std::vector<ClaimNode>{{{}, true}, {{0}, false}, {{0, 1}, true}, {{2}, true}}),
            (Sets{{2, 3}, {0}}));
}

TEST(Claims, ANodeBesideThePathPartsNothing) {
  // What is behind no wanted node is computed before.
  EXPECT_EQ(claims_of(std::vector<ClaimNode>{{{}, true}, {{}, false}, {{0, 1}, true}}), (Sets{{0, 2}}));
}

TEST(Claims, NodesWithoutAPathAreSetsOfTheirOwn) {
  EXPECT_EQ(claims_of(std::vector<ClaimNode>{{{}, true}, {{}, true}, {{1}, true}}), (Sets{{1, 2}, {0}}));
}

// Whether the sets, each made one node, leave a graph without cycles.
bool can_replace(const std::vector<ClaimNode>& nodes, const Sets& sets) {
  std::vector<int> group(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) group[n] = static_cast<int>(n + sets.size());
  for (std::size_t s = 0; s < sets.size(); ++s) {
    for (const int n : sets[s]) group[n] = static_cast<int>(s);
  }
  const std::size_t count = nodes.size() + sets.size();
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count));
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const int from : nodes[n].producers) {
      if (group[from] != group[n]) reaches[group[from]][group[n]] = true;
    }
  }
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < count; ++j) reaches[i][j] = reaches[i][j] || (reaches[i][k] && reaches[k][j]);
    }
  }
  for (std::size_t k = 0; k < count; ++k) {
    if (reaches[k][k]) return false;
  }
  return true;
}

TEST(Claims, RandomGraphsStayWithoutCyclesAndLeaveNoWantedNode) {
  std::mt19937 random(7);
  for (int graph = 0; graph < 300; ++graph) {
    std::vector<ClaimNode> nodes(2 + random() % 14);
    std::size_t wanted = 0;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].wanted = random() % 3 != 0;
      wanted += nodes[n].wanted;
      for (std::size_t from = 0; from < n; ++from) {
        if (random() % 4 == 0) nodes[n].producers.push_back(static_cast<int>(from));
      }
    }
    const Sets sets = claims_of(nodes);
    ASSERT_TRUE(can_replace(nodes, sets)) << "graph " << graph;
    std::size_t claimed = 0;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      claimed += sets[s].size();
      for (const int n : sets[s]) ASSERT_TRUE(nodes[n].wanted);
      if (s > 0) {
        ASSERT_LE(sets[s].size(), sets[s - 1].size());
      }
    }
    ASSERT_EQ(claimed, wanted);
  }
}

}  // namespace
}  // namespace convoy::ort
