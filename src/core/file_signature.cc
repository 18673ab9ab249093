#include "core/file_signature.h"

#include <algorithm>
#include <string_view>

namespace convoy {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExportPyTorch = "export the model to ONNX (torch.onnx.export)";

struct Signature {
  std::size_t at;  // bytes into the file
  std::string_view bytes;
  std::string_view is;
  std::string_view remedy;  // may be empty
};

// The first that fits is it.
constexpr Signature kSignatures[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer, not the file itself",
     "run 'git lfs pull' where it was cloned"},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format", "use the .onnx file that it was made from"},
    {4, "TFL3"sv, "a TensorFlow Lite model", "convert it to ONNX (tf2onnx --tflite)"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras saves models", "convert the model to ONNX (tf2onnx)"},
    {0, "GGUF"sv, "a GGUF file", "it has weights for llama.cpp and no graph"},
    {0, "PK\x03\x04"sv, "a zip archive, as PyTorch and NumPy (.npz) save them",
     "export the model to ONNX (torch.onnx.export), or unpack the archive"},
    {0, "\x80\x02"sv, "a Python pickle, as older PyTorch saves models", kExportPyTorch},
    {0, "\x80\x04"sv, "a Python pickle", kExportPyTorch},
    {0, "\x1f\x8b"sv, "compressed by gzip", "unpack it (gunzip; tar xzf, where it is a .tar.gz)"},
    {257, "ustar"sv, "a tar archive", "unpack it (tar xf)"},
    {0, "BZh"sv, "compressed by bzip2", "unpack it (bunzip2)"},
    {0,
     "\xfd"
     "7zXZ"sv,
     "compressed by xz", "unpack it (unxz)"},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd", "unpack it (unzstd)"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)", ""},
    {0, "\x89PNG"sv, "a PNG picture", ""},
    {0, "\xff\xd8\xff"sv, "a JPEG picture", ""},
    {0, "GIF8"sv, "a GIF picture", "convert it to PNG"},
    {0, "BM"sv, "a BMP picture", "convert it to PNG"},
    {0, "II*\0"sv, "a TIFF picture", "convert it to PNG, which keeps 16 bits"},
    {0, "MM\0*"sv, "a TIFF picture", "convert it to PNG, which keeps 16 bits"},
    {8, "WEBP"sv, "a WebP picture", "convert it to PNG"},
    {4, "ftypavif"sv, "an AVIF picture", "convert it to PNG"},
    {4, "ftyphei"sv, "a HEIC picture", "convert it to PNG or JPEG"},
    {0, "%PDF"sv, "a PDF document", ""},
    {0,
     "\x7f"
     "ELF"sv,
     "a program or library", ""},
};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Weights of Caffe's, a protobuf: a name in letters, then a layer (either version's), which no ONNX message begins
// with.
bool is_caffe_weights(std::string_view bytes) {
  if (bytes.size() < 2 || bytes[0] != '\x0a') return false;
  const auto length = static_cast<unsigned char>(bytes[1]);
  if (length == 0 || length >= 128 || bytes.size() < length + 4U) return false;
  const std::string_view name = bytes.substr(2, length), next = bytes.substr(2U + length);
  const bool letters = std::ranges::all_of(name, [](char c) { return c >= ' ' && c < 127; });
  return letters && (next.starts_with("\xa2\x06") || next.starts_with('\x12') || next.starts_with('\x1a'));
}

// Text: what it begins with decides, white space aside.
std::string text_signature(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string lower(text.substr(0, 64));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html")) {
    return "a web page (HTML), perhaps the one in front of a download: download the file itself";
  }
  if (lower.starts_with("<?xml") || lower.starts_with("<net ")) {
    return "XML; a model of OpenVINO's (.xml and .bin) is to be had as ONNX where it came from";
  }
  if (text.starts_with('<') && has(text, "ir_version")) {
    return "ONNX in its text form: write the binary one (onnx.save(onnx.parser.parse_model(text), 'model.onnx'))";
  }
  if (text.starts_with("ir_version:") || text.starts_with("producer_name:")) {
    return "ONNX as protobuf's text form: write the binary one (google.protobuf.text_format.Parse, then onnx.save)";
  }
  std::string dense(text);
  std::erase_if(dense, [](char c) { return c == ' ' || c == '\t'; });
  if (has(dense, "layer{") || has(dense, "layers{") || has(dense, "input_param{") || has(dense, "input_dim:")) {
    return "a Caffe network (.prototxt): convert it to ONNX (caffe2onnx), with its weights";
  }
  if (text.starts_with("7767517")) return "a model of ncnn's: use the ONNX model that it was made from";
  return "";
}

}  // namespace

std::string file_signature(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "empty (0 bytes): the download or the copy did not get it";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kSignatureBytes));
  for (const Signature& known : kSignatures) {
    if (!text.substr(std::min(known.at, text.size())).starts_with(known.bytes)) continue;
    return std::string(known.is) + (known.remedy.empty() ? "" : ": ") + std::string(known.remedy);
  }
  // Safetensors: the length of a JSON header in eight bytes, then the header.
  if (text.size() > 9 && text.substr(4, 4) == "\0\0\0\0"sv && text[8] == '{') {
    return "a safetensors file: it has weights and no graph; export the model to ONNX (torch.onnx.export)";
  }
  if (is_caffe_weights(text)) {
    return "weights of a Caffe network (.caffemodel): convert it to ONNX (caffe2onnx), with its .prototxt";
  }
  return text_signature(text);
}

}  // namespace convoy
