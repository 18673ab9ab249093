#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "convert/kernels.h"

namespace convoy {
namespace {

using conversion::Kernels;
using conversion::kMostChannels;
using conversion::Tile;

// Bytes of a run of positions in a row of nchw, or up to twice as many: the processor foresees long streams.
constexpr std::int64_t kRun = 4096;
// Where a line of nhwc has the channels of several pieces, these take turns: in each so many positions, or up to twice
// as many, so that the line is still in the first cache when the next tile comes to it. Their rows are too many to be
// foreseen, and where the second cache doesn't hold them all, they are asked for so many bytes ahead.
constexpr std::int64_t kPositionsAtOnce = 128;
constexpr std::int64_t kAhead = 256;
// Lines of nhwc a multiple of so many bytes apart lie in few sets of the caches: of elements of 8 bytes few positions
// get theirs before the next tile does (128 and 256 channels: 50 and 38 GB/s to nhwc, 27 and 11 without).
constexpr std::int64_t kFewSets = 1024, kFewPositions = 32;
// Threads share positions in multiples of so many, which are whole lines of nhwc. Where they write rows or blocks, they
// share channels instead, as a line that two threads write takes as long as many others; but not where src is nhwc,
// whose lines each of them would read, and a thread's part of a row has so many bytes or more.
constexpr std::int64_t kChunk = 64;
constexpr std::int64_t kPartOfRow = 16384;

bool is_f32_and_16_bits(DataType a, DataType b) {
  const auto narrow = [](DataType type) { return type == DataType::bf16 || type == DataType::f16; };
  return (a == DataType::f32 && narrow(b)) || (b == DataType::f32 && narrow(a));
}

// The packed layouts are all that is known here.
bool is_packed(const TensorDesc& desc) { return desc.layout() != Layout::strided; }

std::int64_t positions_of(const TensorDesc& desc) {
  std::int64_t positions = 1;
  for (int i = 2; i < desc.rank(); ++i) positions *= desc.dims[i];
  return positions;
}

// One side of a conversion: where a channel's positions are. Strides in bytes.
struct Side {
  std::int64_t size;          // of an element
  bool inner;                 // channels side by side
  std::int64_t block;         // so many of them (8 or 16: a blocked layout), or all
  std::int64_t block_stride;  // from one block to the next
  std::int64_t position;      // from one position to the next
  std::int64_t sample;

  explicit Side(const TensorDesc& desc)
      : size(static_cast<std::int64_t>(size_of(desc.type))), inner(true), block(desc.dims[1]), block_stride(0) {
    const std::int64_t positions = positions_of(desc);
    if (desc.channel_block > 1) {
      block = desc.channel_block;
      block_stride = positions * block * size;
    } else if (positions > 1 && desc.is_packed(Layout::nchw)) {
      inner = false;
      block = 1;
      block_stride = positions * size;
    }
    position = inner ? block * size : size;
    sample = desc.padded_channels() * positions * size;
  }
  std::int64_t channel() const { return inner ? size : block_stride; }
  std::int64_t eighth() const { return block == 8 ? block_stride : 8 * channel(); }
  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t at) const {
    return n * sample + c / block * block_stride + c % block * size + at * position;
  }
};

// What a thread does of a sample.
struct Range {
  std::int64_t channel_begin, channel_end;  // blocked: of those with the padding
  std::int64_t begin, end;                  // positions
};

class Conversion {
 public:
  Conversion(const TensorDesc& src, const TensorDesc& dst, const Kernels& kernels, std::int64_t cached)
      : src_type_(src.type),
        dst_type_(dst.type),
        from_(src),
        to_(dst),
        kernels_(kernels),
        samples_(src.dims[0]),
        channels_(src.dims[1]),
        positions_(positions_of(src)) {
    const bool src_blocked = src.channel_block > 1, dst_blocked = dst.channel_block > 1;
    blocked_ = src_blocked || dst_blocked;
    to_nhwc_ = to_.inner && !dst_blocked;
    const bool nhwc = to_nhwc_ || (from_.inner && !src_blocked);
    regroups_ = from_.inner && to_.inner;
    if (!regroups_ && blocked_) width_ = std::max(src.channel_block, dst.channel_block);
    padded_ = dst_blocked ? dst.padded_channels() : channels_;
    const std::int64_t element = std::min(from_.size, to_.size);
    ahead_ = src.bytes() + dst.bytes() > cached ? kAhead : 0;
    const bool few_sets = nhwc && element == 8 && std::max(from_.position, to_.position) % kFewSets == 0;
    at_once_ = few_sets ? kFewPositions : std::max(kPositionsAtOnce, kAhead / element);
    run_ = std::max(at_once_, kRun / element);
    span_ = few_sets ? 2 * kMostChannels : nhwc ? std::max(kMostChannels, 64 / element) : width_;
  }

