/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_config: the config of an agent as a value: the keys with a fixed form, and its initial content. Owns nothing,
 * has no lock; any thread. */
#ifndef TP__AGENT_CONFIG_H
#define TP__AGENT_CONFIG_H

#include "phases/turn/agent.h"

/** Checks the keys of a config that have a fixed form: tools, tools_denied, skills (arrays of texts), environment (a
 *  map of texts), resources (a map of arrays of texts). @param what the name of the map in the fault.
 *  @return TP_ERR_MALFORMED. */
tp_status tp__agent_config_check(tp_text map, const char *agent, const char *what, tp_fault *fault);
/** Checks the data that the host gave in addition to the fields. @return the error of tp_value_check();
 *  TP_ERR_MALFORMED. */
tp_status tp__agent_extra_check(const tp_agent_config *config, tp_fault *fault);
/** Writes the payload with which agent.build begins. @param ret_writer owns the value; the caller frees it. */
tp_status tp__agent_config_write(const tp_allocator *allocator, const tp_agent_config *config, tp_writer **ret_writer,
                                 tp_text *ret_value);

#endif
