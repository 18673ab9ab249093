#include "convert/convert.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "convert/kernels.h"

namespace convoy {
namespace {

using conversion::Kernels;
using conversion::kMostChannels;
using conversion::Piece;

// Bytes of a run of positions in a row of nchw, or up to twice as many: the processor foresees long streams. Threads
// want runs enough for all.
constexpr std::int64_t kRun = 4096;
// Where a line of nhwc has the channels of several pieces, these take turns: in each so many positions, or up to twice
// as many, so that the line is still in the first cache when the next piece comes to it. Their rows are too many to be
// foreseen, and are asked for so many bytes ahead.
constexpr std::int64_t kTurn = 128;
constexpr std::int64_t kAhead = 256;

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
  std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t at) const {
    return n * sample + c / block * block_stride + c % block * size + at * position;
  }
};

// The channels [begin, end) of a piece, and the room for more.
struct Channels {
  std::int64_t begin, count, padded;
};

class Conversion {
 public:
  Conversion(const TensorDesc& src, const TensorDesc& dst, const Kernels& kernels)
      : src_type_(src.type),
        dst_type_(dst.type),
        from_(src),
        to_(dst),
        dst_blocked_(dst.channel_block > 1),
        kernels_(kernels),
        samples_(src.dims[0]),
        channels_(src.dims[1]),
        positions_(positions_of(src)) {
    const bool src_blocked = src.channel_block > 1;
    const std::int64_t line = std::max(kMostChannels, 64 / element());  // channels
    if (!src_blocked && !dst_blocked_) {
      groups_ = std::max<std::int64_t>(1, channels_ / kMostChannels);
      together_ = line / kMostChannels;
      return;
    }
    group_ = std::min(src_blocked ? src.channel_block : 16, dst_blocked_ ? dst.channel_block : 16);
    const std::int64_t channels = dst_blocked_ ? dst.padded_channels() : channels_;
    groups_ = (channels + group_ - 1) / group_;
    if (from_.inner && to_.inner) together_ = (src_blocked && dst_blocked_ ? kMostChannels : line) / group_;
  }

  void run(const std::byte* src, std::byte* dst, ThreadTeam& team) const {
    // Where there are few positions, the channels are split between the threads too, and then shorter runs.
    const std::int64_t wanted = team.size() > 1 ? 4 * team.size() : 1;
    std::int64_t runs = std::max<std::int64_t>(1, positions_ * element() / kRun);
    if (samples_ * runs * groups_ < wanted) runs = std::max<std::int64_t>(runs, std::min(positions_ / 64, wanted));
    const std::int64_t parts = std::clamp<std::int64_t>(wanted / (samples_ * runs), 1, groups_);
    parallel_ranges(team, samples_ * runs * parts, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t part = unit % parts, run = unit / parts % runs, n = unit / parts / runs;
        const std::int64_t first = bound(positions_, run, runs), last = bound(positions_, run + 1, runs);
        const std::int64_t groups_end = groups_ * (part + 1) / parts;
        for (std::int64_t g = groups_ * part / parts; g < groups_end; g += together_) {
          take_turns(src, dst, n, g, std::min(groups_end, g + together_), first, last);
        }
      }
    });
  }

 private:
  // Whole lines, but for the end.
  static std::int64_t bound(std::int64_t positions, std::int64_t part, std::int64_t parts) {
    return part == parts ? positions : positions * part / parts / 64 * 64;
  }

  std::int64_t element() const { return std::min(from_.size, to_.size); }

  // The groups [begin, end) of the positions [first, last).
  void take_turns(const std::byte* src, std::byte* dst, std::int64_t n, std::int64_t begin, std::int64_t end,
                  std::int64_t first, std::int64_t last) const {
    const std::int64_t turn = std::max(kTurn, kAhead / element());
    const std::int64_t turns = end - begin == 1 ? 1 : std::max<std::int64_t>(1, (last - first) / turn);
    for (std::int64_t i = 0; i < turns; ++i) {
      const std::int64_t from = first + i * turn, to = i + 1 == turns ? last : from + turn;
      for (std::int64_t g = begin; g < end; ++g) {
        group(g, [&](const Channels& channels) { move(src, dst, n, channels, from, to, turns > 1 ? kAhead : 0); });
      }
    }
  }

  // The pieces of channels of a group, which are one where a layout is blocked. Elsewhere the last group has what is
  // left over, in pieces of 8 or 16, for which some channels are done twice where there are enough.
  template <class Body>
  void group(std::int64_t g, Body body) const {
    if (group_ > 0) {
      const std::int64_t begin = g * group_;
      const std::int64_t count = std::clamp<std::int64_t>(channels_ - begin, 0, group_);
      return body(Channels{begin, count, to_.inner && !dst_blocked_ ? count : group_});
    }
    const std::int64_t end = g + 1 == groups_ ? channels_ : (g + 1) * kMostChannels;
    std::int64_t c = g * kMostChannels;
    for (; c + 16 <= end; c += 16) body(Channels{c, 16, 16});
    if (c == end) return;
    if (end - c > 8 && end >= 16) return body(Channels{end - 16, 16, 16});
    if (end - c > 8) body(Channels{c, 8, 8});
    const std::int64_t width = std::min<std::int64_t>(end, 8);
    body(Channels{end - width, width, width});
  }

  void move(const std::byte* src, std::byte* dst, std::int64_t n, const Channels& channels, std::int64_t first,
            std::int64_t last, std::int64_t ahead) const {
    const Piece piece{src + from_.offset(n, channels.begin, first),
                      from_.channel(),
                      from_.position,
                      dst + to_.offset(n, channels.begin, first),
                      to_.channel(),
                      to_.position,
                      channels.count,
                      channels.padded,
                      last - first,
                      ahead};
    kernels_.move(src_type_, dst_type_, piece);
  }

  DataType src_type_, dst_type_;
  Side from_, to_;
  bool dst_blocked_;
  const Kernels& kernels_;
  std::int64_t samples_, channels_, positions_;
  std::int64_t group_ = 0;     // channels of a piece where a layout is blocked
  std::int64_t groups_ = 1;    // of channels
  std::int64_t together_ = 1;  // groups that take turns
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
      return Conversion(src, dst, kernels).run(from, to, team);
  }
}

}  // namespace convoy
