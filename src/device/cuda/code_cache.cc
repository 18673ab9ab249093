#include "device/cuda/code_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/environment.h"
#include "core/hash.h"

namespace convoy::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "convoyk1";
constexpr std::size_t kMostImageBytes = std::size_t{64} << 20;  // no kernel comes near; a file that says so is damaged

std::uint64_t hash_of_image(const KernelImage& image) {
  Hash hash;
  hash.add(std::string_view(image.data(), image.size()));
  return hash.value();
}

fs::path default_folder() {
  if (const auto chosen = environment(Variable::kernel_cache)) return *chosen == "off" ? fs::path() : fs::path(*chosen);
  if (const auto cache = environment(Variable::xdg_cache_home)) return fs::path(*cache) / "convoy" / "kernels";
  if (const auto home = environment(Variable::home)) return fs::path(*home) / ".cache" / "convoy" / "kernels";
  return {};
}

}  // namespace

CodeKey code_key(const ProgramSource& source, std::string_view options) {
  const auto hash_with = [&](std::uint64_t seed) {
    Hash hash;
    hash.add(seed, std::string_view(source.name), source.text, options);
    // Every file counts: which of them a source includes is not worth finding out.
    for (const SourceFile& file : source.files) hash.add(file.name, file.text);
    return hash.value();
  };
  return {hash_with(1), hash_with(2)};
}

CodeCache::CodeCache(fs::path folder, std::int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

fs::path CodeCache::file_of(const CodeKey& key) const {
  return folder_ / fmt::format("{:016x}{:016x}.kernel", key.high, key.low);
}

std::optional<KernelImage> CodeCache::find(const CodeKey& key) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path file = file_of(key);
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  char magic[8];
  std::uint64_t size = 0;
  std::uint64_t hash = 0;
  in.read(magic, sizeof magic);
  in.read(reinterpret_cast<char*>(&size), sizeof size);
  in.read(reinterpret_cast<char*>(&hash), sizeof hash);
  if (!in || std::string_view(magic, sizeof magic) != kMagic || size == 0 || size > kMostImageBytes) {
    return std::nullopt;
  }
  KernelImage image(size);
  in.read(image.data(), static_cast<std::streamsize>(size));
  if (!in || in.peek() != std::ifstream::traits_type::eof() || hash_of_image(image) != hash) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);  // used just now: the last to go
  return image;
}

bool CodeCache::has(const CodeKey& key) const {
  std::error_code error;
  return !folder_.empty() && fs::exists(file_of(key), error);
}

void CodeCache::keep(const CodeKey& key, const KernelImage& image) const {
  if (folder_.empty() || image.size() > kMostImageBytes) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return;
  static std::atomic<unsigned> counter{0};
  const fs::path aside = folder_ / fmt::format("{}.{}.tmp", getpid(), counter++);
  {
    std::ofstream out(aside, std::ios::binary | std::ios::trunc);
    const std::uint64_t size = image.size();
    const std::uint64_t hash = hash_of_image(image);
    out.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(reinterpret_cast<const char*>(&hash), sizeof hash);
    out.write(image.data(), static_cast<std::streamsize>(image.size()));
    out.close();
    if (!out) {
      fs::remove(aside, error);
      return;
    }
  }
  fs::rename(aside, file_of(key), error);
  if (error) fs::remove(aside, error);
  trim();
}

// Down to three quarters of the bound, so that it isn't done at every file.
void CodeCache::trim() const {
  struct Entry {
    fs::path path;
    std::int64_t bytes;
    fs::file_time_type used;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder_, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    std::error_code gone;  // by another process
    const auto bytes = static_cast<std::int64_t>(at->file_size(gone));
    const auto used = at->last_write_time(gone);
    if (gone) continue;
    // What a process that died left aside.
    if (at->path().extension() == ".tmp" && fs::file_time_type::clock::now() - used > std::chrono::hours(1)) {
      fs::remove(at->path(), gone);
      continue;
    }
    if (at->path().extension() != ".kernel") continue;
    entries.push_back({at->path(), bytes, used});
    total += bytes;
  }
  if (total <= most_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= most_bytes_ / 4 * 3) return;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

const CodeCache& code_cache() {
  static const CodeCache& cache = *new CodeCache(default_folder());  // never destroyed: plans may be made at exit
  return cache;
}

}  // namespace convoy::cuda
