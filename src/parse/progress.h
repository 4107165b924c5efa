/* SPDX-License-Identifier: MIT
 *
 * How far a task is, by what it prints of itself: the bars of tqdm (and so of Lightning, Accelerate and the HF Trainer), of
 * Keras and rich, and lines such as "step 120/1000" or "Epoch 3/10". Pure, bounded whatever comes in, and without a library
 * but C's, since the shim beside each task runs it.
 *
 * A line is one program's word about one loop, so it is taken for the whole only where nothing speaks against it:
 *	epochs known (k done of E)	(k + n/N) / E, n/N being the loop inside the epoch
 *	one loop that is the run	n/N; as soon as it begins a second time, or another follows it, it was not the whole
 *	anything else			not known. So it stays for a run that went back, or that lied: a bar whose percentage is not n/N
 *
 * What is left, from the points (t, f) at which it advanced, f being the fraction done: the rate is that of the latter half of
 * the time since it was first seen, so that a slow start (compilation, warm caches) is not taken for it:
 *	r = (f_now - f_w) / (t_now - t_w)	left = (1 - f_now) / r
 *	spread = left x sum |r_i - r| d_i / (r x sum d_i)	over the intervals i of d_i seconds: their mean deviation
 * With fewer than three intervals, or a spread above what is left, nothing is said of the end.
 */
#ifndef RAD_PARSE_PROGRESS_H
#define RAD_PARSE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_MOST INT64_C(1000000000000)	/* units, epochs: what claims more is not believed */
#define PROGRESS_WORD 12			/* bytes of a unit's name, its zero included */

/* name, word */
#define PROGRESS_SOURCES(X) \
	X(PROGRESS_NONE, "none") \
	X(PROGRESS_TQDM, "tqdm")	/* also of Lightning, Accelerate, the HF Trainer */ \
	X(PROGRESS_KERAS, "keras") \
	X(PROGRESS_RICH, "rich") \
	X(PROGRESS_LINES, "lines")	/* "step 120/1000", "Epoch 3/10" */

enum progress_source {
#define X(name, word) name,
	PROGRESS_SOURCES(X)
#undef X
	PROGRESS_SOURCE_COUNT
};

const char *progress_source_name(enum progress_source s);

/* What one line says. */
struct progress_mark {
	enum progress_source source;
	int64_t done, total;		/* total 0: it speaks of an epoch only */
	int64_t epoch, epochs;		/* as printed; epoch -1, epochs 0: not said */
	bool epoch_over;		/* the line comes after its epoch: it tells how that went */
	bool counts_epochs;		/* the loop over the epochs itself: done and total are epochs */
	bool aside;			/* by its name no training: validation, downloads, ... */
	bool hf;			/* a line by which the HF Trainer is known; its bar is the whole run */
	double per_s;			/* units a second as printed; 0: not said */
	char unit[PROGRESS_WORD];	/* "it", "step", ...; printable ASCII */
	uint64_t name;			/* equal for lines of one loop */
};

/* progress_line.c. Reads one line without its end, escape sequences removed. `ended`: it is complete; of one that is not, only
 * what cannot go on is believed. False: it says nothing. */
bool progress_line(const char *text, size_t n, bool ended, struct progress_mark *out);
/* The largest number of epochs that words of a command or script name ("--epochs 10", "max_epochs=10"), counted into *epochs:
 * 0 is none, -1 several. `text` is one word; *named remembers that the word before was such an option. Zero it first. */
void progress_epochs_word(const char *text, size_t n, bool *named, int64_t *epochs);

/* What is known at time t_ms. Numbers are finite; 0 is not known unless it says otherwise. */
struct progress_report {
	enum progress_source source;	/* PROGRESS_NONE: nothing at all */
	int64_t t_ms;			/* monotonic; when it last advanced */
	int64_t done, total;		/* of the loop that is shown */
	int64_t epoch, epochs;		/* epochs done of how many; epochs 0: not known */
	double fraction;		/* of the whole run; -1: not known */
	double left_s, spread_s;	/* from t_ms on; -1: not known */
	int64_t stands_ms;		/* from t_ms on; without an advance for longer than that, the end is not known any more */
	double per_s;			/* units a second lately */
	double whole_units;		/* units of the whole run */
	/* Units done since the first line, over all epochs: comparable as long as `series` is the same. */
	double advanced;
	int64_t series;
	char unit[PROGRESS_WORD];
};

struct progress;

/* `epochs`: as progress_epochs_word found. */
struct progress *progress_create(int64_t epochs);
/* Takes NULL. */
void progress_destroy(struct progress *p);
/* More output, seen at that time (monotonic). Any cut is fine. */
void progress_feed(struct progress *p, const char *bytes, size_t n, int64_t mono_ms);
/* Bytes were left out here: the rest of a line that was cut is not taken for one. */
void progress_skip(struct progress *p);
void progress_read(const struct progress *p, struct progress_report *out);

#endif
