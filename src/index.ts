export { type Agent, defineAgent } from './agent/define-agent.ts';
export type { Task } from './agent/task.ts';
