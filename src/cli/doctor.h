/* SPDX-License-Identifier: MIT
 *
 * What the parts of rad doctor share: what was found out of a radd and its devices, and lines about it. Private to the doctor.
 */
#ifndef RAD_CLI_DOCTOR_H
#define RAD_CLI_DOCTOR_H

#include "cli/term.h"
#include "device/device.h"

#include <jansson.h>
#include <stdbool.h>

enum grade { GRADE_OK, GRADE_WARN, GRADE_FAIL };

struct doctor {
	struct term term;
	json_t *checks;		/* [{check, grade, text}] */
	json_t *status, *gpus;	/* of the daemon; NULL when there is none */
	struct device *device;	/* the daemon's, or what one would have without settings */
	bool json, failed;
};

/* A line for people, and for the list; one that fails is the doctor's verdict. */
void doctor_say(struct doctor *d, enum grade grade, const char *check, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
