/* SPDX-License-Identifier: MIT
 * From command lines to specs, in a folder of its own with real files.
 */
#include "cli/submit_client.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/scope.h"
#include "submit/validate.h"
#include "tests/capture_write.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char folder[64];

static void put(const char *name, const char *text, mode_t mode)
{
	scoped_free char *path = alloc_printf("%s/%s", folder, name);
	scoped_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, text, strlen(text)), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/rad-client-XXXXXX");
	if (!mkdtemp(folder) || chdir(folder) || mkdir("jobs", 0755) || mkdir("logs", 0755) || mkdir("closed", 0555) ||
	    mkdir("50%j", 0755))
		return -1;
	put("train.py", "import torch\n", 0644);
	put("step.sh", "true\n", 0644);
	put("a&b.sh", "true\n", 0644);
	put("run.py", "#!/usr/bin/env python3\n", 0755);
	put("bare.py", "import torch\n", 0755);
	put("jobs/resnet.txt", "        Layer (type)               Output Shape         Param #\n"
	    "================================================================\n"
	    "            Conv2d-1         [-1, 64, 112, 112]           9,408\n"
	    "================================================================\nTotal params: 9,408\n", 0644);
	put("jobs/resnet.rad", "conda activate tf # env\npython resnet.py --b 128 # command\nmodel: resnet.txt # summary\n"
	    "batch_size: 128 # batch size\npolicy: collocation\ngpus: 2\ntime: 30\n#RAD --gpus=3\n", 0644);
	put("jobs/other.rad", "echo\n", 0644);
	put("jobs/nomodel.rad", "echo\n\nmodel: missing.txt\n", 0644);
	put("jobs/badvalue.rad", "echo\ngpus: many\n", 0644);
	put("jobs/old.rad", "# old\ntf\npython t.py\nresnet.txt\nimagenet\n128\nexclusive\n1\n12000\n11000\n", 0644);
	put("job.sh", "#!/bin/sh\n#RAD --name=fromfile\necho \"$@\"\n", 0644);
	put("plain.sh", "#!/bin/sh\necho\n", 0755);
	put("large.sh", "#!/bin/sh\n#RAD --hold\nexit\n", 0755);	/* what follows is no text, as in one that unpacks itself */
	return truncate("large.sh", 2 << 20) || symlink("/nowhere/python3", "jobs/python");
}

static int tear_down(void **state)
{
	(void)state;
	scoped_free char *command = alloc_printf("rm -rf '%s'", folder);
	return chdir("/") || system(command);
}

/* Splits at blanks: no word of these tests holds one. */
static int submit(const char *line, struct spec **s, struct submit_flags *flags, struct error *err)
{
	scoped_free char *copy = alloc_printf("submit %s", line);
	char *argv[64], **next = argv;
	*err = ERROR_INIT;
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		*next++ = w;
	*next = NULL;
	return submit_parse_command((int)(next - argv), argv, s, flags, err);
}

static struct spec *take(const char *line)
{
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	if (submit(line, &s, &flags, &err))
		fail_msg("%s: %s", line, err.text);
	submit_flags_clear(&flags);
	return s;
}

static void assert_in_folder(const char *path, const char *rest)
{
	scoped_free char *real = realpath(folder, NULL), *want = alloc_printf("%s%s", real, rest);
	assert_string_equal(path, want);
}

static void test_task_file(void **state)
{
	(void)state;
	struct spec *s = take("--time 10 jobs/resnet.rad --lr 1 x");
	assert_string_equal(s->name, "resnet.rad");
	assert_string_equal(s->script, "conda activate tf # env\npython resnet.py --b 128 # command\n\n\n\n\n\n#RAD --gpus=3\n");
	assert_string_equal(s->argv[0], "--lr");
	assert_string_equal(s->argv[2], "x");
	assert_null(s->argv[3]);
	assert_int_equal(s->batch_size, 128);
	assert_int_equal(s->gpus, 3);			/* directive beats file */
	assert_int_equal(s->time_limit_s, 600);		/* command line beats file */
	assert_in_folder(s->cwd, "/jobs");
	assert_in_folder(s->output, "/jobs/rad-%j.out");
	assert_non_null(strstr(s->model, "Conv2d-1"));	/* from the file's own folder */
	assert_string_equal(s->model_name, "resnet.txt");
	assert_int_equal(s->share, SHARE_AUTO);
	assert_non_null(s->signature);
	spec_unref(s);
	s = take("--gpus=1 jobs/resnet.rad");
	assert_int_equal(s->gpus, 1);
	spec_unref(s);
}

