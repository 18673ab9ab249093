// A program's heuristic queries, answered by rules, filters and known times. The program's own filters and limits stay
// in force: it is given configurations, in an order.
#pragma once

#include <cudnn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "interposer/choices.h"
#include "interposer/decision.h"
#include "interposer/recorder.h"
#include "interposer/snapshot.h"

namespace convoy::interposer {

// cudnnBackendGetAttribute of a heuristic's results.
struct Ask {
  cudnnBackendDescriptor_t heuristic;
  const Snapshot& snapshot;                  // of the heuristic
  GraphRecord& row;                          // of its graph
  std::int64_t requested;                    // 0: how many there are
  cudnnBackendDescriptor_t* configurations;  // so many; null: none
  bool benchmark;                            // the program times what it is offered
};

struct Answered {
  cudnnStatus_t status;
  std::int64_t count;  // of the caller's configurations that were filled; asked how many: how many there are
  std::optional<std::int64_t> cudnns = {};  // from this one on they are cuDNN's, in its own order; nothing: they aren't
};

class Steering {
 public:
  Steering(Choices choices, Recorder& recorder) : choices_(std::move(choices)), recorder_(recorder) {}

  const Choices& choices() const { return choices_; }
  const std::string& version() const { return version_; }  // of the program's cuDNN

  // Before a heuristic is finalized: cuDNN is told of sm-count. Whether it was.
  bool prepare(cudnnBackendDescriptor_t heuristic);
  // It could not be finalized so: cuDNN is told what the program wanted, whose own target is `programs`. What to return
  // instead of trying again: nothing, unless strict.
  std::optional<cudnnStatus_t> unprepare(cudnnBackendDescriptor_t heuristic, std::optional<std::int32_t> programs);

  // Nothing: there is nothing to say of the graph, so cuDNN answers.
  std::optional<Answered> answer(const Ask& ask);

  // The rule that the graph obeys, if any: the first that matches.
  std::optional<std::size_t> rule_of(const GraphRecord& row) const;
  // What became of one that names an engine which the program is not offered; an empty `reason`: it stands in for a
  // plan. What cuDNN's plan is to answer instead: nothing, unless strict.
  std::optional<cudnnStatus_t> substituted(GraphRecord& row, std::size_t rule, const std::string& reason);

  // A plan could not be built: if it is of what was put first, it is not put first again.
  void failed(GraphRecord& row, const Candidate& candidate, const std::string& reason);

  // A plan of it ran: the program's own filters let pass what it loses.
  void ran(const GraphRecord& row, const EngineConfig& engine_config);

  // The filter that takes away a configuration that was offered all the same; empty: none.
  std::string forbidden(cudnnBackendDescriptor_t configuration);

  // What belongs to a descriptor that is about to be destroyed: to be freed after it.
  std::shared_ptr<void> forget(cudnnBackendDescriptor_t raw);

  void lock() {  // around fork()
    mutex_.lock();
    choices_.lock();
  }
  void unlock() {
    choices_.unlock();
    mutex_.unlock();
  }

 private:
  std::shared_ptr<Decision> decision_for(const Ask& ask);
  // What plans that ran lose, for its f32 problems or for the others: PyTorch filters TF32 for f32 alone.
  std::atomic<unsigned>& accepted(const GraphRecord& row) { return accepted_[row.is_f32() ? 0 : 1]; }
  void note(GraphRecord& row, const Question& question, const Decision& decision);
  void warn_of(const GraphRecord& row, const Rule& rule, const std::string& reason);
  Answered fill(const Ask& ask, Decision& decision);
  Answered count_behind(const Ask& ask);
  Answered fill_behind(const Ask& ask, const Decision& decision);
  bool warn_once(const std::string& key);
  // Has the problem measured, once, where somebody does that; the program waits.
  void measure(GraphRecord& row);
  void keep(cudnnBackendDescriptor_t raw, std::shared_ptr<void> what);
  std::shared_ptr<void> kept(cudnnBackendDescriptor_t raw);

  Choices choices_;
  Recorder& recorder_;
  const std::string version_ = cudnn_version();
  std::mutex mutex_;
  // Decisions by heuristic, what configurations refer to by configuration.
  std::unordered_map<cudnnBackendDescriptor_t, std::shared_ptr<void>> kept_;
  std::unordered_map<cudnnBackendDescriptor_t, std::string> forbidden_;
  std::atomic<std::size_t> kept_count_{0};  // of both
  std::set<std::string> warned_;
  std::array<std::atomic<unsigned>, 2> accepted_{};
};

}  // namespace convoy::interposer
