#include "convoy/version.h"

namespace convoy {

const char* version() { return CONVOY_VERSION; }

}  // namespace convoy
