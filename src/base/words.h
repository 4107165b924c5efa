/* SPDX-License-Identifier: MIT
 *
 * Words that people mistype, names in paths, and text of others' making that is to be shown.
 */
#ifndef RAD_BASE_WORDS_H
#define RAD_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

/* The known word nearest to `word` by edit distance ('-' and '_', and case, alike), NULL if none is near. `words` ends with
 * NULL. */
const char *words_nearest(const char *word, const char *const *words);

/* What stands beside the word in pairs, which end with { NULL }; NULL: it is in none. */
const char *words_beside(const char *const pairs[][2], const char *word);

/* Whether these n bytes are that key, '-' taken for '_'. */
bool words_are_key(const char *word, size_t n, const char *key);

/* Whether an option begins with a dash that is not '-' ("–", "—", "−"), alone or beside one that is: what programs that set
 * text make of "--". */
bool words_other_dash(const char *word);

/* The last part of a path; all of it where that is empty. */
const char *words_base(const char *path);

/* Whether a text ends so: "train.py" in ".py". */
bool words_end_in(const char *text, const char *end);

/* The bytes of the UTF-8 character at p, of `left`; 0 if it is none (overlong forms, surrogates, what is above U+10FFFF). */
size_t words_utf8(const char *p, size_t left);

/* The bytes of the text's beginning, `max` of them at most, behind which no character is cut in two. */
size_t words_cut(const char *text, size_t max);

/* The bytes of the character at p (UTF-8) if it turns the direction of the text behind it, ends a line unseen, or is a tag, of
 * which nothing is seen; 0: it is another. Such text can look like another one. */
size_t words_turns(const char *p);
/* The bytes of the character at p if it is a control character (U+0080 to U+009F too: to a terminal, U+009B is ESC [);
 * 0: it is none. */
size_t words_controls(const char *p);
/* Puts that in the place of each of them. */
void words_replace_controls(char *text, char by);

/* Appends text for a page of HTML, inside an element or a quoted attribute; what turns becomes '?'. */
void words_add_html(struct buf *b, const char *text);

/* Appends text as a field of CSV, quoted where it must be. What a spreadsheet would take for a formula gets an apostrophe
 * before it: names come from anybody who may submit. */
void words_add_csv(struct buf *b, const char *text);

/* Appends text as one word of a shell, in quotes. */
void words_add_shell(struct buf *b, const char *text);
/* The same, in quotes where it needs them: for people. */
void words_add_shell_word(struct buf *b, const char *text);
/* Takes the next word off a line of such words, without its quotes, in place; NULL: there is none left. */
char *words_next_shell_word(char **rest);

#endif
