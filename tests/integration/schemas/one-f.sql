-- A form of version 1, which followed version 12 before anything was released.
CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, name TEXT NOT NULL, next
  INTEGER NOT NULL, owner INTEGER NOT NULL, epoch INTEGER NOT NULL, running INTEGER NOT NULL, UNIQUE (tenant,
  name));
CREATE TABLE holder (process INTEGER PRIMARY KEY, process_id INTEGER NOT NULL, process_started INTEGER NOT NULL,
  end_ms INTEGER NOT NULL, boot_id TEXT NOT NULL);
CREATE TABLE message (id INTEGER PRIMARY KEY, session INTEGER NOT NULL, role INTEGER NOT NULL, is_error INTEGER
  NOT NULL, turn TEXT NOT NULL, text TEXT NOT NULL, call_id TEXT NOT NULL, name TEXT NOT NULL, parts BLOB NOT
  NULL, value BLOB NOT NULL, provider_data BLOB NOT NULL, ending BLOB NOT NULL, unix_ms INTEGER NOT NULL, position
  INTEGER NOT NULL);
CREATE UNIQUE INDEX message_position ON message (session, position);
CREATE TABLE tool_call (message INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT
  NULL, malformed INTEGER NOT NULL, arguments BLOB NOT NULL, PRIMARY KEY (message, position)) WITHOUT ROWID;
CREATE TABLE process (id INTEGER PRIMARY KEY, process_id INTEGER NOT NULL, process_started INTEGER NOT NULL,
  opened_unix_ms INTEGER NOT NULL, boot_id TEXT NOT NULL);
CREATE TABLE entry (number INTEGER PRIMARY KEY, process INTEGER NOT NULL, id INTEGER NOT NULL, plan_hash INTEGER
  NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, started_unix_ms INTEGER NOT NULL, phase
  INTEGER NOT NULL, status INTEGER NOT NULL, tenant TEXT NOT NULL, agent TEXT NOT NULL, workspace TEXT NOT NULL,
  session TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL, task TEXT NOT NULL, run TEXT NOT NULL);
CREATE UNIQUE INDEX entry_id ON entry (process, id);
CREATE INDEX entry_session ON entry (session);
CREATE INDEX entry_turn ON entry (turn);
CREATE INDEX entry_running ON entry (process) WHERE ended_ns = 0;
CREATE TABLE run (entry INTEGER NOT NULL, position INTEGER NOT NULL, queued_ns INTEGER NOT NULL, started_ns
  INTEGER NOT NULL, ended_ns INTEGER NOT NULL, late_ns INTEGER NOT NULL, code INTEGER NOT NULL, contribution_count
  INTEGER NOT NULL, attempts INTEGER NOT NULL, state INTEGER NOT NULL, reason INTEGER NOT NULL, verdict INTEGER
  NOT NULL, execution INTEGER NOT NULL, failure INTEGER NOT NULL, fallback_used INTEGER NOT NULL, visibility
  INTEGER NOT NULL, limit_ms INTEGER NOT NULL, handler_thread INTEGER NOT NULL, subscription TEXT NOT NULL,
  handler TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (entry, position)) WITHOUT ROWID;
CREATE TABLE audit (row INTEGER PRIMARY KEY, process INTEGER NOT NULL, unix_ms INTEGER NOT NULL, status INTEGER
  NOT NULL, phase INTEGER NOT NULL, snapshot_hash INTEGER NOT NULL, duration_ns INTEGER NOT NULL, state INTEGER
  NOT NULL, reason INTEGER NOT NULL, visibility INTEGER NOT NULL, owner TEXT NOT NULL, action TEXT NOT NULL,
  detail TEXT NOT NULL, turn TEXT NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, subscription TEXT);
