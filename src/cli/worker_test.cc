#include "cli/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <vector>

namespace convoy::cli {
namespace {

TEST(Worker, ACrashAHangAndAnExitAreTheirOwnJobsResults) {
  std::vector<JobOutcome> outcomes;
  run_jobs(
      7, 2,
      [](int i) -> std::string {
        if (i == 1) std::raise(SIGKILL);
        if (i == 3) ::pause();
        if (i == 4) ::_exit(9);
        return "job " + std::to_string(i) + std::string(i == 5 ? 200000 : 0, 'x');
      },
      [&](int i, const JobOutcome& outcome) {
        EXPECT_EQ(static_cast<std::size_t>(i), outcomes.size());
        outcomes.push_back(outcome);
      });
  ASSERT_EQ(outcomes.size(), 7U);
  for (const int good : {0, 2, 5, 6}) {
    EXPECT_TRUE(outcomes[good].finished) << good;
    EXPECT_TRUE(outcomes[good].result.starts_with("job " + std::to_string(good)));
  }
  EXPECT_EQ(outcomes[5].result.size(), 200005U);
  EXPECT_NE(outcomes[1].failure.find("crashed"), std::string::npos) << outcomes[1].failure;
  EXPECT_EQ(outcomes[3].failure, "took longer than 2 s");
  EXPECT_NE(outcomes[4].failure.find("exit code 9"), std::string::npos) << outcomes[4].failure;
}

#ifdef __SANITIZE_ADDRESS__
// What the sanitizers report is a failure of the job that did it, and of no other.
TEST(Worker, ASanitizersReportIsAFailure) {
  std::vector<JobOutcome> outcomes;
  run_jobs(
      5, 60,
      [](int i) {
        volatile int four = 4;
        std::vector<int> numbers(four);
        if (i == 1) return std::to_string(numbers.data()[four]);
        char* volatile lost = nullptr;
        for (int n = 0; i == 2 && n < 100; ++n) lost = new char[four];  // of the last one a copy may still be about
        if (i == 3) return std::to_string(INT_MAX - 3 + four);
        return std::string("fine");
      },
      [&](int, const JobOutcome& outcome) { outcomes.push_back(outcome); });
  ASSERT_EQ(outcomes.size(), 5U);
  EXPECT_TRUE(outcomes[0].finished);
  EXPECT_FALSE(outcomes[1].finished) << "a read past the end";
  EXPECT_EQ(outcomes[2].failure, "the process ended with exit code 23") << "a leak";
  EXPECT_FALSE(outcomes[3].finished) << "an overflow";
  EXPECT_TRUE(outcomes[4].finished);
}
#endif

TEST(Worker, NoJobs) {
  run_jobs(
      0, 1, [](int) { return std::string(); }, [](int, const JobOutcome&) { FAIL(); });
}

}  // namespace
}  // namespace convoy::cli
