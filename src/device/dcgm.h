/* SPDX-License-Identifier: MIT
 *
 * Load of GPUs without GPM (Volta, Turing, Ampere, Ada) from NVIDIA's data-centre GPU manager (DCGM). Untested on hardware:
 * it has only ever run against the fake library of tests/fake-nvml.
 */
#ifndef RAD_DEVICE_DCGM_H
#define RAD_DEVICE_DCGM_H

#include "device/reading.h"

struct dcgm;

/* Nothing is loaded or connected before the first read. */
struct dcgm *dcgm_create(void);
void dcgm_destroy(struct dcgm *d);	/* takes NULL */

/* Adds GRACT, SMACT, SMOCC, DRAM and PCIe of the GPU r->uuid to *r, as far as DCGM has them. What it does not have, or has
 * not renewed for 10 s, stays unknown: so does everything of a GPU that DCGM is blind to because another one of the
 * server is in MIG mode (dissertation, section 6.2.4). A lost connection is tried again once a minute. */
void dcgm_read(struct dcgm *d, int64_t mono_ms, struct gpu_reading *r);

#endif
