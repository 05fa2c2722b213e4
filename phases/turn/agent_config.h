/* SPDX-License-Identifier: Apache-2.0
 *
 * agent_config: the config of an agent as a value: what of it has a fixed shape, and how it begins. Owns nothing, has
 * no lock; any thread. */
#ifndef TP__AGENT_CONFIG_H
#define TP__AGENT_CONFIG_H

#include "phases/turn/agent.h"

/** The keys of a config that have a shape: tools, skills (arrays of texts), environment (a map of texts), resources (a
 *  map of arrays of texts). @param what  what the map is called in the fault. @return TP_ERR_MALFORMED. */
tp_status tp__agent_config_check(tp_text map, const char *agent, const char *what, tp_fault *fault);
/** What the host gave beside its fields. @return what tp_value_check() says; TP_ERR_MALFORMED. */
tp_status tp__agent_extra_check(const tp_agent_config *config, tp_fault *fault);
/** The payload with which agent.build begins. @param ret_writer  owns the value; of the caller. */
tp_status tp__agent_config_write(const tp_allocator *allocator, const tp_agent_config *config, tp_writer **ret_writer,
                                 tp_text *ret_value);

#endif
