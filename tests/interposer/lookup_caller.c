// A library that looks names up, and has a name that another one has, too. It is copied under the names that matter.
#define _GNU_SOURCE
#include <dlfcn.h>

int marker = MARKER;
int cudnnCreate(void) { return 0; }  // nobody's cuDNN

void* look(void* handle, const char* name) {
  void* const found = dlsym(handle, name);
  __asm__ volatile("");  // not a tail call: the caller is this library
  return found;
}
