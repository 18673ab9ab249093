#include "io/nifti_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace convoy::io {
namespace {

struct NiftiType {
  int code;
  DataType type;
};
constexpr NiftiType kNiftiTypes[] = {
    {2, DataType::u8},   {4, DataType::s16},   {8, DataType::s32},   {16, DataType::f32},   {64, DataType::f64},
    {256, DataType::s8}, {512, DataType::u16}, {768, DataType::u32}, {1024, DataType::s64}, {1280, DataType::u64},
};
// Offsets of the fields that are read or written here.
enum Field : std::size_t {
  kSizeofHdr = 0,
  kDim = 40,
  kDatatype = 70,
  kBitpix = 72,
  kVoxOffset = 108,
  kSclSlope = 112,
  kSclInter = 116,
  kCalMax = 124,
  kCalMin = 128,
  kMagic = 344,
};

template <class T>
T load(const std::byte* from, bool swap) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (swap) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

template <class T>
void store(std::byte* to, T value) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  std::memcpy(to, bytes.data(), sizeof(T));
}

// The swaps above are between the file's order and this machine's, so a field of either order reads the same.
void swap_fields(std::array<std::byte, kNiftiHeaderBytes>& raw) {
  struct Run {
    std::size_t first, count, size;
  };
  constexpr Run kRuns[] = {{0, 1, 4},   {32, 1, 4},  {36, 1, 2},  {40, 8, 2},  {56, 3, 4},  {68, 4, 2},
                           {76, 11, 4}, {120, 1, 2}, {124, 6, 4}, {252, 2, 2}, {256, 18, 4}};
  for (const Run& run : kRuns) {
    for (std::size_t i = 0; i < run.count; ++i) {
      const auto at = raw.begin() + static_cast<std::ptrdiff_t>(run.first + i * run.size);
      std::reverse(at, at + static_cast<std::ptrdiff_t>(run.size));
    }
  }
}

}  // namespace

Result<NiftiHeader> parse_nifti_header(Bytes start) {
  const auto corrupt = [](std::size_t byte, std::string_view what) {
    return Error{ErrorCode::corrupt, fmt::format("byte {}: {}", byte, what)};
  };
  if (start.size() < kNiftiHeaderBytes) {
    return corrupt(start.size(), fmt::format("the file ends inside the {}-byte NIfTI header", kNiftiHeaderBytes));
  }
  const std::byte* raw = start.data();
  NiftiHeader header;
  std::memcpy(header.raw.data(), raw, kNiftiHeaderBytes);
  const auto size = load<std::int32_t>(raw, false);
  header.swap_bytes = load<std::int32_t>(raw, true) == static_cast<std::int32_t>(kNiftiHeaderBytes);
  if (!header.swap_bytes && size != static_cast<std::int32_t>(kNiftiHeaderBytes)) {
    if (size == 540 || load<std::int32_t>(raw, true) == 540) {
      return Error{ErrorCode::unsupported, "byte 0: a NIfTI-2 file; only NIfTI-1 is read"};
    }
    return corrupt(kSizeofHdr, fmt::format("sizeof_hdr={}, not a NIfTI-1 file (348)", size));
  }
  const bool swap = header.swap_bytes;
  if (std::memcmp(raw + kMagic, "ni1", 4) == 0) {
    return Error{ErrorCode::unsupported, "byte 344: the header of a .hdr/.img pair; convert it to one .nii file"};
  }
  if (std::memcmp(raw + kMagic, "n+1", 4) != 0) return corrupt(kMagic, "the magic is not \"n+1\"");

  const int rank = load<std::int16_t>(raw + kDim, swap);
  if (rank < 1 || rank > 7) return corrupt(kDim, fmt::format("dim[0]={}, must be 1 to 7", rank));
  for (int i = 1; i <= rank; ++i) {
    const std::size_t at = kDim + 2 * static_cast<std::size_t>(i);
    const std::int64_t dim = load<std::int16_t>(raw + at, swap);
    if (dim < 1) return corrupt(at, fmt::format("dim[{}]={}, must be at least 1", i, dim));
    header.dims.push_back(dim);
  }
  const int code = load<std::int16_t>(raw + kDatatype, swap);
  const auto* type =
      std::find_if(std::begin(kNiftiTypes), std::end(kNiftiTypes), [&](const NiftiType& t) { return t.code == code; });
  if (type == std::end(kNiftiTypes)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("byte 70: datatype={}: only real numbers are read (2 4 8 16 64 256 "
                             "512 768 1024 1280), not complex, RGB or 128-bit ones",
                             code)};
  }
  header.type = type->type;
  const int bits = load<std::int16_t>(raw + kBitpix, swap);
  if (bits != static_cast<int>(size_of(header.type)) * 8) {
    return corrupt(kBitpix, fmt::format("bitpix={} does not match datatype={} ({})", bits, code, name_of(header.type)));
  }
  auto elements = checked_elements(header.dims, static_cast<std::int64_t>(size_of(header.type)));
  if (!elements.ok()) return corrupt(kDim, fmt::format("dims {} overflow 64-bit sizes", to_string(header.dims)));
  header.data_bytes = static_cast<std::size_t>(*elements) * size_of(header.type);

  const auto offset = load<float>(raw + kVoxOffset, swap);
  // Extensions lie between the header and the data; 16 MiB of them is past any use.
  if (!(offset >= 352 && offset <= 16 << 20) || offset != std::floor(offset)) {
    return corrupt(kVoxOffset, fmt::format("vox_offset={}, must be a whole number from 352", offset));
  }
  header.data_offset = static_cast<std::size_t>(offset);
  const auto slope = load<float>(raw + kSclSlope, swap), intercept = load<float>(raw + kSclInter, swap);
  // The standard: slope 0 means no scaling.
  if (slope != 0 && std::isfinite(slope)) {
    if (!std::isfinite(intercept)) return corrupt(kSclInter, "scl_inter is not finite");
    header.slope = slope;
    header.intercept = intercept;
  }
  return header;
}

std::array<std::byte, kNiftiHeaderBytes> make_nifti_header(const NiftiHeader& like, DataType type, const Dims& dims) {
  auto raw = like.raw;
  const bool to_little = like.swap_bytes == (std::endian::native == std::endian::little);
  if (to_little) swap_fields(raw);
  store<std::int32_t>(raw.data() + kSizeofHdr, static_cast<std::int32_t>(kNiftiHeaderBytes));
  for (std::size_t i = 0; i < 8; ++i) {
    const std::int64_t dim = i == 0 ? static_cast<std::int64_t>(dims.size()) : i <= dims.size() ? dims[i - 1] : 1;
    store<std::int16_t>(raw.data() + kDim + 2 * i, static_cast<std::int16_t>(dim));
  }
  for (const NiftiType& known : kNiftiTypes) {
    if (known.type == type) store<std::int16_t>(raw.data() + kDatatype, static_cast<std::int16_t>(known.code));
  }
  store<std::int16_t>(raw.data() + kBitpix, static_cast<std::int16_t>(size_of(type) * 8));
  store<float>(raw.data() + kVoxOffset, 352);
  store<float>(raw.data() + kSclSlope, 1);
  for (const Field zero : {kSclInter, kCalMax, kCalMin}) store<float>(raw.data() + zero, 0);
  std::memcpy(raw.data() + kMagic, "n+1", 4);
  return raw;
}

}  // namespace convoy::io
