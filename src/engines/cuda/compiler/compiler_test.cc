#include "engines/cuda/compiler/compiler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/log.h"
#include "device/cuda/code_cache.h"
#include "device/cuda/nvrtc.h"
#include "engines/cuda/compiler/constants.h"
#include "engines/cuda/compiler/kernel_sources.h"

namespace convoy::cuda {
namespace {

namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  CacheTest() : folder_(fs::temp_directory_path() / ("convoy_code_cache_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~CacheTest() override { fs::remove_all(folder_); }
  fs::path only_file() const { return fs::directory_iterator(folder_)->path(); }
  fs::path folder_;
};

constexpr CodeKey kKey{1, 2};

TEST_F(CacheTest, GivesBackWhatWasKept) {
  const CodeCache cache(folder_);
  EXPECT_FALSE(cache.find(kKey).has_value());
  const KernelImage image{'a', 'b', '\0', 'c'};
  cache.keep(kKey, image);
  EXPECT_EQ(cache.find(kKey), image);
  EXPECT_FALSE(cache.find({1, 3}).has_value());
  EXPECT_EQ(CodeCache(folder_).find(kKey), image);
}

TEST_F(CacheTest, TakesDamagedFilesForAbsent) {
  const CodeCache cache(folder_);
  const KernelImage image(1000, 'x');
  cache.keep(kKey, image);
  const fs::path file = only_file();
  std::string whole;
  {
    std::ifstream in(file, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto rewritten = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    return cache.find(kKey).has_value();
  };
  EXPECT_TRUE(rewritten(whole));
  for (const std::size_t length : {0, 4, 8, 15, 23, 24, 500, 1023}) EXPECT_FALSE(rewritten(whole.substr(0, length)));
  EXPECT_FALSE(rewritten(whole + "y"));
  for (const std::size_t at : {0, 9, 17, 24, 600}) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x40);
    EXPECT_FALSE(rewritten(flipped)) << at;
  }
}

TEST_F(CacheTest, StaysUnderItsBoundAndDropsTheOldestUse) {
  const CodeCache cache(folder_, 10'000);
  const KernelImage image(3000, 'x');
  for (std::uint64_t i = 0; i < 3; ++i) {
    cache.keep({0, i}, image);
    const fs::path file = folder_ / ("0000000000000000000000000000000" + std::to_string(i) + ".kernel");
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  EXPECT_TRUE(cache.find({0, 0}).has_value());  // used: now the youngest
  cache.keep({0, 3}, image);
  EXPECT_TRUE(cache.find({0, 0}).has_value());
  EXPECT_FALSE(cache.find({0, 1}).has_value());
  EXPECT_TRUE(cache.find({0, 3}).has_value());
}

TEST_F(CacheTest, NoFolderIsAnEmptyCache) {
  const CodeCache none{fs::path()};
  none.keep(kKey, {'x'});
  EXPECT_FALSE(none.find(kKey).has_value());
  const CodeCache impossible("/proc/no/such/folder");
  impossible.keep(kKey, {'x'});
  EXPECT_FALSE(impossible.find(kKey).has_value());
}

TEST(CodeKeyTest, DependsOnEverything) {
  const auto key_of = [](const KernelRequest& request, std::string_view options) {
    const auto source = program_source(request);
    EXPECT_TRUE(source.ok());
    return code_key(*source, options);
  };
  const KernelRequest request{"reduce.cu", "constexpr int A = 1;\n", 90};
  const CodeKey key = key_of(request, "o");
  EXPECT_EQ(key_of(request, "o"), key);
  EXPECT_NE(key_of(request, "p"), key);
  EXPECT_NE(key_of({"reduce.cu", "constexpr int A = 2;\n", 90}, "o"), key);
  EXPECT_NE(key_of({"reference.cu", "constexpr int A = 1;\n", 90}, "o"), key);
  EXPECT_NE(code_key({"reduce.cu", "int a;", {}}, "o"), code_key({"reduce.cu", "int b;", {}}, "o"));
}

TEST(ConstantsTest, WritesLiteralsThatLoseNothing) {
  Constants constants;
  constants.set("A", 3).set("B", std::int64_t{1} << 40).set("C", true).set("D", 0.1);
  EXPECT_NE(constants.text().find("constexpr int A = 3;"), std::string::npos);
  EXPECT_NE(constants.text().find("constexpr long long B = 1099511627776ll;"), std::string::npos);
  EXPECT_NE(constants.text().find("constexpr bool C = true;"), std::string::npos);
  EXPECT_NE(constants.text().find("0x1.999999999999ap-4"), std::string::npos);
}

TEST(KernelSourcesTest, AreEmbedded) {
  EXPECT_GE(kernel_sources().size(), 8U);
  for (const KernelSource& source : kernel_sources()) EXPECT_GT(std::string_view(source.text).size(), 100U);
}

TEST(CompilerTest, AnErrorHasTheCompilersWords) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  const auto missing = compile({"nothing.cu", "", 90});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("nothing.cu"), std::string::npos);
  const auto broken = compile({"reduce.cu", "#pragma once\nusing ELEMENT = nonsense;\n", 90});
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("nonsense"), std::string::npos) << broken.error().message;
}

TEST_F(CacheTest, ThreadsThatWantTheSameKernelCompileItOnce) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  setenv("CONVOY_KERNEL_CACHE", folder_.c_str(), 1);  // before anything asks for this process's
  std::atomic<int> compiled = 0;
  ASSERT_TRUE(set_log(LogLevel::info, [&](LogLevel, std::string_view text) {
                compiled += text.find("event=compile") != std::string_view::npos ? 1 : 0;
              }).ok());
  const ProgramSource source{"once.cu", "extern \"C\" __global__ void once(int* to) { *to = 1; }\n", {}, 90};
  std::vector<KernelImage> images(4);
  {
    std::vector<std::jthread> threads;
    for (KernelImage& image : images) threads.emplace_back([&] { image = *program_image(source); });
  }
  for (const KernelImage& image : images) EXPECT_EQ(image, images[0]);
  EXPECT_FALSE(images[0].empty());
  EXPECT_EQ(compiled, 1);
  const ProgramSource wrong{"wrong.cu", "nonsense\n", {}, 90};
  EXPECT_FALSE(program_image(wrong).ok());
  EXPECT_FALSE(program_image(wrong).ok());
  EXPECT_EQ(compiled, 3);  // a failure is not kept

