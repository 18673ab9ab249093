// Calls of cuDNN that are made in a call of ours, or by cuDNN itself: they come by the names that this library stands
// in front of, too, and are not the program's.
#pragma once

namespace convoy::interposer {

class Inside {
 public:
  Inside() { ++depth(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --depth(); }

  // Whether the calling thread is in one.
  static bool now() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
};

}  // namespace convoy::interposer
