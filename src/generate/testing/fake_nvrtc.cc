// NVRTC for a driver without a GPU (device/cuda/testing/fake_driver.cc): generated kernels are compiled for this
// processor, and their code is the path of that library, which the driver loads and runs.
#include <nvrtc.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "generate/testing/host_library.h"

namespace {

struct Program {
  std::string text, log, code;
  std::vector<std::string> strings;  // of the files: name, text
};
// Libraries are there until the process ends.
struct Folders {
  std::mutex mutex;
  std::vector<std::filesystem::path> made;
  ~Folders() {
    for (const auto& folder : made) std::filesystem::remove_all(folder);
  }
} folders;

Program* program_of(nvrtcProgram handle) { return reinterpret_cast<Program*>(handle); }

nvrtcResult give(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult) { return "words of NVRTC"; }
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  *architectures = 90;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int count,
                               const char* const* texts, const char* const* names) {
  auto* const made = new Program{text, {}, {}, {}};
  for (int i = 0; i < count; ++i) made->strings.insert(made->strings.end(), {names[i], texts[i]});
  *program = reinterpret_cast<nvrtcProgram>(made);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete program_of(*program);
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int, const char* const*) {
  Program& program = *program_of(handle);
  std::vector<convoy::generate::KernelFile> files;
  for (std::size_t i = 0; i < program.strings.size(); i += 2) {
    files.push_back({program.strings[i].c_str(), program.strings[i + 1].c_str()});
  }
  const std::filesystem::path folder = convoy::generate::host_library_folder();
  {
    const std::lock_guard lock(folders.mutex);
    folders.made.push_back(folder);
  }
  const auto library = convoy::generate::host_library(program.text, files, folder);
  if (library.ok()) {
    program.code = library->string();
    return NVRTC_SUCCESS;
  }
  program.log = library.error().message;
  return NVRTC_ERROR_COMPILATION;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram handle, std::size_t* size) {
  *size = program_of(handle)->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram handle, char* log) { return give(program_of(handle)->log, log); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram handle, std::size_t* size) {
  *size = program_of(handle)->code.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram handle, char* code) { return give(program_of(handle)->code, code); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram handle, std::size_t* size) { return nvrtcGetCUBINSize(handle, size); }
nvrtcResult nvrtcGetPTX(nvrtcProgram handle, char* code) { return nvrtcGetCUBIN(handle, code); }
nvrtcResult nvrtcAddNameExpression(nvrtcProgram, const char*) { return NVRTC_ERROR_INTERNAL_ERROR; }
nvrtcResult nvrtcGetLoweredName(nvrtcProgram, const char*, const char**) { return NVRTC_ERROR_INTERNAL_ERROR; }

}  // extern "C"
