#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace convoy::io {
namespace {

// A path that can't be used is the caller's fault, a disk that is full or broken is not.
ErrorCode code_of(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::not_found;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO:
    case EPIPE:
      return ErrorCode::internal;
    default:
      return ErrorCode::invalid_argument;
  }
}

Error system_error(const std::string& path, const char* action) {
  const int reason = errno;
  return {code_of(reason), fmt::format("{}: {}: {}", path, action, std::generic_category().message(reason))};
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  // Some file systems say only now that there was no room. False: errno says why.
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

// What comes through a pipe until its writers have closed it.
Result<std::vector<std::byte>> read_pipe(const FileDescriptor& pipe, const std::string& path) {
  constexpr std::size_t kChunk = 1 << 16;
  std::vector<std::byte> bytes;
  for (;;) {
    pollfd wait{pipe.get(), POLLIN, 0};
    if (::poll(&wait, 1, -1) < 0 && errno != EINTR) return system_error(path, "cannot read");
    const std::size_t done = bytes.size();
    bytes.resize(done + kChunk);
    const ssize_t count = ::read(pipe.get(), bytes.data() + done, kChunk);
    bytes.resize(done + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return bytes;
    if (count < 0 && errno != EINTR && errno != EAGAIN) return system_error(path, "cannot read");
  }
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return system_error(path, "cannot open");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return system_error(path, "cannot stat");
  if (S_ISFIFO(status.st_mode)) return read_pipe(file, path);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{}: not a file{}", path, S_ISDIR(status.st_mode) ? " but a folder" : "")};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(path, "cannot read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

Result<void> write_file(const std::string& path, Bytes bytes) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  // A pipe or /dev/null can't be renamed onto.
  const bool direct = kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular;
  const std::string target = direct ? path : fmt::format("{}.{}.part", path, ::getpid());
  {
    FileDescriptor file(::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) return system_error(path, "cannot write");
    std::size_t done = 0;
    bool written = true;
    while (written && done < bytes.size()) {
      const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      written = count >= 0;
      if (written) done += static_cast<std::size_t>(count);
    }
    if (!written || !file.close()) {
      const Error error = system_error(path, "cannot write");
      if (!direct) ::unlink(target.c_str());
      return error;
    }
  }
  if (!direct && ::rename(target.c_str(), path.c_str()) != 0) {
    const Error error = system_error(path, "cannot write");
    ::unlink(target.c_str());
    return error;
  }
  return {};
}

Result<void> make_folder(const std::string& path) {
  std::error_code reason;
  std::filesystem::create_directories(path, reason);
  if (reason) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: cannot make the folder: {}", path, reason.message())};
  }
  if (!std::filesystem::is_directory(path, reason)) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: not a folder", path)};
  }
  return {};
}

std::string lower_extension(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name.ends_with(".nii.gz")) return "nii.gz";
  const auto dot = name.find_last_of('.');
  return dot == std::string::npos || dot == 0 ? std::string() : name.substr(dot + 1);
}

}  // namespace convoy::io
