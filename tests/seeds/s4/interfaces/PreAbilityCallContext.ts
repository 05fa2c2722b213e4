interface PreAbilityCallContext {
  event_type: "PreAbilityCall";
  session_id?: string;
  ability_id: string;

  // Task key is present for task-based runs.
  task_key?: string;

  // Optional summarized args / targets.
  args_summary?: string;

  caller: {
    source: InvocationSource;
    session_id?: string;
    job_id?: string;
    triggered_by?: string;
  };
}
