// Whose turn it is to use a GPU. A time that was taken beside somebody else's kernels says nothing, so processes that
// measure on one device take turns, a few milliseconds to a second each; what the host does in between (compiling) goes
// on side by side.
#pragma once

namespace convoy::cuda {

class Turn {
 public:
  // Waits until nobody else has the device's turn, in this process or another of this machine. A thread must not take
  // two. Where the folder for temporary files takes no lock file, nobody waits for anybody.
  explicit Turn(int ordinal);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace convoy::cuda
