// Code on a device: a compiled image (cubin, fatbin or PTX), its kernels, and launching them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "convoy/result.h"
#include "device/cuda/driver.h"

namespace convoy::cuda {

// A kernel of a module; valid while the module lives.
struct Kernel {
  CUfunction function = nullptr;
  std::string name;
};

// What the compiler and the driver say of a kernel.
struct KernelResources {
  int registers = 0;      // a thread
  int spilled_bytes = 0;  // local memory, a thread
  int static_shared_bytes = 0;
  int most_threads = 0;  // a block
};

class Module {
 public:
  // The error has the driver's log where it compiled PTX.
  static Result<Module> load(int ordinal, std::span<const char> image, const std::string& name);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  // With leave to use `dynamic_shared_bytes` of shared memory when it is launched.
  Result<Kernel> kernel(const std::string& name, int dynamic_shared_bytes = 0) const;
  Result<KernelResources> resources(const Kernel& kernel) const;
  // A global variable's address and size.
  Result<std::span<std::byte>> global(const std::string& name) const;

 private:
  Module(int ordinal, CUmodule module, std::string name) : ordinal_(ordinal), module_(module), name_(std::move(name)) {}
  int ordinal_;
  CUmodule module_;
  std::string name_;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

struct Launch {
  Extent grid;
  Extent block;
  int dynamic_shared_bytes = 0;
  Extent cluster;  // blocks; {1, 1, 1}: none
  // The kernel may be started before the kernel in front of it in the stream has ended, and waits itself where it needs
  // to (griddepcontrol.wait; compute capability 9.0).
  bool overlapped = false;
};

// Lowers the grid of a kernel that takes its work in turns, whatever its grid is, to what `sms` multiprocessors run at
// once, so that it leaves the others to somebody else. It starts after the kernel in front of it, not beside it.
// `ordinal`: the device that the kernel was loaded for.
Result<void> keep_within(int ordinal, int sms, const Kernel& kernel, Launch& shape);

// Enqueues the kernel on a stream of the thread's current device; `arguments` point to its parameters. Returns at once;
// errors are those of the launch, and name the kernel, its grid and its block.
Result<void> launch(const Kernel& kernel, const Launch& shape, std::span<void* const> arguments, CUstream stream);

}  // namespace convoy::cuda
