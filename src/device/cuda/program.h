// CUDA C compiled at run time, by NVRTC. Needs no GPU; without NVRTC it gives the error that says why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/result.h"

namespace convoy::cuda {

struct SourceFile {
  std::string_view name;  // as #include has it
  std::string_view text;
};

// A source with all that it may include, and what it is compiled for.
struct ProgramSource {
  std::string name;  // in the compiler's words
  std::string_view text;
  std::vector<SourceFile> files;
  int architecture = 90;  // CudaDevice::architecture
};

// Code that Module::load takes: a cubin, or PTX where NVRTC doesn't know the architecture yet.
using KernelImage = std::vector<char>;

struct Compilation {
  KernelImage image;
  std::string log;  // warnings and, where `verbose`, the assembler's report: registers and spills
};

// Compiles, whatever the cache holds. The error has the source's name and the compiler's log.
Result<Compilation> compile_program(const ProgramSource& source, bool verbose = false);

// Whether the disk cache has it, or there is none to keep it in.
bool is_kept(const ProgramSource& source);

enum class Need { now, later };

// From the disk cache (code_cache.h) where it is there, and else compiled and kept; once where several threads ask for
// the same at a time. What is needed later is not begun while something that is needed now is being compiled.
Result<KernelImage> program_image(const ProgramSource& source, Need need = Need::now);

}  // namespace convoy::cuda
