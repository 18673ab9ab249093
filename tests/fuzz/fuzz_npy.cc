#include "fuzz/fuzz.h"
#include "io/npy.h"

void convoy::fuzz::npy(Bytes bytes) { static_cast<void>(io::parse_npy(bytes, "fuzz")); }
