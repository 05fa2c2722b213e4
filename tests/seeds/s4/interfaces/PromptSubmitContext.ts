interface PromptSubmitContext {
  event_type: "PromptSubmit";
  session_id: string;
  user_raw_input: string;
  current_files?: string[];
}