static void test_script_with_directives(void **state)
{
	(void)state;
	struct spec *s = take("job.sh a b");
	assert_string_equal(s->name, "fromfile");
	assert_string_equal(s->script_name, "job.sh");		/* whatever it is called in lists */
	scoped_free char *command = spec_command_text(s);
	assert_string_equal(command, "job.sh a b");
	assert_string_equal(s->argv[0], "a");
	assert_in_folder(s->cwd, "");
	spec_unref(s);
	s = take("./plain.sh");			/* no #RAD line: a command */
	assert_null(s->script);
	assert_string_equal(s->argv[0], "./plain.sh");
	spec_unref(s);
	s = take("-- ./plain.sh --gpus 2");
	assert_null(s->script);
	assert_int_equal(s->gpus, 1);
	assert_string_equal(s->argv[1], "--gpus");
	spec_unref(s);
}

static bool honours(void)
{
	return true;
}

static void test_positional(void **state)
{
	(void)state;
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	assert_int_equal(submit("jobs/old.rad", &s, &flags, &err), 0);
	assert_int_equal(s->gpu_mem_mib, 12000);
	assert_int_equal(s->estimates_mib[0], 11000);
	assert_int_equal(s->share, SHARE_AUTO);
	assert_int_equal(flags.n_notes, 1);
	submit_flags_clear(&flags);
	spec_unref(s);
	flags.positional_policy = honours;
	assert_int_equal(submit("jobs/old.rad", &s, &flags, &err), 0);
	assert_int_equal(s->share, SHARE_NEVER);
	assert_int_equal(flags.n_notes, 0);
	spec_unref(s);
}

static bool never_asked(void)
{
	fail_msg("what the daemon thinks of task files was asked for a command");
	return false;
}

static void test_command_asks_nothing(void **state)
{
	(void)state;
	struct spec *s;
	struct submit_flags flags = { .positional_policy = never_asked };
	struct error err;
	assert_int_equal(submit("true", &s, &flags, &err), 0);
	submit_flags_clear(&flags);
	spec_unref(s);
}

static void test_command(void **state)
{
	(void)state;
	struct spec *s = take("-G 2 --gpu-mem=12G --priority 10 --nice=3 -J first -o ../logs/%x-%j.log --chdir jobs env -u X");
	assert_int_equal(s->gpus, 2);
	assert_int_equal(s->gpu_mem_mib, 12288);
	assert_int_equal(s->priority, 7);
	assert_string_equal(s->name, "first");
	assert_string_equal(s->argv[0], "env");
	assert_string_equal(s->argv[2], "X");
	assert_in_folder(s->cwd, "/jobs");
	assert_int_equal(s->uid, getuid());
	spec_unref(s);
	/* What stands in the name of a folder is no pattern. */
	s = take("--chdir 50%j -e ../logs/%x.err true");
	scoped_free char *log = spec_expand_path(s, s->output, TASK_ID(7, -1));
	scoped_free char *errors = spec_expand_path(s, s->error, TASK_ID(7, -1));
	assert_in_folder(log, "/50%j/rad-7.out");
	assert_in_folder(errors, "/50%j/../logs/true.err");
	spec_unref(s);
}

static void test_names(void **state)
{
	(void)state;
	static const struct { const char *line, *name; } rows[] = {
		{ "true", "true" }, { "/bin/true a.txt", "true" }, { "sh train.py -u", "train.py" },
		{ "env X=1 sh -u jobs/a.sh b.sh", "a.sh" }, { "sh -c echo\ta", "sh" }, { "python3 -m pkg.train --lr 1", "pkg.train" },
		{ "env X=1 bash -lc cd\tx&&python\tjobs/train.py\t--seed\t1", "train.py" }, { "python3 -c import\tx.py", "python3" },
		{ "python3 -m", "python3" },
		{ "env -m pkg", "env" }, { "./run.py --out x.sh", "run.py" }, { "jobs/resnet.rad other.py", "resnet.rad" },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s = take(rows[i].line);
		assert_string_equal(s->name, rows[i].name);
		spec_unref(s);
	}
}

