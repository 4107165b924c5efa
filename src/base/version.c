/* SPDX-License-Identifier: MIT
 * See version.h. Linked only where no program brings its own.
 */
#include "base/version.h"

const char version_build[] = RAD_VERSION;
