// External tensor data: a file beside the model, never outside its folder.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "network/graph/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

namespace fs = std::filesystem;

Error bad(const std::string& what, const std::string& text) { return {ErrorCode::corrupt, what + ": " + text}; }

Result<std::int64_t> parse_offset(const std::string& text, const std::string& what, const std::string& key) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0) {
    return bad(what, "external data " + key + "='" + text + "' is not a size");
  }
  return value;
}

}  // namespace

Result<ExternalRange> locate_external(const ::onnx::TensorProto& proto, const std::string& what,
                                      const std::string& folder, std::int64_t expected) {
  std::string location;
  std::int64_t offset = 0;
  std::int64_t length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      location = entry.value();
    } else if (entry.key() == "offset") {
      CONVOY_TRY(offset, parse_offset(entry.value(), what, "offset"));
    } else if (entry.key() == "length") {
      CONVOY_TRY(length, parse_offset(entry.value(), what, "length"));
    }
  }
  if (location.empty()) return bad(what, "external data without a location");
  if (location.find('\0') != std::string::npos) return bad(what, "external data location holds a zero byte");
  if (folder.empty()) {
    return Error{ErrorCode::not_found,
                 what + ": external data '" + location + "', but nothing says in which folder it lies"};
  }
  if (length >= 0 && length != expected) {
    return bad(what, "external data length " + std::to_string(length) + " does not match the tensor's " +
                         std::to_string(expected) + " bytes");
  }
  const fs::path relative(location);
  if (relative.is_absolute()) return bad(what, "external data location '" + location + "' is an absolute path");
  for (const fs::path& part : relative) {
    if (part == "..") return bad(what, "external data location '" + location + "' leaves the model's folder");
  }
  std::error_code code;
  const fs::path root = fs::canonical(folder, code);
  if (code) return Error{ErrorCode::not_found, what + ": folder '" + folder + "': " + code.message()};
  const fs::path file = fs::canonical(root / relative, code);
  if (code) {
    return Error{ErrorCode::not_found, what + ": external data '" + location + "': " + code.message() +
                                           "; the model keeps its weights in that file, which belongs beside it"};
  }
  const auto [root_end, unused] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (root_end != root.end()) {
    return bad(what, "external data location '" + location + "' is a link out of the model's folder");
  }
  if (!fs::is_regular_file(file, code)) return bad(what, "external data '" + location + "' is not a file");
  const auto size = static_cast<std::int64_t>(fs::file_size(file, code));
  if (code) return bad(what, "external data '" + location + "': " + code.message());
  if (offset > size || expected > size - offset) {
    return bad(what, "external data '" + location + "' has " + std::to_string(size) + " bytes; the tensor needs " +
                         std::to_string(expected) + " from offset " + std::to_string(offset));
  }
  return ExternalRange{file.string(), offset};
}

Result<void> read_external(const ::onnx::TensorProto& proto, const std::string& what, const std::string& folder,
                           std::int64_t expected, std::byte* destination) {
  CONVOY_TRY(const ExternalRange range, locate_external(proto, what, folder, expected));
  // O_NOFOLLOW: the last component was resolved above; a link put there since is refused.
  const int file = open(range.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return Error{ErrorCode::not_found, what + ": cannot open external data '" + range.path + "'"};
  std::int64_t done = 0;
  while (done < expected) {
    const ssize_t got = pread(file, destination + done, static_cast<std::size_t>(expected - done), range.offset + done);
    if (got <= 0) break;
    done += got;
  }
  close(file);
  if (done != expected) return bad(what, "external data '" + range.path + "' ended early");
  return {};
}

}  // namespace convoy::onnx_io
