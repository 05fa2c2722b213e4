interface SessionStopContext {
  event_type: "SessionStop";
  session_id: string;
  changed_files?: string[];
  abilities_used?: string[];
  tasks_summary?: Array<{
    task_key: string;
    ability_id: string;
    status: "success" | "failure" | "partial";
  }>;
  started_at?: string;
  ended_at?: string;
}
