/* SPDX-License-Identifier: MIT
 *
 * rad doctor, of the driver: what it answers, what can be read of the GPUs, and what whoever reads them has to say.
 */
#ifndef RAD_CLI_DOCTOR_DRIVER_H
#define RAD_CLI_DOCTOR_DRIVER_H

struct doctor;

void doctor_driver(struct doctor *d);

#endif