static void test_inherited(void **state)
{
	(void)state;
	static const char *const gone[] = { "SLURM_JOB_ID", "PMI_RANK", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES",
		"XDG_RUNTIME_DIR", "SSH_TTY", "TMUX", "RAD_SOCKET", "OLDPWD" };
	for (size_t i = 0; i < COUNT_OF(gone); i++)
		setenv(gone[i], "x", 1);
	setenv("RADIUS", "2", 1);
	setenv("CUDA_VISIBLE_DEVICES_", "3", 1);
	setenv("BROKEN", "caf\xe9", 1);
	mode_t mask = umask(027);
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	assert_int_equal(submit("true", &s, &flags, &err), 0);
	umask(mask);
	bool kept = false, kept_too = false, pwd = false;
	for (char **e = s->environ; *e; e++) {
		for (size_t i = 0; i < COUNT_OF(gone); i++)
			assert_false(!strncmp(*e, gone[i], strlen(gone[i])) && (*e)[strlen(gone[i])] == '=');
		assert_memory_not_equal(*e, "BROKEN", 6);
		kept = kept || !strcmp(*e, "RADIUS=2");
		kept_too = kept_too || !strcmp(*e, "CUDA_VISIBLE_DEVICES_=3");
		if (!strncmp(*e, "PWD=", 4)) {
			assert_false(pwd);
			assert_string_equal(*e + 4, s->cwd);
			pwd = true;
		}
	}
	assert_true(kept && kept_too && pwd);
	assert_int_equal(flags.n_notes, 1);
	assert_int_equal(s->umask, 027);
	assert_true(s->n_rlimits > 5);
	for (size_t i = 0; i < COUNT_OF(gone); i++)
		unsetenv(gone[i]);
	unsetenv("BROKEN");
	submit_flags_clear(&flags);
	spec_unref(s);
}

/* Files of three lengths in a row, so that each way of padding comes. */
static void test_capture(void **state)
{
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct capture_writer w;
		write_begin(&w, &(struct capture_texts){ "2.11.0", "", &"net"[i] }, 0, 0, 0);
		write_end(&w);
		scoped_free char *want = write_base64(&w.out);
		scoped_fd int fd = open("capture.bin", O_WRONLY | O_CREAT | O_TRUNC, 0644);
		assert_int_equal(io_write_full(fd, w.out.data, w.out.len), 0);
		struct spec *s = take("--capture capture.bin true");
		assert_string_equal(s->capture, want);
		spec_unref(s);
		buf_free(&w.out);
	}
}

static void test_capture_wishes(void **state)
{
	(void)state;
	static const struct { const char *line, *wish; } rows[] = {
		{ "--capture auto true", "auto" }, { "--capture=auto --gpu-mem 1G true", "auto" }, { "true", NULL }, { "./run.py", "may" },
		{ "env X=1 python train.py", "may" }, { "env X=1 true", NULL }, { "--gpu-mem 1G ./run.py", NULL },
		{ "--capture=off ./run.py", NULL }, { "--capture=off --capture=auto ./run.py", "auto" }, { "--exclusive ./run.py", NULL },
		{ "--capture=auto --capture=off ./run.py", NULL }, { "jobs/other.rad", NULL }, { "job.sh", NULL },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s;
		struct submit_flags flags = { 0 };
		struct error err;
		if (submit(rows[i].line, &s, &flags, &err))
			fail_msg("%s: %s", rows[i].line, err.text);
		if (rows[i].wish)
			assert_string_equal(flags.capture, rows[i].wish);
		else
			assert_null(flags.capture);
		assert_null(s->capture);
		submit_flags_clear(&flags);
		spec_unref(s);
	}
}

