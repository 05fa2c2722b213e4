async function handleUserInput(rawInput: string, session: SessionState) {
  const promptCtx = buildPromptSubmitContext(rawInput, session);
  const promptResults = await runHooks("PromptSubmit", promptCtx, { blockingOnly: true });
  const promptSignals = collectHookSignals(promptResults);

  const turnContext = {
    user_raw_input: rawInput,
    hook_signals: promptSignals,
  };

  const startControl = {
    type: "control",
    turn_ready: true,
    source_event: "PromptSubmit",
    hook_signals: promptSignals,
  };

  const plan = await callAiPlanner(startControl, turnContext);

  // plan may include CREATE_TASK and RUN_TASK steps, handled below...
}
