/* A library that a test builds to be found, and refused: FAKE_CUDNN, FAKE_NVRTC and FAKE_DRIVER are the versions it
 * says. */
#include <stddef.h>

#ifdef FAKE_CUDNN
size_t cudnnGetVersion(void) { return FAKE_CUDNN; }
#endif
#ifdef FAKE_DRIVER
int cuDriverGetVersion(int* version) {
  *version = FAKE_DRIVER;
  return FAKE_STATUS;
}
#endif