  void run(const std::byte* src, std::byte* dst, ThreadTeam& team) const {
    const std::int64_t unit = blocked_ ? kMostChannels : 8, units = (padded_ + unit - 1) / unit;
    const std::int64_t chunks = (positions_ + kChunk - 1) / kChunk;
    const bool short_parts = !from_.inner || positions_ * to_.position < kPartOfRow * team.size();
    const bool by_channels =
        samples_ * chunks < team.size() || (!to_nhwc_ && short_parts && samples_ * units >= team.size());
    const std::int64_t parts = by_channels ? units : chunks;
    parallel_ranges(team, samples_ * parts, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin / parts; n * parts < end; ++n) {
        const std::int64_t first = std::max<std::int64_t>(begin - n * parts, 0),
                           last = std::min(end - n * parts, parts);
        if (by_channels) {
          range(src, dst, n, {first * unit, std::min(last * unit, padded_), 0, positions_});
        } else {
          range(src, dst, n, {0, padded_, first * kChunk, std::min(last * kChunk, positions_)});
        }
      }
    });
  }

 private:
  // The end of a part of about `size`, of what lies between `begin` and `end`.
  static std::int64_t part_end(std::int64_t begin, std::int64_t end, std::int64_t size) {
    return end - begin < 2 * size ? end : begin + size;
  }

  void range(const std::byte* src, std::byte* dst, std::int64_t n, const Range& r) const {
    for (std::int64_t run = r.begin, run_end; run < r.end; run = run_end) {
      run_end = part_end(run, r.end, run_);
      for (std::int64_t c = r.channel_begin; c < r.channel_end; c += span_) {
        const std::int64_t c_end = std::min(c + span_, r.channel_end);
        const std::int64_t at_once = c_end - c > width_ ? at_once_ : run_end - run;
        for (std::int64_t at = run, to; at < run_end; at = to) {
          to = part_end(at, run_end, at_once);
          pieces(r.channel_begin, c, c_end, [&](std::int64_t channel, std::int64_t count, std::int64_t padded) {
            move(src, dst, n, channel, count, padded, at, to, at_once < run_end - run ? ahead_ : 0);
          });
        }
      }
    }
  }

  // Of channels that fill no tile some are done twice, where the thread has enough, from `first` on.
  template <class Body>
  void pieces(std::int64_t first, std::int64_t begin, std::int64_t end, Body body) const {
    std::int64_t c = begin;
    if (blocked_) {
      for (std::int64_t width; c < end; c += width) {
        width = regroups_ ? std::min(width_, end - c) : width_;
        const std::int64_t count = std::clamp<std::int64_t>(channels_ - c, 0, width);
        body(c, count, to_nhwc_ ? count : width);
      }
      return;
    }
    for (; c + width_ <= end; c += width_) body(c, width_, width_);
    if (c == end) return;
    if (end - c > 8 && end - first >= 16) return body(end - 16, 16, 16);
    if (end - c > 8) body(c, 8, 8);
    const std::int64_t width = std::min<std::int64_t>(end - first, 8);
    body(end - width, width, width);
  }

  void move(const std::byte* src, std::byte* dst, std::int64_t n, std::int64_t channel, std::int64_t count,
            std::int64_t padded, std::int64_t first, std::int64_t last, std::int64_t ahead) const {
    const Tile tile{src + from_.offset(n, std::min(channel, channels_ - 1), first),
                    from_.channel(),
                    from_.position,
                    dst + to_.offset(n, channel, first),
                    to_.channel(),
                    to_.position,
                    from_.eighth(),
                    to_.eighth(),
                    count,
                    padded,
                    last - first,
                    ahead};
    kernels_.move(src_type_, dst_type_, tile);
  }

  DataType src_type_, dst_type_;
  Side from_, to_;
  const Kernels& kernels_;
  std::int64_t samples_, channels_, positions_;
  std::int64_t padded_;                 // channels, with dst's padding
  bool blocked_;                        // src or dst
  bool to_nhwc_, regroups_;             // regroups: side by side in both
  std::int64_t width_ = kMostChannels;  // channels of a tile
  std::int64_t span_;                   // channels of the pieces that take turns
  std::int64_t at_once_, run_;          // positions
  std::int64_t ahead_;                  // 0 where the caches hold all
};

