export const HookName = z.enum([
  'onIntake',
  'onContextAssembled',
  'onModelResponse',
  'onToolResult',
  'onTurnComplete',
]);

export const PRIVILEGED_HOOKS: HookName[] = ['onContextAssembled', 'onModelResponse'];

interface HookContext {
  agentId: string;
  sessionId: string;
  runId: string;
  // Hook-specific data varies by hook point
}

type HookHandler = (context: HookContext, data: unknown) => Promise<unknown>;

interface HookRegistration {
  hookName: string;
  handler: HookHandler;
  pluginName: string;
  isBuiltIn: boolean;
  hasPrivilegedPermission: boolean;
}
