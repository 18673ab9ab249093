// NVRTC's functions, loaded at run time. A member has the library's name without "nvrtc": api->CompileProgram.
#pragma once

#include <nvrtc.h>

#include "device/cuda/libraries.h"

namespace convoy::cuda {

// clang-format off
#define CONVOY_NVRTC_FUNCTIONS(X) \
  X(Version) X(GetErrorString) X(GetNumSupportedArchs) X(GetSupportedArchs) X(CreateProgram) X(DestroyProgram) \
  X(CompileProgram) X(GetPTXSize) X(GetPTX) X(GetCUBINSize) X(GetCUBIN) X(GetProgramLogSize) X(GetProgramLog) \
  X(AddNameExpression) X(GetLoweredName)
#define CONVOY_NVRTC_OPTIONAL_FUNCTIONS(X) X(SetFlowCallback)
// clang-format on

struct NvrtcApi {
#define CONVOY_MEMBER(name) decltype(&::nvrtc##name) name = nullptr;
  CONVOY_NVRTC_FUNCTIONS(CONVOY_MEMBER)
  CONVOY_NVRTC_OPTIONAL_FUNCTIONS(CONVOY_MEMBER)  // null in older ones
#undef CONVOY_MEMBER
  int version = 0;   // 13000 is NVRTC 13.0
  std::string text;  // "13.0"
};

// The table, made on first use. Errors: why there is none. Works without a driver; beside one it is never newer than
// the driver by a major version, whose code that driver would not load.
Result<const NvrtcApi*> nvrtc();
const LibraryReport& nvrtc_report();

const LibraryNames& nvrtc_names();
LoadedApi<NvrtcApi> load_nvrtc(const std::vector<LibrarySource>& places);

}  // namespace convoy::cuda
