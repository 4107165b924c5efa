/* SPDX-License-Identifier: MIT
 *
 * `rad simtask`: a process that behaves like a training program on simulated devices. It takes memory as one does, makes
 * progress at the speed its neighbours leave it, prints progress, and fails as PyTorch fails, in its words.
 */
#ifndef RAD_CLI_SIMTASK_H
#define RAD_CLI_SIMTASK_H

#include "cli/cli.h"

/* Returns the exit code: 0 done, 1 it failed as a training program would (out of memory, a fault, no device), 2 usage,
 * 143 ended by SIGTERM, --exit's where --crash-at says so. Reads
 *	RAD_SIM_DEVICES				the file of simulated devices
 *	CUDA_VISIBLE_DEVICES			indices or UUIDs; device 0 when unset
 *	CUDA_MPS_PIPE_DIRECTORY			an MPS client if it names the file of devices itself: simulated devices need no
 *						server, and a real program finds none there
 *	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT	an MPS client's fence; keys are UUIDs or places in CUDA_VISIBLE_DEVICES */
int simtask_main(struct cli_call *c);

#endif
