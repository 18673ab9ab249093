// Where NVIDIA's libraries are looked for and why they are refused, with libraries that the build made for it; and the
// real ones, where there are any.
#include "device/cuda/libraries.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/cuda/cublaslt.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/driver.h"
#include "device/cuda/nvml.h"
#include "device/cuda/nvrtc.h"

namespace convoy::cuda {
namespace {

namespace fs = std::filesystem;

// The build puts them beside this program.
std::string fake(const std::string& file) { return (fs::read_symlink("/proc/self/exe").parent_path() / file).string(); }
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// A folder that is gone after the test, with empty files in it.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("convoy_libraries_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string add(const std::string& file) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << "not a library";
    return (path_ / file).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

class ScopedVariable {  // sets one, and takes it back
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    had_ = before != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (had_) ::setenv(name_, before_.c_str(), 1);
    if (!had_) ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::string before_;
  bool had_;
};

std::vector<std::string> files_of(const std::vector<LibrarySource>& places) {
  std::vector<std::string> files;
  for (const LibrarySource& place : places) files.push_back(place.file);
  return files;
}

TEST(Libraries, AreSearchedInTheWrittenOrder) {
  const Folder folder;
  const std::string active = folder.add("venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const std::string cu13 = folder.add("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  const std::string older = folder.add("venv/lib/python3.9/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const std::string torch = folder.add("conda/lib/python3.11/site-packages/torch/lib/libcudnn.so.9");
  const std::string debian = folder.add("dist-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const std::string toolkit = folder.add("cuda-13.0/lib64/libcudnn.so.9");
  fs::create_directories(folder.path() + "/cuda");
  fs::create_directory_symlink(folder.path() + "/cuda-13.0/lib64", folder.path() + "/cuda/lib64");
  const Surroundings around{.environments = {folder.path() + "/venv", folder.path() + "/conda"},
                            .site_folders = {folder.path() + "/dist-packages"},
                            .folders = {folder.path() + "/cuda-13.0/lib64", folder.path() + "/cuda/lib64"}};
  const auto places = library_places(cudnn_names(), around);
  EXPECT_EQ(files_of(places),
            (std::vector<std::string>{"libcudnn.so.9", active, older, torch, debian, "libcudnn.so.9", toolkit}))
      << "each file once, also where a link leads to it";
  EXPECT_TRUE(places.front().already_loaded);
  EXPECT_EQ(places[1].from, "Python environment " + folder.path() + "/venv");
  EXPECT_EQ(places[5].from, "system loader");
  EXPECT_EQ(files_of(library_places(nvrtc_names(), around)),
            (std::vector<std::string>{"libnvrtc.so.13", "libnvrtc.so.12", cu13, "libnvrtc.so.13", "libnvrtc.so.12"}));
}

TEST(Libraries, TheVariableIsTheOnlyPlace) {
  const Folder folder;
  const std::string file = folder.add("lib/libcudnn.so.9");
  EXPECT_EQ(files_of(library_places(cudnn_names(), {.chosen = file})), std::vector<std::string>{file});
  EXPECT_EQ(files_of(library_places(cudnn_names(), {.chosen = folder.path() + "/lib"})),
            std::vector<std::string>{file});
  const auto empty = load_cudnn(library_places(cudnn_names(), {.chosen = folder.path()}));
  EXPECT_EQ(empty.report.missing().message,
            "no cuDNN: CONVOY_CUDNN: " + folder.path() + ": the folder has no libcudnn.so.9");
  const auto off = load_cudnn(library_places(cudnn_names(), {.chosen = "off"}));
  EXPECT_EQ(off.report.missing().message, "no cuDNN: CONVOY_CUDNN: it is switched off");
  const auto absent = load_cudnn(library_places(cudnn_names(), {.chosen = "/nowhere/libcudnn.so.9"}));
  EXPECT_TRUE(has(absent.report.missing().message, "CONVOY_CUDNN: /nowhere/libcudnn.so.9: cannot open"))
      << absent.report.missing().message;
  const auto broken = load_cudnn(library_places(cudnn_names(), {.chosen = file}));
  EXPECT_TRUE(has(broken.report.missing().message, file)) << broken.report.missing().message;
  EXPECT_EQ(broken.report.missing().code, ErrorCode::not_found);
}

TEST(Libraries, TheSurroundingsComeFromTheEnvironment) {
  const Folder folder;
  folder.add("python/bin/python3.12");
  folder.add("venv/bin/activate");
  fs::create_symlink(folder.path() + "/python/bin/python3.12", folder.path() + "/venv/bin/python3");
  const std::string user = folder.add("home/.local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
  const ScopedVariable active("VIRTUAL_ENV", folder.path() + "/active");
  const ScopedVariable conda("CONDA_PREFIX", folder.path() + "/conda");
  const ScopedVariable home("HOME", folder.path() + "/home");
  const ScopedVariable path("PATH", "/nowhere::" + folder.path() + "/venv/bin:/usr/bin");
  const ScopedVariable chosen("CONVOY_CUDNN", "/chosen");
  const Surroundings around = surroundings(cudnn_names());
  EXPECT_EQ(around.chosen, "/chosen");
  EXPECT_EQ(around.environments, (std::vector<std::string>{folder.path() + "/active", folder.path() + "/conda",
                                                           folder.path() + "/venv", folder.path() + "/python"}));
  ASSERT_FALSE(around.site_folders.empty());
  EXPECT_EQ(around.site_folders.front() + "/nvidia/cudnn/lib/libcudnn.so.9", user);
  const Surroundings driver = surroundings(driver_names());
  EXPECT_TRUE(driver.environments.empty() && driver.site_folders.empty()) << "a driver is not a Python package";
}

TEST(Libraries, CudnnOfAnotherMajorVersionIsRefused) {
  const auto older = load_cudnn(library_places(cudnn_names(), {.chosen = fake("fake_cudnn8/libcudnn.so.8")}));
  ASSERT_FALSE(older.report.found());
  EXPECT_TRUE(has(older.report.missing().message, "it is cuDNN 8 (version 8902); Convoy needs cuDNN 9"))
      << older.report.missing().message;
  const auto newer = load_cudnn(library_places(cudnn_names(), {.chosen = fake("fake_cudnn10")}));
  ASSERT_FALSE(newer.report.found());
  EXPECT_TRUE(has(newer.report.missing().message, "it is cuDNN 10 (version 100100); Convoy needs cuDNN 9"))
      << newer.report.missing().message;
  // Where it lies in a folder of the search it is named and not opened.
  const auto places = library_places(cudnn_names(), {.folders = {fake("fake_cudnn8")}});
  ASSERT_FALSE(places.empty());
  EXPECT_EQ(places.back().file, fake("fake_cudnn8/libcudnn.so.8"));
  EXPECT_EQ(places.back().why_not, "of another major version, 8");
}

TEST(Libraries, AMissingFunctionIsNamedAndTheNextPlaceIsTried) {
  const auto loaded = load_cudnn({{.from = "first", .file = fake("fake_cudnn_bare/libcudnn.so.9")},
                                  {.from = "second", .file = fake("fake_cudnn10/libcudnn.so.9")},
                                  {.from = "third", .file = "", .why_not = "nothing there"}});
  ASSERT_EQ(loaded.report.others.size(), 3U);
  EXPECT_EQ(loaded.report.others[0].why_not, "it has no function cudnnGetCudartVersion");
  EXPECT_TRUE(has(loaded.report.others[1].why_not, "cuDNN 10"));
  const std::string message = loaded.report.missing().message;
  EXPECT_TRUE(has(message, "no cuDNN: first: ") && has(message, "; second: ") && has(message, "; third: nothing there"))
      << message;
}

TEST(Libraries, ADriverThatIsTooOldOrAStubIsRefused) {
  const auto old = load_driver(library_places(driver_names(), {.chosen = fake("fake_driver11")}));
  EXPECT_TRUE(has(old.report.missing().message, "it is for CUDA 11.8; Convoy needs a driver for CUDA 12.0 or newer"))
      << old.report.missing().message;
  const auto stub = load_driver(library_places(driver_names(), {.chosen = fake("fake_driver_stub/libcuda.so.1")}));
  EXPECT_TRUE(has(stub.report.missing().message, "the toolkit's stub for linking, not a driver"))
      << stub.report.missing().message;
}

TEST(Libraries, TheFirstThatServesIsTakenAndTheOthersAreSaid) {
  const std::string taken = fake("fake_driver/libcuda.so.1");
  const auto loaded = load_driver({{.from = "process", .file = "libfake_nobody_has.so.1", .already_loaded = true},
                                   {.from = "old", .file = fake("fake_driver11/libcuda.so.1")},
                                   {.from = "good", .file = taken},
                                   {.from = "link", .file = taken},
                                   {.from = "late", .file = "libcuda.so.1"}});
  ASSERT_TRUE(loaded.report.found()) << loaded.report.missing().message;
  EXPECT_EQ(loaded.report.file, taken);
  EXPECT_EQ(loaded.report.from, "good");
  EXPECT_EQ(loaded.api.version, 13000);
  EXPECT_EQ(loaded.api.FuncGetName, nullptr) << "an optional function";
  ASSERT_EQ(loaded.report.others.size(), 2U);
  EXPECT_EQ(loaded.report.others[0].from, "old");
  EXPECT_EQ(loaded.report.others[1].from, "late");
  EXPECT_EQ(loaded.report.others[1].why_not, "not tried: one was taken before it");
}

TEST(Libraries, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(version_text(12080), "12.8");
  EXPECT_EQ(version_text(13000), "13.0");
  EXPECT_EQ(split_folders("a::b:"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split_folders(""), std::vector<std::string>{});
}

TEST(Libraries, RealNvrtcCompiles) {
  const Result<const NvrtcApi*> api = nvrtc();
  if (!api.ok()) GTEST_SKIP() << "skipped: no NVRTC: " << api.error().message;
  nvrtcProgram program = nullptr;
  ASSERT_EQ((*api)->CreateProgram(&program, "__global__ void nothing(float* x) { x[threadIdx.x] = 1; }", "nothing.cu",
                                  0, nullptr, nullptr),
            NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=sm_80"};
  EXPECT_EQ((*api)->CompileProgram(program, 1, options), NVRTC_SUCCESS);
  std::size_t bytes = 0;
  EXPECT_EQ((*api)->GetCUBINSize(program, &bytes), NVRTC_SUCCESS);
  EXPECT_GT(bytes, 0U);
  (*api)->DestroyProgram(&program);
}

TEST(Libraries, RealCudnnAnswersWithoutADevice) {
  const Result<const CudnnApi*> api = cudnn();
  if (!api.ok()) GTEST_SKIP() << "skipped: no cuDNN: " << api.error().message;
  EXPECT_EQ((*api)->version / 10000, kCudnnMajor);
  EXPECT_EQ(cudnn_report().version, (*api)->text);
  cudnnBackendDescriptor_t tensor = nullptr;
  ASSERT_EQ((*api)->BackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_NE((*api)->BackendFinalize(tensor), CUDNN_STATUS_SUCCESS) << "nothing is set";
  EXPECT_EQ((*api)->BackendDestroyDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  // Its parts come from its own folder.
  const auto graph = SharedLibrary::already_loaded("libcudnn_graph.so.9");
  ASSERT_TRUE(graph);
  EXPECT_TRUE(fs::equivalent(fs::path(graph->file()).parent_path(), fs::path(cudnn_report().file).parent_path()));
}

TEST(Libraries, EachHasAReport) {
  const auto reports = library_reports();
  ASSERT_EQ(reports.size(), 5U);
  for (const LibraryReport& report : reports) {
    EXPECT_FALSE(report.name.empty());
    EXPECT_EQ(report.found(), !report.version.empty()) << report.name;
    EXPECT_TRUE(report.found() || has(report.missing().message, "no " + report.name));
  }
}

}  // namespace
}  // namespace convoy::cuda
