class HookManager {
  private hooks = new Map<string, HookRegistration[]>();

  register(registration: HookRegistration): void {
    // Check trust tier for privileged hooks
    if (PRIVILEGED_HOOKS.includes(registration.hookName)) {
      if (!registration.isBuiltIn && !registration.hasPrivilegedPermission) {
        throw new Error(`Plugin ${registration.pluginName} lacks privileged_hooks permission`);
      }
    }
    // Append in registration order
  }

  async execute(hookName: string, context: HookContext, data: unknown): Promise<unknown> {
    const handlers = this.hooks.get(hookName) ?? [];
    let result = data;
    for (const { handler, pluginName } of handlers) {
      try {
        result = await withTimeout(handler(context, result), this.timeoutMs);
      } catch (err) {
        // Log error, continue to next handler
        // Emit audit event for hook failure
      }
    }
    return result;
  }
}
