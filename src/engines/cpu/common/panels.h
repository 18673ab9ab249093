// What plans that compute an output phase by phase share (tile_plan.h, gemm/planar_plan.h). A phase has panels of
// packed weights, chunks of them, and blocks of output positions; an item is a block of a chunk. A phase P has members
// `panels`, `elements` and `chunks`, `images`, `row_blocks` and `col_blocks`, whose product is its blocks, and items().
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/engine.h"
#include "engines/cpu/common/epilogue_args.h"
#include "engines/cpu/common/geometry.h"

namespace convoy::cpu {

constexpr std::int64_t kDefaultL2 = 1 << 20;  // bytes, where the processor doesn't say
constexpr double kMostBufferBytes = 1 << 28;  // of a thread's block buffer

struct PanelChunk {
  std::int64_t panel_begin, panel_end;
  std::int64_t group_begin, group_end;
};

// `panels`, equally many a group: whole groups where several fit `bytes`, otherwise panels of one group.
std::vector<PanelChunk> chunk_panels(std::int64_t panels, std::int64_t groups, double panel_bytes, double bytes);

// The most groups that a chunk has, at least one.
std::int64_t most_groups(const std::vector<PanelChunk>& chunks);

// How a phase is cut into items: by bytes of weights that a chunk may have, positions that a block may have, and what
// the blocks of an image and depth shall be a multiple of.
struct Cut {
  double chunk_bytes;
  std::int64_t most_positions = 1 << 20;
  std::int64_t multiple = 1;
};

// `count` positions in blocks of up to `most`, so many as are a multiple, and as equal as whole tiles allow.
struct Blocks {
  std::int64_t size, count;
};
Blocks equal_blocks(std::int64_t count, std::int64_t most, std::int64_t tile, std::int64_t multiple);

// What the thread with most to do has, over an equal share of all panels at so many positions.
template <class Phase>
double imbalance(const Phase& phase, std::int64_t threads, double positions) {
  std::int64_t chunk = 0;
  for (const PanelChunk& each : phase.chunks) chunk = std::max(chunk, each.panel_end - each.panel_begin);
  const std::int64_t most = ceil_div(phase.items(), threads) * chunk * phase.block_rows * phase.block_cols;
  return static_cast<double>(most * threads) / (static_cast<double>(phase.panels.size()) * positions);
}

// Applies `cut`, or one into smaller items, with which every thread has nearly equally much to do. Chunks are divided
// where blocks can't be, or before these are.
template <class Phase, class Apply>
void cut_equally(Phase& phase, Cut cut, std::int64_t threads, double positions, std::int64_t least_block,
                 bool chunks_first, Apply apply) {
  constexpr double kEqual = 1.06;
  apply(cut);
  if (threads <= 1 || phase.items() == 0) return;
  Cut best = cut;
  double least = imbalance(phase, threads, positions);
  for (int attempt = 0; attempt < 40 && least > kEqual && phase.items() < 8 * threads; ++attempt) {
    const std::int64_t block = phase.block_rows * phase.block_cols;
    const bool blocks = block > 2 * least_block || cut.multiple < threads;
    if (phase.chunks.size() < phase.panels.size() && (chunks_first || !blocks)) {
      cut.chunk_bytes /= 2;
    } else if (cut.multiple < threads) {
      cut.multiple = threads;
    } else if (block > 2 * least_block) {
      cut.most_positions = std::max(block / 2, least_block);
    } else {
      break;
    }
    apply(cut);
    const double now = imbalance(phase, threads, positions);
    if (now < least) {
      best = cut;
      least = now;
    }
  }
  apply(best);
}

// What the items of an execution read and write.
template <class Real>
struct PhaseJob {
  const Real* in;
  Real* out;
  const Real* z;
  const Real* packed;
  EpilogueArgsOf<Real> epilogue;
};

template <class Real>
PhaseJob<Real> make_phase_job(const ConvProblem& problem, const ConvArgs& args, const void* packed);

// An element of a panel's sum: the offset of its weight in the group's weights, negative where it is zero, and which
// row of the packed panel it becomes. A row has the element's weights of all the panel's output channels.
struct PackedElement {
  std::int64_t offset;
  std::int64_t row;
};

// Of the offsets of rows 0, 1, ...: by ascending offset, so that weights are read in the order in which they lie.
std::vector<PackedElement> by_offset(const std::vector<std::int64_t>& offsets);

// rows[element.row * width + k] = weights[element.offset + k * step] for k < channels, and zero up to `width`.
template <class Real>
void pack_elements(std::span<const PackedElement> elements, const Real* weights, std::int64_t step,
                   std::int64_t channels, std::int64_t width, Real* rows);

// Seconds of one thread that an execution packs for, where the weights are not constant.
double packing_seconds(const ConvProblem& problem, const PlanRequest& request);

// pack(panel, elements) for all panels and all elements of their phase (its member `elements`), side by side where
// there is a team. Neighbouring panels are packed together, a few elements at a time: so a few lines of each filter
// stay in L1, though filters be multiples of a page apart, and where channels lie side by side whole lines of them are
// read.
template <class Phase, class Pack>
void pack_panels(const std::vector<Phase>& phases, ThreadTeam* team, Pack pack) {
  constexpr std::size_t kPanels = 4, kElements = 144;
  for (const Phase& phase : phases) {
    const std::span panels(phase.panels);
    const std::span elements(phase.elements);
    const auto range = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::size_t i = begin * kPanels; i < std::min(end * kPanels, panels.size()); i += kPanels) {
        for (std::size_t e = 0; e < elements.size(); e += kElements) {
          const auto some = elements.subspan(e, std::min(kElements, elements.size() - e));
          for (const auto& panel : panels.subspan(i, std::min(kPanels, panels.size() - i))) pack(panel, some);
        }
      }
    };
    const auto count = static_cast<std::int64_t>((panels.size() + kPanels - 1) / kPanels);
    if (team != nullptr) {
      parallel_ranges(*team, count, range);
    } else {
      range(0, count, 0);
    }
  }
}

struct PhaseItem {
  std::int64_t block;
  bool filled;          // the thread's buffer holds the block's input already
  bool first_of_chunk;  // that the thread computes
};

// run(phase, chunk, item, thread) for all items, neighbouring ones on one thread.
template <class Phase, class Run>
void run_items(const std::vector<Phase>& phases, ThreadTeam& team, Run run) {
  std::int64_t items = 0;
  for (const Phase& phase : phases) items += phase.items();
  parallel_ranges(team, items, [&](std::int64_t begin, std::int64_t end, int thread) {
    std::int64_t first = 0;
    for (const Phase& phase : phases) {
      const std::int64_t count = phase.items();
      const std::int64_t blocks = phase.images * phase.row_blocks * phase.col_blocks;
      for (std::int64_t i = std::max(begin, first); i < std::min(end, first + count); ++i) {
        const std::int64_t block = (i - first) % blocks;
        const PanelChunk& chunk = phase.chunks[(i - first) / blocks];
        // Where one block is all there is, chunks of the same groups follow one another and share its buffer.
        const bool filled = i > std::max(begin, first) && blocks == 1 &&
                            phase.chunks[(i - first) / blocks - 1].group_begin == chunk.group_begin;
        run(phase, chunk, PhaseItem{block, filled, block == 0 || i == begin}, thread);
      }
      first += count;
    }
  });
}

}  // namespace convoy::cpu
