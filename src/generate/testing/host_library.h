// Kernels' text compiled by g++ for this processor, with testing/machine.cuh in place of machine.cuh: a block's threads
// run in turn.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "convoy/result.h"
#include "generate/kernel.h"

namespace convoy::generate {

// A shared library in `folder`, where `files` are written, too. For each kernel of the text it has
//   bool walk_NAME(void* const* arguments, unsigned grid, unsigned block, bool backwards)
//   int walk_parameters_NAME()
// with the values of the kernel's parameters, which have 64 bits each; false: not all threads of a block come to a
// barrier. The error has the compiler's words.
Result<std::filesystem::path> host_library(std::string_view text, std::span<const KernelFile> files,
                                           const std::filesystem::path& folder);
using HostKernel = bool (*)(void* const* arguments, unsigned grid, unsigned block, bool backwards);

// Why nothing can be compiled here: the compiler or the source tree isn't on this machine. "": it can.
std::string no_host_compiler();

// A new folder for one of them.
std::filesystem::path host_library_folder();

}  // namespace convoy::generate
