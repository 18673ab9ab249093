// Memory with red zones before and after it, at exactly the alignment asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace convoy::testing {

class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  // `bytes` at an address that is a multiple of `alignment` and, below 64, of no greater power of two. The memory is
  // filled with 0xFF: NaN in every floating-point type.
  GuardedBuffer(std::size_t bytes, std::size_t alignment);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void fill(unsigned char byte);
  bool intact() const;  // nobody wrote to the red zones

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t total_ = 0;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace convoy::testing
