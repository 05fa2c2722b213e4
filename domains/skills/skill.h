/* SPDX-License-Identifier: Apache-2.0
 *
 * skill: the files of a directory of skills. Owns nothing, has no lock; any thread. */
#ifndef TP__SKILL_H
#define TP__SKILL_H

#include "support/bytes.h"

enum { TP__SKILL_NAME_MAX = 64, TP__SKILLS_MAX = 256, TP__SKILL_BYTES_MAX = 256 * 1024 };

typedef struct tp__skill {
  tp__bytes content;     /* the whole file */
  tp_text body, summary; /* parts of content */
} tp__skill;

typedef struct tp__skill_names {
  char items[TP__SKILLS_MAX][TP__SKILL_NAME_MAX + 1]; /* in the order of their bytes */
  size_t count;
} tp__skill_names;

bool tp__skill_name_valid(tp_text name);
/** @param name  a valid one. @return TP_OK; TP_ERR_NOT_FOUND; TP_ERR_IO, TP_ERR_UTF8, TP_ERR_MALFORMED,
 *          TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY, with the file in the fault. */
tp_status tp__skill_read(int directory, const char *name, tp__skill *ret_skill, tp_fault *fault);
void tp__skill_fini(tp__skill *skill);
/** @return TP_OK; TP_ERR_IO, TP_ERR_BAD_ID, TP_ERR_FULL. */
tp_status tp__skill_list(int directory, tp__skill_names *ret_names, tp_fault *fault);

#endif
