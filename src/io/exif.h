// Which way up a camera says its picture is: the Orientation of EXIF (CIPA DC-008, tag 0x0112).
#pragma once

#include "io/file.h"

namespace convoy::io {

// 1 to 8 as EXIF numbers them; 1 (upright) where there is none, or where what is there is damaged: readers of pictures
// take no notice of EXIF that they can't read.
int exif_orientation(Bytes tiff);  // of a TIFF header and what follows, as PNG's eXIf has it
int jpeg_orientation(Bytes file);  // of a JPEG's APP1 segment

}  // namespace convoy::io
