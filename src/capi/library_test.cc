// What the C interface says and sets of the library as a whole.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convoy.h"
#include "convoy/tuning_database.h"

namespace {

TEST(CLibrary, StatusesHaveNames) {
  EXPECT_STREQ(convoy_status_name(CONVOY_OK), "CONVOY_OK");
  EXPECT_STREQ(convoy_status_name(CONVOY_DEVICE_FAILED), "CONVOY_DEVICE_FAILED");
  EXPECT_STREQ(convoy_status_name(static_cast<convoy_status>(99)), "unknown");
}

TEST(CLibrary, TheLogGoesToACallback) {
  struct Events {
    std::vector<std::string> all;
    int loud = 0;
  } events;
  const auto keep = [](void* user, convoy_log_level level, const char* message) {
    auto& to = *static_cast<Events*>(user);
    to.all.emplace_back(message);
    to.loud += level > CONVOY_LOG_INFO;
    // What is logged in here is dropped, and the log can't be set.
    EXPECT_EQ(convoy_set_log(CONVOY_LOG_OFF, nullptr, nullptr), CONVOY_INVALID_ARGUMENT);
  };
  ASSERT_EQ(convoy_set_log(CONVOY_LOG_INFO, keep, &events), CONVOY_OK) << convoy_error();
  convoy_problem* problem = nullptr;
  ASSERT_EQ(convoy_problem_create("fprop:x=f32,1x8x6x6,nhwc:w=f32,8x8x3x3", &problem), CONVOY_OK);
  convoy_choice* choice = nullptr;
  ASSERT_EQ(convoy_select(problem, nullptr, &choice), CONVOY_OK) << convoy_error();
  const std::size_t told = events.all.size();
  ASSERT_GT(told, 0u);
  EXPECT_TRUE(events.all[0].starts_with("event=")) << events.all[0];
  EXPECT_EQ(events.loud, 0);
  convoy_choice_destroy(choice);
  ASSERT_EQ(convoy_set_log(CONVOY_LOG_OFF, nullptr, nullptr), CONVOY_OK);
  ASSERT_EQ(convoy_select(problem, nullptr, &choice), CONVOY_OK);
  EXPECT_EQ(events.all.size(), told);
  convoy_choice_destroy(choice);
  convoy_problem_destroy(problem);
  EXPECT_EQ(convoy_set_log(static_cast<convoy_log_level>(9), keep, &events), CONVOY_INVALID_ARGUMENT);
  EXPECT_STREQ(convoy_error(), "level=9 is not a convoy_log_level");
}

TEST(CLibrary, TheDefaultDatabaseIsTheCommands) {
  const char* path = convoy_default_database();
  const auto expected = convoy::TuningDatabase::default_path();
  ASSERT_EQ(path != nullptr, expected.ok());
  if (path != nullptr) {
    EXPECT_EQ(path, *expected);
  }
}

}  // namespace
