// How a computation's positions are given to threads.
#pragma once

#include "generate/computation.h"
#include "generate/lower.h"

namespace convoy::generate {

std::int64_t position_count(const Dims& dims);

// A thread has a few neighbouring elements: of kept positions, or of folded ones where those are closest together. The
// threads of a block are lanes, each of other kept positions, times rows, which share the folded positions of a lane
// and join what they have in a fixed order. Of few and long folds the blocks of a cluster share a lane's, too. Where
// the elements of a load are closest together across the output's, a block has a tile of both dims instead, and where
// matrices are multiplied one of the product.
struct Schedule {
  bool along_folded = false;  // vectors are of folded positions
  int vector_dim = -1;        // -1: there is none, nothing has more than a position
  int vector = 1;
  std::int64_t kept = 1, folded = 1;    // positions, in vectors
  int rows = 1, lanes = 256;            // threads
  int shares = 1;                       // blocks of a cluster
  int turns = 0;                        // vectors of folded positions a thread, which it keeps; 0: too many
  int tiled = -1, across = -1;          // the load, and the dim along which it lies; -1: no tiles
  int product_rows = -1, columns = -1;  // of a product of two loads: the dims of its tile; -1: it is none
  int left = -1, right = -1;            // the load with rows, with columns
  int tile = 0;
  std::int64_t blocks = 0;
};

Schedule schedule_of(const Computation& computation, const Lowered& space, int most_shares);

bool reads_folded(const Lowered& space, const Access& access);

}  // namespace convoy::generate
