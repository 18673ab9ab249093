// The model of what a configuration takes that most families share: a memory-bound, an issue-bound and a time of shared
// memory, of which the largest counts, and a launch.
#pragma once

#include "engines/cuda/depthwise/family.h"

namespace convoy::cuda {

inline constexpr double kClock = 1.98e9;

// What a configuration does: of a thread's tile ...
struct Work {
  double products = 0, loads = 0, converts = 0, stores = 0, tiles = 1, weights = 0;
  double shared = 0;         // elements of shared memory, times the conflicts between its banks
  double threads_tiles = 0;  // ... and how many tiles there are
  double waits = 0;          // of a thread for memory, one after another
  double channels = 1;       // of a thread
  double in_flight = 1;      // threads with loads of 4 bytes that wait for as much as one of its threads
};

// What that costs a family of kernels.
struct Costs {
  double product, load, convert, store, tile, weight;  // issue slots of a lane
  double shared;                                       // slots of shared memory
  double memory;                                       // terabytes a second
  double few_threads;  // threads a processor with which waiting for memory takes twice as long
  double tail;         // share of a last wave's empty places that counts
  double unhidden;     // share of the shorter times that is not hidden behind the longest
  double launch;       // microseconds
};
// Where a family doesn't say otherwise they are fitted, by least squares of logarithms, to what an H200 took for 128
// images of the depthwise layers of ConvNeXt-T, MobileNetV2 and EfficientNet-B0, f32 and bf16, several tiles each.
// Where the last wave's share could not be told from these it is a guess.
struct FamilyCosts {
  Costs forward, wgrad;
  const Costs& of(const DepthwiseShape& shape) const { return shape.pass == Pass::wgrad ? wgrad : forward; }
};

// `blocks.balance` has what else slows the blocks down.
double fitted_seconds(const DepthwiseShape& shape, const Work& work, const Costs& costs, const DepthwiseBlocks& blocks,
                      const CudaDevice& device);

// What a problem reads and writes at least.
double tensor_bytes(const DepthwiseShape& shape);

}  // namespace convoy::cuda
