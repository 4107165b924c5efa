/* SPDX-License-Identifier: MIT
 * Task files: each row is a text and what must become of it.
 */
#include "parse/radfile.h"

#include "base/alloc.h"
#include "base/scope.h"
#include "task/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void parse(const char *name, const char *text, struct radfile *f)
{
	struct error err = ERROR_INIT;
	if (radfile_parse(name, NULL, text, strlen(text), false, f, &err))
		fail_msg("%s", err.text);
}

/* "key=value@line;..." of all settings. */
static char *settings_text(const struct radfile *f)
{
	char *text = alloc_string("");
	for (size_t i = 0; i < f->n; i++) {
		char *longer = alloc_printf("%s%s=%s@%d;", text, f->settings[i].key, f->settings[i].value, f->settings[i].line);
		free(text);
		text = longer;
	}
	return text;
}

static void expect(const char *name, const char *text, const char *settings, const char *script)
{
	struct radfile f;
	parse(name, text, &f);
	scoped_free char *got = settings_text(&f);
	assert_string_equal(got, settings);
	if (script)
		assert_string_equal(f.script, script);
	radfile_clear(&f);
}

static void refuse(const char *name, const char *text, size_t len, const char *message)
{
	struct error err = ERROR_INIT;
	struct radfile f;
	assert_int_equal(radfile_parse(name, NULL, text, len, false, &f, &err), -1);
	if (!strstr(err.text, message))
		fail_msg("'%s' does not hold '%s'", err.text, message);
	assert_null(strchr(err.text, '\n'));
	assert_null(f.settings);
	assert_null(f.script);
}

/* Listing 6.1 of the dissertation, without the numbers in its margin. */
static const char listing[] =
	"# assumption is that model.txt file is in the same directory\n"
	"conda activate tf # specifying the conda environment\n"
	"python resnet.py --b 128 # command to execute\n"
	"model: resnet.txt # model summary file name\n"
	"batch_size: 128 # batch size\n"
	"policy: %s\n";

static void test_listing(void **state)
{
	(void)state;
	scoped_free char *text = alloc_printf(listing, "collocation"), *literal = alloc_printf(listing, "exclusive/ collocation");
	expect("resnet.rad", text, "model=resnet.txt@4;batch-size=128@5;policy=collocation@6;",
	       "# assumption is that model.txt file is in the same directory\n"
	       "conda activate tf # specifying the conda environment\n"
	       "python resnet.py --b 128 # command to execute\n\n\n\n");
	/* The choice that the listing prints reaches the option, which refuses it. */
	expect("resnet.rad", literal, "model=resnet.txt@4;batch-size=128@5;policy=exclusive/ collocation@6;", NULL);
}

