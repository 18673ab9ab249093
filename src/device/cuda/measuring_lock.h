// Who may measure on a GPU. A time that was taken beside somebody else's kernels says nothing, so processes that
// measure on one device have it one after another, a few milliseconds to a second each; what the host does in between
// (compiling) goes on side by side.
#pragma once

namespace convoy::cuda {

class MeasuringLock {
 public:
  // Waits until nobody else has the device's lock, in this process or another of this machine. A thread must not take
  // two. Where the folder for temporary files takes no lock file, nobody waits for anybody.
  explicit MeasuringLock(int ordinal);
  ~MeasuringLock();
  MeasuringLock(const MeasuringLock&) = delete;
  MeasuringLock& operator=(const MeasuringLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace convoy::cuda
