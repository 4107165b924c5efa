/* SPDX-License-Identifier: MIT
 *
 * CRC-32 of IEEE 802.3, as zlib's: against accidents, not against people.
 */
#ifndef RAD_BASE_CRC_H
#define RAD_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* As it is stored, little-endian. */
uint32_t crc_read(const unsigned char *p);
uint32_t crc_of(const void *bytes, size_t n);

#endif
