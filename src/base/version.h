/* SPDX-License-Identifier: MIT
 *
 * RAD_VERSION is the release, known to every file; what the build says it is changes with every commit.
 */
#ifndef RAD_BASE_VERSION_H
#define RAD_BASE_VERSION_H

/* "0.1.0", or "0.1.0+20261128142736.27fe6333": of two builds the later one's is greater (strverscmp). Programs bring their own
 * (version_build.c.in); what is linked without one, as tests are, says the release. */
extern const char version_build[];

#endif
