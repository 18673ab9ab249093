// The picture of the demo, made by the program: rings and stripes over a gradient, the same each time.
#pragma once

#include "io/picture.h"

namespace convoy::cli {

io::Picture demo_picture(int width, int height);

}  // namespace convoy::cli
