// The header of an .npy file: a Python dictionary literal between the magic bytes and the data.
#pragma once

#include <optional>
#include <string>

#include "convoy/tensor.h"
#include "io/file.h"

namespace convoy::io {

struct NpyHeader {
  DataType type = DataType::f32;
  bool swap_bytes = false;  // the data has the other byte order
  bool fortran_order = false;
  Dims shape;
  std::size_t data_offset = 0;  // bytes from the start of the file
};

// Errors name the byte of the file that is wrong.
Result<NpyHeader> parse_npy_header(Bytes file, std::optional<DataType> raw_type);

// The NumPy name of a type, or nothing for those it hasn't (bf16, f8).
std::optional<std::string> npy_descr(DataType type);

}  // namespace convoy::io
