// Streams and events of a device. Streams that a caller gives are plain CUstreams (null: the legacy default stream).
#pragma once

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

class Stream {
 public:
  // Not synchronised with the default stream.
  static Result<Stream> create(int ordinal);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();  // doesn't wait: work in flight ends first

  CUstream get() const { return stream_; }
  int ordinal() const { return ordinal_; }
  // Waits for everything enqueued; errors of kernels that went wrong come out here.
  Result<void> synchronize() const;

 private:
  Stream(const DriverApi* api, CUstream stream, int ordinal) : api_(api), stream_(stream), ordinal_(ordinal) {}
  const DriverApi* api_;
  CUstream stream_;
  int ordinal_;
};

// Waits for a caller's stream. `purpose` goes into the error.
Result<void> synchronize(CUstream stream, std::string_view purpose);

// A point in a stream, with its time.
class Event {
 public:
  static Result<Event> create(int ordinal);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  CUevent get() const { return event_; }
  Result<void> record(CUstream stream) const;
  Result<void> record_in_capture(CUstream stream) const;  // a node of the graph: recorded at each launch of it
  Result<void> synchronize() const;
  Result<bool> reached() const;
  Result<void> wait_in(CUstream stream) const;  // that stream goes on only after this point

  // Of two events that were reached; about half a microsecond fine.
  static Result<double> seconds(const Event& begin, const Event& end);

 private:
  Event(const DriverApi* api, CUevent event) : api_(api), event_(event) {}
  const DriverApi* api_;
  CUevent event_;
};

}  // namespace convoy::cuda
