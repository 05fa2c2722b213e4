/* SPDX-License-Identifier: Apache-2.0
 *
 * settings: the options of a server, checked and copied. */
#ifndef TP__MCP_SETTINGS_H
#define TP__MCP_SETTINGS_H

#include "support/bytes.h"
#include "support/fault.h"
#include "turnphase/mcp.h"

/** A copy of the options: the struct owns every string and list. Zero-filled: nothing to free. */
typedef struct tp__mcp_settings {
  tp_mcp_options options;   /* sampling is NULL here: it is the member below */
  bool has_sampling;        /* set when sampling is declared to servers */
  bool has_model;           /* set when sampling has a model */
  tp_mcp_sampling sampling; /* model is NULL here: it is the member below */
  tp_model model;           /* without destroy: the model stays the host's */
} tp__mcp_settings;

/** Copies options, with the defaults in place of 0.
 *  @return TP_OK; TP_ERR_USAGE, TP_ERR_BAD_ID, TP_ERR_VERSION, TP_ERR_NO_MEMORY: then there is nothing to free. */
tp_status tp__mcp_settings_init(tp__mcp_settings *settings, const tp_mcp_options *options, tp_fault *fault);
void tp__mcp_settings_fini(tp__mcp_settings *settings);

#endif
