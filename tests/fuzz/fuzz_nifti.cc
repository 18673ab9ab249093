#include "fuzz/fuzz.h"
#include "io/nifti.h"

void convoy::fuzz::nifti(Bytes bytes) { static_cast<void>(io::parse_nifti(bytes, "fuzz")); }
