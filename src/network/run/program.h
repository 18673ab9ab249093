// A lowered network: steps over memory slots, made once and run many times.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/engine.h"
#include "convoy/host_tensor.h"
#include "convoy/network.h"
#include "device/device.h"
#include "network/assign/memory_plan.h"
#include "network/cost/place.h"

namespace convoy::network {

class Step {
 public:
  virtual ~Step() = default;
  // A pointer per input and output slot of its ProgramStep; null where the slot is kAbsent.
  virtual Result<void> execute(std::span<const void* const> inputs, std::span<void* const> outputs,
                               const ExecContext& context) const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::size_t retained_bytes() const { return 0; }
};

// Where a slot's bytes are.
enum class Home { arena, input, output, constant };

// A value in one layout, in one place.
struct Slot {
  TensorDesc desc;
  Home home = Home::arena;
  int index = 0;        // arena: its storage; input, output: which one
  HostTensor constant;  // constant: the bytes
  int place = 0;        // of Makers::places; inputs and outputs are on the processor
  Buffer there = {};    // constant, elsewhere: a copy of the bytes, made by the session
  int copy_of = -1;     // elsewhere: the graph's input whose bytes are copied here, and that nobody changes here
  std::vector<int> steps = {};  // that write it
  std::int64_t offset = 0;      // arena: in the storage, in bytes
};

struct ProgramStep {
  std::unique_ptr<Step> step;
  int place = 0;         // whose queue and workspace it gets
  bool crosses = false;  // copies between the processor and its place; else all it touches lies there
  Threads threads = Threads::all;
  // A convolution that can be switched: which of PrepareSettings::candidates it has, a step for each but the first, and
  // which one runs: 0 is `step`.
  int switchable = -1;
  std::vector<std::unique_ptr<Step>> others;
  std::size_t active = 0;
  std::vector<int> inputs;   // slots
  std::vector<int> outputs;  // slots
  NetworkStep info;

  const Step& running() const { return active == 0 ? *step : *others[active - 1]; }
};

// An output that is some other slot's value (a graph input, a constant, another output): copied at the end.
struct OutputCopy {
  int slot = 0;
  int output = 0;
};

// A piece of a place's arena; several slots may share one (in place), or be pieces of it.
struct Storage {
  Lifetime life;
  int place = 0;
  std::int64_t offset = 0;
};

// What a place has to have.
struct Footprint {
  std::int64_t arena_bytes = 0;
  std::size_t workspace_bytes = 0;
};

struct Program {
  std::vector<Slot> slots;
  std::vector<ProgramStep> steps;
  std::vector<Storage> storages;
  std::vector<Footprint> footprints;  // by place
  std::vector<OutputCopy> copies;
  std::size_t weight_bytes = 0;
};

}  // namespace convoy::network
