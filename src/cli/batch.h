// Samples put together into one run of a network, and its outputs taken apart again.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cli/inputs.h"

namespace convoy::cli {

struct Batch {
  std::vector<Sample> samples;
  std::vector<HostTensor> tensors;  // one per network input
  std::int64_t items = 1;           // of the run
  int repeats = 0;                  // of the last sample, to fill the batch
  std::vector<TensorDesc> descs() const;
};

// How many samples a run takes: `batch` of them where they are single items; 1 where a sample has a batch of its own.
std::size_t samples_a_run(const Network& network, const Sample& first, std::int64_t batch);

// `samples` (at least one) as a run of `batch` items; where there are fewer, the last is repeated. Inputs without a
// batch have the first sample's. Errors name both files where their sizes differ.
Result<Batch> assemble(const Network& network, std::vector<Sample> samples, std::int64_t batch);

// The part of a run's outputs that belongs to one of its samples. Errors: an output without the batch as its first dim,
// where there are several.
Result<std::vector<HostTensor>> outputs_of(const Network& network, const Batch& batch, std::size_t sample,
                                           const std::vector<HostTensor>& outputs);

// A network prepared for the sizes that come; for other sizes it is prepared anew.
class Runner {
 public:
  Runner(const Program& program, const Network& network, const NetworkOptions& options)
      : program_(program), network_(network), options_(options) {}

  // `fresh`: whether the session was made for this run.
  struct Run {
    std::vector<HostTensor> outputs;
    RunStatistics statistics;
    bool fresh = false;
  };
  Result<Run> run(std::span<const HostTensor> tensors);

  Session& session() const { return *session_; }               // of the last run
  double prepare_seconds() const { return prepare_seconds_; }  // of all of them
  int prepared() const { return prepared_; }                   // how often

 private:
  const Program& program_;
  const Network& network_;
  const NetworkOptions& options_;
  std::vector<TensorDesc> descs_;
  std::unique_ptr<Session> session_;
  double prepare_seconds_ = 0;
  int prepared_ = 0;
};

}  // namespace convoy::cli
