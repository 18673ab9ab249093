// What `convoy doctor` says of GPUs, with libraries that the build made for it (src/device/cuda/testing).
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/testing/command.h"

namespace convoy::cli {
namespace {

class Doctor : public Command {
 protected:
  void TearDown() override {
    for (const char* name : set_) ::unsetenv(name);
    Command::TearDown();
  }
  void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    set_.push_back(name);
  }
  static json library(const json& doctor, const std::string& name) {
    for (const json& each : doctor["cuda"]["libraries"]) {
      if (each["name"] == name) return each;
    }
    return {};
  }

 private:
  std::vector<const char*> set_;
};

TEST_F(Doctor, SaysWhyThereIsNoDevice) {
  set("CONVOY_CUDA_DRIVER", "off");
  const json doctor = run_json({"doctor"}, 0);
  EXPECT_EQ(doctor["devices"], json({"cpu"}));
  EXPECT_EQ(doctor["cuda"]["devices"], json::array());
  EXPECT_EQ(doctor["cuda"]["error"], "no CUDA device: no CUDA driver: CONVOY_CUDA_DRIVER: it is switched off");
  EXPECT_EQ(doctor["cuda"]["libraries"].size(), 5U);
  EXPECT_NE(run({"doctor"}).out.find("no CUDA device: no CUDA driver: CONVOY_CUDA_DRIVER"), std::string::npos);

  set("CONVOY_CUDA_DRIVER", FAKE_DRIVER);
  set("FAKE_DEVICES", "0");
  EXPECT_EQ(run_json({"doctor"}, 0)["cuda"]["error"],
            "no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE (words of the driver)");
}

TEST_F(Doctor, ShowsDevicesAndWhatWasNotTaken) {
  set("CONVOY_CUDA_DRIVER", FAKE_DRIVER);
  set("CONVOY_NVML", "off");
  set("CONVOY_CUDNN", FAKE_CUDNN8);
  const json doctor = run_json({"doctor"}, 0);
  EXPECT_EQ(doctor["devices"], json({"cpu", "cuda:0", "cuda:1"}));
  EXPECT_EQ(doctor["cuda"]["devices"][1]["name"], "Fake 9000");
  EXPECT_EQ(doctor["cuda"]["devices"][1]["architecture"], 90);
  EXPECT_EQ(doctor["cuda"]["error"], nullptr);
  const json driver = library(doctor, "CUDA driver");
  EXPECT_EQ(driver["file"], FAKE_DRIVER);
  EXPECT_EQ(driver["from"], "CONVOY_CUDA_DRIVER");
  EXPECT_EQ(driver["version"], "CUDA 13.0");
  const json cudnn = library(doctor, "cuDNN");
  EXPECT_EQ(cudnn["file"], nullptr);
  ASSERT_EQ(cudnn["not_taken"].size(), 1U);
  EXPECT_EQ(cudnn["not_taken"][0]["file"], FAKE_CUDNN8);
  EXPECT_EQ(cudnn["not_taken"][0]["why_not"], "it is cuDNN 8 (version 8902); Convoy needs cuDNN 9");
  const std::string text = run({"doctor"}).out;
  EXPECT_NE(text.find("cuda:0 Fake 9000, sm_90"), std::string::npos) << text;
  EXPECT_NE(text.find("it is cuDNN 8 (version 8902)"), std::string::npos) << text;
}

}  // namespace
}  // namespace convoy::cli
