// What cuDNN refused to finalize, with what the program had told it: for `convoy exec --diagnose`.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "interposer/snapshot.h"

namespace convoy::interposer {

class Failures {
 public:
  // `status`: by name; `message`: cuDNN's words. `problem`, `candidate`: empty where there is none.
  void add(const Snapshot& snapshot, const std::string& status, const std::string& message, const std::string& problem,
           const std::string& candidate);

  // A JSON object a line, different failures once, with a count:
  // {"failure":{"descriptor":..,"status":..,"message":..,"attributes":{..},"problem":..,"count":N}}
  // Descriptors that an attribute names are objects in it. A plan has the `candidate` instead of attributes.
  std::string lines() const;
  std::int64_t left_out() const;  // beyond the first thousand different ones

  // Around fork().
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void clear();  // in the child; the lock is held

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> counts_;
  std::int64_t left_out_ = 0;
};

}  // namespace convoy::interposer
