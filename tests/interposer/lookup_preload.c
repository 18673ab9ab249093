// Another preloaded library, as allocators and tracing tools are: its malloc looks the next one up at its first call,
// before any constructor has run, and may not be called meanwhile; its dlsym counts lookups of "marker".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void* (*Lookup)(void*, const char*);

static int counted;

#ifdef IN_FRONT_OF_DLSYM
void* dlsym(void* handle, const char* name) {
  if (strcmp(name, "marker") == 0) ++counted;
  return ((Lookup)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"))(handle, name);
}
#endif

#ifdef IN_FRONT_OF_MALLOC
void* malloc(size_t size) {
  static void* (*next)(size_t);
  static int looking;
  if (next == NULL) {
    if (looking) _exit(99);
    looking = 1;
    next = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
    ++counted;
  }
  return next(size);
}
#endif

__attribute__((destructor)) static void tell(void) { fprintf(stderr, "preload: %d\n", counted); }
