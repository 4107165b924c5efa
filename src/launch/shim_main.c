/* SPDX-License-Identifier: MIT
 * rad-shim: the process beside a task, and the helper that talks to MPS control daemons. Started by radd only.
 */
#include "base/version.h"
#include "launch/shim.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "task"))
		return shim_task(argv[2]);
	if (argc > 2 && !strncmp(argv[1], "mps-", 4))
		return shim_mps(argc, argv);
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("rad-shim %s\n", version_build);
		return SHIM_DONE;
	}
	fputs("rad-shim: started by radd for each task; there is nothing to do with it by hand\n", stderr);
	return SHIM_USAGE;
}
