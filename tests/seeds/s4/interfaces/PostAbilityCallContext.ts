interface PostAbilityCallContext {
  event_type: "PostAbilityCall";
  session_id?: string;
  ability_id: string;
  task_key?: string;
  status: "success" | "failure" | "partial";
  duration_ms?: number;
  input_summary?: string;
  output_summary?: string;
  error_message?: string;
}
