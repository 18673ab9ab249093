#include "interposer/choices.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

namespace convoy::interposer {
namespace {

using Order = std::vector<int>;

Contender of(std::optional<double> seconds, std::vector<std::string> notes = {}) { return {std::move(notes), seconds}; }

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
    std::vector<Contender> offered(1 + random() % 8);
    for (Contender& each : offered) {
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

TEST(Choices, AreFoundByDeviceVersionAndProblem) {
  const auto choices = Choices::parse(
      "convoy-choices 1\ntime\tNVIDIA H200\t9.19.0\tfprop:a\tcudnn.eng5\t2e-05\ntime\tNVIDIA H200\t9.19.0\tfprop:a\t"
      "cudnn.eng7{k2=1}\t1e-05\n");
  ASSERT_TRUE(choices.ok()) << choices.error().message;
  const auto* known = choices->find("NVIDIA H200", "9.19.0", "fprop:a");
  ASSERT_NE(known, nullptr);
  ASSERT_EQ(known->size(), 2u);
  EXPECT_EQ(print((*known)[1].candidate), "cudnn.eng7{k2=1}");
  EXPECT_EQ((*known)[1].seconds, 1e-5);
  EXPECT_EQ(choices->find("NVIDIA H100", "9.19.0", "fprop:a"), nullptr);
  EXPECT_EQ(choices->find("NVIDIA H200", "9.20.0", "fprop:a"), nullptr);
}

TEST(Choices, DamagedFilesNameTheLine) {
  const auto says = [](std::string_view text) {
    const auto choices = Choices::parse(text);
    return choices.ok() ? std::string("fine") : choices.error().message;
  };
  EXPECT_EQ(says("convoy-choices 1\n"), "fine");
  EXPECT_NE(says("").find("line 1"), std::string::npos);
  EXPECT_NE(says("convoy-choices 2\n").find("line 1"), std::string::npos);
  EXPECT_NE(says("convoy-choices 1\nrule\ta\n").find("line 2"), std::string::npos);
  EXPECT_NE(says("convoy-choices 1\ntime\ta\tb\tc\tcudnn.eng5\t0\n").find("no time"), std::string::npos);
  EXPECT_NE(says("convoy-choices 1\ntime\ta\tb\tc\tcudnn.eng5\t1e-5x\n").find("no time"), std::string::npos);
  EXPECT_NE(says("convoy-choices 1\ntime\ta\tb\tc\t{\t1\n").find("line 2"), std::string::npos);
}

}  // namespace
}  // namespace convoy::interposer
