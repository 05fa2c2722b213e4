interface HookResult {
  // Infra fields: logs, telemetry, cache hints
  logs?: string[];
  usage_recorded?: boolean;

  // AI-facing events (PromptSubmit / PreAbilityCreate / PreAbilityCall) only:
  hook_signals?: HookSignal[];

  error?: {
    code: string;
    message: string;
  };
}
