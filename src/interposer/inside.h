// Calls of cuDNN that are made in a call of ours, or by cuDNN itself: they come by the names that this library stands
// in front of, too, and are not the program's.
#pragma once

#include "interposer/fast_path.h"

namespace convoy::interposer {

class Inside {
 public:
  Inside() { ++of_thread.inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --of_thread.inside; }

  // Whether the calling thread is in one.
  static bool now() { return of_thread.inside > 0; }
};

}  // namespace convoy::interposer
