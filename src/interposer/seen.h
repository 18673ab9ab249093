// What a process leaves for `convoy exec`, which says what it could not see: lines of a file PID in the folder
// CONVOY_SEEN.
#pragma once

namespace convoy::interposer {

// A call of cuDNN came by; `version` is cudnnGetVersion's.
void leave_called(int version);

// At the end: cuDNN is loaded, and no call came by. (Where one did, or none is loaded: nothing.)
void leave_loaded();

// At the end, where the hook was to be in PyTorch (python/convoy/_exec): a Python that has imported torch.
void leave_torch();

}  // namespace convoy::interposer
