/* SPDX-License-Identifier: MIT */
#include "estimate/activity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

int main(void)
{
	return 0;
}