static void test_keys(void **state)
{
	(void)state;
	static const struct { const char *text, *settings; } rows[] = {
		{ "gpus: 2\necho\n", "gpus=2@1;" },
		{ "batch-size: 3\necho\n", "batch-size=3@1;" },
		{ "time_limit: 2h\necho\n", "time=2h@1;" },
		{ "slot: 2h # then the next\necho\n", "slot=2h@1;" },
		{ "name:\tmy job\t # why\necho\n", "name=my job@1;" },
		{ "name: a#b\necho\n", "name=a#b@1;" },
		{ "name: \"two words\"\necho\n", "name=two words@1;" },
		{ "name: 'x\necho\n", "name='x@1;" },
		{ "requeue:\necho\n", "requeue=@1;" },
		{ "model: # none\necho\n", "model=@1;" },
		{ " gpus: 2\necho\n", "" },			/* not at column 1 */
		{ "model::f\necho\n", "" },			/* a function of bash's */
		{ ": ${X:=1}\necho\n", "" },
		{ "ns::f\necho\n", "" },
		{ "echo gpus: 2\n", "" },
		{ "echo\ngpus: 2", "gpus=2@2;" },		/* no line end at the end */
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect("t.rad", rows[i].text, rows[i].settings, NULL);
}

static void test_script_lines(void **state)
{
	(void)state;
	static const struct { const char *text, *settings; } rows[] = {
		{ "cat <<EOF\ngpus: 2\nEOF\ngpus: 3\n", "gpus=3@4;" },
		{ "cat <<-'END x'\n\tgpus: 2\n\tEND x\ngpus: 3\n", "gpus=3@4;" },
		{ "cat <<\\E <<\"F\"\ngpus: 2\nE\ngpus: 4\nF\ngpus: 3\n", "gpus=3@6;" },
		{ "cat <<EOF | sort\ngpus: 2\n EOF\nEOFX\nEOF\ngpus: 3\n", "gpus=3@6;" },
		{ "cat <<<EOF\ngpus: 2\n", "gpus=2@2;" },
		{ "x=$((1 << 2))\ngpus: 2\n", "gpus=2@2;" },
		{ "((x = 1 << (2 << y)))\ngpus: 2\n", "gpus=2@2;" },
		{ "x=$(cat <<E\ngpus: 9\nE\n)\ngpus: 2\n", "gpus=2@5;" },
		{ "# cat <<EOF\ngpus: 2\necho\n", "gpus=2@2;" },
		{ "echo '<<EOF' \"<<E\"\ngpus: 2\n", "gpus=2@2;" },
		{ "echo a \\\ngpus: 2\n", "" },
		{ "echo a \\\\\ngpus: 2\n", "gpus=2@2;" },
		{ "# a comment \\\ngpus: 2\necho\n", "gpus=2@2;" },
		{ "echo 'a\\\ngpus: 2\n'\ngpus: 3\n", "gpus=3@4;" },
		{ "echo 'one\ngpus: 2\ntwo'\ngpus: 3\n", "gpus=3@4;" },
		{ "echo \"$(echo \")\")\ngpus: 2\n\"\ngpus: 3\n", "gpus=3@4;" },
		{ "echo $'it\\'s\ngpus: 2\n'\ngpus: 3\n", "gpus=3@4;" },
		{ "echo it\\'s\ngpus: 2\n", "gpus=2@2;" },
		{ "echo \"it's\" # don't\ngpus: 2\n", "gpus=2@2;" },
		{ "echo ${x#\\'} ${#x} $# a#'b\n'\ngpus: 2\n", "gpus=2@3;" },
		{ "echo \"${x:-it's}\"\ngpus: 2\n", "gpus=2@2;" },
		{ "case $x in\na) echo ;;\nesac\ngpus: 2\n", "gpus=2@4;" },
		{ "echo `echo 'a'`\ngpus: 2\n", "gpus=2@2;" },
		{ "f() {\ncat <<E\nmodel: x\nE\n}\ngpus: 2\nf\n", "gpus=2@6;" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect("t.rad", rows[i].text, rows[i].settings, NULL);
	/* What is script stays as it is. */
	expect("t.rad", "cat <<EOF\nfoo: bar\nEOF\n", "", "cat <<EOF\nfoo: bar\nEOF\n");
}

static void test_directives(void **state)
{
	(void)state;
	expect("t.sh", "#!/bin/sh\n#RAD --gpus=2 --name \"a b\" # why\n#RAD -t 10 -H\nelse: no setting\n",
	       "gpus=2@2;name=a b@2;time=10@3;hold=@3;",
	       "#!/bin/sh\n#RAD --gpus=2 --name \"a b\" # why\n#RAD -t 10 -H\nelse: no setting\n");
	expect("t.sh", "#RAD --gpus=2\ncat <<E\n#RAD --gpus=3\nE\n", "gpus=2@1;", NULL);
	expect("t.sh", "#RAD --nice --gpus=2\n#RAD is a comment\n#RADIUS -x\necho\n", "nice=@1;gpus=2@1;", NULL);
	/* In a .rad file both count, and the directive comes later: it beats the setting. */
	expect("t.rad", "#RAD --gpus=2\necho\ngpus: 1\n", "gpus=1@3;gpus=2@1;", NULL);
	assert_true(radfile_has_directives("a\n#RAD --x\n", 10));
	assert_true(radfile_has_directives("#RAD -G 2", 9));
	assert_true(radfile_has_directives("#RAD gpus=2", 11));		/* to be told of the dashes */
	assert_true(radfile_has_directives("a\n#SBATCH -p x\n", 15));
	assert_true(radfile_has_directives("#RAD \u2013G 2\n", 12));
	assert_false(radfile_has_directives("#SBATCH\n#SBATCH x\n#SBATCHED -x\n", 31));
	assert_false(radfile_has_directives("# RAD --x\n #RAD --x\n#RAD x\n", 28));
}

static void test_other_interpreter(void **state)
{
	(void)state;
	struct radfile f;
	parse("t.py", "#!/usr/bin/env python3\n#RAD --gpus=2\nx = 1 << 3\ntry:\n  pass\n#RAD --name=x\nprint('it''s')\n", &f);
	scoped_free char *got = settings_text(&f);
	assert_string_equal(got, "gpus=2@2;name=x@6;");
	assert_non_null(strstr(f.script, "exec /usr/bin/env python3 /dev/fd/9 \"$@\" 9<<'RAD_SCRIPT_END_"));
	assert_non_null(strstr(f.script, "\n#!/usr/bin/env python3\n#RAD --gpus=2\nx = 1 << 3\n"));
	radfile_clear(&f);
	expect("t.sh", "#!/usr/bin/env -S bash -e\n#RAD --gpus=2\necho\n", "gpus=2@2;",
	       "#!/usr/bin/env -S bash -e\n#RAD --gpus=2\necho\n");
	refuse("t.rad", "#!/usr/bin/python\nprint()\n", 26, "t.rad:1: '#!/usr/bin/python'");
}

/* What bash gets for another interpreter's script really runs it, with its arguments. */
static void test_other_interpreter_runs(void **state)
{
	(void)state;
	struct radfile f;
	char text[100] = "";
	parse("t", "#!/usr/bin/awk -f\n#RAD --gpus=1\nBEGIN { print \"it's $HOME `x`\", ARGV[1] }\n", &f);
	char path[] = "/tmp/rad-script-XXXXXX";
	scoped_fd int fd = mkstemp(path);
	assert_true(write(fd, f.script, strlen(f.script)) == (ssize_t)strlen(f.script));
	scoped_free char *command = alloc_printf("bash -e %s 'a b'", path);
	FILE *out = popen(command, "r");
	assert_true(fread(text, 1, sizeof text - 1, out) > 0);
	assert_int_equal(pclose(out), 0);
	unlink(path);
	radfile_clear(&f);
	assert_string_equal(text, "it's $HOME `x` a b\n");
}

#define POSITIONAL "# resnet\n\ntf\npython resnet.py --b 128\nresnet.txt\nimagenet\n128\nexclusive\n2\n"

static void test_positional(void **state)
{
	(void)state;
	struct radfile f;
	struct error err = ERROR_INIT;
	const char *text = POSITIONAL "12578\n9000.6\n0\n13000\n";
	parse("t.rad", text, &f);
	scoped_free char *got = settings_text(&f);
	assert_int_equal(f.form, RAD_FORM_POSITIONAL);
	assert_string_equal(got, "env=tf@3;model=resnet.txt@5;batch-size=128@7;gpus=2@9;gpu-mem=12578@10;");
	assert_string_equal(f.script, "\n\n\npython resnet.py --b 128\n");
	assert_int_equal(f.estimates_mib[0], 9001);
	assert_int_equal(f.estimates_mib[1], 0);
	assert_int_equal(f.estimates_mib[2], 13000);
	assert_int_equal(f.n_notes, 1);
	assert_non_null(strstr(f.notes[0], "'exclusive' on line 8 is ignored"));
	radfile_clear(&f);
	assert_int_equal(radfile_parse("t.rad", NULL, text, strlen(text), true, &f, &err), 0);
	scoped_free char *honoured = settings_text(&f);
	assert_non_null(strstr(honoured, "policy=exclusive@8;"));
	assert_int_equal(f.n_notes, 0);
	radfile_clear(&f);
	/* Recognised exactly so: one line less, one more, another word, and it is a script. */
	static const char *const others[] = {
		POSITIONAL, POSITIONAL "1\n2\n3\n4\n5\n", POSITIONAL "much\n",
		"# r\ntf\npython r.py\nr.txt\nd\n128\nshared\n2\n1\n", "# r\ntf\npython r.py\nr.txt\nd\n12.8\nexclusive\n2\n1\n",
		"r\ntf\npython r.py\nr.txt\nd\n128\nexclusive\n2\n1\n",
	};
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		parse("t.rad", others[i], &f);
		assert_int_equal(f.form, RAD_FORM_KEYS);
		assert_int_equal(f.n, 0);
		radfile_clear(&f);
	}
	refuse("t.rad", POSITIONAL "-5\n", strlen(POSITIONAL "-5\n"), "t.rad:10: memory in MiB");
}

static void test_line_ends(void **state)
{
	(void)state;
	struct radfile f;
	parse("t.rad", "\xef\xbb\xbfgpus: 2\r\necho hi\r\n", &f);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.settings[0].value, "2");
	assert_string_equal(f.script, "\necho hi\n");
	assert_int_equal(f.n_notes, 1);
	radfile_clear(&f);
}

static void test_indented_keys_are_told_once(void **state)
{
	(void)state;
	struct radfile f;
	parse("t.rad", "name: x\n\tgpu_mem: 8G\n  gpus: 2\n  other: 3\n", &f);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.n_notes, 1);
	assert_non_null(strstr(f.notes[0], "line 2: 'gpu_mem:' is indented"));
	radfile_clear(&f);
	parse("t.rad", "cat <<E\n  gpus: 2\nE\necho '\n  gpus: 2'\n", &f);
	assert_int_equal(f.n_notes, 0);
	radfile_clear(&f);
}

