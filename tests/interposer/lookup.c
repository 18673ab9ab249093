// Looks names up and prints in which file each was found: by dlsym of this program, or of a library that it opens.
// usage: lookup [--early] CALLER HANDLE NAME [CALLER HANDLE NAME ...]
//   --early  before any constructor has run
//   CALLER   main, a library that has look() (lookup_caller.c), or deep:LIBRARY, opened with RTLD_DEEPBIND
//   HANDLE   default, next, or a library
// A line a lookup: the file's name, or what dlerror() says, and how often memory was asked for meanwhile.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int allocations;
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}

typedef void* (*Look)(void*, const char*);

static void* look_from_here(void* handle, const char* name) {
  void* const found = dlsym(handle, name);
  __asm__ volatile("");  // not a tail call: the caller is this program
  return found;
}

static void* open_library(const char* file, int flags) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL | flags);
  if (library == NULL) {
    printf("%s\n", dlerror());
    fflush(stdout);
    _exit(1);
  }
  return library;
}

static Look caller_of(const char* name) {
  if (strcmp(name, "main") == 0) return &look_from_here;
  const int deep = strncmp(name, "deep:", 5) == 0;
  return (Look)dlsym(open_library(deep ? name + 5 : name, deep ? RTLD_DEEPBIND : 0), "look");
}

static void* handle_of(const char* name) {
  if (strcmp(name, "default") == 0) return RTLD_DEFAULT;
  return strcmp(name, "next") == 0 ? RTLD_NEXT : open_library(name, 0);
}

static void look_all_up(int count, char** arguments) {
  for (int i = 0; i + 2 < count; i += 3) {
    const Look look = caller_of(arguments[i]);
    void* const handle = handle_of(arguments[i + 1]);
    const int before = allocations;
    void* const found = look(handle, arguments[i + 2]);
    const int during = allocations - before;
    Dl_info info;
    const char* where = found == NULL ? dlerror() : dladdr(found, &info) != 0 ? info.dli_fname : "?";
    const char* slash = found == NULL ? NULL : strrchr(where, '/');
    printf("%s, %d allocations\n", slash == NULL ? where : slash + 1, during);
  }
  fflush(stdout);
}

static int early(int count, char** arguments) { return count > 1 && strcmp(arguments[1], "--early") == 0; }

static void before_constructors(int count, char** arguments, char** environment) {
  (void)environment;
  if (early(count, arguments)) look_all_up(count - 2, arguments + 2);
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char**, char**) = &before_constructors;

int main(int count, char** arguments) {
  if (!early(count, arguments)) look_all_up(count - 1, arguments + 1);
  return 0;
}
