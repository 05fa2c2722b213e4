type InvocationSource =
  | "ai_session"
  | "background_job"
  | "ci_pipeline"
  | "manual_cli";

interface PreAbilityCreateContext {
  event_type: "PreAbilityCreate";
  session_id?: string;

  // The target ability (high-level id) or low-level operation key.
  ability_ref: {
    kind: "ability_id" | "operation_key";
    value: string;
  };

  // A summary of input, not necessarily the full payload.
  input_summary?: string;

  // Optional runtime environment (dev/staging/prod), if known.
  environment?: string;

  caller: {
    source: InvocationSource;
    session_id?: string;
    job_id?: string;
    triggered_by?: string;
  };
}