static void test_flags(void **state)
{
	(void)state;
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	assert_int_equal(submit("--parsable --dry-run -W --json true", &s, &flags, &err), 0);
	assert_true(flags.parsable && flags.dry_run && flags.wait && flags.json && !flags.help);
	spec_unref(s);
	assert_int_equal(submit("-h", &s, &flags, &err), 0);
	assert_true(flags.help);
	assert_null(s);
}

static void test_array(void **state)
{
	(void)state;
	struct spec *s = take("-a 0-3%2 true");
	assert_int_equal(s->n_array, 4);
	assert_int_equal(s->array_limit, 2);
	assert_in_folder(s->output, "/rad-%A_%a.out");
	spec_unref(s);
}

static void test_refused(void **state)
{
	(void)state;
	assert_non_null(freopen("/dev/null", "r", stdin));	/* a pipe there would be read as a script */
	static const struct { const char *line, *message; bool usage; } rows[] = {
		{ "", "nothing to run", true },
		{ "--gpus 2", "nothing to run", true },
		{ "--gpumem 3 true", "unknown option '--gpumem': did you mean '--gpu-mem'?", true },
		{ "--retries true", "a script on standard input; 'true' is the value of --retries", true },
		{ "--gpu 3 true", "unknown option '--gpu': here it is --gpus=N: RAD-RM chooses which", true },
		{ "--gpus=0,1 true", "--gpus: '0,1' is no number of GPUs: say how many; RAD-RM chooses which", true },
		{ "--gpus all true", "--gpus: 'all' is no number of GPUs", true },
		{ "--delay 10s true", "unknown option '--delay': here it is --begin=now+10m", true },
		{ "--stderr=x true", "unknown option '--stderr': here it is --error=FILE", true },
		{ "--env A=1 true", "--env: 'A=1': a conda environment is meant; a variable is given by --export=ALL,A=1", false },
		{ "--frobnicate true", "unknown option '--frobnicate'", true },
		{ "--mem-gpu 3G true", "unknown option '--mem-gpu': did you mean '--gpu-mem'?", true },
		{ "--memory 8G true", "unknown option '--memory': here it is --gpu-mem=12G of a GPU's, --mem=12G of the machine's", true },
		{ "--jobid 3 --overlap --pty bash", "unknown option '--jobid': here it is a shell of yours, beside the task", true },
		{ "--gpus 2 --walltime=3h true", "unknown option '--walltime': here it is --time=2h", true },
		{ "-Z true", "unknown option '-Z'", true },
		{ "--gpus", "--gpus needs a value: --gpus=N", true },
		{ "-G", "--gpus needs a value", true },
		{ "--hold=1 true", "--hold takes no value", true },
		{ "--gpus 0.5 true", "--gpus: '0.5' is no number of GPUs: tasks share GPUs by themselves", true },
		{ "--gpus 99 true", "--gpus: '99' is not a whole number from 0 to 64", true },
		{ "jobs/absent.rad", "jobs/absent.rad: No such file", false },
		{ "jobs/nomodel.rad", "jobs/nomodel.rad:3: model: ", false },
		{ "jobs/badvalue.rad", "jobs/badvalue.rad:2: gpus: 'many' is not a whole number", false },
		{ "jobs/resnet.rad jobs/other.rad", "one task file at a time", false },
		{ "--model absent.txt true", "--model: ", false },
		{ "--name caf\xe9 true", "--name: is not UTF-8", false },
		{ "--chdir absent true", "working directory ", false },
		{ "--chdir train.py true", "is not a folder", false },
		{ "-o absent/x.log true", "--output: there is no folder ", false },
		{ "-o logs/%j/x.log true", "put %j into the file's name", false },
		{ "-o logs true", "is a folder: add a file name", false },
		{ "-e absent/x.log true", "--error: there is no folder ", false },
		{ "pyhton train.py", "no program 'pyhton' in PATH", false },
		{ "train.py", "'train.py' is not in PATH, but is a file here: write python", false },
		{ "CUDA_VISIBLE_DEVICES=2 true", "leave it out, a task is given its GPU and this variable", false },
		{ "A_1=x true", "'A_1=x' is no program: write env A_1=x before the command", false },
		{ "\u2013gpus 2 true", "'\u2013gpus' begins with another dash than '-': type it anew", false },
		{ "source venv/bin/activate", "'source' is no program but the shell's: write bash -c '...'", false },
		{ "./train.py", "./train.py: is not executable", false },
		{ "./bare.py", "so a shell would read it: write python", false },
		{ "jobs/python train.py", "jobs/python: is a link to /nowhere/python3, which leads nowhere", false },
		{ "./absent.sh", "./absent.sh: there is no such program", false },
		{ "./logs", "./logs: is a folder: name a program or a task file in it", false },
		{ "run.py", "write ./run.py", false },
		{ "./large.sh", "./large.sh: is larger than 1 MiB", false },
		{ "step.sh", "'step.sh' is not in PATH, but is a file here: write bash step.sh", false },
		{ "a&b.sh", "is a file here: write bash 'a&b.sh'", false },
		{ "./a&b.sh", "run it with its interpreter (bash './a&b.sh'), or chmod +x it", false },
		{ "--signal USR1 true", "add --time", false },
		{ "--share=mig -G 2 true", "ask for 1 GPU", false },
	};
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spec *s;
		struct submit_flags flags = { 0 };
		struct error err;
		if (!submit(rows[i].line, &s, &flags, &err))
			fail_msg("'%s' was taken", rows[i].line);
		if (!strstr(err.text, rows[i].message))
			fail_msg("'%s': '%s' does not hold '%s'", rows[i].line, err.text, rows[i].message);
		assert_null(strchr(err.text, '\n'));
		assert_int_equal(flags.usage, rows[i].usage);
		assert_null(s);
		submit_flags_clear(&flags);
	}
}