CREATE TABLE turn (row INTEGER PRIMARY KEY, process INTEGER NOT NULL, number INTEGER NOT NULL, outcome INTEGER
  NOT NULL, code INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, started_unix_ms INTEGER
  NOT NULL, ended_unix_ms INTEGER NOT NULL, load_ns INTEGER NOT NULL, model_ns INTEGER NOT NULL, tools_ns INTEGER
  NOT NULL, append_ns INTEGER NOT NULL, iterations INTEGER NOT NULL, tool_calls INTEGER NOT NULL, input_tokens
  INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL, phase INTEGER NOT NULL,
  steps_dropped INTEGER NOT NULL, subscription TEXT NOT NULL, reason TEXT NOT NULL, parent_turn TEXT NOT NULL,
  finish INTEGER NOT NULL, finish_word TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT NOT NULL, workspace TEXT
  NOT NULL, session TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL, task TEXT NOT NULL, run TEXT NOT
  NULL);
CREATE INDEX turn_number ON turn (process, number);
CREATE INDEX turn_session ON turn (session);
CREATE INDEX turn_turn ON turn (turn);
CREATE TABLE job (place INTEGER NOT NULL, is_first INTEGER NOT NULL, due_ms INTEGER NOT NULL, process INTEGER
  NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL, id INTEGER PRIMARY KEY AUTOINCREMENT, claim INTEGER NOT
  NULL, state INTEGER NOT NULL, attempt INTEGER NOT NULL, attempts_max INTEGER NOT NULL, backoff INTEGER NOT NULL,
  backoff_ms INTEGER NOT NULL, limit_ms INTEGER NOT NULL, phase INTEGER NOT NULL, contract_version INTEGER NOT
  NULL, reason INTEGER NOT NULL, code INTEGER NOT NULL, inserted_ms INTEGER NOT NULL, claimable_ms INTEGER NOT
  NULL, lease_end_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, handler TEXT NOT NULL, subscription TEXT NOT
  NULL, idempotency_key TEXT NOT NULL UNIQUE, order_key TEXT NOT NULL, message TEXT NOT NULL, payload BLOB NOT
  NULL, postponed_ms INTEGER NOT NULL);
CREATE INDEX job_order ON job (order_key, place) WHERE state IN (1, 2);
CREATE INDEX job_ready ON job (handler, contract_version, id, due_ms) WHERE is_first = 1;
CREATE INDEX job_due ON job (due_ms) WHERE is_first = 1;
CREATE INDEX job_running ON job (process) WHERE state = 2;
CREATE INDEX job_done ON job (ended_ms, id) WHERE state IN (3, 5);
CREATE INDEX job_dead ON job (ended_ms, id) WHERE state = 4;
CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counter VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0);
CREATE TRIGGER job_inserted AFTER INSERT ON job BEGIN UPDATE counter SET value = value + 1 WHERE id = NEW.state;
  END;
CREATE TRIGGER job_moved AFTER UPDATE OF state ON job WHEN OLD.state <> NEW.state BEGIN UPDATE counter SET value
  = value - 1 WHERE id = OLD.state; UPDATE counter SET value = value + 1 WHERE id = NEW.state; END;
CREATE TRIGGER job_deleted AFTER DELETE ON job BEGIN UPDATE counter SET value = value - 1 WHERE id = OLD.state;
  END;
CREATE TABLE step (turn INTEGER NOT NULL, position INTEGER NOT NULL, kind INTEGER NOT NULL, round INTEGER NOT
  NULL, place INTEGER NOT NULL, outcome INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
  name TEXT NOT NULL, PRIMARY KEY (turn, position)) WITHOUT ROWID;
CREATE TRIGGER turn_deleted AFTER DELETE ON turn BEGIN DELETE FROM step WHERE turn = OLD.row; END;
CREATE TABLE running (row INTEGER PRIMARY KEY, state INTEGER NOT NULL, process INTEGER NOT NULL, number INTEGER
  NOT NULL, outcome INTEGER NOT NULL, code INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT
  NULL, started_unix_ms INTEGER NOT NULL, ended_unix_ms INTEGER NOT NULL, load_ns INTEGER NOT NULL, model_ns
  INTEGER NOT NULL, tools_ns INTEGER NOT NULL, append_ns INTEGER NOT NULL, iterations INTEGER NOT NULL, tool_calls
  INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER NOT NULL,
  phase INTEGER NOT NULL, steps_dropped INTEGER NOT NULL, subscription TEXT NOT NULL, reason TEXT NOT NULL,
  parent_turn TEXT NOT NULL, finish INTEGER NOT NULL, finish_word TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT
  NOT NULL, workspace TEXT NOT NULL, session TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL, task TEXT
  NOT NULL, run TEXT NOT NULL);
