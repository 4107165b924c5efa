/* SPDX-License-Identifier: MIT
 *
 * What every fuzzer here is: one function, called by libFuzzer (clang) or by replay.c (any compiler, over a corpus). It aborts
 * when a property does not hold.
 */
#ifndef RAD_TESTS_FUZZ_H
#define RAD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_HOLDS(property) do { \
	if (!(property)) { \
		fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property); \
		abort(); \
	} \
} while (0)

#endif
