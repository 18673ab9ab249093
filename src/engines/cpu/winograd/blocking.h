// How a Winograd convolution is cut into blocks, and what that is predicted to cost.
#pragma once

#include <cstdint>

namespace convoy::cpu {

// A problem from the products' side; all of one group but for `groups`.
struct WinogradSize {
  std::int64_t points;  // of a tile: (m+2)^2, 1D: m+2
  std::int64_t tiles;   // of all images and depths
  std::int64_t groups;
  std::int64_t channels;  // read
  std::int64_t depth_taps;
  std::int64_t reduction;  // c of a product, depth taps included
  std::int64_t vectors;    // of output channels, padding of a blocked out included
  int lanes;
  int element_bytes;
  int max_rows;
  int threads;
  std::int64_t l2_bytes;  // a core's
};

struct WinogradBlocking {
  std::int64_t block_tiles = 1;    // tiles transformed, multiplied and transformed back together
  std::int64_t row_tile = 1;       // of them in a register tile; the last one may have fewer
  std::int64_t chunk_vectors = 1;  // output channel vectors multiplied and transformed back together; even, or all
  bool split_chunks = false;  // threads share a block and take chunks of it; otherwise each takes blocks of its own
  double seconds = 0;         // predicted
};

// The cheapest blocking by this model, whose constants were fitted on Sapphire Rapids (2 cores at 3.7 GHz, 2 MB of L2
// each) with the 3x3 layers of VGG-16 and ResNet:
//   products    a register tile of r rows and 2 vectors takes max(r, 4) cycles a channel: 2 FMA ports, 4 cycles'
//   latency transforms  kTransformCycles a point, tile and vector of channels, once for the input and once for the
//   output streams     the transformed weights once from memory (network time is with cold weights), then once a block
//   from L3
//               unless they fit L2 beside the block; the transformed input and products where they don't fit L2
// Work is divided by the threads as evenly as whole blocks or chunks allow.
WinogradBlocking choose_blocking(const WinogradSize& size);

}  // namespace convoy::cpu
