// Scratch memory that plans run in.
#pragma once

#include <cstddef>
#include <memory>

#include "convoy/result.h"

namespace convoy {

// A 64-byte aligned buffer that grows to the largest size asked for and is kept between executions. One user at a time.
class Workspace {
 public:
  // At least `bytes` (null for 0), its contents unspecified; what an earlier call returned is invalid once it grows.
  Result<void*> reserve(std::size_t bytes);
  std::size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t capacity_ = 0;
};

}  // namespace convoy
