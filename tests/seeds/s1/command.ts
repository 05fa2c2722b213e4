registry.register('tool.pre', {
  type: 'command',
  name: 'policy-check',
  command: './hooks/check.sh',
  timeoutMs: 10_000,
})
