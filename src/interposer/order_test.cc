#include "interposer/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace convoy::interposer {
namespace {

using Order = std::vector<int>;

RankedConfiguration of(std::optional<double> seconds, std::vector<std::string> notes = {}) {
  return {std::move(notes), seconds};
}

TEST(Order, FasterOnesGoFirst) {
  EXPECT_EQ(order_by_time({of(3.0), of(1.0), of(2.0)}), (Order{1, 2, 0}));
  EXPECT_EQ(order_by_time({of(3.0), of(2.0), of({}), of(1.0)}), (Order{1, 0, 2, 3})) << "who knows about the third?";
  EXPECT_EQ(order_by_time({of({}), of(2.0), of(1.0)}), (Order{0, 2, 1}));
  EXPECT_EQ(order_by_time({of(std::numeric_limits<double>::infinity()), of(2.0)}), (Order{1, 0}));
  EXPECT_EQ(order_by_time({}), Order());
}

TEST(Order, NothingGoesBeforeWhatIsMorePrecise) {
  EXPECT_EQ(order_by_time({of(3.0), of(1.0, {"NONDETERMINISTIC"})}), (Order{0, 1}));
  EXPECT_EQ(order_by_time({of(3.0, {"NONDETERMINISTIC"}), of(1.0, {"NONDETERMINISTIC"})}), (Order{1, 0}));
  EXPECT_EQ(order_by_time({of(3.0, {"NONDETERMINISTIC"}), of(1.0)}), (Order{1, 0}));
  EXPECT_EQ(order_by_time({of(3.0, {"RUNTIME_COMPILATION"}), of(1.0, {"STRICT_NAN_PROP"})}), (Order{1, 0}))
      << "these lose nothing";
}

// Whatever a caller filters by: what it takes has no loss that what it would have taken has not, and is not slower.
TEST(Order, HoldsForEveryFilter) {
  const std::vector<std::string> losses = {"NONDETERMINISTIC", "TENSOR_CORE", "REDUCED_PRECISION_REDUCTION"};
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<RankedConfiguration> offered(1 + random() % 8);
    for (RankedConfiguration& each : offered) {
      if (random() % 4 != 0) each.seconds = 1.0 + random() % 5;
      for (const std::string& loss : losses) {
        if (random() % 3 == 0) each.notes.push_back(loss);
      }
    }
    const Order order = order_by_time(offered);
    ASSERT_EQ(std::set<int>(order.begin(), order.end()).size(), offered.size()) << "each once";
    for (unsigned filter = 0; filter < 8; ++filter) {
      const auto passes = [&](int i) {
        for (std::size_t loss = 0; loss < losses.size(); ++loss) {
          const auto& notes = offered[i].notes;
          if ((filter >> loss & 1) != 0 && std::find(notes.begin(), notes.end(), losses[loss]) != notes.end())
            return false;
        }
        return true;
      };
      int before = 0;
      while (before < static_cast<int>(offered.size()) && !passes(before)) ++before;
      const auto after = std::find_if(order.begin(), order.end(), passes);
      ASSERT_EQ(before == static_cast<int>(offered.size()), after == order.end());
      if (after == order.end()) continue;
      for (const std::string& note : offered[*after].notes) {
        const auto& own = offered[before].notes;
        EXPECT_NE(std::find(own.begin(), own.end(), note), own.end()) << note;
      }
      if (*after == before) continue;
      ASSERT_TRUE(offered[*after].seconds && offered[before].seconds);
      EXPECT_LT(*offered[*after].seconds, *offered[before].seconds);
    }
  }
}

