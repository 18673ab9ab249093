#include "base/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu.h"

namespace convoy {

void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t most = std::min<std::size_t>(count, detected_cpu_features().logical_cpus);
    try {
      for (std::size_t i = 1; i < most; ++i) helpers.emplace_back(run);
    } catch (const std::system_error&) {  // the others do its part
    }
    run();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace convoy