// Both are placed alike, with nothing between the elements.
bool one_order(const TensorDesc& a, const TensorDesc& b) {
  TensorDesc of_one_type = a;
  of_one_type.type = b.type;
  return a.storage_elements() == a.elements() && same_bytes(of_one_type, b);
}

}  // namespace

std::string_view name_of(ConversionKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"copy", "types", "to_inner", "to_outer", "regroup", "elsewhere"};
  return kNames[static_cast<std::size_t>(kind)];
}

ConversionKind conversion_kind(const TensorDesc& src, const TensorDesc& dst) {
  const bool known_types = src.type == dst.type || is_f32_and_16_bits(src.type, dst.type);
  if (!known_types) return ConversionKind::elsewhere;
  if (one_order(src, dst)) return src.type == dst.type ? ConversionKind::copy : ConversionKind::types;
  if (src.rank() < 3 || !is_packed(src) || !is_packed(dst)) return ConversionKind::elsewhere;
  const bool from_inner = Side(src).inner, to_inner = Side(dst).inner;
  if (from_inner && to_inner) return ConversionKind::regroup;
  if (!from_inner && !to_inner) return ConversionKind::elsewhere;  // not met: nchw to nchw is one order
  return to_inner ? ConversionKind::to_inner : ConversionKind::to_outer;
}

bool same_bytes(const TensorDesc& a, const TensorDesc& b) {
  if (a.type != b.type || a.dims != b.dims || a.channel_block != b.channel_block) return false;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team) {
  convert_layout(src, src_data, dst, dst_data, team, cpu_features());
}

void convert_layout(const TensorDesc& src, const void* src_data, const TensorDesc& dst, void* dst_data,
                    ThreadTeam& team, const CpuFeatures& cpu) {
  const std::int64_t elements = src.elements();
  if (elements == 0) return;
  const Kernels& kernels = cpu.isa >= Isa::avx2 ? conversion::kAvx2 : conversion::kPortable;
  const auto* from = static_cast<const std::byte*>(src_data);
  auto* to = static_cast<std::byte*>(dst_data);
  const auto src_size = static_cast<std::int64_t>(size_of(src.type));
  const auto dst_size = static_cast<std::int64_t>(size_of(dst.type));
  switch (conversion_kind(src, dst)) {
    case ConversionKind::elsewhere:
      return copy_tensor(src, src_data, dst, dst_data);
    case ConversionKind::copy:
      return parallel_ranges(team, elements, [&](std::int64_t begin, std::int64_t end, int) {
        std::memcpy(to + begin * dst_size, from + begin * src_size, static_cast<std::size_t>((end - begin) * src_size));
      });
    case ConversionKind::types:
      return parallel_ranges(team, elements, [&](std::int64_t begin, std::int64_t end, int) {
        kernels.convert(src.type, from + begin * src_size, dst.type, to + begin * dst_size, end - begin);
      });
    default:
      return Conversion(src, dst, kernels, 2 * cpu.l2_bytes).run(from, to, team);
  }
}

}  // namespace convoy
