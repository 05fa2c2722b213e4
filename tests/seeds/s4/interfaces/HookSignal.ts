type HookSignalKind =
  | "routing_hint"       // PromptSubmit: ability/doc suggestions
  | "normalized_intent"  // PromptSubmit: structured task description
  | "ability_preflight"  // PreAbilityCreate: availability + preflight result
  | "ability_guard";     // PreAbilityCall: allow/deny/require-human

interface HookSignal {
  source_event: "PromptSubmit" | "PreAbilityCreate" | "PreAbilityCall";
  hook_id: string;
  kind: HookSignalKind;
  code: string;
  severity?: "info" | "warning" | "error";
  payload: any;
}
