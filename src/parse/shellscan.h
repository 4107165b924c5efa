/* SPDX-License-Identifier: MIT
 *
 * Which lines of a shell script begin a command, as far as reading settings from it needs: not those inside a
 * here-document, inside quotes that were opened on an earlier line, or after a line that ends in a backslash.
 * It follows bash's quoting, not its grammar. Memory and time are linear in the text.
 */
#ifndef RAD_PARSE_SHELLSCAN_H
#define RAD_PARSE_SHELLSCAN_H

#include <stdbool.h>
#include <stddef.h>

#define SHELLSCAN_DEPTH 64	/* nested quotes, substitutions and parentheses; deeper ones are not told apart */
#define SHELLSCAN_HEREDOCS 16	/* begun on one line */
#define SHELLSCAN_WORD 1000	/* bytes of the word that ends one; each line is compared with it. A longer one begins none */

/* Zeroed memory is the start of a script. Holds pointers into the text. */
struct shellscan {
	unsigned char stack[SHELLSCAN_DEPTH];
	unsigned depth;
	struct shellscan_heredoc { const char *word; size_t len; bool dash; int line; } heredocs[SHELLSCAN_HEREDOCS];
	unsigned n_heredocs;
	bool in_heredoc, continued;
	int line;	/* lines taken so far */
	int quote_line;	/* where the innermost open quote began */
};

/* The interpreter, with its options, that a script's "#!" names, if it is no shell: its length in the text, and *at is where it
 * stands. 0: it is for a shell. */
size_t shellscan_other(const char *text, size_t len, const char **at);
/* Whether the next line begins inside something, and so is script whatever it looks like. */
bool shellscan_inside(const struct shellscan *s);
/* What a later line has yet to close, "here-document" or "quotes", and the line on which it began; NULL: nothing. */
const char *shellscan_unfinished(const struct shellscan *s, int *line);
/* Takes one line, without its line end. */
void shellscan_line(struct shellscan *s, const char *line, size_t len);
/* Takes a line that was a setting: it counts, but is not looked at. */
void shellscan_skip(struct shellscan *s);

#endif
