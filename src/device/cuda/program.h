// CUDA C compiled at run time, by NVRTC. Needs no GPU; without NVRTC it gives the error that says why.
#pragma once

#include <functional>
#include <stop_token>
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

// Compiles, whatever the cache holds. The error has the source's name and the compiler's log. `go_on` is called where
// the compiler can end early, which it does, with an error, where that is false; first when it has parsed the source.
// NVRTC before 12.8 doesn't call it.
Result<Compilation> compile_program(const ProgramSource& source, bool verbose = false,
                                    const std::function<bool()>& go_on = {});

// Whether the disk cache has it, or there is none to keep it in.
bool is_kept(const ProgramSource& source);

// From the disk cache (code_cache.h) where it is there, and else compiled and kept; once where several threads ask for
// the same at a time.
Result<KernelImage> program_image(const ProgramSource& source);

// Compiles and keeps what nobody waits for, unless it is kept already. It is parsed when nothing that somebody waits
// for has to be, and is given up when a stop is asked for. Who asks for the same meanwhile waits for it.
void compile_for_later(const ProgramSource& source, const std::stop_token& stop);

}  // namespace convoy::cuda
