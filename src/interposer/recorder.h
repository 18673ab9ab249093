// What a process's convolutions were: each distinct one once, with the engines that cuDNN offered for it, the plans
// that were made and how often each ran. Written as JSON lines, a header and then a line a graph; docs/pytorch.md has
// the fields.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "convoy/engine.h"

namespace convoy::interposer {

// A configuration that cuDNN's heuristics offered.
struct Offer {
  Candidate candidate;
  std::vector<std::string> notes;
  friend bool operator==(const Offer&, const Offer&) = default;
};

struct PlanRow {
  Offer offer;
  std::int64_t workspace_bytes = 0;
  std::string failure;  // why it could not be made; empty: it was
  std::atomic<std::int64_t> made{0};
  std::atomic<std::int64_t> calls{0};
};

// What cuDNN's heuristics answered in one mode.
struct Query {
  std::string mode;
  std::vector<Offer> offers;
  std::int64_t asked = 0;  // how often
};

// One graph on one device.
struct GraphRow {
  std::string problem;     // the problem string; empty: it can't be expressed as one
  std::string operations;  // "CONVOLUTION_FORWARD"
  std::string reason;      // why it has no problem string
  std::string device;      // "NVIDIA H200"
  std::vector<Query> queries;
  std::deque<PlanRow> plans;  // at addresses that stay
};

class Recorder {
 public:
  // The row of a graph; the first call makes it. Rows stay until the process ends.
  GraphRow& row(const std::string& problem, const std::string& operations, const std::string& reason,
                const std::string& device);
  void asked(GraphRow& row, const std::string& mode, std::vector<Offer> offers);
  // The plan of an engine configuration; those of the same configuration share a row.
  PlanRow& plan(GraphRow& row, Offer offer, std::int64_t workspace_bytes, std::string failure);

  // All of it, as text.
  std::string lines() const;

  // Around fork().
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void clear();  // in the child; the lock is held

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<GraphRow>> rows_;
  std::vector<std::unique_ptr<GraphRow>> parents_;  // of the process that forked: plans may still name them
};

}  // namespace convoy::interposer
