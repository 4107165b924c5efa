/* SPDX-License-Identifier: MIT
 * One line of output: does it say how far something is? Every form is looked for by what cannot be missing in it, a number, a
 * slash and a number with the right words around them, since the rest is written by whoever wrote the script. A figure that
 * is only near to one of these forms (an accuracy, a date, a path) is none.
 */
#include "parse/progress.h"

#include "base/hash.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A place in a line. Reading past the end is reading a zero. */
struct cursor { const char *p, *end; };

static char at(const struct cursor *c, size_t i)
{
	return i < (size_t)(c->end - c->p) ? c->p[i] : 0;
}

static void skip_any(struct cursor *c, const char *set)
{
	while (c->p < c->end && *c->p && strchr(set, *c->p))
		c->p++;
}

/* The last blank of those at p and behind it: a ratio behind them is the same, wherever among them one looks for it. */
static const char *last_blank(const char *p, const char *end)
{
	while (p + 1 < end && p[1] == ' ')
		p++;
	return p;
}

static void skip_blanks(struct cursor *c)
{
	skip_any(c, " \t");
}

/* "(train)" */
static void skip_aside(struct cursor *c)
{
	const char *close = at(c, 0) == '(' ? memchr(c->p, ')', (size_t)(c->end - c->p)) : NULL;
	c->p = close ? close + 1 : c->p;
}

static bool take(struct cursor *c, const char *word)
{
	size_t n = strlen(word);
	if ((size_t)(c->end - c->p) < n || strncasecmp(c->p, word, n))
		return false;
	c->p += n;
	return true;
}

/* "120", "1.20k", "3.5M" as tqdm scales them. False: no number, or one beyond reason. */
static bool take_number(struct cursor *c, double *value)
{
	char text[24];
	size_t n = 0;
	bool dot = false;
	while (n < sizeof text - 1 && (isdigit((unsigned char)at(c, n)) || (at(c, n) == '.' && !dot && n))) {
		dot = dot || at(c, n) == '.';
		text[n] = at(c, n);
		n++;
	}
	text[n] = 0;
	if (!n || isdigit((unsigned char)at(c, n)))
		return false;
	*value = strtod(text, NULL);
	c->p += n;
	static const char scales[] = "kMGT";
	const char *scale = at(c, 0) ? strchr(scales, at(c, 0)) : NULL;
	for (const char *s = scales; scale && s <= scale; s++)
		*value *= 1000;
	c->p += scale != NULL;
	return *value <= (double)PROGRESS_MOST;
}

/* "120/1000", "120 / 1000", "120 of 1000". What follows the total must not go on with it, as a date or a version does. */
static bool take_ratio(struct cursor *c, bool ended, double *done, double *total)
{
	struct cursor from = *c;
	skip_blanks(c);
	if (take_number(c, done)) {
		skip_blanks(c);
		if (take(c, "/") || take(c, "out of ") || take(c, "of ")) {
			skip_blanks(c);
			bool read = take_number(c, total) && *total >= 1 && *done <= *total;
			if (read && (ended || c->p < c->end) && !strchr("./-:", at(c, 0) ? at(c, 0) : ' ') && !isalnum((unsigned char)at(c, 0)))
				return true;
			/* "120/1000." and "120/1000: ..." end a phrase. */
			if (read && (at(c, 0) == '.' || at(c, 0) == ':' || at(c, 0) == '-') && (at(c, 1) == ' ' || (!at(c, 1) && ended)))
				return true;
		}
	}
	*c = from;
	return false;
}

static void set_ratio(struct progress_mark *m, double done, double total)
{
	m->done = (int64_t)(done + 0.5);
	m->total = (int64_t)(total + 0.5);
}

/* Names ---------------------------------------------------------------------------------------------------------------- */

/* Where the word stands, at the beginning of a word or of a part of one ("global_step", "TrainEpoch"); NULL: nowhere. */
static const char *find_word(const char *text, const char *end, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = text; (size_t)(end - p) >= n; p++)
		if (!strncasecmp(p, word, n) && (p == text || !islower((unsigned char)p[-1]) || isupper((unsigned char)*p)))
			return p;
	return NULL;
}

