#![allow(unused)]
fn main() {
pub trait Hook: Send + Sync {
fn schema(&self) -> Vec<Tool> { vec![] }
fn system_prompt(&self) -> Option<String> { None }
fn on_build_agent(&self, config: AgentConfig) -> AgentConfig { config }
fn on_register_agent(&self, name: &str, config: &AgentConfig) {}
fn on_unregister_agent(&self, name: &str) {}
fn on_event(&self, agent: &str, conversation_id: u64, event: &AgentEvent) {}
fn preprocess(&self, agent: &str, content: &str) -> Option<String> { None }
fn scoped_tools(&self, config: &AgentConfig) -> (Vec<String>, Option<String>);
fn dispatch<'a>(&'a self, name: &'a str, call: ToolDispatch) -> Option<ToolFuture<'a>> { None }
}
}
