// NumPy's .npy format, versions 1 to 3 (numpy.lib.format), both byte orders, C and Fortran order.
//
// bf16 and the 8-bit floats have no NumPy type; the ml_dtypes package writes them as raw "V2" and "V1". They are read
// where the caller says which type the bytes are, and written widened to f32, which loses nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/host_tensor.h"
#include "io/file.h"

namespace convoy::io {

// `name` opens every error message; errors name the byte. The size is checked against the file before memory is
// allocated, and bytes past the end of the array are an error. `raw_type` is what "V1" and "V2" stand for.
Result<HostTensor> parse_npy(Bytes file, const std::string& name, std::optional<DataType> raw_type = {});
Result<HostTensor> read_npy(const std::string& path, std::optional<DataType> raw_type = {});

// Any layout; written in C order, version 1.
Result<std::vector<std::byte>> format_npy(const HostTensor& tensor);
Result<void> write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace convoy::io
