// The 348-byte NIfTI-1 header (nifti.nimh.nih.gov, nifti1.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "convoy/tensor.h"
#include "io/file.h"

namespace convoy::io {

constexpr std::size_t kNiftiHeaderBytes = 348;

struct NiftiHeader {
  DataType type = DataType::u8;
  bool swap_bytes = false;
  Dims dims;  // 1 to 7: x, y, z, t, ...; x changes fastest in the file
  double slope = 1;
  double intercept = 0;
  std::size_t data_offset = 352;
  std::size_t data_bytes = 0;
  std::array<std::byte, kNiftiHeaderBytes> raw = {};  // as in the file
};

// `start` holds the first kNiftiHeaderBytes bytes or more. Errors name the field and its byte.
Result<NiftiHeader> parse_nifti_header(Bytes start);

// A little-endian header for `type` and `dims` with the geometry (voxel sizes, orientation) of `like`, and no scaling.
std::array<std::byte, kNiftiHeaderBytes> make_nifti_header(const NiftiHeader& like, DataType type, const Dims& dims);

}  // namespace convoy::io
