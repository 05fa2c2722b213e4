/* SPDX-License-Identifier: Apache-2.0
 *
 * settings: the options of a server, checked and copied. */
#ifndef TP__MCP_SETTINGS_H
#define TP__MCP_SETTINGS_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/mcp.h"

/** Every string and list of the options is the struct's own. Zero-filled is none. */
typedef struct tp__mcp_settings {
  tp_mcp_options options;   /* sampling is NULL: it is here */
  bool has_sampling;        /* servers are told so */
  bool has_model;           /* of sampling */
  tp_mcp_sampling sampling; /* model is NULL: it is here */
  tp_model model;           /* without destroy: it stays the host's */
} tp__mcp_settings;

/** Copies options, with the defaults in place of 0.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_BAD_ID, TP_ERR_VERSION, TP_ERR_NO_MEMORY: then there is nothing to end. */
tp_status tp__mcp_settings_init(tp__mcp_settings *settings, const tp_mcp_options *options, tp_fault *fault);
void tp__mcp_settings_fini(tp__mcp_settings *settings);

#endif
