/* SPDX-License-Identifier: Apache-2.0
 *
 * json: texts as JSON, for those who write it themselves. No state. */
#ifndef TP__SUPPORT_JSON_H
#define TP__SUPPORT_JSON_H

#include "support/bytes.h"

/** Adds a text with its quotation marks; what is not UTF-8 is replaced. */
void tp__put_json(tp__bytes *out, tp_text text);

#endif
