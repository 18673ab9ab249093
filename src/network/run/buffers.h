// Memory of tensors that come and go while a network runs. It is kept when a tensor goes, for the next of about that
// size: memory from the system would be mapped and cleared page by page each time, which takes longer than a copy.
#pragma once

#include <map>
#include <memory>

#include "convoy/host_tensor.h"

namespace convoy::network {

class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  static std::shared_ptr<Buffers> make() { return std::shared_ptr<Buffers>(new Buffers); }

  // From any number of threads. A tensor may outlive the one who has these.
  Result<HostTensor> allocate(TensorDesc desc);

 private:
  Buffers() = default;
  std::shared_ptr<std::byte> take(std::size_t& bytes);
  void give_back(std::shared_ptr<std::byte> buffer, std::size_t bytes);

  // fork_mutex guards what follows.
  std::multimap<std::size_t, std::shared_ptr<std::byte>> free_;  // by bytes
  std::size_t free_bytes_ = 0;
};

}  // namespace convoy::network
