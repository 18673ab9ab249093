#include "io/nifti.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace convoy::io {
namespace {

// The bytes of a file, inflated on demand where it is gzip-compressed. Gives exactly what it is asked for.
class Source {
 public:
  explicit Source(Bytes file) : file_(file) {
    compressed_ = file.size() >= 2 && file[0] == std::byte{0x1f} && file[1] == std::byte{0x8b};
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() {
    if (started_) inflateEnd(&stream_);
  }

  bool compressed() const { return compressed_; }

  // Reads up to `size` bytes; less only at the end.
  Result<std::size_t> read(std::byte* target, std::size_t size) {
    if (!compressed_) {
      const std::size_t count = std::min(size, file_.size() - at_);
      if (count > 0) std::memcpy(target, file_.data() + at_, count);
      at_ += count;
      return count;
    }
    if (!started_) {
      if (inflateInit2(&stream_, 15 + 16) != Z_OK) return Error{ErrorCode::out_of_memory, "zlib could not start"};
      started_ = true;
    }
    std::size_t done = 0;
    while (!ended_ && done < size) {
      const std::size_t in = std::min<std::size_t>(file_.size() - at_, UINT_MAX);
      const std::size_t out = std::min<std::size_t>(size - done, UINT_MAX);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(file_.data() + at_));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(target + done);
      stream_.avail_out = static_cast<uInt>(out);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      at_ += in - stream_.avail_in;
      done += out - stream_.avail_out;
      if (code == Z_STREAM_END) {
        ended_ = true;
      } else if (code == Z_BUF_ERROR || (code == Z_OK && at_ == file_.size() && stream_.avail_out > 0)) {
        return Error{ErrorCode::corrupt, fmt::format("byte {}: the compressed data ends too early", at_)};
      } else if (code != Z_OK) {
        return Error{ErrorCode::corrupt,
                     fmt::format("byte {}: damaged gzip data{}{}", at_, stream_.msg != nullptr ? ": " : "",
                                 stream_.msg != nullptr ? stream_.msg : "")};
      }
    }
    return done;
  }

 private:
  Bytes file_;
  std::size_t at_ = 0;
  bool compressed_ = false;
  bool started_ = false;
  bool ended_ = false;
  z_stream stream_ = {};
};

Result<Volume> parse(Bytes file) {
  Source source(file);
  std::array<std::byte, kNiftiHeaderBytes> start;
  CONVOY_TRY(const std::size_t got, source.read(start.data(), start.size()));
  CONVOY_TRY(NiftiHeader header, parse_nifti_header(Bytes(start.data(), got)));
  const std::size_t total = header.data_offset + header.data_bytes;
  // Deflate turns a byte into at most 1032.
  if (source.compressed() ? total / 1032 > file.size() : total != file.size()) {
    return Error{ErrorCode::corrupt, fmt::format("byte 40: dims {} of {} at byte {} need {} bytes, the file has {}{}",
                                                 to_string(header.dims), name_of(header.type), header.data_offset,
                                                 total, file.size(), source.compressed() ? " (compressed)" : "")};
  }
  Volume volume;
  Dims reversed(header.dims.rbegin(), header.dims.rend());
  CONVOY_TRY(volume.data, HostTensor::allocate(TensorDesc::packed(header.type, std::move(reversed))));
  for (std::size_t skip = header.data_offset - kNiftiHeaderBytes; skip > 0;) {
    std::array<std::byte, 4096> extension;
    const std::size_t want = std::min(skip, extension.size());
    CONVOY_TRY(const std::size_t skipped, source.read(extension.data(), want));
    if (skipped < want) {
      return Error{ErrorCode::corrupt, fmt::format("byte {}: the file ends before the voxels at byte {}",
                                                   header.data_offset - skip + skipped, header.data_offset)};
    }
    skip -= skipped;
  }
  CONVOY_TRY(const std::size_t read, source.read(volume.data.data.get(), header.data_bytes));
  if (read < header.data_bytes) {
    return Error{
        ErrorCode::corrupt,
        fmt::format("byte {}: the file ends too early: dims {} of {} need {} bytes, {} are there",
                    header.data_offset + read, to_string(header.dims), name_of(header.type), header.data_bytes, read)};
  }
  std::byte extra;
  CONVOY_TRY(const std::size_t past_end, source.read(&extra, 1));  // also checks the gzip checksum
  if (past_end > 0) {
    return Error{ErrorCode::corrupt,
                 fmt::format("byte {}: the file goes on past its {} voxel bytes", total, header.data_bytes)};
  }
  if (header.swap_bytes) {
    const std::size_t size = size_of(header.type);
    std::byte* at = volume.data.data.get();
    for (std::size_t i = 0; i < header.data_bytes; i += size) std::reverse(at + i, at + i + size);
  }
  volume.header = std::move(header);
  return volume;
}

Result<std::vector<std::byte>> gzip(Bytes plain) {
  z_stream stream = {};
  // Level 1: label volumes are long runs, and higher levels take many times as long for little.
  if (deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error{ErrorCode::out_of_memory, "zlib could not start"};
  }
  std::vector<std::byte> out;
  std::size_t at = 0;
  int code = Z_OK;
  std::vector<std::byte> buffer(1 << 16);
  while (code == Z_OK) {
    const std::size_t in = std::min<std::size_t>(plain.size() - at, 1 << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plain.data() + at));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = deflate(&stream, at + in == plain.size() ? Z_FINISH : Z_NO_FLUSH);
    at += in - stream.avail_in;
    out.insert(out.end(), buffer.begin(), buffer.end() - stream.avail_out);
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) return Error{ErrorCode::internal, fmt::format("zlib: deflate gave {}", code)};
  return out;
}

}  // namespace

Result<Volume> parse_nifti(Bytes file, const std::string& name) {
  auto volume = parse(file);
  if (!volume.ok()) return volume.error().within(name);
  return volume;
}

Result<Volume> read_nifti(const std::string& path) {
  CONVOY_TRY(const std::vector<std::byte> file, read_file(path));
  return parse_nifti(file, path);
}

Result<std::vector<std::byte>> format_nifti(const HostTensor& voxels, const NiftiHeader& like, bool compress) {
  const Dims& reversed = voxels.desc.dims;
  for (const std::int64_t dim : reversed) {
    if (dim < 1 || dim > INT16_MAX || reversed.size() > 7) {
      return Error{ErrorCode::invalid_argument, fmt::format("dims {} do not fit into a NIfTI-1 file (7 of up to {})",
                                                            to_string(reversed), INT16_MAX)};
    }
  }
  const auto header = make_nifti_header(like, voxels.desc.type, Dims(reversed.rbegin(), reversed.rend()));
  std::vector<std::byte> plain(352);
  std::copy(header.begin(), header.end(), plain.begin());
  const auto bytes = static_cast<std::size_t>(voxels.desc.bytes());
  plain.insert(plain.end(), voxels.data.get(), voxels.data.get() + bytes);
  if (!compress) return plain;
  return gzip(plain);
}

Result<void> write_nifti(const std::string& path, const HostTensor& voxels, const NiftiHeader& like) {
  CONVOY_TRY(const std::vector<std::byte> file, format_nifti(voxels, like, lower_extension(path) != "nii"));
  return write_file(path, file);
}

}  // namespace convoy::io
