/* SPDX-License-Identifier: Apache-2.0
 *
 * escape: finds where a text could be read as one of the library's tags. Pure; any thread. */
#ifndef TP__ESCAPE_H
#define TP__ESCAPE_H

#include "runtime/base/base.h"

/** The offset of the next `<`, at or after `from`, that opens or closes one of the library's tags, or may do so
 *  together with the text that follows; text.size when there is none. Linear: a scan of the whole text costs its
 *  size. */
size_t tp__escape_find(tp_text text, size_t from);

#endif
