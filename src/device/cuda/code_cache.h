// Compiled kernels on disk, a file each: CONVOY_KERNEL_CACHE, else convoy/kernels in XDG_CACHE_HOME, else
// ~/.cache/convoy/kernels. Files are written aside and renamed, so processes share a folder without locks; a file that
// is damaged or cut short is taken for absent. What was not used for longest goes when the folder is over its bound.
// Nothing here fails: a cache that can't be read or written is one that is empty.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "device/cuda/program.h"

namespace convoy::cuda {

// 128 bits over a source with all that it may include, the options and the compiler's version.
struct CodeKey {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const CodeKey&, const CodeKey&) = default;
};
CodeKey code_key(const ProgramSource& source, std::string_view options);

class CodeCache {
 public:
  // An empty folder: no cache.
  explicit CodeCache(std::filesystem::path folder, std::int64_t most_bytes = 256 << 20);

  std::optional<KernelImage> find(const CodeKey& key) const;
  // Whether there is a file, which may be damaged.
  bool has(const CodeKey& key) const;
  void keep(const CodeKey& key, const KernelImage& image) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path file_of(const CodeKey& key) const;
  void trim() const;
  std::filesystem::path folder_;
  std::int64_t most_bytes_;
};

// This process's, made on first use.
const CodeCache& code_cache();

}  // namespace convoy::cuda
