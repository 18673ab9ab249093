// Every kept input of every format again, without libFuzzer: a finding stays fixed. Seeds are replayed, too.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/fuzz.h"

namespace convoy::fuzz {
namespace {

namespace fs = std::filesystem;

#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer reserves terabytes of addresses
// What no file of a few kilobytes may need; an allocation that nothing bounds fails here and ends the test.
struct AddressLimit {
  AddressLimit() {
    const rlimit limit{std::uint64_t{8} << 30, std::uint64_t{8} << 30};
    setrlimit(RLIMIT_AS, &limit);
  }
} const address_limit;
#endif

int replay(const std::string& format, void (*fuzz)(Bytes)) {
  int files = 0;
  for (const char* kind : {"seeds", "regressions"}) {
    const fs::path folder = fs::path(CONVOY_SOURCE_DIR) / "tests" / "fuzz" / kind / format;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(file)), {});
      std::printf("%s/%s\n", format.c_str(), entry.path().filename().c_str());  // a crash says no more than that
      std::fflush(stdout);
      const std::clock_t start = std::clock();
      fuzz(std::as_bytes(std::span(bytes)));
      EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10) << entry.path();
      ++files;
    }
  }
  return files;
}

TEST(FuzzReplay, DbImport) { EXPECT_GT(replay("db_import", db_import), 0); }
TEST(FuzzReplay, Image) { EXPECT_GT(replay("image", image), 0); }
TEST(FuzzReplay, Nifti) { EXPECT_GT(replay("nifti", nifti), 0); }
TEST(FuzzReplay, Npy) { EXPECT_GT(replay("npy", npy), 0); }
TEST(FuzzReplay, Onnx) { EXPECT_GT(replay("onnx", onnx), 0); }
TEST(FuzzReplay, Plan) { EXPECT_GT(replay("plan", plan), 0); }
TEST(FuzzReplay, Problem) { EXPECT_GT(replay("problem", problem), 0); }
TEST(FuzzReplay, Rules) { EXPECT_GT(replay("rules", rules), 0); }

}  // namespace
}  // namespace convoy::fuzz
