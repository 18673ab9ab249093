// Models from files and from memory: what is no model, or too large for one, is said before anything is read of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/errors.h"
#include "core/file_signature.h"
#include "network/graph/onnx/decode.h"

namespace convoy::onnx_io {
namespace {

Result<void> check_size(std::int64_t bytes) {
  if (bytes <= std::numeric_limits<int>::max()) return {};
  return corrupt("protobuf messages end at 2 GiB, this has " + std::to_string(bytes) +
                 " bytes: save the weights as external data (onnx.save with save_as_external_data=True)");
}

// Bytes of anything may be read as a message of fields that are not ONNX's.
bool says_nothing(const ::onnx::ModelProto& model) {
  return !model.has_graph() && !model.has_ir_version() && model.opset_import_size() == 0;
}

// `first` are the model's first bytes, `bytes` how many there are in all.
Error not_a_model(std::span<const std::byte> first, std::int64_t bytes) {
  const std::string is = file_signature(first);
  if (!is.empty()) return corrupt("not an ONNX model but " + is);
  return corrupt("not an ONNX model, or truncated (" + std::to_string(bytes) + " bytes)");
}

}  // namespace

Result<network::Graph> import_bytes(std::span<const std::byte> bytes, const std::string& name,
                                    const std::string& folder, std::span<const GivenInitializer> given) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  CONVOY_CHECK(check_size(size));
  ::onnx::ModelProto model;
  if (bytes.empty() || !model.ParseFromArray(bytes.data(), static_cast<int>(size)) || says_nothing(model)) {
    return not_a_model(bytes, size);
  }
  return import_model(model, name, folder, given);
}

Result<network::Graph> import_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about {};
  if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    if (file >= 0) close(file);
    return Error{ErrorCode::not_found, file < 0 ? "cannot open the file" : "not a file"};
  }
  const auto size = static_cast<std::int64_t>(about.st_size);
  ::onnx::ModelProto model;
  const Result<void> fits = check_size(size);
  const bool parsed = fits.ok() && size > 0 && model.ParseFromFileDescriptor(file) && !says_nothing(model);
  std::byte first[kSignatureBytes];
  const ssize_t got = parsed ? 0 : pread(file, first, sizeof first, 0);
  close(file);
  if (!fits.ok()) return fits.error();
  if (!parsed) return not_a_model(std::span(first, static_cast<std::size_t>(std::max<ssize_t>(got, 0))), size);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return import_model(model, path, folder.empty() ? "." : folder.string());
}

}  // namespace convoy::onnx_io
