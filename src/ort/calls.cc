#include "ort/calls.h"

#include <iterator>

namespace convoy::ort {

Result<void> done(const Api& api, OrtStatus* status) {
  if (status == nullptr) return {};
  Error error{ErrorCode::internal, "ONNX Runtime: " + std::string(api.GetErrorMessage(status))};
  api.ReleaseStatus(status);
  return error;
}

Result<void> done(convoy_status status) {
  if (status == CONVOY_OK) return {};
  constexpr ErrorCode kCodes[] = {ErrorCode::internal,     ErrorCode::invalid_argument, ErrorCode::not_found,
                                  ErrorCode::corrupt,      ErrorCode::unsupported,      ErrorCode::out_of_memory,
                                  ErrorCode::wrong_result, ErrorCode::internal,         ErrorCode::device_failed};
  const auto code = static_cast<std::size_t>(status);
  return Error{code < std::size(kCodes) ? kCodes[code] : ErrorCode::internal, convoy_error()};
}

OrtStatus* status_of(const Api& api, const Error& error) {
  const int code = error.code == ErrorCode::invalid_argument || error.code == ErrorCode::not_found ? kInvalidArgument
                   : error.code == ErrorCode::unsupported                                          ? kNotImplemented
                                                                                                   : kEpFail;
  return api.CreateStatus(code, ("Convoy: " + error.message).c_str());
}

Result<TensorInfo> info_of(const Api& api, const OrtTensorTypeAndShapeInfo* info) {
  TensorInfo made;
  std::size_t rank = 0;
  CONVOY_CHECK(done(api, api.GetTensorElementType(info, &made.type)));
  CONVOY_CHECK(done(api, api.GetDimensionsCount(info, &rank)));
  made.dims.resize(rank);
  CONVOY_CHECK(done(api, api.GetDimensions(info, made.dims.data(), rank)));
  return made;
}

Result<TensorInfo> info_of(const Api& api, const OrtValue* tensor) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  CONVOY_CHECK(done(api, api.GetTensorTypeAndShape(tensor, &info)));
  Result<TensorInfo> made = info_of(api, info);
  api.ReleaseTensorTypeAndShapeInfo(info);
  return made;
}

void Logger::operator()(LogLevel level, const std::string& message) const {
  if (logger_ == nullptr) return;
  if (OrtStatus* failed = api_->Logger_LogMessage(logger_, level, message.c_str(), "convoy", 0, "convoy")) {
    api_->ReleaseStatus(failed);
  }
}

}  // namespace convoy::ort
