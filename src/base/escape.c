/* SPDX-License-Identifier: MIT
 * See escape.h. The forms are those of ECMA-48 and ECMA-35: ESC [ parameters letter; ESC and one of ] P X ^ _, then a string up
 * to ESC \, for which xterm takes BEL too; ESC, bytes from 0x20 to 0x2f if any ("ESC ( B", with which tput ends each colour),
 * and one more.
 */
#include "base/escape.h"

#include <string.h>

#define ESC 0x1b
#define BEL 0x07

static enum escape after_escape(unsigned char b)
{
	if (b == '[')
		return ESCAPE_CSI;
	if (b && strchr("]PX^_", b))
		return ESCAPE_STRING;
	return b >= 0x20 && b <= 0x2f ? ESCAPE_BEGUN : ESCAPE_NONE;
}

bool escape_takes(enum escape *at, char c)
{
	unsigned char b = (unsigned char)c;
	bool within = *at != ESCAPE_NONE || b == ESC;
	if (b == ESC)
		*at = ESCAPE_BEGUN;
	else if (*at == ESCAPE_BEGUN)
		*at = after_escape(b);
	else if ((*at == ESCAPE_CSI && (b < 0x20 || b > 0x3f)) || (*at == ESCAPE_STRING && b == BEL))
		*at = ESCAPE_NONE;
	return within;
}
