// The process that this library is in.
#pragma once

#include <string>

namespace convoy::interposer {

// Its command line; a thousand characters of it.
std::string program();

// The device that the calling thread works on, as the driver counts them; -1 where that can't be asked.
int current_device();
// As the driver names it; empty where that can't be asked.
std::string device_name();

// Around fork(), after all other locks. The loader is not asked by the functions above meanwhile.
void lock_loading();
void unlock_loading();

}  // namespace convoy::interposer
