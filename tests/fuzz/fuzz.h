// What each format's fuzzer does with some bytes: libFuzzer calls it (entry.cc) and a test replays kept files
// (replay_test.cc). Any bytes are an input or an error; a crash, a leak or an allocation that nothing bounds is a
// finding.
#pragma once

#include <cstddef>
#include <span>

namespace convoy::fuzz {

using Bytes = std::span<const std::byte>;

void db_import(Bytes bytes);
void image(Bytes bytes);
void nifti(Bytes bytes);
void npy(Bytes bytes);
void onnx(Bytes bytes);
void plan(Bytes bytes);
void problem(Bytes bytes);
void rules(Bytes bytes);

}  // namespace convoy::fuzz
