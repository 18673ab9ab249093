#include "convoy/version.h"

#define CONVOY_TEXT_INNER(x) #x
#define CONVOY_TEXT(x) CONVOY_TEXT_INNER(x)

namespace convoy {

const char* version() {
  return CONVOY_TEXT(CONVOY_VERSION_MAJOR) "." CONVOY_TEXT(CONVOY_VERSION_MINOR) "." CONVOY_TEXT(CONVOY_VERSION_PATCH);
}

int version_number() { return CONVOY_VERSION; }

}  // namespace convoy