static void test_refused(void **state)
{
	(void)state;
	static const struct { const char *text, *message; } rows[] = {
		{ "", "t.rad: is empty" },
		{ "\n \t\n", "t.rad: is empty" },
		{ "\xef\xbb\xbf", "t.rad: is empty" },
		{ "# only\ngpus: 2\n", "t.rad: holds no command" },
		{ "echo\nbathc_size: 3\n", "t.rad:2: unknown setting 'bathc_size': did you mean 'batch_size'?" },
		{ "echo\nGPUS: 3\n", "t.rad:2: unknown setting 'GPUS': did you mean 'gpus'?" },
		{ "echo\nzzzzzz: 3\n", "t.rad:2: unknown setting 'zzzzzz': expected a command, or one of gpus" },
		{ "echo\nzzzzzz:\n", "t.rad:2: unknown setting 'zzzzzz'" },
		{ "echo\ngpu_mem:8G # x\n", "t.rad:2: 'gpu_mem:8G # x': a setting is a key, a colon and a blank: write 'gpu_mem: 8G # x'" },
		{ "echo\ngpus : 0\n", "t.rad:2: 'gpus : 0': a setting is a key, a colon and a blank: write 'gpus: 0'" },
		{ "echo\ngpu-mem\t= 8G\n", "a setting is a key, a colon and a blank: write 'gpu-mem: 8G'" },
		{ "echo\ngpus :\n", "t.rad:2: 'gpus :': a setting" },
		{ "echo\narray: 0-9\n", "t.rad:2: 'array' is no setting of a task file: write '#RAD --array=...' instead" },
		{ "gpus: 1\necho\ngpus: 2\n", "t.rad:3: 'gpus' was already set on line 1" },
		{ "time: 1\necho\ntime-limit: 2\n", "t.rad:3: 'time' was already set on line 1" },
		{ "#RAD --gpu=1\necho\n", "t.rad:1: unknown option '--gpu=1' after #RAD: did you mean '--gpus'?" },
		{ "#RAD --qqqqqqq\necho\n", "t.rad:1: unknown option '--qqqqqqq' after #RAD: see" },
		{ "#RAD -Z\necho\n", "t.rad:1: unknown option '-Z'" },
		{ "#RAD --gpus=1 stray\necho\n", "t.rad:1: unknown option 'stray'" },
		{ "#RAD --json\necho\n", "t.rad:1: '--json' belongs on the command line" },
		{ "#RAD --hold=1\necho\n", "t.rad:1: '--hold' takes no value" },
		{ "#RAD --gpus\necho\n", "t.rad:1: '--gpus' needs a value: write --gpus=N" },
		{ "#RAD \u2013gpus=2\necho\n", "t.rad:1: '\u2013gpus=2' begins with another dash than '-'" },
		{ "#RAD gpus=2\necho\n", "t.rad:1: '#RAD gpus=': options begin with two dashes" },
		{ "echo\ncaf\xe9\n", "t.rad:2: byte 0xe9 is not UTF-8" },
		{ "echo \xc0\xaf\n", "t.rad:1: byte 0xc0 is not UTF-8" },
		{ "echo \xed\xa0\x80\n", "is not UTF-8" },
		{ "cat <<EOF\ngpus: 2\n", "t.rad:2: this setting is inside the here-document that began on line 1 and never ends" },
		{ "echo\necho 'x\n\ngpus: 2\n", "t.rad:4: this setting is inside the quotes that began on line 2 and never end" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		refuse("t.rad", rows[i].text, strlen(rows[i].text), rows[i].message);
	refuse("t.rad", "a\nb\0c\n", 6, "t.rad:2: a zero byte");
}

static void test_sizes(void **state)
{
	(void)state;
	scoped_free char *big = alloc_zero(SPEC_MAX_TEXT + 2);
	memset(big, 'x', SPEC_MAX_TEXT + 1);
	refuse("t.rad", big, SPEC_MAX_TEXT + 1, "t.rad: is larger than 1 MiB");
	/* One line of 1 MiB: as a command, as a key, as a here-document's word, as nested quotes. */
	struct radfile f;
	assert_int_equal(radfile_parse("t.rad", NULL, big, SPEC_MAX_TEXT, false, &f, NULL), 0);
	radfile_clear(&f);
	memcpy(big + SPEC_MAX_TEXT - 3, ": 1", 3);
	refuse("t.rad", big, SPEC_MAX_TEXT, "t.rad:1: unknown setting 'xxxx");
	static const char *const fills[] = { "<<", "\"$(", "'", "((", "`", "<<a ", "${", "\\", "#RAD -", ")" };
	for (size_t i = 0; i < COUNT_OF(fills); i++) {
		for (size_t k = 0, n = strlen(fills[i]); k < SPEC_MAX_TEXT; k++)
			big[k] = fills[i][k % n];
		if (!radfile_parse("t.rad", NULL, big, SPEC_MAX_TEXT, false, &f, NULL))
			radfile_clear(&f);
	}
}

static double processor_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Files of 1 MiB take time in proportion to their length, which is some hundredths of a second. */
static void test_hostile_files_take_no_time(void **state)
{
	static const struct { const char *front, *fill, *lines; } files[] = {
		{ "", "", "#\n" }, { "", "", "# a\n" }, { "", "", "a\n" }, { "", "", "#RAD x\n" }, { "", "", "cat <<A\n" },
		{ "", "", "\\\n" }, { "cat <<", "''", "x\n" }, { "cat <<", "\\E", "x\n" }, { "#!/usr/bin/env", " -i", "x\n" },
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(files); i++) {
		scoped_free char *text = alloc_zero(SPEC_MAX_TEXT + 1);
		size_t n = strlen(files[i].front), fill = strlen(files[i].fill), lines = strlen(files[i].lines);
		struct radfile f;
		memcpy(text, files[i].front, n);
		for (; fill && n < SPEC_MAX_TEXT / 2; n++)
			text[n] = files[i].fill[n % fill];
		text[n++] = fill ? '\n' : '#';
		for (size_t k = 0; n < SPEC_MAX_TEXT; n++, k++)
			text[n] = files[i].lines[k % lines];
		print_message("%s, %s, %s", files[i].front, files[i].fill, files[i].lines);
		double began = processor_s();
		if (!radfile_parse("t.rad", NULL, text, n, false, &f, NULL))
			radfile_clear(&f);
		assert_true(processor_s() - began < 2);
	}
}

static void slurms_lines(void **state)
{
	struct radfile f;
	(void)state;
	expect("a.sh", "#!/bin/sh\n#SBATCH -t 10 --gres gpu:1 -p short\n#SBATCH --time=20 # comment\n#RAD --gres=gpu:2\ntrue\n",
	       "time=20@3;gres=gpu:1@2;gres=gpu:2@4;", NULL);
	expect("a.sh", "#SBATCH\n#SBATCH # x\n#SBATCH --\n#SBATCH\t\n#SBATCH --nice --exclusive=user\ntrue\n", "nice=@5;", NULL);
	expect("a.sh", "cat <<E\n#SBATCH -t 1\nE\n#SBATCH -t 2\n#SBATCH -t 3\n", "", NULL);
	parse("a.sh", "#SBATCH --partition=a -A b --licenses 4 --ntasks=4\n#SBATCH -N1\ntrue\n#SBATCH -t 1\n#SBATCH -t 1\n", &f);
	assert_int_equal(f.n, 1);
	assert_string_equal(f.settings[0].key, "cpus-per-task");
	assert_string_equal(f.settings[0].value, "4");
	assert_int_equal(f.n_notes, 2);
	assert_non_null(strstr(f.notes[1], ": --partition (line 1), -A (line 1), --licenses (line 1)"));
	radfile_clear(&f);
	expect("a.sh", "#SBATCH -n2 --gpus-per-task=a100:1\n#SBATCH --mem-per-gpu 4G --cpus-per-task=3\ntrue\n",
	       "cpus-per-task=6@2;gpus=a100:2@2;mem=8192@2;", NULL);
	expect("a.sh", "#SBATCH --job=x --exclus --dep=singleton\n"
	       "#SBATCH --gpus-per-node=a100:2 --cpus-per-gpu 4\n#SBATCH --mail-user=ada\ntrue\n",
	       "name=x@1;exclusive=@1;dependency=singleton@1;gpus-per-node=a100:2@2;cpus-per-task=8@2;", NULL);
	expect("a.sh", "#SBATCH --mail-user=ada --mail-type END --from-tomorrow=7 -Z 3 -t1\ntrue\n",
	       "mail-user=ada@1;mail-type=END@1;time=1@1;", NULL);
	expect("a.sh", "#!/bin/bash\n#SBATCH -t 1\nfalse\n", "time=1@2;", "set +e\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/bin/bash -eu\n#SBATCH -t 1\nfalse\n", "time=1@2;", "#!/bin/bash -eu\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/bin/bash -xe\n#SBATCH -t 1\nfalse\n", "time=1@2;", "#!/bin/bash -xe\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/bin/bash -eo pipefail\n#SBATCH -t 1\nfalse\n", "time=1@2;",
	       "#!/bin/bash -eo pipefail\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/usr/bin/env -S bash -o errexit\n#SBATCH -t 1\nfalse\n", "time=1@2;",
	       "#!/usr/bin/env -S bash -o errexit\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/usr/bin/env -S bash -xo errexit -u\n#SBATCH -t 1\nfalse\n", "time=1@2;",
	       "#!/usr/bin/env -S bash -xo errexit -u\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/usr/bin/env -S bash -o pipefail\n#SBATCH -t 1\nfalse\n", "time=1@2;", "set +e\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#!/bin/bash\n#SBATCH -t 1\nset -o errexit\nfalse\n", "time=1@2;",
	       "set +e\n#SBATCH -t 1\nset -o errexit\nfalse\n");
	expect("a.sh", "#!/bin/bash --noprofile -x\n#SBATCH -t 1\nfalse\n", "time=1@2;", "set +e\n#SBATCH -t 1\nfalse\n");
	expect("a.sh", "#SBATCH -t 1\n#RAD -G 2\nfalse\n", "time=1@1;gpus=2@2;", "#SBATCH -t 1\n#RAD -G 2\nfalse\n");
	refuse("a.sh", "#SBATCH --nodes=2-4\ntrue\n", 25, "a.sh:1: #SBATCH asks for 2-4 nodes");
	refuse("a.sh", "#SBATCH -N 2\ntrue\n", 18, "nodes");
	refuse("a.sh", "#SBATCH -G 1\n#SBATCH hetjob\n#SBATCH -G 8\ntrue\n", 46, "a.sh:2: #SBATCH hetjob asks for several jobs");
	refuse("a.sh", "#SBATCH --nice 5\ntrue\n", 22, "a.sh:1: '5' after #SBATCH is no option");
	refuse("a.sh", "#SBATCH --gres = gpu:1\ntrue\n", 28, "a.sh:1: 'gpu:1' after #SBATCH is no option");
	refuse("a.sh", "#SBATCH -t 1\n#SBATCH -\u2013mem=4G\ntrue\n", 37, "a.sh:2: '-\u2013mem=4G' begins with another dash");
	refuse("a.sh", "#SBATCH -t 1\n#SBATCH \u2013mem=4G\ntrue\n", 36, "a.sh:2: '\u2013mem=4G' begins with another dash");
	refuse("a.sh", "#SBATCH --tme=1:00\ntrue\n", 24, "'--tme' after #SBATCH: did you mean '--time'?");
	refuse("a.sh", "#SBATCH --grse=gpu:2\ntrue\n", 26, "did you mean '--gres'?");
	refuse("a.sh", "#SBATCH --hold=yes\ntrue\n", 24, "'--hold' takes no value");
	refuse("a.sh", "#SBATCH --ntasks=many\ntrue\n", 27, "a.sh:1: --ntasks: 'many'");
	refuse("a.sh", "#SBATCH --input=x\ntrue\n", 23, "redirect in the script");
	refuse("a.sh", "#SBATCH -t\ntrue\n", 16, "'--time' needs a value");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slurms_lines),
		cmocka_unit_test(test_listing), cmocka_unit_test(test_keys), cmocka_unit_test(test_script_lines),
		cmocka_unit_test(test_directives), cmocka_unit_test(test_other_interpreter), cmocka_unit_test(test_other_interpreter_runs),
		cmocka_unit_test(test_positional),
		cmocka_unit_test(test_line_ends), cmocka_unit_test(test_indented_keys_are_told_once), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_hostile_files_take_no_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
