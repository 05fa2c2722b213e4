/* SPDX-License-Identifier: Apache-2.0
 *
 * redact: patterns of secrets, from files with `kind: redact` (docs/hooks.md). Each is a regular expression as in
 * matchers (hook_matcher.c), compiled once. A redactor is filled before a runtime gets it, and never changes
 * afterwards, so it has no lock. */
#ifndef TP__DECLARED_REDACT_H
#define TP__DECLARED_REDACT_H

#include "domains/declared/yaml.h"
#include "turnphase/declared.h"

enum {
  TP__REDACT_PATTERNS_MAX = 256,
  TP__REDACT_NAME_MAX = 32,       /* bytes */
  TP__REDACT_REPLACEMENT_MAX = 64 /* bytes */
};

/** Whether the document is one of patterns. */
bool tp__redact_is(const tp__yaml *yaml);
/** Adds the patterns of a document.
 *  @param file  the fault's subject. @param text  of the file; tp__redact_has() compares it later.
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_TOO_LARGE with line, column and remedy; TP_ERR_NO_MEMORY. */
tp_status tp__redact_add(tp_redactor *redactor, const tp__yaml *yaml, const char *file, tp_text text, tp_fault *fault);
/** Whether the redactor has the patterns of a file with this text. */
bool tp__redact_has(const tp_redactor *redactor, tp_text text);

#endif
