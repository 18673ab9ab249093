#include "cli/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "io/file.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

std::string lock_of(const std::string& path) { return path + ".lock"; }

std::string list_beside(const std::string& path) { return fs::path(path).replace_extension(".txt").string(); }

std::vector<fs::path> parts_of(const std::string& file) {
  const fs::path path(file);
  const std::string prefix = path.filename().string() + ".";
  std::vector<fs::path> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::string_view pid = std::string_view(name).substr(prefix.size());
    if (pid.ends_with(".torch")) pid.remove_suffix(std::string_view(".torch").size());
    if (!pid.empty() && std::all_of(pid.begin(), pid.end(), ::isdigit)) parts.push_back(entry.path());
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

Error refused(ErrorCode code, const std::string& path, const std::string& why) {
  return Error{code, fmt::format("--record {}: {}", path, why)};
}

}  // namespace

RecordFile::RecordFile(RecordFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), lock_(std::exchange(other.lock_, -1)) {}

RecordFile& RecordFile::operator=(RecordFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

RecordFile::~RecordFile() {
  if (lock_ < 0) return;
  ::unlink(lock_of(path_).c_str());
  ::close(lock_);
}

std::string RecordFile::problem_list() const { return list_beside(path_); }

Result<RecordFile> RecordFile::open(const std::string& given, const std::vector<std::string>& reports) {
  RecordFile record;
  std::error_code error;
  const fs::path path = fs::absolute(given);
  if (!fs::is_directory(path.parent_path(), error)) {
    return refused(ErrorCode::not_found, given, fmt::format("there is no folder {}", path.parent_path().string()));
  }
  if (fs::is_directory(path, error)) return refused(ErrorCode::invalid_argument, given, "it is a folder");
  record.path_ = path.string();
  if (record.path_ == record.problem_list()) {
    return refused(ErrorCode::invalid_argument, given,
                   "the problem list beside the record ends with .txt; give the record another ending, such as .jsonl");
  }
  for (const std::string& report : reports) {
    const std::string file = fs::absolute(report).string();
    if (file == record.path_) return refused(ErrorCode::invalid_argument, given, "--report names the same file");
    if (file == record.problem_list()) {
      return refused(ErrorCode::invalid_argument, given,
                     fmt::format("--report {} names the problem list that is written beside the record", report));
    }
  }
  const std::string lock = lock_of(record.path_);
  record.lock_ = ::open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (record.lock_ < 0) {
    return refused(ErrorCode::invalid_argument, given, fmt::format("{}: {}", lock, std::strerror(errno)));
  }
  if (::flock(record.lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(record.lock_, -1));
    return refused(ErrorCode::invalid_argument, given,
                   "another convoy exec is recording to it; where a job starts several, each needs a file of its own "
                   "(as in r.$SLURM_PROCID.jsonl)");
  }
  for (const fs::path& part : parts_of(record.path_)) fs::remove(part, error);
  return record;
}

Result<std::string> RecordFile::collect() const {
  const std::vector<fs::path> parts = parts_of(path_);
  std::string text;
  for (const fs::path& part : parts) {
    CONVOY_TRY(const auto bytes, io::read_file(part.string()));
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  if (text.empty()) return text;
  CONVOY_CHECK(io::write_file(path_, std::as_bytes(std::span(text))));
  std::error_code error;
  for (const fs::path& part : parts) fs::remove(part, error);
  return text;
}

}  // namespace convoy::cli
