/* SPDX-License-Identifier: MIT
 *
 * Words that people mistype.
 */
#ifndef RAD_BASE_WORDS_H
#define RAD_BASE_WORDS_H

/* The known word nearest to `word` by edit distance ('-' and '_', and case, alike), NULL if none is near. `words` ends with
 * NULL. */
const char *words_nearest(const char *word, const char *const *words);

#endif
