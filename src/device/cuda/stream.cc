#include "device/cuda/stream.h"

#include <fmt/format.h>

#include <utility>

#include "device/cuda/device.h"
#include "device/cuda/errors.h"

namespace convoy::cuda {

Result<Stream> Stream::create(int ordinal) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  CUstream stream = nullptr;
  CONVOY_CHECK(check(scope.api().StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate",
                     fmt::format("cuda:{}", ordinal)));
  return Stream(&scope.api(), stream, ordinal);
}

Stream::Stream(Stream&& other) noexcept
    : api_(other.api_), stream_(std::exchange(other.stream_, nullptr)), ordinal_(other.ordinal_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  std::swap(ordinal_, other.ordinal_);
  return *this;
}

Stream::~Stream() {
  if (stream_ != nullptr) api_->StreamDestroy(stream_);
}

Result<void> Stream::synchronize() const {
  return check(api_->StreamSynchronize(stream_), "cuStreamSynchronize", fmt::format("a stream of cuda:{}", ordinal_));
}

Result<void> synchronize(CUstream stream, std::string_view purpose) {
  CONVOY_TRY(const DriverApi* api, driver());
  return check(api->StreamSynchronize(stream), "cuStreamSynchronize", purpose);
}

Result<Event> Event::create(int ordinal) {
  CONVOY_TRY(const DeviceScope scope, DeviceScope::enter(ordinal));
  CUevent event = nullptr;
  CONVOY_CHECK(
      check(scope.api().EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate", fmt::format("cuda:{}", ordinal)));
  return Event(&scope.api(), event);
}

Event::Event(Event&& other) noexcept : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

Event::~Event() {
  if (event_ != nullptr) api_->EventDestroy(event_);
}

Result<void> Event::record(CUstream stream) const {
  return check(api_->EventRecord(event_, stream), "cuEventRecord", "timing");
}

Result<void> Event::record_in_capture(CUstream stream) const {
  return check(api_->EventRecordWithFlags(event_, stream, CU_EVENT_RECORD_EXTERNAL), "cuEventRecordWithFlags",
               "timing");
}

Result<void> Event::synchronize() const {
  return check(api_->EventSynchronize(event_), "cuEventSynchronize", "timing");
}

Result<bool> Event::reached() const {
  const CUresult status = api_->EventQuery(event_);
  if (status == CUDA_ERROR_NOT_READY) return false;
  CONVOY_CHECK(check(status, "cuEventQuery", "timing"));
  return true;
}

Result<void> Event::wait_in(CUstream stream) const {
  return check(api_->StreamWaitEvent(stream, event_, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent", "ordering");
}

Result<double> Event::seconds(const Event& begin, const Event& end) {
  float milliseconds = 0;
  CONVOY_CHECK(
      check(begin.api_->EventElapsedTime(&milliseconds, begin.event_, end.event_), "cuEventElapsedTime", "timing"));
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace convoy::cuda
