/* SPDX-License-Identifier: MIT
 * The kinds of device that there are, in the order in which people are told of them. Private to this stage: X(nvml) stands for
 * `nvml_kind`, a `struct device_kind` in a file of its own.
 */
#ifndef RAD_DEVICE_KINDS_H
#define RAD_DEVICE_KINDS_H

#include "device/device.h"

#define DEVICE_KINDS(X) \
	X(nvml) \
	X(simdev)

#define DEVICE_KIND_DECLARE(name) extern const struct device_kind name##_kind;
DEVICE_KINDS(DEVICE_KIND_DECLARE)
#undef DEVICE_KIND_DECLARE

#endif
