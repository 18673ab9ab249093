// What cuDNN answers about one problem on one device: its operation graph, which of its engines take it, with which
// knobs and notes, and what its heuristics would choose. Each question is asked once and kept.
//
// From cuDNN 9.8 on the device is described to cuDNN by its properties, so all of this works without a GPU, for any
// GPU. Older versions need a handle on the device itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "engines/cudnn/configuration.h"
#include "engines/cudnn/descriptor.h"
#include "engines/cudnn/graph.h"

namespace convoy::cudnn {

inline constexpr int kFirstVersionWithDeviceProperties = 90800;
inline constexpr std::int64_t kAutomatic = -1;  // a knob value: cuDNN chooses (it writes -1 itself in plans' JSON)

struct Verdict {
  std::optional<Refusal> refusal;
  std::vector<Knob> knobs;  // first the heuristics' best values for this engine, otherwise kAutomatic
  std::vector<std::string> notes;
  int rank = -1;  // of the engine's best pick in the heuristics' order; -1: they don't name it
};

class Survey {
 public:
  // Preconditions: the problem is valid, inside of limits.h, without tensors over kMostElements. With `target_sms` (0:
  // all) persistent kernels start no more blocks: the engines and heuristics of a device that this process sees have an
  // attribute for it, which those of 9.19 refuse for a described device. That one is described with so many SMs.
  // Kernels that are not persistent start as many blocks as before; plans are checked for it.
  Survey(const Api& api, const ConvProblem& problem, const CudaDevice& device, int target_sms);

  const ConvProblem& problem() const { return problem_; }
  const Graph* graph() const { return refusal_ ? nullptr : graph_.get(); }

  // Why cuDNN does not accept the problem at all: no engine is asked then.
  const std::optional<Refusal>& refusal() const { return refusal_; }

  // Whether the device is there, not only described.
  bool sees_device() const { return sees_device_; }

  // Any number of threads may ask. The first group asks cuDNN's heuristics once, in mode A (unless that does not name
  // the engine); the second in all modes.
  // Why the engine does not take the problem.
  std::optional<Refusal> refusal(std::int64_t engine);
  std::vector<std::string> notes(std::int64_t engine);
  // All of its knobs, with the values of its best pick: the first ones of Verdict::knobs.
  KnobValues default_knobs(std::int64_t engine);

  // What mode A says, best first. Its places are what a query costs, so they are asked for in parts, and further parts
  // only where those before do not tell: how many places so many parts have, and where an engine is in them.
  struct RankedPick {
    std::size_t rank;
    KnobValues knobs;
  };
  static constexpr int kParts = 2;  // the first place, all
  std::size_t named(int parts);
  std::optional<RankedPick> named(std::int64_t engine, int parts);
  // The first engine of the list that takes the problem; where none does, of all picks.
  std::optional<std::int64_t> first_taker();
  // The rank of a configuration among all picks, or else of the engine's best; nothing: they don't name it. One that
  // mode A names is found there.
  std::optional<std::size_t> rank(std::int64_t engine, const KnobValues& knobs);

  Verdict ask(std::int64_t engine);
  // Best first: heuristic mode A, what mode B adds, and the fallbacks.
  std::vector<Pick> picks();
  std::size_t pick_count();
  std::optional<Pick> best_pick(std::int64_t engine);  // nothing: they don't name it

  // How often the heuristics were asked, of up to three modes.
  int queries();

  // A plan, finalised for the device. The error is cuDNN's.
  Result<Descriptor> plan(std::int64_t engine, const KnobValues& knobs);

 private:
  struct Engine {
    Descriptor descriptor;
    std::optional<Refusal> refusal;
    bool configured = false;  // it was asked for its default configuration, too
    std::vector<std::string> notes;
    KnobValues default_knobs;
    std::optional<Verdict> verdict;  // once it was asked for
  };
  Engine& made_locked(std::int64_t index);  // with its notes
  Engine& engine_locked(std::int64_t index);
  void look_locked(int parts);
  // The first place of mode A's list whose pick is wanted.
  template <class Wanted>
  std::optional<std::size_t> named_locked(Wanted wanted, int parts = kParts);
  const std::vector<Pick>& picks_locked();
  Descriptor heuristic(cudnnBackendHeurMode_t mode);
  void take_locked(const Descriptor& heuristic, std::int64_t most);
  const Pick* best_locked(std::int64_t engine);
  std::optional<Refusal> make_engine(Engine& engine, std::int64_t index) const;
  std::optional<Refusal> configure(Engine& engine, std::int64_t index);
  Descriptor configuration(const Descriptor& engine, const KnobValues& knobs) const;
  Refusal refused(const Failure& failure, std::string_view what) const;

  const Api& api_;
  const ConvProblem problem_;
  const CudaDevice device_;
  std::int32_t target_sms_ = 0;             // of engines and heuristics; 0: all, or the device is described with fewer
  cudnnHandle_t handle_ = nullptr;          // where the version knows no device properties
  const Descriptor* properties_ = nullptr;  // null: by the handle
  bool sees_device_ = false;
  std::unique_ptr<Graph> graph_;
  std::optional<Refusal> refusal_;

  std::mutex mutex_;
  std::map<std::int64_t, Engine> engines_;
  Descriptor mode_a_;  // until all of it was asked for
  int parts_ = 0;      // of its list, so many are known
  bool all_ = false;   // and the other modes' lists
  std::vector<Pick> picks_;
  std::size_t named_ = 0;  // so many of them by mode A
  int queries_ = 0;
};

// The survey of a problem, kept for the last few hundred problems of the process. Error: there is no cuDNN.
Result<std::shared_ptr<Survey>> survey(const ConvProblem& problem, const CudaDevice& device, int target_sms);

}  // namespace convoy::cudnn
