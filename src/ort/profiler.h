// Steps of Convoy's in ONNX Runtime's profile: an event each, named by the nodes that it computes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "convoy.h"
#include "ort/calls.h"

namespace convoy::ort {

// Nanoseconds of the clock that profiles go by.
std::int64_t profile_clock();

// The profiles that are being written of one provider's runs. From any number of threads.
class Profiles {
 public:
  explicit Profiles(const Api& api, const void* const* ep_api) : api_(api), ep_api_(ep_api) {}

  // OrtEp::CreateProfiler.
  OrtEpProfilerImpl* create();
  bool any() const { return count_.load(std::memory_order_relaxed) > 0; }
  // The steps of the session's last run, which began at `begin`.
  void add(const convoy_session* session, std::int64_t begin);

 private:
  struct Event {
    std::string name, engine, output;
    std::int64_t begin = 0, nanoseconds = 0;
    int thread = 0;
  };
  struct Profile;
  Result<void> write(const Profile& profile, OrtProfilingEventsContainer* events) const;

  const Api& api_;
  const ProfilingApi ep_api_;
  std::atomic<int> count_ = 0;
  std::mutex mutex_;
  std::vector<Profile*> all_;
};

}  // namespace convoy::ort
