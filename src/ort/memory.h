// Memory that making sessions ready took, and running them does not.
#pragma once

namespace convoy::ort {

// Gives it back to the system: what the C library keeps of it, and this process's hold on pages of code. Loading oneDNN
// and planning touch some 20 MB of code, which stay in the system's cache of files; who runs them again finds them
// there.
void give_back_memory();

}  // namespace convoy::ort
