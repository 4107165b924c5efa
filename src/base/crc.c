/* SPDX-License-Identifier: MIT
 *
 * CRC-32 of IEEE 802.3, eight bytes at a time.
 */
#include "base/crc.h"

/* [k][b] is byte b with k zero bytes behind it. */
static void crc_tables(uint32_t table[8][256])
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
		table[0][b] = crc;
	}
	for (int k = 1; k < 8; k++)
		for (uint32_t b = 0; b < 256; b++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint32_t crc_read(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t crc_of(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint32_t t[8][256], crc = UINT32_MAX;

	crc_tables(t);
	for (; n >= 8; n -= 8, p += 8) {
		uint32_t low = crc ^ crc_read(p), high = crc_read(p + 4);

		crc = t[7][low & 255] ^ t[6][low >> 8 & 255] ^ t[5][low >> 16 & 255] ^ t[4][low >> 24] ^
		      t[3][high & 255] ^ t[2][high >> 8 & 255] ^ t[1][high >> 16 & 255] ^ t[0][high >> 24];
	}
	while (n--)
		crc = crc >> 8 ^ t[0][(crc ^ *p++) & 255];
	return ~crc;
}
