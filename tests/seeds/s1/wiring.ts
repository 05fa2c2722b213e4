import {
  Session, HookRegistry, HookRuntime,
  ReminderInjector, createDefaultRegistry,
} from '@ownware/loom'

const registry = new HookRegistry()

registry.register('tool.pre', {
  type: 'fn',
  name: 'no-prod',
  fn: (ctx) => {
    if (ctx.event !== 'tool.pre') return { continue: true }
    const target = String(ctx.toolInput['file_path'] ?? '')
    if (target.startsWith('/srv/prod')) {
      return { continue: false, reason: 'Production paths are off-limits in this session.' }
    }
    return { continue: true }
  },
})

registry.register('session.end', {
  type: 'fn',
  name: 'archive',
  fn: async (ctx) => {
    if (ctx.event === 'session.end') await archiveRun(ctx.sessionId, ctx.reason)
    return { continue: true }
  },
})

// ONE injector, shared by the runtime and the session — this is what
// makes hook outcomes visible to the model on its next turn.
const reminders = new ReminderInjector(createDefaultRegistry())
const hooks = new HookRuntime({ registry, reminders })

const session = new Session({ config, provider, tools, hooks, reminders })
