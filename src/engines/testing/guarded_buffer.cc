#include "engines/testing/guarded_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "convoy/host_tensor.h"

namespace convoy::testing {
namespace {

constexpr std::size_t kRedZone = 512;  // bytes; several vectors
constexpr unsigned char kRed = 0xA5;

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t alignment)
    : total_(bytes + 2 * kRedZone + 2 * alignment), size_(bytes) {
  memory_ = allocate_aligned(total_ + alignment);
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), kRed, total_);
  // allocate_aligned gives a multiple of 64.
  const std::size_t start = (kRedZone + alignment - 1) / alignment * alignment;
  data_ = memory_.get() + start;
  if (alignment < 64 && reinterpret_cast<std::uintptr_t>(data_) % (2 * alignment) == 0) data_ += alignment;
  fill(0xFF);
}

void GuardedBuffer::fill(unsigned char byte) {
  if (size_ != 0) std::memset(data_, byte, size_);
}

bool GuardedBuffer::intact() const {
  const auto is_red = [](std::byte b) { return b == static_cast<std::byte>(kRed); };
  return std::all_of(memory_.get(), data_, is_red) && std::all_of(data_ + size_, memory_.get() + total_, is_red);
}

}  // namespace convoy::testing
