/* SPDX-License-Identifier: MIT
 * Signatures: see signature.h. A script is read word by word, so that "--seed 1" in a task file counts as little as it does
 * on a command line.
 */
#include "submit/signature.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/scope.h"

#include <ctype.h>
#include <string.h>

/* Options that say nothing about memory, compared without regard to case and to '-' or '_'. */
static const char *const ignored[] = {
	"seed", "random-seed", "manual-seed", "global-seed",
	"lr", "learning-rate", "base-lr", "init-lr", "max-lr", "min-lr",
	"name", "run-name", "exp-name", "experiment", "experiment-name", "job-name", "wandb-name", "tag",
	"output", "out", "output-dir", "out-dir", "outdir", "log-dir", "logdir", "log-file", "save-dir", "save-path", "results-dir",
};

/* Variables that say which installation of the framework runs, and how its allocator is to work. */
static const char *const counted[] = {
	"VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_VERSION",
	"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
	"CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE", "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
	"TF_FORCE_GPU_ALLOW_GROWTH", "TF_GPU_ALLOCATOR",
	"XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_ALLOCATOR",
};

/* Adds a text with its length, so that neighbours cannot run into each other. */
static uint64_t add(uint64_t hash, const char *text, size_t len)
{
	uint64_t n = len;
	return hash_bytes(hash_bytes(hash, &n, sizeof n), text, len);
}

static bool same_name(const char *name, size_t len, const char *word)
{
	for (size_t i = 0; i < len; i++) {
		char c = (char)tolower((unsigned char)name[i]);
		if (!word[i] || (c == '_' ? '-' : c) != word[i])
			return false;
	}
	return !word[len];
}

/* How a word counts: itself, not at all, or not at all together with its value, the next word. */
enum weight { COUNTS, IGNORED, IGNORED_WITH_NEXT };

/* "--seed", "--seed=1", and "seed=1" or "train.seed=1" as Hydra has them. */
static enum weight weigh(const char *word, size_t len)
{
	size_t dashes = 0;
	while (dashes < len && dashes < 2 && word[dashes] == '-')
		dashes++;
	const char *equals = memchr(word, '=', len);
	size_t begin = dashes, end = equals ? (size_t)(equals - word) : len;
	if (!dashes && !equals)
		return COUNTS;
	for (size_t i = begin; i < end && !dashes; i++)
		if (word[i] == '.')
			begin = i + 1;
	for (size_t i = 0; i < COUNT_OF(ignored); i++)
		if (same_name(word + begin, end - begin, ignored[i]))
			return equals ? IGNORED : IGNORED_WITH_NEXT;
	return COUNTS;
}

/* A value follows its option unless it looks like the next option; "-1" is a value. */
static bool is_value(const char *word, size_t len)
{
	return len && (word[0] != '-' || (len > 1 && (isdigit((unsigned char)word[1]) || word[1] == '.')));
}

struct signature_words { uint64_t hash; bool skip; };

static void add_word(struct signature_words *w, const char *word, size_t len)
{
	bool skipped = w->skip && is_value(word, len);
	enum weight weight = skipped ? IGNORED : weigh(word, len);
	w->skip = weight == IGNORED_WITH_NEXT;
	if (weight == COUNTS)
		w->hash = add(w->hash, word, len);
}

/* The words of a script. Comments do not count; the end of a line does, blank lines do not. */
static uint64_t add_script(uint64_t hash, const char *text)
{
	struct signature_words w = { .hash = hash };
	while (*text) {
		size_t len = strcspn(text, "\n"), i = 0;
		bool any = false;
		while (i < len) {
			i += strspn(text + i, " \t\r\f\v");
			size_t n = strcspn(text + i, " \t\r\f\v\n");
			if (i >= len || text[i] == '#')
				break;
			add_word(&w, text + i, n);
			any = true;
			i += n;
		}
		if (any) {
			w.hash = add(w.hash, "\n", 1);
			w.skip = false;
		}
		text += len + (text[len] == '\n');
	}
	return w.hash;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
	return text ? add(hash, text, strlen(text)) : add(hash, "", 0);
}

/* In the order of the list: that of the environment is chance. */
static uint64_t add_environ(uint64_t hash, char *const *env)
{
	for (size_t i = 0; i < COUNT_OF(counted); i++)
		for (char *const *v = env; v && *v; v++) {
			size_t len = strlen(counted[i]);
			if (!strncmp(*v, counted[i], len) && (*v)[len] == '=')
				hash = add_text(hash, *v);
		}
	return hash;
}

char *signature_make(const struct spec *s, const char *program, size_t program_len)
{
	uint64_t hash = HASH_SEED;
	if (s->script)
		hash = add_script(hash, s->script);
	struct signature_words w = { .hash = add(hash, program ? program : "", program_len) };
	for (char *const *a = s->argv; *a; a++)
		add_word(&w, *a, strlen(*a));
	int64_t numbers[] = { s->gpus, s->batch_size, s->seq_len };
	hash = hash_bytes(w.hash, numbers, sizeof numbers);
	if (s->input_channels) {	/* only where it is said: what was learnt before this could be said still counts */
		int64_t image[] = { s->input_channels, s->input_height, s->input_width };
		hash = hash_bytes(hash, image, sizeof image);
	}
	hash = add_text(hash, s->model);
	hash = add_text(hash, s->optimizer);
	hash = add_text(hash, s->precision);
	hash = add_text(hash, s->conda_env);
	hash = add_environ(hash, s->environ);
	return alloc_printf("u%lu-%016llx", (unsigned long)s->uid, (unsigned long long)hash);
}

bool signature_belongs(const char *signature, uid_t uid)
{
	scoped_free char *begin = alloc_printf("u%lu-", (unsigned long)uid);
	size_t len = strlen(begin);
	return !strncmp(signature, begin, len) && strlen(signature) == len + 16 &&
	       strspn(signature + len, "0123456789abcdef") == 16;
}
