#include "engines/cpu/wgrad/wgrad.h"

#include <gtest/gtest.h>

#include "engines/cpu/common/testing/float_check.h"

namespace convoy::cpu {
namespace {

TEST(Wgrad, EveryPathMatchesTheOracle) {
  for (const char* text : {
           "wgrad:x=f32,2x64x14x14,nhwc:w=f32,64x64x3x3:pad=1x1",  // whole images a block
           "wgrad:x=f32,1x20x40x40,nhwc:w=f32,40x20x3x3:pad=1x1",  // rows a block, the last with fewer
           "wgrad:x=f32,1x7x3x600,nhwc:w=f32,9x7x2x5",             // parts of a row
           "wgrad:x=f32,2x3x33x33,nchw:w=f32,64x3x7x7:y=f32,2x64x17x17,nhwc:stride=2x2:pad=3x3",  // few channels
           "wgrad:x=f32,2x24x9x9,nchw:w=f32,40x24x3x3:y=f32,2x40x9x9,nchw:pad=1x1",
           "wgrad:x=f32,1x40x9x9,nchw16c:w=f32,24x40x3x3:pad=1x1",  // tiles across blocks
           "wgrad:x=f32,2x24x9x9,nchw8c:w=f32,40x24x1x1:y=f32,2x40x9x9,nchw16c",
           "wgrad:x=f32,3x64x7x7,nhwc:w=f32,128x64x1x1",          // all positions in one loop
           "wgrad:x=f32,1x40x20x20,nhwc:w=f32,70x40x1x1:beta=1",  // turned, two blocks
           "wgrad:x=f32,1x40x21x19,nchw:w=f32,70x40x1x1:y=f32,1x70x11x7,nhwc:stride=2x3",
           "wgrad:x=f32,1x40x5x6,nhwc:w=f32,70x40x1x1,nhwc:alpha=2",  // turned, one block
           "wgrad:x=f32,2x40x5x6,nhwc:w=f32,70x40x1x1:pad=0x0/2x1",   // positions beyond x
           "wgrad:x=f32,1x2x5x6,nhwc:w=f32,70x2x1x1",                 // not turned
           "wgrad:x=f32,1x40x5x6,nhwc:w=f32,20x40x3x3:pad=1x1:beta=0.5",
           "wgrad:x=f32,1x40x3x700,nhwc:w=f32,64x40x3x3:pad=1x1",  // parts of rows copied
           "wgrad:x=f32,5x48x1x1,nhwc:w=f32,33x48x1x1",            // of images alone
           "wgrad:x=f32,2x64x15x15,nhwc:w=f32,48x64x1x1:stride=2x2",
           "wgrad:x=f32,1x16x19x17,nhwc:w=f32,24x16x3x2:stride=2x3:dilation=2x1:pad=3x0/1x2",
           "wgrad:x=f32,2x48x9x9,nhwc:w=f32,96x4x3x3:groups=12:pad=1x1",
           "wgrad:x=f32,2x64x9x9,nhwc:w=f32,64x4x3x3:groups=16:pad=1x1:stride=2x1",
           "wgrad:x=f32,1x36x9x9,nhwc:w=f32,36x4x3x2:groups=9:pad=1x0",
           "wgrad:x=f32,2x38x9x9,nhwc:w=f32,38x2x3x3:groups=19:pad=1x1:beta=1",
           "wgrad:x=f32,1x12x9x9,nhwc:w=f32,12x1x3x3:groups=12:pad=1x1",
           "wgrad:x=f32,2x33x9x9,nhwc:w=f32,33x1x5x5:groups=33:pad=2x2:stride=2x2",  // parts of vectors, five taps
           "wgrad:x=f32,1x16x5x6,nhwc:w=f32,16x1x7x7:groups=16:pad=3x3",             // no column has all taps
           "wgrad:x=f32,1x70x9x20,nhwc:w=f32,70x1x3x4:groups=70:pad=1x2:dilation=2x3:mode=conv:alpha=2:beta=0.5",
           "wgrad:x=f32,2x8x4x5x6,ndhwc:w=f32,8x1x3x3x3:groups=8:pad=1x1x1",
           "wgrad:x=f32,1x12x9x9,nchw:w=f32,12x1x3x3:groups=12:pad=1x1",
           "wgrad:x=f32,1x12x9x9,nhwc:w=f32,24x1x3x3:groups=12:pad=1x1",
           "wgrad:x=f32,2x5x40,nwc:w=f32,6x5x5:pad=2:stride=3",
           "wgrad:x=f32,2x5x6x7x8,ndhwc:w=f32,20x5x3x2x3:pad=1x1x1:stride=2x1x1",
           "wgrad:x=f32,1x8x5x5,nhwc:w=f32,8x8x5x5:pad=9x9/0x0:dilation=3x3",  // taps that never lie in x
           "wgrad:x=f32,2x8x40x40,nhwc:w=f32,16x8x1x1:alpha=2:beta=0.5",       // slices
           "wgrad:x=f32,1x3x61x40,nhwc:w=f32,40x3x3x3:pad=1x1:stride=2x2:beta=1",
           "wgrad:x=f32,3x32x40x41,nhwc:w=f32,32x1x3x3:groups=32:pad=1x1:alpha=0.5",
           "wgrad:x=f32,1x32x50x40,nchw:w=f32,32x2x3x3:groups=16",
           "wgrad:x=f32,2x40x14x15,nhwc:w=f32,40x1x3x3:groups=40:pad=1x1:dilation=2x1",  // windows, partial vectors
           "wgrad:x=f32,1x33x21x20,nhwc:w=f32,33x1x3x3:groups=33:pad=0x1/2x0:stride=2x1:alpha=2",
           "wgrad:x=f32,1x32x3x9x9,ndhwc:w=f32,32x1x3x3x3:groups=32:pad=1x1x1:mode=conv",
           "wgrad:x=f32,1x8x9x9,nhwc:w=f32,20x8x3x3:mode=conv:alpha=0.5:beta=-2",
           "wgrad:x=f32,1x8x9x9,nhwc:w=f32,20x8x3x3,nhwc:alpha=3",
       }) {
    expect_right(wgrad_engine(), text);
    expect_right(wgrad_engine(), in_f64(text));
  }
}

TEST(Wgrad, RefusesSumsThatAreTooLarge) {
  expect_refused(wgrad_engine(), "wgrad:x=f32,1x4000000x1x300,nchw:w=f32,4000000x1x1x5:groups=4000000:pad=0x2",
                 RefusalCode::workspace, "groups=4000000");
}

}  // namespace
}  // namespace convoy::cpu
