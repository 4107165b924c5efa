/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzzer's function over every file of the folders named, so that the corpus is a normal test without clang.
 */
#include "fuzz.h"

#include "base/alloc.h"
#include "base/io.h"
#include "base/scope.h"

static void replay_file(const char *path)
{
	scoped_buf bytes = { 0 };
	struct error err = ERROR_INIT;

	if (io_read_file(path, 1 << 24, &bytes, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	LLVMFuzzerTestOneInput((const uint8_t *)buf_text(&bytes), bytes.len);
}

static unsigned replay_folder(const char *path)
{
	scoped_dir DIR *dir = opendir(path);
	unsigned files = 0;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		scoped_free char *file = alloc_printf("%s/%s", path, e->d_name);

		if (e->d_name[0] == '.')
			continue;
		replay_file(file);
		files++;
	}
	return files;
}

int main(int argc, char **argv)
{
	unsigned files = 0;

	for (int i = 1; i < argc; i++)
		files += replay_folder(argv[i]);
	printf("%u inputs\n", files);
	return files ? 0 : 1;
}