/* By these names a loop is no training. */
static bool is_aside(const char *text, const char *end)
{
	static const char *const names[] = {
		"valid", "val", "eval", "test", "sanity", "predict", "infer", "check", "download", "load", "map", "tokeniz", "filter",
		"generating", "extract", "saving", "fetch", "resolv", "scanning", "caching", "preprocess", "reading", "shard",
		"build", "compil", "captur", "warm", "prepar", "convert", "upload", "encod", "install", "nvcc", "c++",
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (find_word(text, end, names[i]))
			return true;
	return false;
}

/* Of the letters before the first figure that has a name (" loss=0.31"), which alone stay the same from line to line. */
static uint64_t name_of(const char *text, const char *end, uint64_t seed)
{
	uint64_t hash = seed;
	for (const char *p = text; p < end && *p != '='; p++)
		if (isalpha((unsigned char)*p))
			hash = hash_bytes(hash, &(char){ (char)tolower((unsigned char)*p) }, 1);
	return hash;
}

static void set_unit(struct progress_mark *m, const char *text, size_t n)
{
	size_t len = 0;
	for (size_t i = 0; i < n && len < sizeof m->unit - 1; i++)
		if (isalpha((unsigned char)text[i]))
			m->unit[len++] = (char)tolower((unsigned char)text[i]);
	m->unit[len] = 0;
}

/* Epochs --------------------------------------------------------------------------------------------------------------- */

/* "epoch 3", "Epoch: [3/10]", "Epoch(train) [3]", "Train Epoch 003"; behind it *c goes on. False: no number follows. */
static bool take_epoch(struct cursor *c, bool ended, struct progress_mark *m)
{
	double k, n;
	take(c, "s");
	skip_aside(c);
	skip_any(c, " \t:=#[(");
	if (take_ratio(c, ended, &k, &n)) {
		m->epochs = (int64_t)n;
	} else if (!take_number(c, &k) || (!ended && c->p == c->end)) {
		return false;
	}
	m->epoch = (int64_t)k;
	if (!take(c, "]"))
		take(c, ")");
	return m->epoch == (int64_t)k && k == (double)m->epoch;
}

/* Finds an epoch in the text and leaves *c behind it. */
static bool find_epoch(struct cursor *c, bool ended, struct progress_mark *m)
{
	const char *word = find_word(c->p, c->end, "epoch");
	struct cursor after = { word ? word + strlen("epoch") : c->end, c->end };
	if (!word || !take_epoch(&after, ended, m))
		return false;
	*c = after;
	return true;
}

/* "loss: 0.31", "acc=0.9": a figure with a name, which an epoch has when it is over. */
static bool tells_figures(const char *p, const char *end)
{
	for (; p + 1 < end; p++)
		if ((*p == ':' || *p == '=' || *p == ' ') && isdigit((unsigned char)p[1]))
			for (const char *q = p + 1; q < end && (isdigit((unsigned char)*q) || *q == '.'); q++)
				if (*q == '.')
					return true;
	return false;
}

/* Bars ----------------------------------------------------------------------------------------------------------------- */

/* tqdm's "3.10it/s]", "64.1s/epoch, loss=0.3]"; Keras' "10ms/step". */
static void read_rate(struct cursor c, struct progress_mark *m)
{
	double v, scale = 1;
	skip_blanks(&c);
	if (!take_number(&c, &v) || v <= 0)
		return;
	const char *word = c.p;
	while (isalpha((unsigned char)at(&c, 0)))
		c.p++;
	size_t n = (size_t)(c.p - word);
	if (at(&c, 0) != '/' || !n)
		return;
	if (at(&c, 1) == 's' && !isalpha((unsigned char)at(&c, 2)) && !(n == 1 && *word == 's')) {
		set_unit(m, word, n);
		m->per_s = v;
		return;
	}
	scale = n == 2 && !strncmp(word, "ms", 2) ? 1e3 : n == 2 && !strncmp(word, "us", 2) ? 1e6 : n == 1 && *word == 's' ? 1 : 0;
	c.p++;
	for (word = c.p; isalpha((unsigned char)at(&c, 0)); c.p++)
		;
	if (scale == 0 || c.p == word)
		return;
	set_unit(m, word, (size_t)(c.p - word));
	m->per_s = scale / v;
}

/* "[00:38<04:40,  3.10it/s, loss=0.3]": the rate stands behind the first comma. Without its end it may yet be cut. */
static bool read_brackets(struct cursor c, struct progress_mark *m)
{
	const char *close = c.p < c.end ? memchr(c.p, ']', (size_t)(c.end - c.p)) : NULL;
	if (!close || !memchr(c.p, ':', (size_t)(close - c.p)))
		return false;
	const char *comma = memchr(c.p, ',', (size_t)(close - c.p));
	if (comma)
		read_rate((struct cursor){ comma + 1, close }, m);
	return true;
}

/* A percentage is cut or rounded; of a scaled figure ("1.23M") three digits are known. */
static bool agrees(double percent, double done, double total)
{
	double says = 100 * done / total, tolerance = 1 + says / 100;
	return percent >= says - tolerance && percent <= says + tolerance;
}

/* What stands before the percentage names the loop: "Epoch 3/10", "Epochs", "  3/100  2.5G" as YOLO prints
 * it, epoch first. */
static void read_title(const char *text, const char *end, struct progress_mark *m)
{
	struct cursor c = { text, end };
	double k, n;
	m->aside = is_aside(text, end);
	m->name = name_of(text, end, HASH_SEED);
	if (find_epoch(&c, true, m)) {
		if (find_word(text, end, "train"))	/* "Train Epoch 3", whatever else it is called */
			m->aside = false;
		return;
	}
	m->epoch = -1;
	m->epochs = 0;
	m->counts_epochs = find_word(text, end, "epoch") || !strcmp(m->unit, "epoch") || !strcmp(m->unit, "epochs");
	c = (struct cursor){ text, end };
	if (take_ratio(&c, true, &k, &n) && k == (double)(int64_t)k && n == (double)(int64_t)n) {
		m->epoch = (int64_t)k;
		m->epochs = (int64_t)n;
	}
}

#define SIGNS 4	/* '%' that are looked at in one line */

/* "12%|###   | 120/1000 [00:38<04:40, 3.10it/s]", also where the bar is left out, or is drawn between two blanks. */
static bool read_tqdm(const char *text, size_t len, struct progress_mark *m)
{
	const char *end = text + len;
	unsigned tried = 0;
	for (const char *sign = text; tried < SIGNS && (sign = memchr(sign, '%', (size_t)(end - sign))); sign++, tried++) {
		const char *digits = sign;
		double percent, done, total;
		while (digits > text && isdigit((unsigned char)digits[-1]) && sign - digits < 3)
			digits--;
		struct cursor c = { digits, sign };
		if (!take_number(&c, &percent) || percent > 100)
			continue;
		for (const char *p = sign + 1; p < end; p++) {
			if (*p != '|' && *p != ' ')
				continue;
			p = last_blank(p, end);
			c = (struct cursor){ p + 1, end };
			if (!take_ratio(&c, false, &done, &total) || at(&c, 0) != ' ' || at(&c, 1) != '[')
				continue;
			c.p += 2;
			if (!read_brackets(c, m) || !agrees(percent, done, total))
				return false;
			set_ratio(m, done, total);
			m->source = PROGRESS_TQDM;
			read_title(text, digits, m);
			return true;
		}
	}
	return false;
}

#define HEAVY_LINE "\xe2\x94\x81"	/* of Keras' and rich's bars */

/* "120/1000 [=====>.....] - ETA: 12s - loss: 0.3", "120/1000 ━━━━━━━━ 12s 10ms/step - loss: 0.3". */
static bool read_keras(const char *text, size_t len, struct progress_mark *m)
{
	struct cursor c = { text, text + len };
	double done, total;
	if (!take_ratio(&c, false, &done, &total))
		return false;
	skip_blanks(&c);
	bool drawn = at(&c, 0) == '[' && strchr("=>.", at(&c, 1) ? at(&c, 1) : ' ');
	if (!drawn && !take(&c, HEAVY_LINE))
		return false;
	set_ratio(m, done, total);
	m->source = PROGRESS_KERAS;
	m->name = HASH_SEED + 1;
	snprintf(m->unit, sizeof m->unit, "step");
	const char *each = memmem(c.p, (size_t)(c.end - c.p), "/step", strlen("/step"));
	const char *word = each;
	while (word && word > c.p && word[-1] != ' ')
		word--;
	if (word)
		read_rate((struct cursor){ word, c.end }, m);
	return true;
}

/* "Epoch 3/9  ━━━━━━━━╸━━━ 400/1000 0:00:38 • 0:00:57 10.40it/s" of Lightning, whose epochs begin with 0 and end with the
 * second number; "  3/9  2.5G  640: 40% ━━━━────── 40/100 3.2it/s 12s<18s", which is tqdm as Ultralytics draws it. */
static bool read_rich(const char *text, size_t len, struct progress_mark *m)
{
	const char *end = text + len, *bar = memmem(text, len, HEAVY_LINE, strlen(HEAVY_LINE)), *p = bar;
	double done, total;
	while (p && (p = memmem(p, (size_t)(end - p), " ", 1))) {
		p = last_blank(p, end);
		struct cursor c = { p, end };
		if (take_ratio(&c, false, &done, &total) && at(&c, 0) == ' ') {
			set_ratio(m, done, total);
			m->source = PROGRESS_RICH;
			read_title(text, bar, m);
			if (m->epochs && !find_word(text, bar, "epoch"))
				m->source = PROGRESS_TQDM;
			else
				m->epochs += m->epochs > 0;
			return bar > text;
		}
		p++;
	}
	return false;
}

/* Lines ---------------------------------------------------------------------------------------------------------------- */

/* "step 120/1000", "Step: [120/1000]", "iteration     120/    1000 |", "batch 3 of 10". */
static bool find_step(struct cursor *c, bool ended, struct progress_mark *m)
{
	static const char *const words[] = { "iteration", "iter", "step", "batch", "update", "it" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *word = find_word(c->p, c->end, words[i]);
		double done, total;
		if (!word)
			continue;
		struct cursor k = { word + strlen(words[i]), c->end };
		if (!take(&k, "s"))
			take(&k, "es");
		skip_aside(&k);
		skip_any(&k, " \t:=#[(");
		if (!take_ratio(&k, ended, &done, &total))
			continue;
		set_ratio(m, done, total);
		set_unit(m, words[i], strlen(words[i]));
		m->aside = is_aside(c->p, word);
		m->name = name_of(c->p, word, HASH_SEED + 2 + i);
		return true;
	}
	return false;
}

/* "[120/1000]" at *c. */
static bool take_bracketed(struct cursor *c, struct progress_mark *m)
{
	struct cursor k = *c;
	double done, total;
	skip_any(&k, " \t,;:|-");
	if (!take(&k, "[") || !take_ratio(&k, false, &done, &total))
		return false;
	skip_blanks(&k);
	skip_aside(&k);		/* "[1200/60000 (2%)]" */
	if (!take(&k, "]"))
		return false;
	*c = k;
	set_ratio(m, done, total);
	snprintf(m->unit, sizeof m->unit, "step");
	m->name = HASH_SEED + 20;
	return true;
}

/* An epoch, and what stands behind it: a place inside it, figures of how it went, or nothing. */
static bool read_epoch_line(const char *text, size_t len, bool ended, struct progress_mark *m)
{
	struct cursor c = { text, text + len };
	if (!find_epoch(&c, ended, m))
		return false;
	bool inside = take_bracketed(&c, m) || find_step(&c, ended, m);
	double done, total;
	/* "| epoch 003:    400 / 1000 loss=2.1" */
	struct cursor k = c;
	skip_any(&k, " :|,");
	if (!inside && k.p > c.p && take_ratio(&k, ended, &done, &total)) {
		set_ratio(m, done, total);
		snprintf(m->unit, sizeof m->unit, "step");
		inside = true;
	}
	m->epoch_over = !inside && tells_figures(c.p, c.end);
	m->name = name_of(text, text, HASH_SEED + 21);
	m->aside = is_aside(text, c.p) && !find_word(text, c.p, "train");
	m->source = PROGRESS_LINES;
	return inside || (ended && m->epochs);
}

/* "Train: [3/300][120/1251]", "Train: 3 [120/1250 ( 10%)]": an epoch, though it is not called one. */
static bool read_train_line(const char *text, size_t len, bool ended, struct progress_mark *m)
{
	static const char train[] = "train:";
	const char *word = find_word(text, text + len, train);
	struct cursor c = { word ? word + strlen(train) : text, text + len };
	m->source = PROGRESS_LINES;
	return word && take_epoch(&c, ended, m) && take_bracketed(&c, m);
}

static bool holds(const struct cursor *c, const char *word)
{
	return memmem(c->p, (size_t)(c->end - c->p), word, strlen(word));
}

static bool read_plain_line(const char *text, size_t len, bool ended, struct progress_mark *m)
{
	struct cursor c = { text, text + len };
	m->source = PROGRESS_LINES;
	if (find_step(&c, ended, m))
		return true;
	if (take_bracketed(&c, m)) {	/* also of builds, of extensions say */
		struct progress_mark epochs = *m;
		if (take_bracketed(&c, m)) {	/* "[3/25][120/782] Loss_D: 0.31" */
			m->epoch = epochs.done;
			m->epochs = epochs.total;
		}
		m->aside = is_aside(c.p, c.end);
		return true;
	}
	/* "{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 1.2}" */
	m->hf = at(&c, 0) == '{' && holds(&c, "'epoch':") &&
		(holds(&c, "'loss':") || holds(&c, "'eval_loss':") || holds(&c, "'train_runtime':"));
	return m->hf;
}

bool progress_line(const char *text, size_t n, bool ended, struct progress_mark *out)
{
	static const struct progress_mark none = { .epoch = -1 };
	while (n && (*text == ' ' || *text == '\t'))
		text++, n--;
	while (n && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--, ended = true;	/* a blank ends a number as well */
	*out = none;
	if (!memchr(text, '/', n) && !memmem(text, n, " of ", 4) && (!n || text[0] != '{'))
		return false;	/* nearly all lines */
	if (read_tqdm(text, n, out))
		return true;
	*out = none;
	if (read_keras(text, n, out))
		return true;
	*out = none;
	if (read_rich(text, n, out))
		return true;
	*out = none;
	if (text[0] != '{' && read_epoch_line(text, n, ended, out))
		return true;
	*out = none;
	if (read_train_line(text, n, ended, out))
		return true;
	*out = none;
	return read_plain_line(text, n, ended, out);
}

/* Words of a command --------------------------------------------------------------------------------------------------- */

static bool ends_in_epochs(const char *text, size_t n)
{
	static const char word[] = "epochs";
	size_t len = strlen(word);
	return n >= len && !strncasecmp(text + n - len, word, len) && (n == len || !isalpha((unsigned char)text[n - len - 1]));
}

void progress_epochs_word(const char *text, size_t n, bool *named, int64_t *epochs)
{
	const char *equals = memchr(text, '=', n);
	size_t name = equals ? (size_t)(equals - text) : n;
	struct cursor c = { text, text + n };
	bool value = *named;
	double count;
	*named = !equals && n && text[0] == '-' && ends_in_epochs(text, name);
	if (equals && ends_in_epochs(text, name)) {
		c.p = equals + 1;
		value = true;
	}
	if (!value || !take_number(&c, &count) || c.p != c.end || count < 1 || count != (double)(int64_t)count)
		return;
	*epochs = *epochs && *epochs != (int64_t)count ? -1 : (int64_t)count;
}
