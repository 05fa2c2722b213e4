/* SPDX-License-Identifier: Apache-2.0
 *
 * toml: reads a text in TOML 1.0 as a value, for settings of hosts that use it. An error is refused with line and
 * column. */
#ifndef CLI_TOML_H
#define CLI_TOML_H

#include "turnphase/value.h"

/** Reads TOML 1.0. Keys of tables are kept in the order of their first appearance; dates and times become texts.
 *  @param writer  gets the whole file as a map; untouched when it is refused.
 *  @return TP_OK; TP_ERR_MALFORMED, TP_ERR_TOO_DEEP, TP_ERR_TOO_LARGE, TP_ERR_NO_MEMORY, with line and column. */
tp_status cli_toml_decode(tp_text toml, tp_writer *writer, tp_fault *fault) TP_MUST_USE;

#endif
