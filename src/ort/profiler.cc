#include "ort/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace convoy::ort {
namespace {

constexpr std::size_t kMostEvents = 1000000;  // as many as ONNX Runtime keeps of its own
constexpr int kKernel = 2;                    // OrtProfilingEventCategory

}  // namespace

std::int64_t profile_clock() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Profiles::Profile final : OrtEpProfilerImpl {
  explicit Profile(Profiles& in) : OrtEpProfilerImpl{}, owner(in) {
    ort_version_supported = kProfilingVersion;
    Release = [](OrtEpProfilerImpl* self) {
      auto* const profile = static_cast<Profile*>(self);
      profile->stop();
      delete profile;
    };
    StartProfiling = [](OrtEpProfilerImpl* self, std::int64_t offset) -> OrtStatus* {
      auto& profile = *static_cast<Profile*>(self);
      profile.shift = offset - profile_clock();
      const std::lock_guard lock(profile.owner.mutex_);
      profile.owner.all_.push_back(&profile);
      ++profile.owner.count_;
      return nullptr;
    };
    EndProfiling = [](OrtEpProfilerImpl* self, OrtProfilingEventsContainer* events) -> OrtStatus* {
      auto& profile = *static_cast<Profile*>(self);
      profile.stop();
      const auto written = profile.owner.write(profile, events);
      profile.events.clear();
      return written.ok() ? nullptr : status_of(profile.owner.api_, written.error());
    };
  }
  void stop() {
    const std::lock_guard lock(owner.mutex_);
    owner.count_ -= static_cast<int>(std::erase(owner.all_, this));
  }

  Profiles& owner;
  std::int64_t shift = 0;  // from the clock to the profile's time
  std::vector<Event> events;
};

OrtEpProfilerImpl* Profiles::create() { return new Profile(*this); }

void Profiles::add(const convoy_session* session, std::int64_t begin) {
  convoy_session_info info = CONVOY_SESSION_INFO_INIT;
  if (convoy_session_describe(session, &info) != CONVOY_OK) return;
  std::vector<Event> made;
  for (std::size_t i = 0; i < info.steps; ++i) {
    convoy_step step = CONVOY_STEP_INIT;
    if (convoy_session_step(session, i, &step) != CONVOY_OK) return;
    const auto nanoseconds = static_cast<std::int64_t>(step.seconds * 1e9);
    made.push_back({step.nodes, step.engine, step.output_shape, begin, nanoseconds, gettid()});
    begin += nanoseconds;
  }
  const std::lock_guard lock(mutex_);
  for (Profile* profile : all_) {
    if (profile->events.size() < kMostEvents) profile->events.insert(profile->events.end(), made.begin(), made.end());
  }
}

Result<void> Profiles::write(const Profile& profile, OrtProfilingEventsContainer* events) const {
  constexpr const char* kKeys[] = {"provider", "engine", "output"};
  for (const Event& event : profile.events) {
    const char* const values[] = {"ConvoyExecutionProvider", event.engine.c_str(), event.output.c_str()};
    OrtProfilingEvent* made = nullptr;
    CONVOY_CHECK(done(api_, ep_api_.CreateProfilingEvent(kKernel, getpid(), event.thread, event.name.c_str(),
                                                         (event.begin + profile.shift) / 1000, event.nanoseconds / 1000,
                                                         kKeys, values, std::size(kKeys), &made)));
    const auto added = done(api_, ep_api_.ProfilingEventsContainer_AddEvents(events, &made, 1));
    ep_api_.ReleaseProfilingEvent(made);
    CONVOY_CHECK(added);
  }
  return {};
}

}  // namespace convoy::ort