TEST(Order, WhatWasNotOfferedGoesBeforeItsLike) {
  using Position = std::optional<std::size_t>;
  const std::vector<std::string> random = {"NONDETERMINISTIC"};
  EXPECT_EQ(place_in({of(2.0), of(3.0)}, of(1.0)), Position(0));
  EXPECT_EQ(place_in({of(1.0), of(3.0)}, of(2.0)), Position(1));
  EXPECT_EQ(place_in({of(2.0), of(3.0, random)}, of(1.0, random)), Position(1)) << "the first is more deterministic";
  EXPECT_EQ(place_in({of(2.0, random), of(3.0)}, of(1.0)), Position(0)) << "who filters random ones takes the second";
  EXPECT_EQ(place_in({of(2.0, random), of({})}, of(1.0)), Position()) << "whose time nobody knows";
  EXPECT_EQ(place_in({of({}), of(3.0)}, of(1.0)), Position(1));
  EXPECT_EQ(place_in({of(2.0), of(std::numeric_limits<double>::infinity())}, of(1.0)), Position(0));
  EXPECT_EQ(place_in({of(std::numeric_limits<double>::infinity())}, of(1.0)), Position()) << "others may follow";
  EXPECT_EQ(place_in({of(1.0)}, of(2.0)), Position()) << "it is no better";
}

// What HoldsForEveryFilter says of cuDNN's own holds with others put in between.
TEST(Order, AddedOnesKeepItsPromise) {
  const std::vector<std::string> losses = {"NONDETERMINISTIC", "TENSOR_CORE", "REDUCED_PRECISION_REDUCTION"};
  std::mt19937 random(11);
  int moved = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto any = [&] {
      RankedConfiguration made;
      for (const std::string& loss : losses) {
        if (random() % 3 == 0) made.notes.push_back(loss);
      }
      return made;
    };
    std::vector<RankedConfiguration> offered(1 + random() % 6);
    for (RankedConfiguration& each : offered) {
      each = any();
      if (random() % 4 != 0) each.seconds = 2.0 + random() % 5;
    }
    RankedConfiguration more = any();
    more.seconds = 1.0 + random() % 4;
    std::vector<RankedConfiguration> all;
    for (const int i : order_by_time(offered)) all.push_back(offered[i]);
    const auto place = place_in(all, more);
    if (!place) continue;
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(*place), more);
    for (const unsigned filter : {0u, 1u, 2u, 3u, 16u, 17u, 18u, 19u}) {
      const auto passes = [&](const RankedConfiguration& configuration) {
        return (losses_of(configuration.notes) & filter) == 0;
      };
      const auto before = std::find_if(offered.begin(), offered.end(), passes);
      const auto after = std::find_if(all.begin(), all.end(), passes);
      ASSERT_TRUE(before != offered.end() || after == all.end()) << "it is as if it were not there";
      if (after == all.end()) continue;
      const RankedConfiguration& taken = *after;
      EXPECT_EQ(losses_of(taken.notes) & ~losses_of(before->notes), 0u);
      if (taken.notes == before->notes && taken.seconds == before->seconds) continue;
      ASSERT_TRUE(taken.seconds && before->seconds);
      EXPECT_LT(*taken.seconds, *before->seconds);
      moved += after - all.begin() == static_cast<std::ptrdiff_t>(*place);
    }
  }
  EXPECT_GT(moved, 500) << "otherwise this tests little";
}

TEST(Order, TheFewThatAreWorthTiming) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::string> random = {"NONDETERMINISTIC"}, cores = {"TENSOR_CORE"};
  EXPECT_EQ(worth_timing({of(1.0), of(1.2), of(1.3)}, of(1.2), 2), (Order{0, 1}));
  EXPECT_EQ(worth_timing({of(1.0), of(2.0), of(3.0)}, of(1.0), 2), (Order{0, 1})) << "two at least";
  EXPECT_EQ(worth_timing({of(1.0, random), of(4.0), of(4.1), of(9.0)}, of(9.0), 2), (Order{0, 1, 2})) << "a filter may";
  EXPECT_EQ(worth_timing({of(1.0), of(1.1, random), of(4.0, random)}, of(1.0), 2), (Order{0, 1}));
  EXPECT_EQ(worth_timing({of(1.0), of(inf), of(5.0)}, of(1.0), 2), (Order{0, 2})) << "what failed comes last";
  EXPECT_EQ(worth_timing({of(1.0, random), of(1.1, random), of(inf, cores)}, of(inf, cores), 2), (Order{0, 1, 2}))
      << "one as precise as cuDNN's first";
  EXPECT_EQ(worth_timing({of(inf)}, of(inf), 2), (Order{0}));
  EXPECT_EQ(worth_timing({of(1.0), of(3.0)}, of(1.0), 1), (Order{0}));
}

}  // namespace
}  // namespace convoy::interposer
