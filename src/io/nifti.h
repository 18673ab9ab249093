// Medical volumes: NIfTI-1 in one file, plain (.nii) or gzip-compressed (.nii.gz).
#pragma once

#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "io/nifti_header.h"

namespace convoy::io {

struct Volume {
  NiftiHeader header;
  // The stored numbers (before slope and intercept), in this machine's byte order, as a row-major tensor whose dims are
  // the header's reversed: ..., z, y, x.
  HostTensor data;
};

// `name` opens every error message; errors name the byte or field. Nothing is allocated or inflated past what the
// header says, and the header must be one that a file of this size can hold.
Result<Volume> parse_nifti(Bytes file, const std::string& name);
Result<Volume> read_nifti(const std::string& path);

// A volume of `voxels` (u8, s16 or s32, row-major, dims reversed as above) with the geometry of `like`; gzip-compressed
// when `compress`.
Result<std::vector<std::byte>> format_nifti(const HostTensor& voxels, const NiftiHeader& like, bool compress);
Result<void> write_nifti(const std::string& path, const HostTensor& voxels, const NiftiHeader& like);

}  // namespace convoy::io
