#include "core/file_signature.h"

#include <gtest/gtest.h>

namespace convoy {
namespace {

std::string signature(std::string_view text) { return file_signature(std::as_bytes(std::span(text))); }

TEST(FileSignature, SaysWhatFilesAreAndWhatToDo) {
  using std::string_view_literals::operator""sv;
  const std::string tar = "model.onnx" + std::string(247, '\0') + "ustar";
  const struct {
    std::string_view file, says, remedy;
  } cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS pointer", "git lfs pull"},
      {"\x14\0\0\0ORTM\x0c\0"sv, "ONNX Runtime's own format", ".onnx file"},
      {"\x1c\0\0\0TFL3"sv, "TensorFlow Lite", "tf2onnx"},
      {"PK\x03\x04\0\0\0\0model/data.pkl"sv, "PyTorch", "torch.onnx.export"},
      {"\x80\x02\x8a\x0al"sv, "pickle", "torch.onnx.export"},
      {"\x40\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\""sv, "safetensors", "no graph"},
      {"\n <!DOCTYPE html><html>", "web page", "download"},
      {"<html lang=en>", "web page", "download"},
      {"<\n  ir_version: 10,\n  opset_import: [\"\" : 17]\n>", "text form", "onnx.parser"},
      {"name: \"LeNet\"\nlayer {\n  name: \"data\"\n", "Caffe", "convert it to ONNX"},
      {"layer{name:\"data\" type:\"Input\"}", "Caffe", "convert it to ONNX"},
      {"\x0a\x03net\xa2\x06\x10\x0a\x04"sv, "Caffe", ".prototxt"},
      {"\x0a\x03net\x12\x10\x1a\x04"sv, "Caffe", ".prototxt"},
      {tar, "tar archive", "tar xf"},
      {"<?xml version=\"1.0\"?><net name=", "OpenVINO", "ONNX"},
      {"\x1f\x8b\x08", "gzip", "gunzip"},
      {"\x1f\x8b\x08", "gzip", "tar xzf"},
      {"RIFF\x24\0\0\0WEBPVP8 "sv, "WebP", "PNG"},
      {"", "empty", "download"},
  };
  for (const auto& [file, says, remedy] : cases) {
    EXPECT_NE(signature(file).find(says), std::string::npos) << file << " -> " << signature(file);
    EXPECT_NE(signature(file).find(remedy), std::string::npos) << file << " -> " << signature(file);
  }
  EXPECT_EQ(signature("\x08\x0a\x3a\x55\x0a\x10"), "");       // how an ONNX model begins
  EXPECT_EQ(signature("\x0a\x04\x0a\x01x\x12\x01\x12"), "");  // and a graph
  for (const std::string_view part : {"P", "BM?", "vers", "<"}) signature(part);
}

}  // namespace
}  // namespace convoy
