// Libraries loaded at run time: where they are looked for, which file was taken, and why each other one was not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy {

// Where the calls that a library makes by name are looked for: with all that is loaded first, as usual, or in itself
// and what it needs. The latter lets a second version of a library into a process.
enum class SymbolScope { usual, own_first };

// The address of a name in a library that is open; null: it has none. It is the C library's own dlsym that is asked,
// whoever else was preloaded in front of it. Allocates nothing where it finds the name, and needs no constructor to
// have run.
void* symbol_of(void* handle, const char* name);

// A library in this process. Closed when the object is destroyed, unless it was kept.
class SharedLibrary {
 public:
  // A file, or a name for the system's loader to find. Errors are the loader's words.
  static Result<SharedLibrary> open(const std::string& file_or_name, SymbolScope scope = SymbolScope::usual);
  // The one that somebody loaded into this process already, under its soname.
  static std::optional<SharedLibrary> already_loaded(const std::string& name);

  SharedLibrary(SharedLibrary&& other) noexcept;
  SharedLibrary& operator=(SharedLibrary&& other) noexcept;
  ~SharedLibrary();

  void* symbol(const char* name) const;  // null: it has no such symbol
  std::string file() const;              // as the loader knows it; empty where it doesn't say
  void keep() { kept_ = true; }          // stays loaded for the life of the process

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
  bool kept_ = false;
};

// A place that may hold a library.
struct LibrarySource {
  std::string from;             // who says so: "CONVOY_CUDNN", "system loader", "Python environment /opt/venv"
  std::string file;             // a file, or a soname
  bool already_loaded = false;  // `file` is a soname, of interest only where this process has it
  std::string why_not;          // set: there is nothing to try here, and this says why
};

// A place that was not taken, and why.
struct LibraryAttempt {
  std::string from;
  std::string file;
  std::string why_not;
};

// How the search for a library ended.
struct LibraryReport {
  std::string name;                    // "cuDNN"
  std::string file;                    // what was taken; empty: nothing
  std::string from;                    // the place's
  std::string version;                 // "9.19.0"
  std::vector<LibraryAttempt> others;  // in the order of the search; those after the taken one were not tried
  bool found() const { return !file.empty(); }
  // "no cuDNN: CONVOY_CUDNN=/x: cannot open shared object file; ...". Only where nothing was found.
  Error missing() const;
};

// Takes the first place whose library `accept` takes: it gets the open library and returns its version, or the reason
// why it can't be used. What is taken is kept; what is refused is closed again.
LibraryReport search_library(std::string name, const std::vector<LibrarySource>& places,
                             const std::function<Result<std::string>(const SharedLibrary&)>& accept);

}  // namespace convoy
