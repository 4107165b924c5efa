/* SPDX-License-Identifier: MIT
 *
 * Which of a machine's NVIDIA GPUs were asked for, by number or UUID. Pure: nvml.c says what there is.
 */
#ifndef RAD_DEVICE_NVML_CHOICE_H
#define RAD_DEVICE_NVML_CHOICE_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A GPU, or a MIG instance of one, which has its GPU's number and goes by UUID only. */
struct nvml_name {
	const char *uuid, *model;
	const char *parent;	/* of an instance: its GPU's UUID; NULL: a GPU */
	uint32_t index;
};

struct nvml_machine {
	const struct nvml_name *names;	/* in PCI order, a GPU's instances after it */
	size_t n;
	bool unsure;	/* a GPU that does not answer has an unknown place, so the numbers of the others are not certain */
};

/* The list of a setting: numbers in PCI order, UUIDs, or beginnings of these that fit one alone; a GPU stands for all its
 * instances. Every word must name something that is there, and nothing twice. Appends "UUID,UUID" to *chosen, or fails with
 * an error that names the word and lists what there is. */
int nvml_choice_setting(const struct nvml_machine *m, const char *list, struct buf *chosen, struct error *err);

/* The value of CUDA_VISIBLE_DEVICES, as CUDA reads it: the first word decides between numbers and UUIDs, the first that names
 * nothing ends the list, and a GPU named twice leaves none. `fastest_first`: CUDA_DEVICE_ORDER says so. *ended is where a
 * list ended before its end, NULL otherwise. Fails when no GPU is left. */
int nvml_choice_cuda(const struct nvml_machine *m, const char *list, bool fastest_first, struct buf *chosen,
		     const char **ended, struct error *err);

#endif
