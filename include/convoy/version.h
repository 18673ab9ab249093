// The version of these headers and of the library behind them. C and C++.
#ifndef CONVOY_VERSION_H
#define CONVOY_VERSION_H

#define CONVOY_VERSION_MAJOR 0
#define CONVOY_VERSION_MINOR 1
#define CONVOY_VERSION_PATCH 0

// One number to compare: 1.2.3 is 10203. What a program was compiled with; version_number() is what it runs with.
#define CONVOY_VERSION (CONVOY_VERSION_MAJOR * 10000 + CONVOY_VERSION_MINOR * 100 + CONVOY_VERSION_PATCH)

// Names that will go carry this, with what to use instead. Silent unless CONVOY_WARN_DEPRECATED is defined
// (docs/stability.md).
#if defined(CONVOY_WARN_DEPRECATED) && defined(__cplusplus)
#define CONVOY_DEPRECATED(instead) [[deprecated(instead)]]
#elif defined(CONVOY_WARN_DEPRECATED)
#define CONVOY_DEPRECATED(instead) __attribute__((deprecated(instead)))
#else
#define CONVOY_DEPRECATED(instead)
#endif

#ifdef __cplusplus
namespace convoy {

const char* version();  // of the library that runs: "0.1.0"
int version_number();   // the same as CONVOY_VERSION is built

}  // namespace convoy
#endif

#endif