/* Many machines have a python3 and no python. */
static void test_python_is_called_as_here(void **state)
{
	(void)state;
	static const struct { const char *line, *message; } rows[] = {
		{ "python train.py", "there is no program 'python' in PATH: here it is python3" },
		{ "train.py", "is a file here: write python3 train.py" }, { "./train.py", "with its interpreter (python3 ./train.py)" },
	};
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	scoped_free char *path = alloc_string(getenv("PATH")), *bin = alloc_printf("%s/bin", folder),
		*three = alloc_printf("%s/python3", bin);
	assert_int_equal(mkdir(bin, 0755), 0);
	assert_int_equal(io_replace_file(three, "", 0, 0755, NULL), 0);
	setenv("PATH", bin, 1);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		assert_int_equal(submit(rows[i].line, &s, &flags, &err), -1);
		assert_non_null(strstr(err.text, rows[i].message));
	}
	setenv("PATH", path, 1);
}

static void test_notes_and_exceptions(void **state)
{
	(void)state;
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err;
	/* Options after the file go to the script, and that is said. */
	assert_int_equal(submit("jobs/other.rad --gpus=2", &s, &flags, &err), 0);
	assert_int_equal(s->gpus, 1);
	assert_int_equal(flags.n_notes, 1);
	assert_non_null(strstr(flags.notes[0], "'--gpus' stands after jobs/other.rad"));
	submit_flags_clear(&flags);
	spec_unref(s);
	/* So do those behind a command, whose own they may be: what no training script has is told. */
	assert_int_equal(submit("true --gpus 2 --gpu-mem=4G", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 1);
	assert_non_null(strstr(flags.notes[0], "'--gpu-mem' stands behind the command"));
	submit_flags_clear(&flags);
	spec_unref(s);
	assert_int_equal(submit("-- true --gpu-mem=4G", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 0);
	spec_unref(s);
	/* A number alone is MiB, as Slurm has it: whoever means GiB is told, since no task takes so little (the second: an H200). */
	static const char *const small[] = { "--gpu-mem 12 true", "--gpu-mem 141 true", "--gpu-mem=1.5 true" };
	for (size_t i = 0; i < COUNT_OF(small); i++) {
		assert_int_equal(submit(small[i], &s, &flags, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		submit_flags_clear(&flags);
	}
	assert_non_null(strstr(err.text, "write 1.5G for GiB, 1.5M if MiB"));
	assert_int_equal(submit("--mem=64 true", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 1);
	assert_non_null(strstr(flags.notes[0], "--mem: a number alone is MiB"));
	submit_flags_clear(&flags);
	spec_unref(s);
	assert_int_equal(submit("--gpu-mem 300 --gpu-mem 141M --mem=0 true", &s, &flags, &err), 0);	/* with a unit it is meant */
	assert_int_equal(flags.n_notes, 0);
	spec_unref(s);
	/* Elements that all read an index that nobody sets would do the same work. */
	assert_int_equal(submit("--array=0-1 echo $SLURM_ARRAY_TASK_ID", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 1);
	assert_non_null(strstr(flags.notes[0], "RAD_ARRAY_TASK_ID"));
	submit_flags_clear(&flags);
	spec_unref(s);
	assert_int_equal(submit("--array=0-1 echo ${RAD_ARRAY_TASK_ID:-$SLURM_ARRAY_TASK_ID}", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 0);
	spec_unref(s);
	assert_int_equal(submit("echo $SLURM_ARRAY_TASK_ID", &s, &flags, &err), 0);
	assert_int_equal(flags.n_notes, 0);
	spec_unref(s);
	/* A program of a conda environment cannot be looked for from outside. */
	s = take("--env tf only-in-conda");
	assert_string_equal(s->conda_env, "tf");
	spec_unref(s);
	s = take("-o /dev/null true");
	assert_string_equal(s->output, "/dev/null");
	spec_unref(s);
	/* "--" as an option's value does not end the options. */
	s = take("--name -- jobs/other.rad");
	assert_string_equal(s->name, "--");
	assert_non_null(s->script);
	spec_unref(s);
}

/* A folder that is there but may not be written to; in a child, which is nobody when the test is root. */
static void test_closed_folder(void **state)
{
	(void)state;
	int status;
	chmod(folder, 0755);
	pid_t child = fork();
	if (!child) {
		struct spec *s;
		struct submit_flags flags = { 0 };
		struct error err;
		bool nobody = geteuid() || !setuid(65534);
		bool refused = submit("-o closed/x.log true", &s, &flags, &err) && strstr(err.text, "cannot be written to");
		_exit(nobody && refused ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_request(void **state)
{
	(void)state;
	struct spec *s = take("--gpus 2 jobs/resnet.rad");
	scoped_json *request = submit_request(s);
	assert_int_equal(json_integer_value(json_object_get(request, "v")), 1);
	assert_string_equal(json_string_value(json_object_get(request, "op")), "submit");
	struct error err = ERROR_INIT;
	struct spec *back = spec_from_json(json_object_get(request, "spec"), json_object_get(request, "environ"), &err);
	assert_non_null(back);
	back->uid = getuid();
	if (submit_validate(back, &err))
		fail_msg("%s", err.text);
	assert_string_equal(back->script, s->script);
	assert_string_equal(back->signature, s->signature);
	spec_unref(back);
	spec_unref(s);
}

static void test_file_alone(void **state)
{
	(void)state;
	struct spec *s;
	struct submit_flags flags = { 0 };
	struct error err = ERROR_INIT;
	assert_int_equal(submit_parse_file("jobs/resnet.rad", &s, &flags, &err), 0);
	assert_non_null(s->model);
	assert_int_equal(s->batch_size, 128);
	spec_unref(s);
	assert_int_equal(submit_parse_file("jobs", &s, &flags, &err), -1);
	assert_non_null(strstr(err.text, "jobs: is a folder"));
	assert_null(s);
}

int main(void)
{
	setenv("CONDA_EXE", "/bin/true", 1);	/* a conda that is there, whose environments lie elsewhere */
	setenv("CONDA_ENVS_PATH", "/nonexistent", 1);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_task_file), cmocka_unit_test(test_script_with_directives), cmocka_unit_test(test_positional),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_command_asks_nothing),
		cmocka_unit_test(test_names), cmocka_unit_test(test_inherited), cmocka_unit_test(test_capture),
		cmocka_unit_test(test_capture_wishes),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_array), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_python_is_called_as_here), cmocka_unit_test(test_notes_and_exceptions),
		cmocka_unit_test(test_closed_folder), cmocka_unit_test(test_request), cmocka_unit_test(test_file_alone),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