  ASSERT_TRUE(set_log(LogLevel::off, {}).ok());
}

// A kernel behind so many lines, which take some 0.1 ms each to parse.
std::string long_text(const std::string& name, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += fmt::format("template <class T> __device__ T f{0}(T a) {{ return a * {0} + 1; }}\n", i) +
            fmt::format("inline __device__ int g{0}(int a) {{ return f{0}<int>(a) + f{0}<short>(a); }}\n", i);
  }
  return text + fmt::format("extern \"C\" __global__ void {}(int* to) {{ *to = 1; }}\n", name);
}

TEST_F(CacheTest, WhatIsCompiledForLaterLetsOthersPass) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  if ((*nvrtc())->SetFlowCallback == nullptr) GTEST_SKIP() << "skipped: this NVRTC doesn't say how far it is";
  setenv("CONVOY_KERNEL_CACHE", folder_.c_str(), 1);
  std::vector<std::string> texts;
  std::vector<ProgramSource> later;
  for (const char* name : {"a", "b", "c"}) texts.push_back(long_text(name, 1500));
  for (const std::string& text : texts) later.push_back({"later.cu", text, {}, 90});
  std::stop_source stop;
  {
    std::vector<std::jthread> threads;
    for (const ProgramSource& each : later) {
      threads.emplace_back([&] { compile_for_later(each, stop.get_token()); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const ProgramSource quick{"quick.cu", "extern \"C\" __global__ void quick(int* to) { *to = 2; }\n", {}, 90};
    EXPECT_TRUE(program_image(quick).ok());
    // It waited for the one that was being parsed, at most.
    EXPECT_LE(std::ranges::count_if(later, is_kept), 1);
    stop.request_stop();
  }
  EXPECT_LE(std::ranges::count_if(later, is_kept), 2);  // the last one was not begun, or was given up
  for (const ProgramSource& each : later) {
    EXPECT_TRUE(program_image(each).ok());
    EXPECT_TRUE(is_kept(each));
  }
}

TEST_F(CacheTest, WhoNeedsWhatIsGivenUpCompilesIt) {
  if (const auto api = nvrtc(); !api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  if ((*nvrtc())->SetFlowCallback == nullptr) GTEST_SKIP() << "skipped: this NVRTC doesn't say how far it is";
  const std::string text = long_text("given_up", 1500);
  const ProgramSource source{"given_up.cu", text, {}, 90};
  std::stop_source stop;
  std::jthread later([&] { compile_for_later(source, stop.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::jthread now([&] { EXPECT_TRUE(program_image(source).ok()); });
  stop.request_stop();
}

}  // namespace
}  // namespace convoy::cuda
