// Where a network's steps run.
#pragma once

#include "convoy/engine.h"
#include "device/device.h"

namespace convoy::network {

// A device, and what plans for it are made for.
struct Place {
  const Device* device = nullptr;
  PlanRequest request = {};
};

// Of the session's: what a step runs on. One is the calling thread.
enum class Threads { all, one };

// What plans for so many threads of a place are made for.
inline PlanRequest request_on(const Place& place, Threads threads) {
  PlanRequest request = place.request;
  if (threads == Threads::one) request.threads = 1;
  return request;
}

}  // namespace convoy::network
