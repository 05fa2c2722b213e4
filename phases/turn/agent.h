/* SPDX-License-Identifier: Apache-2.0
 *
 * agent: the things that several sessions share: a built config, a system text, a model. Has no lock. References: one
 * of the host's handle, one of each session and turn that uses it, one of each find. An agent is built, registered and
 * unregistered in small turns of its own. */
#ifndef TP__AGENT_H
#define TP__AGENT_H

#include "phases/model/model.h"
#include "turnphase/turn.h"

struct tp_agent {
  /* under the lock of agents.h */
  tp__link link;
  uint64_t number; /* agents after it in the list have higher numbers */
  bool visible;    /* registered, and not removed */
  /* never change once it is visible */
  tp_runtime *runtime;
  char *id;
  char *system;      /* standing text, with the sections of agent.build; NULL: none */
  char *model_name;  /* NULL: none */
  tp_text config;    /* as agent.build left it: owned */
  tp_text scope;     /* part of config: the array of patterns of the tools that its turns may use; empty: all */
  tp_text denied;    /* part of config: the array of patterns of those that they may not use all the same, or empty */
  tp__models models; /* may be none */
  void *data;        /* the host's */
  /* atomic */
  tp__a32 refs;
  tp__a32 registered; /* 1: agent.unregister must still run, on the thread that sets this to 0 */
  tp__a32 replaced;   /* 1: sessions look for the agent that has its id now */
};
void tp__agent_ref(tp_agent *agent);
void tp__agent_unref(tp_agent *agent);
/** tp__layer_ops: runs agent.unregister for every agent that is left, the newest first. */
void tp__agents_unregister_all(tp_runtime *runtime);

#endif
