#include "fuzz/fuzz.h"
#include "io/picture.h"

void convoy::fuzz::image(Bytes bytes) { static_cast<void>(io::decode_picture(bytes, "fuzz")); }
