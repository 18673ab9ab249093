// Included after cudnn.h: cuDNN's functions as programs have them that are not linked to it, by dlopen and dlsym. Of
// the file CONVOY_CUDNN, else of CUDNN_FILE.
#pragma once

#include <dlfcn.h>

#include <cstdlib>

template <class Function>
Function* by_name(const char* name) {
  static void* const library = [] {
    const char* file = std::getenv("CONVOY_CUDNN");
    return dlopen(file != nullptr ? file : CUDNN_FILE, RTLD_NOW | RTLD_LOCAL);
  }();
  return reinterpret_cast<Function*>(dlsym(library, name));
}

#define BY_NAME(function)                                                \
  ([] {                                                                  \
    static auto* const found = by_name<decltype(::function)>(#function); \
    return found;                                                        \
  }())
#define cudnnBackendCreateDescriptor BY_NAME(cudnnBackendCreateDescriptor)
#define cudnnBackendDestroyDescriptor BY_NAME(cudnnBackendDestroyDescriptor)
#define cudnnBackendExecute BY_NAME(cudnnBackendExecute)
#define cudnnBackendFinalize BY_NAME(cudnnBackendFinalize)
#define cudnnBackendGetAttribute BY_NAME(cudnnBackendGetAttribute)
#define cudnnBackendSetAttribute BY_NAME(cudnnBackendSetAttribute)
#define cudnnCreate BY_NAME(cudnnCreate)
#define cudnnGetErrorString BY_NAME(cudnnGetErrorString)
#define cudnnGetLastErrorString BY_NAME(cudnnGetLastErrorString)
