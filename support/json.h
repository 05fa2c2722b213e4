/* SPDX-License-Identifier: Apache-2.0
 *
 * json: writes texts as JSON, for code that writes JSON itself. No state. */
#ifndef TP__SUPPORT_JSON_H
#define TP__SUPPORT_JSON_H

#include "support/bytes.h"

/** Adds a text in quotation marks; bytes that are not UTF-8 are replaced. */
void tp__put_json(tp__bytes *out, tp_text text);

#endif
