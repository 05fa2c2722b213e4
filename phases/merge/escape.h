/* SPDX-License-Identifier: Apache-2.0
 *
 * escape: where a text could be read as one of our tags. Pure; any thread. */
#ifndef TP__ESCAPE_H
#define TP__ESCAPE_H

#include "runtime/base/base.h"

/** The offset of the next `<` at or after from that opens or closes one of our tags, or may do so together with what
 *  follows the text; text.size when there is none. Linear: a scan of the whole text costs its size. */
size_t tp__escape_find(tp_text text, size_t from);

#endif
