// A step whose shapes are known only when it runs: it is planned for what reaches it, and makes its outputs' memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "network/graph/graph.h"
#include "network/prepare/session.h"
#include "network/run/buffers.h"

namespace convoy::network {

// Whose threads and memory a run has.
struct DynamicContext {
  ThreadTeam& team;
  Buffers& buffers;
};

class DynamicStep {
 public:
  virtual ~DynamicStep() = default;
  // A tensor (packed nchw) for each input and output; null, or without data, for those that are left out. From any
  // number of threads at once, as far as the team is each one's own.
  virtual Result<std::vector<HostTensor>> run(std::span<const HostTensor* const> inputs,
                                              const DynamicContext& context) = 0;
  virtual std::string implementation() const = 0;  // for reports
};

// An operator. Plans are kept for the shapes, and the values that decide, of its last few runs. `constants`: of the
// inputs that never change; null: of others. They outlive it.
std::unique_ptr<DynamicStep> make_operator_step(const Node& node, std::vector<const HostTensor*> constants,
                                                const PrepareSettings& settings);

// A graph without If and Loop, prepared as a network of its own for the shapes of its inputs, and for the values of
// those that decide shapes (`by_value`, one per input). Sessions are kept while they are few or small.
std::unique_ptr<DynamicStep> make_session_step(Graph graph, std::vector<bool> by_value,
                                               const PrepareSettings& settings);

}  // namespace convoy::network