CREATE UNIQUE INDEX running_number ON running (process, number);
CREATE TABLE running_step (running INTEGER NOT NULL, position INTEGER NOT NULL, kind INTEGER NOT NULL, round
  INTEGER NOT NULL, place INTEGER NOT NULL, outcome INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns
  INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (running, position)) WITHOUT ROWID;
CREATE TRIGGER running_deleted AFTER DELETE ON running BEGIN DELETE FROM running_step WHERE running = OLD.row;
  END;
CREATE TABLE died (row INTEGER PRIMARY KEY AUTOINCREMENT, process INTEGER NOT NULL UNIQUE, turn INTEGER NOT
  NULL);
CREATE TABLE attempt (row INTEGER PRIMARY KEY, process INTEGER NOT NULL, entry INTEGER NOT NULL, position
  INTEGER NOT NULL, number INTEGER NOT NULL, queued_ns INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns
  INTEGER NOT NULL, late_ns INTEGER NOT NULL, state INTEGER NOT NULL, reason INTEGER NOT NULL, verdict INTEGER NOT
  NULL, code INTEGER NOT NULL, message TEXT NOT NULL);
CREATE INDEX attempt_entry ON attempt (process, entry);
CREATE TRIGGER entry_deleted AFTER DELETE ON entry BEGIN DELETE FROM attempt WHERE process = OLD.process AND
  entry = OLD.id; END;
CREATE TABLE tool_start (row INTEGER PRIMARY KEY AUTOINCREMENT, run_process INTEGER NOT NULL, run_turn INTEGER
  NOT NULL, call_index INTEGER NOT NULL, kind INTEGER NOT NULL, started_unix_ms INTEGER NOT NULL, tenant TEXT NOT
  NULL, session TEXT NOT NULL, turn TEXT NOT NULL, tool TEXT NOT NULL, call_id TEXT NOT NULL, arguments BLOB NOT
  NULL, result TEXT, value BLOB, parts BLOB);
CREATE INDEX tool_start_turn ON tool_start (turn, session, tenant);
CREATE TABLE content (row INTEGER PRIMARY KEY, process INTEGER NOT NULL, entry INTEGER NOT NULL, position
  INTEGER NOT NULL, field INTEGER NOT NULL, kind INTEGER NOT NULL, bytes INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE INDEX content_entry ON content (process, entry);
CREATE TRIGGER entry_content_deleted AFTER DELETE ON entry BEGIN DELETE FROM content WHERE process = OLD.process
  AND entry = OLD.id; END;
CREATE TABLE question (number INTEGER PRIMARY KEY AUTOINCREMENT, state INTEGER NOT NULL, waits INTEGER NOT NULL,
  asked_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, answered_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL,
  tenant TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL, tool TEXT NOT NULL,
  call_id TEXT NOT NULL, arguments BLOB NOT NULL, hash TEXT NOT NULL, subscription TEXT NOT NULL, reason TEXT NOT
  NULL, person TEXT NOT NULL, answer TEXT NOT NULL, edited BLOB NOT NULL);
CREATE INDEX question_call ON question (turn, call_id, session, tenant);
CREATE TABLE task (key TEXT PRIMARY KEY, is_begun INTEGER NOT NULL, created_unix_ms INTEGER NOT NULL, tool TEXT
  NOT NULL, agent TEXT NOT NULL, arguments BLOB NOT NULL, hash BLOB NOT NULL, tenant TEXT NOT NULL, session TEXT
  NOT NULL) WITHOUT ROWID;
