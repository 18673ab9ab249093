// What ONNX Runtime is told of errors.
#include "ort/calls.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

namespace convoy::ort {
namespace {

int code = 0;
std::string message;

OrtStatus* create_status(int given, const char* text) {
  static char status;
  code = given;
  message = text;
  return reinterpret_cast<OrtStatus*>(&status);
}

TEST(Guarded, NothingIsThrownIntoOnnxRuntime) {
  std::array<const void*, 512> table{};
  table[0] = reinterpret_cast<const void*>(&create_status);
  const Api api(table.data());
  EXPECT_EQ(guarded(api, []() -> Result<void> { return {}; }), nullptr);
  EXPECT_NE(guarded(api, []() -> Result<void> { return Error{ErrorCode::unsupported, "no such thing"}; }), nullptr);
  EXPECT_EQ(code, kNotImplemented);
  EXPECT_EQ(message, "Convoy: no such thing");
  EXPECT_NE(guarded(api, []() -> Result<void> { throw std::bad_alloc(); }), nullptr);
  EXPECT_EQ(code, kEpFail);
  EXPECT_EQ(message, "Convoy: out of memory");
  EXPECT_NE(guarded(api, []() -> Result<void> { throw std::length_error("too long"); }), nullptr);
  EXPECT_EQ(message, "Convoy: too long");
}

}  // namespace
}  // namespace convoy::ort
