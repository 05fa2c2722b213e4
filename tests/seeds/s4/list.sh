./scripts/hooks/list
