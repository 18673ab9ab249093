#include "interposer/fast_path.h"

#include <gtest/gtest.h>

#include <memory>

namespace convoy::interposer {
namespace {

cudnnBackendDescriptor_t plan(std::uintptr_t address) { return reinterpret_cast<cudnnBackendDescriptor_t>(address); }

TEST(SettledPlans, AreForgottenBeforeTheirAddressIsUsedAgain) {
  const auto plans = std::make_unique<SettledPlans>();
  const auto* const stand_in = reinterpret_cast<const StandIn*>(&plans);
  EXPECT_EQ(plans->find(plan(16)), nullptr);
  plans->put(plan(16), stand_in);
  plans->put(plan(32), nullptr);
  ASSERT_NE(plans->find(plan(16)), nullptr);
  EXPECT_EQ(plans->find(plan(16))->stand_in, stand_in);
  ASSERT_NE(plans->find(plan(32)), nullptr);
  EXPECT_EQ(plans->find(plan(32))->stand_in, nullptr);
  plans->forget(plan(16));
  EXPECT_EQ(plans->find(plan(16)), nullptr);
  EXPECT_NE(plans->find(plan(32)), nullptr);
  plans->put(plan(16), nullptr);
  EXPECT_EQ(plans->find(plan(16))->stand_in, nullptr) << "another plan";
}

TEST(SettledPlans, AreOneEachAndSoManyAsThereIsRoomFor) {
  const auto plans = std::make_unique<SettledPlans>();
  int found = 0;
  for (std::uintptr_t address = 16; address <= 16 * 1000; address += 16) {
    plans->put(plan(address), nullptr);
    plans->put(plan(address), nullptr);
    found += plans->find(plan(address)) != nullptr;
  }
  EXPECT_GT(found, 200);
  EXPECT_LE(found, 236);
  for (std::uintptr_t address = 16; address <= 16 * 1000; address += 16) plans->forget(plan(address));
  plans->put(plan(48), nullptr);
  EXPECT_NE(plans->find(plan(48)), nullptr) << "there is room again";
}

// As many plans as a large network has, at addresses as an allocator gives them.
TEST(SettledPlans, OfTwoHundredNearlyAllFindRoom) {
  const auto plans = std::make_unique<SettledPlans>();
  std::uint64_t random = 1;
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const auto address = 0x55d000000000 + 16 * (random >> 40);
    plans->put(plan(address), nullptr);
    found += plans->find(plan(address)) != nullptr;
  }
  EXPECT_GE(found, 188);
}

TEST(SettledPlans, TellWhichCameAfterWhichTheLastTime) {
  const auto plans = std::make_unique<SettledPlans>();
  for (const std::uintptr_t address : {16, 32, 48}) plans->put(plan(address), nullptr);
  OfThread thread;
  const auto execute = [&](std::uintptr_t address) {
    plans->fetch_expected(thread);  // whatever it expects, no access may fail
    const auto* const entry = plans->find(plan(address));
    const std::uint8_t expected = thread.expected;
    plans->follow(*entry, thread);
    return expected == thread.executed;
  };
  for (const std::uintptr_t address : {16, 32, 48}) EXPECT_FALSE(execute(address)) << "nothing is known yet";
  EXPECT_FALSE(execute(16)) << "the first time after 48";
  for (const std::uintptr_t address : {32, 48, 16, 32}) EXPECT_TRUE(execute(address));
  plans->forget(plan(48));
  EXPECT_FALSE(execute(16)) << "48 was expected";
  EXPECT_TRUE(execute(32));
  EXPECT_TRUE(execute(16)) << "learnt anew";
}

}  // namespace
}  // namespace convoy::interposer
